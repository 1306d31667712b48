/* Gaussian, gamma and l2-Laplace distributions in floating point.
 *
 * None of these is exact: values are float64, a Gaussian is a multiple of 2^-53 of the width of its
 * layer, and logarithms are the C library's.  Uniform numbers keep full relative precision down to
 * zero, so that tails are not cut off at 2^-53. */
#include "stream.h"
#include "ziggurat_tables.h"

#include <math.h>

/* Uniform in (0, 1): 53 significant bits whatever the exponent, rounded down. */
static double uniform_open(dpfast_stream *stream)
{
    uint64_t word = stream_next(stream);
    uint64_t next;
    int leading = 0, exponent = -64;
    if (word >> 53) {
        /* Eleven leading zeros at most: the word has the bits, and the conversion is exact. */
        uint64_t top = word;
        while (!(top >> 63)) {
            top <<= 1;
            leading++;
        }
        word &= ~((UINT64_C(1) << (11 - leading)) - 1);
        return (double)word * 0x1p-64;
    }
    while (word == 0) {
        word = stream_next(stream);
        exponent -= 64;
    }
    while (!(word >> 63)) {
        word <<= 1;
        leading++;
    }
    next = stream_next(stream);
    if (leading > 0) {
        word |= next >> (64 - leading);
    }
    /* Cannot underflow: that would take fifteen zero words. */
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

/* Ziggurat (Marsaglia & Tsang 2000) with independent bits for layer, sign and position. */
static inline double gaussian(dpfast_stream *stream)
{
    for (;;) {
        const uint64_t word = stream_next(stream);
        const unsigned layer = (unsigned)(word & 255);
        /* By arithmetic: a branch on a random bit would be mispredicted every other time. */
        const double sign = 1.0 - (double)(int)(word >> 7 & 2);
        double x = (double)(int64_t)(word >> 11) * 0x1p-53 * zig_x[layer];
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

/* Gamma of shape >= 1 and scale 1 (Marsaglia & Tsang 2000, "A simple method for generating gamma
 * variables"). */
static double gamma_from_one(dpfast_stream *stream, double shape)
{
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / sqrt(9.0 * d);
    if (shape == 1.0) {
        return exponential(stream);
    }
    for (;;) {
        const double x = gaussian(stream);
        const double root = 1.0 + c * x;
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

static double gamma_variate(dpfast_stream *stream, double shape)
{
    if (shape >= 1.0) {
        return gamma_from_one(stream, shape);
    }
    return gamma_from_one(stream, shape + 1.0) * exp(-exponential(stream) / shape);
}

dpfast_status dpfast_fill_gaussian(dpfast_stream *stream, ptrdiff_t n, double *out)
{
    ptrdiff_t i;
    if (!stream_ready(stream, n)) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        out[i] = gaussian(stream);
    }
    return DPFAST_OK;
}

dpfast_status dpfast_fill_gamma(dpfast_stream *stream, double shape, ptrdiff_t n, double *out)
{
    ptrdiff_t i;
    /* Written so that NaN fails. */
    if (!stream_ready(stream, n) || !(shape > 0.0 && shape <= DPFAST_MAX_GAMMA_SHAPE)) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        out[i] = gamma_variate(stream, shape);
    }
    return DPFAST_OK;
}

/* One vector; 0 if a coordinate would overflow. */
static int l2_laplace(dpfast_stream *stream, double scale, ptrdiff_t d, double *out)
{
    double radius, square, factor, largest = 0.0;
    ptrdiff_t i;
    /* The norm of the vector has density proportional to r^(d - 1) exp(-r / scale), and its
     * direction is uniform and independent. */
    radius = gamma_from_one(stream, (double)d);
    do {
        square = 0.0;
        for (i = 0; i < d; i++) {
            out[i] = gaussian(stream);
            square += out[i] * out[i];
        }
    } while (!(square > 0.0));
    factor = radius / sqrt(square) * scale;
    if (!(factor < HUGE_VAL)) {
        return 0;
    }
    for (i = 0; i < d; i++) {
        const double size = fabs(out[i] *= factor);
        largest = size > largest ? size : largest;
    }
    return largest < HUGE_VAL;
}

dpfast_status dpfast_fill_l2_laplace(dpfast_stream *stream, double scale, ptrdiff_t n, ptrdiff_t d,
                                     double *out)
{
    ptrdiff_t i;
    if (!stream_ready(stream, n) || d < 1 || (double)d > DPFAST_MAX_GAMMA_SHAPE ||
        !(scale > 0.0 && scale < HUGE_VAL)) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        if (!l2_laplace(stream, scale, d, out + i * d)) {
            return DPFAST_ERR_NONFINITE;
        }
    }
    return DPFAST_OK;
}
