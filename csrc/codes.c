/* Rows in codes, written out as compressed rows: some rows at a time, part by part, so that the type
 * of a part is settled once for all of them and what they are written to stays in cache. */
#include "codes_ops.h"
#include "finite.h"

#include <math.h>
#include <string.h>

#include "compiler.h"
#include "simd.h"

#define ROWS 64 /* of a block */

/* ---- The parts ------------------------------------------------------------------------------- */

/* Entries of a level are in the part's columns, which increase, and finite. */
static int sound_level(const dpfast_part *part, int64_t begin, int64_t end)
{
    int64_t k, previous = -1;
    for (k = begin; k < end; k++) {
        const int64_t column = part->columns[k];
        if (column <= previous || column >= (int64_t)part->width || !isfinite(part->values[k])) {
            return 0;
        }
        previous = column;
    }
    return 1;
}

static int sound_levels(const dpfast_part *part)
{
    ptrdiff_t l;
    if (part->levels < 1 || part->level == NULL || part->columns == NULL ||
        part->values == NULL || part->level[0] != 0) {
        return 0;
    }
    for (l = 0; l < part->levels; l++) {
        if (part->level[l + 1] < part->level[l] ||
            part->level[l + 1] - part->level[l] > (int64_t)part->width) {
            return 0;
        }
    }
    for (l = 0; l < part->levels; l++) {
        if (!sound_level(part, part->level[l], part->level[l + 1])) {
            return 0;
        }
    }
    return 1;
}

dpfast_status dpfast_coded_check(const dpfast_coded *rows)
{
    ptrdiff_t p, end = 0;
    if (rows->n < 0 || rows->d < 1 || rows->d > INT32_MAX || rows->parts < 1 ||
        rows->part == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (p = 0; p < rows->parts; p++) {
        const dpfast_part *part = &rows->part[p];
        const int coded = part->type == DPFAST_CODE_UINT8 || part->type == DPFAST_CODE_UINT16 ||
                          part->type == DPFAST_CODE_UINT32;
        if (part->first < end || part->width < 1 || part->width > rows->d ||
            part->first > rows->d - part->width || (rows->n > 0 && part->rows == NULL) ||
            !(coded ? sound_levels(part) : dpfast_is_number(part) && part->width == 1)) {
            return DPFAST_ERR_ARGUMENT;
        }
        end = part->first + part->width;
    }
    return DPFAST_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The code of row i.  Where `type` is a constant nothing is left of the switch. */
DPFAST_INLINE ptrdiff_t code_at(const void *rows, int type, ptrdiff_t i)
{
    switch (type) {
    case DPFAST_CODE_UINT8:
        return ((const uint8_t *)rows)[i];
    case DPFAST_CODE_UINT16:
        return ((const uint16_t *)rows)[i];
    default:
        return (ptrdiff_t)((const uint32_t *)rows)[i];
    }
}

/* count[i] += entries of row start + i; returns whether all codes have a level. */
DPFAST_INLINE int add_counts(const dpfast_part *part, int type, ptrdiff_t start, ptrdiff_t m,
                             int64_t *DPFAST_RESTRICT count)
{
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        const ptrdiff_t code = code_at(part->rows, type, start + i);
        if (code < 0 || code >= part->levels) {
            return 0;
        }
        count[i] += part->level[code + 1] - part->level[code];
    }
    return 1;
}

static int count_entries(const dpfast_part *part, ptrdiff_t start, ptrdiff_t m, int64_t *count)
{
    ptrdiff_t i;
    switch (part->type) {
    case DPFAST_CODE_UINT8:
        return add_counts(part, DPFAST_CODE_UINT8, start, m, count);
    case DPFAST_CODE_UINT16:
        return add_counts(part, DPFAST_CODE_UINT16, start, m, count);
    case DPFAST_CODE_UINT32:
        return add_counts(part, DPFAST_CODE_UINT32, start, m, count);
    default:
        for (i = 0; i < m; i++) {
            count[i]++;
        }
        return 1;
    }
}

static int valid_range(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop)
{
    return rows->part != NULL && start >= 0 && start <= stop && stop <= rows->n;
}

dpfast_status dpfast_coded_offsets(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   int64_t *offset)
{
    const ptrdiff_t n = stop - start;
    ptrdiff_t at, i, p;
    if (!valid_range(rows, start, stop) || offset == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    offset[0] = 0;
    for (at = 0; at < n; at += ROWS) {
        const ptrdiff_t m = n - at < ROWS ? n - at : ROWS;
        int64_t *count = offset + at + 1;
        for (i = 0; i < m; i++) {
            count[i] = 0;
        }
        for (p = 0; p < rows->parts; p++) {
            if (!count_entries(&rows->part[p], start + at, m, count)) {
                return DPFAST_ERR_ARGUMENT;
            }
        }
        for (i = 0; i < m; i++) {
            count[i] += count[i - 1];
        }
    }
    return DPFAST_OK;
}

DPFAST_INLINE void put(int index_type, void *columns, double *values, int64_t k, int64_t column,
                       double value)
{
    if (index_type == DPFAST_UINT16) {
        ((uint16_t *)columns)[k] = (uint16_t)column;
    } else {
        ((int32_t *)columns)[k] = (int32_t)column;
    }
    values[k] = value;
}

/* Entries of m rows from row `start` on, written from next[i] on, which moves on, and before end[i];
 * returns whether there was room. */
DPFAST_INLINE int put_codes(const dpfast_part *part, int type, int index_type, ptrdiff_t start,
                            ptrdiff_t m, int64_t *DPFAST_RESTRICT next,
                            const int64_t *DPFAST_RESTRICT end, void *columns, double *values)
{
    const int64_t *DPFAST_RESTRICT level = part->level;
    const int32_t *DPFAST_RESTRICT column = part->columns;
    const double *DPFAST_RESTRICT value = part->values;
    const int64_t first = part->first;
    const ptrdiff_t levels = part->levels;
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        const ptrdiff_t code = code_at(part->rows, type, start + i);
        int64_t k, last, at = next[i];
        if (code < 0 || code >= levels) {
            return 0;
        }
        k = level[code];
        last = level[code + 1];
        if (last - k > end[i] - at) {
            return 0;
        }
        next[i] = at + last - k;
        for (; k < last; k++, at++) {
            put(index_type, columns, values, at, first + column[k], value[k]);
        }
    }
    return 1;
}

/* The same for numbers; *finite says whether they all are. */
DPFAST_INLINE int put_numbers(const dpfast_part *part, int type, int index_type, ptrdiff_t start,
                              ptrdiff_t m, int64_t *DPFAST_RESTRICT next,
                              const int64_t *DPFAST_RESTRICT end, void *columns, double *values,
                              int *finite)
{
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        const double value = type == DPFAST_NUMBER_FLOAT32
                                 ? (double)((const float *)part->rows)[start + i]
                                 : ((const double *)part->rows)[start + i];
        if (next[i] >= end[i]) {
            return 0;
        }
        *finite &= isfinite(value) != 0;
        put(index_type, columns, values, next[i], (int64_t)part->first, value);
        next[i]++;
    }
    return 1;
}

