/* A fuzz target over the whole C API, for libFuzzer and for the replay in test_fuzz.c.
 *
 * Bytes become sizes, types, losses, instruction sets and arrays whose buffers have no slack.
 * Half of the inputs keep to the headers' ranges; of those more is asked than that no sanitizer
 * complains: what is returned as good is finite, one row moves a clipped sum by no more than the
 * clip, choices are in range, batches are sets.
 *
 *   clang -O1 -g -fsanitize=fuzzer,address,undefined -Icsrc -o fuzz tests/c/fuzz_kernels.c csrc/[a-z]*.c -lm
 *   ./fuzz -max_len=256 -max_total_time=600 corpus
 */
#include "dpfast.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition);                          \
            fflush(stdout);                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct source {
    const uint8_t *data;
    size_t left;
    uint32_t state; /* what follows the last byte: numbers that depend on all before */
    int tame;       /* keep to the documented ranges */
} source;

static unsigned byte_of(source *s)
{
    if (s->left) {
        s->left--;
        s->state = s->state * 31u + *s->data;
        return *s->data++;
    }
    s->state = s->state * 1664525u + 1013904223u;
    return s->state >> 24;
}

static ptrdiff_t size_of(source *s, ptrdiff_t low, ptrdiff_t high)
{
    return low + (ptrdiff_t)((byte_of(s) * 256u + byte_of(s)) % (unsigned)(high - low + 1));
}

/* Small numbers, and now and then one from the edge of what there is. */
static double number(source *s)
{
    static const double edge[] = {0.0,       -0.0,     1.0,       -1.0,     1e-30, 1e30,    -1e30,
                                  1e150,     1e-150,   0x1p-1074, 0x1p-150, 1e308, DBL_MAX, -DBL_MAX,
                                  FLT_MAX,   NAN,      INFINITY,  -INFINITY};
    const unsigned kinds = s->tame ? 9 : sizeof edge / sizeof *edge;
    const unsigned kind = byte_of(s);
    if (kind < 32) return edge[kind % kinds];
    return ((double)byte_of(s) + (double)kind / 256.0 - 128.0) / 32.0;
}

static int64_t whole(source *s)
{
    return (int64_t)byte_of(s) * 1000 + byte_of(s) - 128000;
}

static double positive(source *s, double high)
{
    const double x = fabs(number(s));
    if (!s->tame) return number(s);
    return x > 0.0 ? fmin(x, high) : 0.5 * high;
}

static void *buffer(ptrdiff_t n, size_t size)
{
    void *x = malloc((size_t)n * size);
    if (x == NULL && n > 0) exit(0);
    return x;
}

static double *numbers(source *s, ptrdiff_t n)
{
    double *x = buffer(n, sizeof *x);
    ptrdiff_t i;
    for (i = 0; i < n; i++) x[i] = number(s);
    return x;
}

static int finite_all(ptrdiff_t n, const double *x)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static double norm_of(ptrdiff_t n, const double *x)
{
    double norm = 0.0;
    ptrdiff_t i;
    for (i = 0; i < n; i++) norm = hypot(norm, x[i]);
    return norm;
}

static dpfast_loss loss_of(source *s)
{
    dpfast_loss loss;
    dpfast_loss_info info;
    loss.id = (int)(byte_of(s) % (unsigned)(dpfast_loss_count() + !s->tame));
    loss.parameter = loss.width = 0.5;
    info.parameter_low = 0.0;
    if (dpfast_loss_describe(loss.id, &info) == DPFAST_OK) {
        loss.parameter = positive(s, 0.9) + (info.parameter_low > 0.0 ? info.parameter_low : 0.0);
        loss.width = positive(s, 4.0);
    }
    if (s->tame) {
        if (!dpfast_loss_valid(&loss)) loss.parameter = info.parameter_low + 0.5; /* it vanished */
        DEMAND(dpfast_loss_valid(&loss));
    }
    return loss;
}

/* The arrays of one entry a row, and outputs. */
typedef struct extras {
    double *target, *weight, *scale, *w;
    float *inverse;
    double intercept, clip, loss_clip, weight_sum;
    double *per_row, *gradient, *scratch;
} extras;

