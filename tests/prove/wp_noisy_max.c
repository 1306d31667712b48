/* Private selection: no sum of score and noise overflows, and the index is one of the candidates. */
#include "contracts.h"

/*@ requires \valid(stream) && 1 <= scale <= DPFAST_MAX_LAPLACE_SCALE;
    assigns *stream;
    ensures \result == 0 || \result == 1; */
static int bernoulli_exp_gap(dpfast_stream *stream, uint64_t gap, uint64_t scale);

/*@ requires \valid(stream) && 1 <= scale <= DPFAST_MAX_LAPLACE_SCALE && n >= 1;
    requires \valid_read(scores + (0 .. n - 1)) && \separated(stream, scores + (0 .. n - 1));
    requires best <= DPFAST_MAX_SCORE;
    requires \forall integer j; 0 <= j < n ==> -DPFAST_MAX_SCORE <= scores[j] <= best;
    assigns *stream;
    ensures 0 <= \result < n; */
static ptrdiff_t select_exponential_mechanism(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                              const int64_t *scores, int64_t best);

/*@ requires \valid(stream) && \valid(index) && (n > 0 ==> \valid_read(scores + (0 .. n - 1)));
    requires \separated(stream, index, scores + (0 .. n - 1));
    assigns *stream, *index;
    ensures \result == DPFAST_OK ==> 0 <= *index < n; */
dpfast_status dpfast_noisy_max(dpfast_stream *stream, dpfast_selection selection, uint64_t scale,
                               ptrdiff_t n, const int64_t *scores, ptrdiff_t *index);

#include "noisy_max.c"
