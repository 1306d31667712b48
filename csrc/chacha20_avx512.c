/* Bulk ChaCha20 for AVX-512: all sixteen blocks at a time. */
#include "chacha20.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"
#define KEYSTREAM_NAME DPFAST_ISA(dpfast_keystream)
#define LANES 16
#include "chacha20_body.h"
#include "isa_avx512_end.h"
