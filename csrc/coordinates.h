/* Rows in other coordinates, a block at a time in cache: their lengths, and the matrix of their second
 * moments.  What a row is there is the same to the last bit wherever it is among others. */
#ifndef DPFAST_COORDINATES_H
#define DPFAST_COORDINATES_H

#include <stddef.h>

#include "dense.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* z_i = W^T x~_i; or, without W, z_ij = x~_ij factor_j + shift_j for the first columns. */
typedef struct dpfast_map {
    ptrdiff_t columns;            /* of z; at most dim without a transform */
    const double *transform;      /* W, dim x columns, row-major; or NULL */
    const double *factor, *shift; /* columns each, if there is no transform */
} dpfast_map;

/* Entries of scratch that the functions below need. */
ptrdiff_t dpfast_coordinates_scratch(ptrdiff_t dim, const dpfast_map *map);

/* squares[i] = ||z_i||^2, and z (n x columns, row-major; NULL: left out) the rows.  An entry of z is
 * added up in the order of the columns of x~, with at most dim roundings of products and as many of
 * sums; a square passes through at most columns + 8 additions.  DPFAST_ERR_NONFINITE if a square is not
 * finite. */
dpfast_status dpfast_dense_coordinates(const dpfast_dense *rows, const dpfast_map *map,
                                       double *scratch, double *z, double *squares);

/* Adds sum_i share_i f_i^2 z_i z_i^T to the upper triangle of gram (columns x columns, row-major; what
 * is below is overwritten with anything), f_i <= 1 what shortens row i to the norm `radius` > 0,
 * rounded down; share_i >= 0 (NULL: 1).  Rows are added up one after another within blocks of
 * DPFAST_GRAM_ROWS, then the blocks.  DPFAST_ERR_NONFINITE if a row is not finite. */
#define DPFAST_GRAM_ROWS 128
dpfast_status dpfast_dense_gram(const dpfast_dense *rows, const dpfast_map *map, double radius,
                                const double *share, double *scratch, double *gram);

#ifdef __cplusplus
}
#endif

#endif
