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

/* ---- Sums without writing rows out ----------------------------------------------------------------
 *
 * A table has a number for each level of each part, one after another, a part of numbers having one
 * level.  Here codes are trusted, as the columns of compressed rows are: dpfast_coded_offsets over
 * all rows has looked at them. */

/* Length of a table. */
ptrdiff_t dpfast_coded_levels(const dpfast_coded *rows);

/* Whether no column is in more than `most` levels of its part. */
int dpfast_coded_shared_by(const dpfast_coded *rows, ptrdiff_t most, int32_t *count);

/* table[l] = sum of value w[column] over the entries of level l. */
dpfast_status dpfast_coded_table(const dpfast_coded *rows, const double *w, double *table);

/* out[column] = sum of value table[l] over the levels l in which the column is; out has d entries. */
dpfast_status dpfast_coded_fold(const dpfast_coded *rows, const double *table, double *out);

/* out[i] = sum of the table over the levels of row start + i, numbers times theirs. */
dpfast_status dpfast_coded_gather(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                  const double *table, double *out);

/* table (overwritten) [l] = sum of s[i] over the rows start + i of level l; of a number, of s[i]
 * times it.  The table has room for twice its length. */
dpfast_status dpfast_coded_scatter(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   const double *s, double *table);

/* As dpfast_csr_gradient, over rows [start, stop); `beside` has what belongs to these rows, from
 * row `start` on, and the intercept, its arrays of entries are not read.  gradient may be NULL: the
 * loss sum alone.  scratch has room for three tables. */
dpfast_status dpfast_coded_gradient(const dpfast_coded *rows, ptrdiff_t start,
                                    const dpfast_csr *beside, const dpfast_loss *loss,
                                    const double *w, double clip_norm, double loss_clip,
                                    double *scratch, double *gradient, double *loss_sum);

#ifdef __cplusplus
}
#endif

#endif
