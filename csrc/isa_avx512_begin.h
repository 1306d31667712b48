/* Everything between this header and isa_avx512_end.h is compiled for AVX-512 (F, DQ and VL) with AVX2 and FMA, whatever
 * the command line says; dispatch.c decides at run time whether it may be called.  Include
 * isa_headers.h before it: system headers must not be recompiled for another target.  Deliberately
 * no include guard.  Compilers that know neither pragma (MSVC) compile the file for their default
 * target, and dispatch.c never selects it there. */
#define DPFAST_ISA_LEVEL 2
#define DPFAST_ISA(name) name##_avx512
#if DPFAST_GNU && (defined(__x86_64__) || defined(__i386__))
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#endif
