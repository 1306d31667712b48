/* The random stream and the samplers without Python: published vectors, forged words that reach the
 * branches which chance does not, boundary arguments, and the laws themselves.
 *
 * The stream is keyed with fixed keys, so every run gives the same result; thresholds are such that
 * a correct sampler fails with probability below 1e-6 over the choice of keys. */
#include "check.h"
#include "exact.h"
#include "gaussian_cells.h"
#include "random.h"

static const uint64_t ONES = ~UINT64_C(0);
static const uint64_t TOP = UINT64_C(1) << 63;

static uint8_t test_key[DPFAST_KEY_BYTES]; /* 0, 1, 2, ..., 31 */

/* A stream whose next words are the given ones; those after them are real. */
static dpfast_stream forged(int n, const uint64_t *words)
{
    dpfast_stream stream;
    dpfast_stream_init(&stream, test_key);
    stream.position = DPFAST_STREAM_WORDS - (uint32_t)n;
    memcpy(stream.buffer + stream.position, words, (size_t)n * sizeof *words);
    return stream;
}

/* ---- ChaCha20 and the stream ----------------------------------------------------------------- */

typedef struct block_vector {
    uint8_t key_start[2], key_end; /* bytes 0, 1 and 31 of the key; the others are 0 */
    uint32_t counter, nonce[3];
    uint32_t out[16];
} block_vector;

/* RFC 8439, appendix A.1, test vectors 1 to 5. */
static const block_vector appendix_a1[] = {
    {{0, 0}, 0, 0, {0, 0, 0},
     {0xade0b876u, 0x903df1a0u, 0xe56a5d40u, 0x28bd8653u, 0xb819d2bdu, 0x1aed8da0u, 0xccef36a8u,
      0xc70d778bu, 0x7c5941dau, 0x8d485751u, 0x3fe02477u, 0x374ad8b8u, 0xf4b8436au, 0x1ca11815u,
      0x69b687c3u, 0x8665eeb2u}},
    {{0, 0}, 0, 1, {0, 0, 0},
     {0xbee7079fu, 0x7a385155u, 0x7c97ba98u, 0x0d082d73u, 0xa0290fcbu, 0x6965e348u, 0x3e53c612u,
      0xed7aee32u, 0x7621b729u, 0x434ee69cu, 0xb03371d5u, 0xd539d874u, 0x281fed31u, 0x45fb0a51u,
      0x1f0ae1acu, 0x6f4d794bu}},
    {{0, 0}, 1, 1, {0, 0, 0},
     {0x2452eb3au, 0x9249f8ecu, 0x8d829d9bu, 0xddd4ceb1u, 0xe8252083u, 0x60818b01u, 0xf38422b8u,
      0x5aaa49c9u, 0xbb00ca8eu, 0xda3ba7b4u, 0xc4b592d1u, 0xfdf2732fu, 0x4436274eu, 0x2561b3c8u,
      0xebdd4aa6u, 0xa0136c00u}},
    {{0, 255}, 0, 2, {0, 0, 0},
     {0xfb4dd572u, 0x4bc42ef1u, 0xdf922636u, 0x327f1394u, 0xa78dea8fu, 0x5e269039u, 0xa1bebbc1u,
      0xcaf09aaeu, 0xa25ab213u, 0x48a6b46cu, 0x1b9d9bcbu, 0x092c5be6u, 0x546ca624u, 0x1bec45d5u,
      0x87f47473u, 0x96f0992eu}},
    {{0, 0}, 0, 0, {0, 0, 0x02000000u},
     {0x374dc6c2u, 0x3736d58cu, 0xb904e24au, 0xcd3f93efu, 0x88228b1au, 0x96a4dfb3u, 0x5b76ab72u,
      0xc727ee54u, 0x0e0e978au, 0xf3145c95u, 0x1b748ea8u, 0xf786c297u, 0x99c28f5fu, 0x628314e8u,
      0x398a19fau, 0x6ded1b53u}},
};

