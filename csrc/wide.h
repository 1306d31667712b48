/* The 128-bit product of two 64-bit numbers. */
#ifndef DPFAST_WIDE_H
#define DPFAST_WIDE_H

#include <stdint.h>

#include "compiler.h"

#if DPFAST_UMUL128
#include <intrin.h>
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
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32;
    const uint64_t b0 = (uint32_t)b, b1 = b >> 32;
    /* None of these sums can overflow: (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1. */
    const uint64_t p00 = a0 * b0;
    const uint64_t p10 = a1 * b0 + (p00 >> 32);
    const uint64_t p01 = a0 * b1 + (uint32_t)p10;
    /*@ assert a == 0x100000000 * a1 + a0 && b == 0x100000000 * b1 + b0; */
    /*@ assert a * b == (0x100000000 * a1 + a0) * (0x100000000 * b1 + b0); */
    /*@ assert p00 == 0x100000000 * (p00 >> 32) + (uint32_t)p00; */
    /*@ assert p10 == 0x100000000 * (p10 >> 32) + (uint32_t)p10; */
    /*@ assert p01 == 0x100000000 * (p01 >> 32) + (uint32_t)p01; */
    /*@ assert a1 * b1 <= 0xffffffff * 0xffffffff; */
    /*@ assert (p10 >> 32) <= 0xffffffff && (p01 >> 32) <= 0xffffffff; */
    *high = a1 * b1 + (p10 >> 32) + (p01 >> 32);
    return ((uint64_t)(uint32_t)p01 << 32) + (uint32_t)p00;
#endif
}

#endif
