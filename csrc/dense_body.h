/* The dense kernels, stamped by dense_<isa>.c once per instruction set and type of entries.  It sets
 *   SCALAR      double or float
 *   LOAD(p)     four entries as a vec4
 *   NAME(name)  the name with the type as a suffix
 * Deliberately no include guard.
 *
 * One read of X per gradient: a block of rows small enough for the L1/L2 cache is read from memory
 * for the margins, the losses' derivatives follow in registers, and the rows are read again from
 * cache for the accumulation X^T s. */

/* Bytes of X in one block: it and the next one, which is fetched early, fit the L1 cache. */
#define BLOCK_BYTES 16384
/* Rows up to this length are fetched a block ahead while the block at hand is added up: the memory
 * would idle then.  Longer rows keep the hardware's own prefetching busy. */
#define FETCH_AHEAD_BYTES 4096
/* Short rows of the margins are fetched this far ahead. */
#define FETCH_DOT_BYTES 2048

static ptrdiff_t NAME(block_rows)(ptrdiff_t d)
{
    ptrdiff_t rows = d > 0 ? (ptrdiff_t)(BLOCK_BYTES / sizeof(SCALAR)) / d : DPFAST_BLOCK_ROWS;
    rows -= rows % 8;
    rows = rows < 8 ? 8 : (rows > DPFAST_BLOCK_ROWS ? DPFAST_BLOCK_ROWS : rows);
    assert(rows % 8 == 0 && rows <= DPFAST_BLOCK_ROWS);
    return rows;
}

/* ---- Dot products ----------------------------------------------------------------------------- */

/* One row with four accumulators. */
DPFAST_INLINE double NAME(dot)(const SCALAR *DPFAST_RESTRICT a, const double *DPFAST_RESTRICT b,
                               ptrdiff_t d)
{
    vec4 s0 = vec4_set(0.0), s1 = s0, s2 = s0, s3 = s0;
    double tail = 0.0;
    ptrdiff_t j = 0;
    for (; j + 16 <= d; j += 16) {
        s0 = vec4_mul_add(LOAD(a + j), vec4_load(b + j), s0);
        s1 = vec4_mul_add(LOAD(a + j + 4), vec4_load(b + j + 4), s1);
        s2 = vec4_mul_add(LOAD(a + j + 8), vec4_load(b + j + 8), s2);
        s3 = vec4_mul_add(LOAD(a + j + 12), vec4_load(b + j + 12), s3);
    }
    for (; j + 4 <= d; j += 4) {
        s0 = vec4_mul_add(LOAD(a + j), vec4_load(b + j), s0);
    }
    for (; j < d; j++) {
        tail += a[j] * b[j];
    }
    return vec4_sum(vec4_add(vec4_add(s0, s1), vec4_add(s2, s3))) + tail;
}

/* Four rows at once, one accumulator each. */
DPFAST_INLINE void NAME(dot_four)(const SCALAR *DPFAST_RESTRICT x, ptrdiff_t stride,
                                  const double *DPFAST_RESTRICT w, ptrdiff_t d,
                                  double *DPFAST_RESTRICT out)
{
    const SCALAR *x0 = x, *x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
    vec4 s0 = vec4_set(0.0), s1 = s0, s2 = s0, s3 = s0;
    double t0 = 0.0, t1 = 0.0, t2 = 0.0, t3 = 0.0;
    ptrdiff_t j;
    if (d * (ptrdiff_t)sizeof(SCALAR) < 512) {
        for (j = 0; j < 4 * stride * (ptrdiff_t)sizeof(SCALAR); j += 64) {
            DPFAST_PREFETCH(x, j + FETCH_DOT_BYTES);
        }
    }
    for (j = 0; j + 4 <= d; j += 4) {
        vec4 v = vec4_load(w + j);
        s0 = vec4_mul_add(LOAD(x0 + j), v, s0);
        s1 = vec4_mul_add(LOAD(x1 + j), v, s1);
        s2 = vec4_mul_add(LOAD(x2 + j), v, s2);
        s3 = vec4_mul_add(LOAD(x3 + j), v, s3);
    }
    for (; j < d; j++) {
        t0 += x0[j] * w[j];
        t1 += x1[j] * w[j];
        t2 += x2[j] * w[j];
        t3 += x3[j] * w[j];
    }
    out[0] = vec4_sum(s0) + t0;
    out[1] = vec4_sum(s1) + t1;
    out[2] = vec4_sum(s2) + t2;
    out[3] = vec4_sum(s3) + t3;
}

