/* The list of losses.  A line here, with the functions of the same name in loss_bodies.h, is all a
 * new loss needs in C.
 *
 * X(id, name, kind): the losses are functions of one margin z = <x, w> and one target y.
 * kind: DPFAST_CLASSIFICATION (y is -1 or +1) or DPFAST_REGRESSION (any finite y).
 * The public constants of each loss (bounds of |loss'| and of |loss''| in z, value at z = 0) are
 * the functions <name>_lipschitz, <name>_smoothness and <name>_at_zero. */
#ifndef DPFAST_LOSS_LIST_H
#define DPFAST_LOSS_LIST_H

#define DPFAST_LOSS_LIST(X) X(0, logistic, DPFAST_CLASSIFICATION)

#endif
