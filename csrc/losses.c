/* The registry of losses and their pointwise evaluation. */
#include "dpfast.h"
#include "loss_bodies.h"
#include "loss_list.h"

#define COUNT_LOSS(id, name, kind) +1
enum { LOSS_COUNT = 0 DPFAST_LOSS_LIST(COUNT_LOSS) };

typedef struct loss_entry {
    const char *name;
    dpfast_target_kind kind;
    double (*lipschitz)(double);
    double (*smoothness)(double);
    double (*at_zero)(double);
    void (*points)(ptrdiff_t, const double *, const double *, double, double *, double *, double *);
} loss_entry;

#define STAMP_LOSS(id, name, kind)                                                                 \
    static double name##_lipschitz_fn(double p) { return name##_lipschitz(p); }                    \
    static double name##_smoothness_fn(double p) { return name##_smoothness(p); }                  \
    static double name##_at_zero_fn(double p) { return name##_at_zero(p); }                        \
    static void name##_points(ptrdiff_t n, const double *z, const double *y, double p,             \
                              double *value, double *derivative, double *curvature)                \
    {                                                                                              \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; i++) {                                                                  \
            if (value != NULL) {                                                                   \
                value[i] = name##_value(y[i], z[i], p);                                            \
            }                                                                                      \
            if (derivative != NULL) {                                                              \
                derivative[i] = name##_derivative(y[i], z[i], p);                                  \
            }                                                                                      \
            if (curvature != NULL) {                                                               \
                curvature[i] = name##_curvature(y[i], z[i], p);                                    \
            }                                                                                      \
        }                                                                                          \
    }
DPFAST_LOSS_LIST(STAMP_LOSS)

#define LIST_LOSS(id, name, kind)                                                                  \
    {#name, kind, name##_lipschitz_fn, name##_smoothness_fn, name##_at_zero_fn, name##_points},
static const loss_entry losses[LOSS_COUNT] = {DPFAST_LOSS_LIST(LIST_LOSS)};

static const loss_entry *find_loss(int id)
{
    return (id >= 0 && id < LOSS_COUNT) ? &losses[id] : NULL;
}

int dpfast_loss_count(void)
{
    return LOSS_COUNT;
}

const char *dpfast_loss_name(int id)
{
    const loss_entry *entry = find_loss(id);
    return entry != NULL ? entry->name : NULL;
}

dpfast_target_kind dpfast_loss_kind(int id)
{
    const loss_entry *entry = find_loss(id);
    return entry != NULL ? entry->kind : DPFAST_REGRESSION;
}

double dpfast_loss_lipschitz(dpfast_loss loss)
{
    const loss_entry *entry = find_loss(loss.id);
    return entry != NULL ? entry->lipschitz(loss.parameter) : NAN;
}

double dpfast_loss_smoothness(dpfast_loss loss)
{
    const loss_entry *entry = find_loss(loss.id);
    return entry != NULL ? entry->smoothness(loss.parameter) : NAN;
}

double dpfast_loss_at_zero(dpfast_loss loss)
{
    const loss_entry *entry = find_loss(loss.id);
    return entry != NULL ? entry->at_zero(loss.parameter) : NAN;
}

dpfast_status dpfast_loss_points(dpfast_loss loss, ptrdiff_t n, const double *margin,
                                 const double *target, double *value, double *derivative,
                                 double *curvature)
{
    const loss_entry *entry = find_loss(loss.id);
    if (entry == NULL) {
        return DPFAST_ERR_UNSUPPORTED;
    }
    if (n < 0 || (n > 0 && (margin == NULL || target == NULL))) {
        return DPFAST_ERR_ARGUMENT;
    }
    entry->points(n, margin, target, loss.parameter, value, derivative, curvature);
    return DPFAST_OK;
}

void dpfast_exp_points(ptrdiff_t n, const double *x, double *out)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        out[i] = dpfast_exp_inline(x[i]);
    }
}
