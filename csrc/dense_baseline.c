/* The kernels on dense rows and on vectors, for the compiler's default target. */
#include "dense_ops.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"

#include "dense_stamp.h"

#include "isa_baseline_end.h"
