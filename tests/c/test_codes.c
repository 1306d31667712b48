/* Rows in codes without Python, in buffers that are exactly as large as they must be: against the
 * levels themselves, for all types and for both types of columns; unsound parts, codes without a
 * level, and rows that change between their counting and their reading. */
#include "check.h"
#include "dpfast.h"

enum { LEVELS = 4, WIDTH = 3, PARTS = 5, FEATURES = 3 * WIDTH + 2 };

/* One entry, none, three, two. */
static const int64_t level[LEVELS + 1] = {0, 1, 1, 4, 6};
static const int32_t columns[6] = {1, 0, 1, 2, 0, 2};
static const double values[6] = {1.0, 0.25, 0.5, 0.75, -1.0, 2.0};

static void *filled(ptrdiff_t n, size_t size)
{
    void *p = malloc((size_t)(n > 0 ? n : 1) * size);
    memset(p, 0, (size_t)(n > 0 ? n : 1) * size);
    return p;
}

/* Parts of every type over n rows, on the heap. */
static dpfast_coded coded(ptrdiff_t n)
{
    dpfast_part *part = filled(PARTS, sizeof *part);
    dpfast_coded rows;
    ptrdiff_t i, p, first = 0;
    for (p = 0; p < PARTS; p++) {
        const dpfast_code type = (dpfast_code)p;
        part[p].type = type;
        part[p].first = first;
        if (p < 3) {
            part[p].width = WIDTH;
            part[p].levels = LEVELS;
            part[p].level = level;
            part[p].columns = columns;
            part[p].values = values;
        } else {
            part[p].width = 1;
        }
        first += part[p].width;
        if (type == DPFAST_CODE_UINT8) {
            uint8_t *codes = filled(n, sizeof *codes);
            for (i = 0; i < n; i++) codes[i] = (uint8_t)(i % LEVELS);
            part[p].rows = codes;
        } else if (type == DPFAST_CODE_UINT16) {
            uint16_t *codes = filled(n, sizeof *codes);
            for (i = 0; i < n; i++) codes[i] = (uint16_t)((i / 2) % LEVELS);
            part[p].rows = codes;
        } else if (type == DPFAST_CODE_UINT32) {
            uint32_t *codes = filled(n, sizeof *codes);
            for (i = 0; i < n; i++) codes[i] = (uint32_t)((3 * i + 1) % LEVELS);
            part[p].rows = codes;
        } else if (type == DPFAST_NUMBER_FLOAT32) {
            float *numbers = filled(n, sizeof *numbers);
            for (i = 0; i < n; i++) numbers[i] = (float)i / 8.0f;
            part[p].rows = numbers;
        } else {
            double *numbers = filled(n, sizeof *numbers);
            for (i = 0; i < n; i++) numbers[i] = -(double)i;
            part[p].rows = numbers;
        }
    }
    rows.n = n;
    rows.d = FEATURES;
    rows.parts = PARTS;
    rows.part = part;
    return rows;
}

static void release(dpfast_coded *rows)
{
    ptrdiff_t p;
    for (p = 0; p < rows->parts; p++) free((void *)rows->part[p].rows);
    free((void *)rows->part);
}

static ptrdiff_t code_of(const dpfast_part *part, ptrdiff_t i)
{
    return part->type == DPFAST_CODE_UINT8    ? ((const uint8_t *)part->rows)[i]
           : part->type == DPFAST_CODE_UINT16 ? ((const uint16_t *)part->rows)[i]
                                              : (ptrdiff_t)((const uint32_t *)part->rows)[i];
}

/* The rows of [start, stop) one by one, as the header says what they are. */
static void check_rows(ptrdiff_t n, ptrdiff_t start, ptrdiff_t stop, dpfast_index index_type)
{
    dpfast_coded rows = coded(n);
    int64_t *offset = filled(n + 1, sizeof *offset);
    ptrdiff_t i, p, size;
    void *found;
    double *entries;
    CHECK(dpfast_coded_check(&rows) == DPFAST_OK);
    CHECK(dpfast_coded_offsets(&rows, 0, n, offset) == DPFAST_OK);
    size = (ptrdiff_t)(offset[stop] - offset[start]);
    found = filled(size, index_type == DPFAST_UINT16 ? 2 : 4);
    entries = filled(size, sizeof *entries);
    CHECK(dpfast_coded_entries(&rows, start, stop, offset + start, index_type, found, entries) ==
          DPFAST_OK);
    for (i = start; i < stop; i++) {
        ptrdiff_t at = (ptrdiff_t)(offset[i] - offset[start]);
        for (p = 0; p < PARTS; p++) {
            const dpfast_part *part = &rows.part[p];
            const ptrdiff_t code = p < 3 ? code_of(part, i) : 0;
            int64_t k = p < 3 ? level[code] : 0;
            const int64_t end = p < 3 ? level[code + 1] : 1;
            for (; k < end; k++, at++) {
                const int64_t column = index_type == DPFAST_UINT16 ? ((uint16_t *)found)[at]
                                                                   : ((int32_t *)found)[at];
                const double value = p == 3 ? (double)i / 8.0 : p == 4 ? -(double)i : values[k];
                CHECK(column == (int64_t)part->first + (p < 3 ? columns[k] : 0));
                CHECK(entries[at] == value);
            }
        }
        CHECK((int64_t)at == offset[i + 1] - offset[start]);
    }
    free(found); free(entries); free(offset);
    release(&rows);
}

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        dpfast_coded rows = coded(3);                                                              \
        dpfast_part *part = (dpfast_part *)rows.part;                                              \
        change;                                                                                    \
        CHECK(dpfast_coded_check(&rows) == DPFAST_ERR_ARGUMENT);                                   \
        (void)part;                                                                                \
        rows.parts = PARTS;                                                                        \
        rows.part = part;                                                                          \
        release(&rows);                                                                            \
    } while (0)

