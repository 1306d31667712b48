/* Private: ranges of rows, with what belongs to each row but the lengths that clip it. */
#ifndef DPFAST_PARTS_H
#define DPFAST_PARTS_H

#include "csr.h"
#include "dense.h"

static inline dpfast_dense dense_part(const dpfast_dense *rows, ptrdiff_t start, ptrdiff_t m)
{
    dpfast_dense part = *rows;
    part.n = m;
    part.x = rows->scalar == DPFAST_FLOAT64
                 ? (const void *)((const double *)rows->x + start * rows->row_stride)
                 : (const void *)((const float *)rows->x + start * rows->row_stride);
    part.target = rows->target != NULL ? rows->target + start : NULL;
    part.weight = rows->weight != NULL ? rows->weight + start : NULL;
    part.row_scale = rows->row_scale != NULL ? rows->row_scale + start : NULL;
    part.inverse_norm = NULL;
    part.consistent = 0;
    return part;
}

static inline dpfast_csr csr_part(const dpfast_csr *rows, ptrdiff_t start, ptrdiff_t m)
{
    dpfast_csr part = *rows;
    part.n = m;
    part.indptr = rows->indptr_type == DPFAST_INT32
                      ? (const void *)((const char *)rows->indptr + 4 * start)
                      : (const void *)((const char *)rows->indptr + 8 * start);
    part.target = rows->target != NULL ? rows->target + start : NULL;
    part.weight = rows->weight != NULL ? rows->weight + start : NULL;
    part.row_scale = rows->row_scale != NULL ? rows->row_scale + start : NULL;
    part.inverse_norm = NULL;
    part.consistent = 0;
    return part;
}

#endif
