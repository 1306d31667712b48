/* The stream of words, from any state and at every position of the buffer. */
#include "any.h"

/* eva_entropy.c and eva_chacha20.c analyze these two; here they give what they promise. */

dpfast_status dpfast_os_entropy(void *out, size_t n)
{
    Frama_C_make_unknown(out, n);
    return any_int(0, 1) ? DPFAST_OK : DPFAST_ERR_ENTROPY;
}

void dpfast_keystream_baseline(const uint32_t key[8], uint64_t out[DPFAST_STREAM_WORDS])
{
    Frama_C_make_unknown((char *)out, 8 * DPFAST_STREAM_WORDS);
}

/* At every position of the buffer: the copied parts end where it does. */
static void check_words(ptrdiff_t n)
{
    uint64_t *words = any_bytes(n > 0 ? 8 * n : 0);
    dpfast_stream stream = any_stream();
    uint32_t position;
    /*@ loop unroll 200; */
    for (position = 0; position <= DPFAST_STREAM_WORDS; position++) {
        stream.position = position;
        dpfast_fill_uint64(&stream, n, words);
    }
    stream.position = Frama_C_unsigned_int_interval(DPFAST_STREAM_WORDS, UINT32_MAX);
    dpfast_fill_uint64(&stream, n, words);
}

static void check_keys(void)
{
    dpfast_stream stream = any_stream();
    uint8_t key[DPFAST_KEY_BYTES];
    Frama_C_make_unknown((char *)key, sizeof key);
    dpfast_stream_init(&stream, key);
    dpfast_stream_init_os(&stream);
    dpfast_stream_wipe(&stream);
}

int main(void)
{
    check_keys();
    check_words(-1);
    check_words(0);
    check_words(3);
    check_words(130);
    return 0;
}
