/* Closes isa_baseline_begin.h. */
#undef DPFAST_ISA_LEVEL
#undef DPFAST_ISA
