/* The kernels on sparse rows, for the compiler's default target. */
#include "csr_ops.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"

#include "csr_stamp.h"

#include "isa_baseline_end.h"
