/* The dense kernels, stamped by dense_stamp.h once per instruction set and type of entries.  It
 * sets
 *   SCALAR      double or float
 *   LOAD(p)     DPFAST_LANES entries as a vec
 *   LOAD_PART(p, count)  fewer
 *   NAME(name)  the name with the type as a suffix
 * Deliberately no include guard.
 *
 * One read of X per gradient: a block of rows small enough for the L1/L2 cache is read from memory
 * for the margins, the losses' derivatives follow in registers, and the rows are read again from
 * cache for the accumulation X^T s. */

/* Bytes of X in one block: it and the next one, which is fetched early, fit the L1 cache. */
#define BLOCK_BYTES 16384
/* Rows are fetched a block ahead while the block at hand is in cache, where the memory would idle: with
 * the margins, and once more with the sums, since a processor drops what it is asked for too fast.
 * Longer rows than this are asked for vector by vector, and not for margins alone: these keep the
 * hardware's own prefetching busy. */
#define FETCH_AT_ONCE_BYTES 2048
/* Rows of several classes are fetched this far ahead. */
#define FETCH_CLASSES_BYTES 2048

static ptrdiff_t NAME(block_rows)(ptrdiff_t d)
{
    ptrdiff_t rows = d > 0 ? (ptrdiff_t)(BLOCK_BYTES / sizeof(SCALAR)) / d : DPFAST_BLOCK_ROWS;
    rows -= rows % 8;
    rows = rows < 8 ? 8 : (rows > DPFAST_BLOCK_ROWS ? DPFAST_BLOCK_ROWS : rows);
    assert(rows % 8 == 0 && rows <= DPFAST_BLOCK_ROWS);
    return rows;
}

/* Asks for so many bytes, `ahead` bytes from x on. */
DPFAST_INLINE void NAME(fetch)(const SCALAR *x, ptrdiff_t ahead, ptrdiff_t bytes)
{
    ptrdiff_t j;
    for (j = 0; j < bytes; j += 64) {
        DPFAST_PREFETCH_FAR(x, ahead + j);
    }
}

/* ---- Dot products ----------------------------------------------------------------------------- */

/* One row with four accumulators. */
DPFAST_INLINE double NAME(dot)(const SCALAR *DPFAST_RESTRICT a, const double *DPFAST_RESTRICT b,
                               ptrdiff_t d)
{
    vec s0 = vec_set(0.0), s1 = s0, s2 = s0, s3 = s0;
    ptrdiff_t j = 0;
    for (; j + 4 * DPFAST_LANES <= d; j += 4 * DPFAST_LANES) {
        const SCALAR *p = a + j;
        const double *q = b + j;
        s0 = vec_mul_add(LOAD(p), vec_load(q), s0);
        s1 = vec_mul_add(LOAD(p + DPFAST_LANES), vec_load(q + DPFAST_LANES), s1);
        s2 = vec_mul_add(LOAD(p + 2 * DPFAST_LANES), vec_load(q + 2 * DPFAST_LANES), s2);
        s3 = vec_mul_add(LOAD(p + 3 * DPFAST_LANES), vec_load(q + 3 * DPFAST_LANES), s3);
    }
    for (; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        s0 = vec_mul_add(LOAD(a + j), vec_load(b + j), s0);
    }
    if (j < d) {
        s1 = vec_mul_add(LOAD_PART(a + j, d - j), vec_load_part(b + j, d - j), s1);
    }
    return vec_sum(vec_add(vec_add(s0, s1), vec_add(s2, s3)));
}

/* Asks for the vector of a row that is so many bytes ahead, once a line of the cache; 0: for none. */
DPFAST_INLINE void NAME(fetch_vector)(const SCALAR *row, ptrdiff_t j, ptrdiff_t ahead)
{
    if (ahead != 0 && j % (ptrdiff_t)(64 / sizeof(SCALAR)) == 0) {
        DPFAST_PREFETCH_FAR(row + j, ahead);
    }
}

