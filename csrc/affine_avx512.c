/* The kernels of affine.h, for AVX-512. */
#include "affine_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"

#include "affine_stamp.h"

#include "isa_avx512_end.h"
