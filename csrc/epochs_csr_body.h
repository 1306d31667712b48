/* Epochs on sparse rows, compiled once per instruction set by epochs_stamp.h after the float64
 * stamp of epochs_dense_body.h.  Deliberately no include guard.
 *
 * Lazy updates cost a step no more than its rows' stored entries: whatever a step does to all
 * columns alike (ridge, projection, the snapshot's gradient, averaging) is kept in scalars that
 * multiply a few vectors, and the vectors are brought up to date ("folded") rarely.  With noise,
 * which differs from column to column, and where rows are not sparse, every column is updated. */

/* Vectors that one pass over a row works on, at most. */
#define MAX_VECTORS 3

/* Where the entries of row i begin. */
DPFAST_INLINE ptrdiff_t offset_at(const dpfast_csr *rows, int64_t i)
{
    return (ptrdiff_t)dpfast_index_at(rows->indptr, (int)rows->indptr_type, (ptrdiff_t)i);
}

/* ---- The two inner loops over the entries of a row, for all nine pairs of types ---------------- */

/* dot[c] = <x_i, v[c]> over the stored entries, for `count` vectors. */
DPFAST_INLINE void dots_of(int index_type, int value_type, int count, const dpfast_csr *rows,
                           int64_t i, const double *const *v, double *dot)
{
    const ptrdiff_t end = offset_at(rows, i + 1);
    double even[MAX_VECTORS] = {0.0, 0.0, 0.0}, odd[MAX_VECTORS] = {0.0, 0.0, 0.0};
    ptrdiff_t k = offset_at(rows, i);
    int c;
    for (; k + 2 <= end; k += 2) {
        const int64_t j = dpfast_index_at(rows->indices, index_type, k);
        const int64_t j1 = dpfast_index_at(rows->indices, index_type, k + 1);
        for (c = 0; c < count; c++) {
            even[c] += value_at(rows->values, value_type, k) * v[c][j];
            odd[c] += value_at(rows->values, value_type, k + 1) * v[c][j1];
        }
    }
    if (k < end) {
        for (c = 0; c < count; c++) {
            even[c] += value_at(rows->values, value_type, k) *
                       v[c][dpfast_index_at(rows->indices, index_type, k)];
        }
    }
    for (c = 0; c < count; c++) {
        dot[c] = even[c] + odd[c];
    }
}

/* v[c] += factor[c] x_i for `count` vectors; dot[c] = <x_i, old v[c]>; returns ||x_i||^2. */
DPFAST_INLINE double adds_of(int index_type, int value_type, int count, const dpfast_csr *rows,
                             int64_t i, const double *factor, double *const *v, double *dot)
{
    const ptrdiff_t end = offset_at(rows, i + 1);
    double sum[MAX_VECTORS] = {0.0, 0.0, 0.0}, square = 0.0;
    ptrdiff_t k;
    int c;
    for (k = offset_at(rows, i); k < end; k++) {
        const int64_t j = dpfast_index_at(rows->indices, index_type, k);
        const double x = value_at(rows->values, value_type, k);
        for (c = 0; c < count; c++) {
            const double old = v[c][j];
            v[c][j] = old + factor[c] * x;
            sum[c] += x * old;
        }
        square += x * x;
    }
    for (c = 0; c < count; c++) {
        dot[c] = sum[c];
    }
    return square;
}

typedef struct csr_loops {
    void (*dots)(int count, const dpfast_csr *rows, int64_t i, const double *const *v, double *dot);
    double (*adds)(int count, const dpfast_csr *rows, int64_t i, const double *factor,
                   double *const *v, double *dot);
    ptrdiff_t index_bytes, value_bytes;
} csr_loops;

