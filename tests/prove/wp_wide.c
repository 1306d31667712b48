/* The product of 128 bits, as MSVC without an intrinsic takes it. */
#include <stdint.h>

/* The axioms say what C says of these operations on unsigned numbers. */
/*@ axiomatic words {
        axiom shift_right: \forall integer x; 0 <= x ==> (x >> 32) == x / 0x100000000;
        axiom shift_left: \forall integer x; 0 <= x ==> (x << 32) == x * 0x100000000;
        axiom cast: \forall integer x; 0 <= x ==> (uint32_t)x == x % 0x100000000;
        lemma product: \forall integer x, y;
            0 <= x <= 0xffffffff ==> 0 <= y <= 0xffffffff ==> x * y <= 0xffffffff * 0xffffffff;
        lemma halves: \forall integer x;
            0 <= x ==> x == 0x100000000 * (x / 0x100000000) + x % 0x100000000;
    } */

/*@ requires \valid(high);
    assigns *high;
    ensures *high * 0x10000000000000000 + \result == a * b; */
static inline uint64_t wide_multiply(uint64_t a, uint64_t b, uint64_t *high);

#include "wide.h"
