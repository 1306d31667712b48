/* Integers and events of exactly the stated probability, by integer arithmetic alone; the parts of
 * the exact samplers.  The running time depends on the values drawn. */
#ifndef DPFAST_EXACT_H
#define DPFAST_EXACT_H

#include <stdint.h>

#include "stream.h"
#include "wide.h"

/* Uniform in {0, ..., below - 1}, below >= 1 (Lemire 2019, algorithm 5: the high half of
 * word * below, rejecting the low halves that would make some values likelier). */
static inline uint64_t uniform_below(dpfast_stream *stream, uint64_t below)
{
    uint64_t high, low = wide_multiply(stream_next(stream), below, &high);
    if (low < below) {
        const uint64_t excess = (0 - below) % below; /* 2^64 mod below */
        /*@ loop invariant \exists uint64_t word; high * (1 << 64) + low == word * below;
            loop invariant high < below;
            loop assigns low, high, *stream; */
        while (low < excess) {
            low = wide_multiply(stream_next(stream), below, &high);
        }
    }
    return high;
}

/* 1 with probability exactly numerator / denominator, for numerator <= denominator <= 2^63.
 *
 * The word w is the beginning of a uniform real u = (w + f) / 2^64, and the event is
 * u denominator < numerator, that is f denominator < gap with
 * gap = 2^64 numerator - w denominator.  It is certain if gap >= denominator, impossible if
 * gap <= 0, and otherwise, f being uniform too, the same question with gap for the numerator. */
static inline int bernoulli(dpfast_stream *stream, uint64_t numerator, uint64_t denominator)
{
    /*@ loop invariant numerator <= denominator;
        loop assigns numerator, *stream; */
    for (;;) {
        uint64_t high, gap;
        uint64_t low = wide_multiply(stream_next(stream), denominator, &high);
        if (high + 1 != numerator) {
            /*@ assert high < numerator ==> (numerator - high) * (1 << 64) - low > (1 << 64); */
            /*@ assert high >= numerator ==> (numerator - high) * (1 << 64) - low <= 0; */
            return high < numerator; /* gap <= 0, or gap > 2^64 */
        }
        gap = 0 - low; /* 2^64 - low, and 0 stands for 2^64 */
        /*@ assert (gap == 0 ? (1 << 64) : gap) == (numerator - high) * (1 << 64) - low; */
        if (gap == 0 || gap >= denominator) {
            return 1;
        }
        numerator = gap;
    }
}

/* 1 with probability exp(-numerator / denominator), numerator <= denominator <= 2^63: the parity of
 * the first failure in a series of trials of probability numerator / (k denominator), k = 1, 2, ...
 * (Canonne, Kamath & Steinke 2020, algorithm 1). */
static inline int bernoulli_exp(dpfast_stream *stream, uint64_t numerator, uint64_t denominator)
{
    uint64_t k = 1;
    /*@ loop invariant 1 <= k <= (1 << 63);
        loop assigns k, *stream; */
    while (bernoulli(stream, numerator, denominator) && (k == 1 || bernoulli(stream, 1, k))) {
        /*@ admit k < (1 << 63); */
        k++;
    }
    return (int)(k & 1);
}

/* 1 with probability 1/e: bernoulli_exp(1, 1), whose first trial is certain. */
static inline int bernoulli_inverse_e(dpfast_stream *stream)
{
    uint64_t k = 2;
    /*@ loop invariant 2 <= k <= (1 << 63);
        loop assigns k, *stream; */
    while (bernoulli(stream, 1, k)) {
        /*@ admit k < (1 << 63); */
        k++;
    }
    return (int)(k & 1);
}

/* P(x) proportional to exp(-x / scale), x >= 0, 1 <= scale <= 2^52: x = u + scale v with u in
 * {0, ..., scale - 1} and v independent (Canonne, Kamath & Steinke 2020, algorithm 2).  A v of 1023
 * or more is drawn again, so that x < 2^62; this moves the law by exp(-1023) < 2^-1475 in total
 * variation. */
static inline int64_t discrete_exponential(dpfast_stream *stream, uint64_t scale)
{
    /*@ loop assigns *stream; */
    for (;;) {
        uint64_t v = 0;
        const uint64_t u = uniform_below(stream, scale);
        if (!bernoulli_exp(stream, u, scale)) {
            continue;
        }
        /*@ loop invariant v <= 1023;
            loop assigns v, *stream; */
        while (v < 1023 && bernoulli_inverse_e(stream)) {
            v++;
        }
        if (v < 1023) {
            /*@ assert scale * v <= scale * 1022; */
            return (int64_t)(u + scale * v);
        }
    }
}

/* P(x) proportional to exp(-|x| / scale): a random sign, and zero counted once. */
static inline int64_t discrete_laplace(dpfast_stream *stream, uint64_t scale)
{
    /*@ loop assigns *stream; */
    for (;;) {
        const int64_t x = discrete_exponential(stream, scale);
        const int negative = (int)(stream_next(stream) & 1);
        if (!negative) {
            return x;
        }
        if (x != 0) {
            return -x;
        }
    }
}

#endif
