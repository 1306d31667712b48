/* A few doubles at a time: DPFAST_LANES of them, as many as suit the instruction set that the file
 * is compiled for (isa_<isa>_begin.h sets DPFAST_ISA_LEVEL; without it the file is compiled for
 * the default target).  With GCC and Clang this is a vector type; elsewhere a plain struct.  All functions are inlined into the file of one instruction
 * set, so no vector ever crosses a call boundary.
 *
 * "part" functions touch the first `count` < DPFAST_LANES entries only; the other lanes are 0. */
#ifndef DPFAST_SIMD_H
#define DPFAST_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

#ifndef DPFAST_ISA_LEVEL
#define DPFAST_ISA_LEVEL 0
#endif

/* Asks for the cache line at a byte offset from p; the address need not be valid.  FAR: into the second
 * level alone, what is needed after all that the first one holds. */
#if DPFAST_GNU
#define DPFAST_PREFETCH(p, offset) __builtin_prefetch((const void *)((uintptr_t)(p) + (offset)), 0, 3)
#define DPFAST_PREFETCH_FAR(p, offset) \
    __builtin_prefetch((const void *)((uintptr_t)(p) + (offset)), 0, 2)
#else
#define DPFAST_PREFETCH(p, offset) ((void)(p), (void)(offset))
#define DPFAST_PREFETCH_FAR(p, offset) DPFAST_PREFETCH(p, offset)
#endif

#if DPFAST_GNU
#define VECTOR_TYPE 1
#define DPFAST_INLINE static inline __attribute__((always_inline))
#define DPFAST_RESTRICT __restrict__
#else
#define VECTOR_TYPE 0
#if defined(_MSC_VER)
#define DPFAST_INLINE static __forceinline
#else
#define DPFAST_INLINE static inline
#endif
#define DPFAST_RESTRICT __restrict
#endif

/* The instructions that the compiler would not choose by itself; isa_headers.h has the header. */
#if VECTOR_TYPE && defined(__x86_64__)
#define VECTOR_AVX512 (DPFAST_ISA_LEVEL == 2)
#define VECTOR_AVX2 (DPFAST_ISA_LEVEL == 1)
#define VECTOR_SSE2 (DPFAST_ISA_LEVEL == 0)
#else
#define VECTOR_AVX512 0
#define VECTOR_AVX2 0
#define VECTOR_SSE2 0
#endif

#if VECTOR_SSE2
#include <emmintrin.h>
#endif

/* The width of a register: compilers take wider vectors apart badly.  The plain struct may have 4 or
 * 8 lanes too, if DPFAST_LANES says so; the analysis of tests/prove is of 2. */
#if VECTOR_AVX512
#define DPFAST_LANES 8
#elif VECTOR_AVX2
#define DPFAST_LANES 4
#elif VECTOR_TYPE || !defined(DPFAST_LANES)
#define DPFAST_LANES 2
#endif

/* ---- Arithmetic ------------------------------------------------------------------------------- */

#if VECTOR_TYPE
typedef double vec __attribute__((vector_size(8 * DPFAST_LANES)));
typedef int64_t vec_bits __attribute__((vector_size(8 * DPFAST_LANES)));
typedef float vec_floats __attribute__((vector_size(4 * DPFAST_LANES)));
#define EACH_LANE
#define IN(v) (v)
#define LANE(v, k) ((v)[k])
#else
typedef struct vec {
    double lane[DPFAST_LANES];
} vec;
#define EACH_LANE                                                                                  \
    int k_;                                                                                        \
    for (k_ = 0; k_ < DPFAST_LANES; k_++)
#define IN(v) ((v).lane[k_])
#define LANE(v, k) ((v).lane[k])
#endif

DPFAST_INLINE vec vec_set(double a)
{
#if VECTOR_AVX512 /* GCC would fill one lane after another */
    return (vec)_mm512_set1_pd(a);
#elif VECTOR_AVX2
    return (vec)_mm256_set1_pd(a);
#else
    vec v;
    int k;
    for (k = 0; k < DPFAST_LANES; k++) {
        LANE(v, k) = a;
    }
    return v;
#endif
}

DPFAST_INLINE vec vec_add(vec a, vec b)
{
    EACH_LANE { IN(a) += IN(b); }
    return a;
}

DPFAST_INLINE vec vec_sub(vec a, vec b)
{
    EACH_LANE { IN(a) -= IN(b); }
    return a;
}

DPFAST_INLINE vec vec_mul(vec a, vec b)
{
    EACH_LANE { IN(a) *= IN(b); }
    return a;
}

DPFAST_INLINE vec vec_div(vec a, vec b)
{
    EACH_LANE { IN(a) /= IN(b); }
    return a;
}

