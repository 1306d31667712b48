/* The stochastic epochs without Python: arrays exactly as large as they must be, so that the
 * address sanitizer sees any step outside; dense against sparse rows; every instruction set. */
#include "check.h"
#include "dpfast.h"
#include "epochs.h"

#define STEPS 150

static double *copy(ptrdiff_t n, const double *from)
{
    double *v = malloc((size_t)n * sizeof *v);
    memcpy(v, from, (size_t)n * sizeof *v);
    return v;
}

static void check_close(ptrdiff_t n, const double *a, const double *b)
{
    double largest = 0.0, difference = 0.0;
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        largest = fmax(largest, fabs(b[i]));
        difference = fmax(difference, fabs(a[i] - b[i]));
    }
    CHECK(difference <= 1e-10 * largest);
}

/* A problem of mostly empty rows, stored both ways. */
typedef struct problem {
    ptrdiff_t n, d, dim;
    double *x, *values, *target, *weight, *scale;
    float *inverse_norm;
    int32_t *indptr;
    uint16_t *columns;
    dpfast_dense dense;
    dpfast_csr csr;
} problem;

static problem make_problem(ptrdiff_t n, ptrdiff_t d, double intercept, unsigned *state)
{
    problem p;
    ptrdiff_t i, j, nnz = 0;
    memset(&p, 0, sizeof p);
    p.n = n;
    p.d = d;
    p.dim = d + (intercept != 0.0);
    p.x = malloc((size_t)(n * d) * sizeof *p.x);
    p.indptr = malloc((size_t)(n + 1) * sizeof *p.indptr);
    p.target = uniforms(n, state);
    p.weight = uniforms(n, state);
    p.scale = uniforms(n, state);
    p.inverse_norm = malloc((size_t)n * sizeof *p.inverse_norm);
    for (i = 0; i < n; i++) {
        p.target[i] = p.target[i] < 0.0 ? -1.0 : 1.0;
        p.weight[i] = fabs(p.weight[i]);
        p.scale[i] = 0.5 + 0.5 * fabs(p.scale[i]);
        p.inverse_norm[i] = 0.5f;
        p.indptr[i] = (int32_t)nnz;
        for (j = 0; j < d; j++) {
            p.x[i * d + j] = uniform(state) < -0.6 ? uniform(state) : 0.0;
            nnz += p.x[i * d + j] != 0.0;
        }
    }
    p.indptr[n] = (int32_t)nnz;
    p.values = malloc((size_t)nnz * sizeof *p.values);
    p.columns = malloc((size_t)nnz * sizeof *p.columns);
    for (nnz = 0, i = 0; i < n * d; i++) {
        if (p.x[i] != 0.0) {
            p.values[nnz] = p.x[i];
            p.columns[nnz++] = (uint16_t)(i % d);
        }
    }
    p.dense.n = p.csr.n = n;
    p.dense.d = p.csr.d = p.dense.row_stride = d;
    p.dense.x = p.x;
    p.csr.indptr = p.indptr;
    p.csr.indices = p.columns;
    p.csr.index_type = DPFAST_UINT16;
    p.csr.values = p.values;
    p.dense.target = p.csr.target = p.target;
    p.dense.weight = p.csr.weight = p.weight;
    p.dense.row_scale = p.csr.row_scale = p.scale;
    p.dense.inverse_norm = p.csr.inverse_norm = p.inverse_norm;
    p.dense.intercept = p.csr.intercept = intercept;
    return p;
}

static void free_problem(problem *p)
{
    free(p->x); free(p->values); free(p->target); free(p->weight); free(p->scale);
    free(p->inverse_norm); free(p->indptr); free(p->columns);
}

