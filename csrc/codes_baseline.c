/* The kernels on rows in codes, for the compiler's default target. */
#include "codes_ops.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"

#include "codes_stamp.h"

#include "isa_baseline_end.h"
