/* The discrete Gaussian and Laplace samplers: cells, scales, and what their results are below. */
#include "contracts.h"

/*@ requires \valid(stream) && k < 8;
    assigns *stream;
    ensures \result == k || \result == k + 1; */
static uint64_t resolve_cell(dpfast_stream *stream, uint64_t k);

/*@ requires \valid(stream);
    assigns *stream;
    ensures 8 <= \result <= 1008; */
static uint64_t tail_cell(dpfast_stream *stream);

/*@ requires \valid(stream) && \valid(negative) && \separated(stream, negative);
    assigns *stream, *negative;
    ensures \result <= 1008; */
static inline uint64_t draw_cell(dpfast_stream *stream, int *negative);

/*@ requires \valid(stream) && u < scale && 1 <= scale <= DPFAST_MAX_GAUSSIAN_SCALE;
    assigns *stream;
    ensures \result == 0 || \result == 1; */
static inline int bernoulli_exp_half_square(dpfast_stream *stream, uint64_t u, uint64_t scale);

/*@ requires \valid(stream) && 1 <= scale <= DPFAST_MAX_GAUSSIAN_SCALE;
    assigns *stream;
    ensures -1009 * scale < \result < 1009 * scale; */
static inline int64_t discrete_gaussian(dpfast_stream *stream, uint64_t scale);

/*@ requires \valid(stream) && (n > 0 ==> \valid(out + (0 .. n - 1)));
    requires \separated(stream, out + (0 .. n - 1));
    assigns *stream, out[0 .. n - 1]; */
dpfast_status dpfast_fill_discrete_gaussian(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                            int64_t *out);

/*@ requires \valid(stream) && (n > 0 ==> \valid(out + (0 .. n - 1)));
    requires \separated(stream, out + (0 .. n - 1));
    assigns *stream, out[0 .. n - 1]; */
dpfast_status dpfast_fill_discrete_laplace(dpfast_stream *stream, uint64_t scale, ptrdiff_t n,
                                           int64_t *out);

#include "samplers_discrete.c"
