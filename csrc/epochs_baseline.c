/* The epochs for the compiler's default target. */
#include "csr_ops.h"
#include "epochs_ops.h"
#include "loss_list.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "loss_bodies.h"
#include "simd.h"

#include "epochs_body.h"

#define SCALAR double
#define LOAD vec4_load
#define NAME(name) name##_float64
#include "epochs_dense_body.h"
#undef SCALAR
#undef LOAD
#undef NAME

#define SCALAR float
#define LOAD vec4_load_float
#define NAME(name) name##_float32
#include "epochs_dense_body.h"
#undef SCALAR
#undef LOAD
#undef NAME

#include "epochs_csr_body.h"

const dpfast_dense_epoch_ops dpfast_dense_epoch_ops_baseline[2] = {
    {dense_sgd_float64, dense_katyusha_float64},
    {dense_sgd_float32, dense_katyusha_float32},
};
const dpfast_csr_epoch_ops dpfast_csr_epoch_ops_baseline = {csr_sgd, csr_katyusha};
