/* The sums behind objectives without Python: buffers that are exactly as large as they must be, so
 * that the address sanitizer sees any step outside, against the definitions; every instruction
 * set. */
#include "check.h"
#include "dpfast.h"

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-11 * (1.0 + fabs(a) + fabs(b));
}

/* One problem, stored densely and sparsely. */
typedef struct problem {
    dpfast_dense dense;
    dpfast_csr csr;
    ptrdiff_t dim;
} problem;

static void check_sums(const problem *p, const dpfast_loss *loss, const double *w, double tilt)
{
    const ptrdiff_t n = p->dense.n, dim = p->dim;
    const double *x = p->dense.x;
    double *margin = malloc((size_t)n * sizeof *margin), *value = malloc((size_t)n * sizeof *value);
    double *slope = malloc((size_t)n * sizeof *slope), *s = malloc((size_t)n * sizeof *s);
    double *expected = malloc((size_t)dim * sizeof *expected);
    double *out = malloc((size_t)dim * sizeof *out);
    double *scratch = malloc((size_t)dpfast_objective_scratch(n, dim) * sizeof *scratch);
    dpfast_loss_info info;
    int sparse, what;
    ptrdiff_t i, j;

    dpfast_loss_describe(loss->id, &info);
    for (what = 0; what < 3; what++) {
        double top = -INFINITY, first = 0.0, second = 0.0;
        CHECK(dpfast_dense_margins(&p->dense, w, margin) == DPFAST_OK);
        for (i = 0; i < n && what == 2; i++) {
            const double r = margin[i] - p->dense.target[i];
            margin[i] = info.targets == DPFAST_SIGNS
                            ? margin[i] - 0.3 * p->dense.target[i]
                            : p->dense.target[i] + sqrt(r * r + 0.2 * 0.2) + 0.3;
            s[i] = info.targets == DPFAST_SIGNS ? 1.0 : r / sqrt(r * r + 0.2 * 0.2);
        }
        dpfast_loss_points(loss, n, margin, p->dense.target, value, slope, NULL);
        for (i = 0; i < n; i++) top = value[i] > top ? value[i] : top;
        for (i = 0; i < n; i++) {
            if (what == 0) {
                s[i] = slope[i];
            } else if (what == 1) {
                s[i] = exp(tilt * (value[i] - top)) * slope[i];
                second += expm1(tilt * (value[i] - top));
                first = top;
            } else {
                first += value[i];
                second +=
                    info.targets == DPFAST_SIGNS ? -p->dense.target[i] * slope[i] : slope[i];
                s[i] *= slope[i];
            }
        }
        memset(expected, 0, (size_t)dim * sizeof *expected);
        for (i = 0; i < n; i++) {
            for (j = 0; j < p->dense.d; j++) expected[j] += s[i] * x[i * p->dense.d + j];
            expected[dim - 1] += s[i] * p->dense.intercept;
        }
        for (sparse = 0; sparse < 2; sparse++) {
            double a = 0.0, b = 0.0;
            dpfast_status status;
            if (what == 0) {
                status = sparse ? dpfast_csr_row_sum(&p->csr, s, scratch, out)
                                : dpfast_dense_row_sum(&p->dense, s, scratch, out);
            } else if (what == 1) {
                status = sparse
                             ? dpfast_csr_tilted(&p->csr, loss, tilt, w, scratch, out, &a, &b)
                             : dpfast_dense_tilted(&p->dense, loss, tilt, w, scratch, out, &a, &b);
            } else {
                status = sparse ? dpfast_csr_shifted(&p->csr, loss, 0.3, 0.2, w, scratch, out, &a,
                                                     &b)
                                : dpfast_dense_shifted(&p->dense, loss, 0.3, 0.2, w, scratch, out,
                                                       &a, &b);
            }
            CHECK(status == DPFAST_OK);
            CHECK(near(a, first));
            CHECK(near(b, second));
            for (j = 0; j < dim; j++) CHECK(near(out[j], expected[j]));
        }
    }
    CHECK(dpfast_dense_tilted(&p->dense, loss, 0.0, w, scratch, out, value, slope) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_tilted(&p->dense, loss, NAN, w, scratch, out, value, slope) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_shifted(&p->csr, loss, -1.0, 0.0, w, scratch, out, value, slope) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_row_sum(&p->csr, NULL, scratch, out) == DPFAST_ERR_ARGUMENT);
    free(margin);
    free(value);
    free(slope);
    free(s);
    free(expected);
    free(out);
    free(scratch);
}

