/* The sums of objectives.h, stamped by objectives.c for each kind of rows.  It sets
 *   ROWS         dpfast_dense or dpfast_csr
 *   NAME(name)   the public name
 *   LOCAL(name)  the name of a helper
 * Deliberately no include guard. */

static ptrdiff_t LOCAL(dim)(const ROWS *rows)
{
    return rows->d + (rows->intercept != 0.0);
}

static int LOCAL(valid)(const ROWS *rows, const dpfast_loss *loss, const double *w,
                        const double *scratch, const double *out)
{
    return rows != NULL && rows->n >= 1 && rows->target != NULL && dpfast_loss_valid(loss) &&
           w != NULL && scratch != NULL && out != NULL;
}

/* sum = sum_i -minus_s_i x~_i: the gradient at w = 0 of squared losses with the targets minus_s.
 * `zeros` has dim zeros. */
static dpfast_status LOCAL(accumulate)(const ROWS *rows, const double *minus_s,
                                       const double *zeros, double *sum)
{
    const dpfast_loss squared = {DPFAST_LOSS_squared, 0.0, 0.0};
    ROWS part = *rows;
    double ignored;
    part.target = minus_s;
    part.weight = NULL;
    part.inverse_norm = NULL;
    part.consistent = 0;
    return NAME(gradient)(&part, &squared, zeros, INFINITY, INFINITY, sum, &ignored);
}

dpfast_status NAME(row_sum)(const ROWS *rows, const double *s, double *scratch, double *sum)
{
    double *zeros = scratch, *minus_s;
    ptrdiff_t i;
    if (rows == NULL || rows->n < 1 || s == NULL || scratch == NULL || sum == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    minus_s = zeros + LOCAL(dim)(rows);
    memset(zeros, 0, (size_t)LOCAL(dim)(rows) * sizeof *zeros);
    for (i = 0; i < rows->n; i++) {
        minus_s[i] = -s[i];
    }
    return LOCAL(accumulate)(rows, minus_s, zeros, sum);
}

dpfast_status NAME(tilted)(const ROWS *rows, const dpfast_loss *loss, double tilt, const double *w,
                           double *scratch, double *gradient, double *peak, double *excess)
{
    ptrdiff_t block, dim, start, i;
    double *zeros, *partial, *z, *value, *slope;
    double top = -INFINITY, sum = 0.0;

    if (!LOCAL(valid)(rows, loss, w, scratch, gradient) || peak == NULL || excess == NULL ||
        !(tilt > 0.0) || !isfinite(tilt)) {
        return DPFAST_ERR_ARGUMENT;
    }
    dim = LOCAL(dim)(rows);
    block = LOCAL(block)(rows);
    block = rows->n < block ? rows->n : block;
    zeros = scratch;
    partial = zeros + dim;
    z = partial + dim;
    value = z + block;
    slope = value + block;
    memset(zeros, 0, (size_t)dim * sizeof *zeros);
    memset(gradient, 0, (size_t)dim * sizeof *gradient);

    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        const ROWS part = LOCAL(part)(rows, start, m);
        double highest = -INFINITY;
        dpfast_status status = NAME(margins)(&part, w, z);
        if (status == DPFAST_OK) {
            status = dpfast_loss_points(loss, m, z, part.target, value, slope, NULL);
        }
        if (status != DPFAST_OK) {
            return status;
        }
        if (part.weight != NULL) {
            for (i = 0; i < m; i++) {
                value[i] *= part.weight[i];
                slope[i] *= part.weight[i];
            }
        }
        for (i = 0; i < m; i++) {
            if (!(value[i] < INFINITY)) {
                return DPFAST_ERR_NONFINITE;
            }
            highest = value[i] > highest ? value[i] : highest;
        }
        if (highest > top) {
            if (start > 0) {
                const double x = tilt * (top - highest), e = dpfast_exp_inline(x);
                for (i = 0; i < dim; i++) {
                    gradient[i] *= e;
                }
                sum = e * sum + (double)start * exp_less_one(x, e);
            }
            top = highest;
        }
        for (i = 0; i < m; i++) {
            const double x = tilt * (value[i] - top), e = dpfast_exp_inline(x);
            value[i] = exp_less_one(x, e);
            slope[i] *= -e;
        }
        for (i = 0; i < m; i++) {
            sum += value[i];
        }
        status = LOCAL(accumulate)(&part, slope, zeros, partial);
        if (status != DPFAST_OK) {
            return status;
        }
        for (i = 0; i < dim; i++) {
            gradient[i] += partial[i];
        }
    }
    *peak = top;
    *excess = sum;
    return DPFAST_OK;
}

