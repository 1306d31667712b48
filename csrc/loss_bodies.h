/* The losses: scalar functions of margin z and target y, and their public constants.
 *
 * For each loss `name` of loss_list.h:
 *   name_value(y, z, p), name_derivative(y, z, p), name_curvature(y, z, p)
 *       value, first and second derivative in z; NaN in gives NaN out
 *   name_lipschitz(p), name_smoothness(p), name_at_zero(p)
 *       bounds of |first|, of |second| derivative, and of the value at z = 0, over all margins and
 *       valid targets; INFINITY where there is none
 * p is the loss with its parameter and width.  loss_blocks.h turns these into loops over rows. */
#ifndef DPFAST_LOSS_BODIES_H
#define DPFAST_LOSS_BODIES_H

#include <math.h>
#include <stddef.h>

#include "loss.h"
#include "simd.h"
#include "vecmath.h"

/* One of the bounds, an expression in p. */
#define DPFAST_BOUND(name, bound)                                                                  \
    DPFAST_INLINE double name(const dpfast_loss *p)                                                \
    {                                                                                              \
        (void)p;                                                                                   \
        return bound;                                                                              \
    }

/* ---- logistic: log(1 + exp(-y z)), y in {-1, +1} ---------------------------------------------- */

DPFAST_INLINE double logistic_value(double y, double z, const dpfast_loss *p)
{
    const double m = y * z;
    (void)p;
    return (m < 0.0 ? -m : 0.0) + dpfast_log1p_inline(dpfast_exp_inline(-fabs(m)));
}

DPFAST_INLINE double logistic_derivative(double y, double z, const dpfast_loss *p)
{
    /* 1 / (1 + exp(m)) from e = exp(-|m|), without cancellation on either side */
    const double m = y * z;
    const double e = dpfast_exp_inline(-fabs(m));
    (void)p;
    return -y * ((m < 0.0 ? 1.0 : e) / (1.0 + e));
}

DPFAST_INLINE double logistic_curvature(double y, double z, const dpfast_loss *p)
{
    const double e = dpfast_exp_inline(-fabs(y * z));
    (void)p;
    return e / ((1.0 + e) * (1.0 + e));
}

DPFAST_BOUND(logistic_lipschitz, 1.0)
DPFAST_BOUND(logistic_smoothness, 0.25)
DPFAST_BOUND(logistic_at_zero, 0.69314718055994530942)

/* ---- hinge: max(0, 1 - y z) ------------------------------------------------------------------- */

DPFAST_INLINE double hinge_value(double y, double z, const dpfast_loss *p)
{
    const double t = 1.0 - y * z;
    (void)p;
    return t < 0.0 ? 0.0 : t;
}

/* The subgradient at the kink is 0. */
DPFAST_INLINE double hinge_derivative(double y, double z, const dpfast_loss *p)
{
    const double t = 1.0 - y * z;
    (void)p;
    return t <= 0.0 ? 0.0 : -y + 0.0 * t; /* + 0 t: NaN stays NaN */
}

DPFAST_INLINE double hinge_curvature(double y, double z, const dpfast_loss *p)
{
    (void)p;
    return 0.0 * (y * z);
}

DPFAST_BOUND(hinge_lipschitz, 1.0)
DPFAST_BOUND(hinge_smoothness, INFINITY)
DPFAST_BOUND(hinge_at_zero, 1.0)

/* ---- huberized_hinge: the hinge with its kink replaced by a parabola over |1 - y z| <= width
 * (Chapelle 2007; Chaudhuri, Monteleoni & Sarwate 2011, eq. 7) ---------------------------------- */

DPFAST_INLINE double huberized_hinge_value(double y, double z, const dpfast_loss *p)
{
    const double h = p->width, t = 1.0 - y * z;
    const double inside = (t + h) * (t + h) / (4.0 * h);
    return t < -h ? 0.0 : (t > h ? t : inside);
}

DPFAST_INLINE double huberized_hinge_derivative(double y, double z, const dpfast_loss *p)
{
    const double h = p->width, t = 1.0 - y * z;
    const double inside = (t + h) / (2.0 * h);
    return -y * (t < -h ? 0.0 : (t > h ? 1.0 : inside));
}

DPFAST_INLINE double huberized_hinge_curvature(double y, double z, const dpfast_loss *p)
{
    const double h = p->width, t = 1.0 - y * z;
    return fabs(t) > h ? 0.0 : 1.0 / (2.0 * h) + 0.0 * t;
}

