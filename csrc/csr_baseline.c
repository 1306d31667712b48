/* The kernels on sparse rows, for the compiler's default target. */
#include "csr_ops.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "loss_blocks.h"

#include "csr_body.h"

const dpfast_csr_ops dpfast_csr_ops_baseline = {margins, gradient, add_hessian};
