/* The kernels on dense rows and on vectors, for the instruction set of the including file. */
#include "loss_blocks.h"

#define SCALAR double
#define LOAD vec_load
#define LOAD_PART vec_load_part
#define NAME(name) name##_float64
#include "dense_body.h"
#undef SCALAR
#undef LOAD
#undef LOAD_PART
#undef NAME

#define SCALAR float
#define LOAD vec_load_float
#define LOAD_PART vec_load_float_part
#define NAME(name) name##_float32
#include "dense_body.h"

#include "vector_body.h"
#include "coordinates_body.h"

const dpfast_dense_ops DPFAST_ISA(dpfast_dense_ops)[2] = {
    {row_square_sums_float64, margins_float64, add_rows_float64, class_margins_float64,
     add_class_rows_float64, gradient_float64, curvature_rows_float64,
     write_float64},
    {row_square_sums_float32, margins_float32, add_rows_float32, class_margins_float32,
     add_class_rows_float32, gradient_float32, curvature_rows_float32,
     write_float32},
};
const dpfast_vector_ops DPFAST_ISA(dpfast_vector_ops) = {
    line_search, exp_points, softmax, read_sum, losses, products, form, square_through,
    pack, unpack, coordinates, add_gram};
