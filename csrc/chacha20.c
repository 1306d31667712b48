/* The ChaCha20 block function, word for word as in RFC 8439, section 2.3: the reference for the
 * bulk versions. */
#include "random.h"

static uint32_t rotate_left(uint32_t x, int by)
{
    return (x << by) | (x >> (32 - by));
}

static void quarter_round(uint32_t x[16], int a, int b, int c, int d)
{
    x[a] += x[b];
    x[d] = rotate_left(x[d] ^ x[a], 16);
    x[c] += x[d];
    x[b] = rotate_left(x[b] ^ x[c], 12);
    x[a] += x[b];
    x[d] = rotate_left(x[d] ^ x[a], 8);
    x[c] += x[d];
    x[b] = rotate_left(x[b] ^ x[c], 7);
}

void dpfast_chacha20_block(const uint32_t state[16], uint32_t out[16])
{
    uint32_t x[16];
    int i;
    for (i = 0; i < 16; i++) {
        x[i] = state[i];
    }
    for (i = 0; i < 10; i++) {
        quarter_round(x, 0, 4, 8, 12);
        quarter_round(x, 1, 5, 9, 13);
        quarter_round(x, 2, 6, 10, 14);
        quarter_round(x, 3, 7, 11, 15);
        quarter_round(x, 0, 5, 10, 15);
        quarter_round(x, 1, 6, 11, 12);
        quarter_round(x, 2, 7, 8, 13);
        quarter_round(x, 3, 4, 9, 14);
    }
    for (i = 0; i < 16; i++) {
        out[i] = x[i] + state[i];
    }
}
