/* The kernels on rows in codes, for AVX2 and FMA. */
#include "codes_ops.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"

#include "codes_stamp.h"

#include "isa_avx2_end.h"
