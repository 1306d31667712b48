/* The dense kernels for the compiler's default target. */
#include "dense_ops.h"
#include "loss_list.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define DPFAST_OPS_NAME dpfast_dense_ops_baseline
#include "dense_body.h"
