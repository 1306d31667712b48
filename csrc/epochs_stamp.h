/* The epochs, for the instruction set of the including file. */
#include "loss_bodies.h"
#include "simd.h"

#include "csr_rows.h"

#include "epochs_body.h"

#define SCALAR double
#define LOAD vec_load
#define LOAD_PART vec_load_part
#define NAME(name) name##_float64
#include "epochs_dense_body.h"
#undef SCALAR
#undef LOAD
#undef LOAD_PART
#undef NAME

#define SCALAR float
#define LOAD vec_load_float
#define LOAD_PART vec_load_float_part
#define NAME(name) name##_float32
#include "epochs_dense_body.h"
#undef SCALAR
#undef LOAD
#undef LOAD_PART
#undef NAME

#include "epochs_csr_body.h"

#include "private_epochs_body.h"

const dpfast_dense_epoch_ops DPFAST_ISA(dpfast_dense_epoch_ops)[2] = {
    {dense_sgd_float64, dense_katyusha_float64},
    {dense_sgd_float32, dense_katyusha_float32},
};
const dpfast_csr_epoch_ops DPFAST_ISA(dpfast_csr_epoch_ops) = {csr_sgd, csr_katyusha};
const dpfast_private_epoch_ops DPFAST_ISA(dpfast_private_epoch_ops) = {
    {private_dense_float64, private_dense_float32},
    private_csr,
    {private_prefetch_float64, private_prefetch_float32},
    private_perturb,
    private_step};
