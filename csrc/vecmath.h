/* exp and log1p without branches or tables: for one number, written so that loops over them
 * vectorize, and for a vector.
 *
 * exp: x = k ln2 + r with |r| <= ln2/2; e^r by a polynomial of degree 11 that minimizes the largest
 * relative error (2^-56.7, found by Remez's algorithm) among those that begin 1 + r; scaled by 2^k
 * through the exponent bits.  Error below 2 ulp on [-708, 709] (tests measure it against 100-digit
 * arithmetic).  NaN gives NaN.  Arguments are clamped to [-708, 709]: below, the result is at most
 * 3.4e-308 instead of a denormal or zero; above, it stays finite. */
#ifndef DPFAST_VECMATH_H
#define DPFAST_VECMATH_H

#include <stdint.h>
#include <string.h>

#include "simd.h"

#define EXP_LOG2E 1.4426950408889634074
#define EXP_LN2_HIGH 6.93147180369123816490e-01 /* 32 leading bits: k * it is exact */
#define EXP_LN2_LOW 1.90821492927058770002e-10
#define EXP_SHIFTER 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer */
#define EXP_C2 0.5000000000000006
#define EXP_C3 0.16666666666666669
#define EXP_C4 0.04166666666657442
#define EXP_C5 0.008333333333327404
#define EXP_C6 0.0013888888932153118
#define EXP_C7 0.0001984126987148708
#define EXP_C8 2.480150469276062e-05
#define EXP_C9 2.7557258834798824e-06
#define EXP_C10 2.762623494002411e-07
#define EXP_C11 2.510400221483515e-08

DPFAST_INLINE double dpfast_exp_inline(double x)
{
    double shifted, k, r, r2, r4, low, high, scale;
    uint64_t bits;

    /* Written so that NaN fails both comparisons and passes through. */
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    shifted = x * EXP_LOG2E + EXP_SHIFTER;
    k = shifted - EXP_SHIFTER;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023u) << 52; /* the low bits of `shifted` are k in two's complement */
    memcpy(&scale, &bits, sizeof scale);
    r = x - k * EXP_LN2_HIGH;
    r = r - k * EXP_LN2_LOW;
    /* Pairs first: a stochastic step waits for the result. */
    r2 = r * r;
    r4 = r2 * r2;
    low = (EXP_C2 + EXP_C3 * r) + r2 * (EXP_C4 + EXP_C5 * r);
    high = (EXP_C6 + EXP_C7 * r) + r2 * (EXP_C8 + EXP_C9 * r) + r4 * (EXP_C10 + EXP_C11 * r);
    return (1.0 + (r + r2 * (low + r4 * high))) * scale;
}

/* Vectors take exp in steps: x = k EXP_STEP + r with |r| <= EXP_STEP / 2. */
#if VECTOR_AVX512
/* Sixteen steps to a doubling, so that a polynomial of degree 6 is enough (2^-56.2).  The bits of
 * 2^(i/16), less i << 48: adding k << 48, i = k mod 16, gives those of 2^(k/16). */
static const int64_t exp_table[16] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
    0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
    0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da,
};
#define EXP_STEPS 16.0
#define EXP_T2 0.49999999999999604364
#define EXP_T3 0.16666666664417970816
#define EXP_T4 0.041666666693249906281
#define EXP_T5 0.0083334719207570246015
#define EXP_T6 0.0013888594066415051024
#else
#define EXP_STEPS 1.0
#endif
#define EXP_STEP (0.69314718055994530942 / EXP_STEPS)

