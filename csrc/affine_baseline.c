/* The kernels of affine.h, for the compiler's default target. */
#include "affine_ops.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"

#include "affine_stamp.h"

#include "isa_baseline_end.h"