#define PUT(index_type)                                                                            \
    switch (part->type) {                                                                          \
    case DPFAST_CODE_UINT8:                                                                        \
        return put_codes(part, DPFAST_CODE_UINT8, index_type, start, m, next, end, columns,        \
                         values);                                                                  \
    case DPFAST_CODE_UINT16:                                                                       \
        return put_codes(part, DPFAST_CODE_UINT16, index_type, start, m, next, end, columns,       \
                         values);                                                                  \
    case DPFAST_CODE_UINT32:                                                                       \
        return put_codes(part, DPFAST_CODE_UINT32, index_type, start, m, next, end, columns,       \
                         values);                                                                  \
    case DPFAST_NUMBER_FLOAT32:                                                                    \
        return put_numbers(part, DPFAST_NUMBER_FLOAT32, index_type, start, m, next, end, columns,  \
                           values, finite);                                                        \
    default:                                                                                       \
        return put_numbers(part, DPFAST_NUMBER_FLOAT64, index_type, start, m, next, end, columns,  \
                           values, finite);                                                        \
    }

static int put_part(const dpfast_part *part, dpfast_index index_type, ptrdiff_t start,
                    ptrdiff_t m, int64_t *next, const int64_t *end, void *columns, double *values,
                    int *finite)
{
    if (index_type == DPFAST_UINT16) {
        PUT(DPFAST_UINT16)
    }
    PUT(DPFAST_INT32)
}

dpfast_status dpfast_coded_entries(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   const int64_t *offset, dpfast_index index_type, void *columns,
                                   double *values)
{
    const ptrdiff_t n = stop - start;
    int64_t next[ROWS], end[ROWS];
    int finite = 1;
    ptrdiff_t at, i, p;
    if (!valid_range(rows, start, stop) || offset == NULL || columns == NULL || values == NULL ||
        !(index_type == DPFAST_INT32 ||
          (index_type == DPFAST_UINT16 && rows->d <= (ptrdiff_t)UINT16_MAX + 1))) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (at = 0; at < n; at += ROWS) {
        const ptrdiff_t m = n - at < ROWS ? n - at : ROWS;
        for (i = 0; i < m; i++) {
            next[i] = offset[at + i] - offset[0];
            end[i] = offset[at + i + 1] - offset[0];
        }
        for (p = 0; p < rows->parts; p++) {
            if (!put_part(&rows->part[p], index_type, start + at, m, next, end, columns, values,
                          &finite)) {
                return DPFAST_ERR_ARGUMENT;
            }
        }
        for (i = 0; i < m; i++) {
            if (next[i] != end[i]) {
                return DPFAST_ERR_ARGUMENT;
            }
        }
    }
    return finite ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

/* ---- Sums without writing rows out ----------------------------------------------------------- */

static const dpfast_codes_ops *ops(void)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_codes_ops);
}

