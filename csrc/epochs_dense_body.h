/* Epochs on dense rows, stamped by epochs_stamp.h once per instruction set and type of entries
 * (SCALAR, LOAD, LOAD_PART, NAME as in dense_body.h).  Deliberately no include guard.
 *
 * A step with one row is one sweep over the columns: it updates w with the row at hand and, on the
 * values just written, takes the product with the row of the next step and the squared norm.  The
 * projection's factor, known only at the end of a sweep, multiplies into the coefficients of the
 * next one. */

/* At most so many lines of a row are prefetched by hand; the hardware follows the rest. */
#define PREFETCH_LINES 16

DPFAST_INLINE void NAME(prefetch_row)(const SCALAR *x, ptrdiff_t d)
{
    const ptrdiff_t bytes = d * (ptrdiff_t)sizeof(SCALAR);
    const ptrdiff_t stop =
        bytes < PREFETCH_LINES * CACHE_LINE ? bytes : (ptrdiff_t)(PREFETCH_LINES * CACHE_LINE);
    ptrdiff_t k;
    for (k = 0; k < stop; k += CACHE_LINE) {
        DPFAST_PREFETCH(x, k);
    }
    DPFAST_PREFETCH(x, bytes - 1); /* rows need not begin at a line */
}

/* <x, w> over the stored columns. */
DPFAST_INLINE double NAME(row_dot)(const SCALAR *DPFAST_RESTRICT x, const double *DPFAST_RESTRICT w,
                                   ptrdiff_t d)
{
    vec s0 = vec_set(0.0), s1 = s0;
    ptrdiff_t j = 0;
    for (; j + 2 * DPFAST_LANES <= d; j += 2 * DPFAST_LANES) {
        s0 = vec_mul_add(LOAD(x + j), vec_load(w + j), s0);
        s1 = vec_mul_add(LOAD(x + j + DPFAST_LANES), vec_load(w + j + DPFAST_LANES), s1);
    }
    for (; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        s0 = vec_mul_add(LOAD(x + j), vec_load(w + j), s0);
    }
    if (j < d) {
        s1 = vec_mul_add(LOAD_PART(x + j, d - j), vec_load_part(w + j, d - j), s1);
    }
    return vec_sum(vec_add(s0, s1));
}

/* ---- SGD -------------------------------------------------------------------------------------- */

typedef struct NAME(sweep_sums) {
    double dot, square;
} NAME(sweep_sums);

/* average += r w, w <- a w + b x + e u over the stored columns; returns <w, next> and ||w||^2 of
 * the new w.  The compiler knows at each call whether `u` and `average` are NULL: none. */
DPFAST_INLINE NAME(sweep_sums)
    NAME(sgd_sweep)(ptrdiff_t d, double a, double b, const SCALAR *DPFAST_RESTRICT x, double e,
                    const double *DPFAST_RESTRICT u, double r, double *DPFAST_RESTRICT average,
                    double *DPFAST_RESTRICT w, const SCALAR *DPFAST_RESTRICT next)
{
    const vec va = vec_set(a), vb = vec_set(b), ve = vec_set(e), vr = vec_set(r);
    vec dot[2], square[2];
    NAME(sweep_sums) sums = {0.0, 0.0};
    ptrdiff_t j = 0;
    int k;
    dot[0] = dot[1] = square[0] = square[1] = vec_set(0.0);
    for (; j + 2 * DPFAST_LANES <= d; j += 2 * DPFAST_LANES) {
        for (k = 0; k < 2; k++) {
            const ptrdiff_t at = j + DPFAST_LANES * k;
            const vec old = vec_load(w + at);
            vec v = vec_mul_add(vb, LOAD(x + at), vec_mul(va, old));
            if (average != NULL) {
                vec_store(average + at, vec_mul_add(vr, old, vec_load(average + at)));
            }
            if (u != NULL) {
                v = vec_mul_add(ve, vec_load(u + at), v);
            }
            vec_store(w + at, v);
            dot[k] = vec_mul_add(v, LOAD(next + at), dot[k]);
            square[k] = vec_mul_add(v, v, square[k]);
        }
    }
    for (; j < d; j++) {
        const double old = w[j];
        double v = a * old + b * x[j];
        if (average != NULL) {
            average[j] += r * old;
        }
        if (u != NULL) {
            v += e * u[j];
        }
        w[j] = v;
        sums.dot += v * next[j];
        sums.square += v * v;
    }
    sums.dot += vec_sum(vec_add(dot[0], dot[1]));
    sums.square += vec_sum(vec_add(square[0], square[1]));
    return sums;
}

