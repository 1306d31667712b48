/* Why uniform_below is uniform: with 2^64 = each below + excess, 0 <= excess < below, exactly `each`
 * words have a given value and are not refused.
 *
 * Of these words the product with below is at least `least` = value 2^64 + excess, and less than
 * (value + 1) 2^64, which is least + each below (`end`).  So if `first` is the first word that reaches
 * `least`, they are those from first to before first + each (the four lemmas before that).  And excess
 * is what the code computes, (2^64 - below) mod below: both leave a multiple of below when they are
 * taken from 2^64 (`divided`), so they differ by a multiple (`only_remainder`). */

#define WORDS 0x10000000000000000

/*@ axiomatic counting {
        lemma no_multiple_between: \forall integer below, factor;
            0 < below ==> -below < factor * below < below ==> factor == 0;
        lemma only_remainder: \forall integer below, factor, excess, remainder;
            0 <= excess < below ==> 0 <= remainder < below ==>
            factor * below == remainder - excess ==> remainder == excess;
        lemma before_first: \forall integer below, least, first, word;
            0 < below ==> (first - 1) * below < least ==> word < first ==> word * below < least;
        lemma from_first: \forall integer below, least, first, word;
            0 < below ==> least <= first * below ==> first <= word ==> least <= word * below;
        lemma before_end: \forall integer below, least, first, word, each;
            0 < below ==> (first - 1) * below < least ==> word < first + each ==>
            word * below < least + each * below;
        lemma from_end: \forall integer below, least, first, word, each;
            0 < below ==> least <= first * below ==> first + each <= word ==>
            least + each * below <= word * below;
        lemma end: \forall integer below, value, each, excess;
            each * below + excess == WORDS ==>
            (value + 1) * WORDS == value * WORDS + excess + each * below;
        lemma divided: \forall integer a, below;
            0 <= a ==> 0 < below ==>
            a == below * (a / below) + a % below && 0 <= a % below < below;
    } */
