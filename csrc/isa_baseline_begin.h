/* Everything between this header and isa_baseline_end.h is compiled for the compiler's default
 * target.  Deliberately no include guard. */
#define DPFAST_ISA_LEVEL 0
#define DPFAST_ISA(name) name##_baseline
