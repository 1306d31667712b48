/* The kernels on sparse rows, for AVX-512. */
#include "csr_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"

#include "csr_stamp.h"

#include "isa_avx512_end.h"