static void fill_state(uint32_t state[16], const uint8_t key[32], uint32_t counter,
                       const uint32_t nonce[3])
{
    static const uint32_t constants[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    int i;
    memcpy(state, constants, sizeof constants);
    for (i = 0; i < 8; i++) {
        state[4 + i] = (uint32_t)key[4 * i] | (uint32_t)key[4 * i + 1] << 8 |
                       (uint32_t)key[4 * i + 2] << 16 | (uint32_t)key[4 * i + 3] << 24;
    }
    state[12] = counter;
    memcpy(state + 13, nonce, 3 * sizeof *nonce);
}

static void check_block(void)
{
    /* RFC 8439, section 2.3.2. */
    static const uint32_t section_232[16] = {
        0xe4e7f110u, 0x15593bd1u, 0x1fdd0f50u, 0xc47120a3u, 0xc7f4d1c7u, 0x0368c033u, 0x9aaa2204u,
        0x4e6cd4c3u, 0x466482d2u, 0x09aa9f07u, 0x05d7c214u, 0xa2028bd9u, 0xd19c12b5u, 0xb94e16deu,
        0xe883d0cbu, 0x4e3c50a2u};
    static const uint32_t nonce_232[3] = {0x09000000u, 0x4a000000u, 0};
    /* Section 2.4.2. */
    static const char *const text =
        "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        "future, sunscreen would be it.";
    static const char *const cipher =
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dab"
        "cd62b3571639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806"
        "818ce91ab77937365af90bbf74a35be6b40b8eedf2785e42874d";
    static const uint32_t nonce_242[3] = {0, 0x4a000000u, 0};
    uint32_t state[16], out[16] = {0};
    char hex[2 * 114 + 1];
    size_t i;

    fill_state(state, test_key, 1, nonce_232);
    dpfast_chacha20_block(state, out);
    CHECK(memcmp(out, section_232, sizeof out) == 0);

    for (i = 0; i < strlen(text); i++) {
        if (i % 64 == 0) {
            fill_state(state, test_key, 1 + (uint32_t)(i / 64), nonce_242);
            dpfast_chacha20_block(state, out);
        }
        sprintf(hex + 2 * i, "%02x",
                (unsigned)((uint8_t)text[i] ^ (uint8_t)(out[i % 64 / 4] >> (8 * (i % 4)))));
    }
    CHECK(strlen(text) == 114 && strcmp(hex, cipher) == 0);

    for (i = 0; i < sizeof appendix_a1 / sizeof *appendix_a1; i++) {
        const block_vector *v = &appendix_a1[i];
        uint8_t key[32] = {0};
        key[0] = v->key_start[0];
        key[1] = v->key_start[1];
        key[31] = v->key_end;
        fill_state(state, key, v->counter, v->nonce);
        dpfast_chacha20_block(state, out);
        CHECK(memcmp(out, v->out, sizeof out) == 0);
    }
}

/* The stream is made of blocks, each refill under the key that the one before left. */
static void check_stream(void)
{
    enum { COUNT = 3 * 124 + 5 };
    static const uint32_t nonce[3] = {0, 0, 0};
    uint64_t expected[4 * 124], words[COUNT];
    uint8_t key[32];
    dpfast_stream stream;
    int refill, block, i, nonzero = 0;

    memcpy(key, test_key, sizeof key);
    for (refill = 0; refill < 4; refill++) {
        uint8_t next[32];
        for (block = 0; block < 16; block++) {
            uint32_t state[16], out[16];
            fill_state(state, key, (uint32_t)block, nonce);
            dpfast_chacha20_block(state, out);
            for (i = 0; i < 8; i++) {
                const uint64_t word = (uint64_t)out[2 * i] | (uint64_t)out[2 * i + 1] << 32;
                const int at = 8 * block + i;
                if (at < 4) {
                    int byte;
                    for (byte = 0; byte < 8; byte++) {
                        next[8 * at + byte] = (uint8_t)(word >> (8 * byte));
                    }
                } else {
                    expected[124 * refill + at - 4] = word;
                }
            }
        }
        memcpy(key, next, sizeof key);
    }

    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_uint64(&stream, COUNT, words) == DPFAST_OK);
    CHECK(memcmp(words, expected, sizeof words) == 0);
    for (i = 0; i < (int)stream.position; i++) {
        nonzero += stream.buffer[i] != 0;
    }
    CHECK(stream.position == 4 + 5 && nonzero == 0); /* what was read is gone */

    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_uint64(&stream, 100, words) == DPFAST_OK);
    CHECK(dpfast_fill_uint64(&stream, 0, NULL) == DPFAST_OK);
    CHECK(dpfast_fill_uint64(&stream, COUNT - 100, words + 100) == DPFAST_OK);
    CHECK(memcmp(words, expected, sizeof words) == 0);
    CHECK(stream_next(&stream) == expected[COUNT]);
    CHECK(stream.buffer[stream.position - 1] == 0);
}

