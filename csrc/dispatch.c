/* CPU detection.  The chosen instruction set is one int, written at import and by tests only. */
#include "dispatch.h"

#include <stddef.h>

#include "compiler.h"

#if DPFAST_GNU && (defined(__x86_64__) || defined(__i386__))
#define HAVE_CPU_QUERY 1
#else
#define HAVE_CPU_QUERY 0
#endif

static int current_isa = DPFAST_ISA_BASELINE;

int dpfast_isa_supported(int isa)
{
    if (isa == DPFAST_ISA_BASELINE) {
        return 1;
    }
#if HAVE_CPU_QUERY
    if (isa == DPFAST_ISA_AVX2) {
        /* The builtin also checks, by XGETBV, that the operating system saves the wide registers:
         * bits 1 and 2 of XCR0, for AVX-512 bits 5 to 7 too. */
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    if (isa == DPFAST_ISA_AVX512) {
        return dpfast_isa_supported(DPFAST_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
#endif
    return 0;
}

void dpfast_dispatch_init(void)
{
    int isa;
    for (isa = DPFAST_ISA_COUNT - 1; isa > DPFAST_ISA_BASELINE; isa--) {
        if (dpfast_isa_supported(isa)) {
            break;
        }
    }
    current_isa = isa;
}

int dpfast_isa_current(void)
{
    return current_isa;
}

const char *dpfast_isa_name(int isa)
{
    static const char *const names[DPFAST_ISA_COUNT] = {"baseline", "avx2", "avx512"};
    return (isa >= 0 && isa < DPFAST_ISA_COUNT) ? names[isa] : NULL;
}

dpfast_status dpfast_isa_force(int isa)
{
    if (!dpfast_isa_supported(isa)) {
        return DPFAST_ERR_UNSUPPORTED;
    }
    current_isa = isa;
    return DPFAST_OK;
}