/* exp of k EXP_STEP + r; `shifted` is k + EXP_SHIFTER. */
DPFAST_INLINE vec vec_exp_steps(vec shifted, vec r)
{
#if VECTOR_AVX512
    const __m512i k = (__m512i)shifted;
    const __m512d root = _mm512_permutex2var_pd(_mm512_loadu_pd(exp_table), k,
                                                _mm512_loadu_pd(exp_table + 8));
    const vec scale = (vec)_mm512_add_epi64((__m512i)root, _mm512_slli_epi64(k, 48));
    vec p = vec_mul_add(vec_set(EXP_T6), r, vec_set(EXP_T5));
    p = vec_mul_add(p, r, vec_set(EXP_T4));
    p = vec_mul_add(p, r, vec_set(EXP_T3));
    p = vec_mul_add(p, r, vec_set(EXP_T2));
    p = vec_mul_add(p, r, vec_set(1.0));
    return vec_mul_add(vec_mul(p, r), scale, scale);
#else
    const vec r2 = vec_mul(r, r), r4 = vec_mul(r2, r2);
    const vec c23 = vec_mul_add(vec_set(EXP_C3), r, vec_set(EXP_C2));
    const vec c45 = vec_mul_add(vec_set(EXP_C5), r, vec_set(EXP_C4));
    const vec c67 = vec_mul_add(vec_set(EXP_C7), r, vec_set(EXP_C6));
    const vec c89 = vec_mul_add(vec_set(EXP_C9), r, vec_set(EXP_C8));
    const vec c1011 = vec_mul_add(vec_set(EXP_C11), r, vec_set(EXP_C10));
    const vec low = vec_mul_add(r2, c45, c23);
    const vec high = vec_mul_add(r4, c1011, vec_mul_add(r2, c89, c67));
    const vec p = vec_mul_add(r2, vec_mul_add(r4, high, low), r);
    return vec_mul(vec_add(p, vec_set(1.0)), vec_shifted_bits(shifted, 1023, 52));
#endif
}

/* exp of each lane of x; `negative` says that no lane is above 0. */
DPFAST_INLINE vec vec_exp(vec x, int negative)
{
    vec shifted, k, r;
    x = vec_at_least(x, vec_set(-708.0));
    if (!negative) {
        x = vec_at_most(x, vec_set(709.0));
    }
    shifted = vec_mul_add(x, vec_set(EXP_STEPS * EXP_LOG2E), vec_set(EXP_SHIFTER));
    k = vec_sub(shifted, vec_set(EXP_SHIFTER));
    r = vec_mul_add(k, vec_set(-EXP_LN2_HIGH / EXP_STEPS), x);
    r = vec_mul_add(k, vec_set(-EXP_LN2_LOW / EXP_STEPS), r);
    return vec_exp_steps(shifted, r);
}

/* exp(x EXP_STEP) of each lane of x, which are at least -1000 EXP_STEPS and at most 1000 EXP_STEPS,
 * or NaN; its error is that of rounding x, beside a few ulp. */
DPFAST_INLINE vec vec_exp_scaled(vec x)
{
    const vec shifted = vec_add(x, vec_set(EXP_SHIFTER));
    const vec k = vec_sub(shifted, vec_set(EXP_SHIFTER));
    return vec_exp_steps(shifted, vec_mul(vec_sub(x, k), vec_set(EXP_STEP)));
}

/* log(1 + e) for e in [0, 1], without branches.  With s = e / (2 + e) <= 1/3, it is
 * 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...), cut after s^33 (the rest is below 2^-57 relative). */
DPFAST_INLINE double dpfast_log1p_inline(double e)
{
    const double s = e / (2.0 + e);
    const double t = s * s;
    double p = 1.0 / 33.0;
    p = p * t + 1.0 / 31.0;
    p = p * t + 1.0 / 29.0;
    p = p * t + 1.0 / 27.0;
    p = p * t + 1.0 / 25.0;
    p = p * t + 1.0 / 23.0;
    p = p * t + 1.0 / 21.0;
    p = p * t + 1.0 / 19.0;
    p = p * t + 1.0 / 17.0;
    p = p * t + 1.0 / 15.0;
    p = p * t + 1.0 / 13.0;
    p = p * t + 1.0 / 11.0;
    p = p * t + 1.0 / 9.0;
    p = p * t + 1.0 / 7.0;
    p = p * t + 1.0 / 5.0;
    p = p * t + 1.0 / 3.0;
    return 2.0 * s + 2.0 * s * (t * p);
}

#endif
