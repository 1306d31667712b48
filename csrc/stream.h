/* Reading words of the stream; private to the samplers. */
#ifndef DPFAST_STREAM_H
#define DPFAST_STREAM_H

#include <stdint.h>

#include "random.h"

/* Makes the next 124 words, and the next key. */
void dpfast_stream_refill(dpfast_stream *stream);

/* 1 if a fill function may draw n values from the stream. */
static inline int stream_ready(const dpfast_stream *stream, ptrdiff_t n)
{
    return stream->keyed && n >= 0;
}

static inline uint64_t stream_next(dpfast_stream *stream)
{
    uint64_t word;
    if (stream->position == DPFAST_STREAM_WORDS) {
        dpfast_stream_refill(stream);
    }
    word = stream->buffer[stream->position];
    stream->buffer[stream->position++] = 0;
    return word;
}

#endif