static void check_keys(void)
{
    static uint8_t first[100003], second[100003];
    const dpfast_stream zero = {{0}, {0}, 0, 0};
    dpfast_stream a, b;
    uint64_t x[8], y[8];
    int i, j, repeated = 0;

    CHECK(dpfast_os_entropy(first, sizeof first) == DPFAST_OK);
    CHECK(dpfast_os_entropy(second, sizeof second) == DPFAST_OK);
    CHECK(dpfast_os_entropy(NULL, 0) == DPFAST_OK);
    CHECK(memcmp(first, second, 32) != 0);
    CHECK(memcmp(first + sizeof first - 32, second + sizeof second - 32, 32) != 0);

    CHECK(dpfast_stream_init_os(&a) == DPFAST_OK);
    CHECK(dpfast_stream_init_os(&b) == DPFAST_OK);
    CHECK(dpfast_fill_uint64(&a, 8, x) == DPFAST_OK);
    CHECK(dpfast_fill_uint64(&b, 8, y) == DPFAST_OK);
    for (i = 0; i < 8; i++) {
        for (j = 0; j < 8; j++) {
            repeated += x[i] == y[j];
        }
    }
    CHECK(repeated == 0);
    dpfast_stream_wipe(&a);
    CHECK(memcmp(&a, &zero, sizeof a) == 0);
    CHECK(dpfast_fill_uint64(&a, 8, x) == DPFAST_ERR_ARGUMENT); /* no key, no values */
}

/* ---- Exact arithmetic ------------------------------------------------------------------------ */

static void check_wide_multiply(void)
{
    uint64_t high, low;
    dpfast_stream stream;
    int i, wrong = 0;

    low = wide_multiply(ONES, ONES, &high);
    CHECK(low == 1 && high == ONES - 1);
    low = wide_multiply(0, ONES, &high);
    CHECK(low == 0 && high == 0);
    low = wide_multiply(UINT64_C(0xffffffff00000001), UINT64_C(0x00000001ffffffff), &high);
    CHECK(low == UINT64_C(0x00000002ffffffff) && high == UINT64_C(0x00000001fffffffd));
    low = wide_multiply(UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210), &high);
    CHECK(low == UINT64_C(0x236d88fe5618cf00) && high == UINT64_C(0x121fa00ad77d7422));

    /* (a1 2^32 + a0) b by two products with 32-bit numbers, each carried by hand. */
    dpfast_stream_init(&stream, test_key);
    for (i = 0; i < 100000; i++) {
        const uint64_t a = stream_next(&stream), b = stream_next(&stream);
        uint64_t limb[4] = {0, 0, 0, 0}, carry;
        int p, q;
        for (p = 0; p < 2; p++) {
            carry = 0;
            for (q = 0; q < 2; q++) {
                const uint64_t t = (a >> (32 * p) & 0xffffffffu) * (b >> (32 * q) & 0xffffffffu) +
                                   limb[p + q] + carry;
                limb[p + q] = t & 0xffffffffu;
                carry = t >> 32;
            }
            limb[p + 2] = carry;
        }
        low = wide_multiply(a, b, &high);
        wrong += low != (limb[0] | limb[1] << 32) || high != (limb[2] | limb[3] << 32);
    }
    CHECK(wrong == 0);
}

/* The event for a probability of numerator / denominator, and how many forged words it read. */
static int bernoulli_forged(int n, const uint64_t *words, uint64_t numerator, uint64_t denominator,
                            int *used)
{
    dpfast_stream stream = forged(n, words);
    const int event = bernoulli(&stream, numerator, denominator);
    *used = n - (int)(DPFAST_STREAM_WORDS - stream.position);
    return event;
}

