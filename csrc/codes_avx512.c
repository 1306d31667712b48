/* The kernels on rows in codes, for AVX-512. */
#include "codes_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"

#include "codes_stamp.h"

#include "isa_avx512_end.h"
