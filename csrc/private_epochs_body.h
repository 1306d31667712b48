/* The parts of private steps, for the instruction set of the including file: after the bodies of
 * the epochs, whose gathering of rows they use.  Deliberately no include guard. */

/* s[k] <- weight_i clamp(derivative at the margin s[k], less that at the snapshot's margin). */
static int private_coefficients(const row_data *data, ptrdiff_t m, const int64_t *index, double *s,
                                const double *snapshot_margin)
{
    int finite = 1;
    ptrdiff_t k;
    for (k = 0; k < m; k++) {
        const int64_t i = index[k];
        double value = data->derivative(data->target[i], s[k], data->loss);
        finite &= fabs(s[k]) < INFINITY;
        if (snapshot_margin != NULL) {
            finite &= fabs(snapshot_margin[k]) < INFINITY;
            value -= data->derivative(data->target[i], snapshot_margin[k], data->loss);
        }
        if (data->inverse_norm != NULL) {
            value = clamp(value, data->clip_norm * (double)data->inverse_norm[i]);
        }
        s[k] = data->weight != NULL ? value * data->weight[i] : value;
    }
    return finite;
}

DPFAST_INLINE int private_add(const void *rows, const row_data *data,
                              const dpfast_private_epoch *epoch, ptrdiff_t m, const int64_t *index,
                              ptrdiff_t block, gather_margins margins_of,
                              gather_accumulate accumulate)
{
    double s[BATCH_BLOCK], snapshot_margin[BATCH_BLOCK];
    const int differences = epoch->snapshot != NULL;
    int finite = 1;
    ptrdiff_t start;
    for (start = 0; start < m; start += block) {
        const ptrdiff_t count = m - start < block ? m - start : block;
        const int64_t *at = index + start;
        margins_of(rows, data, count, m - start, at, epoch->w, s);
        if (differences) {
            margins_of(rows, data, count, count, at, epoch->snapshot, snapshot_margin);
        }
        finite &= private_coefficients(data, count, at, s, differences ? snapshot_margin : NULL);
        accumulate(rows, data, count, at, s, epoch->work);
    }
    return finite;
}

#define STAMP_PRIVATE_DENSE(name, scalar)                                                          \
    static int private_dense_##name(const void *pointer, const dpfast_loss *loss,                  \
                                    const dpfast_private_epoch *epoch, ptrdiff_t m,                \
                                    const int64_t *index)                                          \
    {                                                                                              \
        const dpfast_dense *rows = pointer;                                                        \
        const row_data data = ROW_DATA(rows, loss, NULL, epoch->clip_norm);                        \
        /* The rows of a block are read twice: keep them in the cache. */                          \
        ptrdiff_t block = (ptrdiff_t)(65536 / sizeof(scalar)) / (rows->d + 1);                     \
        block = block < 4 ? 4 : (block > BATCH_BLOCK ? BATCH_BLOCK : block);                       \
        return private_add(rows, &data, epoch, m, index, block, dense_margins_##name,              \
                           dense_accumulate_##name);                                               \
    }

#define STAMP_PRIVATE_PREFETCH(name, scalar)                                                       \
    static void private_prefetch_##name(const dpfast_dense *rows, ptrdiff_t m,                     \
                                        const int64_t *index)                                      \
    {                                                                                              \
        const scalar *all = (const scalar *)rows->x;                                               \
        ptrdiff_t k;                                                                               \
        for (k = 0; k < m && k < ROWS_AHEAD; k++) {                                                \
            prefetch_row_##name(all + index[k] * rows->row_stride, rows->d);                       \
            DPFAST_PREFETCH(rows->target + index[k], 0);                                           \
            if (rows->inverse_norm != NULL) {                                                      \
                DPFAST_PREFETCH(rows->inverse_norm + index[k], 0);                                 \
            }                                                                                      \
        }                                                                                          \
    }

STAMP_PRIVATE_DENSE(float64, double)
STAMP_PRIVATE_DENSE(float32, float)
STAMP_PRIVATE_PREFETCH(float64, double)
STAMP_PRIVATE_PREFETCH(float32, float)

static int private_csr(const void *pointer, const dpfast_loss *loss,
                       const dpfast_private_epoch *epoch, ptrdiff_t m, const int64_t *index)
{
    const dpfast_csr *rows = pointer;
    const row_data data = ROW_DATA(rows, loss, NULL, epoch->clip_norm);
    const csr_problem problem = csr_problem_of(rows, &data);
    return private_add(&problem, &data, epoch, m, index, BATCH_BLOCK, csr_margins, csr_accumulate);
}

/* Adding and subtracting 1.5 2^52 rounds to the nearest integer up to 2^51; larger numbers come out
 * as multiples of a half or of a higher power of two (tests/prove/floats.smt2). */
static void private_perturb(ptrdiff_t n, double stddev, const double *DPFAST_RESTRICT z,
                            double grid, double *DPFAST_RESTRICT out)
{
    const double magic = 0x1.8p52, per_grid = 1.0 / grid;
    ptrdiff_t j;
    for (j = 0; j < n; j++) {
        const double value = (out[j] + stddev * z[j]) * per_grid;
        const double shifted = value + magic;
        out[j] = (shifted - magic) * grid;
    }
}

static double private_step(const dpfast_private_epoch *epoch, ptrdiff_t dim, double size)
{
    const double shrink = 1.0 - size * epoch->alpha;
    const double inverse = 1.0 / epoch->divisor;
    double *DPFAST_RESTRICT w = epoch->w;
    double *DPFAST_RESTRICT g = epoch->work;
    double square = 0.0;
    ptrdiff_t j;
    for (j = 0; j < dim; j++) {
        g[j] *= inverse;
    }
    if (epoch->snapshot_gradient != NULL) {
        add_scaled(dim, 1.0, epoch->snapshot_gradient, g);
    }
    if (epoch->velocity != NULL) {
        double *DPFAST_RESTRICT v = epoch->velocity;
        for (j = 0; j < dim; j++) {
            v[j] = epoch->momentum * v[j] + g[j];
            g[j] = v[j];
        }
    }
    for (j = 0; j < dim; j++) {
        w[j] = shrink * w[j] - size * g[j];
    }
    if (epoch->w_radius < INFINITY) {
        square = row_dot_float64(w, w, dim);
    }
    return square;
}