/* Three classes, with weights and clipping; targets are replaced. */
static void check_multinomial(problem p, unsigned state)
{
    enum { CLASSES = 3 };
    const ptrdiff_t n = p.dense.n, d = p.dense.d, dim = p.dim;
    const double *x = p.dense.x, clip = 0.4;
    double *w = uniforms(CLASSES * dim, &state), *weight = uniforms(n, &state);
    double *label = uniforms(n, &state), *row = malloc((size_t)dim * sizeof *row);
    double *expected = calloc((size_t)(CLASSES * dim), sizeof *expected);
    double *out = malloc((size_t)(CLASSES * dim) * sizeof *out);
    double *scratch =
        malloc((size_t)dpfast_multinomial_scratch(n, CLASSES) * sizeof *scratch);
    float *inverse = malloc((size_t)n * sizeof *inverse);
    ptrdiff_t i, j;
    int k, sparse;
    for (i = 0; i < n; i++) {
        double s[CLASSES], sum = 0.0, square = 0.0, length = 0.0, factor;
        label[i] = label[i] < -0.3 ? 0.0 : (label[i] < 0.3 ? 1.0 : 2.0);
        weight[i] = fabs(weight[i]);
        for (j = 0; j < d; j++) row[j] = x[i * d + j];
        row[d] = p.dense.intercept;
        for (j = 0; j < dim; j++) length += row[j] * row[j];
        inverse[i] = (float)(1.0 / sqrt(length));
        for (k = 0; k < CLASSES; k++) {
            double z = 0.0;
            for (j = 0; j < dim; j++) z += row[j] * w[k * dim + j];
            s[k] = exp(z);
            sum += s[k];
        }
        for (k = 0; k < CLASSES; k++) {
            s[k] = s[k] / sum - (k == (int)label[i]);
            square += s[k] * s[k];
        }
        factor = clip * (double)inverse[i] / sqrt(square);
        factor = weight[i] * (factor < 1.0 ? factor : 1.0);
        for (k = 0; k < CLASSES; k++) {
            for (j = 0; j < dim; j++) expected[k * dim + j] += factor * s[k] * row[j];
        }
    }
    p.dense.target = p.csr.target = label;
    p.dense.weight = p.csr.weight = weight;
    p.dense.inverse_norm = p.csr.inverse_norm = inverse;
    for (sparse = 0; sparse < 2; sparse++) {
        CHECK((sparse ? dpfast_csr_multinomial(&p.csr, CLASSES, w, clip, scratch, out)
                      : dpfast_dense_multinomial(&p.dense, CLASSES, w, clip, scratch, out)) ==
              DPFAST_OK);
        for (j = 0; j < CLASSES * dim; j++) CHECK(near(out[j], expected[j]));
    }
    CHECK(dpfast_dense_multinomial(&p.dense, 1, w, clip, scratch, out) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_multinomial(&p.dense, CLASSES, w, NAN, scratch, out) ==
          DPFAST_ERR_ARGUMENT);
    label[0] = 3.0;
    CHECK(dpfast_csr_multinomial(&p.csr, CLASSES, w, clip, scratch, out) ==
          DPFAST_ERR_ARGUMENT);
    free(w);
    free(weight);
    free(label);
    free(row);
    free(expected);
    free(out);
    free(scratch);
    free(inverse);
}

static void check_problem(ptrdiff_t n, ptrdiff_t d, const char *name, double parameter)
{
    unsigned state = 7u;
    double *x = uniforms(n * d, &state), *w = uniforms(d + 1, &state), *y = uniforms(n, &state);
    int64_t *indptr = malloc((size_t)(n + 1) * sizeof *indptr);
    int32_t *columns = malloc((size_t)(n * d) * sizeof *columns);
    dpfast_loss loss = {0, 0.0, 0.5};
    dpfast_loss_info info;
    problem p;
    ptrdiff_t i;

    while (strcmp(dpfast_loss_name(loss.id), name) != 0) loss.id++;
    loss.parameter = parameter;
    dpfast_loss_describe(loss.id, &info);
    for (i = 0; i < n; i++) {
        if (info.targets == DPFAST_SIGNS) y[i] = y[i] > 0.0 ? 1.0 : -1.0;
    }
    for (i = 0; i <= n; i++) indptr[i] = i * d;
    for (i = 0; i < n * d; i++) columns[i] = (int32_t)(i % d);
    memset(&p, 0, sizeof p);
    p.dim = d + 1;
    p.dense.n = p.csr.n = n;
    p.dense.d = p.dense.row_stride = p.csr.d = d;
    p.dense.x = p.csr.values = x;
    p.dense.target = p.csr.target = y;
    p.dense.intercept = p.csr.intercept = 0.7;
    p.dense.scalar = p.csr.scalar = DPFAST_FLOAT64;
    p.csr.indptr = indptr;
    p.csr.indptr_type = DPFAST_INT64;
    p.csr.indices = columns;
    p.csr.index_type = DPFAST_INT32;
    check_sums(&p, &loss, w, 1e-4);
    check_sums(&p, &loss, w, 3.0);
    check_multinomial(p, state);
    free(x);
    free(w);
    free(y);
    free(indptr);
    free(columns);
}

int main(void)
{
    int isa;
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (dpfast_isa_force(isa) != DPFAST_OK) continue;
        check_problem(1, 1, "logistic", 0.0);
        check_problem(7, 3, "huber", 1.35);
        /* more than one block of dense rows */
        check_problem(1500, 11, "logistic", 0.0);
        check_problem(40, 2100, "huberized_hinge", 0.0);
    }
    return outcome();
}
