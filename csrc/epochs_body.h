/* What the epochs of all layouts share, for one instruction set.  Deliberately no include guard. */

#define CACHE_LINE 64
/* Steps between the prefetch of a row and its use. */
#define ROWS_AHEAD 6

/* ---- Derivatives: one pointer per epoch ------------------------------------------------------- */

typedef double (*loss_derivative)(double y, double z, const dpfast_loss *p);

#define STAMP_DERIVATIVE(id, name, ...)                                                            \
    static double name##_derivative_point(double y, double z, const dpfast_loss *p)                \
    {                                                                                              \
        return name##_derivative(y, z, p);                                                         \
    }
DPFAST_LOSS_LIST(STAMP_DERIVATIVE)

#define LIST_DERIVATIVE(id, name, ...) name##_derivative_point,
static const loss_derivative loss_derivatives[] = {DPFAST_LOSS_LIST(LIST_DERIVATIVE)};

/* ---- The parts of a problem that do not depend on how its rows are stored --------------------- */

typedef struct row_data {
    const dpfast_loss *loss;
    loss_derivative derivative;
    const double *target, *weight, *row_scale;
    const double *snapshot_derivative;
    const float *inverse_norm; /* NULL: no clipping */
    double clip_norm;
    double intercept;
} row_data;

/* For a dpfast_dense or a dpfast_csr. */
#define ROW_DATA(rows, loss_pointer, snapshot, clip)                                               \
    {                                                                                              \
        .loss = (loss_pointer), .derivative = loss_derivatives[(loss_pointer)->id],                \
        .target = (rows)->target, .weight = (rows)->weight, .row_scale = (rows)->row_scale,        \
        .snapshot_derivative = (snapshot),                                                         \
        .inverse_norm = (clip) < INFINITY ? (rows)->inverse_norm : NULL, .clip_norm = (clip),      \
        .intercept = (rows)->intercept                                                             \
    }

DPFAST_INLINE void prefetch_row_data(const row_data *data, int64_t i)
{
    DPFAST_PREFETCH(data->target + i, 0);
    if (data->snapshot_derivative != NULL) {
        DPFAST_PREFETCH(data->snapshot_derivative + i, 0);
    }
    if (data->weight != NULL) {
        DPFAST_PREFETCH(data->weight + i, 0);
    }
    if (data->row_scale != NULL) {
        DPFAST_PREFETCH(data->row_scale + i, 0);
    }
    if (data->inverse_norm != NULL) {
        DPFAST_PREFETCH(data->inverse_norm + i, 0);
    }
}

/* NaN fails both comparisons and stays NaN. */
DPFAST_INLINE double clamp(double value, double limit)
{
    value = value > limit ? limit : value;
    return value < -limit ? -limit : value;
}

/* weight_i (loss'_i - snapshot loss'_i) */
DPFAST_INLINE double coefficient(const row_data *data, int64_t i, double margin)
{
    const double base = data->snapshot_derivative != NULL ? data->snapshot_derivative[i] : 0.0;
    const double s = data->derivative(data->target[i], margin, data->loss) - base;
    return data->weight != NULL ? s * data->weight[i] : s;
}

DPFAST_INLINE double scale_of_row(const row_data *data, int64_t i)
{
    return data->row_scale != NULL ? data->row_scale[i] : 1.0;
}

/* ---- Projection ------------------------------------------------------------------------------- */

/* Factor that brings a vector of this squared norm into the ball; *finite is cleared if there is no
 * saying. */
DPFAST_INLINE double ball_factor(double square, double radius, int *finite)
{
    if (!(radius < INFINITY)) {
        return 1.0;
    }
    *finite &= square < INFINITY;
    return square > radius * radius ? radius / sqrt(square) : 1.0;
}

DPFAST_INLINE void scale_vector(ptrdiff_t n, double factor, double *DPFAST_RESTRICT v)
{
    ptrdiff_t j;
    if (factor != 1.0) {
        for (j = 0; j < n; j++) {
            v[j] *= factor;
        }
    }
}

DPFAST_INLINE void add_scaled(ptrdiff_t n, double factor, const double *DPFAST_RESTRICT from,
                              double *DPFAST_RESTRICT to)
{
    ptrdiff_t j;
    if (factor != 0.0) {
        for (j = 0; j < n; j++) {
            to[j] += factor * from[j];
        }
    }
}

