/* The kernels of affine.h on dense rows, stamped by affine_stamp.h once per instruction set and type
 * of entries; SCALAR, LOAD, LOAD_PART and NAME are those of dense_body.h.  Deliberately no include
 * guard. */

/* How far ahead of a row the next ones are fetched: sums wait for memory otherwise. */
#define FETCH_ROWS_BYTES 8192

/* One row of d columns into out; returns its sum of squares. */
DPFAST_INLINE double NAME(affine_row)(const SCALAR *DPFAST_RESTRICT x, double row_scale,
                                      ptrdiff_t d, const double *DPFAST_RESTRICT factor,
                                      const double *DPFAST_RESTRICT shift,
                                      double *DPFAST_RESTRICT out)
{
    const vec scale = vec_set(row_scale);
    vec s0 = vec_set(0.0), s1 = s0;
    ptrdiff_t j = 0;
    for (; j + 2 * DPFAST_LANES <= d; j += 2 * DPFAST_LANES) {
        const ptrdiff_t k = j + DPFAST_LANES;
        vec a, b;
        DPFAST_PREFETCH_FAR(x + j, FETCH_ROWS_BYTES);
        DPFAST_PREFETCH_FAR(x + k, FETCH_ROWS_BYTES);
        a = vec_mul_add(vec_mul(LOAD(x + j), scale), vec_load(factor + j), vec_load(shift + j));
        b = vec_mul_add(vec_mul(LOAD(x + k), scale), vec_load(factor + k), vec_load(shift + k));
        vec_store(out + j, a);
        vec_store(out + k, b);
        s0 = vec_mul_add(a, a, s0);
        s1 = vec_mul_add(b, b, s1);
    }
    while (j < d) {
        const ptrdiff_t count = d - j < DPFAST_LANES ? d - j : DPFAST_LANES;
        vec a;
        if (count == DPFAST_LANES) {
            a = vec_mul_add(vec_mul(LOAD(x + j), scale), vec_load(factor + j),
                            vec_load(shift + j));
            vec_store(out + j, a);
        } else {
            a = vec_mul_add(vec_mul(LOAD_PART(x + j, count), scale),
                            vec_load_part(factor + j, count), vec_load_part(shift + j, count));
            vec_store_part(out + j, a, count);
        }
        s0 = vec_mul_add(a, a, s0);
        j += count;
    }
    return vec_sum(vec_add(s0, s1));
}

/* Adds what DPFAST_PART_ROWS rows of z, d apart, give the columns from j on, see part_sums. */
#define ADD_PARTS(load, store)                                                                     \
    do {                                                                                           \
        vec up = load(above + j), down = load(below + j);                                          \
        vec both = squares != NULL ? load(squares + j) : zero;                                     \
        for (r = 0; r < DPFAST_PART_ROWS; r++) {                                                   \
            const vec entry = load(z + r * d + j), part = vec_mul(entry, vec_set(count[r]));       \
            const vec positive = vec_at_least(part, zero);                                         \
            up = vec_add(up, positive);                                                            \
            down = vec_add(down, vec_sub(positive, part));                                         \
            both = vec_mul_add(vec_mul(part, entry), vec_set(shorter[r]), both);                   \
        }                                                                                          \
        store(above + j, up);                                                                      \
        store(below + j, down);                                                                    \
        if (squares != NULL) {                                                                     \
            store(squares + j, both);                                                              \
        }                                                                                          \
    } while (0)
#define LOAD_COUNT(p) vec_load_part(p, d - j)
#define STORE_COUNT(p, v) vec_store_part(p, v, d - j)

/* Some rows at a time, for one read and one write of the sums; those beyond the last count 0. */
static int NAME(part_sums)(const dpfast_dense *rows, const double *factor, const double *shift,
                           double radius, const double *share, double *DPFAST_RESTRICT z,
                           double *DPFAST_RESTRICT above, double *DPFAST_RESTRICT below,
                           double *DPFAST_RESTRICT squares)
{
    const ptrdiff_t d = rows->d;
    const double grow = 1.0 + (double)(d + 8) * 0x1p-53;
    const vec zero = vec_set(0.0);
    int finite = 1;
    ptrdiff_t i = 0, j;
    while (i < rows->n) {
        double count[DPFAST_PART_ROWS] = {0.0}, shorter[DPFAST_PART_ROWS] = {0.0};
        int r = 0;
        for (; r < DPFAST_PART_ROWS && i < rows->n; i++) {
            const SCALAR *x = (const SCALAR *)rows->x + i * rows->row_stride;
            const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
            double square, norm;
            if (share != NULL && share[i] == 0.0) {
                continue;
            }
            square = NAME(affine_row)(x, scale, d, factor, shift, z + r * d);
            norm = sqrt(square) * grow;
            finite &= isfinite(square) != 0;
            shorter[r] = norm > radius ? radius / norm : 1.0;
            count[r] = shorter[r] * (share != NULL ? share[i] : 1.0);
            r++;
        }
        for (j = r * d; j < DPFAST_PART_ROWS * d; j++) {
            z[j] = 0.0;
        }
        for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
            ADD_PARTS(vec_load, vec_store);
        }
        if (j < d) {
            ADD_PARTS(LOAD_COUNT, STORE_COUNT);
        }
    }
    return finite;
}