static void check_refusals(void)
{
    static const int64_t late[LEVELS + 1] = {1, 1, 1, 4, 6}, falling[LEVELS + 1] = {0, 1, 0, 4, 6};
    static const int64_t long_level[LEVELS + 1] = {0, 4, 4, 4, 6};
    static const int32_t twice[6] = {1, 0, 1, 1, 0, 2}, beyond[6] = {1, 0, 1, 3, 0, 2};
    static const int32_t negative[6] = {-1, 0, 1, 2, 0, 2};
    double infinite[6];
    memcpy(infinite, values, sizeof values);
    infinite[5] = INFINITY;
    REFUSED(rows.d = FEATURES - 1);
    REFUSED(rows.d = 0);
    REFUSED(rows.n = -1);
    REFUSED(rows.parts = 0);
    REFUSED(rows.part = NULL);
    REFUSED(part[1].first = WIDTH - 1);
    REFUSED(part[4].first = FEATURES);
    REFUSED(part[0].width = PTRDIFF_MAX);
    REFUSED(part[2].width = 0);
    REFUSED(part[4].width = 2);
    REFUSED(part[0].levels = 0);
    REFUSED(part[0].level = NULL);
    REFUSED(part[0].columns = NULL);
    REFUSED(part[0].values = NULL);
    REFUSED(part[0].level = late);
    REFUSED(part[0].level = falling);
    REFUSED(part[0].level = long_level);
    REFUSED(part[0].columns = twice);
    REFUSED(part[0].columns = beyond);
    REFUSED(part[0].columns = negative);
    REFUSED(part[0].values = infinite);
    REFUSED(part[3].type = (dpfast_code)5);
}

/* Codes and numbers that were changed after they were checked. */
static void check_changes(void)
{
    dpfast_coded rows = coded(5);
    int64_t offset[6];
    int32_t *found;
    double *entries;
    uint8_t *codes = (uint8_t *)rows.part[0].rows;
    double *numbers = (double *)rows.part[4].rows;
    CHECK(dpfast_coded_offsets(&rows, 0, 5, offset) == DPFAST_OK);
    found = filled((ptrdiff_t)offset[5], sizeof *found);
    entries = filled((ptrdiff_t)offset[5], sizeof *entries);
#define ENTRIES(start, stop, type)                                                                 \
    dpfast_coded_entries(&rows, start, stop, offset, type, found, entries)
    CHECK(ENTRIES(0, 5, DPFAST_INT32) == DPFAST_OK);
    CHECK(ENTRIES(0, 6, DPFAST_INT32) == DPFAST_ERR_ARGUMENT);
    CHECK(ENTRIES(-1, 5, DPFAST_INT32) == DPFAST_ERR_ARGUMENT);
    CHECK(ENTRIES(3, 2, DPFAST_INT32) == DPFAST_ERR_ARGUMENT);
    CHECK(ENTRIES(0, 5, DPFAST_INT64) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_coded_offsets(&rows, 0, 6, offset) == DPFAST_ERR_ARGUMENT);
    codes[4] = LEVELS;
    CHECK(ENTRIES(0, 5, DPFAST_INT32) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_coded_offsets(&rows, 0, 5, offset) == DPFAST_ERR_ARGUMENT);
    codes[4] = 0;
    CHECK(dpfast_coded_offsets(&rows, 0, 5, offset) == DPFAST_OK);
    codes[4] = 2; /* more entries than were counted */
    CHECK(ENTRIES(0, 5, DPFAST_UINT16) == DPFAST_ERR_ARGUMENT);
    codes[4] = 1; /* fewer */
    CHECK(ENTRIES(0, 5, DPFAST_UINT16) == DPFAST_ERR_ARGUMENT);
    codes[4] = 0;
    numbers[2] = NAN;
    CHECK(ENTRIES(0, 5, DPFAST_INT32) == DPFAST_ERR_NONFINITE);
    rows.d = 70000; /* not with columns of 16 bits */
    CHECK(ENTRIES(0, 5, DPFAST_UINT16) == DPFAST_ERR_ARGUMENT);
    free(found); free(entries);
    release(&rows);
}