dpfast_status NAME(shifted)(const ROWS *rows, const dpfast_loss *loss, double shift,
                            double rounding, const double *w, double *scratch, double *gradient,
                            double *loss_sum, double *pull)
{
    ptrdiff_t block, dim, start, i;
    double *zeros, *partial, *z, *value, *slope;
    int classification;

    if (!LOCAL(valid)(rows, loss, w, scratch, gradient) || loss_sum == NULL || pull == NULL ||
        !(shift >= 0.0) || !isfinite(shift) || !(rounding >= 0.0) || !isfinite(rounding)) {
        return DPFAST_ERR_ARGUMENT;
    }
    classification = is_classification(loss);
    dim = LOCAL(dim)(rows);
    block = LOCAL(block)(rows);
    block = rows->n < block ? rows->n : block;
    zeros = scratch;
    partial = zeros + dim;
    z = partial + dim;
    value = z + block;
    slope = value + block;
    memset(zeros, 0, (size_t)dim * sizeof *zeros);
    memset(gradient, 0, (size_t)dim * sizeof *gradient);
    *loss_sum = *pull = 0.0;

    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        const ROWS part = LOCAL(part)(rows, start, m);
        dpfast_status status = NAME(margins)(&part, w, z);
        if (status == DPFAST_OK) {
            status = shifted_points(loss, classification, m, part.target, shift, rounding, z,
                                    value, slope, loss_sum, pull, part.weight);
        }
        if (status != DPFAST_OK) {
            return status;
        }
        for (i = 0; i < m; i++) {
            slope[i] = -slope[i];
        }
        status = LOCAL(accumulate)(&part, slope, zeros, partial);
        if (status != DPFAST_OK) {
            return status;
        }
        for (i = 0; i < dim; i++) {
            gradient[i] += partial[i];
        }
    }
    return isfinite(*loss_sum) && isfinite(*pull) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status NAME(multinomial)(const ROWS *rows, ptrdiff_t n_classes, const double *w,
                                double clip_norm, double *scratch, double *gradient)
{
    ptrdiff_t block, start;

    if (rows == NULL || rows->n < 1 || rows->target == NULL || n_classes < 2 || w == NULL ||
        scratch == NULL || gradient == NULL || !(clip_norm > 0.0)) {
        return DPFAST_ERR_ARGUMENT;
    }
    block = LOCAL(block)(rows);
    block = rows->n < block ? rows->n : block;
    memset(gradient, 0, (size_t)(n_classes * LOCAL(dim)(rows)) * sizeof *gradient);

    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        const ROWS part = LOCAL(part)(rows, start, m);
        dpfast_status status = NAME(class_margins)(&part, n_classes, w, scratch);
        if (status == DPFAST_OK) {
            status = softmax_slopes(m, n_classes, part.target, part.weight,
                                    rows->inverse_norm != NULL ? rows->inverse_norm + start : NULL,
                                    rows->consistent, clip_norm, scratch);
        }
        if (status == DPFAST_OK) {
            status = NAME(add_class_rows)(&part, n_classes, scratch, gradient);
        }
        if (status != DPFAST_OK) {
            return status;
        }
    }
    return all_finite(n_classes * LOCAL(dim)(rows), gradient) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}
