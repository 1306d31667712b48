/* The block function and the keystream, from any state and key. */
#include "any.h"

#include "chacha20.h"

int main(void)
{
    uint32_t state[16], block[16], key[8];
    uint64_t words[DPFAST_STREAM_WORDS];
    Frama_C_make_unknown((char *)state, sizeof state);
    Frama_C_make_unknown((char *)key, sizeof key);
    dpfast_chacha20_block(state, block);
    dpfast_keystream_baseline(key, words);
    return 0;
}
