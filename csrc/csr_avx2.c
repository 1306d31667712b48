/* The kernels on sparse rows, for AVX2 and FMA. */
#include "csr_ops.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "isa_avx2_begin.h"
#include "loss_blocks.h"

#include "csr_body.h"

const dpfast_csr_ops dpfast_csr_ops_avx2 = {margins, gradient, add_hessian};
#include "isa_avx2_end.h"
