/* The kernels on dense rows and on vectors, for AVX2 and FMA. */
#include "dense_ops.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__) &&                            \
    !defined(DPFAST_NO_VECTOR_TYPE)
#include <immintrin.h>
#define HAVE_AVX2_INTRINSICS 1
#else
#define HAVE_AVX2_INTRINSICS 0
#endif

#include "isa_avx2_begin.h"
#include "loss_blocks.h"

#if HAVE_AVX2_INTRINSICS
/* One instruction, where GCC makes four of a generic vector conversion. */
DPFAST_INLINE vec4 load_float(const float *p)
{
    return (vec4)_mm256_cvtps_pd(_mm_loadu_ps(p));
}
#else
#define load_float vec4_load_float
#endif

#define SCALAR double
#define LOAD vec4_load
#define NAME(name) name##_float64
#include "dense_body.h"
#undef SCALAR
#undef LOAD
#undef NAME

#define SCALAR float
#define LOAD load_float
#define NAME(name) name##_float32
#include "dense_body.h"

#include "vector_body.h"

const dpfast_dense_ops dpfast_dense_ops_avx2[2] = {
    {row_square_sums_float64, margins_float64, gradient_float64, curvature_rows_float64},
    {row_square_sums_float32, margins_float32, gradient_float32, curvature_rows_float32},
};
const dpfast_vector_ops dpfast_vector_ops_avx2 = {line_search, read_sum};
#include "isa_avx2_end.h"
