/* Batches and private epochs under the sanitizers: exact-size buffers, every instruction set, dense
 * against sparse. */
#include "check.h"
#include "dpfast.h"

#define STEPS 9

static dpfast_stream keyed(uint8_t first)
{
    uint8_t key[DPFAST_KEY_BYTES] = {0};
    dpfast_stream stream;
    key[0] = first;
    memset(&stream, 0, sizeof stream);
    dpfast_stream_init(&stream, key);
    return stream;
}

static int all_zero(ptrdiff_t n, const uint64_t *set)
{
    ptrdiff_t k;
    for (k = 0; k < n; k++) {
        if (set[k] != 0) {
            return 0;
        }
    }
    return 1;
}

static void check_batches(ptrdiff_t n, ptrdiff_t m)
{
    dpfast_stream stream = keyed(1);
    const ptrdiff_t words = DPFAST_BATCH_SET_WORDS(n);
    uint64_t *set = calloc((size_t)words, sizeof *set);
    int64_t *index = malloc((size_t)n * sizeof *index);
    unsigned char *seen = malloc((size_t)n);
    ptrdiff_t count = -1, k, round;
    for (round = 0; round < 50; round++) {
        if (round % 2) {
            CHECK(dpfast_poisson_batch(&stream, n, m, n, set, index, &count) == DPFAST_OK);
        } else {
            CHECK(dpfast_fixed_size_batch(&stream, n, m, set, index) == DPFAST_OK);
            count = m;
        }
        CHECK(count >= 0 && count <= n);
        memset(seen, 0, (size_t)n);
        for (k = 0; k < count; k++) {
            CHECK(index[k] >= 0 && index[k] < n);
            CHECK(!seen[index[k]]);
            seen[index[k]] = 1;
        }
        CHECK(all_zero(words, set));
    }
    CHECK(dpfast_fixed_size_batch(&stream, n, n + 1, set, index) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fixed_size_batch(&stream, n, -1, set, index) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fixed_size_batch(&stream, n, 0, set, NULL) == DPFAST_OK);
    CHECK(dpfast_poisson_batch(&stream, n, 0, n, set, index, &count) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_poisson_batch(&stream, n, m, m - 1, set, index, &count) == DPFAST_ERR_ARGUMENT);
    dpfast_stream_wipe(&stream);
    CHECK(dpfast_fixed_size_batch(&stream, n, m, set, index) == DPFAST_ERR_ARGUMENT);
    free(set);
    free(index);
    free(seen);
}

typedef struct problem {
    ptrdiff_t n, d, dim;
    double *x, *target, *w, *velocity, *average, *work, *noise, *size;
    float *inverse_norm;
    int32_t *indptr, *columns;
    int64_t *index, *discrete;
    uint64_t *set;
    dpfast_dense dense;
    dpfast_csr csr;
} problem;

