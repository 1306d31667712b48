/* Closes isa_avx512_begin.h. */
#if DPFAST_GNU && (defined(__x86_64__) || defined(__i386__))
#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif
#endif
#undef DPFAST_ISA_LEVEL
#undef DPFAST_ISA
