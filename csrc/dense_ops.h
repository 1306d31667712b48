/* Private: the kernels that are compiled once per instruction set, as a table.  dense.c and
 * line_search.c check arguments and pick a table; dense_<isa>.c fill theirs by stamping
 * dense_body.h. */
#ifndef DPFAST_DENSE_OPS_H
#define DPFAST_DENSE_OPS_H

#include "dpfast.h"

typedef struct dpfast_dense_ops {
    void (*row_square_sums)(const dpfast_dense *rows, double *sums);
    void (*margins)(const dpfast_dense *rows, const double *w, double *margins);
    /* gradient may be NULL: the loss sum alone */
    double (*gradient)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                       double clip_norm, double loss_clip, double *gradient);
    void (*curvature_rows)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                           int sign, double *out);
} dpfast_dense_ops;

typedef struct dpfast_vector_ops {
    void (*line_search)(ptrdiff_t n, const double *margin, const double *direction_margin,
                        const double *target, const double *weight, const dpfast_loss *loss,
                        double loss_clip, ptrdiff_t n_steps, const double *steps, double *out);
    double (*read_sum)(ptrdiff_t n, const double *x);
} dpfast_vector_ops;

/* Indexed by dpfast_scalar. */
extern const dpfast_dense_ops dpfast_dense_ops_baseline[2];
extern const dpfast_dense_ops dpfast_dense_ops_avx2[2];
extern const dpfast_vector_ops dpfast_vector_ops_baseline;
extern const dpfast_vector_ops dpfast_vector_ops_avx2;

#endif
