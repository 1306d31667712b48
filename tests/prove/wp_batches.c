/* Random batches: every index is a row, for any number of rows. */
#include "contracts.h"

/* What C says of shifts and single bits of words: bits.smt2 proves the last three. */
/*@ axiomatic bits {
        axiom all_shifted_out: \forall integer x, i;
            0 <= x < WORDS ==> 0 <= i <= 64 ==> ((x >> i) >> (64 - i)) == 0;
        axiom nothing: \forall integer i; 0 <= i ==> (0 >> i) == 0;
        axiom one_bit: \forall integer j; 0 <= j < 64 ==> 0 < (1 << j) < WORDS;
        axiom row_word: \forall integer x; 0 <= x ==> (x >> 6) == x / 64;
        axiom row_bit: \forall integer x; 0 <= x ==> (x & 63) == x % 64;
        axiom one_bit_shifted_out: \forall integer i, j; 0 <= j < i ==> ((1 << j) >> i) == 0;
        axiom both_shifted_out: \forall integer x, y, i;
            0 <= x < WORDS ==> 0 <= y < WORDS ==> 0 <= i < 64 ==>
            (x >> i) == 0 ==> (y >> i) == 0 ==> ((x | y) >> i) == 0;
        axiom clear_bit: \forall integer x, i;
            0 < x < WORDS ==> 0 <= i < 64 ==> (x >> i) == 0 ==> ((x & (x - 1)) >> i) == 0;
    } */

/* By bits.smt2. */
/*@ assigns \nothing;
    ensures 0 <= \result <= 64;
    ensures \forall integer i; 0 <= i <= 64 ==> (x >> i) == 0 ==> \result <= i; */
static int popcount(uint64_t x);

/*@ requires x > 0;
    assigns \nothing;
    ensures 0 <= \result < 64;
    ensures \forall integer i; 0 <= i < 64 ==> (x >> i) == 0 ==> \result < i; */
static int trailing_zeros(uint64_t x);

/*@ requires 0 <= m <= n && 1 <= n < 0x20000000000000 && \valid(stream);
    requires \valid(set + (0 .. n / 64)) && (m > 0 ==> \valid(index + (0 .. m - 1)));
    requires \separated(stream, set + (0 .. n / 64), index + (0 .. m - 1));
    requires \forall integer i; 0 <= i <= n / 64 ==> set[i] == 0;
    assigns *stream, set[0 .. n / 64], index[0 .. m - 1];
    ensures \forall integer i; 0 <= i < m ==> 0 <= index[i] < n; */
static void subset(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m, uint64_t *set, int64_t *index);

/*@ requires \valid(stream) && 0 <= n < 0x20000000000000;
    assigns *stream;
    ensures 0 <= \result <= n; */
static ptrdiff_t binomial_half(dpfast_stream *stream, ptrdiff_t n);

/*@ requires \valid(stream) && 1 <= batch <= n < 0x20000000000000;
    assigns *stream;
    ensures 0 <= \result <= n; */
static ptrdiff_t binomial(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch);

/*@ requires \valid(stream) && n >= 0 && (n > 0 ==> \valid(out + (0 .. n - 1)));
    requires \separated(stream, out + (0 .. n - 1));
    assigns *stream, out[0 .. n - 1], \result; */
dpfast_status dpfast_fill_uint64(dpfast_stream *stream, ptrdiff_t n, uint64_t *out);

/*@ assigns \nothing;
    ensures \result ==> 1 <= n < 0x20000000000000; */
static int valid_rows(ptrdiff_t n);

/*@ requires \valid(stream);
    requires n >= 1 ==> (set == \null || \valid(set + (0 .. n / 64)));
    requires m > 0 ==> (index == \null || \valid(index + (0 .. m - 1)));
    requires \separated(stream, set + (0 .. n / 64), index + (0 .. m - 1));
    requires n >= 1 ==> set != \null ==> \forall integer i; 0 <= i <= n / 64 ==> set[i] == 0;
    assigns *stream, set[0 .. n / 64], index[0 .. m - 1];
    ensures \result == DPFAST_OK ==> \forall integer i; 0 <= i < m ==> 0 <= index[i] < n; */
dpfast_status dpfast_fixed_size_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m,
                                      uint64_t *set, int64_t *index);

/*@ requires \valid(stream) && (count == \null || \valid(count));
    requires n >= 1 ==> (set == \null || \valid(set + (0 .. n / 64)));
    requires capacity > 0 ==> (index == \null || \valid(index + (0 .. capacity - 1)));
    requires \separated(stream, set + (0 .. n / 64), index + (0 .. capacity - 1), count);
    requires n >= 1 ==> set != \null ==> \forall integer i; 0 <= i <= n / 64 ==> set[i] == 0;
    assigns *stream, *count, set[0 .. n / 64], index[0 .. capacity - 1];
    ensures \result == DPFAST_OK ==> 0 <= *count <= capacity;
    ensures \result == DPFAST_OK ==> \forall integer i; 0 <= i < *count ==> 0 <= index[i] < n; */
dpfast_status dpfast_poisson_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch,
                                   ptrdiff_t capacity, uint64_t *set, int64_t *index,
                                   ptrdiff_t *count);

#include "batches.c"
