/* The buffered stream: keys, refills, raw words. */
#include "stream.h"

#include <string.h>

#include "chacha20.h"

/* Volatile: plain stores may be optimized away before the memory dies. */
static void erase(void *memory, size_t n)
{
    volatile unsigned char *at = (volatile unsigned char *)memory;
    size_t i;
    for (i = 0; i < n; i++) {
        at[i] = 0;
    }
}

/* Moves the next key out of the buffer. */
static void take_key(dpfast_stream *stream)
{
    int i;
    for (i = 0; i < STREAM_FIRST; i++) {
        stream->key[2 * i] = (uint32_t)stream->buffer[i];
        stream->key[2 * i + 1] = (uint32_t)(stream->buffer[i] >> 32);
        stream->buffer[i] = 0;
    }
    stream->position = STREAM_FIRST;
}

void dpfast_stream_refill(dpfast_stream *stream)
{
    DPFAST_OF_ISA_IN_USE(dpfast_keystream)(stream->key, stream->buffer);
    take_key(stream);
}

void dpfast_stream_init(dpfast_stream *stream, const uint8_t key[DPFAST_KEY_BYTES])
{
    int i;
    dpfast_stream_wipe(stream);
    for (i = 0; i < 8; i++) {
        stream->key[i] = (uint32_t)key[4 * i] | (uint32_t)key[4 * i + 1] << 8 |
                         (uint32_t)key[4 * i + 2] << 16 | (uint32_t)key[4 * i + 3] << 24;
    }
    stream->position = DPFAST_STREAM_WORDS; /* nothing unread */
    stream->keyed = 1;
}

dpfast_status dpfast_stream_init_os(dpfast_stream *stream)
{
    uint8_t key[DPFAST_KEY_BYTES];
    dpfast_status status = dpfast_os_entropy(key, sizeof key);
    if (status == DPFAST_OK) {
        dpfast_stream_init(stream, key);
    } else {
        dpfast_stream_wipe(stream);
    }
    erase(key, sizeof key);
    return status;
}

void dpfast_stream_wipe(dpfast_stream *stream)
{
    erase(stream, sizeof *stream);
}

dpfast_status dpfast_fill_uint64(dpfast_stream *stream, ptrdiff_t n, uint64_t *out)
{
    if (!stream_ready(stream, n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    while (n > 0) {
        uint32_t at = stream->position, part;
        if (at >= DPFAST_STREAM_WORDS) {
            dpfast_stream_refill(stream);
            at = STREAM_FIRST;
        }
        part = DPFAST_STREAM_WORDS - at;
        if ((ptrdiff_t)part > n) {
            part = (uint32_t)n;
        }
        memcpy(out, stream->buffer + at, part * sizeof *out);
        memset(stream->buffer + at, 0, part * sizeof *out);
        stream->position = at + part;
        out += part;
        n -= (ptrdiff_t)part;
    }
    return DPFAST_OK;
}
