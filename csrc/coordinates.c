/* Public entry of the kernels of coordinates.h: argument checks, the walk over blocks of rows, the
 * refusal of anything that is not finite, and what shortens rows. */
#include "coordinates.h"

#include "dense_ops.h"
#include "finite.h"

#include <math.h>
#include <string.h>

/* What divides into whole tiles of each instruction set. */
#define WHOLE(count) (((count) + 7) / 8 * 8)

/* Rows up to this length are fetched a block ahead: the memory would idle while a block is worked on. */
#define FETCHED_BYTES 256

/* A block of rows: as they are, and in the coordinates. */
typedef struct block {
    const dpfast_dense *rows;
    const dpfast_map *map;
    const dpfast_vector_ops *ops;
    ptrdiff_t dim;
    double *packed, *x, *z;
    double squares[DPFAST_GRAM_ROWS];
} block;

static ptrdiff_t dim_of(const dpfast_dense *rows)
{
    return rows->d + (rows->intercept != 0.0);
}

ptrdiff_t dpfast_coordinates_scratch(ptrdiff_t dim, const dpfast_map *map)
{
    const ptrdiff_t columns = WHOLE(map->columns);
    return (map->transform != NULL ? dim : 2) * columns + DPFAST_GRAM_ROWS * (dim + columns);
}

static int valid(const dpfast_dense *rows, const dpfast_map *map, const double *scratch)
{
    return rows->n >= 0 && rows->d >= 0 && isfinite(rows->intercept) &&
           rows->row_stride >= rows->d && (rows->n == 0 || rows->d == 0 || rows->x != NULL) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32) && scratch != NULL &&
           map->columns >= 0 &&
           (map->transform != NULL || (map->factor != NULL && map->shift != NULL &&
                                       map->columns - (rows->intercept != 0.0) <= rows->d));
}

static block begin(const dpfast_dense *rows, const dpfast_map *map, double *scratch)
{
    const ptrdiff_t columns = WHOLE(map->columns), dim = dim_of(rows);
    block b;
    b.rows = rows;
    b.map = map;
    b.ops = &DPFAST_OF_ISA_IN_USE(dpfast_vector_ops);
    b.dim = dim;
    b.z = scratch;
    b.packed = b.z + DPFAST_GRAM_ROWS * columns;
    b.x = b.packed + (map->transform != NULL ? dim : 2) * columns;
    b.ops->pack(map, dim, b.packed);
    return b;
}

/* Brings rows [start, start + m) into the coordinates; returns whether all are finite. */
static int move(block *b, ptrdiff_t start, ptrdiff_t m)
{
    const ptrdiff_t whole = WHOLE(m), entry = b->rows->scalar == DPFAST_FLOAT64 ? 8 : 4;
    const ptrdiff_t bytes = b->rows->row_stride * entry;
    const int fetched = bytes <= FETCHED_BYTES && start + 2 * m <= b->rows->n;
    const char *next = fetched ? (const char *)b->rows->x + (start + m) * bytes : b->rows->x;
    DPFAST_OF_ISA_IN_USE(dpfast_dense_ops)[b->rows->scalar].write(b->rows, start, m, b->x);
    memset(b->x + m * b->dim, 0, (size_t)((whole - m) * b->dim) * sizeof *b->x);
    memset(b->squares, 0, sizeof b->squares);
    b->ops->coordinates(b->map, whole, b->dim, b->x, b->packed, b->z, b->squares, next,
                        fetched ? bytes : 0);
    return all_finite(m, b->squares);
}

dpfast_status dpfast_dense_coordinates(const dpfast_dense *rows, const dpfast_map *map,
                                       double *scratch, double *z, double *squares)
{
    ptrdiff_t start;
    block b;
    if (!valid(rows, map, scratch) || squares == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    b = begin(rows, map, scratch);
    for (start = 0; start < rows->n; start += DPFAST_GRAM_ROWS) {
        const ptrdiff_t left = rows->n - start, m = left < DPFAST_GRAM_ROWS ? left : DPFAST_GRAM_ROWS;
        if (!move(&b, start, m)) {
            return DPFAST_ERR_NONFINITE;
        }
        memcpy(squares + start, b.squares, (size_t)m * sizeof *squares);
        if (z != NULL) {
            b.ops->unpack(m, map->columns, b.z, z + start * map->columns);
        }
    }
    return DPFAST_OK;
}

dpfast_status dpfast_dense_gram(const dpfast_dense *rows, const dpfast_map *map, double radius,
                                const double *share, double *scratch, double *gram)
{
    const double grow = 1.0 + (double)(map->columns + 8) * 0x1p-53;
    ptrdiff_t start, i;
    block b;
    if (!valid(rows, map, scratch) || gram == NULL || !(radius > 0.0)) {
        return DPFAST_ERR_ARGUMENT;
    }
    b = begin(rows, map, scratch);
    for (start = 0; start < rows->n; start += DPFAST_GRAM_ROWS) {
        const ptrdiff_t left = rows->n - start, m = left < DPFAST_GRAM_ROWS ? left : DPFAST_GRAM_ROWS;
        double factor[DPFAST_GRAM_ROWS];
        if (!move(&b, start, m)) {
            return DPFAST_ERR_NONFINITE;
        }
        for (i = 0; i < m; i++) {
            const double norm = sqrt(b.squares[i]) * grow;
            factor[i] = radius / (norm > radius ? norm : radius);
        }
        for (i = 0; share != NULL && i < m; i++) {
            factor[i] *= sqrt(share[start + i]);
        }
        b.ops->add_gram(m, map->columns, factor, b.z, gram);
    }
    return DPFAST_OK;
}
