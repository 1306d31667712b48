/* Private: the parts of a private step for one instruction set, as tables.  private_epochs.c draws
 * batches and noise and calls them; epochs_<isa>.c fill the tables. */
#ifndef DPFAST_PRIVATE_EPOCHS_OPS_H
#define DPFAST_PRIVATE_EPOCHS_OPS_H

#include "dpfast.h"
#include "private_epochs.h"

/* work += the clipped gradients of m rows; 0 if a margin is not finite. */
typedef int (*dpfast_add_batch)(const void *rows, const dpfast_loss *loss,
                                const dpfast_private_epoch *epoch, ptrdiff_t m,
                                const int64_t *index);

typedef struct dpfast_private_epoch_ops {
    dpfast_add_batch add_dense[2]; /* by dpfast_scalar */
    dpfast_add_batch add_csr;
    /* Asks for the first rows of a batch, which come while its noise is drawn. */
    void (*prefetch_dense[2])(const dpfast_dense *rows, ptrdiff_t m, const int64_t *index);
    /* out <- the multiple of grid next to out + stddev z */
    void (*perturb)(ptrdiff_t n, double stddev, const double *z, double grid, double *out);
    /* One step from the noisy sum in work; returns the squared norm of w before the projection. */
    double (*step)(const dpfast_private_epoch *epoch, ptrdiff_t dim, double size);
} dpfast_private_epoch_ops;

#define DECLARE_OPS(isa) extern const dpfast_private_epoch_ops dpfast_private_epoch_ops_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

#endif
