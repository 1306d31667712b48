/* The sparse kernels, compiled once per instruction set by csr_stamp.h.  Deliberately no include
 * guard.
 *
 * A block of rows is small enough for the L1/L2 cache: its columns and values are read from memory
 * for the margins, and again from cache for the accumulation X^T s.  All that depends on the types
 * of columns and values is three inner loops over a block; they are stamped for each pair of types
 * and called through one pointer a block. */

/* Stored entries of one block, unless a single row has more: measured flat from 1024 to 16384. */
#define BLOCK_ENTRIES 2048

/* ---- Inner loops ----------------------------------------------------------------------------- */

/* index_type and value_type are constants wherever these are inlined. */

DPFAST_INLINE ptrdiff_t value_bytes(int value_type)
{
    return value_type == DPFAST_FLOAT64 ? 8 : 4;
}

DPFAST_INLINE ptrdiff_t index_bytes(int index_type)
{
    return index_type == DPFAST_INT32 ? 4 : (index_type == DPFAST_INT64 ? 8 : 2);
}

/* Asks for entries [k, end) of an array, `ahead` entries further on. */
DPFAST_INLINE void fetch_ahead(const void *array, ptrdiff_t entry_bytes, ptrdiff_t k, ptrdiff_t end,
                               ptrdiff_t ahead)
{
    ptrdiff_t byte;
    for (byte = k * entry_bytes; byte < end * entry_bytes; byte += 64) {
        DPFAST_PREFETCH_FAR(array, byte + ahead * entry_bytes);
    }
}

/* z_i = <x_i, w> over m rows.  Asks for the values of the next block meanwhile, as scatter_rows
 * does for its columns: memory would idle while a block is worked on in cache, which would cost a
 * gradient 15 to 25% more time. */
DPFAST_INLINE void dot_rows(int index_type, int value_type, ptrdiff_t m, const ptrdiff_t *offset,
                            const void *DPFAST_RESTRICT indices,
                            const void *DPFAST_RESTRICT values, const double *DPFAST_RESTRICT w,
                            double *DPFAST_RESTRICT z)
{
    const ptrdiff_t ahead = offset[m] - offset[0];
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        if (value_type != IMPLICIT_ONES) {
            fetch_ahead(values, value_bytes(value_type), offset[i], offset[i + 1], ahead);
        }
        z[i] = dot_row(index_type, value_type, offset[i], offset[i + 1], indices, values, w);
    }
}

/* gradient += sum_i s_i x_i over m rows, one after another, for two rows may share columns.  The
 * columns of one row differ: two entries are loaded before either is stored. */
DPFAST_INLINE void scatter_rows(int index_type, int value_type, ptrdiff_t m,
                                const ptrdiff_t *offset, const void *DPFAST_RESTRICT indices,
                                const void *DPFAST_RESTRICT values,
                                const double *DPFAST_RESTRICT s, double *DPFAST_RESTRICT gradient)
{
    const ptrdiff_t ahead = offset[m] - offset[0];
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        const ptrdiff_t end = offset[i + 1];
        const double factor = s[i];
        ptrdiff_t k = offset[i];
        fetch_ahead(indices, index_bytes(index_type), k, end, ahead);
        for (; k + 2 <= end; k += 2) {
            double *a = gradient + dpfast_index_at(indices, index_type, k);
            double *b = gradient + dpfast_index_at(indices, index_type, k + 1);
            const double sum_a = *a + factor * value_at(values, value_type, k);
            const double sum_b = *b + factor * value_at(values, value_type, k + 1);
            *a = sum_a;
            *b = sum_b;
        }
        if (k < end) {
            gradient[dpfast_index_at(indices, index_type, k)] +=
                factor * value_at(values, value_type, k);
        }
    }
}

/* Upper triangle of out += sum_i s_i x_i x_i^T over m rows, each times its scale, row_scale that of
 * the first; unless cross is NULL, the last column of out += sum_i cross_i x_i.  Columns increase
 * within a row, which keeps this in the triangle.  The square of a scale may be no normal number. */
