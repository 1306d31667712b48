/* The loop of a private epoch: argument checks, batches and noise from the stream. */
#include "private_epochs_ops.h"

#include "finite.h"

#include <math.h>
#include <string.h>

static int positive(double x)
{
    return x > 0.0; /* infinity is allowed, NaN is not */
}

static int valid_batches(const dpfast_private_epoch *epoch, ptrdiff_t n, const dpfast_stream *stream)
{
    ptrdiff_t t, k;
    if (epoch->sampling == DPFAST_BATCH_POISSON || epoch->sampling == DPFAST_BATCH_FIXED_SIZE) {
        return stream != NULL && epoch->batch >= 1 && epoch->batch <= n &&
               epoch->capacity >= epoch->batch && epoch->index != NULL && epoch->set != NULL;
    }
    if (epoch->sampling != DPFAST_BATCH_GIVEN || epoch->batch_start == NULL ||
        epoch->batch_start[0] < 0) {
        return 0;
    }
    for (t = 0; t < epoch->n_steps; t++) {
        if (epoch->batch_start[t + 1] < epoch->batch_start[t]) {
            return 0;
        }
    }
    for (k = (ptrdiff_t)epoch->batch_start[0]; k < epoch->batch_start[epoch->n_steps]; k++) {
        if (epoch->indices == NULL || epoch->indices[k] < 0 || epoch->indices[k] >= n) {
            return 0;
        }
    }
    return 1;
}

static int valid_noise(const dpfast_private_epoch *epoch, const dpfast_stream *stream)
{
    switch (epoch->noise) {
    case DPFAST_NOISE_NONE:
        return 1;
    case DPFAST_NOISE_GIVEN:
        return epoch->n_steps == 0 || epoch->given_noise != NULL;
    case DPFAST_NOISE_GAUSSIAN:
        return stream != NULL && positive(epoch->stddev) && epoch->stddev < INFINITY &&
               positive(epoch->grid) && epoch->grid < INFINITY && epoch->noise_work != NULL;
    case DPFAST_NOISE_DISCRETE:
        return stream != NULL && positive(epoch->grid) && epoch->grid < INFINITY &&
               epoch->scale >= 1 && epoch->scale <= DPFAST_MAX_GAUSSIAN_SCALE &&
               epoch->discrete_work != NULL;
    }
    return 0;
}

static int valid(const dpfast_private_epoch *epoch, ptrdiff_t n, const dpfast_loss *loss,
                 const dpfast_stream *stream)
{
    return n >= 1 && dpfast_loss_valid(loss) && epoch->alpha >= 0.0 && epoch->alpha < INFINITY &&
           positive(epoch->clip_norm) && positive(epoch->w_radius) && epoch->momentum >= 0.0 &&
           epoch->momentum < 1.0 && (epoch->momentum == 0.0 || epoch->velocity != NULL) &&
           positive(epoch->divisor) && epoch->divisor < INFINITY && epoch->n_steps >= 0 &&
           epoch->step != NULL && (epoch->step_stride == 0 || epoch->step_stride == 1) &&
           epoch->w != NULL && epoch->work != NULL && (stream == NULL || stream->keyed) &&
           valid_batches(epoch, n, stream) && valid_noise(epoch, stream);
}

/* The batch of step t: *count rows at *index. */
static dpfast_status draw_batch(const dpfast_private_epoch *epoch, ptrdiff_t n, ptrdiff_t t,
                                dpfast_stream *stream, const int64_t **index, ptrdiff_t *count)
{
    *index = epoch->index;
    *count = epoch->batch;
    switch (epoch->sampling) {
    case DPFAST_BATCH_POISSON:
        return dpfast_poisson_batch(stream, n, epoch->batch, epoch->capacity, epoch->set,
                                    epoch->index, count);
    case DPFAST_BATCH_FIXED_SIZE:
        return dpfast_fixed_size_batch(stream, n, epoch->batch, epoch->set, epoch->index);
    default:
        *index = epoch->indices == NULL ? NULL : epoch->indices + epoch->batch_start[t];
        *count = (ptrdiff_t)(epoch->batch_start[t + 1] - epoch->batch_start[t]);
        return DPFAST_OK;
    }
}

/* The sum becomes a function of its grid point and of the noise alone: integers until the end. */
static int add_discrete(ptrdiff_t dim, double grid, const int64_t *noise, double *sum)
{
    const double limit = 0x1p61;
    int finite = 1;
    ptrdiff_t j;
    for (j = 0; j < dim; j++) {
        double steps = rint(sum[j] / grid); /* exact but for overflow, which is clamped */
        finite &= !isnan(steps);
        steps = steps < limit ? steps : limit;
        steps = steps > -limit ? steps : -limit;
        /* NaN has become the limit; the sampler's range is proved in tests/prove/wp_discrete.c. */
        /*@ admit \is_finite(steps) && -0x4000000000000000 <= noise[j] <= 0x4000000000000000; */
        sum[j] = (double)((int64_t)steps + noise[j]) * grid;
    }
    return finite;
}

