/* Losses, known and unknown, at any points; the choice of an instruction set. */
#include "any.h"

static void check_any(dpfast_loss loss)
{
    dpfast_loss_info info;
    dpfast_loss_name(loss.id);
    dpfast_loss_describe(loss.id, &info);
    dpfast_loss_describe(loss.id, NULL);
    dpfast_loss_valid(&loss);
    dpfast_loss_lipschitz(&loss);
    dpfast_loss_smoothness(&loss);
    dpfast_loss_at_zero(&loss);
    dpfast_loss_lowest_target(&loss);
    dpfast_loss_highest_target(&loss);
}

static void check_points(dpfast_loss loss, ptrdiff_t n)
{
    double *z = any_doubles(n), *y = any_doubles(n), *value = any_doubles(n);
    dpfast_loss_points(&loss, n, z, y, PERHAPS(value), PERHAPS(any_doubles(n)),
                       PERHAPS(any_doubles(n)));
    dpfast_exp_points(n, z, value);
    dpfast_read_sum(n, z);
}

static void check_line_search(dpfast_loss loss, ptrdiff_t n, ptrdiff_t n_steps, double clip)
{
    const double *margin = any_doubles(n), *direction = any_doubles(n), *target = any_doubles(n);
    const double *steps = any_doubles(n_steps);
    double *out = any_doubles(n_steps);
    dpfast_line_search(n, margin, direction, target, NULL, &loss, clip, n_steps, steps, out);
    dpfast_line_search(n, margin, direction, target, any_doubles(n), &loss, clip, n_steps, steps,
                       out);
}

/* In three parts, since the losses decide by their bound how they are computed; the length of a
 * block follows from it, and is at least 40. */
#define ANY_CLIP(n, n_steps)                                                                       \
    check_line_search(any_parameter(), n, n_steps, any_between(-DBL_MAX, 0x1.fffffffffffffp-4));                    \
    check_line_search(any_parameter(), n, n_steps, any_between(0.125, 16.0));                                       \
    check_line_search(any_parameter(), n, n_steps, any_between(0x1.0000000000001p4, DBL_MAX));

int main(void)
{
    dpfast_loss loss;
    double number;
    Frama_C_make_unknown((char *)&loss, sizeof loss);
    check_any(any_parameter());
    loss.id = Frama_C_interval(MOST_LOSSES + 1, INT32_MAX);
    check_any(loss);
    loss.id = Frama_C_interval(INT32_MIN, -1);
    check_any(loss);
    dpfast_loss_points(&loss, 1, &number, &number, &number, NULL, NULL);
    dpfast_line_search(1, &number, &number, &number, NULL, &loss, 1.0, 1, &number, &number);
    loss = any_parameter();
    dpfast_loss_points(&loss, Frama_C_interval(1, INT32_MAX), NULL, NULL, NULL, NULL, NULL);
    dpfast_line_search(1, NULL, &number, &number, NULL, &loss, 1.0, 1, &number, &number);
    dpfast_line_search_addition_depth((ptrdiff_t)Frama_C_interval(0, INT32_MAX));
    check_points(any_parameter(), 0);
    check_points(any_parameter(), 1);
    check_points(any_parameter(), 37);
    ANY_CLIP(0, 0)
    ANY_CLIP(1, 1)
    ANY_CLIP(7, 6)
    ANY_CLIP(35, 3)
    /* More than a block of rows, whatever the loss: 512, or fewer where products are taken. */
    check_line_search(loss_of(DPFAST_LOSS_logistic), 521, 4, INFINITY);
    check_line_search(loss_of(DPFAST_LOSS_logistic), 521, 5, 0.125);
    check_line_search(loss_of(DPFAST_LOSS_logistic), 83, 5, 15.0);
    check_line_search(loss_of(DPFAST_LOSS_huber), 521, 2, INFINITY);
    dpfast_loss_count();
    dpfast_dispatch_init();
    dpfast_isa_current();
    dpfast_isa_supported((int)any_uint64());
    dpfast_isa_name((int)any_uint64());
    dpfast_isa_force((int)any_uint64());
    return 0;
}
