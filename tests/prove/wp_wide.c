/* The product of 128 bits, as MSVC without an intrinsic takes it. */
#include <stdint.h>

#define WORDS 0x10000000000000000

/* The axioms say what C says of these operations on words. */
/*@ axiomatic words {
        axiom shift_right: \forall integer x; 0 <= x ==> (x >> 32) == x / 0x100000000;
        axiom shift_left: \forall integer x; 0 <= x ==> (x << 32) == x * 0x100000000;
        axiom cast: \forall integer x; 0 <= x ==> (uint32_t)x == x % 0x100000000;
        lemma product: \forall integer x, y; 0 <= x <= 0xffffffff ==> 0 <= y <= 0xffffffff ==>
            0 <= x * y <= 0xffffffff * 0xffffffff;
        lemma halves: \forall integer x;
            0 <= x ==> x == 0x100000000 * (x / 0x100000000) + x % 0x100000000;
        lemma at_most: \forall integer a, b; 0 <= a < WORDS ==> 0 <= b ==> a * b <= (WORDS - 1) * b;
    } */

/*@ assigns \nothing;
    ensures \result == a * b <= 0xffffffff * 0xffffffff; */
static inline uint64_t multiply_halves(uint32_t a, uint32_t b);

/*@ requires \valid(high);
    assigns *high;
    ensures *high * WORDS + \result == a * b; */
static inline uint64_t wide_multiply(uint64_t a, uint64_t b, uint64_t *high);

#include "wide.h"

/* The contract that the other proofs use. */
/*@ requires \valid(high);
    assigns *high;
    ensures *high * WORDS + \result == a * b;
    ensures b == 0 || *high < b; */
static uint64_t product(uint64_t a, uint64_t b, uint64_t *high)
{
    const uint64_t low = wide_multiply(a, b, high);
    /*@ assert a * b <= (WORDS - 1) * b; */
    /*@ assert *high * WORDS <= (WORDS - 1) * b; */
    return low;
}