/* DPFAST_LANES rows at once, one accumulator each; asks for those so many bytes ahead. */
DPFAST_INLINE void NAME(dot_many)(const SCALAR *DPFAST_RESTRICT x, ptrdiff_t stride,
                                  const double *DPFAST_RESTRICT w, ptrdiff_t d, ptrdiff_t ahead,
                                  double *DPFAST_RESTRICT out)
{
    vec s[DPFAST_LANES];
    ptrdiff_t j;
    int k;
    for (k = 0; k < DPFAST_LANES; k++) {
        s[k] = vec_set(0.0);
    }
    for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        const vec v = vec_load(w + j);
        for (k = 0; k < DPFAST_LANES; k++) {
            NAME(fetch_vector)(x + k * stride, j, ahead);
            s[k] = vec_mul_add(LOAD(x + k * stride + j), v, s[k]);
        }
    }
    if (j < d) {
        const vec v = vec_load_part(w + j, d - j);
        for (k = 0; k < DPFAST_LANES; k++) {
            s[k] = vec_mul_add(LOAD_PART(x + k * stride + j, d - j), v, s[k]);
        }
    }
    vec_store(out, vec_sums(s));
}

/* <x_i, w> of m rows.  Rows of 512 bytes to 4 KB stream best one after another, others several at a
 * time; those that are left over are added up in another order, unless `alike`: then a row's value
 * does not depend on its place.  With each, so many bytes of the rows after them are fetched. */
DPFAST_INLINE void NAME(dots)(const SCALAR *x, ptrdiff_t stride, const double *w, ptrdiff_t d,
                              ptrdiff_t m, int alike, ptrdiff_t bytes, double *DPFAST_RESTRICT z)
{
    const ptrdiff_t next = m * stride * (ptrdiff_t)sizeof(SCALAR);
    const int many = d * (ptrdiff_t)sizeof(SCALAR) < 512 || d * (ptrdiff_t)sizeof(SCALAR) > 2048;
    const int at_once = bytes <= FETCH_AT_ONCE_BYTES;
    double same[DPFAST_LANES];
    ptrdiff_t i = 0;
    for (; many && i + DPFAST_LANES <= m; i += DPFAST_LANES) {
        NAME(fetch)(x, next + i * bytes, at_once * DPFAST_LANES * bytes);
        NAME(dot_many)(x + i * stride, stride, w, d, at_once ? 0 : next, z + i);
    }
    for (; i < m; i++) {
        NAME(fetch)(x, next + i * bytes, at_once * bytes);
        if (many && alike) {
            NAME(dot_many)(x + i * stride, 0, w, d, 0, same);
            z[i] = same[0];
        } else {
            z[i] = NAME(dot)(x + i * stride, w, d);
        }
    }
}

/* Bytes a row that are fetched where rows are read for their margins alone. */
DPFAST_INLINE ptrdiff_t NAME(fetched)(const dpfast_dense *rows)
{
    const ptrdiff_t bytes = rows->row_stride * (ptrdiff_t)sizeof(SCALAR);
    return bytes < FETCH_AT_ONCE_BYTES ? bytes : 0;
}

/* Margins of rows [start, start + m); so many bytes a row of those after them are fetched. */
DPFAST_INLINE void NAME(margins_block)(const dpfast_dense *rows, const double *w, ptrdiff_t start,
                                       ptrdiff_t m, ptrdiff_t bytes, double *DPFAST_RESTRICT z)
{
    const ptrdiff_t d = rows->d, stride = rows->row_stride;
    ptrdiff_t i;
    NAME(dots)((const SCALAR *)rows->x + start * stride, stride, w, d, m,
               rows->alike, bytes, z);
    if (rows->row_scale != NULL) {
        for (i = 0; i < m; i++) {
            z[i] *= rows->row_scale[start + i];
        }
    }
    if (rows->intercept != 0.0) {
        const double constant = rows->intercept * w[d];
        for (i = 0; i < m; i++) {
            z[i] += constant;
        }
    }
}

