/* How many rows have their entry of a column in each of some bins. */
#ifndef DPFAST_COLUMN_COUNTS_H
#define DPFAST_COLUMN_COUNTS_H

#include <stddef.h>

#include "csr.h"
#include "dense.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds to counts (asked x bins), row i share[i] >= 0 times (NULL: once).  Column j is line slot[j]
 * (-1: left out) of the counts; its bin b has the entries x of bin number (x - low) per_bin, from b
 * to b + 1, and the first and the last bin also have those beyond.  low and per_bin have an entry a
 * line.  The same entry is in the same bin wherever its row is. */
dpfast_status dpfast_dense_column_counts(const dpfast_dense *rows, ptrdiff_t asked,
                                         const ptrdiff_t *slot, const double *low,
                                         const double *per_bin, ptrdiff_t bins,
                                         const double *share, double *counts);

/* The same for sparse rows, of which stored entries alone are read. */
dpfast_status dpfast_csr_column_counts(const dpfast_csr *rows, ptrdiff_t asked,
                                       const ptrdiff_t *slot, const double *low,
                                       const double *per_bin, ptrdiff_t bins,
                                       const double *share, double *counts);

#ifdef __cplusplus
}
#endif

#endif