static void check_bernoulli(void)
{
    /* 1/3 = 0.555... in base 16: the words 5...5 leave it open, again and again. */
    const uint64_t third = UINT64_C(0x5555555555555555);
    const uint64_t below[4] = {third, third, third, third - 1};
    const uint64_t above[4] = {third, third, third, third + 1};
    const uint64_t half_below[1] = {TOP - 1}, half[1] = {TOP}, zero[1] = {0}, ones[1] = {ONES};
    int used = 0;

    CHECK(bernoulli_forged(4, below, 1, 3, &used) == 1 && used == 4);
    CHECK(bernoulli_forged(4, above, 1, 3, &used) == 0 && used == 4);
    CHECK(bernoulli_forged(1, half_below, 1, 2, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, half, 1, 2, &used) == 0 && used == 1);
    CHECK(bernoulli_forged(1, zero, 0, 7, &used) == 0 && used == 1);
    CHECK(bernoulli_forged(1, ones, 7, 7, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, ones, 1, 1, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, zero, 1, 1, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, ones, TOP, TOP, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, half_below, TOP / 2, TOP, &used) == 1 && used == 1);
    CHECK(bernoulli_forged(1, half, TOP / 2, TOP, &used) == 0 && used == 1);
}

/* Six standard deviations: false alarms below 2e-9 for a binomial count this close to normal. */
static int count_agrees(double count, double n, double probability)
{
    return fabs(count - n * probability) <= 6.0 * sqrt(n * probability * (1.0 - probability));
}

static void check_bernoulli_laws(void)
{
    static const uint64_t ratios[][2] = {{0, 5}, {1, 3}, {1, 2}, {5, 7}, {1, 1}};
    const int n = 200000;
    dpfast_stream stream;
    size_t r;
    int i, count = 0, bins[6] = {0};

    dpfast_stream_init(&stream, test_key);
    for (r = 0; r < sizeof ratios / sizeof *ratios; r++) {
        const double p = (double)ratios[r][0] / (double)ratios[r][1];
        int exponential = 0;
        for (i = count = 0; i < n; i++) {
            count += bernoulli(&stream, ratios[r][0], ratios[r][1]);
            exponential += bernoulli_exp(&stream, ratios[r][0], ratios[r][1]);
        }
        CHECK(count_agrees(count, n, p));
        CHECK(count_agrees(exponential, n, exp(-p)));
    }
    for (i = count = 0; i < n; i++) {
        count += bernoulli_inverse_e(&stream);
        bins[uniform_below(&stream, 6)]++;
    }
    CHECK(count_agrees(count, n, exp(-1.0)));
    for (i = 0; i < 6; i++) {
        CHECK(count_agrees(bins[i], n, 1.0 / 6.0));
    }
}

static void check_uniform_below(void)
{
    /* 2^64 mod (2^63 + 1) = 2^63 - 1, so nearly half of the words must be drawn again.  The words
     * 0 and 2 give the low halves 0 (drawn again) and 2 (also), 2^63 - 1 gives
     * (2^63 - 1)(2^63 + 1) = 2^126 - 1: low half 2^64 - 1, kept. */
    const uint64_t words[3] = {0, 2, TOP - 1};
    dpfast_stream stream = forged(3, words);
    CHECK(uniform_below(&stream, TOP + 1) == (TOP >> 1) - 1);
    CHECK(stream.position == DPFAST_STREAM_WORDS);
    stream = forged(1, words);
    CHECK(uniform_below(&stream, 1) == 0 && stream.position == DPFAST_STREAM_WORDS);
}

/* ---- The discrete Gaussian, where chance does not lead --------------------------------------- */

/* At scale 1 every proposal is accepted except a negative zero, so that |value| is the cell. */
static int64_t cell_forged(int n, const uint64_t *words)
{
    dpfast_stream stream = forged(n, words);
    int64_t value = -1;
    if (dpfast_fill_discrete_gaussian(&stream, 1, 1, &value) != DPFAST_OK) {
        return -1;
    }
    return value;
}

static void check_cells(void)
{
    int k, i, wrong = 0;
    for (k = 0; k < CELLS; k++) {
        uint64_t words[1 + CELL_WORDS];
        words[0] = (cell_bound[k] - 1) << 1;
        wrong += cell_forged(1, words) != k;
        if (k + 1 < CELLS) {
            words[0] = (cell_bound[k] + 1) << 1;
            wrong += cell_forged(1, words) != k + 1;
            words[0] |= 1; /* the sign */
            wrong += cell_forged(1, words) != -(k + 1);
        }
        /* The digits of the bound itself, then one digit less or more at each place. */
        words[0] = cell_bound[k] << 1;
        for (i = 0; i < CELL_WORDS; i++) {
            words[1 + i] = cell_digits[k][i] - 1;
            wrong += cell_forged(2 + i, words) != k;
            words[1 + i] = cell_digits[k][i] + 1;
            if (k + 1 < CELLS) {
                wrong += cell_forged(2 + i, words) != k + 1;
            } else {
                wrong += cell_forged(2 + i, words) < CELLS;
            }
            words[1 + i] = cell_digits[k][i];
        }
        wrong += cell_forged(1 + CELL_WORDS, words) < k + 1;
    }
    CHECK(wrong == 0);
}

