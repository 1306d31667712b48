/* Included before everything else: the analyzer's C library has functions for these, which no table
 * can hold. */
#include <math.h>

#undef NAN
#undef INFINITY
#undef HUGE_VAL
#define NAN (0.0f / 0.0f)
#define INFINITY (1.0f / 0.0f)
#define HUGE_VAL (1.0 / 0.0)
