/* The fast part of the ziggurat, for AVX2. */
#include "ziggurat.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"
#include "ziggurat_body.h"
#include "isa_avx2_end.h"