/* gradient[0..d) += sum_i s_i x_i over m rows; so many bytes a row of those after them are fetched. */
DPFAST_INLINE void NAME(accumulate_block)(const SCALAR *DPFAST_RESTRICT x, ptrdiff_t stride,
                                          ptrdiff_t m, ptrdiff_t d,
                                          const double *DPFAST_RESTRICT s,
                                          double *DPFAST_RESTRICT gradient, ptrdiff_t bytes)
{
    const ptrdiff_t next = m * stride * (ptrdiff_t)sizeof(SCALAR);
    const int at_once = bytes <= FETCH_AT_ONCE_BYTES;
    ptrdiff_t i = 0, j;
    for (; i + 8 <= m; i += 8) {
        const SCALAR *rows[8];
        vec v[8];
        int k;
        for (k = 0; k < 8; k++) {
            rows[k] = x + (i + k) * stride;
            v[k] = vec_set(s[i + k]);
        }
        NAME(fetch)(x, next + i * bytes, at_once * 8 * bytes);
        /* Added to the gradient at last: the next rows wait for it. */
        for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
            vec g, h;
            for (k = 0; k < 8; k++) {
                NAME(fetch_vector)(rows[k], j, at_once ? 0 : next);
            }
            g = vec_mul(LOAD(rows[0] + j), v[0]), h = vec_mul(LOAD(rows[4] + j), v[4]);
            for (k = 1; k < 4; k++) {
                g = vec_mul_add(LOAD(rows[k] + j), v[k], g);
                h = vec_mul_add(LOAD(rows[k + 4] + j), v[k + 4], h);
            }
            vec_store(gradient + j, vec_add(vec_load(gradient + j), vec_add(g, h)));
        }
        if (j < d) {
            const ptrdiff_t left = d - j;
            vec g = vec_mul(LOAD_PART(rows[0] + j, left), v[0]);
            vec h = vec_mul(LOAD_PART(rows[4] + j, left), v[4]);
            for (k = 1; k < 4; k++) {
                g = vec_mul_add(LOAD_PART(rows[k] + j, left), v[k], g);
                h = vec_mul_add(LOAD_PART(rows[k + 4] + j, left), v[k + 4], h);
            }
            vec_store_part(gradient + j,
                           vec_add(vec_load_part(gradient + j, left), vec_add(g, h)), left);
        }
    }
    for (; i < m; i++) {
        const SCALAR *row = x + i * stride;
        for (j = 0; j < d; j++) {
            gradient[j] += s[i] * row[j];
        }
    }
}

/* ---- Several vectors at a time: for classes ------------------------------------------------------ */

/* Vectors at a time, half as many of more columns than that, and sums that registers hold: of rows, or
 * of lanes of columns, with each. */
#define TILE_CLASSES 8
#define TILE_COLUMNS 64
#if VECTOR_AVX512
#define TILE_SUMS 16
#else
#define TILE_SUMS 8
#endif

/* <x_r, w_k> of some rows and vectors, which are dim apart, as out[r * (TILE_SUMS / side) + k]. */
DPFAST_INLINE void NAME(dot_tile)(const SCALAR *const *x, int side, ptrdiff_t d, int classes,
                                  const double *DPFAST_RESTRICT w, ptrdiff_t dim,
                                  double *DPFAST_RESTRICT out)
{
    const int room = TILE_SUMS / side;
    vec s[TILE_SUMS], v[TILE_CLASSES];
    ptrdiff_t j;
    int r, k;
    for (k = 0; k < TILE_SUMS; k++) {
        s[k] = vec_set(0.0);
    }
    for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        for (k = 0; k < classes; k++) {
            v[k] = vec_load(w + k * dim + j);
        }
        for (r = 0; r < side; r++) {
            const vec a = LOAD(x[r] + j);
            for (k = 0; k < classes; k++) {
                s[r * room + k] = vec_mul_add(a, v[k], s[r * room + k]);
            }
        }
    }
    if (j < d) {
        for (k = 0; k < classes; k++) {
            v[k] = vec_load_part(w + k * dim + j, d - j);
        }
        for (r = 0; r < side; r++) {
            const vec a = LOAD_PART(x[r] + j, d - j);
            for (k = 0; k < classes; k++) {
                s[r * room + k] = vec_mul_add(a, v[k], s[r * room + k]);
            }
        }
    }
    for (k = 0; k < TILE_SUMS; k += DPFAST_LANES) {
        vec_store(out + k, vec_sums(s + k));
    }
}

