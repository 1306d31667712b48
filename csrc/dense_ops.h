/* Private: the dense kernels of one instruction set, as a table.  dense.c checks arguments and
 * picks a table; dense_<isa>.c fill theirs by stamping dense_body.h. */
#ifndef DPFAST_DENSE_OPS_H
#define DPFAST_DENSE_OPS_H

#include "dpfast.h"

typedef struct dpfast_dense_ops {
    void (*row_square_sums)(const dpfast_dense *rows, double *sums);
    void (*margins)(const dpfast_dense *rows, const double *w, double *margins);
    /* gradient may be NULL: the loss sum alone */
    double (*gradient)(const dpfast_dense *rows, dpfast_loss loss, const double *w,
                       double clip_norm, double loss_clip, double *gradient);
    void (*curvature_rows)(const dpfast_dense *rows, dpfast_loss loss, const double *w,
                           double *out);
    double (*read_sum)(ptrdiff_t n, const double *x);
} dpfast_dense_ops;

extern const dpfast_dense_ops dpfast_dense_ops_baseline;
extern const dpfast_dense_ops dpfast_dense_ops_avx2;

#endif