DPFAST_INLINE void outer_rows(int index_type, int value_type, ptrdiff_t m, const ptrdiff_t *offset,
                              const void *DPFAST_RESTRICT indices,
                              const void *DPFAST_RESTRICT values,
                              const double *DPFAST_RESTRICT row_scale,
                              const double *DPFAST_RESTRICT s,
                              const double *DPFAST_RESTRICT cross, ptrdiff_t dim,
                              double *DPFAST_RESTRICT out)
{
    ptrdiff_t i, k, l;
    for (i = 0; i < m; i++) {
        const double scale = row_scale != NULL ? row_scale[i] : 1.0;
        for (k = offset[i]; k < offset[i + 1]; k++) {
            double *row = out + dpfast_index_at(indices, index_type, k) * dim;
            const double value = value_at(values, value_type, k);
            const double factor = s[i] * (scale * value);
            for (l = k; l < offset[i + 1]; l++) {
                row[dpfast_index_at(indices, index_type, l)] +=
                    factor * (scale * value_at(values, value_type, l));
            }
            if (cross != NULL) {
                row[dim - 1] += cross[i] * value;
            }
        }
    }
}

/* z_i = x~_i^T A x~_i over m rows, row_scale that of the first; A has dim rows and columns.  Entries
 * are scaled first: those of rows far too long have squares that are beyond all numbers. */
DPFAST_INLINE void form_rows(int index_type, int value_type, ptrdiff_t m, const ptrdiff_t *offset,
                             const void *DPFAST_RESTRICT indices,
                             const void *DPFAST_RESTRICT values,
                             const double *DPFAST_RESTRICT row_scale, double intercept,
                             ptrdiff_t dim, const double *DPFAST_RESTRICT a,
                             double *DPFAST_RESTRICT z)
{
    ptrdiff_t i, k;
    for (i = 0; i < m; i++) {
        const double scale = row_scale != NULL ? row_scale[i] : 1.0;
        double square = 0.0, cross = 0.0;
        for (k = offset[i]; k < offset[i + 1]; k++) {
            const int64_t column = dpfast_index_at(indices, index_type, k);
            const double *row = a + column * dim;
            const double value = scale * value_at(values, value_type, k);
            /* Columns increase within a row, which keeps this in the triangle. */
            const double rest =
                scale * dot_row(index_type, value_type, k + 1, offset[i + 1], indices, values, row);
            square += value * (row[column] * value + 2.0 * rest);
            cross += value * row[dim - 1];
        }
        z[i] = square;
        if (intercept != 0.0) {
            z[i] += intercept * (2.0 * cross + intercept * a[dim * dim - 1]);
        }
    }
}

typedef struct inner_loops {
    void (*dot)(ptrdiff_t m, const ptrdiff_t *offset, const void *indices, const void *values,
                const double *w, double *z);
    void (*scatter)(ptrdiff_t m, const ptrdiff_t *offset, const void *indices, const void *values,
                    const double *s, double *gradient);
    void (*outer)(ptrdiff_t m, const ptrdiff_t *offset, const void *indices, const void *values,
                  const double *row_scale, const double *s, const double *cross, ptrdiff_t dim,
                  double *out);
    void (*form)(ptrdiff_t m, const ptrdiff_t *offset, const void *indices, const void *values,
                 const double *row_scale, double intercept, ptrdiff_t dim, const double *a,
                 double *z);
} inner_loops;

#define STAMP_INNER_LOOPS(name, index_type, value_type)                                            \
    static void dot_##name(ptrdiff_t m, const ptrdiff_t *offset, const void *indices,              \
                           const void *values, const double *w, double *z)                         \
    {                                                                                              \
        dot_rows(index_type, value_type, m, offset, indices, values, w, z);                        \
    }                                                                                              \
    static void scatter_##name(ptrdiff_t m, const ptrdiff_t *offset, const void *indices,          \
                               const void *values, const double *s, double *gradient)              \
    {                                                                                              \
        scatter_rows(index_type, value_type, m, offset, indices, values, s, gradient);             \
    }                                                                                              \
    static void outer_##name(ptrdiff_t m, const ptrdiff_t *offset, const void *indices,            \
                             const void *values, const double *row_scale, const double *s,         \
                             const double *cross, ptrdiff_t dim, double *out)                      \
    {                                                                                              \
        outer_rows(index_type, value_type, m, offset, indices, values, row_scale, s, cross, dim,   \
                   out);                                                                           \
    }                                                                                              \
    static void form_##name(ptrdiff_t m, const ptrdiff_t *offset, const void *indices,             \
                            const void *values, const double *row_scale, double intercept,         \
                            ptrdiff_t dim, const double *a, double *z)                             \
    {                                                                                              \
        form_rows(index_type, value_type, m, offset, indices, values, row_scale, intercept, dim,   \
                  a, z);                                                                           \
    }
