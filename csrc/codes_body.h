/* Kernels on rows in codes, compiled once per instruction set by codes_stamp.h.  Deliberately no
 * include guard.  Rows are worked on in blocks, part by part: a block's margins stay in cache, and
 * so does the table of a part. */

/* z += table[code] over m rows. */
#define GATHER_CODES(type)                                                                         \
    for (i = 0; i < m; i++) {                                                                      \
        z[i] += table[((const type *)part->rows)[start + i]];                                      \
    }
#define GATHER_NUMBERS(type)                                                                       \
    for (i = 0; i < m; i++) {                                                                      \
        z[i] += (double)((const type *)part->rows)[start + i] * table[0];                          \
    }

static void gather_part(const dpfast_part *part, const double *DPFAST_RESTRICT table,
                        ptrdiff_t start, ptrdiff_t m, double *DPFAST_RESTRICT z)
{
    ptrdiff_t i;
    switch (part->type) {
    case DPFAST_CODE_UINT8:
        GATHER_CODES(uint8_t)
        break;
    case DPFAST_CODE_UINT16:
        GATHER_CODES(uint16_t)
        break;
    case DPFAST_CODE_UINT32:
        GATHER_CODES(uint32_t)
        break;
    case DPFAST_NUMBER_FLOAT32:
        GATHER_NUMBERS(float)
        break;
    default:
        GATHER_NUMBERS(double)
    }
}

/* Whether parts p to p + 3 are codes of a byte, as most are.  Four at once are summed in the same
 * order as one after another, and a block's sums are loaded and stored once. */
static int four_of_bytes(const dpfast_coded *rows, ptrdiff_t p)
{
    const dpfast_part *part = rows->part + p;
    return p + 4 <= rows->parts && part[0].type == DPFAST_CODE_UINT8 &&
           part[1].type == DPFAST_CODE_UINT8 && part[2].type == DPFAST_CODE_UINT8 &&
           part[3].type == DPFAST_CODE_UINT8;
}

static void gather_four(const dpfast_part *part, const double *DPFAST_RESTRICT table,
                        ptrdiff_t start, ptrdiff_t m, double *DPFAST_RESTRICT z)
{
    const uint8_t *a = (const uint8_t *)part[0].rows + start;
    const uint8_t *b = (const uint8_t *)part[1].rows + start;
    const uint8_t *c = (const uint8_t *)part[2].rows + start;
    const uint8_t *d = (const uint8_t *)part[3].rows + start;
    const double *table_b = table + part[0].levels, *table_c = table_b + part[1].levels;
    const double *table_d = table_c + part[2].levels;
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        z[i] = (((z[i] + table[a[i]]) + table_b[b[i]]) + table_c[c[i]]) + table_d[d[i]];
    }
}

static void gather_block(const dpfast_coded *rows, const double *table, ptrdiff_t start,
                         ptrdiff_t m, double *z)
{
    ptrdiff_t i, p, count;
    for (i = 0; i < m; i++) {
        z[i] = 0.0;
    }
    for (p = 0; p < rows->parts; p += count) {
        count = 1;
        if (four_of_bytes(rows, p)) {
            count = 4;
            gather_four(&rows->part[p], table, start, m, z);
        } else {
            gather_part(&rows->part[p], table, start, m, z);
        }
        for (i = 0; i < count; i++) {
            table += dpfast_part_levels(&rows->part[p + i]);
        }
    }
}

/* Every other row has a table of its own: an addition need not wait for the one before where
 * neighboring rows have the same code. */
#define SCATTER_CODES(type)                                                                        \
    for (i = 0; i + 2 <= m; i += 2) {                                                              \
        one[((const type *)part->rows)[start + i]] += s[i];                                        \
        other[((const type *)part->rows)[start + i + 1]] += s[i + 1];                              \
    }                                                                                              \
    if (i < m) {                                                                                   \
        one[((const type *)part->rows)[start + i]] += s[i];                                        \
    }
#define SCATTER_NUMBERS(type)                                                                      \
    for (i = 0; i + 4 <= m; i += 4) {                                                              \
        const type *x = (const type *)part->rows + start + i;                                      \
        s0 += (double)x[0] * s[i];                                                                 \
        s1 += (double)x[1] * s[i + 1];                                                             \
        s2 += (double)x[2] * s[i + 2];                                                             \
        s3 += (double)x[3] * s[i + 3];                                                             \
    }                                                                                              \
    for (; i < m; i++) {                                                                           \
        s0 += (double)((const type *)part->rows)[start + i] * s[i];                                \
    }