static extras extras_of(source *s, ptrdiff_t n, ptrdiff_t d, const dpfast_loss *loss,
                        const double *norms)
{
    extras e;
    const unsigned flags = byte_of(s);
    dpfast_loss_info info;
    ptrdiff_t i;
    memset(&info, 0, sizeof info);
    dpfast_loss_describe(loss->id, &info);
    e.intercept = flags & 1 ? positive(s, 2.0) : 0.0;
    if (!isfinite(e.intercept)) e.intercept = 1.0;
    e.clip = flags & 2 ? positive(s, 8.0) : INFINITY;
    e.loss_clip = flags & 4 ? positive(s, 8.0) : INFINITY;
    e.target = numbers(s, n);
    for (i = 0; i < n && s->tame; i++) {
        const double low = dpfast_loss_lowest_target(loss), high = dpfast_loss_highest_target(loss);
        e.target[i] = info.targets == DPFAST_SIGNS ? (e.target[i] < 0.0 ? -1.0 : 1.0)
                                                   : fmin(fmax(e.target[i], low), high);
    }
    e.weight = flags & 8 ? numbers(s, n) : NULL;
    e.scale = flags & 16 ? numbers(s, n) : NULL;
    e.weight_sum = 0.0;
    for (i = 0; i < n; i++) {
        if (s->tame && e.weight) e.weight[i] = fmin(fabs(e.weight[i]), 16.0);
        if (s->tame && e.scale) e.scale[i] = fmin(fmax(fabs(e.scale[i]), 1e-3), 1.0);
        e.weight_sum += e.weight ? e.weight[i] : 1.0;
    }
    e.inverse = NULL;
    if (flags & 32 && norms != NULL) {
        e.inverse = buffer(n, sizeof *e.inverse);
        for (i = 0; i < n; i++) {
            const double norm = hypot(norms[i] * (e.scale ? e.scale[i] : 1.0), e.intercept);
            const double inverse = fmin(1.0 / norm * (1.0 - 1e-6), FLT_MAX / 2);
            e.inverse[i] = nextafterf((float)inverse, 0.0f);
        }
    }
    e.w = numbers(s, d + (e.intercept != 0.0));
    e.per_row = buffer(n, sizeof(double));
    e.gradient = buffer(d + 1, sizeof(double));
    e.scratch = buffer(dpfast_objective_scratch(n, d + 1), sizeof(double));
    return e;
}

static void free_extras(extras *e)
{
    free(e->target);
    free(e->weight);
    free(e->scale);
    free(e->inverse);
    free(e->w);
    free(e->per_row);
    free(e->gradient);
    free(e->scratch);
}

/* One row's clipped gradient is no longer than the clip, so a sum is no longer than its weights'. */
static void check_gradient(const source *s, const extras *e, ptrdiff_t dim, dpfast_status status,
                           double loss_sum)
{
    DEMAND(status == DPFAST_OK || status == DPFAST_ERR_NONFINITE || !s->tame);
    if (status != DPFAST_OK || !s->tame) return;
    DEMAND(isfinite(loss_sum) && finite_all(dim, e->gradient));
    if (e->inverse && isfinite(e->clip))
        DEMAND(norm_of(dim, e->gradient) <= e->weight_sum * e->clip * (1.0 + 1e-9));
}

typedef struct problem {
    int sparse;
    dpfast_dense dense;
    dpfast_csr csr;
} problem;