static problem make_problem(ptrdiff_t n, ptrdiff_t d, double intercept)
{
    problem p;
    unsigned state = 7;
    ptrdiff_t k;
    memset(&p, 0, sizeof p);
    p.n = n;
    p.d = d;
    p.dim = d + (intercept != 0.0);
    p.x = malloc((size_t)(n * d) * sizeof *p.x);
    p.columns = malloc((size_t)(n * d) * sizeof *p.columns);
    p.indptr = malloc((size_t)(n + 1) * sizeof *p.indptr);
    p.target = malloc((size_t)n * sizeof *p.target);
    p.inverse_norm = malloc((size_t)n * sizeof *p.inverse_norm);
    p.w = malloc((size_t)p.dim * sizeof *p.w);
    p.velocity = malloc((size_t)p.dim * sizeof *p.velocity);
    p.average = malloc((size_t)p.dim * sizeof *p.average);
    p.work = malloc((size_t)p.dim * sizeof *p.work);
    p.noise = malloc((size_t)p.dim * sizeof *p.noise);
    p.discrete = malloc((size_t)p.dim * sizeof *p.discrete);
    p.size = malloc(STEPS * sizeof *p.size);
    p.index = malloc((size_t)n * sizeof *p.index);
    p.set = calloc((size_t)DPFAST_BATCH_SET_WORDS(n), sizeof *p.set);
    for (k = 0; k < n * d; k++) {
        p.x[k] = uniform(&state);
        p.columns[k] = (int32_t)(k % d);
    }
    for (k = 0; k <= n; k++) {
        p.indptr[k] = (int32_t)(k * d);
    }
    for (k = 0; k < n; k++) {
        p.target[k] = uniform(&state) < 0.0 ? -1.0 : 1.0;
        p.inverse_norm[k] = 0.5f;
    }
    for (k = 0; k < STEPS; k++) {
        p.size[k] = 0.3 / (double)(k + 1);
    }
    p.dense.n = p.csr.n = n;
    p.dense.d = p.csr.d = p.dense.row_stride = d;
    p.dense.x = p.csr.values = p.x;
    p.csr.indptr = p.indptr;
    p.csr.indices = p.columns;
    p.dense.target = p.csr.target = p.target;
    p.dense.inverse_norm = p.csr.inverse_norm = p.inverse_norm;
    p.dense.intercept = p.csr.intercept = intercept;
    return p;
}

static void free_problem(problem *p)
{
    free(p->x); free(p->columns); free(p->indptr); free(p->target); free(p->inverse_norm);
    free(p->w); free(p->velocity); free(p->average); free(p->work); free(p->noise);
    free(p->discrete); free(p->size); free(p->index); free(p->set);
}

static dpfast_private_epoch epoch_of(problem *p, dpfast_sampling sampling, dpfast_step_noise noise)
{
    dpfast_private_epoch epoch;
    ptrdiff_t j;
    memset(&epoch, 0, sizeof epoch);
    for (j = 0; j < p->dim; j++) {
        p->w[j] = 0.1 * (double)(j % 7);
        p->velocity[j] = p->average[j] = 0.0;
    }
    epoch.alpha = 0.1;
    epoch.clip_norm = 0.4;
    epoch.w_radius = 2.0;
    epoch.momentum = 0.5;
    epoch.divisor = 3.0;
    epoch.n_steps = STEPS;
    epoch.step = p->size;
    epoch.step_stride = 1;
    epoch.sampling = sampling;
    epoch.batch = p->n < 3 ? 1 : 3;
    epoch.capacity = sampling == DPFAST_BATCH_POISSON ? p->n : epoch.batch;
    epoch.index = p->index;
    epoch.set = p->set;
    epoch.noise = noise;
    epoch.stddev = 0.5;
    epoch.grid = 0x1p-24;
    epoch.scale = UINT64_C(1) << 23;
    epoch.noise_work = p->noise;
    epoch.discrete_work = p->discrete;
    epoch.w = p->w;
    epoch.velocity = p->velocity;
    epoch.average = p->average;
    epoch.work = p->work;
    return epoch;
}

static void check_steps(problem *p, dpfast_sampling sampling, dpfast_step_noise noise)
{
    const dpfast_loss logistic = {0, 0.0, 0.0};
    dpfast_private_epoch epoch = epoch_of(p, sampling, noise);
    dpfast_stream stream = keyed(2);
    double *dense = malloc((size_t)p->dim * sizeof *dense), square = 0.0;
    ptrdiff_t j;
    CHECK(dpfast_dense_private_epoch(&p->dense, &logistic, &epoch, &stream) == DPFAST_OK);
    memcpy(dense, p->w, (size_t)p->dim * sizeof *dense);
    for (j = 0; j < p->dim; j++) {
        square += dense[j] * dense[j];
    }
    CHECK(square <= 4.0 * (1.0 + 1e-12));
    epoch = epoch_of(p, sampling, noise);
    stream = keyed(2);
    CHECK(dpfast_csr_private_epoch(&p->csr, &logistic, &epoch, &stream) == DPFAST_OK);
    for (j = 0; j < p->dim; j++) {
        /* A sum next to the middle between two grid points may go either way. */
        CHECK(fabs(p->w[j] - dense[j]) <= 1e-5);
    }
    epoch = epoch_of(p, sampling, noise);
    p->w[p->dim - 1] = INFINITY;
    epoch.w_radius = INFINITY;
    CHECK(dpfast_dense_private_epoch(&p->dense, &logistic, &epoch, &stream) ==
          DPFAST_ERR_NONFINITE);
    free(dense);
}

