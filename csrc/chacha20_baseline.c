/* Bulk ChaCha20 for the compiler's default target: four blocks at a time. */
#include "chacha20.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"
#define KEYSTREAM_NAME DPFAST_ISA(dpfast_keystream)
#define LANES 4
#include "chacha20_body.h"
#include "isa_baseline_end.h"
