/* The kernels of affine.h, for AVX2 and FMA. */
#include "affine_ops.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"

#include "affine_stamp.h"

#include "isa_avx2_end.h"