DPFAST_BOUND(huberized_hinge_lipschitz, 1.0)
DPFAST_BOUND(huberized_hinge_smoothness, 1.0 / (2.0 * p->width))
DPFAST_BOUND(huberized_hinge_at_zero, huberized_hinge_value(1.0, 0.0, p))

/* ---- squared_hinge: max(0, 1 - y z)^2 until its slope reaches `parameter`, a straight line beyond;
 * with parameter 4 the modified Huber loss (Zhang 2004) ------------------------------------------ */

DPFAST_INLINE double squared_hinge_value(double y, double z, const dpfast_loss *p)
{
    const double c = p->parameter, t = 1.0 - y * z;
    const double square = t * t, line = c * t - 0.25 * c * c;
    return t < 0.0 ? 0.0 : (t > 0.5 * c ? line : square);
}

DPFAST_INLINE double squared_hinge_derivative(double y, double z, const dpfast_loss *p)
{
    const double c = p->parameter, t = 1.0 - y * z;
    const double slope = 2.0 * t;
    return -y * (t < 0.0 ? 0.0 : (slope > c ? c : slope));
}

DPFAST_INLINE double squared_hinge_curvature(double y, double z, const dpfast_loss *p)
{
    const double c = p->parameter, t = 1.0 - y * z;
    return (t < 0.0 || t > 0.5 * c) ? 0.0 : 2.0 + 0.0 * t;
}

DPFAST_BOUND(squared_hinge_lipschitz, p->parameter)
DPFAST_BOUND(squared_hinge_smoothness, 2.0)
DPFAST_BOUND(squared_hinge_at_zero, squared_hinge_value(1.0, 0.0, p))

/* ---- huber: (z - y)^2 / 2 until |z - y| reaches `parameter`, straight lines beyond ------------- */

DPFAST_INLINE double huber_value(double y, double z, const dpfast_loss *p)
{
    const double c = p->parameter, a = fabs(z - y);
    const double square = 0.5 * a * a, line = c * a - 0.5 * c * c;
    return a > c ? line : square;
}

DPFAST_INLINE double huber_derivative(double y, double z, const dpfast_loss *p)
{
    const double c = p->parameter;
    double r = z - y;
    r = r > c ? c : r;
    return r < -c ? -c : r;
}

DPFAST_INLINE double huber_curvature(double y, double z, const dpfast_loss *p)
{
    const double r = z - y;
    return fabs(r) > p->parameter ? 0.0 : 1.0 + 0.0 * r;
}

DPFAST_BOUND(huber_lipschitz, p->parameter)
DPFAST_BOUND(huber_smoothness, 1.0)
DPFAST_BOUND(huber_at_zero, INFINITY)

/* ---- squared: (z - y)^2 / 2; its slope is unbounded, so privacy needs gradient clipping or bounded
 * targets and weights ---------------------------------------------------------------------------- */

DPFAST_INLINE double squared_value(double y, double z, const dpfast_loss *p)
{
    const double r = z - y;
    (void)p;
    return 0.5 * r * r;
}

DPFAST_INLINE double squared_derivative(double y, double z, const dpfast_loss *p)
{
    (void)p;
    return z - y;
}

DPFAST_INLINE double squared_curvature(double y, double z, const dpfast_loss *p)
{
    (void)p;
    return 1.0 + 0.0 * (z - y);
}

DPFAST_BOUND(squared_lipschitz, INFINITY)
DPFAST_BOUND(squared_smoothness, 1.0)
DPFAST_BOUND(squared_at_zero, INFINITY)

/* ---- pinball: quantile q = `parameter` of r = y - z, max(q r, (q - 1) r) = |r|/2 + (q - 1/2) r, with
 * |r|/2 replaced by a parabola over |r| <= width ------------------------------------------------- */

DPFAST_INLINE double pinball_value(double y, double z, const dpfast_loss *p)
{
    const double h = p->width, r = y - z, a = fabs(r);
    const double inside = r * r / (4.0 * h) + 0.25 * h;
    return (a > h ? 0.5 * a : inside) + (p->parameter - 0.5) * r;
}

DPFAST_INLINE double pinball_derivative(double y, double z, const dpfast_loss *p)
{
    const double h = p->width;
    double s = (z - y) / (2.0 * h);
    s = s > 0.5 ? 0.5 : s;
    s = s < -0.5 ? -0.5 : s;
    return s - (p->parameter - 0.5);
}

DPFAST_INLINE double pinball_curvature(double y, double z, const dpfast_loss *p)
{
    const double h = p->width, r = y - z;
    return fabs(r) > h ? 0.0 : 1.0 / (2.0 * h) + 0.0 * r;
}

