/* Rows in codes: all codes of two rows, those without a level included, places that fit them or do
 * not, any numbers, levels with any columns and values, and what is refused before it is touched. */
#include "any.h"

enum { LEVELS = 3, WIDTH = 3, MOST = 67, ROOM = 4 * MOST };

/* One entry, none, three. */
static const int64_t level[LEVELS + 1] = {0, 1, 1, 4};

/* n codes: the digits of a number to the base of LEVELS + 1, so that one of them has no level. */
static void set_codes(void *codes, dpfast_code type, ptrdiff_t n, int digits)
{
    ptrdiff_t i;
    /*@ loop unroll 4096; */
    for (i = 0; i < n; i++, digits /= LEVELS + 1) {
        const int code = digits % (LEVELS + 1);
        if (type == DPFAST_CODE_UINT8) {
            ((uint8_t *)codes)[i] = (uint8_t)code;
        } else if (type == DPFAST_CODE_UINT16) {
            ((uint16_t *)codes)[i] = (uint16_t)code;
        } else {
            ((uint32_t *)codes)[i] = (uint32_t)code;
        }
    }
}

/* Arrays end where what is meant for them does, so that a step beyond is seen. */
static void check_rows(dpfast_code type, dpfast_code number, ptrdiff_t n, int digits,
                       dpfast_index index_type, int places)
{
    static const int32_t columns[4] = {1, 0, 1, 2};
    uint32_t codes[MOST];
    int64_t offset[MOST + 1];
    double values[4], numbers[MOST], entries[ROOM];
    int32_t found[ROOM];
    dpfast_part part[2] = {{0}};
    dpfast_coded rows;
    ptrdiff_t i, size;
    set_codes(codes, type, n, digits);
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)numbers, sizeof numbers);
    part[0].type = type;
    part[0].rows = codes;
    part[0].width = WIDTH;
    part[0].levels = LEVELS;
    part[0].level = level;
    part[0].columns = columns;
    part[0].values = values;
    part[1].type = number;
    part[1].rows = number == DPFAST_NUMBER_FLOAT64 ? (const void *)(numbers + MOST - n)
                                                   : (const void *)((float *)(numbers + MOST) - n);
    part[1].first = WIDTH;
    part[1].width = 1;
    rows.n = n;
    rows.d = WIDTH + 1;
    rows.parts = 2;
    rows.part = part;
    dpfast_coded_check(&rows);
    /* Places that were counted, or those of other rows: too many for some, too few for others. */
    if (dpfast_coded_offsets(&rows, 0, n, offset + MOST - n) != DPFAST_OK || places > 0) {
        /*@ loop unroll 4096; */
        for (i = 0; i <= n; i++) {
            offset[MOST - n + i] = 7 + places * i;
        }
    }
    size = (ptrdiff_t)(offset[MOST] - offset[MOST - n]);
    dpfast_coded_entries(&rows, 0, n, offset + MOST - n, index_type,
                         index_type == DPFAST_UINT16 ? (void *)((uint16_t *)(found + ROOM) - size)
                                                     : (void *)(found + ROOM - size),
                         entries + ROOM - size);
}

/* Sums by levels of any numbers, weights and targets; tables of the exact length. */
static void check_sums(dpfast_code type, dpfast_code number, ptrdiff_t n, int sign)
{
    static const int32_t columns[4] = {1, 0, 1, 2};
    uint32_t codes[5];
    double values[4], numbers[5], out[5], table[2 * (LEVELS + 1)], scratch[3 * (LEVELS + 1)];
    double gradient[WIDTH + 2], w[WIDTH + 2], loss_sum;
    int32_t count[WIDTH];
    dpfast_part part[2] = {{0}};
    dpfast_csr beside = {0};
    dpfast_coded rows;
    const dpfast_loss loss = some_loss();
    set_codes(codes, type, n, 2 + 4 * 1);
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)numbers, sizeof numbers);
    Frama_C_make_unknown((char *)w, sizeof w);
    part[0].type = type;
    part[0].rows = codes;
    part[0].width = WIDTH;
    part[0].levels = LEVELS;
    part[0].level = level;
    part[0].columns = columns;
    part[0].values = values;
    part[1].type = number;
    part[1].rows = numbers;
    part[1].first = WIDTH;
    part[1].width = 1;
    rows.n = n;
    rows.d = WIDTH + 1;
    rows.parts = 2;
    rows.part = part;
    beside.n = n;
    beside.d = WIDTH + 1;
    beside.target = any_doubles(n);
    beside.weight = PERHAPS(any_doubles(n));
    beside.row_scale = PERHAPS(any_doubles(n));
    beside.inverse_norm = PERHAPS(any_floats(n));
    beside.intercept = any_intercept(sign);
    dpfast_coded_levels(&rows);
    dpfast_coded_shared_by(&rows, 1, count);
    dpfast_coded_table(&rows, w, table);
    dpfast_coded_gather(&rows, 0, n, table, out);
    dpfast_coded_scatter(&rows, 0, n, numbers, table);
    dpfast_coded_fold(&rows, table, gradient);
    dpfast_coded_gradient(&rows, 0, &beside, &loss, w, any_double(), any_double(), scratch, gradient,
                          &loss_sum);
    dpfast_coded_gradient(&rows, 0, &beside, &loss, w, any_double(), any_double(), scratch, NULL,
                          &loss_sum);
}

