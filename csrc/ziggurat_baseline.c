/* The fast part of the ziggurat, for the compiler's default target. */
#include "ziggurat.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"
#include "ziggurat_body.h"
#include "isa_baseline_end.h"
