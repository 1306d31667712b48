/* Noisy epochs on rows of any content, in the shapes below; batches and noise arbitrary. */
#include "any.h"

enum { STEPS = 3, MOST = 9 };

/* Poisson batches since the epoch began. */
static int batches;

/* Analyzed in eva_random.c and proved in wp_batches.c; here they give any result that they promise. */

dpfast_status dpfast_fixed_size_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m,
                                      uint64_t *set, int64_t *index)
{
    ptrdiff_t k;
    /*@ loop unroll 100; */
    for (k = 0; k < m; k++) {
        index[k] = any_int(0, (int)n - 1);
    }
    return any_int(0, 1) ? DPFAST_OK : DPFAST_ERR_ARGUMENT;
}

dpfast_status dpfast_poisson_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch,
                                   ptrdiff_t capacity, uint64_t *set, int64_t *index,
                                   ptrdiff_t *count)
{
    static const ptrdiff_t counts[4] = {MOST, 0, 1, 5};
    *count = counts[batches];
    batches = (batches + 1) % 4;
    return dpfast_fixed_size_batch(stream, n, capacity, set, index);
}

dpfast_status dpfast_fill_gaussian(dpfast_stream *stream, ptrdiff_t n, double *out)
{
    if (n > 0) {
        Frama_C_make_unknown((char *)out, 8 * (size_t)n);
    }
    return any_int(0, 1) ? DPFAST_OK : DPFAST_ERR_ARGUMENT;
}

dpfast_status dpfast_fill_discrete_gaussian(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                            int64_t *out)
{
    ptrdiff_t i;
    /*@ loop unroll 100; */
    for (i = 0; i < n; i++) {
        out[i] = Frama_C_long_interval(-(INT64_C(1009) << 32), INT64_C(1009) << 32);
    }
    return any_int(0, 1) ? DPFAST_OK : DPFAST_ERR_ARGUMENT;
}

static dpfast_private_epoch any_epoch(ptrdiff_t n, ptrdiff_t dim, dpfast_sampling sampling,
                                      dpfast_step_noise noise, int full)
{
    static const int64_t starts[STEPS + 1] = {2, 9, 9, 11};
    dpfast_private_epoch epoch;
    batches = 0;
    epoch.alpha = any_double();
    epoch.clip_norm = any_positive();
    epoch.w_radius = full ? any_positive() : INFINITY;
    epoch.momentum = full ? any_double() : 0.0;
    epoch.divisor = any_double();
    epoch.snapshot = full ? any_doubles(dim) : NULL;
    epoch.snapshot_gradient = full ? any_doubles(dim) : NULL;
    epoch.n_steps = STEPS;
    epoch.step_stride = full;
    epoch.step = any_doubles(full ? STEPS : 1);
    epoch.average_weight = full ? any_doubles(STEPS) : NULL;
    epoch.sampling = sampling;
    epoch.batch = 2;
    epoch.capacity = MOST;
    epoch.index = sampling == DPFAST_BATCH_GIVEN ? NULL : any_bytes(8 * MOST);
    epoch.set = sampling == DPFAST_BATCH_GIVEN ? NULL : any_bytes(8 * DPFAST_BATCH_SET_WORDS(n));
    epoch.indices = sampling == DPFAST_BATCH_GIVEN ? any_indices(11, (int)n) : NULL;
    epoch.batch_start = sampling == DPFAST_BATCH_GIVEN ? starts : NULL;
    epoch.noise = noise;
    epoch.stddev = any_double();
    epoch.grid = any_double();
    epoch.scale = any_uint64();
    epoch.given_noise = noise == DPFAST_NOISE_GIVEN ? any_doubles(STEPS * dim) : NULL;
    epoch.noise_work = noise == DPFAST_NOISE_GAUSSIAN ? any_doubles(dim) : NULL;
    epoch.discrete_work = noise == DPFAST_NOISE_DISCRETE ? any_bytes(8 * dim) : NULL;
    epoch.w = any_doubles(dim);
    epoch.velocity = full ? any_doubles(dim) : NULL;
    epoch.average = full ? any_doubles(dim) : NULL;
    epoch.work = any_doubles(dim);
    return epoch;
}

