/* Gaussian, gamma and l2-Laplace distributions in floating point.
 *
 * None of these is exact: values are float64, a Gaussian is a multiple of 2^-53 of the width of its
 * layer, and logarithms are the C library's.  Uniform numbers keep full relative precision down to
 * zero, so that tails are not cut off at 2^-53. */
#include "compiler.h"
#include "stream.h"
#include "ziggurat.h"
#include "ziggurat_point.h"

#include <math.h>
#include <string.h>

/* Leading zeros of a word that is not 0. */
static inline int leading_zeros(uint64_t word)
{
#if DPFAST_GNU
    return __builtin_clzll(word);
#else
    int leading = 0;
    /*@ loop unroll 64; */
    while (word < UINT64_C(1) << 63) {
        word <<= 1;
        leading++;
    }
    return leading;
#endif
}

/* Uniform in (0, 1): 53 significant bits whatever the exponent, rounded down. */
static double uniform_open(dpfast_stream *stream)
{
    uint64_t word = stream_next(stream);
    uint64_t next;
    int leading, exponent = -64;
    if (word >= UINT64_C(1) << 53) {
        /* Eleven leading zeros at most: the word has the bits, and the conversion is exact. */
        word &= ~((UINT64_C(1) << (11 - leading_zeros(word))) - 1);
        return (double)word * 0x1p-64;
    }
    for (; word == 0; exponent -= 64) {
        if (exponent < -900) {
            return 0x1p-1000; /* fifteen zero words: a probability of 2^-960 */
        }
        word = stream_next(stream);
    }
    leading = leading_zeros(word);
    word <<= leading;
    next = stream_next(stream);
    if (leading > 0) {
        word |= next >> (64 - leading);
    }
    return ldexp((double)(word >> 11), exponent - leading + 11);
}

/* Exponential of mean 1, with full relative precision near zero as well as in the tail: -log of a
 * uniform number, from the half of (0, 1) on which that is accurate. */
static double exponential(dpfast_stream *stream)
{
    const double half = 0.5 * uniform_open(stream);
    return stream_next(stream) & 1 ? -log(half) : -log1p(-half);
}

/* Beyond the base layer: Marsaglia's method for the tail of the normal distribution. */
static double normal_tail(dpfast_stream *stream)
{
    const double start = zig_x[1];
    for (;;) {
        const double x = exponential(stream) / start;
        const double y = exponential(stream);
        if (2.0 * y > x * x) {
            return start + x;
        }
    }
}

/* Ziggurat (Marsaglia & Tsang 2000). */
static inline double gaussian(dpfast_stream *stream)
{
    for (;;) {
        const uint64_t word = stream_next(stream);
        const unsigned layer = ziggurat_layer(word);
        const double sign = ziggurat_sign(word), x = ziggurat_point(word, layer);
        if (x < zig_x[layer + 1]) {
            return sign * x;
        }
        if (layer == 0) {
            return sign * normal_tail(stream);
        }
        if (zig_f[layer] + uniform_open(stream) * (zig_f[layer + 1] - zig_f[layer]) <
            exp(-0.5 * x * x)) {
            return sign * x;
        }
    }
}

/* The same numbers as n calls of it: runs of words that need no further ones at a time. */
static void gaussians(dpfast_stream *stream, ptrdiff_t n, double *out)
{
    dpfast_ziggurat_fn *const run = &DPFAST_OF_ISA_IN_USE(dpfast_ziggurat);
    ptrdiff_t i = 0;
    while (i < n) {
        const uint32_t at = stream->position;
        ptrdiff_t part, done;
        if (at >= DPFAST_STREAM_WORDS) {
            dpfast_stream_refill(stream);
            continue;
        }
        part = DPFAST_STREAM_WORDS - (ptrdiff_t)at;
        part = part < n - i ? part : n - i;
        done = run(part, stream->buffer + at, out + i);
        memset(stream->buffer + at, 0, (size_t)done * sizeof *stream->buffer);
        stream->position = at + (uint32_t)done;
        i += done;
        if (done < part) {
            out[i++] = gaussian(stream);
        }
    }
}

/* Gamma of shape >= 1 and scale 1 (Marsaglia & Tsang 2000, "A simple method for generating gamma
 * variables"): the shape and its constants. */
typedef struct gamma_shape {
    double shape, d, c;
} gamma_shape;

static gamma_shape gamma_shape_of(double shape)
{
    gamma_shape g;
    g.shape = shape;
    g.d = shape - 1.0 / 3.0;
    g.c = 1.0 / sqrt(9.0 * g.d);
    return g;
}

static double gamma_from_one(dpfast_stream *stream, const gamma_shape *g)
{
    const double d = g->d;
    if (g->shape == 1.0) {
        return exponential(stream);
    }
    for (;;) {
        const double x = gaussian(stream);
        const double root = 1.0 + g->c * x;
        const double v = root * root * root;
        double u;
        if (root <= 0.0) {
            continue;
        }
        u = uniform_open(stream);
        if (u < 1.0 - 0.0331 * (x * x) * (x * x) ||
            log(u) < 0.5 * x * x + d * (1.0 - v + log(v))) {
            return d * v;
        }
    }
}

dpfast_status dpfast_fill_gaussian(dpfast_stream *stream, ptrdiff_t n, double *out)
{
    if (!stream_ready(stream, n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    gaussians(stream, n, out);
    return DPFAST_OK;
}

/* In four chains, which overlap. */
static double sum_of_squares(ptrdiff_t n, const double *x)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    ptrdiff_t i;
    for (i = 0; i + 4 <= n; i += 4) {
        s0 += x[i] * x[i];
        s1 += x[i + 1] * x[i + 1];
        s2 += x[i + 2] * x[i + 2];
        s3 += x[i + 3] * x[i + 3];
    }
    for (; i < n; i++) {
        s0 += x[i] * x[i];
    }
    return (s0 + s1) + (s2 + s3);
}

dpfast_status dpfast_fill_l2_laplace(dpfast_stream *stream, double scale, ptrdiff_t d, double *out)
{
    double radius, square, factor;
    gamma_shape shape;
    ptrdiff_t i;
    if (!stream_ready(stream, d) || d < 1 || (double)d > DPFAST_MAX_LAPLACE_DIM ||
        !(scale > 0.0 && scale < HUGE_VAL)) {
        return DPFAST_ERR_ARGUMENT;
    }
    /* The norm of the vector has density proportional to r^(d - 1) exp(-r / scale), and its
     * direction is uniform and independent. */
    shape = gamma_shape_of((double)d);
    radius = gamma_from_one(stream, &shape);
    do {
        gaussians(stream, d, out);
        square = sum_of_squares(d, out);
    } while (!(square > 0.0));
    factor = radius / sqrt(square) * scale;
    if (!(factor < HUGE_VAL)) {
        return DPFAST_ERR_NONFINITE;
    }
    for (i = 0; i < d; i++) {
        out[i] *= factor;
    }
    /* No coordinate is longer than the vector, up to rounding. */
    if (radius * scale < 0x1p1023) {
        return DPFAST_OK;
    }
    for (i = 0; i < d; i++) {
        if (!(fabs(out[i]) < HUGE_VAL)) {
            return DPFAST_ERR_NONFINITE;
        }
    }
    return DPFAST_OK;
}
