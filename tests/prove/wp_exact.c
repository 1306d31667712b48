/* Uniform integers and events of a stated probability, on a source of words that may be anything. */
#include <stdint.h>

#define WORDS 0x10000000000000000

/* The axiom says what C says of a negative number that becomes a word. */
/*@ axiomatic words {
        axiom cast: \forall integer x; -WORDS < x < 0 ==> (uint64_t)x == x + WORDS;
        lemma high_part: \forall integer a, b, high, low;
            0 <= a < WORDS ==> 0 < b ==> 0 <= low ==> high * WORDS + low == a * b ==> high < b;
    } */

/* Proved in wp_wide.c; the second line follows by the last lemma. */
/*@ requires \valid(high);
    assigns *high;
    ensures *high * WORDS + \result == a * b;
    ensures b == 0 || *high < b; */
static inline uint64_t wide_multiply(uint64_t a, uint64_t b, uint64_t *high);

#define DPFAST_STREAM_H /* instead of the real stream: */
typedef struct dpfast_stream {
    uint64_t state;
} dpfast_stream;
/*@ requires \valid(stream);
    assigns *stream; */
uint64_t stream_next(dpfast_stream *stream);

/* The value of a word whose low half is not refused; that only words which are refused came before
 * is the loop's condition.  wp_counting.c goes on from here. */
/*@ requires \valid(stream) && below >= 1;
    assigns *stream;
    ensures \result < below;
    ensures \exists integer word, low; 0 <= word < WORDS && \result * WORDS + low == word * below &&
        (WORDS - below) % below <= low < WORDS; */
static inline uint64_t uniform_below(dpfast_stream *stream, uint64_t below);

/* The three cases are assertions in exact.h. */
/*@ requires \valid(stream) && numerator <= denominator && 1 <= denominator <= WORDS / 2;
    assigns *stream;
    ensures \result == 0 || \result == 1; */
static inline int bernoulli(dpfast_stream *stream, uint64_t numerator, uint64_t denominator);

#include "exact.h"