/* Four parts of bytes, which are summed at once, and one more. */
static void check_four(void)
{
    static const int32_t columns[4] = {1, 0, 1, 2};
    uint8_t codes[5][3];
    double values[4], s[3], out[3], table[2 * 5 * LEVELS];
    dpfast_part part[5] = {{0}};
    dpfast_coded rows;
    ptrdiff_t p;
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)s, sizeof s);
    /*@ loop unroll 5; */
    for (p = 0; p < 5; p++) {
        set_codes(codes[p], DPFAST_CODE_UINT8, 3, 2 + 4 * (int)(p % 3));
        part[p].type = DPFAST_CODE_UINT8;
        part[p].rows = codes[p];
        part[p].first = p * WIDTH;
        part[p].width = WIDTH;
        part[p].levels = LEVELS;
        part[p].level = level;
        part[p].columns = columns;
        part[p].values = values;
    }
    rows.n = 3;
    rows.d = 5 * WIDTH;
    rows.parts = 5;
    rows.part = part;
    dpfast_coded_scatter(&rows, 0, 3, s, table);
    dpfast_coded_gather(&rows, 0, 3, table, out);
}

/* Any columns of levels. */
static void check_levels(void)
{
    static const uint8_t codes[2] = {0, 2};
    dpfast_part part = {0};
    dpfast_coded rows;
    int32_t columns[4];
    double values[4];
    Frama_C_make_unknown((char *)columns, sizeof columns);
    Frama_C_make_unknown((char *)values, sizeof values);
    part.type = any_int(-1, 5);
    part.rows = PERHAPS(codes);
    part.width = any_int(-1, 5);
    part.first = any_int(-1, 5);
    part.levels = LEVELS;
    part.level = level;
    part.columns = PERHAPS(columns);
    part.values = PERHAPS(values);
    rows.n = any_int(-1, 2);
    rows.d = any_int(-1, 5);
    rows.parts = 1;
    rows.part = &part;
    dpfast_coded_check(&rows);
}

/* Any sizes and arrays that are missing. */
static void check_refusals(void)
{
    dpfast_coded rows;
    int64_t offset = 0;
    double value;
    Frama_C_make_unknown((char *)&rows, sizeof rows);
    rows.part = NULL;
    dpfast_coded_check(&rows);
    dpfast_coded_offsets(&rows, any_int(-3, 3), any_int(-3, 3), &offset);
    dpfast_coded_entries(&rows, 0, 0, &offset, DPFAST_INT32, &value, &value);
    dpfast_coded_entries(&rows, 0, 0, NULL, DPFAST_INT32, &value, &value);
}

int main(void)
{
    int digits, places;
    check_refusals();
    check_levels();
    /*@ loop unroll 16; */
    for (digits = 0; digits < (LEVELS + 1) * (LEVELS + 1); digits++) {
        /*@ loop unroll 3; */
        for (places = 0; places <= 4; places += 2) {
            check_rows(DPFAST_CODE_UINT8, DPFAST_NUMBER_FLOAT32, 2, digits, DPFAST_INT32, places);
            check_rows(DPFAST_CODE_UINT16, DPFAST_NUMBER_FLOAT64, 2, digits, DPFAST_UINT16, places);
            check_rows(DPFAST_CODE_UINT32, DPFAST_NUMBER_FLOAT64, 2, digits, DPFAST_INT32, places);
        }
    }
    check_sums(DPFAST_CODE_UINT8, DPFAST_NUMBER_FLOAT32, 5, 1);
    check_sums(DPFAST_CODE_UINT16, DPFAST_NUMBER_FLOAT64, 5, 0);
    check_sums(DPFAST_CODE_UINT32, DPFAST_NUMBER_FLOAT64, 4, -1);
    check_four();
    check_rows(DPFAST_CODE_UINT8, DPFAST_NUMBER_FLOAT64, 67, 0x5B, DPFAST_UINT16, 0);
    return 0;
}
