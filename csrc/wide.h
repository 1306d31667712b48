/* The 128-bit product of two 64-bit numbers. */
#ifndef DPFAST_WIDE_H
#define DPFAST_WIDE_H

#include <stdint.h>

#include "compiler.h"

#if DPFAST_UMUL128
#include <intrin.h>
#endif

#if !DPFAST_INT128 && !DPFAST_UMUL128
static inline uint64_t multiply_halves(uint32_t a, uint32_t b)
{
    /*@ assert 0 <= a * b <= 0xffffffff * 0xffffffff; */
    return (uint64_t)a * b;
}
#endif

/* Returns the low 64 bits of a * b and sets *high to the others. */
static inline uint64_t wide_multiply(uint64_t a, uint64_t b, uint64_t *high)
{
#if DPFAST_INT128
    __extension__ typedef unsigned __int128 wide;
    const wide product = (wide)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
#elif DPFAST_UMUL128
    return _umul128(a, b, high);
#else
    const uint32_t a0 = (uint32_t)a, a1 = (uint32_t)(a >> 32);
    const uint32_t b0 = (uint32_t)b, b1 = (uint32_t)(b >> 32);
    /* None of these sums can overflow: (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1. */
    const uint64_t p00 = multiply_halves(a0, b0);
    const uint32_t c00 = (uint32_t)(p00 >> 32), r00 = (uint32_t)p00;
    const uint64_t p10 = multiply_halves(a1, b0) + c00;
    const uint32_t c10 = (uint32_t)(p10 >> 32), r10 = (uint32_t)p10;
    const uint64_t p01 = multiply_halves(a0, b1) + r10;
    const uint32_t c01 = (uint32_t)(p01 >> 32), r01 = (uint32_t)p01;
    /*@ assert a == 0x100000000 * a1 + a0; */
    /*@ assert b == 0x100000000 * b1 + b0; */
    /*@ assert a0 * b0 == 0x100000000 * c00 + r00; */
    /*@ assert p10 == a1 * b0 + c00; */
    /*@ assert p01 == a0 * b1 + r10; */
    /*@ assert a1 * b0 + c00 == 0x100000000 * c10 + r10; */
    /*@ assert a0 * b1 + r10 == 0x100000000 * c01 + r01; */
    /*@ assert a * b == (0x100000000 * a1 + a0) * (0x100000000 * b1 + b0); */
    *high = multiply_halves(a1, b1) + c10 + c01;
    /*@ assert *high == a1 * b1 + c10 + c01; */
    /*@ assert *high * 0x10000000000000000 + 0x100000000 * r01 + r00 == a * b; */
    return ((uint64_t)r01 << 32) + r00;
#endif
}

#endif