/* Margins of all rows for some classes, from `first` on, so many rows at a time. */
DPFAST_INLINE void NAME(margins_of)(const dpfast_dense *rows, ptrdiff_t first, int classes, int side,
                                    const double *DPFAST_RESTRICT w,
                                    double *DPFAST_RESTRICT margins)
{
    const ptrdiff_t d = rows->d, dim = d + (rows->intercept != 0.0), n = rows->n;
    const ptrdiff_t bytes = side * rows->row_stride * (ptrdiff_t)sizeof(SCALAR);
    ptrdiff_t i, j;
    for (i = 0; i < n; i += side) {
        const SCALAR *x[TILE_SUMS / 4];
        double out[TILE_SUMS];
        int r, k;
        for (r = 0; r < side; r++) {
            const ptrdiff_t at = i + r < n ? i + r : n - 1;
            x[r] = (const SCALAR *)rows->x + at * rows->row_stride;
        }
        for (j = 0; first == 0 && j < bytes; j += 64) {
            DPFAST_PREFETCH(x[0], j + FETCH_CLASSES_BYTES);
        }
        NAME(dot_tile)(x, side, d, classes, w, dim, out);
        for (r = 0; r < side && i + r < n; r++) {
            const double scale = rows->row_scale != NULL ? rows->row_scale[i + r] : 1.0;
            for (k = 0; k < classes; k++) {
                const double constant = dim > d ? rows->intercept * w[k * dim + d] : 0.0;
                margins[(first + k) * n + i + r] = out[r * (TILE_SUMS / side) + k] * scale + constant;
            }
        }
    }
}

static void NAME(class_margins)(const dpfast_dense *rows, ptrdiff_t n_classes, const double *w,
                                double *DPFAST_RESTRICT margins)
{
    const ptrdiff_t dim = rows->d + (rows->intercept != 0.0);
    const ptrdiff_t most = rows->d > TILE_COLUMNS ? TILE_CLASSES / 2 : TILE_CLASSES;
    ptrdiff_t first;
    for (first = 0; first < n_classes; first += most) {
        const ptrdiff_t left = n_classes - first;
        const double *own = w + first * dim;
        switch (left < most ? left : most) { /* a constant for the compiler */
        case 1: NAME(margins_of)(rows, first, 1, TILE_SUMS / 4, own, margins); break;
        case 2: NAME(margins_of)(rows, first, 2, TILE_SUMS / 4, own, margins); break;
        case 3: NAME(margins_of)(rows, first, 3, TILE_SUMS / 4, own, margins); break;
        case 4: NAME(margins_of)(rows, first, 4, TILE_SUMS / 4, own, margins); break;
        case 5: NAME(margins_of)(rows, first, 5, TILE_SUMS / 8, own, margins); break;
        case 6: NAME(margins_of)(rows, first, 6, TILE_SUMS / 8, own, margins); break;
        case 7: NAME(margins_of)(rows, first, 7, TILE_SUMS / 8, own, margins); break;
        default: NAME(margins_of)(rows, first, TILE_CLASSES, TILE_SUMS / 8, own, margins);
        }
    }
}

