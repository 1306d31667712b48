/* Contracts of the integer arithmetic behind the exact samplers, on a source of words that may be
 * anything.  wp_wide.c, wp_exact.c, wp_discrete.c and wp_noisy_max.c prove them; each uses those of
 * the others. */
#ifndef CONTRACTS_H
#define CONTRACTS_H

#include <stddef.h>
#include <stdint.h>

#include "random.h"

#define WORDS 0x10000000000000000

/* Proved in wp_wide.c. */
/*@ requires \valid(high);
    assigns *high;
    ensures *high * WORDS + \result == a * b;
    ensures b == 0 || *high < b; */
static inline uint64_t wide_multiply(uint64_t a, uint64_t b, uint64_t *high);

#define DPFAST_STREAM_H /* instead of the real one */
/*@ requires \valid(stream);
    assigns *stream; */
uint64_t stream_next(dpfast_stream *stream);

/*@ requires \valid_read(stream);
    assigns \nothing;
    ensures \result ==> n >= 0; */
int stream_ready(const dpfast_stream *stream, ptrdiff_t n);

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

/*@ requires \valid(stream) && numerator <= denominator && 1 <= denominator <= WORDS / 2;
    assigns *stream;
    ensures \result == 0 || \result == 1; */
static inline int bernoulli_exp(dpfast_stream *stream, uint64_t numerator, uint64_t denominator);

/*@ requires \valid(stream);
    assigns *stream;
    ensures \result == 0 || \result == 1; */
static inline int bernoulli_inverse_e(dpfast_stream *stream);

/*@ requires \valid(stream) && 1 <= scale <= 0x10000000000000;
    assigns *stream;
    ensures 0 <= \result < 1023 * scale; */
static inline int64_t discrete_exponential(dpfast_stream *stream, uint64_t scale);

/*@ requires \valid(stream) && 1 <= scale <= 0x10000000000000;
    assigns *stream;
    ensures -1023 * scale < \result < 1023 * scale; */
static inline int64_t discrete_laplace(dpfast_stream *stream, uint64_t scale);

#endif
