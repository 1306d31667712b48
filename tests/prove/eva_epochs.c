/* Stochastic epochs on rows of any content, in the shapes below; steps and rows arbitrary. */
#include "any.h"

enum { STEPS = 9 }; /* more than are fetched ahead */

static dpfast_sgd any_sgd(ptrdiff_t n, ptrdiff_t dim, int full)
{
    dpfast_sgd epoch;
    epoch.alpha = any_double();
    epoch.w_radius = full ? any_positive() : INFINITY;
    epoch.snapshot_derivative = full ? any_doubles(n) : NULL;
    epoch.snapshot_gradient = full ? any_doubles(dim) : NULL;
    epoch.n_steps = n > 0 ? STEPS : 0;
    epoch.indices = n > 0 ? any_indices(STEPS, (int)n) : NULL;
    epoch.step_stride = full;
    epoch.step = any_doubles(full ? STEPS : 1);
    epoch.average_weight = full ? any_doubles(STEPS) : NULL;
    epoch.w = any_doubles(dim);
    epoch.average = full ? any_doubles(dim) : NULL;
    return epoch;
}

static dpfast_katyusha any_katyusha(ptrdiff_t n, ptrdiff_t dim, double radius)
{
    dpfast_katyusha epoch;
    epoch.alpha = any_double();
    epoch.smoothness = any_double();
    epoch.tau1 = any_double();
    epoch.w_radius = radius;
    epoch.snapshot = any_doubles(dim);
    epoch.snapshot_gradient = any_doubles(dim);
    epoch.snapshot_margin = any_doubles(n);
    epoch.snapshot_derivative = any_doubles(n);
    epoch.n_steps = n > 0 ? STEPS : 0;
    epoch.indices = n > 0 ? any_indices(STEPS, (int)n) : NULL;
    epoch.z = any_doubles(dim);
    epoch.y = any_doubles(dim);
    epoch.average = any_doubles(dim);
    epoch.average_scale = any_doubles(1);
    return epoch;
}

static void check_dense(ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar, int sign)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_dense rows = any_dense(n, d, gap, scalar, sign);
    const dpfast_loss loss = some_loss();
    dpfast_sgd epoch = any_sgd(n, dim, gap > 0);
    dpfast_katyusha katyusha = any_katyusha(n, dim, gap > 0 ? any_positive() : INFINITY);
    dpfast_dense_sgd_epoch(&rows, &loss, &epoch);
    epoch.snapshot_gradient = epoch.snapshot_derivative = NULL;
    dpfast_dense_sgd_epoch(&rows, &loss, &epoch);
    epoch = any_sgd(n, dim, gap == 0);
    dpfast_dense_sgd_epoch(&rows, &loss, &epoch);
    dpfast_dense_katyusha_epoch(&rows, &loss, &katyusha);
}

static void check_csr(ptrdiff_t n, ptrdiff_t d, ptrdiff_t each, ptrdiff_t more,
                      dpfast_index indptr_type, dpfast_index index_type, int value_type, int sign)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_csr rows =
        any_csr(n, d, each, more, indptr_type, index_type, value_type, sign);
    const dpfast_loss loss = some_loss();
    dpfast_sgd epoch = any_sgd(n, dim, sign > 0);
    dpfast_katyusha katyusha = any_katyusha(n, dim, INFINITY);
    dpfast_csr_sgd_epoch(&rows, &loss, &epoch);
    epoch = any_sgd(n, dim, sign == 0);
    dpfast_csr_sgd_epoch(&rows, &loss, &epoch);
    dpfast_csr_katyusha_epoch(&rows, &loss, &katyusha);
    katyusha = any_katyusha(n, dim, any_positive());
    dpfast_csr_katyusha_epoch(&rows, &loss, &katyusha);
}

/* Numbers and arrays that are refused, also on rows that are fine. */
static void check_refusals(void)
{
    dpfast_dense dense = any_dense(3, 2, 0, DPFAST_FLOAT64, 1);
    dpfast_csr csr = any_csr(3, 2, 1, 2, DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1);
    const dpfast_loss loss = some_loss();
    dpfast_sgd epoch = any_sgd(3, 3, 0);
    dpfast_katyusha katyusha = any_katyusha(3, 3, INFINITY);
    dpfast_loss none;
    Frama_C_make_unknown((char *)&none, sizeof none);
    none.id = -1;
    dpfast_dense_sgd_epoch(&dense, &none, &epoch);
    dpfast_csr_katyusha_epoch(&csr, &none, &katyusha);
    ((int64_t *)epoch.indices)[4] = Frama_C_long_interval(3, INT64_MAX);
    dpfast_dense_sgd_epoch(&dense, &loss, &epoch);
    ((int64_t *)epoch.indices)[4] = Frama_C_long_interval(INT64_MIN, -1);
    dpfast_csr_sgd_epoch(&csr, &loss, &epoch);
    epoch.indices = NULL;
    dpfast_dense_sgd_epoch(&dense, &loss, &epoch);
    epoch.n_steps = any_int(1, INT32_MAX);
    dpfast_csr_sgd_epoch(&csr, &loss, &epoch);
    epoch.n_steps = any_int(INT32_MIN, -1);
    dpfast_csr_sgd_epoch(&csr, &loss, &epoch);
    katyusha.indices = NULL;
    dpfast_dense_katyusha_epoch(&dense, &loss, &katyusha);
}

#define DENSE(n, d)                                                                                \
    check_dense(n, d, 0, DPFAST_FLOAT64, 0);                                                       \
    check_dense(n, d, 3, DPFAST_FLOAT64, 1);                                                       \
    check_dense(n, d, 0, DPFAST_FLOAT32, -1);                                                      \
    check_dense(n, d, 3, DPFAST_FLOAT32, 0);

#define CSR(n, d, each, more)                                                                      \
    check_csr(n, d, each, more, DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1);                    \
    check_csr(n, d, each, more, DPFAST_INT64, DPFAST_INT32, DPFAST_FLOAT32, 0);                    \
    check_csr(n, d, each, more, DPFAST_INT32, DPFAST_INT32, ONES, -1);                             \
    check_csr(n, d, each, more, DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT64, 0);                    \
    check_csr(n, d, each, more, DPFAST_INT32, DPFAST_INT64, DPFAST_FLOAT32, 1);                    \
    check_csr(n, d, each, more, DPFAST_INT64, DPFAST_INT64, ONES, 0);                              \
    check_csr(n, d, each, more, DPFAST_INT32, DPFAST_UINT16, DPFAST_FLOAT64, 0);                   \
    check_csr(n, d, each, more, DPFAST_INT64, DPFAST_UINT16, DPFAST_FLOAT32, 1);                   \
    check_csr(n, d, each, more, DPFAST_INT64, DPFAST_UINT16, ONES, 0);

void dense(void)
{
    check_refusals();
    DENSE(0, 2)
    DENSE(3, 0)
    DENSE(2, 1)
    DENSE(4, 13)
}

void csr(void)
{
    check_csr(0, 2, 0, 0, DPFAST_INT64, DPFAST_INT32, DPFAST_FLOAT64, 0);
    CSR(4, 3, 2, 3) /* every column updated */
}

/* Of many columns only those of a step's rows are updated. */
void lazy(void)
{
    check_csr(4, 30, 1, 4, DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1);
    check_csr(4, 30, 1, 4, DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT32, 0);
    check_csr(4, 30, 1, 4, DPFAST_INT32, DPFAST_UINT16, ONES, -1);
}
