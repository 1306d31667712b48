/* Four doubles at a time.  With GCC and Clang this is a vector type that the compiler lowers to
 * whatever the surrounding target has (two SSE2 or NEON registers, or one AVX2 register); elsewhere
 * a plain struct (forced by DPFAST_NO_VECTOR_TYPE in tests).  All functions are inlined into the file of one instruction set, so no vector ever
 * crosses a call boundary. */
#ifndef DPFAST_SIMD_H
#define DPFAST_SIMD_H

#include <stdint.h>
#include <string.h>

/* Asks for the cache line at a byte offset from p; the address need not be valid. */
#if defined(__GNUC__) || defined(__clang__)
#define DPFAST_PREFETCH(p, offset) __builtin_prefetch((const void *)((uintptr_t)(p) + (offset)), 0, 3)
#else
#define DPFAST_PREFETCH(p, offset) ((void)(p))
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(DPFAST_NO_VECTOR_TYPE)
#define DPFAST_INLINE static inline __attribute__((always_inline))
#define DPFAST_RESTRICT __restrict__
typedef double vec4 __attribute__((vector_size(32)));

DPFAST_INLINE vec4 vec4_set(double a)
{
    return (vec4){a, a, a, a};
}

DPFAST_INLINE vec4 vec4_load(const double *p)
{
    vec4 v;
    memcpy(&v, p, sizeof v); /* compiles to one unaligned load */
    return v;
}

/* Four floats, widened. */
DPFAST_INLINE vec4 vec4_load_float(const float *p)
{
    typedef float float4 __attribute__((vector_size(16)));
    float4 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vec4);
}

DPFAST_INLINE void vec4_store(double *p, vec4 v)
{
    memcpy(p, &v, sizeof v);
}

DPFAST_INLINE vec4 vec4_mul(vec4 a, vec4 b)
{
    return a * b;
}

DPFAST_INLINE vec4 vec4_add(vec4 a, vec4 b)
{
    return a + b;
}

/* a * b + c, fused where the target can. */
DPFAST_INLINE vec4 vec4_mul_add(vec4 a, vec4 b, vec4 c)
{
    return a * b + c;
}

DPFAST_INLINE double vec4_sum(vec4 v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

DPFAST_INLINE double vec4_product(vec4 v)
{
    return (v[0] * v[2]) * (v[1] * v[3]);
}

#else /* portable */

#if defined(_MSC_VER)
#define DPFAST_INLINE static __forceinline
#else
#define DPFAST_INLINE static inline
#endif
#define DPFAST_RESTRICT __restrict
typedef struct vec4 {
    double lane[4];
} vec4;

DPFAST_INLINE vec4 vec4_load(const double *p)
{
    vec4 v;
    memcpy(v.lane, p, sizeof v.lane);
    return v;
}

DPFAST_INLINE vec4 vec4_load_float(const float *p)
{
    vec4 v;
    int i;
    for (i = 0; i < 4; i++) {
        v.lane[i] = p[i];
    }
    return v;
}

DPFAST_INLINE vec4 vec4_set(double a)
{
    vec4 v;
    v.lane[0] = v.lane[1] = v.lane[2] = v.lane[3] = a;
    return v;
}

DPFAST_INLINE void vec4_store(double *p, vec4 v)
{
    memcpy(p, v.lane, sizeof v.lane);
}

DPFAST_INLINE vec4 vec4_mul(vec4 a, vec4 b)
{
    int i;
    for (i = 0; i < 4; i++) {
        a.lane[i] *= b.lane[i];
    }
    return a;
}

DPFAST_INLINE vec4 vec4_add(vec4 a, vec4 b)
{
    int i;
    for (i = 0; i < 4; i++) {
        a.lane[i] += b.lane[i];
    }
    return a;
}

DPFAST_INLINE vec4 vec4_mul_add(vec4 a, vec4 b, vec4 c)
{
    return vec4_add(vec4_mul(a, b), c);
}

DPFAST_INLINE double vec4_sum(vec4 v)
{
    return (v.lane[0] + v.lane[2]) + (v.lane[1] + v.lane[3]);
}

DPFAST_INLINE double vec4_product(vec4 v)
{
    return (v.lane[0] * v.lane[2]) * (v.lane[1] * v.lane[3]);
}
#endif

#endif
