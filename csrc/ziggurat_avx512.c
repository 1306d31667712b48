/* The fast part of the ziggurat, for AVX-512. */
#include "ziggurat.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"
#include "ziggurat_body.h"
#include "isa_avx512_end.h"
