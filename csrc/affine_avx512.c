/* The kernels of affine.h, where there is AVX-512. */
#include "affine_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"
/* Vectors of 256 bits: rows begin anywhere, and each of 512 bits would be in two lines of the cache,
 * which costs these kernels, that compute little, up to half of their speed. */
#undef DPFAST_ISA_LEVEL
#define DPFAST_ISA_LEVEL 1

#include "affine_stamp.h"

#include "isa_avx512_end.h"