#define STAMP_LOOPS(name, index_type, value_type, index_bytes, value_bytes)                        \
    static void dots_##name(int count, const dpfast_csr *rows, int64_t i, const double *const *v,  \
                            double *dot)                                                           \
    {                                                                                              \
        if (count == 1) {                                                                          \
            *dot = dot_row(index_type, value_type, offset_at(rows, i), offset_at(rows, i + 1),     \
                           rows->indices, rows->values, *v);                                       \
        } else if (count == 2) {                                                                   \
            dots_of(index_type, value_type, 2, rows, i, v, dot);                                   \
        } else {                                                                                   \
            dots_of(index_type, value_type, 3, rows, i, v, dot);                                   \
        }                                                                                          \
    }                                                                                              \
    static double adds_##name(int count, const dpfast_csr *rows, int64_t i, const double *factor,  \
                              double *const *v, double *dot)                                       \
    {                                                                                              \
        return count == 1   ? adds_of(index_type, value_type, 1, rows, i, factor, v, dot)          \
               : count == 2 ? adds_of(index_type, value_type, 2, rows, i, factor, v, dot)          \
                            : adds_of(index_type, value_type, 3, rows, i, factor, v, dot);         \
    }
#define LIST_LOOPS(name, index_type, value_type, index_bytes, value_bytes)                         \
    {dots_##name, adds_##name, index_bytes, value_bytes},

/* In the order of dpfast_index, and within it of dpfast_scalar with IMPLICIT_ONES. */
#define CSR_TYPES(X)                                                                               \
    X(int32_float64, DPFAST_INT32, DPFAST_FLOAT64, 4, 8)                                           \
    X(int32_float32, DPFAST_INT32, DPFAST_FLOAT32, 4, 4)                                           \
    X(int32_ones, DPFAST_INT32, IMPLICIT_ONES, 4, 0)                                               \
    X(int64_float64, DPFAST_INT64, DPFAST_FLOAT64, 8, 8)                                           \
    X(int64_float32, DPFAST_INT64, DPFAST_FLOAT32, 8, 4)                                           \
    X(int64_ones, DPFAST_INT64, IMPLICIT_ONES, 8, 0)                                               \
    X(uint16_float64, DPFAST_UINT16, DPFAST_FLOAT64, 2, 8)                                         \
    X(uint16_float32, DPFAST_UINT16, DPFAST_FLOAT32, 2, 4)                                         \
    X(uint16_ones, DPFAST_UINT16, IMPLICIT_ONES, 2, 0)
CSR_TYPES(STAMP_LOOPS)
static const csr_loops all_csr_loops[] = {CSR_TYPES(LIST_LOOPS)};

/* ---- Rows x~_i -------------------------------------------------------------------------------- */

typedef struct csr_problem {
    const dpfast_csr *rows;
    const row_data *data;
    const csr_loops *loops;
    ptrdiff_t dim;
} csr_problem;

static csr_problem csr_problem_of(const dpfast_csr *rows, const row_data *data)
{
    const int value_type = rows->values == NULL ? IMPLICIT_ONES : (int)rows->scalar;
    csr_problem problem;
    problem.rows = rows;
    problem.data = data;
    problem.loops = &all_csr_loops[3 * (int)rows->index_type + value_type];
    problem.dim = rows->d + (rows->intercept != 0.0);
    return problem;
}

/* dot[c] = <x~_i, v[c]> */
DPFAST_INLINE void row_dots(const csr_problem *p, int64_t i, int count, const double *const *v,
                            double *dot)
{
    const double scale = scale_of_row(p->data, i), intercept = p->data->intercept;
    int c;
    p->loops->dots(count, p->rows, i, v, dot);
    for (c = 0; c < count; c++) {
        dot[c] *= scale;
        if (intercept != 0.0) {
            dot[c] += intercept * v[c][p->rows->d];
        }
    }
}

/* v[c] += factor[c] x~_i; *square[c] (NULL: not wanted) is kept at ||v[c]||^2. */
DPFAST_INLINE void row_adds(const csr_problem *p, int64_t i, int count, const double *factor,
                            double *const *v, double *const *square)
{
    const double scale = scale_of_row(p->data, i), intercept = p->data->intercept;
    double scaled[MAX_VECTORS], dot[MAX_VECTORS], row_square;
    int c;
    for (c = 0; c < count; c++) {
        scaled[c] = factor[c] * scale;
    }
    row_square = p->loops->adds(count, p->rows, i, scaled, v, dot);
    for (c = 0; c < count; c++) {
        double change = scaled[c] * (2.0 * dot[c] + scaled[c] * row_square);
        if (intercept != 0.0) {
            const double old = v[c][p->rows->d], more = factor[c] * intercept;
            v[c][p->rows->d] = old + more;
            change += more * (2.0 * old + more);
        }
        if (square[c] != NULL) {
            *square[c] += change;
        }
    }
}

/* At most so many entries of a row are prefetched by hand. */
#define PREFETCH_ENTRIES 64

/* The row of the step ROWS_AHEAD from now, and where the entries of one further away begin; `left`
 * indices may be looked at. */
static void prefetch_sparse(const csr_problem *p, const int64_t *index, ptrdiff_t left)
{
    const dpfast_csr *rows = p->rows;
    if (left > ROWS_AHEAD) {
        const ptrdiff_t begin = offset_at(rows, index[ROWS_AHEAD]);
        const ptrdiff_t end = offset_at(rows, index[ROWS_AHEAD] + 1);
        const ptrdiff_t entries = end - begin < PREFETCH_ENTRIES ? end - begin : PREFETCH_ENTRIES;
        const ptrdiff_t index_bytes = p->loops->index_bytes, value_bytes = p->loops->value_bytes;
        ptrdiff_t k;
        for (k = 0; k < entries * index_bytes; k += CACHE_LINE) {
            DPFAST_PREFETCH(rows->indices, begin * index_bytes + k);
        }
        DPFAST_PREFETCH(rows->indices, (begin + entries) * index_bytes - 1);
        for (k = 0; k < entries * value_bytes; k += CACHE_LINE) {
            DPFAST_PREFETCH(rows->values, begin * value_bytes + k);
        }
        DPFAST_PREFETCH(rows->values, (begin + entries) * value_bytes - 1);
        prefetch_row_data(p->data, index[ROWS_AHEAD]);
    }
    if (left > 2 * ROWS_AHEAD) {
        const ptrdiff_t bytes = rows->indptr_type == DPFAST_INT32 ? 4 : 8;
        DPFAST_PREFETCH(rows->indptr, index[2 * ROWS_AHEAD] * bytes);
    }
}

/* ---- Several rows at once --------------------------------------------------------------------- */

static void csr_margins(const void *problem, const row_data *data, ptrdiff_t m, ptrdiff_t left,
                        const int64_t *index, const double *w, double *margin)
{
    const csr_problem *p = problem;
    ptrdiff_t k;
    (void)data;
    for (k = 0; k < m; k++) {
        prefetch_sparse(p, index + k, left - k);
        row_dots(p, index[k], 1, &w, margin + k);
    }
}

static void csr_accumulate(const void *problem, const row_data *data, ptrdiff_t m,
                           const int64_t *index, double *s, double *out)
{
    double *const no_square = NULL;
    ptrdiff_t k;
    (void)data;
    for (k = 0; k < m; k++) {
        row_adds(problem, index[k], 1, s + k, &out, &no_square);
    }
}

/* ---- SGD, lazily: a step costs what its row's entries cost ------------------------------------- */

/* w = c v + k g and average = u + a v + b g, with v, u in the caller's arrays and g the snapshot's
 * gradient (k = b = 0 without one). */
typedef struct lazy_sgd {
    double c, k, a, b;
    double vv, vg, gg; /* inner products, for the projection */
} lazy_sgd;

/* Beyond this range of c, v is folded: rounding errors of the average grow with the spread of c. */
#define FOLD_RANGE 64.0

static void lazy_sgd_fold(lazy_sgd *s, const dpfast_sgd *epoch, ptrdiff_t dim)
{
    const double *g = epoch->snapshot_gradient;
    if (epoch->average != NULL) {
        add_scaled(dim, s->a, epoch->w, epoch->average);
        if (g != NULL) {
            add_scaled(dim, s->b, g, epoch->average);
        }
    }
    scale_vector(dim, s->c, epoch->w);
    if (g != NULL) {
        add_scaled(dim, s->k, g, epoch->w);
    }
    s->c = 1.0;
    s->k = s->a = s->b = s->vv = s->vg = s->gg = 0.0;
    if (epoch->w_radius < INFINITY) {
        s->vv = row_dot_float64(epoch->w, epoch->w, dim);
        if (g != NULL) {
            s->vg = row_dot_float64(epoch->w, g, dim);
            s->gg = row_dot_float64(g, g, dim);
        }
    }
}

static int csr_sgd_lazy(const csr_problem *p, const dpfast_sgd *epoch)
{
    const int with_g = epoch->snapshot_gradient != NULL;
    const int projected = epoch->w_radius < INFINITY;
    const double *const read[2] = {epoch->w, epoch->snapshot_gradient};
    double *const written[2] = {epoch->w, epoch->average};
    lazy_sgd s = {1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    double *const squares[2] = {&s.vv, NULL};
    ptrdiff_t steps_since_fold = 0, t;
    int finite = 1;

    lazy_sgd_fold(&s, epoch, p->dim);
    for (t = 0; t < epoch->n_steps; t++) {
        const double step = epoch->step[t * epoch->step_stride];
        const double shrink = 1.0 - step * epoch->alpha;
        const int64_t i = epoch->indices[t];
        double dot[2] = {0.0, 0.0}, change[2], margin, factor, weight;
        prefetch_sparse(p, epoch->indices + t, epoch->n_steps - t);
        row_dots(p, i, 1 + with_g, read, dot);
        margin = s.c * dot[0] + s.k * dot[1];
        finite &= fabs(margin) < INFINITY;
        factor = -step * coefficient(p->data, i, margin);
        s.c *= shrink;
        s.k = with_g ? s.k * shrink - step : 0.0;
        /* The squared norm is kept up by differences; it is computed anew so rarely that it costs
         * nothing, and so often that errors do not add up. */
        steps_since_fold++;
        if (!(fabs(s.c) > 1.0 / FOLD_RANGE && fabs(s.c) < FOLD_RANGE) ||
            (projected && steps_since_fold > p->dim)) {
            lazy_sgd_fold(&s, epoch, p->dim);
            steps_since_fold = 0;
        }
        /* what v gains, the average's u makes up for */
        change[0] = factor / s.c;
        change[1] = -s.a * change[0];
        row_adds(p, i, epoch->average != NULL ? 2 : 1, change, written, squares);
        s.vg += change[0] * dot[1];
        if (projected) {
            const double square = s.c * s.c * s.vv + 2.0 * s.c * s.k * s.vg + s.k * s.k * s.gg;
            const double phi = ball_factor(square, epoch->w_radius, &finite);
            s.c *= phi;
            s.k *= phi;
        }
        weight = average_weight(epoch, t);
        s.a += weight * s.c;
        s.b += weight * s.k;
    }
    lazy_sgd_fold(&s, epoch, p->dim);
    return finite;
}

static int csr_sgd(const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_sgd *epoch)
{
    const row_data data = ROW_DATA(rows, loss, epoch->snapshot_derivative, INFINITY);
    const csr_problem problem = csr_problem_of(rows, &data);
    return csr_sgd_lazy(&problem, epoch);
}

/* ---- Katyusha, every column updated ----------------------------------------------------------- */

static int csr_katyusha_full(const csr_problem *p, const dpfast_katyusha *epoch)
{
    const double *const read[2] = {epoch->z, epoch->y};
    double *const written[2] = {epoch->z, epoch->y};
    katyusha_state s = katyusha_begin(epoch, p->dim);
    ptrdiff_t t;
    for (t = 0; t < epoch->n_steps; t++) {
        const int64_t i = epoch->indices[t];
        katyusha_sums_float64 sums;
        double *const squares[2] = {&sums.square_z, &sums.square_y};
        double dot[2], change[2], margin, b;
        prefetch_sparse(p, epoch->indices + t, epoch->n_steps - t);
        row_dots(p, i, 2, read, dot);
        margin = s.tau1 * s.phi_z * dot[0] + TAU2 * epoch->snapshot_margin[i] +
                 s.tau3 * s.phi_y * dot[1];
        s.finite &= fabs(margin) < INFINITY;
        b = coefficient(p->data, i, margin);
        /* all columns without the row's own gradient (0 times any vector), then that */
        sums = katyusha_sweep_float64(p->dim, &s, epoch, 0.0, epoch->snapshot, epoch->snapshot);
        change[0] = -s.grad_z * b;
        change[1] = -s.grad_y * b;
        row_adds(p, i, 2, change, written, squares);
        katyusha_next(&s, sums.square_z, sums.square_y);
    }
    return katyusha_end(&s, epoch, p->dim);
}

/* ---- Katyusha, lazily ------------------------------------------------------------------------- */

/* Without projection a step is linear but for the row's own gradient b x.  With g, s the snapshot's
 * gradient and the snapshot, p = 1 / (1 + gamma alpha), K = 3 beta / (3 beta + alpha), q = K tau3:
 *
 *   z' = p z - gamma p (g + b x),    y' = q y + K tau1 z + K tau2 s - (g + b x) / (3 beta + alpha).
 *
 * In y = kappa z + f + e with kappa = K tau1 / (p - q) and f = (K tau2 s - H g) / (1 - q),
 * H = 1 / (3 beta + alpha) - kappa gamma p, the two decouple: e' = q e - H b x.  The sum
 * N = sum_j p^(t - j) y_j behind the average (its S times the average) is p N + y'; its part in
 * e decouples as W = N_e + rho e, rho = q / (p - q): W' = p W - (1 + rho) H b x.  So
 *
 *   z = c v + k g,   e = r h,   N + rho e = o u + a v + b g + l s
 *
 * with scalars c, k, r, o, a, b, l and vectors v, h, u that only change where x has entries (kept
 * in the caller's z, y and average).  c and o shrink by p a step, r by q <= 1/2: h is folded when r
 * would leave the range of doubles, which is exact, since older terms only lose weight. */
typedef struct lazy_katyusha {
    double p, q, kappa, f_s, f_g, rho, impulse; /* constants; impulse = H */
    double decay;                               /* of r */
    double c, k, r, o, a, b, l;
} lazy_katyusha;

static int katyusha_decouples(const katyusha_state *s)
{
    const double q = s->keep_y * s->tau3;
    /* q = 0: e stays 0 from the first step on.  Tiny q would fold all the time. */
    return s->radius == INFINITY && s->shrink_z - q > 0.05 && (q == 0.0 || q > 1e-9);
}

static lazy_katyusha lazy_katyusha_begin(const katyusha_state *s, const dpfast_katyusha *epoch,
                                         ptrdiff_t dim)
{
    lazy_katyusha l;
    ptrdiff_t j;
    l.p = s->shrink_z;
    l.q = s->keep_y * s->tau3;
    l.decay = l.q == 0.0 ? 1.0 : l.q; /* e = 0 need not decay */
    l.kappa = s->keep_y * s->tau1 / (l.p - l.q);
    l.impulse = l.q == 0.0 ? 0.0 : s->grad_y - l.kappa * s->grad_z;
    l.f_s = s->keep_y * TAU2 / (1.0 - l.q);
    l.f_g = -l.impulse / (1.0 - l.q);
    l.rho = l.q / (l.p - l.q);
    l.c = l.r = l.o = 1.0;
    l.k = l.a = l.b = l.l = 0.0;
    for (j = 0; j < dim; j++) {
        const double f = l.f_s * epoch->snapshot[j] + l.f_g * epoch->snapshot_gradient[j];
        const double e = l.q == 0.0 ? 0.0 : epoch->y[j] - (l.kappa * epoch->z[j] + f);
        epoch->y[j] = e;
        epoch->average[j] = s->average_scale * epoch->average[j] + l.rho * e;
    }
    return l;
}

static void lazy_katyusha_fold_fast(lazy_katyusha *l, const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    scale_vector(dim, l->r, epoch->y);
    l->r = 1.0;
}

static void lazy_katyusha_fold_slow(lazy_katyusha *l, const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    scale_vector(dim, l->o, epoch->average);
    add_scaled(dim, l->a, epoch->z, epoch->average);
    add_scaled(dim, l->b, epoch->snapshot_gradient, epoch->average);
    add_scaled(dim, l->l, epoch->snapshot, epoch->average);
    scale_vector(dim, l->c, epoch->z);
    add_scaled(dim, l->k, epoch->snapshot_gradient, epoch->z);
    l->c = l->o = 1.0;
    l->k = l->a = l->b = l->l = 0.0;
}

static int lazy_katyusha_end(lazy_katyusha *l, const katyusha_state *s,
                             const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    ptrdiff_t j;
    lazy_katyusha_fold_fast(l, epoch, dim);
    lazy_katyusha_fold_slow(l, epoch, dim);
    for (j = 0; j < dim; j++) {
        const double e = epoch->y[j];
        epoch->y[j] = l->kappa * epoch->z[j] + l->f_s * epoch->snapshot[j] +
                      l->f_g * epoch->snapshot_gradient[j] + e;
        epoch->average[j] = (epoch->average[j] - l->rho * e) / s->average_scale;
    }
    *epoch->average_scale = s->average_scale;
    return s->finite;
}

static int csr_katyusha_lazy(const csr_problem *p, const dpfast_katyusha *epoch)
{
    const double *const read[3] = {epoch->z, epoch->snapshot_gradient, epoch->y};
    double *const written[3] = {epoch->z, epoch->y, epoch->average};
    double *const no_squares[3] = {NULL, NULL, NULL};
    katyusha_state s = katyusha_begin(epoch, p->dim);
    lazy_katyusha l = lazy_katyusha_begin(&s, epoch, p->dim);
    ptrdiff_t t;
    for (t = 0; t < epoch->n_steps; t++) {
        const int64_t i = epoch->indices[t];
        double dot[3], change[3], margin_z, margin_y, margin, b;
        prefetch_sparse(p, epoch->indices + t, epoch->n_steps - t);
        row_dots(p, i, 3, read, dot);
        margin_z = l.c * dot[0] + l.k * dot[1];
        margin_y = l.kappa * margin_z + l.f_s * epoch->snapshot_margin[i] + l.f_g * dot[1] +
                   l.r * dot[2];
        margin = s.tau1 * margin_z + TAU2 * epoch->snapshot_margin[i] + s.tau3 * margin_y;
        s.finite &= fabs(margin) < INFINITY;
        b = coefficient(p->data, i, margin);

        l.c *= l.p;
        l.k = l.p * l.k - s.grad_z;
        l.o *= l.p;
        l.a *= l.p;
        l.b *= l.p;
        l.l *= l.p;
        l.r *= l.decay;
        if (l.c < 1.0 / FOLD_RANGE) {
            lazy_katyusha_fold_slow(&l, epoch, p->dim);
        }
        if (l.r < 1e-200) {
            lazy_katyusha_fold_fast(&l, epoch, p->dim);
        }
        change[0] = -s.grad_z / l.c * b;
        change[1] = -l.impulse / l.r * b;
        /* W takes its impulse, and u makes up for what v gains */
        change[2] = (-(1.0 + l.rho) * l.impulse * b - l.a * change[0]) / l.o;
        row_adds(p, i, 3, change, written, no_squares);
        /* y = kappa z + f + e enters N; e is in W already */
        l.a += l.kappa * l.c;
        l.b += l.kappa * l.k + l.f_g;
        l.l += l.f_s;
        s.average_scale = 1.0 + s.average_scale * l.p;
    }
    return lazy_katyusha_end(&l, &s, epoch, p->dim);
}

static int csr_katyusha(const dpfast_csr *rows, const dpfast_loss *loss,
                        const dpfast_katyusha *epoch)
{
    const row_data data = ROW_DATA(rows, loss, epoch->snapshot_derivative, INFINITY);
    const csr_problem problem = csr_problem_of(rows, &data);
    const katyusha_state s = katyusha_constants(epoch);
    return epoch->n_steps > 0 && katyusha_decouples(&s)
               ? csr_katyusha_lazy(&problem, epoch)
               : csr_katyusha_full(&problem, epoch);
}
