/* The kernels of affine.h, for the instruction set of the including file. */
#include "simd.h"

#define SCALAR double
#define LOAD vec_load
#define LOAD_PART vec_load_part
#define NAME(name) name##_float64
#include "affine_body.h"
#undef SCALAR
#undef LOAD
#undef LOAD_PART
#undef NAME

#define SCALAR float
#define LOAD vec_load_float
#define LOAD_PART vec_load_float_part
#define NAME(name) name##_float32
#include "affine_body.h"

const dpfast_affine_ops DPFAST_ISA(dpfast_affine_ops)[2] = {
    {affine_rows_float_float64, part_sums_float64, column_counts_float64},
    {affine_rows_float_float32, part_sums_float32, column_counts_float32},
};
