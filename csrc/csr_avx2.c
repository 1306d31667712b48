/* The kernels on sparse rows, for AVX2 and FMA. */
#include "csr_ops.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"

#include "csr_stamp.h"

#include "isa_avx2_end.h"
