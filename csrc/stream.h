/* Reading words of the stream; private to the samplers. */
#ifndef DPFAST_STREAM_H
#define DPFAST_STREAM_H

#include <stdint.h>

#include "random.h"

enum { STREAM_FIRST = 4 }; /* words of a fresh buffer before this one were the next key */

/* Makes the next 124 words, and the next key; `position` becomes STREAM_FIRST. */
void dpfast_stream_refill(dpfast_stream *stream);

/* 1 if a fill function may draw n values from the stream. */
static inline int stream_ready(const dpfast_stream *stream, ptrdiff_t n)
{
    return stream->keyed && n >= 0;
}

/* `position` is read once, so that not even two threads on one stream, which is forbidden, can step
 * out of the buffer. */
static inline uint64_t stream_next(dpfast_stream *stream)
{
    uint32_t at = stream->position;
    uint64_t word;
    if (at >= DPFAST_STREAM_WORDS) {
        dpfast_stream_refill(stream);
        at = STREAM_FIRST;
    }
    word = stream->buffer[at];
    stream->buffer[at] = 0;
    stream->position = at + 1;
    return word;
}

#endif
