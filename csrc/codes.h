/* Rows in codes: a column of categories is one small integer a row, a column of numbers one number,
 * and a chunk of rows is written out as compressed rows (csr.h) where it is worked on.
 *
 * A row consists of parts, one after another by their columns.  A part of numbers has one entry a
 * row.  A part of codes has levels: a code stands for the entries of its level. */
#ifndef DPFAST_CODES_H
#define DPFAST_CODES_H

#include <stddef.h>
#include <stdint.h>

#include "csr.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpfast_code {
    DPFAST_CODE_UINT8 = 0,
    DPFAST_CODE_UINT16 = 1,
    DPFAST_CODE_UINT32 = 2,
    DPFAST_NUMBER_FLOAT32 = 3,
    DPFAST_NUMBER_FLOAT64 = 4
} dpfast_code;

typedef struct dpfast_part {
    dpfast_code type;
    const void *rows;       /* a code or a number for each row */
    ptrdiff_t first, width; /* it fills the columns [first, first + width); numbers have one */
    ptrdiff_t levels;       /* codes are below; numbers have none */
    const int64_t *level;   /* levels + 1: level l has the entries level[l] <= k < level[l + 1] */
    const int32_t *columns; /* of the entries, counted from `first`, increasing within a level */
    const double *values;   /* of the entries */
} dpfast_part;

typedef struct dpfast_coded {
    ptrdiff_t n, d;
    ptrdiff_t parts;
    const dpfast_part *part;
} dpfast_coded;

/* Whether parts, levels and their entries are sound, in one read of them; what stands for the rows is
 * not looked at.  The other functions trust it: call this first, and do not let it change. */
dpfast_status dpfast_coded_check(const dpfast_coded *rows);

/* offset (stop - start + 1): offset[i] entries are before row start + i, counted from row `start`.
 * DPFAST_ERR_ARGUMENT if one of the rows has a code without a level. */
dpfast_status dpfast_coded_offsets(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   int64_t *offset);

/* Columns and values of the entries of rows [start, stop): row start + i has the places from offset[i]
 * to before offset[i + 1], counted from offset[0].  Columns are DPFAST_INT32, or DPFAST_UINT16 where
 * that can hold d - 1.  Nothing is written outside of what `offset` gives to a row: where its entries
 * are more or fewer, or a code has no level, DPFAST_ERR_ARGUMENT.  DPFAST_ERR_NONFINITE if a number
 * is a NaN or an infinity. */
dpfast_status dpfast_coded_entries(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   const int64_t *offset, dpfast_index index_type, void *columns,
                                   double *values);

#ifdef __cplusplus
}
#endif

#endif