ptrdiff_t dpfast_coded_levels(const dpfast_coded *rows)
{
    ptrdiff_t p, levels = 0;
    for (p = 0; p < rows->parts; p++) {
        levels += dpfast_part_levels(&rows->part[p]);
    }
    return levels;
}

int dpfast_coded_shared_by(const dpfast_coded *rows, ptrdiff_t most, int32_t *count)
{
    ptrdiff_t p;
    for (p = 0; p < rows->parts; p++) {
        const dpfast_part *part = &rows->part[p];
        int64_t k;
        ptrdiff_t j;
        if (dpfast_is_number(part)) {
            continue;
        }
        for (j = 0; j < part->width; j++) {
            count[j] = 0;
        }
        for (k = 0; k < part->level[part->levels]; k++) {
            if (++count[part->columns[k]] > most) {
                return 0;
            }
        }
    }
    return 1;
}

dpfast_status dpfast_coded_table(const dpfast_coded *rows, const double *w, double *table)
{
    ptrdiff_t p, l;
    int64_t k;
    if (rows->part == NULL || w == NULL || table == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (p = 0; p < rows->parts; p++) {
        const dpfast_part *part = &rows->part[p];
        const double *weights = w + part->first;
        if (dpfast_is_number(part)) {
            *table++ = weights[0];
            continue;
        }
        for (l = 0; l < part->levels; l++) {
            double sum = 0.0;
            for (k = part->level[l]; k < part->level[l + 1]; k++) {
                sum += part->values[k] * weights[part->columns[k]];
            }
            *table++ = sum;
        }
    }
    return DPFAST_OK;
}

dpfast_status dpfast_coded_fold(const dpfast_coded *rows, const double *table, double *out)
{
    ptrdiff_t p, l;
    int64_t k;
    if (rows->part == NULL || table == NULL || out == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    memset(out, 0, (size_t)rows->d * sizeof *out);
    for (p = 0; p < rows->parts; p++) {
        const dpfast_part *part = &rows->part[p];
        double *columns = out + part->first;
        if (dpfast_is_number(part)) {
            columns[0] = *table++;
            continue;
        }
        for (l = 0; l < part->levels; l++, table++) {
            for (k = part->level[l]; k < part->level[l + 1]; k++) {
                columns[part->columns[k]] += part->values[k] * *table;
            }
        }
    }
    return DPFAST_OK;
}

dpfast_status dpfast_coded_gather(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                  const double *table, double *out)
{
    if (!valid_range(rows, start, stop) || table == NULL || out == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops()->gather(rows, start, stop - start, table, out);
    return all_finite(stop - start, out) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

/* The second table is added to the first. */
static void join(ptrdiff_t levels, double *tables)
{
    ptrdiff_t l;
    for (l = 0; l < levels; l++) {
        tables[l] += tables[levels + l];
    }
}

dpfast_status dpfast_coded_scatter(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop,
                                   const double *s, double *table)
{
    ptrdiff_t levels;
    if (!valid_range(rows, start, stop) || s == NULL || table == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    levels = dpfast_coded_levels(rows);
    memset(table, 0, 2 * (size_t)levels * sizeof *table);
    ops()->scatter(rows, start, stop - start, s, levels, table);
    join(levels, table);
    return all_finite(levels, table) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_coded_gradient(const dpfast_coded *rows, ptrdiff_t start,
                                    const dpfast_csr *beside, const dpfast_loss *loss,
                                    const double *w, double clip_norm, double loss_clip,
                                    double *scratch, double *gradient, double *loss_sum)
{
    const ptrdiff_t dim = beside->d + (beside->intercept != 0.0);
    ptrdiff_t levels;
    double *tables, constant = 0.0, derivative_sum;
    if (beside->n < 0 || start < 0 || start > rows->n - beside->n || rows->part == NULL ||
        beside->d != rows->d || (beside->n > 0 && beside->target == NULL) ||
        !isfinite(beside->intercept) || !dpfast_loss_valid(loss) || w == NULL ||
        scratch == NULL || loss_sum == NULL || !(clip_norm > 0.0) || !(loss_clip > 0.0) ||
        (gradient != NULL && beside->consistent && loss->id != DPFAST_LOSS_logistic)) {
        return DPFAST_ERR_ARGUMENT;
    }
    levels = dpfast_coded_levels(rows);
    dpfast_coded_table(rows, w, scratch);
    if (beside->intercept != 0.0) {
        constant = beside->intercept * w[rows->d];
    }
    tables = gradient != NULL ? scratch + levels : NULL;
    if (tables != NULL) {
        memset(tables, 0, 2 * (size_t)levels * sizeof *tables);
    }
    *loss_sum = ops()->slopes(rows, start, beside, loss, scratch, constant, clip_norm, loss_clip,
                              levels, tables, &derivative_sum);
    if (gradient != NULL) {
        join(levels, tables);
        dpfast_coded_fold(rows, tables, gradient);
        if (beside->intercept != 0.0) {
            gradient[rows->d] = derivative_sum * beside->intercept;
        }
    }
    return isfinite(*loss_sum) && all_finite(dim, w) &&
                   (gradient == NULL || all_finite(dim, gradient))
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}