DPFAST_INLINE double average_weight(const dpfast_sgd *epoch, ptrdiff_t t)
{
    return epoch->average_weight != NULL ? epoch->average_weight[t] : 1.0;
}

/* ---- Several rows at once, for private steps -------------------------------------------------- */

/* Rows of a block at most. */
#define BATCH_BLOCK 256

/* margin[k] = <x~_{index[k]}, w> for m <= BATCH_BLOCK rows; `left` >= m indices may be read. */
typedef void (*gather_margins)(const void *rows, const row_data *data, ptrdiff_t m, ptrdiff_t left,
                               const int64_t *index, const double *w, double *margin);
/* out += sum_k s[k] x~_{index[k]}.  s may be overwritten. */
typedef void (*gather_accumulate)(const void *rows, const row_data *data, ptrdiff_t m,
                                  const int64_t *index, double *s, double *out);

/* ---- Katyusha: constants of an epoch, and what one step hands to the next --------------------- */

#define TAU2 0.5

typedef struct katyusha_state {
    /* constants */
    double tau1, tau3;
    double shrink_z; /* 1 / (1 + gamma alpha) */
    double grad_z;   /* gamma / (1 + gamma alpha) */
    double keep_y;   /* 3 beta / (3 beta + alpha) */
    double grad_y;   /* 1 / (3 beta + alpha) */
    double radius;
    /* the iterates are phi_z z and phi_y y: projections are factors */
    double phi_z, phi_y;
    /* the average with the y that is stored is average_keep average + average_add y */
    double average_keep, average_add, average_scale;
    int finite;
} katyusha_state;

static katyusha_state katyusha_constants(const dpfast_katyusha *epoch)
{
    const double gamma = 1.0 / (3.0 * epoch->tau1 * epoch->smoothness);
    katyusha_state s;
    s.tau1 = epoch->tau1;
    s.tau3 = 1.0 - TAU2 - epoch->tau1;
    s.shrink_z = 1.0 / (1.0 + gamma * epoch->alpha);
    s.grad_z = gamma * s.shrink_z;
    s.grad_y = 1.0 / (3.0 * epoch->smoothness + epoch->alpha);
    s.keep_y = 3.0 * epoch->smoothness * s.grad_y;
    s.radius = epoch->w_radius;
    s.phi_z = s.phi_y = 1.0;
    s.average_keep = 1.0;
    s.average_add = 0.0;
    s.average_scale = *epoch->average_scale;
    s.finite = 1;
    return s;
}

static katyusha_state katyusha_begin(const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    if (*epoch->average_scale == 0.0) {
        memset(epoch->average, 0, (size_t)dim * sizeof(double));
    }
    return katyusha_constants(epoch);
}

/* After a step that left these squared norms in z and y. */
DPFAST_INLINE void katyusha_next(katyusha_state *s, double square_z, double square_y)
{
    s->phi_z = ball_factor(square_z, s->radius, &s->finite);
    s->phi_y = ball_factor(square_y, s->radius, &s->finite);
    s->average_scale = 1.0 + s->average_scale * s->shrink_z;
    s->average_keep = 1.0 - 1.0 / s->average_scale;
    s->average_add = s->phi_y / s->average_scale;
}

static int katyusha_end(const katyusha_state *s, const dpfast_katyusha *epoch, ptrdiff_t dim)
{
    scale_vector(dim, s->average_keep, epoch->average);
    add_scaled(dim, s->average_add, epoch->y, epoch->average);
    scale_vector(dim, s->phi_z, epoch->z);
    scale_vector(dim, s->phi_y, epoch->y);
    *epoch->average_scale = s->average_scale;
    return s->finite;
}

/* Column j of a step whose loss gradient is bx there, the snapshot's part left out. */
DPFAST_INLINE void katyusha_point(const katyusha_state *s, const dpfast_katyusha *epoch,
                                  ptrdiff_t j, double bx)
{
    const double z = epoch->z[j], y = epoch->y[j], g = bx + epoch->snapshot_gradient[j];
    const double w =
        s->tau1 * s->phi_z * z + TAU2 * epoch->snapshot[j] + s->tau3 * s->phi_y * y;
    epoch->average[j] = s->average_keep * epoch->average[j] + s->average_add * y;
    epoch->z[j] = s->shrink_z * s->phi_z * z - s->grad_z * g;
    epoch->y[j] = s->keep_y * w - s->grad_y * g;
}