/* Sums by levels against the rows one by one, in tables of the exact length. */
static void check_sums(ptrdiff_t n, ptrdiff_t start, ptrdiff_t stop, double intercept)
{
    dpfast_coded rows = coded(n);
    const ptrdiff_t levels = dpfast_coded_levels(&rows), m = stop - start;
    const ptrdiff_t dim = FEATURES + (intercept != 0.0);
    const dpfast_loss loss = {DPFAST_LOSS_squared, 0.0, 0.0};
    double *dense = filled(n * FEATURES, sizeof *dense), *w = filled(dim, sizeof *w);
    double *table = filled(2 * levels, sizeof *table), *scratch = filled(3 * levels, sizeof *scratch);
    double *out = filled(n, sizeof *out), *gradient = filled(dim, sizeof *gradient);
    double *target = filled(m, sizeof *target), *s = filled(m, sizeof *s), sum = 0.0, alone = 0.0;
    float *inverse = filled(m, sizeof *inverse);
    int32_t count[WIDTH];
    ptrdiff_t i, j, p;
    int64_t k;
    dpfast_csr beside;
    CHECK(levels == 3 * LEVELS + 2);
    CHECK(dpfast_coded_shared_by(&rows, 2, count) && !dpfast_coded_shared_by(&rows, 1, count));
    for (i = 0; i < n; i++) {
        for (p = 0; p < PARTS; p++) {
            const dpfast_part *part = &rows.part[p];
            double *row = dense + i * FEATURES + part->first;
            if (p >= 3) {
                row[0] = p == 3 ? (double)((const float *)part->rows)[i]
                                : ((const double *)part->rows)[i];
                continue;
            }
            for (k = level[code_of(part, i)]; k < level[code_of(part, i) + 1]; k++) {
                row[columns[k]] += values[k];
            }
        }
    }
    for (j = 0; j < dim; j++) w[j] = 0.25 * (double)(j % 5) - 0.5;
    for (i = 0; i < m; i++) {
        target[i] = (double)(i % 3) - 1.0;
        s[i] = 0.5 * (double)(i % 7) - 1.0;
        inverse[i] = 0.25f;
    }
    CHECK(dpfast_coded_table(&rows, w, table) == DPFAST_OK);
    CHECK(dpfast_coded_gather(&rows, start, stop, table, out) == DPFAST_OK);
    for (i = 0; i < m; i++) {
        double margin = 0.0;
        for (j = 0; j < FEATURES; j++) margin += dense[(start + i) * FEATURES + j] * w[j];
        CHECK(fabs(out[i] - margin) <= 1e-12 * (1.0 + fabs(margin)));
    }
    CHECK(dpfast_coded_scatter(&rows, start, stop, s, table) == DPFAST_OK);
    CHECK(dpfast_coded_fold(&rows, table, gradient) == DPFAST_OK);
    for (j = 0; j < FEATURES; j++) {
        double expected = 0.0;
        for (i = 0; i < m; i++) expected += s[i] * dense[(start + i) * FEATURES + j];
        CHECK(fabs(gradient[j] - expected) <= 1e-11 * (1.0 + fabs(expected)));
    }
    memset(&beside, 0, sizeof beside);
    beside.n = m;
    beside.d = FEATURES;
    beside.target = target;
    beside.inverse_norm = inverse;
    beside.intercept = intercept;
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 2.0, 3.0, scratch, gradient,
                                &sum) == DPFAST_OK);
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 2.0, 3.0, scratch, NULL,
                                &alone) == DPFAST_OK);
    CHECK(fabs(sum - alone) <= 1e-12 * (1.0 + fabs(sum)));
    for (j = 0; j < dim; j++) {
        double expected = 0.0;
        for (i = 0; i < m; i++) {
            const double margin = out[i] + (intercept != 0.0 ? intercept * w[FEATURES] : 0.0);
            double slope = margin - target[i];
            slope = slope > 0.5 ? 0.5 : slope < -0.5 ? -0.5 : slope;
            expected += slope * (j < FEATURES ? dense[(start + i) * FEATURES + j] : intercept);
        }
        CHECK(fabs(gradient[j] - expected) <= 1e-11 * (1.0 + fabs(expected)));
    }
    /* What is refused. */
    beside.n = n + 1;
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 2.0, 3.0, scratch, NULL,
                                &alone) == DPFAST_ERR_ARGUMENT);
    beside.n = m;
    beside.d = FEATURES + 1;
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 2.0, 3.0, scratch, NULL,
                                &alone) == DPFAST_ERR_ARGUMENT);
    beside.d = FEATURES;
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 0.0, 3.0, scratch, NULL,
                                &alone) == DPFAST_ERR_ARGUMENT);
    w[1] = NAN;
    CHECK(dpfast_coded_gradient(&rows, start, &beside, &loss, w, 2.0, 3.0, scratch, NULL,
                                &alone) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_coded_gather(&rows, start, n + 1, table, out) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_coded_scatter(&rows, -1, stop, s, table) == DPFAST_ERR_ARGUMENT);
    free(dense); free(w); free(table); free(scratch); free(out); free(gradient); free(target);
    free(s); free(inverse);
    release(&rows);
}

