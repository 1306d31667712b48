/* Public entry of the epochs: argument checks, choice of instruction set, and the refusal of
 * anything that is not finite. */
#include "epochs_ops.h"
#include "finite.h"

#include <math.h>

static int positive(double x)
{
    return x > 0.0; /* infinity is allowed, NaN is not */
}

static int valid_indices(ptrdiff_t count, const int64_t *indices, ptrdiff_t n)
{
    ptrdiff_t k;
    if (count > 0 && indices == NULL) {
        return 0;
    }
    for (k = 0; k < count; k++) {
        if (indices[k] < 0 || indices[k] >= n) {
            return 0;
        }
    }
    return 1;
}

static int valid_sgd(const dpfast_sgd *epoch, ptrdiff_t n)
{
    return epoch->alpha >= 0.0 && epoch->alpha < INFINITY && positive(epoch->w_radius) &&
           epoch->n_steps >= 0 && epoch->step != NULL &&
           (epoch->step_stride == 0 || epoch->step_stride == 1) && epoch->w != NULL &&
           valid_indices(epoch->n_steps, epoch->indices, n);
}

static int valid_katyusha(const dpfast_katyusha *epoch, ptrdiff_t n)
{
    return epoch->alpha >= 0.0 && epoch->alpha < INFINITY && positive(epoch->smoothness) &&
           epoch->smoothness < INFINITY && epoch->tau1 > 0.0 && epoch->tau1 <= 0.5 &&
           positive(epoch->w_radius) && epoch->snapshot != NULL &&
           epoch->snapshot_gradient != NULL && epoch->snapshot_margin != NULL &&
           epoch->snapshot_derivative != NULL && epoch->n_steps >= 0 && epoch->z != NULL &&
           epoch->y != NULL && epoch->average != NULL && epoch->average_scale != NULL &&
           *epoch->average_scale >= 0.0 && valid_indices(epoch->n_steps, epoch->indices, n);
}

static dpfast_status sgd_status(int finite, const dpfast_sgd *epoch, ptrdiff_t dim)
{
    return finite && all_finite(dim, epoch->w) &&
                   (epoch->average == NULL || all_finite(dim, epoch->average))
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

static dpfast_status katyusha_status(int finite, const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    return finite && all_finite(dim, epoch->z) && all_finite(dim, epoch->y) &&
                   all_finite(dim, epoch->average)
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

/* ---- Dense rows ------------------------------------------------------------------------------- */

static const dpfast_dense_epoch_ops *dense_ops(const dpfast_dense *rows)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_dense_epoch_ops)[rows->scalar];
}

static int valid_dense(const dpfast_dense *rows, const dpfast_loss *loss)
{
    return rows->n >= 0 && rows->d >= 0 && rows->row_stride >= rows->d &&
           (rows->n == 0 || (rows->target != NULL && (rows->d == 0 || rows->x != NULL))) &&
           isfinite(rows->intercept) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32) &&
           !rows->consistent && dpfast_loss_valid(loss);
}

dpfast_status dpfast_dense_sgd_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                     const dpfast_sgd *epoch)
{
    if (!valid_dense(rows, loss) || !valid_sgd(epoch, rows->n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return sgd_status(dense_ops(rows)->sgd(rows, loss, epoch), epoch,
                      rows->d + (rows->intercept != 0.0));
}

dpfast_status dpfast_dense_katyusha_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                          const dpfast_katyusha *epoch)
{
    if (!valid_dense(rows, loss) || !valid_katyusha(epoch, rows->n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return katyusha_status(dense_ops(rows)->katyusha(rows, loss, epoch), epoch,
                           rows->d + (rows->intercept != 0.0));
}

/* ---- Sparse rows ------------------------------------------------------------------------------ */

static const dpfast_csr_epoch_ops *csr_ops(void)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_csr_epoch_ops);
}

/* The matrix itself has passed dpfast_csr_check. */
static int valid_csr(const dpfast_csr *rows, const dpfast_loss *loss)
{
    return rows->n >= 0 && rows->d >= 0 && rows->indptr != NULL &&
           (rows->indptr_type == DPFAST_INT32 || rows->indptr_type == DPFAST_INT64) &&
           (rows->index_type == DPFAST_INT32 || rows->index_type == DPFAST_INT64 ||
            rows->index_type == DPFAST_UINT16) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32) &&
           (rows->n == 0 || rows->target != NULL) && isfinite(rows->intercept) &&
           !rows->consistent && dpfast_loss_valid(loss);
}

dpfast_status dpfast_csr_sgd_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                   const dpfast_sgd *epoch)
{
    if (!valid_csr(rows, loss) || !valid_sgd(epoch, rows->n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return sgd_status(csr_ops()->sgd(rows, loss, epoch), epoch,
                      rows->d + (rows->intercept != 0.0));
}

dpfast_status dpfast_csr_katyusha_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                        const dpfast_katyusha *epoch)
{
    if (!valid_csr(rows, loss) || !valid_katyusha(epoch, rows->n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    return katyusha_status(csr_ops()->katyusha(rows, loss, epoch), epoch,
                           rows->d + (rows->intercept != 0.0));
}