static void scatter_part(const dpfast_part *part, ptrdiff_t start, ptrdiff_t m,
                         const double *DPFAST_RESTRICT s, double *DPFAST_RESTRICT one,
                         double *DPFAST_RESTRICT other)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    ptrdiff_t i;
    switch (part->type) {
    case DPFAST_CODE_UINT8:
        SCATTER_CODES(uint8_t)
        return;
    case DPFAST_CODE_UINT16:
        SCATTER_CODES(uint16_t)
        return;
    case DPFAST_CODE_UINT32:
        SCATTER_CODES(uint32_t)
        return;
    case DPFAST_NUMBER_FLOAT32:
        SCATTER_NUMBERS(float)
        break;
    default:
        SCATTER_NUMBERS(double)
    }
    one[0] += (s0 + s2) + (s1 + s3);
}

static void scatter_four(const dpfast_part *part, ptrdiff_t start, ptrdiff_t m,
                         const double *DPFAST_RESTRICT s, double *one, double *other)
{
    const uint8_t *a = (const uint8_t *)part[0].rows + start;
    const uint8_t *b = (const uint8_t *)part[1].rows + start;
    const uint8_t *c = (const uint8_t *)part[2].rows + start;
    const uint8_t *d = (const uint8_t *)part[3].rows + start;
    const ptrdiff_t to_b = part[0].levels, to_c = to_b + part[1].levels;
    const ptrdiff_t to_d = to_c + part[2].levels;
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        double *swap = one;
        one[a[i]] += s[i];
        one[to_b + b[i]] += s[i];
        one[to_c + c[i]] += s[i];
        one[to_d + d[i]] += s[i];
        one = other;
        other = swap;
    }
}

static void scatter_block(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t m, const double *s,
                          ptrdiff_t levels, double *tables)
{
    ptrdiff_t i, p, count;
    for (p = 0; p < rows->parts; p += count) {
        count = 1;
        if (four_of_bytes(rows, p)) {
            count = 4;
            scatter_four(&rows->part[p], start, m, s, tables, tables + levels);
        } else {
            scatter_part(&rows->part[p], start, m, s, tables, tables + levels);
        }
        for (i = 0; i < count; i++) {
            tables += dpfast_part_levels(&rows->part[p + i]);
        }
    }
}

static ptrdiff_t block_of(ptrdiff_t left)
{
    return left < DPFAST_BLOCK_ROWS ? left : DPFAST_BLOCK_ROWS;
}

static void gather(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t n, const double *table,
                   double *out)
{
    ptrdiff_t at;
    for (at = 0; at < n; at += DPFAST_BLOCK_ROWS) {
        gather_block(rows, table, start + at, block_of(n - at), out + at);
    }
}

static void scatter(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t n, const double *s,
                    ptrdiff_t levels, double *tables)
{
    ptrdiff_t at;
    for (at = 0; at < n; at += DPFAST_BLOCK_ROWS) {
        scatter_block(rows, start + at, block_of(n - at), s + at, levels, tables);
    }
}

static double slopes(const dpfast_coded *rows, ptrdiff_t start, const dpfast_csr *beside,
                     const dpfast_loss *loss, const double *table, double constant,
                     double clip_norm, double loss_clip, ptrdiff_t levels, double *tables,
                     double *derivative_sum)
{
    const loss_block losses_of_block = loss_blocks[loss->id];
    const int clipped = beside->inverse_norm != NULL && clip_norm < INFINITY;
    double z[DPFAST_BLOCK_ROWS], s[DPFAST_BLOCK_ROWS];
    double loss_sum = 0.0;
    ptrdiff_t at, m, i;
    *derivative_sum = 0.0;
    for (at = 0; at < beside->n; at += m) {
        const double *weight = beside->weight != NULL ? beside->weight + at : NULL;
        const double *scale = beside->row_scale != NULL ? beside->row_scale + at : NULL;
        m = block_of(beside->n - at);
        gather_block(rows, table, start + at, m, z);
        for (i = 0; i < m; i++) {
            z[i] = (scale != NULL ? scale[i] * z[i] : z[i]) + constant;
        }
        loss_sum += losses_of_block(m, z, beside->target + at, weight, loss, loss_clip,
                                    tables != NULL ? s : NULL);
        if (tables != NULL) {
            *derivative_sum +=
                settle_derivatives(m, clipped ? beside->inverse_norm + at : NULL,
                                   beside->consistent, clip_norm, weight, scale, s);
            scatter_block(rows, start + at, m, s, levels, tables);
        }
    }
    return loss_sum;
}

#undef GATHER_CODES
#undef GATHER_NUMBERS
#undef SCATTER_CODES
#undef SCATTER_NUMBERS
