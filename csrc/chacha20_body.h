/* ChaCha20, LANES blocks side by side: x[i] holds word i of each of them.  The including file
 * defines KEYSTREAM_NAME and LANES, and sets the instruction set.  DPFAST_NO_VECTOR_TYPE forces the
 * version for compilers without vector types. */

#if (defined(__GNUC__) || defined(__clang__)) && !defined(DPFAST_NO_VECTOR_TYPE)
typedef uint32_t lanes_t __attribute__((vector_size(4 * LANES)));
#define EACH_LANE
#define IN(v) v
#define LANE(v, lane) ((v)[lane])
#else
/* Left to the compiler's vectorizer. */
typedef struct lanes_t {
    uint32_t lane[LANES];
} lanes_t;
#define EACH_LANE for (lane = 0; lane < LANES; lane++)
#define IN(v) (v).lane[lane]
#define LANE(v, which) ((v).lane[which])
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
    lanes_t x[16];
    uint32_t word[16][LANES];
    uint32_t first;
    int i, lane, round;
    for (i = 0; i < 8; i++) {
        state[4 + i] = key[i];
    }
    for (first = 0; first < 16; first += LANES) {
        for (i = 0; i < 16; i++) {
            for (lane = 0; lane < LANES; lane++) {
                LANE(x[i], lane) = state[i] + (i == 12 ? first + (uint32_t)lane : 0);
            }
        }
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
        for (i = 0; i < 16; i++) {
            lanes_t start;
            for (lane = 0; lane < LANES; lane++) {
                LANE(start, lane) = state[i] + (i == 12 ? first + (uint32_t)lane : 0);
            }
            EACH_LANE
            {
                IN(x[i]) += IN(start);
            }
            memcpy(word[i], &x[i], sizeof x[i]);
        }
        for (lane = 0; lane < LANES; lane++) {
            for (i = 0; i < 8; i++) {
                out[8 * ((int)first + lane) + i] =
                    (uint64_t)word[2 * i][lane] | (uint64_t)word[2 * i + 1][lane] << 32;
            }
        }
    }
}

#undef FOUR_STEPS
#undef STEP
#undef ROTATE_LEFT
#undef LANE
#undef IN
#undef EACH_LANE
