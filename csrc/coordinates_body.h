/* The kernels of coordinates.h, stamped once per instruction set by dense_<isa>.c.  Deliberately no
 * include guard.
 *
 * Columns are padded with zeros to whole tiles, and stand in panels that registers hold for all rows of a tile:
 * the panel that begins at column p begins at entry p m of a matrix of m rows, and has one row after
 * another.  Blocks have room for DPFAST_GRAM_ROWS. */

#if DPFAST_LANES < 4
#define TILE 4
#define PANEL_VECS 2
#else
#define TILE DPFAST_LANES
#define PANEL_VECS 3
#endif
#define PANEL (PANEL_VECS * DPFAST_LANES)

static ptrdiff_t padded(ptrdiff_t columns)
{
    return (columns + TILE - 1) / TILE * TILE;
}

/* Entries of the panel at column p. */
DPFAST_INLINE ptrdiff_t panel_width(ptrdiff_t columns, ptrdiff_t p)
{
    return padded(columns) - p < PANEL ? padded(columns) - p : PANEL;
}

static void pack(const dpfast_map *map, ptrdiff_t dim, double *packed)
{
    const ptrdiff_t k = map->columns, rows = map->transform != NULL ? dim : 2;
    ptrdiff_t p, i, j;
    for (p = 0; p < k; p += PANEL) {
        const ptrdiff_t width = panel_width(k, p);
        for (i = 0; i < rows; i++) {
            const double *row = map->transform != NULL ? map->transform + i * k
                                                       : (i == 0 ? map->factor : map->shift);
            for (j = 0; j < width; j++) {
                *packed++ = p + j < k ? row[p + j] : 0.0;
            }
        }
    }
}

static void unpack(ptrdiff_t m, ptrdiff_t columns, const double *z, double *out)
{
    ptrdiff_t p, i;
    for (p = 0; p < columns; p += PANEL) {
        const ptrdiff_t width = panel_width(columns, p), left = columns - p;
        for (i = 0; i < m; i++) {
            memcpy(out + i * columns + p, z + p * DPFAST_GRAM_ROWS + i * width,
                   (size_t)(left < width ? left : width) * sizeof *out);
        }
    }
}

/* s[r * vecs + v] = sum_j a[r across + j along] b_j[v], b_j the vectors from b + j width on. */
DPFAST_INLINE void multiply_tile(ptrdiff_t count, const double *DPFAST_RESTRICT a, ptrdiff_t across,
                                 ptrdiff_t along, const double *DPFAST_RESTRICT b, ptrdiff_t width,
                                 int vecs, vec *s)
{
    ptrdiff_t j;
    int r, v;
    for (r = 0; r < TILE * vecs; r++) {
        s[r] = vec_set(0.0);
    }
    for (j = 0; j < count; j++) {
        vec c[PANEL_VECS];
        for (v = 0; v < vecs; v++) {
            c[v] = vec_load(b + j * width + v * DPFAST_LANES);
        }
        for (r = 0; r < TILE; r++) {
            const vec one = vec_set(a[r * across + j * along]);
            for (v = 0; v < vecs; v++) {
                s[r * vecs + v] = vec_mul_add(one, c[v], s[r * vecs + v]);
            }
        }
    }
}

/* Stores a tile of rows of a panel, and adds to their squares. */
DPFAST_INLINE void store_tile(const vec *s, int vecs, double *DPFAST_RESTRICT z,
                              double *DPFAST_RESTRICT squares)
{
    vec own[TILE];
    int r, v;
    for (r = 0; r < TILE; r++) {
        own[r] = vec_set(0.0);
        for (v = 0; v < vecs; v++) {
            vec_store(z + (r * vecs + v) * DPFAST_LANES, s[r * vecs + v]);
            own[r] = vec_mul_add(s[r * vecs + v], s[r * vecs + v], own[r]);
        }
    }
    for (r = 0; r < TILE; r += DPFAST_LANES) {
        vec_store(squares + r, vec_add(vec_load(squares + r), vec_sums(own + r)));
    }
}

