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

DPFAST_INLINE double logistic_lipschitz(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double logistic_smoothness(const dpfast_loss *p)
{
    (void)p;
    return 0.25;
}

DPFAST_INLINE double logistic_at_zero(const dpfast_loss *p)
{
    (void)p;
    return 0.69314718055994530942;
}

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

DPFAST_INLINE double hinge_lipschitz(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double hinge_smoothness(const dpfast_loss *p)
{
    (void)p;
    return INFINITY;
}

DPFAST_INLINE double hinge_at_zero(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

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

DPFAST_INLINE double huberized_hinge_lipschitz(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double huberized_hinge_smoothness(const dpfast_loss *p)
{
    return 1.0 / (2.0 * p->width);
}

DPFAST_INLINE double huberized_hinge_at_zero(const dpfast_loss *p)
{
    return huberized_hinge_value(1.0, 0.0, p);
}

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

DPFAST_INLINE double squared_hinge_lipschitz(const dpfast_loss *p)
{
    return p->parameter;
}

DPFAST_INLINE double squared_hinge_smoothness(const dpfast_loss *p)
{
    (void)p;
    return 2.0;
}

DPFAST_INLINE double squared_hinge_at_zero(const dpfast_loss *p)
{
    return squared_hinge_value(1.0, 0.0, p);
}

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

DPFAST_INLINE double huber_lipschitz(const dpfast_loss *p)
{
    return p->parameter;
}

DPFAST_INLINE double huber_smoothness(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double huber_at_zero(const dpfast_loss *p)
{
    (void)p;
    return INFINITY;
}

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

DPFAST_INLINE double squared_lipschitz(const dpfast_loss *p)
{
    (void)p;
    return INFINITY;
}

DPFAST_INLINE double squared_smoothness(const dpfast_loss *p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double squared_at_zero(const dpfast_loss *p)
{
    (void)p;
    return INFINITY;
}

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

DPFAST_INLINE double pinball_lipschitz(const dpfast_loss *p)
{
    return p->parameter > 0.5 ? p->parameter : 1.0 - p->parameter;
}

DPFAST_INLINE double pinball_smoothness(const dpfast_loss *p)
{
    return 1.0 / (2.0 * p->width);
}

DPFAST_INLINE double pinball_at_zero(const dpfast_loss *p)
{
    (void)p;
    return INFINITY;
}

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

DPFAST_INLINE double sigmoid_lipschitz(const dpfast_loss *p)
{
    (void)p;
    return 0.25;
}

DPFAST_INLINE double sigmoid_smoothness(const dpfast_loss *p)
{
    (void)p;
    return 0.096225044864937627; /* 1 / (6 sqrt 3), rounded up */
}

DPFAST_INLINE double sigmoid_at_zero(const dpfast_loss *p)
{
    (void)p;
    return 0.5;
}

#endif
