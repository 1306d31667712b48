/* The gradient of groups.h, stamped by groups.c for each kind of rows.  It sets
 *   ROWS         dpfast_dense or dpfast_csr
 *   NAME(name)   the public name
 *   LOCAL(name)  the name of a helper
 * Deliberately no include guard. */

typedef struct LOCAL(task) {
    const ROWS *rows;
    const dpfast_groups *groups;
    const dpfast_group_clip *clip;
    const dpfast_loss *loss;
    ptrdiff_t n_classes, dim;
    const double *w;
    double *slopes, *losses, *partial, *alone, *scratch; /* parts of the caller's scratch */
    double *gradient;
    double share;
    ptrdiff_t held; /* rows in `partial` */
} LOCAL(task);

/* Slopes of the m rows from `first` on: slopes[k m + i] of row i for class k.  They are cut and
 * weighted, unless labels are to have no part in that: then group by group. */
static dpfast_status LOCAL(slopes)(LOCAL(task) *task, const ROWS *part, ptrdiff_t first)
{
    const float *inverse_norm = task->rows->inverse_norm + first;
    const ptrdiff_t m = part->n;
    double *s = task->slopes;
    ptrdiff_t i, k;
    for (k = 0; k < task->n_classes; k++) {
        LOCAL(margins)(part, task->w + k * task->dim, s + k * m);
    }
    if (!all_finite(m * task->n_classes, s)) {
        return DPFAST_ERR_NONFINITE;
    }
    if (task->n_classes == 1) {
        vectors()->losses(m, s, part->target, NULL, task->loss, INFINITY, task->losses);
        if (task->clip->consistent) {
            memcpy(s, task->losses, (size_t)m * sizeof *s);
            return DPFAST_OK;
        }
        for (i = 0; i < m; i++) {
            const double limit = task->clip->row_norm * (double)inverse_norm[i];
            double v = task->losses[i]; /* NaN fails both comparisons and stays NaN */
            v = v > limit ? limit : v;
            v = v < -limit ? -limit : v;
            s[i] = part->weight != NULL ? v * part->weight[i] : v;
        }
        return DPFAST_OK;
    }
    if (task->clip->consistent) {
        return softmax_slopes(m, task->n_classes, part->target, NULL, NULL, 0, INFINITY, s);
    }
    return softmax_slopes(m, task->n_classes, part->target, part->weight, inverse_norm, 0,
                          task->clip->row_norm, s);
}

/* The slopes s of a group of `own` rows, the first of which is row `at` of the part. */
static void LOCAL(weigh)(const LOCAL(task) *task, const ROWS *part, ptrdiff_t first, ptrdiff_t at,
                         ptrdiff_t own, double *s)
{
    if (task->clip->consistent) {
        weigh_labels_alike(task->clip, own, task->n_classes, part->n,
                           part->weight != NULL ? part->weight + at : NULL,
                           task->rows->inverse_norm + first + at, s);
    }
}

/* Scales the slopes of groups [g, next), the rows of a block, from `first` on. */
static void LOCAL(scale)(LOCAL(task) *task, const ROWS *part, ptrdiff_t first, ptrdiff_t g,
                         ptrdiff_t next)
{
    const ptrdiff_t m = part->n;
    const dpfast_groups *groups = task->groups;
    const double alone = task->clip->gauge < 1.0 ? task->clip->gauge : 1.0;
    double *s = task->slopes;
    ptrdiff_t i, k;
    for (; g < next; g++) {
        const ptrdiff_t own = rows_of(groups, g);
        LOCAL(weigh)(task, part, first, s - task->slopes, own, s);
        if (own > 1) {
            const group_sizes sizes =
                sizes_by_products(own, groups->gram + groups->gram_start[g], task->n_classes, m, s,
                                  task->scratch);
            const double factor = factor_of(task->clip, own, &sizes, &task->share);
            for (k = 0; k < task->n_classes && factor != 1.0; k++) {
                for (i = 0; i < own; i++) {
                    s[k * m + i] *= factor;
                }
            }
        } else if (own == 1) {
            /* Clipped as a row, but a short one's slopes are bounded, too. */
            const double factor = factor_of_mass(task->clip, task->n_classes, m, s);
            for (k = 0; k < task->n_classes && factor != 1.0; k++) {
                s[k * m] *= factor;
            }
            task->share += alone;
        }
        s += own;
    }
}

static void LOCAL(flush)(LOCAL(task) *task)
{
    const ptrdiff_t size = task->n_classes * task->dim;
    ptrdiff_t i;
    for (i = 0; i < size; i++) {
        task->gradient[i] += task->partial[i];
    }
    memset(task->partial, 0, (size_t)size * sizeof *task->partial);
    task->held = 0;
}

/* Groups [g, next) whose slopes are scaled before the rows are added up. */
static dpfast_status LOCAL(add_block)(LOCAL(task) *task, ptrdiff_t g, ptrdiff_t next)
{
    const int64_t *start = task->groups->start;
    const ptrdiff_t first = (ptrdiff_t)(start[g] - start[0]);
    const ptrdiff_t m = (ptrdiff_t)(start[next] - start[g]);
    const ROWS part = LOCAL(part)(task->rows, first, m);
    const dpfast_status status = LOCAL(slopes)(task, &part, first);
    ptrdiff_t k;
    if (status != DPFAST_OK) {
        return status;
    }
    LOCAL(scale)(task, &part, first, g, next);
    for (k = 0; k < task->n_classes; k++) {
        LOCAL(add_rows)(&part, task->slopes + k * m, task->partial + k * task->dim);
    }
    return DPFAST_OK;
}

