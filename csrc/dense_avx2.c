/* The kernels on dense rows and on vectors, for AVX2 and FMA. */
#include "dense_ops.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"

#include "dense_stamp.h"

#include "isa_avx2_end.h"
