/* Batches by integer arithmetic alone: their laws are exact. */
#include "batches.h"

#include "exact.h"

/* Where a batch has at least one row in so many, rows are listed in order. */
#define DENSE_BATCH 16
#define WORDS_AT_ONCE 64

static int popcount(uint64_t x)
{
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)((x * UINT64_C(0x0101010101010101)) >> 56);
}

static int trailing_zeros(uint64_t x)
{
    return popcount(~x & (x - 1));
}

/* Floyd's algorithm (Bentley & Floyd 1987): every subset of m is equally likely. */
static void subset(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m, uint64_t *set, int64_t *index)
{
    ptrdiff_t j, k = 0;
    if (m == n) {
        /*@ loop invariant 0 <= k <= n;
            loop invariant \forall integer i; 0 <= i < k ==> 0 <= index[i] < n;
            loop assigns k, index[0 .. n - 1]; */
        for (k = 0; k < n; k++) {
            index[k] = (int64_t)k;
        }
        return;
    }
    /*@ loop invariant n - m <= j <= n && k == j - (n - m) && set[n / 64] >> n % 64 == 0;
        loop invariant \forall integer i; 0 <= i < k ==> 0 <= index[i] < n;
        loop assigns j, k, *stream, set[0 .. n / 64], index[0 .. m - 1]; */
    for (j = n - m; j < n; j++) {
        uint64_t row = uniform_below(stream, (uint64_t)j + 1);
        if (set[row >> 6] >> (row & 63) & 1) {
            row = (uint64_t)j;
        }
        /*@ assert row >> 6 == row / 64 && (row & 63) == row % 64 && set[n / 64] >> n % 64 == 0; */
        /*@ assert row / 64 < n / 64 || row / 64 == n / 64 && row % 64 < n % 64; */
        set[row >> 6] |= UINT64_C(1) << (row & 63);
        /*@ assert set[n / 64] >> n % 64 == 0; */
        index[k++] = (int64_t)row;
    }
    if (m >= n / DENSE_BATCH) {
        ptrdiff_t word;
        /*@ loop invariant 0 <= word <= n / 64 + 1 && 0 <= k <= m;
            loop invariant word <= n / 64 ==> set[n / 64] >> n % 64 == 0;
            loop invariant \forall integer i; 0 <= i < m ==> 0 <= index[i] < n;
            loop assigns word, k, set[0 .. n / 64], index[0 .. m - 1]; */
        for (k = 0, word = 0; word < DPFAST_BATCH_SET_WORDS(n); word++) {
            uint64_t left = set[word];
            set[word] = 0;
            /*@ loop invariant 0 <= k <= m && (word == n / 64 ==> left >> n % 64 == 0);
                loop invariant \forall integer i; 0 <= i < m ==> 0 <= index[i] < n;
                loop assigns left, k, index[0 .. m - 1]; */
            for (; left != 0 && k < m; left &= left - 1) {
                index[k++] = (int64_t)word * 64 + trailing_zeros(left);
            }
        }
    } else {
        /*@ loop invariant 0 <= k <= m;
            loop assigns k, set[0 .. n / 64]; */
        for (k = 0; k < m; k++) {
            set[(uint64_t)index[k] >> 6] = 0;
        }
    }
}

/* The number of heads among n fair coins. */
static ptrdiff_t binomial_half(dpfast_stream *stream, ptrdiff_t n)
{
    uint64_t words[WORDS_AT_ONCE];
    ptrdiff_t heads = 0, left = n;
    /*@ loop invariant 0 <= heads && -64 < left <= n && heads + (left > 0 ? left : 0) <= n;
        loop assigns heads, left, *stream, words[0 .. WORDS_AT_ONCE - 1]; */
    while (left > 0) {
        const ptrdiff_t count =
            left > 64 * WORDS_AT_ONCE ? (ptrdiff_t)WORDS_AT_ONCE : (left + 63) / 64;
        ptrdiff_t k;
        dpfast_fill_uint64(stream, count, words);
        if (left < 64 * count) {
            words[count - 1] >>= 64 * count - left;
        }
        /*@ loop invariant 0 <= k <= count && 0 <= heads - \at(heads, LoopEntry) <= 64 * k;
            loop invariant k == count ==> heads - \at(heads, LoopEntry) <= left;
            loop assigns k, heads; */
        for (k = 0; k < count; k++) {
            heads += popcount(words[k]);
        }
        left -= 64 * count;
    }
    return heads;
}

/* The number of successes in n trials of probability batch / n: trials are halved while the
 * probability is at most a half, and what is left is tossed one by one.  About 2 n bits. */
static ptrdiff_t binomial(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch)
{
    uint64_t numerator = (uint64_t)batch;
    ptrdiff_t trials = n, successes = 0;
    /*@ loop invariant 0 <= trials <= n && 1 <= numerator <= n;
        loop assigns trials, numerator, *stream; */
    while (2 * numerator <= (uint64_t)n) {
        trials = binomial_half(stream, trials);
        numerator *= 2;
    }
    if (numerator == (uint64_t)n) {
        return trials;
    }
    /*@ loop invariant 0 <= trials && 0 <= successes && successes + trials <= n;
        loop assigns trials, successes, *stream; */
    for (; trials > 0; trials--) {
        successes += bernoulli(stream, numerator, (uint64_t)n);
    }
    return successes;
}

static int valid_rows(ptrdiff_t n)
{
    return n >= 1 && (uint64_t)n < UINT64_C(1) << 53;
}

dpfast_status dpfast_fixed_size_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m,
                                      uint64_t *set, int64_t *index)
{
    if (!stream_ready(stream, m) || !valid_rows(n) || m > n || set == NULL ||
        (index == NULL && m > 0)) {
        return DPFAST_ERR_ARGUMENT;
    }
    subset(stream, n, m, set, index);
    return DPFAST_OK;
}

dpfast_status dpfast_poisson_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch,
                                   ptrdiff_t capacity, uint64_t *set, int64_t *index,
                                   ptrdiff_t *count)
{
    if (!stream_ready(stream, batch) || !valid_rows(n) || batch < 1 || batch > n ||
        capacity < batch || set == NULL || index == NULL || count == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    /* Given their number, the rows of a Poisson sample are a uniform subset. */
    /*@ loop assigns *count, *stream; */
    do {
        *count = binomial(stream, n, batch);
    } while (*count > capacity);
    subset(stream, n, *count, set, index);
    return DPFAST_OK;
}