static void check_tail(void)
{
    enum { N = 200000 };
    dpfast_stream stream;
    int i, count[3] = {0, 0, 0}, other = 0;
    double expected[3], total = 0.0;

    dpfast_stream_init(&stream, test_key);
    for (i = 0; i < N; i++) {
        int64_t value = 0;
        if (stream.position >= DPFAST_STREAM_WORDS - 1) {
            dpfast_stream_refill(&stream);
        }
        stream.buffer[stream.position] = ONES;
        if (dpfast_fill_discrete_gaussian(&stream, 1, 1, &value) != DPFAST_OK || value > -CELLS ||
            value < -CELLS - 2) {
            other++;
        } else {
            count[-value - CELLS]++;
        }
    }
    for (i = 0; i < 3; i++) {
        total += expected[i] = exp(-0.5 * (double)((CELLS + i) * (CELLS + i) - CELLS * CELLS));
    }
    /* Poisson counts of mean 40.7 and 0.003: outside with probability below 1e-7. */
    CHECK(other == 0);
    CHECK(count_agrees(count[0], N, expected[0] / total));
    CHECK(count[1] >= 12 && count[1] <= 85);
    CHECK(count[2] <= 2);
}

/* ---- Values fixed once, and by the slow twin in tests/reference ------------------------------ */

static void check_values(void)
{
    static const int64_t gaussian[4] = {-1082321742, 703127573, 1480228071, 1479274208};
    static const int64_t laplace[4] = {16521493818014914, 1045811158775978, -6725717823378380,
                                       2299581706016099};
    static const uint64_t scales[4] = {1, 1000, 2147483659u, UINT64_C(1) << 32};
    int64_t x[4];
    uint64_t digest = 0;
    dpfast_stream stream;
    int i;
    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_discrete_gaussian(&stream, 3000000001u, 4, x) == DPFAST_OK);
    CHECK(memcmp(x, gaussian, sizeof x) == 0);
    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_discrete_laplace(&stream, UINT64_C(1) << 52, 4, x) == DPFAST_OK);
    CHECK(memcmp(x, laplace, sizeof x) == 0);
    for (i = 0; i < 40000; i++) {
        (void)dpfast_fill_discrete_gaussian(&stream, scales[i % 4], 1, x);
        (void)dpfast_fill_discrete_laplace(&stream, scales[i % 4], 1, x + 1);
        digest = digest * UINT64_C(6364136223846793005) + (uint64_t)x[0];
        digest = digest * UINT64_C(6364136223846793005) + (uint64_t)x[1];
    }
    /* Whatever the compiler, the instruction set and the way to multiply. */
    CHECK(digest == UINT64_C(0xf050c45ac0730946));
}

/* The smallest uniform number that these words can make is 2^-192: both tails of the exponential
 * distribution, which a Laplace variable is times a sign, reach as far. */
static void check_uniform_tails(void)
{
    uint64_t words[5] = {0, 0, 1, 0, 1};
    dpfast_stream stream = forged(5, words);
    double x = 0.0;
    CHECK(dpfast_fill_l2_laplace(&stream, 1.0, 1, &x) == DPFAST_OK);
    CHECK(fabs(fabs(x) / (193.0 * 0.69314718055994530942) - 1.0) < 1e-13);
    words[4] = 0;
    stream = forged(5, words);
    CHECK(dpfast_fill_l2_laplace(&stream, 1.0, 1, &x) == DPFAST_OK);
    CHECK(fabs(ldexp(fabs(x), 193) - 1.0) < 1e-15);
    words[0] = ONES; /* rounded down, never up to 1 */
    words[1] = 1;
    stream = forged(2, words);
    CHECK(dpfast_fill_l2_laplace(&stream, 1.0, 1, &x) == DPFAST_OK);
    CHECK(fabs(x) > 0.69314718055994517 && fabs(x) < 0.69314718055994568);
}