/* sum[k dim + j] += sum_i s[k DPFAST_BLOCK_ROWS + i] x_i[j] over m rows, `lanes` vectors of columns;
 * `part`: of the last columns, fewer than a vector has. */
DPFAST_INLINE void NAME(add_tile)(const SCALAR *DPFAST_RESTRICT x, ptrdiff_t stride, ptrdiff_t m,
                                  int classes, int lanes, ptrdiff_t part,
                                  const double *DPFAST_RESTRICT s, ptrdiff_t dim,
                                  double *DPFAST_RESTRICT sum)
{
    vec g[TILE_SUMS];
    ptrdiff_t i;
    int k, l;
    for (k = 0; k < TILE_SUMS; k++) {
        g[k] = vec_set(0.0);
    }
    for (i = 0; i < m; i++) {
        vec v[TILE_CLASSES];
        for (k = 0; k < classes; k++) {
            v[k] = vec_set(s[k * DPFAST_BLOCK_ROWS + i]);
        }
        for (l = 0; l < lanes; l++) {
            const SCALAR *at = x + i * stride + l * DPFAST_LANES;
            const vec a = part > 0 ? LOAD_PART(at, part) : LOAD(at);
            for (k = 0; k < classes; k++) {
                g[k * lanes + l] = vec_mul_add(a, v[k], g[k * lanes + l]);
            }
        }
    }
    for (k = 0; k < classes; k++) {
        for (l = 0; l < lanes; l++) {
            double *at = sum + k * dim + l * DPFAST_LANES;
            if (part > 0) {
                vec_store_part(at, vec_add(vec_load_part(at, part), g[k * lanes + l]), part);
            } else {
                vec_store(at, vec_add(vec_load(at), g[k * lanes + l]));
            }
        }
    }
}

DPFAST_INLINE void NAME(add_classes)(const SCALAR *x, ptrdiff_t stride, ptrdiff_t m, ptrdiff_t d,
                                     int classes, int lanes, const double *s, ptrdiff_t dim,
                                     double *sum)
{
    const ptrdiff_t width = lanes * DPFAST_LANES, tiles = d / width;
    ptrdiff_t i, j;
    for (i = 0; i < tiles; i++) {
        NAME(add_tile)(x + i * width, stride, m, classes, lanes, 0, s, dim, sum + i * width);
    }
    for (j = tiles * width; lanes > 1 && j + DPFAST_LANES <= d; j += DPFAST_LANES) {
        NAME(add_tile)(x + j, stride, m, classes, 1, 0, s, dim, sum + j);
    }
    if (j < d) {
        NAME(add_tile)(x + j, stride, m, classes, 1, d - j, s, dim, sum + j);
    }
}

static void NAME(add_class_rows)(const dpfast_dense *rows, ptrdiff_t n_classes, const double *s,
                                 double *sum)
{
    const ptrdiff_t d = rows->d, dim = d + (rows->intercept != 0.0), stride = rows->row_stride;
    const ptrdiff_t most = d > TILE_COLUMNS ? TILE_CLASSES / 2 : TILE_CLASSES;
    double t[TILE_CLASSES * DPFAST_BLOCK_ROWS];
    ptrdiff_t start, first, i;
    for (start = 0; start < rows->n; start += DPFAST_BLOCK_ROWS) {
        const ptrdiff_t rest = rows->n - start, m = rest < DPFAST_BLOCK_ROWS ? rest : DPFAST_BLOCK_ROWS;
        const SCALAR *x = (const SCALAR *)rows->x + start * stride;
        for (first = 0; first < n_classes; first += most) {
            const ptrdiff_t left = n_classes - first;
            const int classes = (int)(left < most ? left : most);
            double *own = sum + first * dim;
            int k;
            for (k = 0; k < classes; k++) {
                const double *slope = s + (first + k) * rows->n + start;
                for (i = 0; i < m; i++) {
                    const double scale = rows->row_scale != NULL ? rows->row_scale[start + i] : 1.0;
                    t[k * DPFAST_BLOCK_ROWS + i] = slope[i] * scale;
                }
                if (dim > d) {
                    own[k * dim + d] += block_sum(m, slope) * rows->intercept;
                }
            }
            switch (classes) {
            case 1: NAME(add_classes)(x, stride, m, d, 1, TILE_SUMS / 4, t, dim, own); break;
            case 2: NAME(add_classes)(x, stride, m, d, 2, TILE_SUMS / 4, t, dim, own); break;
            case 3: NAME(add_classes)(x, stride, m, d, 3, TILE_SUMS / 4, t, dim, own); break;
            case 4: NAME(add_classes)(x, stride, m, d, 4, TILE_SUMS / 4, t, dim, own); break;
            case 5: NAME(add_classes)(x, stride, m, d, 5, TILE_SUMS / 8, t, dim, own); break;
            case 6: NAME(add_classes)(x, stride, m, d, 6, TILE_SUMS / 8, t, dim, own); break;
            case 7: NAME(add_classes)(x, stride, m, d, 7, TILE_SUMS / 8, t, dim, own); break;
            default: NAME(add_classes)(x, stride, m, d, TILE_CLASSES, TILE_SUMS / 8, t, dim, own);
            }
        }
    }
}