/* Drawn before the rows are touched. */
static dpfast_status draw_noise(const dpfast_private_epoch *epoch, ptrdiff_t dim,
                                dpfast_stream *stream)
{
    if (epoch->noise == DPFAST_NOISE_GAUSSIAN) {
        return dpfast_fill_gaussian(stream, dim, epoch->noise_work);
    }
    if (epoch->noise == DPFAST_NOISE_DISCRETE) {
        return dpfast_fill_discrete_gaussian(stream, epoch->scale, dim, epoch->discrete_work);
    }
    return DPFAST_OK;
}

/* 0 if the sum is not finite. */
static int add_noise(const dpfast_private_epoch *epoch, const dpfast_private_epoch_ops *ops,
                     ptrdiff_t dim, ptrdiff_t t)
{
    ptrdiff_t j;
    switch (epoch->noise) {
    case DPFAST_NOISE_NONE:
        break;
    case DPFAST_NOISE_GIVEN:
        for (j = 0; j < dim; j++) {
            epoch->work[j] += epoch->given_noise[t * dim + j];
        }
        break;
    case DPFAST_NOISE_GAUSSIAN:
        ops->perturb(dim, epoch->stddev, epoch->noise_work, epoch->grid, epoch->work);
        break;
    case DPFAST_NOISE_DISCRETE:
        return add_discrete(dim, epoch->grid, epoch->discrete_work, epoch->work);
    }
    return 1;
}

/* Projects w, whose squared norm this is; 0 if that is not finite. */
static int project(ptrdiff_t dim, double square, double radius, double *w)
{
    ptrdiff_t j;
    if (square > radius * radius) {
        const double factor = radius / sqrt(square);
        for (j = 0; j < dim; j++) {
            w[j] *= factor;
        }
    }
    return square < INFINITY;
}

/* `dense` is NULL or `rows`. */
static dpfast_status private_epoch(const void *rows, const dpfast_dense *dense,
                                   dpfast_add_batch add, ptrdiff_t n, ptrdiff_t dim,
                                   const dpfast_loss *loss, const dpfast_private_epoch *epoch,
                                   dpfast_stream *stream)
{
    const dpfast_private_epoch_ops *ops = &DPFAST_OF_ISA_IN_USE(dpfast_private_epoch_ops);
    ptrdiff_t t, j;
    for (t = 0; t < epoch->n_steps; t++) {
        const int64_t *index;
        ptrdiff_t count;
        double square;
        dpfast_status status = draw_batch(epoch, n, t, stream, &index, &count);
        if (status == DPFAST_OK && dense != NULL) {
            ops->prefetch_dense[dense->scalar](dense, count, index);
        }
        if (status == DPFAST_OK) {
            status = draw_noise(epoch, dim, stream);
        }
        if (status != DPFAST_OK) {
            return status;
        }
        memset(epoch->work, 0, (size_t)dim * sizeof(double));
        if (!add(rows, loss, epoch, count, index) || !add_noise(epoch, ops, dim, t)) {
            return DPFAST_ERR_NONFINITE;
        }
        square = ops->step(epoch, dim, epoch->step[t * epoch->step_stride]);
        if (epoch->w_radius < INFINITY && !project(dim, square, epoch->w_radius, epoch->w)) {
            return DPFAST_ERR_NONFINITE;
        }
        if (epoch->average != NULL) {
            const double weight = epoch->average_weight != NULL ? epoch->average_weight[t] : 1.0;
            for (j = 0; j < dim; j++) {
                epoch->average[j] += weight * epoch->w[j];
            }
        }
    }
    return all_finite(dim, epoch->w) && (epoch->average == NULL || all_finite(dim, epoch->average))
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_dense_private_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                         const dpfast_private_epoch *epoch, dpfast_stream *stream)
{
    const dpfast_private_epoch_ops *ops = &DPFAST_OF_ISA_IN_USE(dpfast_private_epoch_ops);
    if (rows->d < 0 || rows->row_stride < rows->d || rows->target == NULL ||
        (rows->d > 0 && rows->x == NULL) || !isfinite(rows->intercept) ||
        (rows->scalar != DPFAST_FLOAT64 && rows->scalar != DPFAST_FLOAT32) ||
        rows->consistent || !valid(epoch, rows->n, loss, stream)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return private_epoch(rows, rows, ops->add_dense[rows->scalar], rows->n,
                         rows->d + (rows->intercept != 0.0), loss, epoch, stream);
}

/* The matrix itself has passed dpfast_csr_check. */
dpfast_status dpfast_csr_private_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                       const dpfast_private_epoch *epoch, dpfast_stream *stream)
{
    const dpfast_private_epoch_ops *ops = &DPFAST_OF_ISA_IN_USE(dpfast_private_epoch_ops);
    if (rows->d < 0 || rows->indptr == NULL || rows->target == NULL ||
        !isfinite(rows->intercept) || rows->consistent || !valid(epoch, rows->n, loss, stream)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return private_epoch(rows, NULL, ops->add_csr, rows->n, rows->d + (rows->intercept != 0.0),
                         loss, epoch, stream);
}
