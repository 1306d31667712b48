/* Why uniform_below is uniform: with 2^64 = each below + excess, 0 <= excess < below, exactly `each`
 * words have a given value and are not refused.
 *
 * Of these words the product with below is at least `least` = value 2^64 + excess, and less than
 * (value + 1) 2^64, which is least + each below (`end`).  So if `first` is the first word that reaches
 * `least`, they are those from first to before first + each (the four lemmas between).  And excess is
 * what the code computes, (2^64 - below) mod below: the remainder is the only number of its kind
 * (`only_remainder`, with `quotient` and `remainder` of that division, by `divided`). */

#define WORDS 0x10000000000000000

/*@ axiomatic counting {
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
        lemma only_remainder: \forall integer below, each, excess, quotient, remainder;
            0 <= excess < below ==> 0 <= remainder < below ==>
            below * each + excess == WORDS ==>
            below * quotient + remainder == WORDS - below ==> excess == remainder;
    } */