#undef TILE_CLASSES
#undef TILE_COLUMNS
#undef TILE_SUMS

/* ---- The kernels ------------------------------------------------------------------------------ */

static void NAME(row_square_sums)(const dpfast_dense *rows, double *sums)
{
    const ptrdiff_t d = rows->d;
    ptrdiff_t i, j;
    for (i = 0; i < rows->n; i++) {
        const SCALAR *x = (const SCALAR *)rows->x + i * rows->row_stride;
        vec s0 = vec_set(0.0), s1 = s0;
        for (j = 0; j + 2 * DPFAST_LANES <= d; j += 2 * DPFAST_LANES) {
            const vec a = LOAD(x + j), b = LOAD(x + j + DPFAST_LANES);
            s0 = vec_mul_add(a, a, s0);
            s1 = vec_mul_add(b, b, s1);
        }
        if (j + DPFAST_LANES <= d) {
            const vec a = LOAD(x + j);
            s0 = vec_mul_add(a, a, s0);
            j += DPFAST_LANES;
        }
        if (j < d) {
            const vec a = LOAD_PART(x + j, d - j);
            s1 = vec_mul_add(a, a, s1);
        }
        sums[i] = vec_sum(vec_add(s0, s1));
    }
}

static void NAME(margins)(const dpfast_dense *rows, const double *w, double *out)
{
    const ptrdiff_t block = NAME(block_rows)(rows->d);
    ptrdiff_t start;
    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        NAME(margins_block)(rows, w, start, m, NAME(fetched)(rows), out + start);
    }
}

static void NAME(add_rows)(const dpfast_dense *rows, const double *s, double *sum)
{
    const ptrdiff_t d = rows->d, block = NAME(block_rows)(d);
    double t[DPFAST_BLOCK_ROWS], constant = 0.0;
    ptrdiff_t start, i;
    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        for (i = 0; i < m; i++) {
            t[i] = rows->row_scale != NULL ? s[start + i] * rows->row_scale[start + i]
                                           : s[start + i];
        }
        constant += block_sum(m, s + start);
        NAME(accumulate_block)((const SCALAR *)rows->x + start * rows->row_stride,
                               rows->row_stride, m, d, t, sum, 0);
    }
    if (rows->intercept != 0.0) {
        sum[d] += constant * rows->intercept;
    }
}