static void check_sgd(const problem *p, int svrg, double w_radius, unsigned *state)
{
    const dpfast_loss logistic = {0, 0.0, 0.0};
    int64_t *indices = malloc(STEPS * sizeof *indices);
    double *w = uniforms(p->dim, state), *step = uniforms(STEPS, state);
    double *w_csr = copy(p->dim, w), *average = calloc((size_t)p->dim, sizeof *average);
    double *average_csr = calloc((size_t)p->dim, sizeof *average);
    double *weight = uniforms(STEPS, state), *derivative = uniforms(p->n, state);
    double *gradient = uniforms(p->dim, state);
    dpfast_sgd epoch;
    ptrdiff_t k;
    for (k = 0; k < STEPS; k++) {
        indices[k] = (int64_t)((0.5 + 0.4999 * uniform(state)) * (double)p->n);
    }
    memset(&epoch, 0, sizeof epoch);
    epoch.alpha = 0.3;
    epoch.w_radius = w_radius;
    epoch.snapshot_derivative = svrg ? derivative : NULL;
    epoch.snapshot_gradient = svrg ? gradient : NULL;
    epoch.n_steps = STEPS;
    epoch.indices = indices;
    epoch.step = step;
    epoch.step_stride = 1;
    epoch.average_weight = weight;
    epoch.w = w;
    epoch.average = average;
    CHECK(dpfast_dense_sgd_epoch(&p->dense, &logistic, &epoch) == DPFAST_OK);
    epoch.w = w_csr;
    epoch.average = average_csr;
    CHECK(dpfast_csr_sgd_epoch(&p->csr, &logistic, &epoch) == DPFAST_OK);
    check_close(p->dim, w_csr, w);
    check_close(p->dim, average_csr, average);
    epoch.average = NULL;
    epoch.average_weight = NULL;
    CHECK(dpfast_dense_sgd_epoch(&p->dense, &logistic, &epoch) == DPFAST_OK);

    indices[STEPS - 1] = p->n;
    CHECK(dpfast_dense_sgd_epoch(&p->dense, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_sgd_epoch(&p->csr, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    indices[STEPS - 1] = 0;
    w_csr[p->dim - 1] = NAN;
    CHECK(dpfast_dense_sgd_epoch(&p->dense, &logistic, &epoch) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_csr_sgd_epoch(&p->csr, &logistic, &epoch) == DPFAST_ERR_NONFINITE);
    free(indices); free(w); free(w_csr); free(step); free(average); free(average_csr);
    free(weight); free(derivative); free(gradient);
}

static void check_katyusha(const problem *p, double tau1, double w_radius, unsigned *state)
{
    const dpfast_loss logistic = {0, 0.0, 0.0};
    int64_t *indices = malloc(STEPS * sizeof *indices);
    double *z = uniforms(p->dim, state), *y = uniforms(p->dim, state);
    double *z_csr = copy(p->dim, z), *y_csr = copy(p->dim, y);
    double *average = copy(p->dim, z), *average_csr = copy(p->dim, z), scale = 0.0, scale_csr = 0.0;
    double *snapshot = uniforms(p->dim, state), *gradient = uniforms(p->dim, state);
    double *margin = uniforms(p->n, state), *derivative = uniforms(p->n, state);
    dpfast_katyusha epoch;
    ptrdiff_t k;
    for (k = 0; k < STEPS; k++) {
        indices[k] = (int64_t)((0.5 + 0.4999 * uniform(state)) * (double)p->n);
    }
    /* The lazy updates need the true margins. */
    CHECK(dpfast_dense_margins(&p->dense, snapshot, margin) == DPFAST_OK);
    memset(&epoch, 0, sizeof epoch);
    epoch.alpha = 0.05;
    epoch.smoothness = 2.0;
    epoch.tau1 = tau1;
    epoch.w_radius = w_radius;
    epoch.snapshot = snapshot;
    epoch.snapshot_gradient = gradient;
    epoch.snapshot_margin = margin;
    epoch.snapshot_derivative = derivative;
    epoch.n_steps = STEPS;
    epoch.indices = indices;
    epoch.z = z;
    epoch.y = y;
    epoch.average = average;
    epoch.average_scale = &scale;
    CHECK(dpfast_dense_katyusha_epoch(&p->dense, &logistic, &epoch) == DPFAST_OK);
    epoch.z = z_csr;
    epoch.y = y_csr;
    epoch.average = average_csr;
    epoch.average_scale = &scale_csr;
    CHECK(dpfast_csr_katyusha_epoch(&p->csr, &logistic, &epoch) == DPFAST_OK);
    check_close(p->dim, z_csr, z);
    check_close(p->dim, y_csr, y);
    check_close(p->dim, average_csr, average);
    CHECK(fabs(scale - scale_csr) <= 1e-12 * scale);

    indices[STEPS - 1] = -1;
    CHECK(dpfast_dense_katyusha_epoch(&p->dense, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_katyusha_epoch(&p->csr, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    indices[STEPS - 1] = 0;
    z_csr[0] = NAN;
    CHECK(dpfast_dense_katyusha_epoch(&p->dense, &logistic, &epoch) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_csr_katyusha_epoch(&p->csr, &logistic, &epoch) == DPFAST_ERR_NONFINITE);
    free(indices); free(z); free(y); free(z_csr); free(y_csr); free(average); free(average_csr);
    free(snapshot); free(gradient); free(margin); free(derivative);
}

static void check_arguments(void)
{
    const double x[2] = {1.0, 2.0}, y[2] = {1.0, -1.0}, step = 0.1;
    const dpfast_loss logistic = {0, 0.0, 0.0}, unknown = {-1, 0.0, 0.0};
    const int64_t indices[2] = {0, 1};
    double w = 0.5;
    dpfast_dense rows;
    dpfast_sgd epoch;
    memset(&rows, 0, sizeof rows);
    memset(&epoch, 0, sizeof epoch);
    rows.n = 2;
    rows.d = rows.row_stride = 1;
    rows.x = x;
    rows.target = y;
    epoch.w_radius = INFINITY;
    epoch.n_steps = 2;
    epoch.indices = indices;
    epoch.step = &step;
    epoch.w = &w;
    CHECK(dpfast_dense_sgd_epoch(&rows, &logistic, &epoch) == DPFAST_OK);
    CHECK(dpfast_dense_sgd_epoch(&rows, &unknown, &epoch) == DPFAST_ERR_ARGUMENT);
    epoch.step_stride = 2;
    CHECK(dpfast_dense_sgd_epoch(&rows, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    epoch.step_stride = 0;
    epoch.alpha = NAN;
    CHECK(dpfast_dense_sgd_epoch(&rows, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    epoch.alpha = 0.0;
    epoch.w = NULL;
    CHECK(dpfast_dense_sgd_epoch(&rows, &logistic, &epoch) == DPFAST_ERR_ARGUMENT);
    epoch.w = &w;
    epoch.n_steps = 0;
    epoch.indices = NULL;
    CHECK(dpfast_dense_sgd_epoch(&rows, &logistic, &epoch) == DPFAST_OK);
}

int main(void)
{
    static const ptrdiff_t sizes[][2] = {{1, 1}, {2, 3}, {5, 4}, {20, 20}, {9, 67}, {3, 513}};
    unsigned state = 1;
    int isa, k;
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (k = 0; k < 2 * (int)(sizeof sizes / sizeof sizes[0]); k++) {
            problem p = make_problem(sizes[k / 2][0], sizes[k / 2][1], k % 2 ? 0.5 : 0.0, &state);
            check_sgd(&p, 0, INFINITY, &state);
            check_sgd(&p, 0, 0.5, &state);
            check_sgd(&p, 1, INFINITY, &state);
            check_sgd(&p, 1, 0.5, &state);
            check_katyusha(&p, 0.5, INFINITY, &state);
            check_katyusha(&p, 0.2, INFINITY, &state);
            check_katyusha(&p, 0.2, 0.5, &state);
            free_problem(&p);
        }
        printf("epochs on %s: done\n", dpfast_isa_name(isa));
    }
    check_arguments();
    return outcome();
}
