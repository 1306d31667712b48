/* ChaCha20, LANES blocks side by side: x[i] holds word i of each of them.  The including file
 * defines KEYSTREAM_NAME and LANES, and sets the instruction set. */
#include "compiler.h"

#if DPFAST_GNU && defined(__x86_64__) && DPFAST_ISA_LEVEL == 2
/* out[8 lane + i] = words 2 i and 2 i + 1 of a lane: a transposition in registers. */
static inline void store_lanes(uint32_t word[16][16], uint64_t *out)
{
    int half, odd, i;
    for (half = 0; half < 2; half++) {
        __m512i pair[8];
        for (i = 0; i < 8; i++) {
            const __m512i low = _mm512_loadu_si512(word[2 * i]);
            const __m512i high = _mm512_loadu_si512(word[2 * i + 1]);
            /* Of lanes 4 p and 4 p + 1, or of 4 p + 2 and 4 p + 3, for p = 0, ..., 3. */
            pair[i] = half ? _mm512_unpackhi_epi32(low, high) : _mm512_unpacklo_epi32(low, high);
        }
        for (odd = 0; odd < 2; odd++) {
            __m512i t[4], a, b, c, d;
            uint64_t *first = out + 8 * (2 * half + odd);
            for (i = 0; i < 4; i++) {
                t[i] = odd ? _mm512_unpackhi_epi64(pair[2 * i], pair[2 * i + 1])
                           : _mm512_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]);
            }
            a = _mm512_shuffle_i64x2(t[0], t[1], 0x88);
            b = _mm512_shuffle_i64x2(t[0], t[1], 0xdd);
            c = _mm512_shuffle_i64x2(t[2], t[3], 0x88);
            d = _mm512_shuffle_i64x2(t[2], t[3], 0xdd);
            _mm512_storeu_si512(first, _mm512_shuffle_i64x2(a, c, 0x88));
            _mm512_storeu_si512(first + 32, _mm512_shuffle_i64x2(b, d, 0x88));
            _mm512_storeu_si512(first + 64, _mm512_shuffle_i64x2(a, c, 0xdd));
            _mm512_storeu_si512(first + 96, _mm512_shuffle_i64x2(b, d, 0xdd));
        }
    }
}
#define STORE_LANES 1
#else
#define STORE_LANES 0
#endif

#if DPFAST_GNU
typedef uint32_t lanes_t __attribute__((vector_size(4 * LANES)));
#define EACH_LANE
#define IN(v) (v)
#else
/* Left to the compiler's vectorizer. */
typedef struct lanes_t {
    uint32_t lane[LANES];
} lanes_t;
#define EACH_LANE for (lane = 0; lane < LANES; lane++)
#define IN(v) (v).lane[lane]
#endif

#define ROTATE_LEFT(v, by) (((v) << (by)) | ((v) >> (32 - (by))))
#define STEP(a, b, c, by)                                                                          \
    EACH_LANE                                                                                      \
    {                                                                                              \
        IN(x[a]) += IN(x[b]);                                                                      \
        IN(x[c]) ^= IN(x[a]);                                                                      \
        IN(x[c]) = ROTATE_LEFT(IN(x[c]), by);                                                      \
    }
/* Four quarter rounds in step, so that their chains of dependent instructions overlap. */
#define FOUR_STEPS(a0, b0, c0, a1, b1, c1, a2, b2, c2, a3, b3, c3, by)                             \
    STEP(a0, b0, c0, by) STEP(a1, b1, c1, by) STEP(a2, b2, c2, by) STEP(a3, b3, c3, by)

void KEYSTREAM_NAME(const uint32_t key[8], uint64_t out[DPFAST_STREAM_WORDS])
{
    /* "expand 32-byte k" */
    uint32_t state[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    const lanes_t zero = {0};
    lanes_t x[16], counter;
    uint32_t word[16][LANES];
    uint32_t first;
    int i, lane, round;
    for (i = 0; i < 8; i++) {
        state[4 + i] = key[i];
    }
    for (first = 0; first < 16; first += LANES) {
        for (lane = 0; lane < LANES; lane++) {
            word[0][lane] = first + (uint32_t)lane;
        }
        memcpy(&counter, word[0], sizeof counter);
        for (i = 0; i < 16; i++) {
            EACH_LANE { IN(x[i]) = IN(zero) + state[i]; }
        }
        EACH_LANE { IN(x[12]) += IN(counter); }
        for (round = 0; round < 10; round++) {
            FOUR_STEPS(0, 4, 12, 1, 5, 13, 2, 6, 14, 3, 7, 15, 16)
            FOUR_STEPS(8, 12, 4, 9, 13, 5, 10, 14, 6, 11, 15, 7, 12)
            FOUR_STEPS(0, 4, 12, 1, 5, 13, 2, 6, 14, 3, 7, 15, 8)
            FOUR_STEPS(8, 12, 4, 9, 13, 5, 10, 14, 6, 11, 15, 7, 7)
            FOUR_STEPS(0, 5, 15, 1, 6, 12, 2, 7, 13, 3, 4, 14, 16)
            FOUR_STEPS(10, 15, 5, 11, 12, 6, 8, 13, 7, 9, 14, 4, 12)
            FOUR_STEPS(0, 5, 15, 1, 6, 12, 2, 7, 13, 3, 4, 14, 8)
            FOUR_STEPS(10, 15, 5, 11, 12, 6, 8, 13, 7, 9, 14, 4, 7)
        }
        EACH_LANE { IN(x[12]) += IN(counter); }
        for (i = 0; i < 16; i++) {
            EACH_LANE { IN(x[i]) += state[i]; }
            memcpy(word[i], &x[i], sizeof x[i]);
        }
#if STORE_LANES
        store_lanes(word, out);
#else
        for (lane = 0; lane < LANES; lane++) {
            for (i = 0; i < 8; i++) {
                out[8 * ((int)first + lane) + i] =
                    (uint64_t)word[2 * i][lane] | (uint64_t)word[2 * i + 1][lane] << 32;
            }
        }
#endif
    }
}

#undef FOUR_STEPS
#undef STEP
#undef ROTATE_LEFT
#undef IN
#undef EACH_LANE
#undef STORE_LANES