static int NAME(dense_sgd)(const dpfast_dense *rows, const dpfast_loss *loss,
                           const dpfast_sgd *epoch)
{
    const row_data data = ROW_DATA(rows, loss, epoch->snapshot_derivative, INFINITY);
    const ptrdiff_t d = rows->d, n_steps = epoch->n_steps;
    const SCALAR *all = (const SCALAR *)rows->x;
    const double intercept = rows->intercept, *u = epoch->snapshot_gradient;
    const int64_t *index = epoch->indices;
    double *w = epoch->w, *average = epoch->average;
    double phi = 1.0;        /* the iterate is phi w: projection is a factor */
    double average_of = 0.0; /* of w as it is stored, still to be added to the average */
    const SCALAR *x = n_steps > 0 ? all + index[0] * rows->row_stride : all;
    double dot = n_steps > 0 ? NAME(row_dot)(x, w, d) : 0.0;
    int finite = 1;
    ptrdiff_t t;

    for (t = 0; t < n_steps; t++) {
        const int64_t i = index[t];
        const SCALAR *next = t + 1 < n_steps ? all + index[t + 1] * rows->row_stride : x;
        const double scale = scale_of_row(&data, i);
        const double step = epoch->step[t * epoch->step_stride];
        const double a = phi * (1.0 - step * epoch->alpha);
        const double at_intercept = intercept != 0.0 ? intercept * w[d] : 0.0;
        const double margin = phi * (scale * dot + at_intercept);
        const double b = -step * coefficient(&data, i, margin);
        NAME(sweep_sums) sums;
        if (t + ROWS_AHEAD < n_steps) {
            const int64_t ahead = index[t + ROWS_AHEAD];
            NAME(prefetch_row)(all + ahead * rows->row_stride, d);
            prefetch_row_data(&data, ahead);
        }
        finite &= fabs(margin) < INFINITY;
        if (u != NULL && average != NULL) {
            sums = NAME(sgd_sweep)(d, a, b * scale, x, -step, u, average_of, average, w, next);
        } else if (u != NULL) {
            sums = NAME(sgd_sweep)(d, a, b * scale, x, -step, u, 0.0, NULL, w, next);
        } else if (average != NULL) {
            sums = NAME(sgd_sweep)(d, a, b * scale, x, 0.0, NULL, average_of, average, w, next);
        } else {
            sums = NAME(sgd_sweep)(d, a, b * scale, x, 0.0, NULL, 0.0, NULL, w, next);
        }
        if (intercept != 0.0) {
            const double old = w[d];
            w[d] = a * old + b * intercept - (u != NULL ? step * u[d] : 0.0);
            sums.square += w[d] * w[d];
            if (average != NULL) {
                average[d] += average_of * old;
            }
        }
        phi = ball_factor(sums.square, epoch->w_radius, &finite);
        average_of = phi * average_weight(epoch, t);
        dot = sums.dot;
        x = next;
    }
    if (average != NULL) {
        add_scaled(d + (intercept != 0.0), average_of, w, average);
    }
    scale_vector(d + (intercept != 0.0), phi, w);
    return finite;
}

/* ---- Several rows at once --------------------------------------------------------------------- */