DPFAST_BOUND(pinball_lipschitz, p->parameter > 0.5 ? p->parameter : 1.0 - p->parameter)
DPFAST_BOUND(pinball_smoothness, 1.0 / (2.0 * p->width))
DPFAST_BOUND(pinball_at_zero, INFINITY)

/* ---- sigmoid: 1 / (1 + exp(y z)), not convex --------------------------------------------------- */

DPFAST_INLINE double sigmoid_value(double y, double z, const dpfast_loss *p)
{
    const double m = y * z;
    const double e = dpfast_exp_inline(-fabs(m));
    (void)p;
    return (m < 0.0 ? 1.0 : e) / (1.0 + e);
}

DPFAST_INLINE double sigmoid_derivative(double y, double z, const dpfast_loss *p)
{
    const double e = dpfast_exp_inline(-fabs(y * z));
    (void)p;
    return -y * (e / ((1.0 + e) * (1.0 + e)));
}

DPFAST_INLINE double sigmoid_curvature(double y, double z, const dpfast_loss *p)
{
    /* v (1 - v) (1 - 2 v) with 1 - 2 v = tanh(m / 2), odd in m */
    const double m = y * z;
    const double e = dpfast_exp_inline(-fabs(m));
    const double grow = 1.0 + e;
    const double size = e / (grow * grow) * ((1.0 - e) / grow);
    (void)p;
    return m < 0.0 ? -size : size;
}

DPFAST_BOUND(sigmoid_lipschitz, 0.25)
DPFAST_BOUND(sigmoid_smoothness, 0.096225044864937627) /* 1 / (6 sqrt 3), rounded up */
DPFAST_BOUND(sigmoid_at_zero, 0.5)

/* ---- Losses whose mean is exp(z).  Half the deviance, up to terms of y alone that keep it from
 * being negative.  Where exp(z) or exp(-z) would have no bound, margins beyond the width, which no
 * mean of valid targets lies at, go on in straight lines: so slope and curvature are bounded. ------ */

/* For the rounding of exp, here and in the kernels: bounds are raised by it, and the range of the
 * targets is so much smaller, lest rounding turn the slope of a straight line. */
#define LOG_LINK_UP (1.0 + 16.0 * 2.220446049250313e-16)

DPFAST_INLINE double not_above(double z, double high)
{
    return z > high ? high : z; /* NaN stays NaN */
}

DPFAST_INLINE double not_below(double z, double low)
{
    return z < low ? low : z;
}

/* ---- poisson: exp(z) - y z, plus `width` y ----------------------------------------------------- */

DPFAST_INLINE double poisson_value(double y, double z, const dpfast_loss *p)
{
    const double inside = not_above(z, p->width);
    return dpfast_exp_inline(inside) * (1.0 + (z - inside)) + y * (p->width - z);
}

DPFAST_INLINE double poisson_derivative(double y, double z, const dpfast_loss *p)
{
    return dpfast_exp_inline(not_above(z, p->width)) - y;
}

DPFAST_INLINE double poisson_curvature(double y, double z, const dpfast_loss *p)
{
    return (z > p->width ? 0.0 : dpfast_exp_inline(z)) + 0.0 * y;
}

DPFAST_BOUND(poisson_lipschitz, exp(p->width) * LOG_LINK_UP)
DPFAST_BOUND(poisson_smoothness, exp(p->width) * LOG_LINK_UP)
DPFAST_BOUND(poisson_at_zero, (1.0 + p->width * exp(p->width)) * LOG_LINK_UP)

/* ---- gamma: z + y exp(-z), plus `width` -------------------------------------------------------- */

DPFAST_INLINE double gamma_value(double y, double z, const dpfast_loss *p)
{
    const double inside = not_below(z, -p->width);
    return (z + p->width) + y * dpfast_exp_inline(-inside) * (1.0 + (inside - z));
}

DPFAST_INLINE double gamma_derivative(double y, double z, const dpfast_loss *p)
{
    return 1.0 - y * dpfast_exp_inline(-not_below(z, -p->width));
}

DPFAST_INLINE double gamma_curvature(double y, double z, const dpfast_loss *p)
{
    return z < -p->width ? 0.0 : y * dpfast_exp_inline(-z);
}

/* The slope is at most 1, and at least that of the highest target at the lowest margin. */
DPFAST_INLINE double gamma_lipschitz(const dpfast_loss *p)
{
    const double steepest = expm1(2.0 * p->width);
    return (steepest > 1.0 ? steepest : 1.0) * LOG_LINK_UP;
}