STAMP_INNER_LOOPS(int32_float64, DPFAST_INT32, DPFAST_FLOAT64)
STAMP_INNER_LOOPS(int32_float32, DPFAST_INT32, DPFAST_FLOAT32)
STAMP_INNER_LOOPS(int32_ones, DPFAST_INT32, IMPLICIT_ONES)
STAMP_INNER_LOOPS(int64_float64, DPFAST_INT64, DPFAST_FLOAT64)
STAMP_INNER_LOOPS(int64_float32, DPFAST_INT64, DPFAST_FLOAT32)
STAMP_INNER_LOOPS(int64_ones, DPFAST_INT64, IMPLICIT_ONES)
STAMP_INNER_LOOPS(uint16_float64, DPFAST_UINT16, DPFAST_FLOAT64)
STAMP_INNER_LOOPS(uint16_float32, DPFAST_UINT16, DPFAST_FLOAT32)
STAMP_INNER_LOOPS(uint16_ones, DPFAST_UINT16, IMPLICIT_ONES)

#define LIST_INNER_LOOPS(name) {dot_##name, scatter_##name, outer_##name, form_##name}
/* Indexed by dpfast_index, then by dpfast_scalar or IMPLICIT_ONES. */
static const inner_loops all_inner_loops[3][3] = {
    {LIST_INNER_LOOPS(int32_float64), LIST_INNER_LOOPS(int32_float32),
     LIST_INNER_LOOPS(int32_ones)},
    {LIST_INNER_LOOPS(int64_float64), LIST_INNER_LOOPS(int64_float32),
     LIST_INNER_LOOPS(int64_ones)},
    {LIST_INNER_LOOPS(uint16_float64), LIST_INNER_LOOPS(uint16_float32),
     LIST_INNER_LOOPS(uint16_ones)},
};

static const inner_loops *inner_loops_of(const dpfast_csr *rows)
{
    return &all_inner_loops[rows->index_type]
                           [rows->values != NULL ? (int)rows->scalar : IMPLICIT_ONES];
}

/* ---- Blocks of rows -------------------------------------------------------------------------- */

/* Row start + i of the block from row `start` on has the entries [offset[i], offset[i + 1]).
 * Returns the number of rows. */
static ptrdiff_t block_offsets(const dpfast_csr *rows, ptrdiff_t start, ptrdiff_t *offset)
{
    const ptrdiff_t left = rows->n - start;
    const ptrdiff_t most = left < DPFAST_BLOCK_ROWS ? left : DPFAST_BLOCK_ROWS;
    ptrdiff_t m;
    offset[0] = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, start);
    for (m = 0; m < most; m++) {
        offset[m + 1] =
            (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, start + m + 1);
        if (m > 0 && offset[m + 1] - offset[0] > BLOCK_ENTRIES) {
            break;
        }
    }
    return m;
}

/* Margins of the m rows from `start` on. */
DPFAST_INLINE void margins_block(const dpfast_csr *rows, const inner_loops *loops, const double *w,
                                 ptrdiff_t start, ptrdiff_t m, const ptrdiff_t *offset,
                                 double *DPFAST_RESTRICT z)
{
    ptrdiff_t i;
    loops->dot(m, offset, rows->indices, rows->values, w, z);
    if (rows->row_scale != NULL) {
        for (i = 0; i < m; i++) {
            z[i] *= rows->row_scale[start + i];
        }
    }
    if (rows->intercept != 0.0) {
        const double constant = rows->intercept * w[rows->d];
        for (i = 0; i < m; i++) {
            z[i] += constant;
        }
    }
}

/* ---- The kernels ----------------------------------------------------------------------------- */

static void margins(const dpfast_csr *rows, const double *w, double *out)
{
    const inner_loops *loops = inner_loops_of(rows);
    ptrdiff_t offset[DPFAST_BLOCK_ROWS + 1];
    ptrdiff_t start, m;
    for (start = 0; start < rows->n; start += m) {
        m = block_offsets(rows, start, offset);
        margins_block(rows, loops, w, start, m, offset, out + start);
    }
}