#define EITHER(p, name, ...)                                                                       \
    ((p)->sparse ? dpfast_csr_##name(&(p)->csr, __VA_ARGS__)                                       \
                 : dpfast_dense_##name(&(p)->dense, __VA_ARGS__))

static void fuzz_epochs(source *s, const problem *p, const dpfast_loss *loss, const extras *e,
                        ptrdiff_t n, ptrdiff_t dim)
{
    const ptrdiff_t n_steps = size_of(s, 0, 4), batch = size_of(s, 1, n);
    const ptrdiff_t capacity = batch + size_of(s, 0, 8);
    const unsigned flags = byte_of(s);
    double *w = buffer(dim, sizeof *w), *z = buffer(dim, sizeof *z);
    double *average = flags & 1 ? calloc((size_t)dim, sizeof *average) : NULL;
    double *work = buffer(dim, sizeof *work), step = positive(s, 1.0), average_scale = 0.0;
    double *noise = numbers(s, n_steps * dim), *noise_work = buffer(dim, sizeof *noise_work);
    double *derivative = numbers(s, n), *snapshot = numbers(s, dim), start = 0.0;
    int64_t *indices = buffer(n_steps * batch, sizeof *indices);
    int64_t *scratch = buffer(capacity, sizeof *scratch), *discrete = buffer(dim, sizeof *discrete);
    uint64_t *set = calloc((size_t)DPFAST_BATCH_SET_WORDS(n), sizeof *set);
    uint8_t key[DPFAST_KEY_BYTES] = {0};
    dpfast_stream stream;
    dpfast_sgd sgd;
    dpfast_katyusha katyusha;
    dpfast_private_epoch epoch;
    dpfast_status status;
    ptrdiff_t i;

    for (i = 0; i < n_steps * batch; i++) {
        indices[i] = (int64_t)size_of(s, 0, n - 1);
        if (!s->tame && byte_of(s) == 0) indices[i] = whole(s);
    }
    for (i = 0; i < dim; i++) {
        w[i] = z[i] = e->w[i];
        start = hypot(start, w[i]);
    }
    memset(&sgd, 0, sizeof sgd);
    sgd.alpha = flags & 2 ? positive(s, 1.0) : 0.0;
    sgd.w_radius = flags & 4 ? positive(s, 8.0) : INFINITY;
    sgd.snapshot_derivative = flags & 8 ? derivative : NULL;
    sgd.snapshot_gradient = flags & 8 ? snapshot : NULL;
    sgd.n_steps = n_steps;
    sgd.indices = indices;
    sgd.step = &step;
    sgd.w = w;
    sgd.average = average;
    status = EITHER(p, sgd_epoch, loss, &sgd);
    if (s->tame && status == DPFAST_OK && n_steps > 0) {
        DEMAND(finite_all(dim, w));
        /* Over sparse rows the norm is kept up by differences: from huge weights, noise is left. */
        if (!p->sparse) DEMAND(!(norm_of(dim, w) > sgd.w_radius * (1.0 + 1e-9)));
    }

    memset(&katyusha, 0, sizeof katyusha);
    katyusha.alpha = sgd.alpha;
    katyusha.smoothness = positive(s, 8.0);
    katyusha.tau1 = s->tame ? 0.25 : number(s);
    katyusha.w_radius = sgd.w_radius;
    katyusha.snapshot = snapshot;
    katyusha.snapshot_gradient = noise_work;
    memset(noise_work, 0, (size_t)dim * sizeof *noise_work);
    katyusha.snapshot_margin = derivative;
    katyusha.snapshot_derivative = derivative;
    katyusha.n_steps = n_steps;
    katyusha.indices = indices;
    memcpy(w, e->w, (size_t)dim * sizeof *w);
    katyusha.z = z;
    katyusha.y = w;
    katyusha.average = work;
    katyusha.average_scale = &average_scale;
    (void)EITHER(p, katyusha_epoch, loss, &katyusha);

    memset(&epoch, 0, sizeof epoch);
    epoch.alpha = sgd.alpha;
    epoch.clip_norm = s->tame || e->clip > 0.0 ? e->clip : 1.0;
    epoch.w_radius = sgd.w_radius;
    epoch.momentum = flags & 32 ? 0.5 : 0.0;
    epoch.divisor = (double)batch;
    epoch.n_steps = n_steps;
    epoch.step = &step;
    epoch.sampling = flags & 64 ? DPFAST_BATCH_POISSON : DPFAST_BATCH_FIXED_SIZE;
    epoch.batch = batch;
    epoch.capacity = capacity;
    epoch.index = scratch;
    epoch.set = set;
    epoch.noise = (dpfast_step_noise)(byte_of(s) % 4);
    epoch.stddev = 1.0 + (double)(byte_of(s) % 8);
    epoch.grid = 0x1p-20;
    epoch.scale = (uint64_t)epoch.stddev << 20;
    epoch.given_noise = noise;
    epoch.noise_work = noise_work;
    epoch.discrete_work = discrete;
    memcpy(w, e->w, (size_t)dim * sizeof *w);
    memset(z, 0, (size_t)dim * sizeof *z);
    epoch.w = w;
    epoch.velocity = flags & 32 ? z : NULL;
    epoch.average = average;
    epoch.work = work;
    key[0] = (uint8_t)byte_of(s);
    dpfast_stream_init(&stream, key);
    status = EITHER(p, private_epoch, loss, &epoch, &stream);
    for (i = 0; i < (ptrdiff_t)DPFAST_BATCH_SET_WORDS(n); i++)
        DEMAND(set[i] == 0 || status != DPFAST_OK);
    if (s->tame && status == DPFAST_OK && n_steps > 0) {
        DEMAND(finite_all(dim, w));
        DEMAND(!(norm_of(dim, w) > epoch.w_radius * (1.0 + 1e-9)));
        /* One noiseless step without a ridge moves w by at most step / divisor times what the
         * batch's rows may contribute. */
        if (n_steps == 1 && epoch.noise == DPFAST_NOISE_NONE && epoch.alpha == 0.0 && e->inverse &&
            isfinite(epoch.clip_norm) && isinf(epoch.w_radius)) {
            double most = e->weight ? 16.0 : 1.0;
            most *= step * epoch.clip_norm * (double)capacity / epoch.divisor;
            for (i = 0; i < dim; i++) w[i] -= e->w[i];
            DEMAND(norm_of(dim, w) <= most * (1.0 + 1e-9) + 1e-9 * start);
        }
    }
    free(w);
    free(z);
    free(average);
    free(work);
    free(noise);
    free(noise_work);
    free(derivative);
    free(snapshot);
    free(indices);
    free(scratch);
    free(discrete);
    free(set);
}

static void fuzz_column_counts(problem *p, const extras *e, ptrdiff_t n)
{
    const ptrdiff_t d = p->sparse ? p->csr.d : p->dense.d, bins = 3;
    ptrdiff_t *slot = buffer(d + 1, sizeof *slot), j;
    double *counts = buffer(d * bins, sizeof *counts), sum = 0.0;
    for (j = 0; j < d * bins; j++) counts[j] = 0.0;
    for (j = 0; j < d; j++) slot[j] = j - 1;
    DEMAND(EITHER(p, column_counts, d, slot, e->w, e->w, bins, NULL, counts) == DPFAST_OK);
    for (j = 0; j < d * bins; j++) sum += counts[j];
    DEMAND(sum == (double)n * (double)(d > 0 ? d - 1 : 0));
    free(slot);
    free(counts);
}

static void fuzz_affine(problem *p, const extras *e, ptrdiff_t n, ptrdiff_t dim)
{
    double *out = buffer(n * dim, sizeof *out);
    float *narrow = buffer(n * dim, sizeof *narrow);
    const dpfast_map map = {dim, NULL, e->w, e->w};
    double *room = buffer(dpfast_coordinates_scratch(dim, &map), sizeof *room);
    if ((p->sparse ? dpfast_csr_affine_rows(&p->csr, dim, e->w, e->w, out, e->per_row)
                   : dpfast_dense_coordinates(&p->dense, &map, room, out, e->per_row)) == DPFAST_OK) {
        DEMAND(finite_all(n, e->per_row) && finite_all(n * dim, out));
    }
    if (!p->sparse) {
        const ptrdiff_t d = p->dense.d;
        double *z = buffer((DPFAST_PART_ROWS + 3) * d, sizeof *z), *sums = z + DPFAST_PART_ROWS * d;
        double *gram = buffer(dim * dim, sizeof *gram);
        (void)dpfast_dense_gram(&p->dense, &map, 1.0, NULL, room, gram);
        free(gram);
        (void)dpfast_dense_affine_rows_float(&p->dense, dim, e->w, e->w, narrow);
        (void)dpfast_dense_part_sums(&p->dense, e->w, e->w, 1.0, NULL, z, sums, sums + d,
                                     sums + 2 * d);
        free(z);
    } else {
        const ptrdiff_t d = p->csr.d;
        double *sums = buffer(3 * d, sizeof *sums);
        (void)dpfast_csr_part_sums(&p->csr, e->w, e->w, 1.0, NULL, sums, sums + d, sums + 2 * d);
        (void)dpfast_csr_shortening(&p->csr, e->w, e->w, 1.0, e->per_row);
        free(sums);
    }
    free(out);
    free(narrow);
    free(room);
}

/* The rows of a group one after another, all groups or the first one alone. */
static dpfast_status group_gradient(const problem *p, const dpfast_groups *groups,
                                    const dpfast_group_clip *clip, const dpfast_loss *loss,
                                    ptrdiff_t classes, ptrdiff_t dim, const double *w,
                                    double *gradient, double *share)
{
    problem some = *p;
    double *scratch =
        buffer(dpfast_group_scratch(groups->longest, dim, classes), sizeof *scratch);
    dpfast_status status;
    some.dense.n = some.csr.n = (ptrdiff_t)(groups->start[groups->n] - groups->start[0]);
    status = EITHER(&some, group_gradient, groups, clip, loss, classes, w, scratch, gradient, share);
    free(scratch);
    return status;
}

/* z = W^T x~, a row each, and lower bounds of 1 / ||z_i||; what a row's coordinates may be wrong by,
 * or NAN if they are not finite. */
static double coordinates(const problem *p, ptrdiff_t n, ptrdiff_t dim, const double *transform,
                          const double *norms, double *z, float *inverse)
{
    double *column = buffer(dim, sizeof *column), *margins = buffer(n, sizeof *margins);
    double entries = 0.0, longest = 0.0, error;
    ptrdiff_t i, j, l;
    for (l = 0; l < dim; l++) {
        for (j = 0; j < dim; j++) {
            column[j] = transform != NULL ? transform[j * dim + l] : (double)(j == l);
            entries += fabs(column[j]);
        }
        if (EITHER(p, margins, column, margins) != DPFAST_OK) entries = NAN;
        for (i = 0; i < n; i++) z[i * dim + l] = isnan(entries) ? 0.0 : margins[i];
    }
    for (i = 0; i < n; i++) longest = fmax(longest, hypot(norms[i], p->dense.intercept));
    error = 1e-13 * entries * longest;
    for (i = 0; i < n; i++) {
        const double length = norm_of(dim, z + i * dim) + error;
        const double least = fmin(1.0 / length * (1.0 - 1e-6), FLT_MAX / 2);
        inverse[i] = isnan(error) ? 1.0f : nextafterf((float)least, 0.0f);
    }
    free(column);
    free(margins);
    return isfinite(error) ? error : NAN;
}

static void fuzz_groups(source *s, problem *p, const dpfast_loss *loss, const extras *e,
                        const double *norms, ptrdiff_t n, ptrdiff_t dim, ptrdiff_t classes)
{
    const unsigned flags = byte_of(s);
    int64_t *start = buffer(n + 1, sizeof *start), *gram_start = buffer(n + 1, sizeof *gram_start);
    double *transform = flags & 1 ? buffer(dim * dim, sizeof *transform) : NULL, *gram;
    double *z = buffer(n * dim, sizeof *z), *gradient = buffer(classes * dim, sizeof *gradient);
    double share = 0.0, error;
    float *inverse = buffer(n, sizeof *inverse);
    const float *before = p->dense.inverse_norm;
    dpfast_group_clip clip;
    dpfast_groups groups;
    dpfast_status status;
    ptrdiff_t i, k;
    for (i = 0; transform != NULL && i < dim * dim; i++)
        transform[i] = s->tame ? ((double)byte_of(s) - 128.0) / 64.0 : number(s);
    error = coordinates(p, n, dim, transform, norms, z, inverse);
    p->dense.inverse_norm = p->csr.inverse_norm = inverse;

    memset(&groups, 0, sizeof groups);
    start[0] = (int64_t)size_of(s, 0, 9);
    gram_start[0] = (int64_t)size_of(s, 0, 9);
    while (start[groups.n] - start[0] < (int64_t)n) {
        const ptrdiff_t left = n - (ptrdiff_t)(start[groups.n] - start[0]);
        const ptrdiff_t m = size_of(s, 1, byte_of(s) & 1 && left > 3 ? 3 : left);
        const int held = m > 1 && byte_of(s) % 4;
        start[groups.n + 1] = start[groups.n] + (int64_t)m;
        gram_start[groups.n + 1] = gram_start[groups.n] + (held ? (int64_t)(m * (m + 1) / 2) : 0);
        groups.longest = m > groups.longest ? m : groups.longest;
        groups.n++;
    }
    if (!s->tame && byte_of(s) < 16) groups.longest--;
    gram = numbers(s, (ptrdiff_t)gram_start[groups.n]);
    groups.start = start;
    groups.gram_start = gram_start;
    groups.gram = gram;
    groups.transform = transform;
    status = dpfast_group_products(&groups, z, dim, gram);
    DEMAND(status == DPFAST_OK || !s->tame);

    /* Squares of slopes do not vanish, as of what queries may ask for. */
    clip.row_norm = s->tame ? fmax(positive(s, 4.0), 1e-30) : number(s);
    clip.norm = s->tame ? (e->weight != NULL ? 16.0 : 1.0) * clip.row_norm : number(s);
    clip.mass = positive(s, 8.0);
    clip.gauge = positive(s, 2.0);
    clip.relative = s->tame ? 1e-12 : number(s);
    clip.absolute = s->tame ? 20.0 * error : number(s);
    clip.consistent = flags & 2 && (classes > 1 || loss->id == DPFAST_LOSS_logistic);
    clip.correlation = s->tame ? (double)byte_of(s) / 255.0 : number(s);
    if (isnan(clip.absolute) && s->tame) clip.absolute = 0.0;
    status = group_gradient(p, &groups, &clip, loss, classes, dim, e->w, gradient, &share);
    DEMAND(status == DPFAST_OK || status == DPFAST_ERR_NONFINITE || !s->tame);
    if (status == DPFAST_OK && s->tame) {
        DEMAND(finite_all(classes * dim, gradient) && share >= 0.0);
        DEMAND(share <= (double)groups.n * (1.0 + 1e-9));
    }
    /* One group's gradient is no longer than the clip in the coordinates. */
    groups.n = groups.n > 1 ? 1 : groups.n;
    status = group_gradient(p, &groups, &clip, loss, classes, dim, e->w, gradient, &share);
    if (status == DPFAST_OK && s->tame && isfinite(error)) {
        double length = 0.0;
        for (k = 0; k < classes; k++) {
            for (i = 0; i < dim; i++) {
                double entry = transform == NULL ? gradient[k * dim + i] : 0.0;
                ptrdiff_t j;
                for (j = 0; transform != NULL && j < dim; j++)
                    entry += gradient[k * dim + j] * transform[j * dim + i];
                length = hypot(length, entry);
            }
        }
        DEMAND(length <= clip.norm * (1.0 + 1e-9));
    }
    p->dense.inverse_norm = p->csr.inverse_norm = before;
    free(start);
    free(gram_start);
    free(transform);
    free(gram);
    free(z);
    free(gradient);
    free(inverse);
}

static void fuzz_rows(source *s, problem *p, ptrdiff_t n, ptrdiff_t d)
{
    double *norms = buffer(n, sizeof *norms), loss_sum = 0.0, peak, excess, pull;
    const dpfast_loss loss = loss_of(s);
    const dpfast_status sound = p->sparse ? dpfast_csr_row_norms(&p->csr, norms)
                                          : dpfast_dense_row_norms(&p->dense, norms);
    const double shift = positive(s, 2.0), rounding = positive(s, 1.0), tilt = positive(s, 4.0);
    ptrdiff_t i, dim, classes;
    dpfast_status status;
    extras e;
    DEMAND(sound == DPFAST_OK || sound == DPFAST_ERR_NONFINITE);
    for (i = 0; sound == DPFAST_OK && i < n; i++) DEMAND(!isnan(norms[i]) && norms[i] >= 0.0);
    e = extras_of(s, n, d, &loss, sound == DPFAST_OK ? norms : NULL);
    dim = d + (e.intercept != 0.0);
    p->dense.target = p->csr.target = e.target;
    p->dense.weight = p->csr.weight = e.weight;
    p->dense.row_scale = p->csr.row_scale = e.scale;
    p->dense.inverse_norm = p->csr.inverse_norm = e.inverse;
    p->dense.intercept = p->csr.intercept = e.intercept;

    status = EITHER(p, margins, e.w, e.per_row);
    if (s->tame && status == DPFAST_OK) DEMAND(finite_all(n, e.per_row));
    if (status == DPFAST_OK) {
        double steps[3] = {0.0, 0.5, 2.0}, out[3];
        (void)dpfast_loss_points(&loss, n, e.per_row, e.target, NULL, e.scratch, NULL);
        (void)dpfast_line_search(n, e.per_row, e.target, e.target, e.weight, &loss, e.loss_clip, 3,
                                 steps, out);
    }
    if (loss.id == DPFAST_LOSS_logistic) {
        p->dense.consistent = p->csr.consistent = 1;
        status = EITHER(p, gradient, &loss, e.w, e.clip, e.loss_clip, e.gradient, &loss_sum);
        check_gradient(s, &e, dim, status, loss_sum);
        p->dense.consistent = p->csr.consistent = 0;
    }
    status = EITHER(p, gradient, &loss, e.w, e.clip, e.loss_clip, e.gradient, &loss_sum);
    check_gradient(s, &e, dim, status, loss_sum);
    if (s->tame && status == DPFAST_OK) {
        double again = 0.0;
        DEMAND(EITHER(p, objective, &loss, e.w, e.loss_clip, &again) == DPFAST_OK);
        DEMAND(fabs(again - loss_sum) <= 1e-9 * (1.0 + fabs(loss_sum)));
    }
    if (p->sparse) {
        double *hessian = calloc((size_t)(dim * dim), sizeof *hessian);
        (void)dpfast_csr_add_hessian(&p->csr, &loss, e.w, hessian);
        (void)dpfast_csr_quadratic_forms(&p->csr, hessian, e.per_row);
        free(hessian);
    } else {
        double *roots = buffer(n * dim, sizeof *roots);
        (void)dpfast_dense_curvature_rows(&p->dense, &loss, e.w, byte_of(s) & 1 ? 1 : -1, roots);
        free(roots);
    }
    fuzz_affine(p, &e, n, dim);
    fuzz_column_counts(p, &e, n);
    (void)EITHER(p, row_sum, e.target, e.scratch, e.gradient);
    if (n >= 1) {
        (void)EITHER(p, tilted, &loss, tilt, e.w, e.scratch, e.gradient, &peak, &excess);
        (void)EITHER(p, shifted, &loss, shift, rounding, e.w, e.scratch, e.gradient, &loss_sum,
                     &pull);
        fuzz_epochs(s, p, &loss, &e, n, dim);
        if (sound == DPFAST_OK) fuzz_groups(s, p, &loss, &e, norms, n, dim, 1);
        classes = size_of(s, 2, 4);
        free(e.gradient);
        free(e.scratch);
        free(e.w);
        e.w = numbers(s, classes * dim);
        e.gradient = buffer(classes * dim, sizeof(double));
        e.scratch = buffer(dpfast_multinomial_scratch(n, classes), sizeof(double));
        for (i = 0; i < n; i++)
            if (s->tame || byte_of(s) > 4) e.target[i] = (double)size_of(s, 0, classes - 1);
        status = EITHER(p, multinomial, classes, e.w, e.clip, e.scratch, e.gradient);
        check_gradient(s, &e, classes * dim, status, 0.0);
        if (sound == DPFAST_OK) fuzz_groups(s, p, &loss, &e, norms, n, dim, classes);
    }
    free(norms);
    free_extras(&e);
}

static void fuzz_dense(source *s)
{
    problem p;
    const ptrdiff_t n = size_of(s, 0, 36), d = size_of(s, 1, 40);
    const ptrdiff_t stride = d + (byte_of(s) & 1 ? size_of(s, 0, 3) : 0);
    const ptrdiff_t entries = n ? (n - 1) * stride + d : 0;
    double *x = numbers(s, entries);
    float *narrow = NULL;
    ptrdiff_t i;
    memset(&p, 0, sizeof p);
    p.dense.n = n;
    p.dense.d = d;
    p.dense.row_stride = stride;
    p.dense.x = x;
    p.dense.scalar = DPFAST_FLOAT64;
    if (byte_of(s) & 1) {
        narrow = buffer(entries, sizeof *narrow);
        for (i = 0; i < entries; i++) {
            if (s->tame) x[i] = fmin(fmax(x[i], -1e30), 1e30);
            narrow[i] = fabs(x[i]) > FLT_MAX ? (float)(x[i] > 0 ? INFINITY : -INFINITY) : (float)x[i];
        }
        p.dense.x = narrow;
        p.dense.scalar = DPFAST_FLOAT32;
    }
    fuzz_rows(s, &p, n, d);
    free(x);
    free(narrow);
}

/* Arrays of indices as they come; only what the check lets through goes on. */
static void fuzz_csr(source *s)
{
    static const size_t width[] = {4, 8, 2};
    problem p;
    const ptrdiff_t n = size_of(s, 0, 24), d = size_of(s, 1, 40), nnz = size_of(s, 0, 96);
    const dpfast_index pointers = byte_of(s) & 1 ? DPFAST_INT64 : DPFAST_INT32;
    const dpfast_index columns = (dpfast_index)(byte_of(s) % 3);
    uint8_t *indptr = buffer(n + 1, width[pointers]), *indices = buffer(nnz, width[columns]);
    double *values = numbers(s, nnz);
    float *narrow = NULL;
    const unsigned flags = byte_of(s);
    dpfast_csr_defect defect = DPFAST_CSR_SOUND;
    ptrdiff_t i, j, k = 0;
    int64_t last = 0;
    for (i = 0; i <= n; i++) {
        const int64_t end = i == n ? nnz : last + (int64_t)size_of(s, 0, nnz - last);
        const int64_t offset = !s->tame && byte_of(s) == 0 ? (int64_t)byte_of(s) - 99 : (i ? end : 0);
        const int32_t small = (int32_t)offset;
        memcpy(indptr + (size_t)i * width[pointers],
               pointers == DPFAST_INT64 ? (const void *)&offset : (const void *)&small,
               width[pointers]);
        /* Increasing columns mostly, so that the check has something to let through. */
        for (j = 0; i && k < end; k++, j++) {
            const int64_t column = !s->tame && byte_of(s) == 0 ? (int64_t)byte_of(s) - 99
                                                               : (int64_t)(j % d);
            const int32_t int32 = (int32_t)column;
            const uint16_t uint16 = (uint16_t)column;
            memcpy(indices + (size_t)k * width[columns],
                   columns == DPFAST_INT64   ? (const void *)&column
                   : columns == DPFAST_INT32 ? (const void *)&int32
                                             : (const void *)&uint16,
                   width[columns]);
        }
        if (i) last = end;
    }
    memset(&p, 0, sizeof p);
    p.sparse = 1;
    p.csr.n = n;
    p.csr.d = d;
    p.csr.indptr = indptr;
    p.csr.indptr_type = pointers;
    p.csr.indices = indices;
    p.csr.index_type = columns;
    p.csr.values = values;
    p.csr.scalar = DPFAST_FLOAT64;
    if (flags & 1) p.csr.values = NULL;
    if (flags & 2) {
        narrow = buffer(nnz, sizeof *narrow);
        for (i = 0; i < nnz; i++)
            narrow[i] = fabs(values[i]) > 1e30 ? (float)NAN : (float)values[i];
        p.csr.values = narrow;
        p.csr.scalar = DPFAST_FLOAT32;
    }
    if (dpfast_csr_check(&p.csr, nnz, &defect) == DPFAST_OK) {
        DEMAND(defect == DPFAST_CSR_SOUND);
        fuzz_rows(s, &p, n, d);
    } else {
        DEMAND(defect != DPFAST_CSR_SOUND);
    }
    free(indptr);
    free(indices);
    free(values);
    free(narrow);
}

static void fuzz_samplers(source *s)
{
    dpfast_stream stream;
    uint8_t key[DPFAST_KEY_BYTES];
    const ptrdiff_t n = size_of(s, 1, 200), m = size_of(s, 0, n);
    const ptrdiff_t batch = size_of(s, 1, n), capacity = batch + size_of(s, 0, 16);
    const uint64_t scale = (uint64_t)1 << byte_of(s) % 64;
    int64_t *x = buffer(n, sizeof *x), *index = buffer(capacity > m ? capacity : m, sizeof *index);
    double *real = buffer(n, sizeof *real);
    uint64_t *set = calloc((size_t)DPFAST_BATCH_SET_WORDS(n), sizeof *set);
    ptrdiff_t i, chosen = -1, count = -1;
    for (i = 0; i < DPFAST_KEY_BYTES; i++) key[i] = (uint8_t)byte_of(s);
    dpfast_stream_init(&stream, key);
    if (dpfast_fill_discrete_gaussian(&stream, scale, n < 8 ? n : 8, x) == DPFAST_OK)
        DEMAND(scale <= (uint64_t)1 << 32);
    for (i = 0; i < n; i++) x[i] = whole(s) * (byte_of(s) < 8 ? (int64_t)1 << 43 : 1);
    if (dpfast_noisy_max(&stream, (dpfast_selection)(byte_of(s) % 4), scale, n, x, &chosen) ==
        DPFAST_OK)
        DEMAND(chosen >= 0 && chosen < n && scale <= (uint64_t)1 << 52);
    if (dpfast_fill_discrete_laplace(&stream, scale, n, x) == DPFAST_OK)
        for (i = 0; i < n; i++) DEMAND(x[i] < (int64_t)1 << 62 && x[i] > -((int64_t)1 << 62));
    DEMAND(dpfast_fill_gaussian(&stream, n, real) == DPFAST_OK && finite_all(n, real));
    if (dpfast_fill_l2_laplace(&stream, number(s), n, real) == DPFAST_OK)
        DEMAND(finite_all(n, real));
    DEMAND(dpfast_fixed_size_batch(&stream, n, m, set, index) == DPFAST_OK);
    for (i = 0; i < m; i++) {
        DEMAND(index[i] >= 0 && index[i] < n && x[index[i]] != INT64_MAX);
        x[index[i]] = INT64_MAX; /* none twice */
    }
    DEMAND(dpfast_poisson_batch(&stream, n, batch, capacity, set, index, &count) == DPFAST_OK);
    DEMAND(count >= 0 && count <= capacity);
    for (i = 0; i < count; i++) DEMAND(index[i] >= 0 && index[i] < n);
    for (i = 0; i < (ptrdiff_t)DPFAST_BATCH_SET_WORDS(n); i++) DEMAND(set[i] == 0);
    dpfast_stream_wipe(&stream);
    DEMAND(dpfast_fill_gaussian(&stream, 1, real) == DPFAST_ERR_ARGUMENT);
    free(x);
    free(index);
    free(real);
    free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    source s = {data, size, 1u, 0};
    unsigned what;
    dpfast_dispatch_init();
    what = byte_of(&s);
    s.tame = what & 1;
#ifdef DPFAST_FUZZ_AVX2_AT_MOST /* valgrind knows no wider vectors */
    (void)dpfast_isa_force((int)(byte_of(&s) % DPFAST_ISA_AVX512));
#else
    (void)dpfast_isa_force((int)(byte_of(&s) % DPFAST_ISA_COUNT));
#endif
    if (what % 8 < 3)
        fuzz_dense(&s);
    else if (what % 8 < 6)
        fuzz_csr(&s);
    else
        fuzz_samplers(&s);
    return 0;
}
