/* The parts of the exact samplers. */
#include "contracts.h"
#include "exact.h"

/* The axiom says what C says of a negative number that becomes a word. */
/*@ axiomatic words {
        axiom cast: \forall integer x; -WORDS < x < 0 ==> (uint64_t)x == x + WORDS;
        lemma high_part: \forall integer a, b, high, low;
            0 <= a < WORDS ==> 0 < b ==> 0 <= low ==> high * WORDS + low == a * b ==> high < b;
    } */
