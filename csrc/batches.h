/* Random batches of rows, drawn from the secret stream: which rows a step looks at is part of what
 * amplification by subsampling hides. */
#ifndef DPFAST_BATCHES_H
#define DPFAST_BATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "random.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 64-bit words of scratch space for batches of n rows. */
#define DPFAST_BATCH_SET_WORDS(n) ((n) / 64 + 1)

/* A uniform subset of m of the rows 0, ..., n - 1, 0 <= m <= n < 2^53, exactly, into index (m
 * entries), in an order that tells nothing beyond the subset or is random.  set has
 * DPFAST_BATCH_SET_WORDS(n) words, all zero before and after. */
dpfast_status dpfast_fixed_size_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m,
                                      uint64_t *set, int64_t *index);

/* Every row independently with probability exactly batch / n, 1 <= batch <= n < 2^53; *count rows
 * into index.  A batch of more than `capacity` >= batch rows is drawn again, which moves the law by the
 * probability of one: the caller chooses it to be negligible. */
dpfast_status dpfast_poisson_batch(dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch,
                                   ptrdiff_t capacity, uint64_t *set, int64_t *index,
                                   ptrdiff_t *count);

#ifdef __cplusplus
}
#endif

#endif
