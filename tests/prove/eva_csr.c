/* Sparse rows: the check of a matrix on any arrays at all, the kernels on checked ones. */
#include "any.h"

static void check_kernels(ptrdiff_t n, ptrdiff_t d, ptrdiff_t each, ptrdiff_t more,
                          dpfast_index indptr_type, dpfast_index index_type, int value_type,
                          int sign)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_csr rows =
        any_csr(n, d, each, more, indptr_type, index_type, value_type, sign);
    const dpfast_loss loss = some_loss();
    const double *w = any_doubles(dim);
    double *per_row = any_doubles(n), *gradient = any_doubles(dim), sum;
    double *matrix = any_doubles(dim * dim);
    if (n <= 5) { /* row by row */
        dpfast_csr_row_norms(&rows, per_row);
    }
    dpfast_csr_margins(&rows, w, per_row);
    dpfast_csr_class_margins(&rows, 2, any_doubles(2 * dim), any_doubles(2 * n));
    dpfast_csr_add_class_rows(&rows, 2, any_doubles(2 * n), any_doubles(2 * dim));
    dpfast_csr_objective(&rows, &loss, w, any_double(), &sum);
    dpfast_csr_gradient(&rows, &loss, w, any_double(), any_double(), gradient, &sum);
    if (more < 700) { /* or every pair of entries of a row is followed */
        dpfast_csr_quadratic_forms(&rows, matrix, per_row);
        dpfast_csr_add_hessian(&rows, &loss, w, matrix);
    }
}

static ptrdiff_t bytes_of(dpfast_index type)
{
    return type == DPFAST_INT32 ? 4 : type == DPFAST_INT64 ? 8 : 2;
}

/* Any content of the arrays that a caller hands over unchecked: first of the offsets, which, as their
 * last is wrong, are found out; then of columns and values. */
static void check_check(dpfast_index indptr_type, dpfast_index index_type, int value_type)
{
    dpfast_csr rows = any_csr(5, 7, 2, 4, indptr_type, index_type, value_type, 0);
    const ptrdiff_t size = bytes_of(indptr_type);
    const void *indptr = rows.indptr;
    dpfast_csr_defect defect;
    rows.indptr = any_bytes(5 * size);
    rows.n = 3;
    dpfast_csr_check(&rows, -1, &defect);
    rows.n = 4;
    if (indptr_type == DPFAST_INT32) {
        ((int32_t *)rows.indptr)[4] = any_int(13, INT32_MAX);
    } else {
        ((int64_t *)rows.indptr)[4] = (int64_t)Frama_C_unsigned_int_interval(13, UINT32_MAX);
    }
    dpfast_csr_check(&rows, 12, NULL);
    rows.n = 5;
    rows.indptr = indptr;
    rows.indices = any_bytes(12 * bytes_of(index_type));
    dpfast_csr_check(&rows, 12, PERHAPS(&defect));
}

/* Every array of offsets that is right for three rows of three entries in all. */
static void check_offsets(dpfast_index index_type)
{
    dpfast_csr rows = any_csr(3, 2, 1, 1, DPFAST_INT64, index_type, DPFAST_FLOAT64, 0);
    int64_t *indptr = (int64_t *)rows.indptr;
    int first, second;
    rows.indices = any_bytes(3 * bytes_of(index_type));
    /*@ loop unroll 4; */
    for (first = 0; first <= 3; first++) {
        /*@ loop unroll 4; */
        for (second = first; second <= 3; second++) {
            indptr[1] = first;
            indptr[2] = second;
            dpfast_csr_check(&rows, 3, NULL);
        }
    }
}

static void check_refusals(void)
{
    dpfast_csr rows;
    dpfast_loss loss;
    double number;
    dpfast_csr_defect defect;
    Frama_C_make_unknown((char *)&rows, sizeof rows);
    Frama_C_make_unknown((char *)&loss, sizeof loss);
    rows.indptr = rows.indices = rows.values = NULL;
    rows.target = rows.weight = rows.row_scale = NULL;
    rows.inverse_norm = NULL;
    dpfast_csr_check(&rows, (ptrdiff_t)any_uint64(), &defect);
    dpfast_csr_row_norms(&rows, &number);
    dpfast_csr_margins(&rows, &number, &number);
    dpfast_csr_objective(&rows, &loss, &number, any_double(), &number);
    dpfast_csr_gradient(&rows, &loss, &number, any_double(), any_double(), &number, &number);
    dpfast_csr_add_hessian(&rows, &loss, &number, &number);
    dpfast_csr_quadratic_forms(&rows, &number, &number);
}

#define SHAPE(n, d, each, more)                                                                    \
    check_kernels(n, d, each, more, DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 0);                \
    check_kernels(n, d, each, more, DPFAST_INT64, DPFAST_INT32, DPFAST_FLOAT32, 1);                \
    check_kernels(n, d, each, more, DPFAST_INT32, DPFAST_INT32, ONES, -1);                         \
    check_kernels(n, d, each, more, DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT64, 1);                \
    check_kernels(n, d, each, more, DPFAST_INT32, DPFAST_INT64, DPFAST_FLOAT32, 0);                \
    check_kernels(n, d, each, more, DPFAST_INT64, DPFAST_INT64, ONES, 0);                          \
    check_kernels(n, d, each, more, DPFAST_INT32, DPFAST_UINT16, DPFAST_FLOAT64, 1);               \
    check_kernels(n, d, each, more, DPFAST_INT64, DPFAST_UINT16, DPFAST_FLOAT32, 0);               \
    check_kernels(n, d, each, more, DPFAST_INT64, DPFAST_UINT16, ONES, 1);

int main(void)
{
    check_refusals();
    check_check(DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64);
    check_check(DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT32);
    check_check(DPFAST_INT64, DPFAST_UINT16, ONES);
    check_offsets(DPFAST_INT64);
    check_offsets(DPFAST_INT32);
    check_offsets(DPFAST_UINT16);
    SHAPE(0, 3, 0, 0)
    SHAPE(3, 2, 0, 0)
    SHAPE(5, 7, 2, 5)
    check_kernels(40, 33, 1, 3, DPFAST_INT64, DPFAST_INT32, DPFAST_FLOAT64, 1); /* two tiles */
    check_kernels(3, 4, 700, 700, DPFAST_INT32, DPFAST_INT32, ONES, 0); /* two blocks: entries */
    check_kernels(514, 2, 1, 2, DPFAST_INT64, DPFAST_UINT16, DPFAST_FLOAT32, 1); /* and rows */
    return 0;
}
