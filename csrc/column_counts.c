/* Counts in bins: checks, and sparse rows.  An entry must be in the same bin wherever its row is, and
 * whatever the compiler makes of the loop around it: scaled entries of sparse rows are rounded before
 * anything is taken from them.
 * Lines are checked where they are used, too, for the analysis of the code. */
#include "column_counts.h"

#include "affine_ops.h"
#include "csr_ops.h"

static int valid(ptrdiff_t n, ptrdiff_t d, ptrdiff_t asked, const ptrdiff_t *slot,
                 const double *low, const double *per_bin, ptrdiff_t bins, const double *counts)
{
    ptrdiff_t j;
    if (n < 0 || d < 0 || asked < 0 || bins < 1 || bins > INT32_MAX || slot == NULL || low == NULL ||
        per_bin == NULL || counts == NULL) {
        return 0;
    }
    for (j = 0; j < d; j++) {
        if (slot[j] < -1 || slot[j] >= asked) {
            return 0;
        }
    }
    return 1;
}

/* What is not a number is in the first bin. */
static inline ptrdiff_t bin_of(double x, double low, double per_bin, ptrdiff_t bins)
{
    const double place = (x - low) * per_bin;
    if (place != place || place < 1.0) {
        return 0;
    }
    return place < (double)(bins - 1) ? (ptrdiff_t)place : bins - 1;
}

static inline double scaled(double x, const double *row_scale, ptrdiff_t i)
{
    volatile double rounded;
    if (row_scale == NULL) {
        return x;
    }
    rounded = x * row_scale[i];
    return rounded;
}

dpfast_status dpfast_dense_column_counts(const dpfast_dense *rows, ptrdiff_t asked,
                                         const ptrdiff_t *slot, const double *low,
                                         const double *per_bin, ptrdiff_t bins,
                                         const double *share, double *counts)
{
    if (!valid(rows->n, rows->d, asked, slot, low, per_bin, bins, counts) ||
        rows->row_stride < rows->d || (rows->n > 0 && rows->d > 0 && rows->x == NULL) ||
        (rows->scalar != DPFAST_FLOAT64 && rows->scalar != DPFAST_FLOAT32)) {
        return DPFAST_ERR_ARGUMENT;
    }
    DPFAST_OF_ISA_IN_USE(dpfast_affine_ops)
    [rows->scalar].column_counts(rows, asked, slot, low, per_bin, bins, share, counts);
    return DPFAST_OK;
}

static double stored(const dpfast_csr *rows, ptrdiff_t k)
{
    if (rows->values == NULL) {
        return 1.0;
    }
    return rows->scalar == DPFAST_FLOAT64 ? ((const double *)rows->values)[k]
                                          : (double)((const float *)rows->values)[k];
}

dpfast_status dpfast_csr_column_counts(const dpfast_csr *rows, ptrdiff_t asked,
                                       const ptrdiff_t *slot, const double *low,
                                       const double *per_bin, ptrdiff_t bins, const double *share,
                                       double *counts)
{
    double all = 0.0;
    ptrdiff_t i, j, k;
    if (!valid(rows->n, rows->d, asked, slot, low, per_bin, bins, counts) ||
        rows->indptr == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    /* All rows as zeros, and what the stored entries change of that. */
    for (i = 0; i < rows->n; i++) {
        const double count = share != NULL ? share[i] : 1.0;
        const ptrdiff_t end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
        all += count;
        for (k = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i); k < end; k++) {
            const ptrdiff_t at = slot[dpfast_index_at(rows->indices, rows->index_type, k)];
            if (at >= 0 && at < asked) {
                double *line = counts + at * bins;
                const double x = scaled(stored(rows, k), rows->row_scale, i);
                line[bin_of(0.0, low[at], per_bin[at], bins)] -= count;
                line[bin_of(x, low[at], per_bin[at], bins)] += count;
            }
        }
    }
    for (j = 0; j < rows->d; j++) {
        const ptrdiff_t at = slot[j];
        if (at >= 0 && at < asked) {
            counts[at * bins + bin_of(0.0, low[at], per_bin[at], bins)] += all;
        }
    }
    return DPFAST_OK;
}
