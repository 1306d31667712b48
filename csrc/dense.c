/* Public entry of the dense kernels: argument checks, choice of instruction set, and the refusal of
 * anything that is not finite. */
#include "dense_ops.h"
#include "finite.h"

#include <float.h>
#include <math.h>

static const dpfast_dense_ops *ops(const dpfast_dense *rows)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_dense_ops)[rows->scalar];
}

static int valid_rows(const dpfast_dense *rows)
{
    return rows->n >= 0 && rows->d >= 0 && rows->row_stride >= rows->d &&
           (rows->n == 0 || rows->d == 0 || rows->x != NULL) && isfinite(rows->intercept) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32);
}

/* Losses of these rows can be evaluated. */
static int valid_problem(const dpfast_dense *rows, const dpfast_loss *loss, const double *w)
{
    return valid_rows(rows) && (rows->n == 0 || rows->target != NULL) && w != NULL &&
           dpfast_loss_valid(loss);
}

/* Norm of a row whose sum of squares over- or underflowed: scale by the largest entry. */
static double scaled_norm(ptrdiff_t d, const double *x)
{
    double largest = 0.0, sum = 0.0;
    ptrdiff_t j;
    for (j = 0; j < d; j++) {
        const double a = fabs(x[j]);
        largest = a > largest ? a : largest;
    }
    if (largest == 0.0) {
        return 0.0;
    }
    for (j = 0; j < d; j++) {
        const double a = x[j] / largest;
        sum += a * a;
    }
    return largest * sqrt(sum);
}

dpfast_status dpfast_dense_row_norms(const dpfast_dense *rows, double *norms)
{
    /* The computed sum of squares is within (d + 1) 2^-53 of the true one (every term is
     * positive), its root within half of that and one rounding; the factor makes it an upper
     * bound. */
    double up;
    ptrdiff_t i;
    if (!valid_rows(rows) || norms == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    up = 1.0 + ((double)rows->d / 2.0 + 4.0) * DBL_EPSILON;
    ops(rows)->row_square_sums(rows, norms);
    for (i = 0; i < rows->n; i++) {
        const double square = norms[i];
        if (square > 1e-280 && square < INFINITY) {
            norms[i] = sqrt(square) * up;
        } else if (rows->scalar == DPFAST_FLOAT32) {
            /* Squares of floats neither overflow nor underflow in double. */
            if (!isfinite(square)) {
                return DPFAST_ERR_NONFINITE;
            }
            norms[i] = sqrt(square) * up;
        } else {
            const double *x = (const double *)rows->x + i * rows->row_stride;
            if (!all_finite(rows->d, x)) {
                return DPFAST_ERR_NONFINITE;
            }
            /* A norm above the largest double stays infinite; denormal slack is added below. */
            norms[i] = scaled_norm(rows->d, x) * up;
            if (norms[i] > 0.0) {
                norms[i] += DBL_MIN * DBL_EPSILON;
            }
        }
    }
    return DPFAST_OK;
}

dpfast_status dpfast_dense_margins(const dpfast_dense *rows, const double *w, double *margins)
{
    if (!valid_rows(rows) || w == NULL || margins == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops(rows)->margins(rows, w, margins);
    return all_finite(rows->n, margins) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_dense_class_margins(const dpfast_dense *rows, ptrdiff_t n_classes, const double *w,
                                         double *margins)
{
    if (!valid_rows(rows) || n_classes < 1 || w == NULL || margins == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops(rows)->class_margins(rows, n_classes, w, margins);
    return all_finite(n_classes * rows->n, margins) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_dense_add_class_rows(const dpfast_dense *rows, ptrdiff_t n_classes, const double *s,
                                          double *sum)
{
    if (!valid_rows(rows) || n_classes < 1 || s == NULL || sum == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops(rows)->add_class_rows(rows, n_classes, s, sum);
    return DPFAST_OK;
}

dpfast_status dpfast_dense_gradient(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                                    double clip_norm, double loss_clip, double *gradient,
                                    double *loss_sum)
{
    if (!valid_problem(rows, loss, w) || gradient == NULL || loss_sum == NULL ||
        !(clip_norm > 0.0) || !(loss_clip > 0.0) ||
        (rows->consistent && loss->id != DPFAST_LOSS_logistic)) {
        return DPFAST_ERR_ARGUMENT;
    }
    *loss_sum = ops(rows)->gradient(rows, loss, w, clip_norm, loss_clip, gradient);
    return isfinite(*loss_sum) && all_finite(rows->d + (rows->intercept != 0.0), gradient)
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_dense_objective(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                                     double loss_clip, double *loss_sum)
{
    if (!valid_problem(rows, loss, w) || loss_sum == NULL || !(loss_clip > 0.0)) {
        return DPFAST_ERR_ARGUMENT;
    }
    *loss_sum = ops(rows)->gradient(rows, loss, w, INFINITY, loss_clip, NULL);
    return isfinite(*loss_sum) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_dense_curvature_rows(const dpfast_dense *rows, const dpfast_loss *loss,
                                          const double *w, int sign, double *out)
{
    if (!valid_problem(rows, loss, w) || out == NULL || (sign != 1 && sign != -1)) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops(rows)->curvature_rows(rows, loss, w, sign, out);
    return DPFAST_OK; /* the caller sees a NaN in the Gram matrix */
}

ptrdiff_t dpfast_addition_depth(ptrdiff_t n)
{
    /* Rows are added to the gradient one after another, sparse ones with a column at most once: an
     * entry passes through at most one addition a row, and the tail of a block of dense rows adds
     * groups of four.  A block of sparse rows may be a single one, so that the sums of losses and of
     * derivatives pass through an addition a row, too; the sum within a block adds a few. */
    return n + 8;
}

double dpfast_read_sum(ptrdiff_t n, const double *x)
{
    return DPFAST_OF_ISA_IN_USE(dpfast_vector_ops).read_sum(n, x);
}
