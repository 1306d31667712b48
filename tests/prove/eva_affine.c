/* Rows of any content after an affine map of their columns: all of them, and the first few. */
#include "any.h"

/* Any places among the lines of the counts, and beyond. */
static const ptrdiff_t *any_slots(ptrdiff_t d)
{
    ptrdiff_t *slot = any_bytes(d * (ptrdiff_t)sizeof *slot), j;
    for (j = 0; j < d; j++) {
        slot[j] = any_int(-2, 3);
    }
    return slot;
}

static void check_dense(ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar, int sign,
                        ptrdiff_t columns)
{
    const dpfast_dense rows = any_dense(n, d, gap, scalar, sign);
    const ptrdiff_t dim = dimension_of(d, sign);
    const double *factor = any_doubles(columns), *shift = any_doubles(columns);
    const dpfast_map by_column = {columns, NULL, factor, shift};
    const dpfast_map map = {columns, any_doubles(dim * columns), NULL, NULL};
    dpfast_dense_coordinates(&rows, &by_column,
                             any_doubles(dpfast_coordinates_scratch(dim, &by_column)),
                             any_doubles(n * columns), any_doubles(n));
    dpfast_dense_gram(&rows, &map, any_double(), sign > 0 ? NULL : any_doubles(n),
                      any_doubles(dpfast_coordinates_scratch(dim, &map)),
                      any_doubles(columns * columns));
    dpfast_dense_affine_rows_float(&rows, columns, factor, shift, any_floats(n * columns));
    dpfast_dense_part_sums(&rows, any_doubles(d), any_doubles(d), any_double(), any_doubles(n),
                           any_doubles(DPFAST_PART_ROWS * d), any_doubles(d), any_doubles(d),
                           sign > 0 ? NULL : any_doubles(d));
    dpfast_dense_column_counts(&rows, 3, any_slots(d), any_doubles(3), any_doubles(3), 2,
                               sign > 0 ? NULL : any_doubles(n), any_doubles(6));
}

static void check_csr(dpfast_index indptr_type, dpfast_index index_type, int value_type, int sign,
                      ptrdiff_t columns)
{
    const dpfast_csr rows = any_csr(5, 7, 2, 5, indptr_type, index_type, value_type, sign);
    dpfast_csr_affine_rows(&rows, columns, any_doubles(columns), any_doubles(columns),
                           any_doubles(5 * columns), any_doubles(5));
    dpfast_csr_part_sums(&rows, any_doubles(7), any_doubles(7), any_double(),
                         sign > 0 ? NULL : any_doubles(5), any_doubles(7), any_doubles(7),
                         sign > 0 ? NULL : any_doubles(7));
    dpfast_csr_shortening(&rows, any_doubles(7), any_doubles(7), any_double(), any_doubles(5));
    dpfast_csr_column_counts(&rows, 3, any_slots(7), any_doubles(3), any_doubles(3), 2,
                             sign > 0 ? NULL : any_doubles(5), any_doubles(6));
}

/* Any sizes, types and numbers, and arrays that are missing: refused before they are touched. */
static void check_refusals(void)
{
    dpfast_dense dense;
    dpfast_csr csr;
    dpfast_map map;
    double number;
    float single;
    Frama_C_make_unknown((char *)&dense, sizeof dense);
    Frama_C_make_unknown((char *)&csr, sizeof csr);
    csr.indptr = NULL;
    dense.x = NULL;
    map.columns = any_int(-3, 3);
    map.transform = map.factor = NULL;
    map.shift = &number;
    dpfast_dense_coordinates(&dense, &map, &number, NULL, &number);
    dpfast_dense_gram(&dense, &map, any_double(), NULL, &number, &number);
    dpfast_dense_affine_rows_float(&dense, any_int(-3, 3), &number, NULL, &single);
    dpfast_dense_part_sums(&dense, &number, &number, any_double(), NULL, NULL, &number, &number,
                           NULL);
    dpfast_dense_column_counts(&dense, 1, NULL, &number, &number, any_int(-1, 1), NULL, &number);
    dpfast_csr_column_counts(&csr, 1, NULL, &number, &number, any_int(-1, 1), NULL, &number);
    dpfast_csr_affine_rows(&csr, any_int(-3, 3), &number, &number, &number, &number);
    dpfast_csr_part_sums(&csr, &number, &number, any_double(), NULL, &number, &number, NULL);
    dpfast_csr_shortening(&csr, &number, &number, any_double(), &number);
}

#define DENSE(n, d, columns)                                                                       \
    check_dense(n, d, 0, DPFAST_FLOAT64, 0, columns);                                              \
    check_dense(n, d, 3, DPFAST_FLOAT32, 1, columns);

int main(void)
{
    check_refusals();
    DENSE(0, 2, 2)
    DENSE(3, 0, 0)
    DENSE(2, 1, 1)
    DENSE(3, 13, 13)
    DENSE(3, 13, 6)
    check_dense(3, 13, 0, DPFAST_FLOAT64, -1, 14);
    check_csr(DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1, 8);
    check_csr(DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT32, 0, 4);
    check_csr(DPFAST_INT64, DPFAST_UINT16, ONES, -1, 8);
    return 0;
}
