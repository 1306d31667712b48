/* The kernels of affine.h, for AVX-512. */
#include "affine_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"
#undef DPFAST_ISA_LEVEL
#define DPFAST_ISA_LEVEL 1

#include "affine_stamp.h"

#include "isa_avx512_end.h"
