/* The exact discrete Gaussian and discrete Laplace distributions. */
#include "exact.h"
#include "gaussian_cells.h"

/* The beginning of a uniform real has the 63 digits of C_k: reads on until they differ, and returns
 * the cell.  Reads on at most 960 digits, so the cell is wrong with probability below 2^-1019 in
 * all. */
static uint64_t resolve_cell(dpfast_stream *stream, uint64_t k)
{
    int i;
    /*@ loop invariant 0 <= i <= CELL_WORDS;
        loop assigns i, *stream; */
    for (i = 0; i < CELL_WORDS; i++) {
        const uint64_t word = stream_next(stream);
        if (word != cell_digits[k][i]) {
            return word < cell_digits[k][i] ? k : k + 1;
        }
    }
    return k + 1;
}

/* k >= CELLS with probability proportional to exp(-k^2 / 2), needed once in 10^14 draws: for
 * k = CELLS + j this is exp(-1/2)^(2 CELLS j + j^2) up to a constant, so a run of successes of
 * probability exp(-1/2)^(2 CELLS) proposes j, and j^2 more must follow (Karney 2016, algorithm N,
 * steps 1 and 2).  A j above 1000 (probability below exp(-8000)) is drawn again. */
static uint64_t tail_cell(dpfast_stream *stream)
{
    /*@ loop assigns *stream; */
    for (;;) {
        uint64_t j = 0, wanted = 2 * CELLS, successes = 0;
        /*@ loop invariant j <= 1001 && successes < wanted;
            loop assigns j, successes, *stream; */
        while (j <= 1000 && bernoulli_exp(stream, 1, 2)) {
            if (++successes == wanted) {
                successes = 0;
                j++;
            }
        }
        if (j > 1000) {
            continue;
        }
        wanted = j * j;
        /*@ loop invariant successes <= wanted;
            loop assigns successes, *stream; */
        for (successes = 0; successes < wanted && bernoulli_exp(stream, 1, 2); successes++) {
        }
        if (successes == wanted) {
            return CELLS + j;
        }
    }
}

/* k >= 0 with probability proportional to exp(-k^2 / 2), and an independent random sign. */
static inline uint64_t draw_cell(dpfast_stream *stream, int *negative)
{
    const uint64_t word = stream_next(stream);
    const uint64_t digits = word >> 1;
    uint64_t k = 0;
    int i;
    *negative = (int)(word & 1);
    /*@ loop invariant 0 <= i <= CELLS && k <= i;
        loop assigns i, k; */
    for (i = 0; i < CELLS; i++) {
        k += digits >= cell_bound[i];
    }
    if (k > 0 && digits == cell_bound[k - 1]) {
        k = resolve_cell(stream, k - 1);
    }
    return k < CELLS ? k : tail_cell(stream);
}

/* 1 with probability exp(-x^2 / 2), x = u / scale: bernoulli_exp with the numerator and denominator
 * of x^2 / 2 in factors, which keeps every product within 128 bits. */
static inline int bernoulli_exp_half_square(dpfast_stream *stream, uint64_t u, uint64_t scale)
{
    uint64_t k = 1;
    /*@ loop invariant 1 <= k <= (1 << 63);
        loop assigns k, *stream; */
    while (bernoulli(stream, u, 2 * scale) && bernoulli(stream, u, scale) &&
           (k == 1 || bernoulli(stream, 1, k))) {
        /*@ admit k < (1 << 63); */
        k++;
    }
    return (int)(k & 1);
}

/* One value of P(x) proportional to exp(-x^2 / (2 scale^2)).
 *
 * Write |x| = u + scale k with 0 <= u < scale.  Then
 *
 *     exp(-x^2 / (2 scale^2)) = exp(-k^2 / 2) exp(-u / scale)^k exp(-(u / scale)^2 / 2),
 *
 * so: draw k and the sign from the first factor and u uniformly, accept with the probability of the
 * others, and reject a negative zero.  This is rejection from the discrete Laplace distribution as
 * in Canonne, Kamath & Steinke 2020, algorithm 3, with t = scale, the factors exp(-|x| / scale) of
 * the proposal and of the acceptance merged: 1.4 proposals a value instead of 2.1. */
static inline int64_t discrete_gaussian(dpfast_stream *stream, uint64_t scale)
{
    /*@ loop assigns *stream; */
    for (;;) {
        int negative;
        const uint64_t k = draw_cell(stream, &negative);
        const uint64_t u = uniform_below(stream, scale);
        uint64_t factor = 0;
        int64_t magnitude;
        /*@ loop invariant factor <= k;
            loop assigns factor, *stream; */
        while (factor < k && bernoulli_exp(stream, u, scale)) {
            factor++;
        }
        if (factor < k || !bernoulli_exp_half_square(stream, u, scale)) {
            continue;
        }
        /*@ assert scale * k <= scale * (CELLS + 1000); */
        magnitude = (int64_t)(u + scale * k); /* below 2^32 * 1010 */
        if (!negative) {
            return magnitude;
        }
        if (magnitude != 0) {
            return -magnitude;
        }
    }
}

dpfast_status dpfast_fill_discrete_gaussian(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                            int64_t *out)
{
    ptrdiff_t i;
    if (!stream_ready(stream, n) || scale < 1 || scale > DPFAST_MAX_GAUSSIAN_SCALE) {
        return DPFAST_ERR_ARGUMENT;
    }
    /*@ loop invariant 0 <= i <= n;
        loop assigns i, *stream, out[0 .. n - 1]; */
    for (i = 0; i < n; i++) {
        out[i] = discrete_gaussian(stream, scale);
    }
    return DPFAST_OK;
}

dpfast_status dpfast_fill_discrete_laplace(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                           int64_t *out)
{
    ptrdiff_t i;
    if (!stream_ready(stream, n) || scale < 1 || scale > DPFAST_MAX_LAPLACE_SCALE) {
        return DPFAST_ERR_ARGUMENT;
    }
    /*@ loop invariant 0 <= i <= n;
        loop assigns i, *stream, out[0 .. n - 1]; */
    for (i = 0; i < n; i++) {
        out[i] = discrete_laplace(stream, scale);
    }
    return DPFAST_OK;
}
