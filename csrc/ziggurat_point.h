/* How a word picks a point of the ziggurat, with independent bits for layer, sign and position. */
#ifndef DPFAST_ZIGGURAT_POINT_H
#define DPFAST_ZIGGURAT_POINT_H

#include <stdint.h>

#include "ziggurat_tables.h"

static inline unsigned ziggurat_layer(uint64_t word)
{
    return (unsigned)(word & 255);
}

/* By arithmetic: a branch on a random bit would be mispredicted every other time. */
static inline double ziggurat_sign(uint64_t word)
{
    return 1.0 - (double)(int)(word >> 7 & 2);
}

static inline double ziggurat_point(uint64_t word, unsigned layer)
{
    return (double)(int64_t)(word >> 11) * 0x1p-53 * zig_x[layer];
}

#endif
