/* Randomness: one cryptographic stream, and the samplers that read it.
 *
 * A stream is keyed once, by the operating system or by the caller, and is the only source of
 * random bits.  It belongs to one thread at a time; a copy of it repeats its values.  Sizes are
 * counts of elements.  Every fill function draws its values one after another, so that filling an
 * array in slices gives the same values as filling it at once.  All of them return
 * DPFAST_ERR_ARGUMENT, and draw nothing, for a stream without a key, a negative count, or a
 * parameter outside the range stated here. */
#ifndef DPFAST_RANDOM_H
#define DPFAST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Random bits ----------------------------------------------------------------------------- */

enum {
    DPFAST_KEY_BYTES = 32,
    DPFAST_STREAM_WORDS = 128 /* sixteen ChaCha20 blocks */
};

/* ChaCha20 (RFC 8439) with fast key erasure: a refill turns the key into sixteen blocks (counter 0
 * to 15, nonce 0), takes the first four words as the next key and hands out the other 124.  Words
 * are wiped as they are read.  So the state never tells what the stream has given before. */
typedef struct dpfast_stream {
    uint64_t buffer[DPFAST_STREAM_WORDS]; /* unread from `position` on, zeros before */
    uint32_t key[8];                      /* of the next refill */
    uint32_t position;
    uint32_t keyed; /* 0: every fill function refuses */
} dpfast_stream;

/* The ChaCha20 block function on a whole state (constants, key, counter, nonce). */
void dpfast_chacha20_block(const uint32_t state[16], uint32_t out[16]);

/* Fills n bytes from the operating system's generator. */
dpfast_status dpfast_os_entropy(void *out, size_t n);

void dpfast_stream_init(dpfast_stream *stream, const uint8_t key[DPFAST_KEY_BYTES]);

/* Keys the stream from the operating system; after DPFAST_ERR_ENTROPY it has no key. */
dpfast_status dpfast_stream_init_os(dpfast_stream *stream);

/* Erases key and buffer, in a way that the compiler may not optimize away. */
void dpfast_stream_wipe(dpfast_stream *stream);

dpfast_status dpfast_fill_uint64(dpfast_stream *stream, ptrdiff_t n, uint64_t *out);

/* ---- Exact samplers: integer arithmetic only ------------------------------------------------- */

#define DPFAST_MAX_GAUSSIAN_SCALE (UINT64_C(1) << 32)
#define DPFAST_MAX_LAPLACE_SCALE (UINT64_C(1) << 52)

/* P(x) proportional to exp(-x^2 / (2 scale^2)), x integer, 1 <= scale <= 2^32.  The law of the
 * output is within 2^-1000 of it in total variation. */
dpfast_status dpfast_fill_discrete_gaussian(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                            int64_t *out);

/* P(x) proportional to exp(-|x| / scale), x integer, 1 <= scale <= 2^52.  Within 2^-1000; and
 * |x| < 2^62. */
dpfast_status dpfast_fill_discrete_laplace(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                           int64_t *out);

typedef enum dpfast_selection {
    DPFAST_SELECT_LAPLACE = 0,     /* argmax of score + discrete Laplace noise */
    DPFAST_SELECT_EXPONENTIAL = 1, /* argmax of score + one-sided discrete exponential noise */
    DPFAST_SELECT_GUMBEL = 2       /* P(i) proportional to exp(score_i / scale) */
} dpfast_selection;

#define DPFAST_MAX_SCORE (INT64_C(1) << 61)

/* Chooses an index by noisy maximum; equal sums go to the smallest index.  Scores are integers (on
 * the caller's grid) within +-2^61, n >= 1, 1 <= scale <= 2^52.  Within n 2^-1000. */
dpfast_status dpfast_noisy_max(dpfast_stream *stream, dpfast_selection selection, uint64_t scale,
                               ptrdiff_t n, const int64_t *scores, ptrdiff_t *index);

/* ---- Floating-point samplers ----------------------------------------------------------------- */

#define DPFAST_MAX_LAPLACE_DIM 4294967296.0 /* 2^32 */

/* Standard normal, by a ziggurat on 53 bits.  Fast, and not exact: for directions and simulations,
 * not for the noise of a release. */
dpfast_status dpfast_fill_gaussian(dpfast_stream *stream, ptrdiff_t n, double *out);

/* A vector of density proportional to exp(-||z||_2 / scale) in dimension d >= 1, d <= 2^32;
 * 0 < scale < infinity.  DPFAST_ERR_NONFINITE if a coordinate would overflow. */
dpfast_status dpfast_fill_l2_laplace(dpfast_stream *stream, double scale, ptrdiff_t d,
                                     double *out);

#ifdef __cplusplus
}
#endif

#endif
