/* The list of losses.  A line here, with the functions of the same name in loss_bodies.h, is all a
 * new loss needs in C.
 *
 * X(id, name, targets, facts, smoothed, parameter, parameter_low, parameter_high, width)
 *   targets         which y are valid, one of dpfast_targets
 *   facts           bits of dpfast_loss_facts, true for every parameter and width
 *   smoothed        the loss that rounds off this one's kinks over its width, NONE if there is none;
 *                   its slopes are dual points in Erm.duality_gap, which knows the hinge's conjugate
 *   parameter       default of the loss's own parameter, NAN if it has none; the parameter lies in
 *                   (parameter_low, parameter_high)
 *   width           default width in (0, inf), NAN if none: that over which a kink is rounded off,
 *                   or half the range of log-means
 *
 * The losses are functions of one margin z = <x, w> and one target y, and never negative for valid
 * targets.  The ids count from 0 in the order of the lines. */
#ifndef DPFAST_LOSS_LIST_H
#define DPFAST_LOSS_LIST_H

#define DPFAST_LOSS_LIST(X)                                                                        \
    X(0, logistic, DPFAST_SIGNS, DPFAST_CONVEX | DPFAST_MONOTONE | DPFAST_MULTICLASS, NONE, NAN,   \
      NAN, NAN, NAN)                                                                               \
    X(1, hinge, DPFAST_SIGNS, DPFAST_CONVEX | DPFAST_MONOTONE, huberized_hinge, NAN, NAN, NAN,     \
      NAN)                                                                                         \
    X(2, huberized_hinge, DPFAST_SIGNS, DPFAST_CONVEX | DPFAST_MONOTONE, NONE, NAN, NAN, NAN, 0.5) \
    X(3, squared_hinge, DPFAST_SIGNS, DPFAST_CONVEX | DPFAST_MONOTONE, NONE, 4.0, 0.0, INFINITY,   \
      NAN)                                                                                         \
    X(4, huber, DPFAST_REALS, DPFAST_CONVEX | DPFAST_EVEN, NONE, 1.35, 0.0, INFINITY, NAN)         \
    X(5, squared, DPFAST_REALS, DPFAST_CONVEX | DPFAST_EVEN | DPFAST_QUADRATIC, NONE, NAN, NAN,    \
      NAN, NAN)                                                                                    \
    X(6, pinball, DPFAST_REALS, DPFAST_CONVEX, NONE, 0.5, 0.0, 1.0, 0.1)                           \
    X(7, sigmoid, DPFAST_SIGNS, DPFAST_MONOTONE, NONE, NAN, NAN, NAN, NAN)                         \
    X(8, poisson, DPFAST_NONNEGATIVE, DPFAST_CONVEX | DPFAST_LOG_LINK, NONE, NAN, NAN, NAN, 3.0)   \
    X(9, gamma, DPFAST_POSITIVE, DPFAST_CONVEX | DPFAST_LOG_LINK, NONE, NAN, NAN, NAN, 3.0)        \
    X(10, tweedie, DPFAST_NONNEGATIVE, DPFAST_CONVEX | DPFAST_LOG_LINK, NONE, 1.5, 1.0, 2.0, 3.0)  \
    X(11, negative_binomial, DPFAST_NONNEGATIVE, DPFAST_CONVEX | DPFAST_LOG_LINK, NONE, 1.0, 1e-9, \
      INFINITY, 3.0)

#define DPFAST_LOSS_ID(id, name, ...) DPFAST_LOSS_##name = (id),
enum dpfast_loss_id { DPFAST_LOSS_NONE = -1, DPFAST_LOSS_LIST(DPFAST_LOSS_ID) DPFAST_LOSS_COUNT };

#endif