DPFAST_BOUND(gamma_smoothness, exp(2.0 * p->width) * LOG_LINK_UP)
DPFAST_BOUND(gamma_at_zero, (p->width + exp(p->width)) * LOG_LINK_UP)

/* ---- tweedie: exp((2 - q) z)/(2 - q) + y exp((1 - q) z)/(q - 1), of power q = `parameter` -------- */

DPFAST_INLINE double tweedie_value(double y, double z, const dpfast_loss *p)
{
    const double a = 2.0 - p->parameter, b = p->parameter - 1.0;
    const double high = not_above(z, p->width), low = not_below(z, -p->width);
    return dpfast_exp_inline(a * high) * (1.0 / a + (z - high)) +
           y * dpfast_exp_inline(-b * low) * (1.0 / b + (low - z));
}

DPFAST_INLINE double tweedie_derivative(double y, double z, const dpfast_loss *p)
{
    const double a = 2.0 - p->parameter, b = p->parameter - 1.0;
    return dpfast_exp_inline(a * not_above(z, p->width)) -
           y * dpfast_exp_inline(-b * not_below(z, -p->width));
}

DPFAST_INLINE double tweedie_curvature(double y, double z, const dpfast_loss *p)
{
    const double a = 2.0 - p->parameter, b = p->parameter - 1.0;
    return (z > p->width ? 0.0 : a * dpfast_exp_inline(a * z)) +
           y * (z < -p->width ? 0.0 : b * dpfast_exp_inline(-b * z));
}

/* The slope of y = 0 is at most exp((2 - q) width); that of the highest target comes near
 * -exp(width + (q - 1) width) at margins far down. */
DPFAST_BOUND(tweedie_lipschitz, exp(p->parameter * p->width) * LOG_LINK_UP)

/* For the highest target and convex in between: the larger of both ends. */
DPFAST_INLINE double tweedie_smoothness(const dpfast_loss *p)
{
    const double a = 2.0 - p->parameter, b = p->parameter - 1.0, w = p->width;
    const double low = a * exp(-a * w) + b * exp(p->parameter * w), high = exp(a * w);
    return (low > high ? low : high) * LOG_LINK_UP;
}

DPFAST_INLINE double tweedie_at_zero(const dpfast_loss *p)
{
    const double a = 2.0 - p->parameter, b = p->parameter - 1.0;
    return (1.0 / a + exp(p->width) / b) * LOG_LINK_UP;
}

/* ---- negative_binomial: (y + 1/a) log(1 + a exp(z)) - y z, plus `width` y; a = `parameter` is the
 * dispersion, the variance being m + a m^2 at the mean m ----------------------------------------- */

DPFAST_INLINE double negative_binomial_value(double y, double z, const dpfast_loss *p)
{
    const double s = z + log(p->parameter);
    const double rise = (s > 0.0 ? s : 0.0) + dpfast_log1p_inline(dpfast_exp_inline(-fabs(s)));
    return (y + 1.0 / p->parameter) * rise + y * (p->width - z);
}

DPFAST_INLINE double negative_binomial_derivative(double y, double z, const dpfast_loss *p)
{
    /* (m - y) / (1 + a m) at m = exp(z), from e = exp(-|s|) = min(a m, 1 / (a m)) */
    const double s = z + log(p->parameter), e = dpfast_exp_inline(-fabs(s));
    const double mean = s > 0.0 ? 1.0 : e, one = s > 0.0 ? e : 1.0;
    return (mean - p->parameter * y * one) / (p->parameter * (1.0 + e));
}

DPFAST_INLINE double negative_binomial_curvature(double y, double z, const dpfast_loss *p)
{
    const double e = dpfast_exp_inline(-fabs(z + log(p->parameter)));
    return (1.0 / p->parameter + y) * (e / ((1.0 + e) * (1.0 + e)));
}

DPFAST_INLINE double negative_binomial_lipschitz(const dpfast_loss *p)
{
    const double low = exp(p->width), high = 1.0 / p->parameter;
    return (low > high ? low : high) * LOG_LINK_UP;
}

DPFAST_BOUND(negative_binomial_smoothness,
             0.25 * (1.0 / p->parameter + exp(p->width)) * LOG_LINK_UP)

DPFAST_INLINE double negative_binomial_at_zero(const dpfast_loss *p)
{
    const double most = exp(p->width);
    return ((most + 1.0 / p->parameter) * log1p(p->parameter) + p->width * most) * LOG_LINK_UP;
}

#endif