/* With each tile of rows, `bytes` a row are fetched from `next` on. */
DPFAST_INLINE void map_panel(const dpfast_map *map, ptrdiff_t m, ptrdiff_t dim, ptrdiff_t p, int vecs,
                             const double *DPFAST_RESTRICT x, const double *DPFAST_RESTRICT packed,
                             double *DPFAST_RESTRICT z, double *DPFAST_RESTRICT squares,
                             const void *next, ptrdiff_t bytes)
{
    const ptrdiff_t width = vecs * DPFAST_LANES;
    ptrdiff_t i, j;
    int r, v;
    for (i = 0; i < m; i += TILE) {
        vec s[TILE * PANEL_VECS];
        for (j = 0; p == 0 && j < TILE * bytes; j += 64) {
            DPFAST_PREFETCH_FAR(next, i * bytes + j);
        }
        if (map->transform != NULL) {
            multiply_tile(dim, x + i * dim, dim, 1, packed, width, vecs, s);
        } else {
            for (r = 0; r < TILE; r++) {
                for (v = 0; v < vecs; v++) {
                    j = p + v * DPFAST_LANES;
                    s[r * vecs + v] = vec_mul_add(
                        j < dim ? load_some(x + (i + r) * dim + j, dim - j) : vec_set(0.0),
                        vec_load(packed + v * DPFAST_LANES),
                        vec_load(packed + width + v * DPFAST_LANES));
                }
            }
        }
        store_tile(s, vecs, z + i * width, squares + i);
    }
}

static void coordinates(const dpfast_map *map, ptrdiff_t m, ptrdiff_t dim, const double *x,
                        const double *packed, double *z, double *squares, const void *next,
                        ptrdiff_t bytes)
{
    const ptrdiff_t rows = map->transform != NULL ? dim : 2;
    ptrdiff_t p;
    for (p = 0; p < map->columns; p += PANEL) {
        double *own = z + p * DPFAST_GRAM_ROWS;
        switch (panel_width(map->columns, p) / DPFAST_LANES) { /* a constant for the compiler */
        case 1: map_panel(map, m, dim, p, 1, x, packed + p * rows, own, squares, next, bytes); break;
        case 2: map_panel(map, m, dim, p, 2, x, packed + p * rows, own, squares, next, bytes); break;
        default: map_panel(map, m, dim, p, PANEL_VECS, x, packed + p * rows, own, squares, next, bytes);
        }
    }
}

/* Adds the products of TILE columns `a`, of rows `along` apart, with those of a panel. */
DPFAST_INLINE void add_gram_tile(ptrdiff_t m, const double *a, ptrdiff_t along, const double *b,
                                 ptrdiff_t width, int vecs, ptrdiff_t rows, ptrdiff_t columns,
                                 ptrdiff_t stride, double *DPFAST_RESTRICT gram)
{
    vec s[TILE * PANEL_VECS];
    int r, v;
    multiply_tile(m, a, 1, along, b, width, vecs, s);
    for (r = 0; r < TILE; r++) {
        for (v = 0; v < vecs; v++) {
            const ptrdiff_t left = columns - v * DPFAST_LANES;
            if (r < rows && left > 0) {
                double *at = gram + r * stride + v * DPFAST_LANES;
                store_some(at, vec_add(load_some(at, left), s[r * vecs + v]), left);
            }
        }
    }
}

static void add_gram(ptrdiff_t m, ptrdiff_t k, const double *factor, double *DPFAST_RESTRICT z,
                     double *DPFAST_RESTRICT gram)
{
    ptrdiff_t p, i, j;
    for (p = 0; p < k; p += PANEL) {
        double *own = z + p * DPFAST_GRAM_ROWS;
        const ptrdiff_t width = panel_width(k, p);
        for (i = 0; i < m; i++) {
            for (j = 0; j < width; j += DPFAST_LANES) {
                vec_store(own + i * width + j,
                          vec_mul(vec_load(own + i * width + j), vec_set(factor[i])));
            }
        }
        /* With the columns before, and its own: from where the upper triangle begins. */
        for (i = 0; i < p + width && i < k; i += TILE) {
            const ptrdiff_t q = i / PANEL * PANEL, along = panel_width(k, q);
            const ptrdiff_t skip = i > p ? (i - p) / DPFAST_LANES * DPFAST_LANES : 0;
            const double *a = z + q * DPFAST_GRAM_ROWS + i - q, *b = own + skip;
            double *at = gram + i * k + p + skip;
            const ptrdiff_t columns = k - p - skip;
            switch ((width - skip) / DPFAST_LANES) {
            case 1: add_gram_tile(m, a, along, b, width, 1, k - i, columns, k, at); break;
            case 2: add_gram_tile(m, a, along, b, width, 2, k - i, columns, k, at); break;
            default: add_gram_tile(m, a, along, b, width, PANEL_VECS, k - i, columns, k, at);
            }
        }
    }
}

#undef TILE
#undef PANEL_VECS
#undef PANEL