/* A long group: its gradient is added up first. */
static dpfast_status LOCAL(add_long)(LOCAL(task) *task, ptrdiff_t g)
{
    const int64_t *start = task->groups->start;
    const ptrdiff_t first = (ptrdiff_t)(start[g] - start[0]), m = rows_of(task->groups, g);
    const ptrdiff_t dim = task->dim, size = task->n_classes * dim;
    const ROWS part = LOCAL(part)(task->rows, first, m);
    const dpfast_status status = LOCAL(slopes)(task, &part, first);
    double factor;
    group_sizes sizes;
    ptrdiff_t i, k;
    if (status != DPFAST_OK) {
        return status;
    }
    LOCAL(weigh)(task, &part, first, 0, m, task->slopes);
    sizes = sizes_by_lengths(m, task->n_classes, m, task->slopes, task->rows->inverse_norm + first);
    memset(task->alone, 0, (size_t)size * sizeof *task->alone);
    for (k = 0; k < task->n_classes; k++) {
        double *sum = task->alone + k * dim;
        LOCAL(add_rows)(&part, task->slopes + k * m, sum);
        if (task->groups->transform != NULL) {
            sizes.square +=
                vectors()->square_through(dim, task->groups->transform, sum, task->scratch);
        } else {
            for (i = 0; i < dim; i++) {
                sizes.square += sum[i] * sum[i];
            }
        }
    }
    factor = factor_of(task->clip, m, &sizes, &task->share);
    for (i = 0; i < size; i++) {
        task->partial[i] += factor * task->alone[i];
    }
    return DPFAST_OK;
}

dpfast_status NAME(group_gradient)(const ROWS *rows, const dpfast_groups *groups,
                                   const dpfast_group_clip *clip, const dpfast_loss *loss,
                                   ptrdiff_t n_classes, const double *w, double *scratch,
                                   double *gradient, double *share)
{
    LOCAL(task) task;
    ptrdiff_t block, most, g, next;
    dpfast_status status = DPFAST_OK;

    if (rows == NULL || !valid_groups(groups, rows->n) || clip == NULL || n_classes < 1 ||
        (n_classes == 1 && !dpfast_loss_valid(loss)) || w == NULL || scratch == NULL ||
        gradient == NULL || share == NULL ||
        (rows->n > 0 && (rows->target == NULL || rows->inverse_norm == NULL)) || rows->consistent ||
        !(clip->norm > 0.0) || !(clip->row_norm > 0.0) || !(clip->mass > 0.0) ||
        !(clip->gauge > 0.0) || !(clip->relative >= 0.0) || !(clip->absolute >= 0.0) ||
        !(clip->correlation >= 0.0 && clip->correlation <= 1.0) ||
        (clip->consistent && n_classes == 1 && loss->id != DPFAST_LOSS_logistic)) {
        return DPFAST_ERR_ARGUMENT;
    }
    most = most_rows(groups->longest);
    task.rows = rows;
    task.groups = groups;
    task.clip = clip;
    task.loss = loss;
    task.n_classes = n_classes;
    task.dim = rows->d + (rows->intercept != 0.0);
    task.w = w;
    task.slopes = scratch;
    task.losses = task.slopes + n_classes * most;
    task.partial = task.losses + most;
    task.alone = task.partial + n_classes * task.dim;
    task.scratch = task.alone + n_classes * task.dim;
    task.gradient = gradient;
    task.share = 0.0;
    task.held = 0;
    memset(gradient, 0, (size_t)(n_classes * task.dim) * sizeof *gradient);
    memset(task.partial, 0, (size_t)(n_classes * task.dim) * sizeof *task.partial);
    if (!all_finite(n_classes * task.dim, w)) {
        return DPFAST_ERR_NONFINITE;
    }

    block = LOCAL(block)(rows);
    for (g = 0; g < groups->n && status == DPFAST_OK; g = next) {
        ptrdiff_t held = 0;
        for (next = g; next < groups->n; next++) {
            const ptrdiff_t own = rows_of(groups, next);
            if (!valid_group(groups, next)) {
                return DPFAST_ERR_ARGUMENT;
            }
            if (next > g && (held + own > block || is_long(groups, next))) {
                break;
            }
            held += own;
            if (is_long(groups, next)) {
                next++;
                break;
            }
        }
        status = is_long(groups, g) ? LOCAL(add_long)(&task, g) : LOCAL(add_block)(&task, g, next);
        task.held += held;
        if (task.held >= BLOCK_ROWS) {
            LOCAL(flush)(&task);
        }
    }
    LOCAL(flush)(&task);
    *share = task.share;
    if (status == DPFAST_OK &&
        !(isfinite(*share) && all_finite(n_classes * task.dim, gradient))) {
        status = DPFAST_ERR_NONFINITE;
    }
    return status;
}
