/* Every sampler on a stream in any state whatever: the words that it gives are arbitrary. */
#include "any.h"

#include "stream.h"

/* eva_stream.c analyzes these functions; here they do what they promise, and forget the rest. */

void dpfast_stream_refill(dpfast_stream *stream)
{
    Frama_C_make_unknown((char *)stream->buffer, sizeof stream->buffer);
    Frama_C_make_unknown((char *)stream->key, sizeof stream->key);
    stream->position = STREAM_FIRST;
}

dpfast_status dpfast_fill_uint64(dpfast_stream *stream, ptrdiff_t n, uint64_t *out)
{
    if (!stream_ready(stream, n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    if (n > 0) {
        Frama_C_make_unknown((char *)out, 8 * (size_t)n);
        stream->position = (uint32_t)any_int(STREAM_FIRST, DPFAST_STREAM_WORDS);
    }
    return DPFAST_OK;
}

static void check_integers(void)
{
    dpfast_stream stream = any_stream();
    int64_t out[7], scores[7];
    ptrdiff_t chosen, n = any_int(INT32_MIN, 7);
    int i;
    dpfast_fill_discrete_gaussian(&stream, any_uint64(), n, out);
    dpfast_fill_discrete_laplace(&stream, any_uint64(), n, out);
    Frama_C_make_unknown((char *)scores, sizeof scores);
    scores[0] = Frama_C_long_interval(DPFAST_MAX_SCORE + 1, INT64_MAX);
    dpfast_noisy_max(&stream, DPFAST_SELECT_LAPLACE, any_uint64(), n, scores, &chosen);
    scores[0] = Frama_C_long_interval(INT64_MIN, -DPFAST_MAX_SCORE - 1);
    dpfast_noisy_max(&stream, DPFAST_SELECT_LAPLACE, any_uint64(), n, scores, &chosen);
    /*@ loop unroll 7; */
    for (i = 0; i < 7; i++) {
        scores[i] = Frama_C_long_interval(-DPFAST_MAX_SCORE, DPFAST_MAX_SCORE);
    }
    dpfast_noisy_max(&stream, (dpfast_selection)any_int(-1, 3), any_uint64(), n, scores, &chosen);
}

static void check_fixed_size(ptrdiff_t n, ptrdiff_t m)
{
    dpfast_stream stream = any_stream();
    uint64_t *set = calloc((size_t)DPFAST_BATCH_SET_WORDS(n), sizeof *set);
    int64_t *index = any_bytes(8 * m);
    dpfast_fixed_size_batch(&stream, n, m, set, index);
}

static void check_poisson(ptrdiff_t n, ptrdiff_t batch, ptrdiff_t capacity)
{
    dpfast_stream stream = any_stream();
    uint64_t *set = calloc((size_t)DPFAST_BATCH_SET_WORDS(n), sizeof *set);
    int64_t *index = any_bytes(8 * capacity);
    ptrdiff_t count;
    dpfast_poisson_batch(&stream, n, batch, capacity, set, index, &count);
}

static void check_batches(void)
{
    dpfast_stream stream = any_stream();
    uint64_t word = 0;
    int64_t index;
    ptrdiff_t count;
    dpfast_fixed_size_batch(&stream, any_int(INT32_MIN, 0), 0, &word, NULL);
    dpfast_fixed_size_batch(&stream, 5, any_int(6, INT32_MAX), &word, &index);
    dpfast_fixed_size_batch(&stream, 5, 2, NULL, &index);
    dpfast_fixed_size_batch(&stream, 5, 2, &word, NULL);
    check_fixed_size(1, 0);
    check_fixed_size(1, 1);
    check_fixed_size(150, 20);
    check_fixed_size(150, 3);
    dpfast_poisson_batch(&stream, 5, any_int(INT32_MIN, 0), 5, &word, &index, &count);
    dpfast_poisson_batch(&stream, 5, 3, any_int(INT32_MIN, 2), &word, &index, &count);
    dpfast_poisson_batch(&stream, 5, 3, 5, &word, &index, NULL);
    check_poisson(1, 1, 1);
    check_poisson(6, 3, 4);
    check_poisson(70, 9, 30);
}

static void check_numbers(ptrdiff_t n)
{
    double *out = any_doubles(n);
    dpfast_stream stream = any_stream();
    dpfast_fill_gaussian(&stream, n, out);
    dpfast_fill_gamma(&stream, any_double(), n, out);
    dpfast_fill_l2_laplace(&stream, any_double(), 1, n, out);
}

int main(void)
{
    dpfast_stream stream = any_stream();
    double out[2];
    check_integers();
    check_batches();
    check_numbers(1);
    check_numbers(2);
    check_numbers(6);
    dpfast_fill_l2_laplace(&stream, any_double(), 2, 1, out);
    dpfast_fill_gaussian(&stream, any_int(INT32_MIN, -1), out);
    dpfast_fill_gamma(&stream, any_double(), any_int(INT32_MIN, -1), out);
    dpfast_fill_l2_laplace(&stream, any_double(), any_int(INT32_MIN, -1), 1, out);
    dpfast_fill_l2_laplace(&stream, any_double(), 1, any_int(INT32_MIN, 0), out);
    return 0;
}