static void check_arguments(problem *p)
{
    const dpfast_loss logistic = {0, 0.0, 0.0}, unknown = {-1, 0.0, 0.0};
    dpfast_stream stream = keyed(3), blank = keyed(3);
    dpfast_private_epoch good =
        epoch_of(p, DPFAST_BATCH_FIXED_SIZE, DPFAST_NOISE_GAUSSIAN), epoch = good;
    const int64_t rows[2] = {0, 1}, decreasing[3] = {0, 2, 1}, start[3] = {0, 1, 2};
    const int64_t outside[2] = {0, p->n};
#define REFUSED() \
    CHECK(dpfast_dense_private_epoch(&p->dense, &logistic, &epoch, &stream) == DPFAST_ERR_ARGUMENT)
    CHECK(dpfast_dense_private_epoch(&p->dense, &unknown, &epoch, &stream) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_private_epoch(&p->dense, &logistic, &epoch, NULL) == DPFAST_ERR_ARGUMENT);
    dpfast_stream_wipe(&blank);
    CHECK(dpfast_csr_private_epoch(&p->csr, &logistic, &epoch, &blank) == DPFAST_ERR_ARGUMENT);
    epoch.batch = p->n + 1; REFUSED(); epoch = good;
    epoch.capacity = 0; REFUSED(); epoch = good;
    epoch.momentum = 1.0; REFUSED(); epoch = good;
    epoch.velocity = NULL; REFUSED(); epoch = good;
    epoch.stddev = NAN; REFUSED(); epoch = good;
    epoch.divisor = 0.0; REFUSED(); epoch = good;
    epoch.noise = (dpfast_step_noise)9; REFUSED(); epoch = good;
    epoch.sampling = (dpfast_sampling)9; REFUSED(); epoch = good;
    epoch.sampling = DPFAST_BATCH_GIVEN;
    epoch.n_steps = 2;
    epoch.indices = rows;
    epoch.batch_start = decreasing; REFUSED();
    epoch.batch_start = start;
    epoch.indices = outside; REFUSED();
    epoch.indices = rows;
    CHECK(dpfast_dense_private_epoch(&p->dense, &logistic, &epoch, &stream) == DPFAST_OK);
}

int main(void)
{
    static const ptrdiff_t sizes[][2] = {{2, 1}, {5, 4}, {300, 20}, {65, 67}};
    static const ptrdiff_t batches[][2] = {{1, 1}, {64, 1}, {64, 64}, {65, 33}, {1000, 7}};
    int isa, k, sampling, noise;
    dpfast_dispatch_init();
    for (k = 0; k < (int)(sizeof batches / sizeof batches[0]); k++) {
        check_batches(batches[k][0], batches[k][1]);
    }
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (k = 0; k < 2 * (int)(sizeof sizes / sizeof sizes[0]); k++) {
            problem p = make_problem(sizes[k / 2][0], sizes[k / 2][1], k % 2 ? 0.5 : 0.0);
            for (sampling = 1; sampling <= 2; sampling++) {
                for (noise = 2; noise <= 3; noise++) {
                    check_steps(&p, (dpfast_sampling)sampling, (dpfast_step_noise)noise);
                }
            }
            check_arguments(&p);
            free_problem(&p);
        }
        printf("private epochs on %s: done\n", dpfast_isa_name(isa));
    }
    return outcome();
}
