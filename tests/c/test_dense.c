/* The dense kernels without Python: shapes at the edges of buffers that are exactly as large as
 * they must be, so that the address sanitizer sees any step outside; both instruction sets. */
#include "check.h"
#include "dpfast.h"

/* Every number of vectors that the kernels take apart in another way: as one after another. */
static void check_classes(const dpfast_dense *rows, unsigned *state)
{
    const ptrdiff_t n = rows->n, d = rows->d, dim = d + (rows->intercept != 0.0);
    const double *x = rows->x;
    ptrdiff_t classes, i, j, k;
    for (classes = 1; classes <= 6; classes++) {
        double *w = malloc((size_t)(classes * dim) * sizeof *w), *s = malloc((size_t)(classes * n) * 8);
        double *z = malloc((size_t)(classes * n) * 8), *alone = malloc((size_t)n * 8);
        double *sum = malloc((size_t)(classes * dim) * 8);
        for (i = 0; i < classes * dim; i++) w[i] = uniform(state);
        for (i = 0; i < classes * n; i++) s[i] = uniform(state);
        memcpy(sum, w, (size_t)(classes * dim) * 8);
        CHECK(dpfast_dense_class_margins(rows, classes, w, z) == DPFAST_OK);
        CHECK(dpfast_dense_add_class_rows(rows, classes, s, sum) == DPFAST_OK);
        for (k = 0; k < classes; k++) {
            CHECK(dpfast_dense_margins(rows, w + k * dim, alone) == DPFAST_OK);
            for (i = 0; i < n; i++) CHECK(fabs(z[k * n + i] - alone[i]) <= 1e-14 * (double)(d + 8));
            for (j = 0; j < dim; j++) {
                double expected = w[k * dim + j];
                for (i = 0; i < n; i++) {
                    expected += s[k * n + i] *
                                (j < d ? x[i * d + j] * rows->row_scale[i] : rows->intercept);
                }
                CHECK(fabs(sum[k * dim + j] - expected) <= 1e-14 * (double)(n + 8));
            }
        }
        free(w); free(s); free(z); free(alone); free(sum);
    }
    CHECK(dpfast_dense_class_margins(rows, 0, x, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_add_class_rows(rows, 1, NULL, NULL) == DPFAST_ERR_ARGUMENT);
}

static void check_shape(ptrdiff_t n, ptrdiff_t d, double intercept)
{
    const ptrdiff_t dim = d + (intercept != 0.0);
    const dpfast_loss logistic = {DPFAST_LOSS_logistic, 0.0, 0.0};
    const dpfast_loss squared = {DPFAST_LOSS_squared, 0.0, 0.0};
    double *x = malloc((size_t)(n * d) * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    double *scale = malloc((size_t)n * sizeof *scale), *w = malloc((size_t)dim * sizeof *w);
    float *inverse = malloc((size_t)n * sizeof *inverse);
    double *gradient = malloc((size_t)dim * sizeof *gradient);
    double *expected = calloc((size_t)dim, sizeof *expected);
    double *alike = calloc((size_t)dim, sizeof *alike);
    double *margins = malloc((size_t)n * sizeof *margins), *norms = malloc((size_t)n * sizeof *norms);
    double *rows_out = malloc((size_t)(n * dim) * sizeof *rows_out);
    double loss = 0.0, objective = 0.0, expected_loss = 0.0;
    unsigned state = (unsigned)(n * 131 + d);
    dpfast_dense rows;
    ptrdiff_t i, j;

    for (i = 0; i < n * d; i++) x[i] = uniform(&state);
    for (i = 0; i < dim; i++) w[i] = uniform(&state);
    for (i = 0; i < n; i++) {
        y[i] = uniform(&state) < 0.0 ? -1.0 : 1.0;
        scale[i] = 0.5 + 0.5 * fabs(uniform(&state));
        inverse[i] = 0.25f;
    }
    memset(&rows, 0, sizeof rows);
    rows.n = n;
    rows.d = d;
    rows.x = x;
    rows.row_stride = d;
    rows.target = y;
    rows.row_scale = scale;
    rows.inverse_norm = inverse;
    rows.intercept = intercept;

    for (i = 0; i < n; i++) {
        double z = intercept != 0.0 ? intercept * w[d] : 0.0, s, counted;
        for (j = 0; j < d; j++) z += scale[i] * x[i * d + j] * w[j];
        s = -y[i] / (1.0 + exp(y[i] * z));
        counted = s * fmin(1.0, 0.1 / fmax(1.0 / (1.0 + exp(z)), 1.0 / (1.0 + exp(-z))));
        s = s > 0.1 ? 0.1 : (s < -0.1 ? -0.1 : s); /* clip_norm 0.4 times inverse norm 0.25 */
        expected_loss += fmin(log1p(exp(-y[i] * z)), 0.9);
        for (j = 0; j < d; j++) {
            expected[j] += s * scale[i] * x[i * d + j];
            alike[j] += counted * scale[i] * x[i * d + j];
        }
        if (intercept != 0.0) {
            expected[d] += s * intercept;
            alike[d] += counted * intercept;
        }
    }
    rows.consistent = 1;
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 0.4, 0.9, gradient, &loss) == DPFAST_OK);
    for (j = 0; j < dim; j++) CHECK(fabs(gradient[j] - alike[j]) <= 1e-12 * (double)(n + 1));
    CHECK(fabs(loss - expected_loss) <= 1e-12 * (double)(n + 1));
    CHECK(dpfast_dense_gradient(&rows, &squared, w, 0.4, 0.9, gradient, &loss) ==
          DPFAST_ERR_ARGUMENT);
    rows.consistent = 0;
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 0.4, 0.9, gradient, &loss) == DPFAST_OK);
    for (j = 0; j < dim; j++) {
        CHECK(fabs(gradient[j] - expected[j]) <= 1e-12 * (double)(n + 1));
    }
    CHECK(fabs(loss - expected_loss) <= 1e-12 * (double)(n + 1));
    CHECK(dpfast_dense_objective(&rows, &logistic, w, 0.9, &objective) == DPFAST_OK);
    CHECK(objective == loss);
    CHECK(dpfast_dense_margins(&rows, w, margins) == DPFAST_OK);
    check_classes(&rows, &state);
    CHECK(dpfast_dense_row_norms(&rows, norms) == DPFAST_OK);
    CHECK(dpfast_dense_curvature_rows(&rows, &logistic, w, 1, rows_out) == DPFAST_OK);
    if (n > 0 && d > 0) {
        x[n * d - 1] = NAN;
        CHECK(dpfast_dense_gradient(&rows, &logistic, w, 0.4, 0.9, gradient, &loss) ==
              DPFAST_ERR_NONFINITE);
        CHECK(dpfast_dense_row_norms(&rows, norms) == DPFAST_ERR_NONFINITE);
    }
    free(x); free(y); free(scale); free(w); free(inverse); free(gradient); free(expected);
    free(alike);
    free(margins); free(norms); free(rows_out);
}

