/* Private: the kernels of affine.h that are compiled once per instruction set, as a table.  affine.c
 * checks arguments and picks a table; affine_<isa>.c fill theirs by stamping affine_stamp.h. */
#ifndef DPFAST_AFFINE_OPS_H
#define DPFAST_AFFINE_OPS_H

#include "dpfast.h"

/* Columns whose bins are counted at a time. */
#define DPFAST_COUNTED 64

typedef struct dpfast_affine_ops {
    void (*affine_rows_float)(const dpfast_dense *rows, ptrdiff_t columns, const double *factor,
                              const double *shift, float *out);
    /* Returns whether all rows were finite; squares may be NULL. */
    int (*part_sums)(const dpfast_dense *rows, const double *factor, const double *shift,
                     double radius, const double *share, double *z, double *above, double *below,
                     double *squares);
    void (*column_counts)(const dpfast_dense *rows, ptrdiff_t asked, const ptrdiff_t *slot,
                          const double *low, const double *per_bin, ptrdiff_t bins,
                          const double *share, double *counts);
} dpfast_affine_ops;

/* dpfast_affine_ops_<isa> is indexed by dpfast_scalar. */
#define DECLARE_OPS(isa) extern const dpfast_affine_ops dpfast_affine_ops_##isa[2];
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

#endif