/* ---- Laws ------------------------------------------------------------------------------------ */

static void check_discrete_laws(void)
{
    enum { N = 300000, REACH = 12 };
    static int64_t x[N];
    dpfast_stream stream;
    uint64_t scale;
    dpfast_stream_init(&stream, test_key);
    for (scale = 1; scale <= 3; scale++) {
        const double s = (double)scale;
        double gaussian_total = 0.0, laplace_total = 0.0;
        int v, i, count, agrees = 1;
        for (v = -60; v <= 60; v++) {
            gaussian_total += exp(-0.5 * v * v / (s * s));
        }
        for (v = -200; v <= 200; v++) {
            laplace_total += exp(-abs(v) / s);
        }
        CHECK(dpfast_fill_discrete_gaussian(&stream, scale, N, x) == DPFAST_OK);
        for (v = -REACH; v <= REACH; v++) {
            const double p = exp(-0.5 * v * v / (s * s)) / gaussian_total;
            for (i = count = 0; i < N; i++) count += x[i] == v;
            agrees &= N * p < 50.0 || count_agrees(count, N, p);
        }
        CHECK(agrees);
        CHECK(dpfast_fill_discrete_laplace(&stream, scale, N, x) == DPFAST_OK);
        for (v = -REACH, agrees = 1; v <= REACH; v++) {
            const double p = exp(-abs(v) / s) / laplace_total;
            for (i = count = 0; i < N; i++) count += x[i] == v;
            agrees &= N * p < 50.0 || count_agrees(count, N, p);
        }
        CHECK(agrees);
    }
}

/* Whether the mean of x^2 is `second` up to six standard errors, `fourth` being the mean of x^4. */
static int square_agrees(const double *x, int n, double second, double fourth)
{
    double sum = 0.0;
    int i;
    for (i = 0; i < n; i++) sum += x[i] * x[i];
    return fabs(sum / n - second) <= 6.0 * sqrt((fourth - second * second) / n);
}

