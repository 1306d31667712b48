/* Tilted, shifted and multinomial sums on rows of any content, in the shapes below. */
#include "any.h"

static void check_dense(ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar, int sign,
                        ptrdiff_t n_classes)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_dense rows = any_dense(n, d, gap, scalar, sign);
    const dpfast_loss loss = some_loss();
    const double *w = any_doubles(dim), *weights = any_doubles(n_classes * dim);
    double *scratch = any_doubles(dpfast_objective_scratch(n, dim));
    double *gradient = any_doubles(dim), *gradients = any_doubles(n_classes * dim), a, b;
    dpfast_dense_row_sum(&rows, any_doubles(n), scratch, gradient);
    dpfast_dense_tilted(&rows, &loss, any_double(), w, scratch, gradient, &a, &b);
    dpfast_dense_shifted(&rows, &loss, any_double(), any_double(), w, scratch, gradient, &a, &b);
    scratch = any_doubles(dpfast_multinomial_scratch(n, n_classes));
    dpfast_dense_multinomial(&rows, n_classes, weights, any_double(), scratch, gradients);
}

static void check_csr(ptrdiff_t n, ptrdiff_t d, ptrdiff_t each, ptrdiff_t more,
                      dpfast_index indptr_type, dpfast_index index_type, int value_type, int sign,
                      ptrdiff_t n_classes)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_csr rows =
        any_csr(n, d, each, more, indptr_type, index_type, value_type, sign);
    const dpfast_loss loss = some_loss();
    const double *w = any_doubles(dim), *weights = any_doubles(n_classes * dim);
    double *scratch = any_doubles(dpfast_objective_scratch(n, dim));
    double *gradient = any_doubles(dim), *gradients = any_doubles(n_classes * dim), a, b;
    dpfast_csr_row_sum(&rows, any_doubles(n), scratch, gradient);
    dpfast_csr_tilted(&rows, &loss, any_double(), w, scratch, gradient, &a, &b);
    dpfast_csr_shifted(&rows, &loss, any_double(), any_double(), w, scratch, gradient, &a, &b);
    scratch = any_doubles(dpfast_multinomial_scratch(n, n_classes));
    dpfast_csr_multinomial(&rows, n_classes, weights, any_double(), scratch, gradients);
}

/* Two blocks of rows. */
static void check_blocks(void)
{
    const dpfast_dense rows = any_dense(9, 1100, 0, DPFAST_FLOAT64, 0);
    const double *weights = any_doubles(2 * 1100);
    double *scratch = any_doubles(dpfast_multinomial_scratch(9, 2));
    dpfast_dense_multinomial(&rows, 2, weights, any_double(), scratch, any_doubles(2 * 1100));
}

#define DENSE(n, d, n_classes)                                                                     \
    check_dense(n, d, 0, DPFAST_FLOAT64, 0, n_classes);                                            \
    check_dense(n, d, 3, DPFAST_FLOAT64, 1, n_classes);                                            \
    check_dense(n, d, 0, DPFAST_FLOAT32, -1, n_classes);                                           \
    check_dense(n, d, 3, DPFAST_FLOAT32, 0, n_classes);

static void check_refusals(void)
{
    dpfast_dense none = any_dense(0, 2, 0, DPFAST_FLOAT64, 0);
    double number;
    dpfast_dense_row_sum(&none, &number, &number, &number);
    dpfast_dense_multinomial(&none, 3, &number, 1.0, &number, &number);
    none.n = 2;
    dpfast_dense_multinomial(&none, any_int(-3, 1), &number, 1.0, &number, &number);
    dpfast_csr_row_sum(NULL, &number, &number, &number);
}

void dense(void)
{
    check_refusals();
    DENSE(1, 0, 2)
    DENSE(3, 2, 2)
    DENSE(5, 7, 3)
    check_blocks();
}

void csr(void)
{
    check_csr(3, 2, 0, 2, DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1, 2);
    check_csr(5, 6, 2, 3, DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT32, 0, 3);
    check_csr(5, 6, 2, 3, DPFAST_INT32, DPFAST_UINT16, ONES, -1, 3);
}
