/* Gradients of groups of rows of any content: groups without rows, of one, of a few, of so many that
 * their products are summed by vectors, and one that is too long for products. */
#include "any.h"

enum { N_GROUPS = 6, N_ROWS = 26, LONGEST = 17 };

static const int64_t starts[N_GROUPS + 1] = {40, 40, 41, 44, 61, 64, 66};
static const int64_t gram_starts[N_GROUPS + 1] = {7, 7, 7, 13, 166, 166, 169};
enum { PRODUCTS = 169 };

static dpfast_groups any_groups(ptrdiff_t dim, int transformed)
{
    dpfast_groups groups;
    groups.n = N_GROUPS;
    groups.start = starts;
    groups.longest = LONGEST;
    groups.gram_start = gram_starts;
    groups.gram = any_doubles(PRODUCTS);
    groups.transform = transformed ? any_doubles(dim * dim) : NULL;
    return groups;
}

static dpfast_group_clip any_clip(void)
{
    dpfast_group_clip clip;
    Frama_C_make_unknown((char *)&clip, sizeof clip);
    return clip;
}

static void check_dense(ptrdiff_t d, dpfast_scalar scalar, int sign, ptrdiff_t n_classes)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    const dpfast_dense rows = any_dense(N_ROWS, d, 3, scalar, sign);
    const dpfast_groups groups = any_groups(dim, sign != 0);
    const dpfast_group_clip clip = any_clip();
    const dpfast_loss loss = some_loss();
    double share, *gradient = any_doubles(n_classes * dim);
    double *scratch = any_doubles(dpfast_group_scratch(LONGEST, dim, n_classes));
    dpfast_group_products(&groups, any_doubles(N_ROWS * dim), dim, any_doubles(PRODUCTS));
    dpfast_dense_group_gradient(&rows, &groups, &clip, &loss, n_classes,
                                any_doubles(n_classes * dim), scratch, gradient, &share);
}

static void check_csr(ptrdiff_t d, int value_type, int sign, ptrdiff_t n_classes)
{
    const ptrdiff_t dim = dimension_of(d, sign);
    dpfast_csr rows =
        any_csr(N_ROWS, d, 1, 3, DPFAST_INT64, DPFAST_INT32, value_type, sign);
    const dpfast_groups groups = any_groups(dim, sign != 0);
    const dpfast_group_clip clip = any_clip();
    const dpfast_loss loss = some_loss();
    double share, *gradient = any_doubles(n_classes * dim);
    double *scratch = any_doubles(dpfast_group_scratch(LONGEST, dim, n_classes));
    rows.inverse_norm = any_floats(N_ROWS);
    dpfast_csr_group_gradient(&rows, &groups, &clip, &loss, n_classes,
                              any_doubles(n_classes * dim), scratch, gradient, &share);
}

void dense(void)
{
    dpfast_group_addition_depth(any_int(0, 1 << 30), any_int(0, 1 << 30));
    check_dense(3, DPFAST_FLOAT64, 1, 1);
    check_dense(2, DPFAST_FLOAT32, 0, 3);
}

void csr(void)
{
    check_csr(3, DPFAST_FLOAT64, 1, 1);
    check_csr(2, ONES, 0, 3);
}
