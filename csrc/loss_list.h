/* The list of losses.  A line here, with the functions of the same name in loss_bodies.h, is all a
 * new loss needs in C.
 *
 * X(id, name, kind, convex, parameter, parameter_high, width)
 *   kind            DPFAST_CLASSIFICATION (y is -1 or +1) or DPFAST_REGRESSION (any finite y)
 *   convex          1 or 0
 *   parameter       default of the loss's own parameter, NAN if it has none; the parameter lies in
 *   parameter_high  (0, parameter_high)
 *   width           default width over which a kink is rounded off, in (0, inf); NAN if none
 *
 * The losses are functions of one margin z = <x, w> and one target y. */
#ifndef DPFAST_LOSS_LIST_H
#define DPFAST_LOSS_LIST_H

#define DPFAST_LOSS_LIST(X)                                                                        \
    X(0, logistic, DPFAST_CLASSIFICATION, 1, NAN, NAN, NAN)                                        \
    X(1, hinge, DPFAST_CLASSIFICATION, 1, NAN, NAN, NAN)                                           \
    X(2, huberized_hinge, DPFAST_CLASSIFICATION, 1, NAN, NAN, 0.5)                                 \
    X(3, squared_hinge, DPFAST_CLASSIFICATION, 1, 4.0, INFINITY, NAN)                              \
    X(4, huber, DPFAST_REGRESSION, 1, 1.35, INFINITY, NAN)                                         \
    X(5, squared, DPFAST_REGRESSION, 1, NAN, NAN, NAN)                                             \
    X(6, pinball, DPFAST_REGRESSION, 1, 0.5, 1.0, 0.1)                                             \
    X(7, sigmoid, DPFAST_CLASSIFICATION, 0, NAN, NAN, NAN)

#endif