static void NAME(dense_margins)(const void *rows_pointer, const row_data *data, ptrdiff_t m,
                                ptrdiff_t left, const int64_t *index, const double *w,
                                double *margin)
{
    const dpfast_dense *rows = rows_pointer;
    const SCALAR *all = (const SCALAR *)rows->x;
    const ptrdiff_t d = rows->d;
    const double at_intercept = rows->intercept != 0.0 ? rows->intercept * w[d] : 0.0;
    ptrdiff_t k;
    for (k = 0; k < m; k++) {
        if (k + ROWS_AHEAD < left) {
            NAME(prefetch_row)(all + index[k + ROWS_AHEAD] * rows->row_stride, d);
            prefetch_row_data(data, index[k + ROWS_AHEAD]);
        }
        margin[k] = NAME(row_dot)(all + index[k] * rows->row_stride, w, d);
    }
    for (k = 0; k < m; k++) {
        margin[k] = scale_of_row(data, index[k]) * margin[k] + at_intercept;
    }
}

static void NAME(dense_accumulate)(const void *rows_pointer, const row_data *data, ptrdiff_t m,
                                   const int64_t *index, double *DPFAST_RESTRICT s,
                                   double *DPFAST_RESTRICT out)
{
    const dpfast_dense *rows = rows_pointer;
    const SCALAR *all = (const SCALAR *)rows->x;
    const ptrdiff_t d = rows->d;
    ptrdiff_t k, j;
    for (k = 0; k < m; k++) {
        if (rows->intercept != 0.0) {
            out[d] += s[k] * rows->intercept;
        }
        s[k] *= scale_of_row(data, index[k]);
    }
    for (k = 0; k + 2 <= m; k += 2) {
        const SCALAR *x0 = all + index[k] * rows->row_stride;
        const SCALAR *x1 = all + index[k + 1] * rows->row_stride;
        const vec s0 = vec_set(s[k]), s1 = vec_set(s[k + 1]);
        for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
            vec g = vec_load(out + j);
            g = vec_mul_add(LOAD(x0 + j), s0, g);
            g = vec_mul_add(LOAD(x1 + j), s1, g);
            vec_store(out + j, g);
        }
        for (; j < d; j++) {
            out[j] += s[k] * x0[j] + s[k + 1] * x1[j];
        }
    }
    if (k < m) {
        const SCALAR *x0 = all + index[k] * rows->row_stride;
        for (j = 0; j < d; j++) {
            out[j] += s[k] * x0[j];
        }
    }
}

/* ---- Katyusha --------------------------------------------------------------------------------- */

typedef struct NAME(katyusha_sums) {
    double dot_z, dot_y, square_z, square_y;
} NAME(katyusha_sums);

/* One step on the first d columns, the row's gradient b x; returns the products of the new z and y
 * with `next`, and their squared norms. */
DPFAST_INLINE NAME(katyusha_sums)
    NAME(katyusha_sweep)(ptrdiff_t d, const katyusha_state *s, const dpfast_katyusha *epoch,
                         double b, const SCALAR *DPFAST_RESTRICT x,
                         const SCALAR *DPFAST_RESTRICT next)
{
    const vec w_z = vec_set(s->tau1 * s->phi_z), w_y = vec_set(s->tau3 * s->phi_y);
    const vec w_snapshot = vec_set(TAU2), vb = vec_set(b);
    const vec keep = vec_set(s->average_keep), add = vec_set(s->average_add);
    const vec z_z = vec_set(s->shrink_z * s->phi_z), z_g = vec_set(-s->grad_z);
    const vec y_w = vec_set(s->keep_y), y_g = vec_set(-s->grad_y);
    const double *DPFAST_RESTRICT snapshot = epoch->snapshot;
    const double *DPFAST_RESTRICT gradient = epoch->snapshot_gradient;
    double *DPFAST_RESTRICT z = epoch->z, *DPFAST_RESTRICT y = epoch->y;
    double *DPFAST_RESTRICT average = epoch->average;
    vec dot_z = vec_set(0.0), dot_y = dot_z, square_z = dot_z, square_y = dot_z;
    NAME(katyusha_sums) sums = {0.0, 0.0, 0.0, 0.0};
    ptrdiff_t j = 0;
    for (; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        const vec old_z = vec_load(z + j), old_y = vec_load(y + j), ahead = LOAD(next + j);
        const vec g = vec_mul_add(vb, LOAD(x + j), vec_load(gradient + j));
        const vec w =
            vec_mul_add(w_z, old_z,
                         vec_mul_add(w_y, old_y, vec_mul(w_snapshot, vec_load(snapshot + j))));
        const vec new_z = vec_mul_add(z_g, g, vec_mul(z_z, old_z));
        const vec new_y = vec_mul_add(y_g, g, vec_mul(y_w, w));
        vec_store(average + j,
                   vec_mul_add(add, old_y, vec_mul(keep, vec_load(average + j))));
        vec_store(z + j, new_z);
        vec_store(y + j, new_y);
        dot_z = vec_mul_add(new_z, ahead, dot_z);
        dot_y = vec_mul_add(new_y, ahead, dot_y);
        square_z = vec_mul_add(new_z, new_z, square_z);
        square_y = vec_mul_add(new_y, new_y, square_y);
    }
    for (; j < d; j++) {
        katyusha_point(s, epoch, j, b * x[j]);
        sums.dot_z += epoch->z[j] * next[j];
        sums.dot_y += epoch->y[j] * next[j];
        sums.square_z += epoch->z[j] * epoch->z[j];
        sums.square_y += epoch->y[j] * epoch->y[j];
    }
    sums.dot_z += vec_sum(dot_z);
    sums.dot_y += vec_sum(dot_y);
    sums.square_z += vec_sum(square_z);
    sums.square_y += vec_sum(square_y);
    return sums;
}

