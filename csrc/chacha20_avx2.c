/* Bulk ChaCha20 for AVX2: eight blocks at a time. */
#include "chacha20.h"

#include "isa_headers.h"

#include "isa_avx2_begin.h"
#define KEYSTREAM_NAME DPFAST_ISA(dpfast_keystream)
#define LANES 8
#include "chacha20_body.h"
#include "isa_avx2_end.h"