static double NAME(gradient)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                             double clip_norm, double loss_clip, double *out)
{
    const loss_block losses_of_block = loss_blocks[loss->id];
    const ptrdiff_t d = rows->d, block = NAME(block_rows)(d);
    const int clipped = rows->inverse_norm != NULL && clip_norm < INFINITY;
    const ptrdiff_t row_bytes = rows->row_stride * (ptrdiff_t)sizeof(SCALAR);
    const ptrdiff_t ahead = out != NULL ? row_bytes : NAME(fetched)(rows);
    double z[DPFAST_BLOCK_ROWS], s[DPFAST_BLOCK_ROWS];
    double loss_sum = 0.0, derivative_sum = 0.0;
    ptrdiff_t start;

    if (out != NULL) {
        memset(out, 0, (size_t)d * sizeof *out);
    }
    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        const double *weight = rows->weight != NULL ? rows->weight + start : NULL;
        const ptrdiff_t bytes = start + 2 * m <= rows->n ? ahead : 0;
        NAME(margins_block)(rows, w, start, m, bytes, z);
        loss_sum += losses_of_block(m, z, rows->target + start, weight, loss, loss_clip,
                                    out != NULL ? s : NULL);
        if (out == NULL) {
            continue;
        }
        derivative_sum += settle_derivatives(
            m, clipped ? rows->inverse_norm + start : NULL, rows->consistent, clip_norm, weight,
            rows->row_scale != NULL ? rows->row_scale + start : NULL, s);
        NAME(accumulate_block)((const SCALAR *)rows->x + start * rows->row_stride,
                               rows->row_stride, m, d, s, out, bytes);
    }
    if (out != NULL && rows->intercept != 0.0) {
        out[d] = derivative_sum * rows->intercept;
    }
    return loss_sum;
}

static void NAME(curvature_rows)(const dpfast_dense *rows, const dpfast_loss *loss,
                                 const double *w, int sign, double *out)
{
    const ptrdiff_t d = rows->d, block = NAME(block_rows)(d);
    const ptrdiff_t dim = d + (rows->intercept != 0.0);
    double z[DPFAST_BLOCK_ROWS], c[DPFAST_BLOCK_ROWS];
    ptrdiff_t start, i, j;

    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        NAME(margins_block)(rows, w, start, m, NAME(fetched)(rows), z);
        curvature_blocks[loss->id](m, z, rows->target + start, loss, c);
        for (i = 0; i < m; i++) {
            const SCALAR *DPFAST_RESTRICT x =
                (const SCALAR *)rows->x + (start + i) * rows->row_stride;
            double *DPFAST_RESTRICT row = out + (start + i) * dim;
            const double weight = rows->weight != NULL ? rows->weight[start + i] : 1.0;
            double size = sign * c[i] * weight;
            double root, factor;
            size = size < 0.0 ? 0.0 : size; /* NaN stays NaN */
            root = sqrt(size);
            factor = rows->row_scale != NULL ? root * rows->row_scale[start + i] : root;
            for (j = 0; j < d; j++) {
                row[j] = factor * x[j];
            }
            if (rows->intercept != 0.0) {
                row[d] = root * rows->intercept;
            }
        }
    }
}

static void NAME(write)(const dpfast_dense *rows, ptrdiff_t start, ptrdiff_t m,
                        double *DPFAST_RESTRICT out)
{
    const ptrdiff_t d = rows->d, dim = d + (rows->intercept != 0.0);
    ptrdiff_t i, j;
    for (i = start; i < start + m; i++) {
        const SCALAR *DPFAST_RESTRICT x = (const SCALAR *)rows->x + i * rows->row_stride;
        const vec scale = vec_set(rows->row_scale != NULL ? rows->row_scale[i] : 1.0);
        for (j = 0; j + DPFAST_LANES <= d; j += DPFAST_LANES) {
            vec_store(out + j, vec_mul(LOAD(x + j), scale));
        }
        if (j < d) {
            vec_store_part(out + j, vec_mul(LOAD_PART(x + j, d - j), scale), d - j);
        }
        if (dim > d) {
            out[d] = rows->intercept;
        }
        out += dim;
    }
}

#undef BLOCK_BYTES
#undef FETCH_AT_ONCE_BYTES
#undef FETCH_CLASSES_BYTES