static int NAME(dense_katyusha)(const dpfast_dense *rows, const dpfast_loss *loss,
                                const dpfast_katyusha *epoch)
{
    const row_data data = ROW_DATA(rows, loss, epoch->snapshot_derivative, INFINITY);
    const ptrdiff_t d = rows->d, n_steps = epoch->n_steps;
    const ptrdiff_t dim = d + (rows->intercept != 0.0);
    const SCALAR *all = (const SCALAR *)rows->x;
    const int64_t *index = epoch->indices;
    const double intercept = rows->intercept;
    katyusha_state s = katyusha_begin(epoch, dim);
    NAME(katyusha_sums) sums = {0.0, 0.0, 0.0, 0.0};
    const SCALAR *x = all;
    ptrdiff_t t;

    if (n_steps > 0) {
        x = all + index[0] * rows->row_stride;
        sums.dot_z = NAME(row_dot)(x, epoch->z, d);
        sums.dot_y = NAME(row_dot)(x, epoch->y, d);
    }
    for (t = 0; t < n_steps; t++) {
        const int64_t i = index[t];
        const SCALAR *next = t + 1 < n_steps ? all + index[t + 1] * rows->row_stride : x;
        const double scale = scale_of_row(&data, i);
        double margin_z = scale * sums.dot_z, margin_y = scale * sums.dot_y, margin, b;
        if (t + ROWS_AHEAD < n_steps) {
            const int64_t ahead = index[t + ROWS_AHEAD];
            NAME(prefetch_row)(all + ahead * rows->row_stride, d);
            prefetch_row_data(&data, ahead);
            DPFAST_PREFETCH(epoch->snapshot_margin + ahead, 0);
        }
        if (intercept != 0.0) {
            margin_z += intercept * epoch->z[d];
            margin_y += intercept * epoch->y[d];
        }
        margin = s.tau1 * s.phi_z * margin_z + TAU2 * epoch->snapshot_margin[i] +
                 s.tau3 * s.phi_y * margin_y;
        s.finite &= fabs(margin) < INFINITY;
        b = coefficient(&data, i, margin);
        sums = NAME(katyusha_sweep)(d, &s, epoch, b * scale, x, next);
        if (intercept != 0.0) {
            katyusha_point(&s, epoch, d, b * intercept);
            sums.square_z += epoch->z[d] * epoch->z[d];
            sums.square_y += epoch->y[d] * epoch->y[d];
        }
        katyusha_next(&s, sums.square_z, sums.square_y);
        x = next;
    }
    return katyusha_end(&s, epoch, dim);
}
