/* Which instruction set the kernels use.  Chosen once when the library is loaded; tests force each
 * supported one in turn. */
#ifndef DPFAST_DISPATCH_H
#define DPFAST_DISPATCH_H

#include "status.h"

enum {
    DPFAST_ISA_BASELINE = 0, /* what the compiler's default target has: SSE2 on x86-64 */
    DPFAST_ISA_AVX2 = 1,     /* AVX2 with FMA */
    DPFAST_ISA_COUNT = 2
};

/* Detects the CPU and selects the best instruction set.  Call once before any kernel. */
void dpfast_dispatch_init(void);

/* The instruction set in use. */
int dpfast_isa_current(void);

/* 1 if this CPU and this build can run `isa`, else 0. */
int dpfast_isa_supported(int isa);

/* "baseline" or "avx2"; NULL for an unknown number. */
const char *dpfast_isa_name(int isa);

/* Forces an instruction set; DPFAST_ERR_UNSUPPORTED if this CPU lacks it.  Not to be called while
 * kernels run in other threads. */
dpfast_status dpfast_isa_force(int isa);

#endif
