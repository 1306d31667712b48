/* exp and log1p without branches or tables, so that loops over them vectorize.
 *
 * exp: x = k ln2 + r with |r| <= ln2/2; e^r by its Taylor polynomial of degree 13 (truncation
 * below 2^-58 relative); scaled by 2^k through the exponent bits.  Error below 1.5 ulp on
 * [-708, 709] (tests measure it against 100-digit arithmetic).  NaN gives NaN.  Arguments are
 * clamped to [-708, 709]: below, the result is at most 3.4e-308 instead of a denormal or zero;
 * above, it stays finite. */
#ifndef DPFAST_VECMATH_H
#define DPFAST_VECMATH_H

#include <stdint.h>
#include <string.h>

#include "simd.h"

DPFAST_INLINE double dpfast_exp_inline(double x)
{
    const double log2e = 1.4426950408889634074;
    const double ln2_high = 6.93147180369123816490e-01; /* 32 leading bits: k*ln2_high is exact */
    const double ln2_low = 1.90821492927058770002e-10;
    const double shifter = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double shifted, k, r, p, scale;
    uint64_t bits;

    /* Written so that NaN fails both comparisons and passes through. */
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    shifted = x * log2e + shifter;
    k = shifted - shifter;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023u) << 52; /* the low bits of `shifted` are k in two's complement */
    memcpy(&scale, &bits, sizeof scale);
    r = x - k * ln2_high;
    r = r - k * ln2_low;
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * scale;
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
