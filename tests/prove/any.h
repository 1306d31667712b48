/* Arbitrary values for the analysis: every number, also NaN and the infinities, unless a range is
 * given.  Arrays have exactly the length asked for, so that a step beyond the end is seen; their
 * content is arbitrary. */
#ifndef ANY_H
#define ANY_H

#include <__fc_builtin.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dpfast.h"
#include "loss_list.h"

#define ONES 2 /* a type of values: all are 1, and none is stored */
#define MOST_LOSSES (DPFAST_LOSS_COUNT - 1)

static int any_int(int low, int high)
{
    return Frama_C_interval(low, high);
}

static double any_double(void)
{
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

/* Positive and finite. */
static double any_positive(void)
{
    return Frama_C_double_interval(0x1p-1074, DBL_MAX);
}

static double any_between(double low, double high)
{
    return Frama_C_double_interval(low, high);
}

static uint64_t any_uint64(void)
{
    uint64_t x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static void *any_bytes(ptrdiff_t n)
{
    char *p = malloc((size_t)n);
    if (n > 0) {
        Frama_C_make_unknown(p, (size_t)n);
    }
    return p;
}

static double *any_doubles(ptrdiff_t n)
{
    return any_bytes(n * (ptrdiff_t)sizeof(double));
}

static float *any_floats(ptrdiff_t n)
{
    return any_bytes(n * (ptrdiff_t)sizeof(float));
}

/* n numbers from 0 to below - 1. */
static int64_t *any_indices(ptrdiff_t n, int below)
{
    int64_t *index = any_bytes(n * (ptrdiff_t)sizeof *index);
    ptrdiff_t k;
    /*@ loop unroll 4096; */
    for (k = 0; k < n; k++) {
        index[k] = any_int(0, below - 1);
    }
    return index;
}

#define PERHAPS(pointer) (any_int(0, 1) ? (pointer) : NULL)

/* With arbitrary parameters. */
static dpfast_loss loss_of(int id)
{
    dpfast_loss loss;
    loss.id = id;
    loss.parameter = any_double();
    loss.width = any_double();
    return loss;
}

static dpfast_loss any_parameter(void)
{
    return loss_of(any_int(0, MOST_LOSSES));
}

/* What walks over rows and columns treats the logistic loss in ways of its own and all others alike:
 * eva_losses.c and
 * eva_dense.c analyze each. */
static dpfast_loss some_loss(void)
{
    return loss_of(any_int(0, 1) ? DPFAST_LOSS_logistic : DPFAST_LOSS_huber);
}

/* A stream in any state whatever, keyed or not. */
static dpfast_stream any_stream(void)
{
    dpfast_stream stream;
    Frama_C_make_unknown((char *)&stream, sizeof stream);
    return stream;
}

/* The constant column: none, positive, or negative. */
static double any_intercept(int sign)
{
    return sign == 0 ? 0.0 : sign > 0 ? any_positive() : any_between(-DBL_MAX, -0x1p-1074);
}

/* Gradients of rows with gaps between them are clipped. */
static dpfast_dense any_dense(ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar, int sign)
{
    const ptrdiff_t size = scalar == DPFAST_FLOAT64 ? 8 : 4;
    dpfast_dense rows;
    rows.n = n;
    rows.d = d;
    rows.row_stride = d + gap;
    rows.scalar = scalar;
    rows.x = any_bytes(n > 0 ? ((n - 1) * (d + gap) + d) * size : 0);
    rows.target = any_doubles(n);
    rows.weight = PERHAPS(any_doubles(n));
    rows.row_scale = PERHAPS(any_doubles(n));
    rows.inverse_norm = gap > 0 ? any_floats(n) : NULL;
    rows.consistent = any_int(0, 1);
    rows.alike = any_int(0, 1);
    rows.intercept = any_intercept(sign);
    return rows;
}

/* n rows of `each` entries, but for the first, which has `more`; the columns are arbitrary.  Gradients
 * are clipped where the constant column is positive. */
static dpfast_csr any_csr(ptrdiff_t n, ptrdiff_t d, ptrdiff_t each, ptrdiff_t more,
                          dpfast_index indptr_type, dpfast_index index_type, int value_type,
                          int sign)
{
    const ptrdiff_t entries = n > 0 ? more + (n - 1) * each : 0;
    ptrdiff_t i;
    dpfast_csr rows;
    rows.n = n;
    rows.d = d;
    rows.indptr_type = indptr_type;
    rows.index_type = index_type;
    rows.scalar = value_type == DPFAST_FLOAT32 ? DPFAST_FLOAT32 : DPFAST_FLOAT64;
    if (indptr_type == DPFAST_INT32) {
        int32_t *indptr = any_bytes((n + 1) * (ptrdiff_t)sizeof *indptr);
        /*@ loop unroll 4096; */
        for (i = 0; i <= n; i++) {
            indptr[i] = (int32_t)(i > 0 ? more + (i - 1) * each : 0);
        }
        rows.indptr = indptr;
    } else {
        int64_t *indptr = any_bytes((n + 1) * (ptrdiff_t)sizeof *indptr);
        /*@ loop unroll 4096; */
        for (i = 0; i <= n; i++) {
            indptr[i] = i > 0 ? more + (i - 1) * each : 0;
        }
        rows.indptr = indptr;
    }
    if (index_type == DPFAST_INT32) {
        int32_t *index = any_bytes(entries * (ptrdiff_t)sizeof *index);
        /*@ loop unroll 4096; */
        for (i = 0; i < entries; i++) {
            index[i] = any_int(0, (int)d - 1);
        }
        rows.indices = index;
    } else if (index_type == DPFAST_INT64) {
        rows.indices = any_indices(entries, (int)d);
    } else {
        uint16_t *index = any_bytes(entries * (ptrdiff_t)sizeof *index);
        /*@ loop unroll 4096; */
        for (i = 0; i < entries; i++) {
            index[i] = (uint16_t)any_int(0, (int)d - 1);
        }
        rows.indices = index;
    }
    rows.values = value_type == DPFAST_FLOAT64   ? any_bytes(entries * 8)
                  : value_type == DPFAST_FLOAT32 ? any_bytes(entries * 4)
                                                 : NULL;
    rows.target = any_doubles(n);
    rows.weight = PERHAPS(any_doubles(n));
    rows.row_scale = PERHAPS(any_doubles(n));
    rows.inverse_norm = sign > 0 ? any_floats(n) : NULL;
    rows.consistent = any_int(0, 1);
    rows.intercept = any_intercept(sign);
    return rows;
}

static ptrdiff_t dimension_of(ptrdiff_t d, int sign)
{
    return d + (sign != 0);
}

#endif
