/* The entries of sparse rows, for one instruction set: what the kernels and the epochs share.  Where
 * index_type and value_type are constants, nothing is left of the switches. */
#ifndef DPFAST_CSR_ROWS_H
#define DPFAST_CSR_ROWS_H

#include "csr_ops.h"
#include "simd.h"

/* What values may be, beside a dpfast_scalar. */
#define IMPLICIT_ONES 2

DPFAST_INLINE double value_at(const void *values, int value_type, ptrdiff_t k)
{
    switch (value_type) {
    case DPFAST_FLOAT64:
        return ((const double *)values)[k];
    case DPFAST_FLOAT32:
        return ((const float *)values)[k];
    default:
        return 1.0;
    }
}

/* <x, w> of the row whose entries are [k, end), with four accumulators. */
DPFAST_INLINE double dot_row(int index_type, int value_type, ptrdiff_t k, ptrdiff_t end,
                             const void *DPFAST_RESTRICT indices,
                             const void *DPFAST_RESTRICT values, const double *DPFAST_RESTRICT w)
{
#define TERM(k) (value_at(values, value_type, k) * w[dpfast_index_at(indices, index_type, k)])
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    for (; k + 4 <= end; k += 4) {
        s0 += TERM(k);
        s1 += TERM(k + 1);
        s2 += TERM(k + 2);
        s3 += TERM(k + 3);
    }
    for (; k < end; k++) {
        s0 += TERM(k);
    }
    return (s0 + s2) + (s1 + s3);
#undef TERM
}

#endif
