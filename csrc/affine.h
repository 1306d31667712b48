/* Rows after an affine map of each column: written out, and sums of functions of single entries. */
#ifndef DPFAST_AFFINE_H
#define DPFAST_AFFINE_H

#include <stddef.h>

#include "csr.h"
#include "dense.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out (n x columns, row-major) has x~_ij factor_j + shift_j for the first `columns` columns, at most
 * dim of them, and squares (n) the sums of a row's squares.  DPFAST_ERR_NONFINITE if one of these is
 * not finite. */
dpfast_status dpfast_csr_affine_rows(const dpfast_csr *rows, ptrdiff_t columns,
                                     const double *factor, const double *shift, double *out,
                                     double *squares);

/* The same of dense rows in float, computed in double and rounded once an entry; without the squares. */
dpfast_status dpfast_dense_affine_rows_float(const dpfast_dense *rows, ptrdiff_t columns,
                                             const double *factor, const double *shift,
                                             float *out);

/* Adds, column by column, what the rows z_ij = x~_ij factor_j + shift_j sum up to, each shortened to
 * the norm `radius` > 0 and times share[i] >= 0 (NULL: 1): positive parts to above (d), negative
 * parts, as numbers >= 0, to below (d), and squares to squares (d; NULL: left out).  The intercept
 * has no part in it, and rows that count 0 times are not read.  z (DPFAST_PART_ROWS x d) is scratch.
 * DPFAST_ERR_NONFINITE if a row that is read is not finite. */
#define DPFAST_PART_ROWS 4
dpfast_status dpfast_dense_part_sums(const dpfast_dense *rows, const double *factor,
                                     const double *shift, double radius, const double *share,
                                     double *z, double *above, double *below, double *squares);

/* The same for sparse rows, of which stored entries alone are read: a sum is what all rows would
 * add with zeros for entries, and what the stored ones change of that.  A term of it is up to twice
 * as large as that of the row itself where ||shift|| <= radius. */
dpfast_status dpfast_csr_part_sums(const dpfast_csr *rows, const double *factor,
                                   const double *shift, double radius, const double *share,
                                   double *above, double *below, double *squares);

/* out[i] = what those sums shorten row i by. */
dpfast_status dpfast_csr_shortening(const dpfast_csr *rows, const double *factor,
                                    const double *shift, double radius, double *out);

#ifdef __cplusplus
}
#endif

#endif