/* Four parts of bytes at once have the sums that each of them has by itself, to the last bit. */
static void check_four(ptrdiff_t n)
{
    enum { MANY = 6, TABLE = 5 * LEVELS + 1 };
    dpfast_part part[MANY] = {{0}};
    dpfast_coded rows = {0}, one = {0};
    double *s = filled(n, sizeof *s), *out = filled(n, sizeof *out), *own = filled(n, sizeof *own);
    double *sum = filled(n, sizeof *sum), *numbers = filled(n, sizeof *numbers);
    double table[TABLE], tables[2 * TABLE], by_itself[2 * LEVELS];
    ptrdiff_t i, p;
    for (i = 0; i < TABLE; i++) table[i] = 1.0 / (double)(3 + 7 * i);
    for (i = 0; i < n; i++) s[i] = sin((double)i);
    for (p = 0; p < MANY; p++) {
        uint8_t *codes = filled(n, sizeof *codes);
        for (i = 0; i < n; i++) codes[i] = (uint8_t)((i * (p + 1) + i / 5) % LEVELS);
        part[p].type = p == 4 ? DPFAST_NUMBER_FLOAT64 : DPFAST_CODE_UINT8;
        part[p].rows = codes;
        part[p].first = p < 5 ? p * WIDTH : 4 * WIDTH + 1;
        part[p].width = p == 4 ? 1 : WIDTH;
        part[p].levels = LEVELS;
        part[p].level = level;
        part[p].columns = columns;
        part[p].values = values;
    }
    free((void *)part[4].rows);
    part[4].rows = numbers;
    rows.n = one.n = n;
    rows.d = one.d = 5 * WIDTH + 1;
    rows.parts = MANY;
    rows.part = part;
    one.parts = 1;
    CHECK(dpfast_coded_check(&rows) == DPFAST_OK);
    CHECK(dpfast_coded_gather(&rows, 0, n, table, out) == DPFAST_OK);
    CHECK(dpfast_coded_scatter(&rows, 0, n, s, tables) == DPFAST_OK);
    for (p = 0; p < MANY; p++) {
        const ptrdiff_t at = p < 5 ? p * LEVELS : 4 * LEVELS + 1;
        one.part = &part[p];
        CHECK(dpfast_coded_gather(&one, 0, n, table + at, own) == DPFAST_OK);
        for (i = 0; i < n; i++) sum[i] += own[i];
        CHECK(dpfast_coded_scatter(&one, 0, n, s, by_itself) == DPFAST_OK);
        CHECK(memcmp(by_itself, tables + at, (p == 4 ? 1 : LEVELS) * sizeof *tables) == 0);
    }
    CHECK(memcmp(sum, out, (size_t)n * sizeof *sum) == 0);
    for (p = 0; p < MANY; p++) free((void *)part[p].rows);
    free(s); free(out); free(own); free(sum);
}

int main(void)
{
    int isa;
    static const ptrdiff_t sizes[] = {0, 1, 3, 63, 64, 65, 200};
    size_t s;
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const ptrdiff_t n = sizes[s];
        check_rows(n, 0, n, DPFAST_INT32);
        check_rows(n, 0, n, DPFAST_UINT16);
        check_rows(n, n / 3, n - n / 4, DPFAST_INT32);
        check_rows(n, n / 2, n / 2, DPFAST_UINT16);
    }
    check_refusals();
    check_changes();
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            check_sums(sizes[s], 0, sizes[s], 0.5);
            check_sums(sizes[s], sizes[s] / 3, sizes[s] - sizes[s] / 4, 0.0);
        }
        check_sums(1100, 7, 1090, -0.25);
        check_four(0);
        check_four(1101);
        printf("sums by levels on %s: done\n", dpfast_isa_name(isa));
    }
    return outcome();
}
