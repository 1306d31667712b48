/* The product of 128 bits, as MSVC without an intrinsic takes it. */
#include "contracts.h"

/* The axioms say what C says of these operations on words: bits.smt2 checks them on all words. */
/*@ axiomatic words {
        axiom shift_right: \forall integer x; 0 <= x ==> (x >> 32) == x / 0x100000000;
        axiom shift_left: \forall integer x; 0 <= x ==> (x << 32) == x * 0x100000000;
        axiom cast: \forall integer x; 0 <= x ==> (uint32_t)x == x % 0x100000000;
        lemma product: \forall integer x, y; 0 <= x <= 0xffffffff ==> 0 <= y <= 0xffffffff ==>
            0 <= x * y <= 0xffffffff * 0xffffffff;
        lemma halves: \forall integer x;
            0 <= x ==> x == 0x100000000 * (x / 0x100000000) + x % 0x100000000;
        lemma high_part: \forall integer a, b, high, low;
            0 <= a < WORDS ==> 0 < b ==> 0 <= low ==> high * WORDS + low == a * b ==> high < b;
    } */

/*@ assigns \nothing;
    ensures \result == a * b <= 0xffffffff * 0xffffffff; */
static inline uint64_t multiply_halves(uint32_t a, uint32_t b);

#include "wide.h"
