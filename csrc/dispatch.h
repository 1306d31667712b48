/* Which instruction set the kernels use.  Chosen once when the library is loaded; tests force each
 * supported one in turn. */
#ifndef DPFAST_DISPATCH_H
#define DPFAST_DISPATCH_H

#include "status.h"

enum {
    DPFAST_ISA_BASELINE = 0, /* what the compiler's default target has: SSE2 on x86-64 */
    DPFAST_ISA_AVX2 = 1,     /* AVX2 with FMA */
    DPFAST_ISA_AVX512 = 2,   /* AVX-512 F, DQ and VL with AVX2 and FMA */
    DPFAST_ISA_COUNT = 3
};

/* Every instruction set in turn, to declare what is stamped once for each: DECLARE(isa). */
#define DPFAST_FOR_EACH_ISA(DECLARE) DECLARE(baseline) DECLARE(avx2) DECLARE(avx512)

/* The stamp of the table or function `name` that is in use. */
#define DPFAST_OF_ISA_IN_USE(name)                                                                 \
    (*(dpfast_isa_current() == DPFAST_ISA_AVX512 ? &name##_avx512                                  \
       : dpfast_isa_current() == DPFAST_ISA_AVX2 ? &name##_avx2                                    \
                                                 : &name##_baseline))

/* Detects the CPU and selects the best instruction set.  Call once before any kernel. */
void dpfast_dispatch_init(void);

/* The instruction set in use. */
int dpfast_isa_current(void);

/* 1 if this CPU and this build can run `isa`, else 0. */
int dpfast_isa_supported(int isa);

/* "baseline", "avx2" or "avx512"; NULL for an unknown number. */
const char *dpfast_isa_name(int isa);

/* Forces an instruction set; DPFAST_ERR_UNSUPPORTED if this CPU lacks it.  Not to be called while
 * kernels run in other threads. */
dpfast_status dpfast_isa_force(int isa);

#endif
