/* Dense rows of any content, in the shapes below. */
#include "any.h"

static void check(dpfast_loss loss, ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar,
                  int sign)
{
    const ptrdiff_t dim = dimension_of(d, sign), classes = n * d < 400 ? 5 : 1;
    const dpfast_dense rows = any_dense(n, d, gap, scalar, sign);
    const double *w = any_doubles(dim);
    double *per_row = any_doubles(n), *gradient = any_doubles(dim), sum;
    double *curvature_rows = any_doubles(n * dim);
    dpfast_dense_row_norms(&rows, per_row);
    dpfast_dense_margins(&rows, w, per_row);
    dpfast_dense_class_margins(&rows, classes, any_doubles(classes * dim), any_doubles(classes * n));
    dpfast_dense_add_class_rows(&rows, classes, any_doubles(classes * n), any_doubles(classes * dim));
    dpfast_dense_objective(&rows, &loss, w, any_double(), &sum);
    dpfast_dense_gradient(&rows, &loss, w, any_double(), any_double(), gradient, &sum);
    dpfast_dense_curvature_rows(&rows, &loss, w, any_int(-2, 2), curvature_rows);
}

/* Any sizes, types and numbers, and arrays that are missing: refused before they are touched. */
static void check_refusals(void)
{
    dpfast_dense rows;
    dpfast_loss loss;
    double number;
    Frama_C_make_unknown((char *)&rows, sizeof rows);
    Frama_C_make_unknown((char *)&loss, sizeof loss);
    rows.x = NULL;
    rows.target = rows.weight = rows.row_scale = NULL;
    rows.inverse_norm = NULL;
    dpfast_dense_row_norms(&rows, NULL);
    dpfast_dense_margins(&rows, NULL, &number);
    dpfast_dense_margins(&rows, &number, NULL);
    dpfast_dense_class_margins(&rows, any_int(-1, 2), &number, NULL);
    dpfast_dense_add_class_rows(&rows, any_int(-1, 2), NULL, &number);
    dpfast_dense_objective(&rows, &loss, NULL, any_double(), &number);
    dpfast_dense_objective(&rows, &loss, &number, any_double(), NULL);
    dpfast_dense_gradient(&rows, &loss, &number, any_double(), any_double(), NULL, &number);
    dpfast_dense_gradient(&rows, &loss, &number, any_double(), any_double(), &number, NULL);
    dpfast_dense_curvature_rows(&rows, &loss, &number, any_int(-2, 2), NULL);
}

#define SHAPE(n, d)                                                                                \
    check(some_loss(), n, d, 0, DPFAST_FLOAT64, 0);                                                \
    check(some_loss(), n, d, 3, DPFAST_FLOAT64, 1);                                                \
    check(some_loss(), n, d, 0, DPFAST_FLOAT32, -1);                                               \
    check(some_loss(), n, d, 3, DPFAST_FLOAT32, 0);

int main(void)
{
    check_refusals();
    dpfast_addition_depth(any_int(0, 1 << 30));
    SHAPE(0, 0)
    SHAPE(0, 3)
    SHAPE(3, 0)
    SHAPE(1, 1)
    SHAPE(2, 3)
    SHAPE(9, 2)
    SHAPE(19, 17)
    SHAPE(5, 70) /* rows taken one at a time */
    check(any_parameter(), 5, 3, 0, DPFAST_FLOAT64, 0);
    /* Two blocks; more than 2048 bytes a row. */
    check(loss_of(DPFAST_LOSS_huber), 9, 260, 1, DPFAST_FLOAT64, 1);
    /* Two blocks of the most rows. */
    check(loss_of(DPFAST_LOSS_logistic), 514, 1, 0, DPFAST_FLOAT32, 0);
    return 0;
}
