/* Private: the epochs of one instruction set, as tables.  epochs.c checks arguments and picks a
 * table; epochs_<isa>.c fill theirs.  The functions return 1, or 0 if something was not finite. */
#ifndef DPFAST_EPOCHS_OPS_H
#define DPFAST_EPOCHS_OPS_H

#include "dpfast.h"
#include "epochs.h"

typedef struct dpfast_dense_epoch_ops {
    int (*sgd)(const dpfast_dense *rows, const dpfast_loss *loss, const dpfast_sgd *epoch);
    int (*katyusha)(const dpfast_dense *rows, const dpfast_loss *loss,
                    const dpfast_katyusha *epoch);
} dpfast_dense_epoch_ops;

typedef struct dpfast_csr_epoch_ops {
    int (*sgd)(const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_sgd *epoch);
    int (*katyusha)(const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_katyusha *epoch);
} dpfast_csr_epoch_ops;

/* dpfast_dense_epoch_ops_<isa> is indexed by dpfast_scalar. */
#define DECLARE_OPS(isa)                                                                           \
    extern const dpfast_dense_epoch_ops dpfast_dense_epoch_ops_##isa[2];                           \
    extern const dpfast_csr_epoch_ops dpfast_csr_epoch_ops_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

#endif
