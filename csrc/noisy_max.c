/* Private selection: the index of the largest noisy score, exactly. */
#include "exact.h"

/* 1 with probability exp(-gap / scale).  Beyond 1000 scales the answer is 0 without a draw: in a
 * whole selection among n candidates this moves the law by less than n exp(-1000). */
static int bernoulli_exp_gap(dpfast_stream *stream, uint64_t gap, uint64_t scale)
{
    uint64_t steps = gap / scale;
    if (steps >= 1000) {
        return 0;
    }
    /*@ loop assigns steps, *stream; */
    while (steps > 0) {
        if (!bernoulli_inverse_e(stream)) {
            return 0;
        }
        steps--;
    }
    return bernoulli_exp(stream, gap % scale, scale);
}

/* P(i) proportional to exp(score_i / scale), by rejection from the uniform distribution: at most n
 * proposals on average, for the best candidate is always accepted. */
static ptrdiff_t select_exponential_mechanism(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                              const int64_t *scores, int64_t best)
{
    /*@ loop assigns *stream; */
    for (;;) {
        const ptrdiff_t i = (ptrdiff_t)uniform_below(stream, (uint64_t)n);
        if (bernoulli_exp_gap(stream, (uint64_t)(best - scores[i]), scale)) {
            return i;
        }
    }
}

dpfast_status dpfast_noisy_max(dpfast_stream *stream, dpfast_selection selection, uint64_t scale,
                               ptrdiff_t n, const int64_t *scores, ptrdiff_t *index)
{
    int64_t best;
    ptrdiff_t i, chosen = 0;
    if (!stream_ready(stream, n) || n < 1 || scale < 1 || scale > DPFAST_MAX_LAPLACE_SCALE ||
        (selection != DPFAST_SELECT_LAPLACE && selection != DPFAST_SELECT_EXPONENTIAL &&
         selection != DPFAST_SELECT_GUMBEL)) {
        return DPFAST_ERR_ARGUMENT;
    }
    best = scores[0];
    /*@ loop invariant 0 <= i <= n && (i == 0 ? best == scores[0] : best <= DPFAST_MAX_SCORE);
        loop invariant \forall integer j; 0 <= j < i ==> -DPFAST_MAX_SCORE <= scores[j] <= best;
        loop assigns i, best; */
    for (i = 0; i < n; i++) {
        if (scores[i] > DPFAST_MAX_SCORE || scores[i] < -DPFAST_MAX_SCORE) {
            return DPFAST_ERR_ARGUMENT;
        }
        best = scores[i] > best ? scores[i] : best;
    }
    if (selection == DPFAST_SELECT_GUMBEL) {
        *index = select_exponential_mechanism(stream, scale, n, scores, best);
        return DPFAST_OK;
    }
    /* The textbook proof of report-noisy-max holds word for word on the integers: with the noise of
     * the others fixed, i wins if and only if its own noise is at least some integer t, and
     * P(noise >= t + shift) >= exp(-shift / scale) P(noise >= t) for both noises.  A fixed order
     * among equal sums is part of t. */
    /*@ loop invariant 0 <= i <= n && 0 <= chosen < n;
        loop assigns i, best, chosen, *stream; */
    for (i = 0; i < n; i++) {
        const int64_t noise = selection == DPFAST_SELECT_LAPLACE
                                  ? discrete_laplace(stream, scale)
                                  : discrete_exponential(stream, scale);
        const int64_t noisy = scores[i] + noise; /* within 2^61 + 2^62 */
        if (i == 0 || noisy > best) {
            best = noisy;
            chosen = i;
        }
    }
    *index = chosen;
    return DPFAST_OK;
}