static void check_continuous_laws(void)
{
    enum { N = 200000 };
    static double x[N];
    static const ptrdiff_t dims[] = {1, 2, 20};
    dpfast_stream stream;
    size_t s;
    int i, count;
    dpfast_stream_init(&stream, test_key);

    CHECK(dpfast_fill_gaussian(&stream, N, x) == DPFAST_OK);
    CHECK(square_agrees(x, N, 1.0, 3.0));
    for (i = count = 0; i < N; i++) count += x[i] > 0.0;
    CHECK(count_agrees(count, N, 0.5));
    for (i = count = 0; i < N; i++) count += fabs(x[i]) > 3.0;
    CHECK(count_agrees(count, N, 0.0026997960632601866));

    /* The norm of a vector is gamma distributed, of shape d. */
    for (s = 0; s < sizeof dims / sizeof *dims; s++) {
        const ptrdiff_t d = dims[s];
        const double a = (double)d, m2 = a * (a + 1.0), m4 = m2 * (a + 2.0) * (a + 3.0);
        for (i = 0; i < N; i++) {
            double z[20], square = 0.0;
            ptrdiff_t j;
            CHECK(dpfast_fill_l2_laplace(&stream, 1.0, d, z) == DPFAST_OK);
            for (j = 0; j < d; j++) square += z[j] * z[j];
            x[i] = sqrt(square);
        }
        CHECK(square_agrees(x, N, m2, m4));
    }
    {
        /* The norm of one vector has mean d scale and relative standard deviation 1 / sqrt(d). */
        double sum = 0.0;
        CHECK(dpfast_fill_l2_laplace(&stream, 2.0, N, x) == DPFAST_OK);
        for (i = 0; i < N; i++) sum += x[i] * x[i];
        CHECK(fabs(sqrt(sum) / (2.0 * N) - 1.0) < 6.0 / sqrt((double)N));
    }
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void check_arguments(void)
{
    const int64_t scores[3] = {5, DPFAST_MAX_SCORE, -DPFAST_MAX_SCORE};
    const int64_t too_large[2] = {0, DPFAST_MAX_SCORE + 1}, too_small[1] = {-DPFAST_MAX_SCORE - 1};
    const int64_t tied[2] = {1, 1};
    int64_t x[4];
    double f[4];
    ptrdiff_t index = -1;
    dpfast_stream stream;
    uint64_t before, after;
    int kind;

    dpfast_stream_init(&stream, test_key);
    before = stream_next(&stream);
    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_uint64(&stream, -1, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_discrete_gaussian(&stream, 0, 4, x) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_discrete_gaussian(&stream, DPFAST_MAX_GAUSSIAN_SCALE + 1, 4, x) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_discrete_gaussian(&stream, 1, -1, x) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_discrete_laplace(&stream, 0, 4, x) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_discrete_laplace(&stream, DPFAST_MAX_LAPLACE_SCALE + 1, 4, x) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_gaussian(&stream, -1, f) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_l2_laplace(&stream, 1.0, 0, f) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_l2_laplace(&stream, 0.0, 4, f) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_l2_laplace(&stream, NAN, 4, f) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_fill_l2_laplace(&stream, INFINITY, 2, f) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, DPFAST_SELECT_GUMBEL, 1, 0, scores, &index) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, DPFAST_SELECT_GUMBEL, 0, 3, scores, &index) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, DPFAST_SELECT_LAPLACE, DPFAST_MAX_LAPLACE_SCALE + 1, 3, scores,
                           &index) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, DPFAST_SELECT_LAPLACE, 1, 2, too_large, &index) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, DPFAST_SELECT_LAPLACE, 1, 1, too_small, &index) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_noisy_max(&stream, (dpfast_selection)3, 1, 3, scores, &index) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(index == -1);
    after = stream_next(&stream);
    CHECK(before == after); /* refusals draw nothing */

    CHECK(dpfast_fill_l2_laplace(&stream, 1.7e308, 4, f) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_fill_l2_laplace(&stream, 5e-324, 4, f) == DPFAST_OK);
    CHECK(dpfast_fill_discrete_gaussian(&stream, DPFAST_MAX_GAUSSIAN_SCALE, 4, x) == DPFAST_OK);
    CHECK(dpfast_fill_discrete_laplace(&stream, DPFAST_MAX_LAPLACE_SCALE, 4, x) == DPFAST_OK);
    for (kind = 0; kind < 3; kind++) {
        int first = 0, i;
        CHECK(dpfast_noisy_max(&stream, (dpfast_selection)kind, 1, 3, scores, &index) == DPFAST_OK);
        CHECK(index == 1); /* the others are 2^61 scales behind */
        CHECK(dpfast_noisy_max(&stream, (dpfast_selection)kind, DPFAST_MAX_LAPLACE_SCALE, 1, scores,
                               &index) == DPFAST_OK);
        CHECK(index == 0);
        for (i = 0; i < 20000; i++) {
            first += dpfast_noisy_max(&stream, (dpfast_selection)kind, UINT64_C(1) << 40, 2, tied,
                                      &index) == DPFAST_OK &&
                     index == 0;
        }
        CHECK(count_agrees(first, 20000, 0.5));
    }
}

/* Every instruction set gives the same stream. */
static void check_isas(void)
{
    enum { N = 1000 };
    uint64_t first[N], other[N];
    dpfast_stream stream;
    int isa;
    CHECK(dpfast_isa_force(DPFAST_ISA_BASELINE) == DPFAST_OK);
    dpfast_stream_init(&stream, test_key);
    CHECK(dpfast_fill_uint64(&stream, N, first) == DPFAST_OK);
    for (isa = 1; isa < DPFAST_ISA_COUNT; isa++) {
        if (dpfast_isa_supported(isa)) {
            CHECK(dpfast_isa_force(isa) == DPFAST_OK);
            dpfast_stream_init(&stream, test_key);
            CHECK(dpfast_fill_uint64(&stream, N, other) == DPFAST_OK);
            CHECK(memcmp(first, other, sizeof first) == 0);
        }
    }
}

int main(void)
{
    int i;
    for (i = 0; i < DPFAST_KEY_BYTES; i++) {
        test_key[i] = (uint8_t)i;
    }
    check_block();
    check_stream();
    check_isas();
    dpfast_dispatch_init();
    check_stream();
    check_keys();
    check_wide_multiply();
    check_bernoulli();
    check_bernoulli_laws();
    check_uniform_below();
    check_cells();
    check_tail();
    check_values();
    check_uniform_tails();
    check_discrete_laws();
    check_continuous_laws();
    check_arguments();
    return outcome();
}
