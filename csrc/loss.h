/* Losses: what they are, and the constants that the privacy analysis uses. */
#ifndef DPFAST_LOSS_H
#define DPFAST_LOSS_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpfast_targets {
    DPFAST_SIGNS = 0,       /* -1 and +1: classification */
    DPFAST_REALS = 1,       /* any finite numbers */
    DPFAST_NONNEGATIVE = 2, /* 0 to exp(width) */
    DPFAST_POSITIVE = 3     /* exp(-width) to exp(width) */
} dpfast_targets;

/* Facts that hold for every parameter and width; proofs rest on them. */
typedef enum dpfast_loss_facts {
    DPFAST_CONVEX = 1,      /* in the margin */
    DPFAST_MONOTONE = 2,    /* a function of y z that never rises */
    DPFAST_EVEN = 4,        /* a function of |z - y| whose slope is z - y, perhaps cut off */
    DPFAST_QUADRATIC = 8,   /* (z - y)^2 / 2 */
    DPFAST_MULTICLASS = 16, /* the kernels' multinomial loss, of two classes */
    DPFAST_LOG_LINK = 32    /* least at z = log y for y from exp(-width) to exp(width) */
} dpfast_loss_facts;

typedef struct dpfast_loss {
    int id;           /* position in the loss list */
    double parameter; /* slope bound, threshold or quantile, where the loss has one */
    double width;     /* over which the kink is rounded off, or half the range of log-means */
} dpfast_loss;

typedef struct dpfast_loss_info {
    dpfast_targets targets;
    int facts;             /* bits of dpfast_loss_facts */
    int smoothed;          /* id of the loss that rounds off its kinks; -1: none does */
    double parameter;      /* default; NaN: the loss has none */
    double parameter_low;  /* valid parameters are in (parameter_low, parameter_high) */
    double parameter_high;
    double width;          /* default; NaN: the loss has none; valid widths are in (0, inf) */
} dpfast_loss_info;

int dpfast_loss_count(void);
/* NULL for an unknown id. */
const char *dpfast_loss_name(int id);
dpfast_status dpfast_loss_describe(int id, dpfast_loss_info *info);
/* 1 if the id is known and parameter and width are in their ranges. */
int dpfast_loss_valid(const dpfast_loss *loss);

/* sup |loss'| and sup |loss''| in the margin, over margins and valid targets; infinity where there
 * is no bound, NaN for an invalid loss. */
double dpfast_loss_lipschitz(const dpfast_loss *loss);
double dpfast_loss_smoothness(const dpfast_loss *loss);
/* sup over valid targets of the loss at margin 0. */
double dpfast_loss_at_zero(const dpfast_loss *loss);
/* The lowest and the highest valid target, NaN for an invalid loss. */
double dpfast_loss_lowest_target(const dpfast_loss *loss);
double dpfast_loss_highest_target(const dpfast_loss *loss);

/* Value, derivative and curvature in the margin at n points; any of the outputs may be NULL. */
dpfast_status dpfast_loss_points(const dpfast_loss *loss, ptrdiff_t n, const double *margin,
                                 const double *target, double *value, double *derivative,
                                 double *curvature);

/* exp as the kernels compute it, for tests of its accuracy. */
void dpfast_exp_points(ptrdiff_t n, const double *x, double *out);

#ifdef __cplusplus
}
#endif

#endif