/* a * b + c, fused where the target can. */
DPFAST_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    EACH_LANE { IN(a) = IN(a) * IN(b) + IN(c); }
    return a;
}

DPFAST_INLINE vec vec_sqrt(vec a)
{
#if VECTOR_AVX512
    return (vec)_mm512_sqrt_pd((__m512d)a);
#elif VECTOR_AVX2
    return (vec)_mm256_sqrt_pd((__m256d)a);
#else
    int k;
    for (k = 0; k < DPFAST_LANES; k++) {
        LANE(a, k) = sqrt(LANE(a, k));
    }
    return a;
#endif
}

/* a < b ? x : y; NaN is not less than anything. */
DPFAST_INLINE vec vec_select_less(vec a, vec b, vec x, vec y)
{
#if VECTOR_AVX512
    return (vec)_mm512_mask_blend_pd(_mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ),
                                     (__m512d)y, (__m512d)x);
#elif VECTOR_AVX2
    return (vec)_mm256_blendv_pd((__m256d)y, (__m256d)x,
                                 _mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_LT_OQ));
#elif VECTOR_TYPE
    const vec_bits less = (vec_bits)(a < b);
    return (vec)(((vec_bits)x & less) | ((vec_bits)y & ~less));
#else
    EACH_LANE { IN(x) = IN(a) < IN(b) ? IN(x) : IN(y); }
    return x;
#endif
}

/* x, or `low` if x is less; NaN stays NaN. */
DPFAST_INLINE vec vec_at_least(vec x, vec low)
{
#if VECTOR_AVX512
    return (vec)_mm512_max_pd((__m512d)low, (__m512d)x); /* the second operand if one is NaN */
#elif VECTOR_AVX2
    return (vec)_mm256_max_pd((__m256d)low, (__m256d)x);
#elif VECTOR_SSE2
    return (vec)_mm_max_pd((__m128d)low, (__m128d)x);
#else
    return vec_select_less(x, low, low, x);
#endif
}

/* x, or `high` if x is more; NaN stays NaN. */
DPFAST_INLINE vec vec_at_most(vec x, vec high)
{
#if VECTOR_AVX512
    return (vec)_mm512_min_pd((__m512d)high, (__m512d)x);
#elif VECTOR_AVX2
    return (vec)_mm256_min_pd((__m256d)high, (__m256d)x);
#elif VECTOR_SSE2
    return (vec)_mm_min_pd((__m128d)high, (__m128d)x);
#else
    return vec_select_less(high, x, high, x);
#endif
}

/* -|x| */
DPFAST_INLINE vec vec_minus_abs(vec x)
{
#if VECTOR_TYPE
    const vec_bits sign = (vec_bits)vec_set(-0.0);
    return (vec)((vec_bits)x | sign);
#else
    EACH_LANE { IN(x) = -fabs(IN(x)); }
    return x;
#endif
}

/* Takes the bits of each lane for an integer; (that + add) << by are the bits of the result. */
DPFAST_INLINE vec vec_shifted_bits(vec x, int64_t add, int by)
{
#if VECTOR_TYPE
    return (vec)(((vec_bits)x + add) << by);
#else
    EACH_LANE
    {
        uint64_t bits;
        memcpy(&bits, &IN(x), sizeof bits);
        bits = (bits + (uint64_t)add) << by;
        memcpy(&IN(x), &bits, sizeof bits);
    }
    return x;
#endif
}

/* ---- Memory ----------------------------------------------------------------------------------- */

DPFAST_INLINE vec vec_load(const double *p)
{
    vec v;
    memcpy(&v, p, sizeof v); /* compiles to one unaligned load */
    return v;
}

DPFAST_INLINE void vec_store(double *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

/* Rounded to zero, of numbers that int32_t holds. */
DPFAST_INLINE void vec_store_integers(int32_t *p, vec v)
{
#if VECTOR_AVX512
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvttpd_epi32((__m512d)v));
#elif VECTOR_AVX2
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvttpd_epi32((__m256d)v));
#else
    int k;
    for (k = 0; k < DPFAST_LANES; k++) {
        const double x = LANE(v, k);
        p[k] = x == x && x > -2147483648.0 && x < 2147483648.0 ? (int32_t)x : 0;
    }
#endif
}

/* Floats, widened. */
DPFAST_INLINE vec vec_load_float(const float *p)
{
    /* One instruction where the compiler makes several of a generic conversion. */
#if VECTOR_AVX512
    return (vec)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif VECTOR_AVX2
    return (vec)_mm256_cvtps_pd(_mm_loadu_ps(p));
#elif VECTOR_TYPE
    vec_floats v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vec);
#else
    vec v;
    EACH_LANE { IN(v) = p[k_]; }
    return v;
#endif
}