static void check_dense(ptrdiff_t n, ptrdiff_t d, ptrdiff_t gap, dpfast_scalar scalar, int sign,
                        dpfast_sampling sampling, dpfast_step_noise noise)
{
    const dpfast_dense rows = any_dense(n, d, gap, scalar, sign);
    const dpfast_loss loss = some_loss();
    const dpfast_private_epoch epoch =
        any_epoch(n, dimension_of(d, sign), sampling, noise, gap > 0);
    dpfast_stream stream = any_stream();
    dpfast_dense_private_epoch(&rows, &loss, &epoch, &stream);
    dpfast_dense_private_epoch(&rows, &loss, &epoch, NULL);
}

static void check_csr(dpfast_index indptr_type, dpfast_index index_type, int value_type, int sign,
                      dpfast_sampling sampling, dpfast_step_noise noise)
{
    const dpfast_csr rows = any_csr(4, 6, 2, 5, indptr_type, index_type, value_type, sign);
    const dpfast_loss loss = some_loss();
    const dpfast_private_epoch epoch =
        any_epoch(4, dimension_of(6, sign), sampling, noise, sign > 0);
    dpfast_stream stream = any_stream();
    dpfast_csr_private_epoch(&rows, &loss, &epoch, &stream);
    dpfast_csr_private_epoch(&rows, &loss, &epoch, NULL);
}

#define DENSE(n, d)                                                                                \
    check_dense(n, d, 0, DPFAST_FLOAT64, 0, DPFAST_BATCH_GIVEN, DPFAST_NOISE_GIVEN);               \
    check_dense(n, d, 3, DPFAST_FLOAT64, 1, DPFAST_BATCH_POISSON, DPFAST_NOISE_GAUSSIAN);          \
    check_dense(n, d, 0, DPFAST_FLOAT32, -1, DPFAST_BATCH_FIXED_SIZE, DPFAST_NOISE_DISCRETE);      \
    check_dense(n, d, 3, DPFAST_FLOAT32, 0, DPFAST_BATCH_FIXED_SIZE, DPFAST_NOISE_NONE);

/* Numbers and arrays that are refused. */
static void check_refusals(void)
{
    dpfast_dense dense = any_dense(3, 2, 0, DPFAST_FLOAT64, 1);
    const dpfast_loss loss = some_loss();
    dpfast_private_epoch epoch = any_epoch(3, 3, DPFAST_BATCH_GIVEN, DPFAST_NOISE_NONE, 0);
    dpfast_stream stream = any_stream();
    ((int64_t *)epoch.indices)[4] = Frama_C_long_interval(3, INT64_MAX);
    dpfast_dense_private_epoch(&dense, &loss, &epoch, NULL);
    epoch.indices = NULL;
    dpfast_dense_private_epoch(&dense, &loss, &epoch, NULL);
    epoch.batch_start = NULL;
    dpfast_dense_private_epoch(&dense, &loss, &epoch, NULL);
    epoch.sampling = (dpfast_sampling)any_int(3, 1000);
    dpfast_dense_private_epoch(&dense, &loss, &epoch, &stream);
    epoch.sampling = DPFAST_BATCH_POISSON;
    dpfast_dense_private_epoch(&dense, &loss, &epoch, &stream);
    epoch = any_epoch(3, 3, DPFAST_BATCH_GIVEN, (dpfast_step_noise)any_int(4, 1000), 0);
    dpfast_dense_private_epoch(&dense, &loss, &epoch, &stream);
}

void dense(void)
{
    check_refusals();
    DENSE(3, 0)
    DENSE(2, 1)
    DENSE(4, 13)
}

void csr(void)
{
    check_csr(DPFAST_INT32, DPFAST_INT32, DPFAST_FLOAT64, 1, DPFAST_BATCH_GIVEN, DPFAST_NOISE_GIVEN);
    check_csr(DPFAST_INT64, DPFAST_INT64, DPFAST_FLOAT32, 0, DPFAST_BATCH_POISSON,
              DPFAST_NOISE_GAUSSIAN);
    check_csr(DPFAST_INT64, DPFAST_UINT16, ONES, -1, DPFAST_BATCH_FIXED_SIZE,
              DPFAST_NOISE_DISCRETE);
}