#undef ADD_PARTS
#undef LOAD_COUNT
#undef STORE_COUNT

static void NAME(affine_rows_float)(const dpfast_dense *rows, ptrdiff_t columns,
                                    const double *DPFAST_RESTRICT factor,
                                    const double *DPFAST_RESTRICT shift,
                                    float *DPFAST_RESTRICT out)
{
    const ptrdiff_t d = rows->d < columns ? rows->d : columns;
    ptrdiff_t i, j;
    for (i = 0; i < rows->n; i++) {
        const SCALAR *DPFAST_RESTRICT x = (const SCALAR *)rows->x + i * rows->row_stride;
        const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
        for (j = 0; j < d; j++) {
            out[j] = (float)(x[j] * scale * factor[j] + shift[j]);
        }
        if (d < columns) {
            out[d] = (float)(rows->intercept * factor[d] + shift[d]);
        }
        out += columns;
    }
}

/* Bins of some entries; what is no number is in the first. */
DPFAST_INLINE void NAME(bins_of)(vec x, vec scale, vec low, vec per_bin, vec last, int32_t *bins)
{
    const vec zero = vec_set(0.0), place = vec_mul(vec_sub(vec_mul(x, scale), low), per_bin);
    vec_store_integers(bins, vec_at_most(vec_select_less(zero, place, place, zero), last));
}

/* Some columns at a time, whose counts stay in cache.  Each has a place of its own among the lanes, so
 * that an entry is in the same bin wherever its row is. */
static void NAME(column_counts)(const dpfast_dense *rows, ptrdiff_t asked, const ptrdiff_t *slot,
                                const double *low, const double *per_bin, ptrdiff_t bins,
                                const double *share, double *counts)
{
    const vec last = vec_set((double)(bins - 1));
    double from[DPFAST_COUNTED], per[DPFAST_COUNTED];
    double *line[DPFAST_COUNTED];
    int32_t bin[DPFAST_COUNTED];
    ptrdiff_t start, i, j;
    for (start = 0; start < rows->d; start += DPFAST_COUNTED) {
        const ptrdiff_t left = rows->d - start, m = left < DPFAST_COUNTED ? left : DPFAST_COUNTED;
        int some = 0;
        for (j = 0; j < m; j++) {
            const ptrdiff_t k = slot[start + j];
            from[j] = per[j] = 0.0;
            line[j] = NULL;
            if (k >= 0 && k < asked) {
                from[j] = low[k];
                per[j] = per_bin[k];
                line[j] = counts + k * bins;
                some = 1;
            }
        }
        for (i = 0; some && i < rows->n; i++) {
            const SCALAR *x = (const SCALAR *)rows->x + i * rows->row_stride + start;
            const vec scale = vec_set(rows->row_scale != NULL ? rows->row_scale[i] : 1.0);
            const double count = share != NULL ? share[i] : 1.0;
            /* The hardware does not guess where in the next rows this goes on. */
            for (j = 0; j < m * (ptrdiff_t)sizeof(SCALAR); j += 64) {
                DPFAST_PREFETCH(x, 4 * rows->row_stride * (ptrdiff_t)sizeof(SCALAR) + j);
            }
            for (j = 0; j + DPFAST_LANES <= m; j += DPFAST_LANES) {
                NAME(bins_of)(LOAD(x + j), scale, vec_load(from + j), vec_load(per + j), last,
                              bin + j);
            }
            if (j < m) {
                NAME(bins_of)(LOAD_PART(x + j, m - j), scale, vec_load_part(from + j, m - j),
                              vec_load_part(per + j, m - j), last, bin + j);
            }
            for (j = 0; j < m; j++) {
                if (line[j] != NULL && bin[j] >= 0 && bin[j] < bins) {
                    line[j][bin[j]] += count;
                }
            }
        }
    }
}

#undef FETCH_ROWS_BYTES