#if VECTOR_AVX512
#define PART_MASK(count) ((__mmask8)((1u << (count)) - 1u))
#elif VECTOR_AVX2
/* Four entries from 4 - count on: `count` of them are ones. */
static const int64_t part_masks[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
static const int32_t part_masks_float[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
#define PART_MASK(count)                                                                           \
    _mm256_loadu_si256((const __m256i *)(const void *)(part_masks + 4 - (count)))
#define PART_MASK_FLOAT(count)                                                                     \
    _mm_loadu_si128((const __m128i *)(const void *)(part_masks_float + 4 - (count)))
#endif

DPFAST_INLINE vec vec_load_part(const double *p, ptrdiff_t count)
{
#if VECTOR_AVX512
    return (vec)_mm512_maskz_loadu_pd(PART_MASK(count), p);
#elif VECTOR_AVX2
    return (vec)_mm256_maskload_pd(p, PART_MASK(count));
#else
    vec v = vec_set(0.0);
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        LANE(v, k) = p[k];
    }
    return v;
#endif
}

DPFAST_INLINE vec vec_load_float_part(const float *p, ptrdiff_t count)
{
#if VECTOR_AVX512
    return (vec)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(PART_MASK(count), p));
#elif VECTOR_AVX2
    return (vec)_mm256_cvtps_pd(_mm_maskload_ps(p, PART_MASK_FLOAT(count)));
#else
    vec v = vec_set(0.0);
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        LANE(v, k) = p[k];
    }
    return v;
#endif
}

DPFAST_INLINE void vec_store_part(double *p, vec v, ptrdiff_t count)
{
#if VECTOR_AVX512
    _mm512_mask_storeu_pd(p, PART_MASK(count), (__m512d)v);
#elif VECTOR_AVX2
    _mm256_maskstore_pd(p, PART_MASK(count), (__m256d)v);
#else
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        p[k] = LANE(v, k);
    }
#endif
}

/* ---- Across lanes ----------------------------------------------------------------------------- */

DPFAST_INLINE double vec_sum(vec v)
{
#if VECTOR_AVX512
    return _mm512_reduce_add_pd((__m512d)v);
#elif VECTOR_AVX2
    return (LANE(v, 0) + LANE(v, 2)) + (LANE(v, 1) + LANE(v, 3));
#else
    double sum = LANE(v, 0);
    int k;
    for (k = 1; k < DPFAST_LANES; k++) {
        sum += LANE(v, k);
    }
    return sum;
#endif
}

DPFAST_INLINE double vec_product(vec v)
{
#if VECTOR_AVX512
    return _mm512_reduce_mul_pd((__m512d)v);
#elif VECTOR_AVX2
    return (LANE(v, 0) * LANE(v, 2)) * (LANE(v, 1) * LANE(v, 3));
#else
    double product = LANE(v, 0);
    int k;
    for (k = 1; k < DPFAST_LANES; k++) {
        product *= LANE(v, k);
    }
    return product;
#endif
}

/* Lane k of the result is the sum of the lanes of v[k]. */
DPFAST_INLINE vec vec_sums(const vec v[DPFAST_LANES])
{
#if VECTOR_AVX512
#define PAIRS(a, b) (_mm512_unpacklo_pd((__m512d)a, (__m512d)b) + _mm512_unpackhi_pd((__m512d)a, (__m512d)b))
    /* Lanes of p: v0 v1 v0 v1 ..., each the sum of two. */
    const __m512d p = PAIRS(v[0], v[1]), q = PAIRS(v[2], v[3]);
    const __m512d r = PAIRS(v[4], v[5]), s = PAIRS(v[6], v[7]);
#undef PAIRS
    /* Two by two: v0 v1 v0 v1 v2 v3 v2 v3, each the sum of four. */
    const __m512d pq = _mm512_shuffle_f64x2(p, q, 0x88) + _mm512_shuffle_f64x2(p, q, 0xdd);
    const __m512d rs = _mm512_shuffle_f64x2(r, s, 0x88) + _mm512_shuffle_f64x2(r, s, 0xdd);
    return (vec)(_mm512_shuffle_f64x2(pq, rs, 0x88) + _mm512_shuffle_f64x2(pq, rs, 0xdd));
#elif VECTOR_AVX2
    const __m256d p = _mm256_hadd_pd((__m256d)v[0], (__m256d)v[1]);
    const __m256d q = _mm256_hadd_pd((__m256d)v[2], (__m256d)v[3]);
    return (vec)(_mm256_permute2f128_pd(p, q, 0x20) + _mm256_permute2f128_pd(p, q, 0x31));
#else
    vec sums;
    int k;
    for (k = 0; k < DPFAST_LANES; k++) {
        LANE(sums, k) = vec_sum(v[k]);
    }
    return sums;
#endif
}

#undef EACH_LANE
#undef IN
#endif