/* Margins of rows [start, start + m). */
DPFAST_INLINE void NAME(margins_block)(const dpfast_dense *rows, const double *w,
                                       ptrdiff_t start, ptrdiff_t m, double *DPFAST_RESTRICT z)
{
    const ptrdiff_t d = rows->d, stride = rows->row_stride;
    const SCALAR *x = (const SCALAR *)rows->x + start * stride;
    ptrdiff_t i = 0;
    /* Rows of 512 bytes to 4 KB stream best one after another, others four at a time. */
    if (d * (ptrdiff_t)sizeof(SCALAR) < 512 || d * (ptrdiff_t)sizeof(SCALAR) > 2048) {
        for (; i + 4 <= m; i += 4) {
            NAME(dot_four)(x + i * stride, stride, w, d, z + i);
        }
    }
    for (; i < m; i++) {
        z[i] = NAME(dot)(x + i * stride, w, d);
    }
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

/* gradient[0..d) += sum_i s_i x_i over m rows; fetches the m rows after them if `ahead`. */
DPFAST_INLINE void NAME(accumulate_block)(const SCALAR *DPFAST_RESTRICT x, ptrdiff_t stride,
                                          ptrdiff_t m, ptrdiff_t d,
                                          const double *DPFAST_RESTRICT s,
                                          double *DPFAST_RESTRICT gradient, int ahead)
{
    const ptrdiff_t row_bytes = stride * (ptrdiff_t)sizeof(SCALAR);
    ptrdiff_t i = 0, j;
    ahead = ahead && row_bytes <= FETCH_AHEAD_BYTES;
    for (; i + 8 <= m; i += 8) {
        const SCALAR *x0 = x + i * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        const SCALAR *x4 = x3 + stride, *x5 = x4 + stride, *x6 = x5 + stride, *x7 = x6 + stride;
        const vec4 v0 = vec4_set(s[i]), v1 = vec4_set(s[i + 1]);
        const vec4 v2 = vec4_set(s[i + 2]), v3 = vec4_set(s[i + 3]);
        const vec4 v4 = vec4_set(s[i + 4]), v5 = vec4_set(s[i + 5]);
        const vec4 v6 = vec4_set(s[i + 6]), v7 = vec4_set(s[i + 7]);
        if (ahead) {
            for (j = 0; j < 8 * row_bytes; j += 64) {
                DPFAST_PREFETCH(x0, m * row_bytes + j);
            }
        }
        for (j = 0; j + 4 <= d; j += 4) {
            vec4 g = vec4_load(gradient + j);
            vec4 h = vec4_mul(LOAD(x4 + j), v4);
            g = vec4_mul_add(LOAD(x0 + j), v0, g);
            h = vec4_mul_add(LOAD(x5 + j), v5, h);
            g = vec4_mul_add(LOAD(x1 + j), v1, g);
            h = vec4_mul_add(LOAD(x6 + j), v6, h);
            g = vec4_mul_add(LOAD(x2 + j), v2, g);
            h = vec4_mul_add(LOAD(x7 + j), v7, h);
            g = vec4_mul_add(LOAD(x3 + j), v3, g);
            vec4_store(gradient + j, vec4_add(g, h));
        }
        for (; j < d; j++) {
            gradient[j] +=
                ((s[i] * x0[j] + s[i + 1] * x1[j]) + (s[i + 2] * x2[j] + s[i + 3] * x3[j])) +
                ((s[i + 4] * x4[j] + s[i + 5] * x5[j]) + (s[i + 6] * x6[j] + s[i + 7] * x7[j]));
        }
    }
    for (; i < m; i++) {
        const SCALAR *x0 = x + i * stride;
        for (j = 0; j < d; j++) {
            gradient[j] += s[i] * x0[j];
        }
    }
}

/* ---- The kernels ------------------------------------------------------------------------------ */

static void NAME(row_square_sums)(const dpfast_dense *rows, double *sums)
{
    ptrdiff_t i, j;
    for (i = 0; i < rows->n; i++) {
        const SCALAR *x = (const SCALAR *)rows->x + i * rows->row_stride;
        vec4 s0 = vec4_set(0.0), s1 = s0;
        double tail = 0.0;
        for (j = 0; j + 8 <= rows->d; j += 8) {
            const vec4 a = LOAD(x + j), b = LOAD(x + j + 4);
            s0 = vec4_mul_add(a, a, s0);
            s1 = vec4_mul_add(b, b, s1);
        }
        for (; j < rows->d; j++) {
            tail += (double)x[j] * (double)x[j];
        }
        sums[i] = vec4_sum(vec4_add(s0, s1)) + tail;
    }
}

static void NAME(margins)(const dpfast_dense *rows, const double *w, double *out)
{
    const ptrdiff_t block = NAME(block_rows)(rows->d);
    ptrdiff_t start;
    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        NAME(margins_block)(rows, w, start, m, out + start);
    }
}

static double NAME(gradient)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                             double clip_norm, double loss_clip, double *out)
{
    const loss_block losses_of_block = loss_blocks[loss->id];
    const ptrdiff_t d = rows->d, block = NAME(block_rows)(d);
    const int clipped = rows->inverse_norm != NULL && clip_norm < INFINITY;
    double z[DPFAST_BLOCK_ROWS], s[DPFAST_BLOCK_ROWS];
    double loss_sum = 0.0, derivative_sum = 0.0;
    ptrdiff_t start;

    if (out != NULL) {
        memset(out, 0, (size_t)d * sizeof *out);
    }
    for (start = 0; start < rows->n; start += block) {
        const ptrdiff_t m = rows->n - start < block ? rows->n - start : block;
        const double *weight = rows->weight != NULL ? rows->weight + start : NULL;
        NAME(margins_block)(rows, w, start, m, z);
        loss_sum += losses_of_block(m, z, rows->target + start, weight, loss, loss_clip,
                                    out != NULL ? s : NULL);
        if (out == NULL) {
            continue;
        }
        derivative_sum += settle_derivatives(
            m, clipped ? rows->inverse_norm + start : NULL, clip_norm, weight,
            rows->row_scale != NULL ? rows->row_scale + start : NULL, s);
        NAME(accumulate_block)((const SCALAR *)rows->x + start * rows->row_stride,
                               rows->row_stride, m, d, s, out, start + 2 * m <= rows->n);
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
        NAME(margins_block)(rows, w, start, m, z);
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

#undef BLOCK_BYTES
#undef FETCH_AHEAD_BYTES
#undef FETCH_DOT_BYTES