static void add_rows(const dpfast_csr *rows, const double *s, double *sum)
{
    const inner_loops *loops = inner_loops_of(rows);
    ptrdiff_t offset[DPFAST_BLOCK_ROWS + 1];
    double t[DPFAST_BLOCK_ROWS], constant = 0.0;
    ptrdiff_t start, m, i;
    for (start = 0; start < rows->n; start += m) {
        m = block_offsets(rows, start, offset);
        for (i = 0; i < m; i++) {
            t[i] = rows->row_scale != NULL ? s[start + i] * rows->row_scale[start + i]
                                           : s[start + i];
        }
        constant += block_sum(m, s + start);
        loops->scatter(m, offset, rows->indices, rows->values, t, sum);
    }
    if (rows->intercept != 0.0) {
        sum[rows->d] += constant * rows->intercept;
    }
}

static double gradient(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                       double clip_norm, double loss_clip, double *out)
{
    const inner_loops *loops = inner_loops_of(rows);
    const loss_block losses_of_block = loss_blocks[loss->id];
    const int clipped = rows->inverse_norm != NULL && clip_norm < INFINITY;
    ptrdiff_t offset[DPFAST_BLOCK_ROWS + 1];
    double z[DPFAST_BLOCK_ROWS], s[DPFAST_BLOCK_ROWS];
    double loss_sum = 0.0, derivative_sum = 0.0;
    ptrdiff_t start, m;

    if (out != NULL) {
        memset(out, 0, (size_t)rows->d * sizeof *out);
    }
    for (start = 0; start < rows->n; start += m) {
        const double *weight = rows->weight != NULL ? rows->weight + start : NULL;
        m = block_offsets(rows, start, offset);
        margins_block(rows, loops, w, start, m, offset, z);
        loss_sum += losses_of_block(m, z, rows->target + start, weight, loss, loss_clip,
                                    out != NULL ? s : NULL);
        if (out == NULL) {
            continue;
        }
        derivative_sum += settle_derivatives(
            m, clipped ? rows->inverse_norm + start : NULL, rows->consistent, clip_norm, weight,
            rows->row_scale != NULL ? rows->row_scale + start : NULL, s);
        loops->scatter(m, offset, rows->indices, rows->values, s, out);
    }
    if (out != NULL && rows->intercept != 0.0) {
        out[rows->d] = derivative_sum * rows->intercept;
    }
    return loss_sum;
}

static void add_hessian(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                        double *out)
{
    const inner_loops *loops = inner_loops_of(rows);
    const curvature_block curvatures_of_block = curvature_blocks[loss->id];
    const ptrdiff_t dim = rows->d + (rows->intercept != 0.0);
    ptrdiff_t offset[DPFAST_BLOCK_ROWS + 1];
    double z[DPFAST_BLOCK_ROWS], s[DPFAST_BLOCK_ROWS], cross[DPFAST_BLOCK_ROWS];
    double curvature_sum = 0.0;
    ptrdiff_t start, m, i;

    for (start = 0; start < rows->n; start += m) {
        m = block_offsets(rows, start, offset);
        margins_block(rows, loops, w, start, m, offset, z);
        curvatures_of_block(m, z, rows->target + start, loss, s);
        if (rows->weight != NULL) {
            for (i = 0; i < m; i++) {
                s[i] *= rows->weight[start + i];
            }
        }
        if (rows->intercept != 0.0) {
            curvature_sum += block_sum(m, s);
        }
        for (i = 0; i < m; i++) {
            const double scale = rows->row_scale != NULL ? rows->row_scale[start + i] : 1.0;
            cross[i] = s[i] * scale * rows->intercept;
        }
        loops->outer(m, offset, rows->indices, rows->values,
                     rows->row_scale != NULL ? rows->row_scale + start : NULL, s,
                     rows->intercept != 0.0 ? cross : NULL, dim, out);
    }
    if (rows->intercept != 0.0) {
        out[dim * dim - 1] += curvature_sum * rows->intercept * rows->intercept;
    }
}

static void quadratic_forms(const dpfast_csr *rows, const double *matrix, double *forms)
{
    const inner_loops *loops = inner_loops_of(rows);
    const ptrdiff_t dim = rows->d + (rows->intercept != 0.0);
    ptrdiff_t offset[DPFAST_BLOCK_ROWS + 1];
    ptrdiff_t start, m;
    for (start = 0; start < rows->n; start += m) {
        m = block_offsets(rows, start, offset);
        loops->form(m, offset, rows->indices, rows->values,
                    rows->row_scale != NULL ? rows->row_scale + start : NULL, rows->intercept, dim,
                    matrix, forms + start);
    }
}

#undef BLOCK_ENTRIES
