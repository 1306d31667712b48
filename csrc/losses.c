/* The registry of losses and their pointwise evaluation. */
#include "dense_ops.h"
#include "loss.h"
#include "loss_bodies.h"
#include "loss_list.h"

typedef struct loss_entry {
    const char *name;
    dpfast_targets targets;
    int facts, smoothed;
    double parameter, parameter_low, parameter_high, width;
    double (*lipschitz)(const dpfast_loss *);
    double (*smoothness)(const dpfast_loss *);
    double (*at_zero)(const dpfast_loss *);
    void (*points)(ptrdiff_t, const double *, const double *, const dpfast_loss *, double *,
                   double *, double *);
} loss_entry;

#define STAMP_LOSS(id, name, ...)                                                                  \
    static void name##_points(ptrdiff_t n, const double *z, const double *y, const dpfast_loss *p, \
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

#define LIST_LOSS(id, name, targets, facts, smoothed, parameter, parameter_low, parameter_high,    \
                  width)                                                                           \
    {#name,                                                                                        \
     targets,                                                                                      \
     facts,                                                                                        \
     DPFAST_LOSS_##smoothed,                                                                       \
     parameter,                                                                                    \
     parameter_low,                                                                                \
     parameter_high,                                                                               \
     width,                                                                                        \
     name##_lipschitz,                                                                             \
     name##_smoothness,                                                                            \
     name##_at_zero,                                                                               \
     name##_points},
static const loss_entry losses[] = {DPFAST_LOSS_LIST(LIST_LOSS)};

static const loss_entry *find_loss(int id)
{
    return (id >= 0 && id < dpfast_loss_count()) ? &losses[id] : NULL;
}

int dpfast_loss_count(void)
{
    return DPFAST_LOSS_COUNT;
}

const char *dpfast_loss_name(int id)
{
    const loss_entry *entry = find_loss(id);
    return entry != NULL ? entry->name : NULL;
}

dpfast_status dpfast_loss_describe(int id, dpfast_loss_info *info)
{
    const loss_entry *entry = find_loss(id);
    if (entry == NULL || info == NULL) {
        return DPFAST_ERR_UNSUPPORTED;
    }
    info->targets = entry->targets;
    info->facts = entry->facts;
    info->smoothed = entry->smoothed;
    info->parameter = entry->parameter;
    info->parameter_low = entry->parameter_low;
    info->parameter_high = entry->parameter_high;
    info->width = entry->width;
    return DPFAST_OK;
}

int dpfast_loss_valid(const dpfast_loss *loss)
{
    const loss_entry *entry = find_loss(loss->id);
    if (entry == NULL) {
        return 0;
    }
    /* A NaN default means that the loss has no such parameter. */
    if (!isnan(entry->parameter) &&
        !(loss->parameter > entry->parameter_low && loss->parameter < entry->parameter_high)) {
        return 0;
    }
    return isnan(entry->width) || (loss->width > 0.0 && loss->width < INFINITY);
}

double dpfast_loss_lipschitz(const dpfast_loss *loss)
{
    return dpfast_loss_valid(loss) ? losses[loss->id].lipschitz(loss) : NAN;
}

double dpfast_loss_smoothness(const dpfast_loss *loss)
{
    return dpfast_loss_valid(loss) ? losses[loss->id].smoothness(loss) : NAN;
}

double dpfast_loss_at_zero(const dpfast_loss *loss)
{
    return dpfast_loss_valid(loss) ? losses[loss->id].at_zero(loss) : NAN;
}

double dpfast_loss_lowest_target(const dpfast_loss *loss)
{
    if (!dpfast_loss_valid(loss)) {
        return NAN;
    }
    switch (losses[loss->id].targets) {
    case DPFAST_SIGNS: return -1.0;
    case DPFAST_NONNEGATIVE: return 0.0;
    case DPFAST_POSITIVE: return exp(-loss->width) * LOG_LINK_UP;
    default: return -INFINITY;
    }
}

double dpfast_loss_highest_target(const dpfast_loss *loss)
{
    if (!dpfast_loss_valid(loss)) {
        return NAN;
    }
    switch (losses[loss->id].targets) {
    case DPFAST_SIGNS: return 1.0;
    case DPFAST_REALS: return INFINITY;
    default: return exp(loss->width) / LOG_LINK_UP;
    }
}

dpfast_status dpfast_loss_points(const dpfast_loss *loss, ptrdiff_t n, const double *margin,
                                 const double *target, double *value, double *derivative,
                                 double *curvature)
{
    if (!dpfast_loss_valid(loss) || n < 0 || (n > 0 && (margin == NULL || target == NULL))) {
        return DPFAST_ERR_ARGUMENT;
    }
    losses[loss->id].points(n, margin, target, loss, value, derivative, curvature);
    return DPFAST_OK;
}

void dpfast_exp_points(ptrdiff_t n, const double *x, double *out)
{
    DPFAST_OF_ISA_IN_USE(dpfast_vector_ops).exp_points(n, x, out);
}