static void check_arguments(void)
{
    const double x[4] = {1, 2, 3, 4}, y[2] = {1, -1}, w[2] = {0, 0};
    const dpfast_loss logistic = {0, 0.0, 0.0}, unknown = {-1, 0.0, 0.0};
    double gradient[2], loss;
    dpfast_dense rows;
    memset(&rows, 0, sizeof rows);
    rows.n = 2;
    rows.d = 2;
    rows.x = x;
    rows.row_stride = 2;
    rows.target = y;
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 1.0, 1.0, gradient, &loss) == DPFAST_OK);
    CHECK(dpfast_dense_gradient(&rows, &unknown, w, 1, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 0, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, NAN, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_gradient(&rows, &logistic, NULL, 1, 1, gradient, &loss) ==
          DPFAST_ERR_ARGUMENT);
    rows.row_stride = 1;
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 1, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    rows.row_stride = 2;
    rows.n = -1;
    CHECK(dpfast_dense_gradient(&rows, &logistic, w, 1, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_loss_name(99) == NULL);
    CHECK(isnan(dpfast_loss_lipschitz(&unknown)));
    CHECK(dpfast_isa_name(-1) == NULL);
    CHECK(dpfast_isa_force(77) == DPFAST_ERR_UNSUPPORTED);
}

int main(void)
{
    static const ptrdiff_t sizes[][2] = {{0, 3}, {1, 1}, {3, 2}, {4, 4}, {5, 7}, {8, 16}, {9, 20},
                                         {513, 5}, {131, 64}, {66, 127}, {7, 513}, {11, 9000}};
    int isa;
    size_t k;
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            check_shape(sizes[k][0], sizes[k][1], 0.0);
            check_shape(sizes[k][0], sizes[k][1], 1.0);
        }
        printf("dense kernels on %s: done\n", dpfast_isa_name(isa));
    }
    check_arguments();
    return outcome();
}
