/* The kernels on dense rows and on vectors, for AVX-512. */
#include "dense_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"

#include "dense_stamp.h"

#include "isa_avx512_end.h"
