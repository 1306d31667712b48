/* The system headers of everything that is stamped once per instruction set: they must come before
 * isa_<isa>_begin.h, which sets another target for what follows. */
#ifndef DPFAST_ISA_HEADERS_H
#define DPFAST_ISA_HEADERS_H

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

#if DPFAST_GNU && defined(__x86_64__)
#include <immintrin.h>
#endif

#endif
