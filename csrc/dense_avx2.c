/* The dense kernels for AVX2 and FMA. */
#include "dense_ops.h"
#include "loss_list.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "isa_avx2_begin.h"
#define DPFAST_OPS_NAME dpfast_dense_ops_avx2
#include "dense_body.h"
#include "isa_avx2_end.h"
