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

static void check_numbers(ptrdiff_t n)
{
    double *out = any_doubles(n);
    dpfast_stream stream = any_stream();
    dpfast_fill_gaussian(&stream, n, out);
    dpfast_fill_l2_laplace(&stream, any_double(), n, out);
}

int main(void)
{
    dpfast_stream stream = any_stream();
    double out[2];
    check_integers();
    check_numbers(1);
    check_numbers(2);
    check_numbers(6);
    dpfast_fill_gaussian(&stream, any_int(INT32_MIN, -1), out);
    dpfast_fill_l2_laplace(&stream, any_double(), any_int(INT32_MIN, 0), out);
    return 0;
}
