/* Private: the kernels that are compiled once per instruction set, as a table.  dense.c and
 * line_search.c check arguments and pick a table; dense_<isa>.c fill theirs by stamping
 * dense_stamp.h. */
#ifndef DPFAST_DENSE_OPS_H
#define DPFAST_DENSE_OPS_H

#include "dpfast.h"

typedef struct dpfast_dense_ops {
    void (*row_square_sums)(const dpfast_dense *rows, double *sums);
    void (*margins)(const dpfast_dense *rows, const double *w, double *margins);
    /* sum += sum_i s_i x~_i */
    void (*add_rows)(const dpfast_dense *rows, const double *s, double *sum);
    /* Of n_classes vectors w, dim apart; margins and s are n apart. */
    void (*class_margins)(const dpfast_dense *rows, ptrdiff_t n_classes, const double *w,
                          double *margins);
    void (*add_class_rows)(const dpfast_dense *rows, ptrdiff_t n_classes, const double *s,
                           double *sum);
    /* gradient may be NULL: the loss sum alone */
    double (*gradient)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                       double clip_norm, double loss_clip, double *gradient);
    void (*curvature_rows)(const dpfast_dense *rows, const dpfast_loss *loss, const double *w,
                           int sign, double *out);
    /* out (m x dim, row-major) = the rows from `start` on */
    void (*write)(const dpfast_dense *rows, ptrdiff_t start, ptrdiff_t m, double *out);
} dpfast_dense_ops;

typedef struct dpfast_vector_ops {
    void (*line_search)(ptrdiff_t n, const double *margin, const double *direction_margin,
                        const double *target, const double *weight, const dpfast_loss *loss,
                        double loss_clip, ptrdiff_t n_steps, const double *steps, double *out);
    void (*exp_points)(ptrdiff_t n, const double *x, double *out);
    /* softmax.h's slopes, of labels that are classes; 0, or NaN if a margin is not finite */
    double (*softmax)(ptrdiff_t m, ptrdiff_t n_classes, const double *target, const double *weight,
                      const float *inverse_norm, int consistent, double clip_norm, double *z);
    double (*read_sum)(ptrdiff_t n, const double *x);
    /* loss sum, and the derivatives without the weights */
    double (*losses)(ptrdiff_t n, const double *margin, const double *target, const double *weight,
                     const dpfast_loss *loss, double loss_clip, double *derivative);
    /* lower triangle, row by row, of the products of n rows of d entries each */
    void (*products)(ptrdiff_t n, ptrdiff_t d, const double *rows, double *triangle);
    /* s^T A s, less its diagonal's part, for the symmetric A of a lower triangle; scratch of n
     * entries */
    double (*form)(ptrdiff_t n, const double *triangle, const double *s, double *scratch);
    /* ||A^T s||^2 for A (n x n, row-major); scratch of n entries */
    double (*square_through)(ptrdiff_t n, const double *a, const double *s, double *scratch);
    /* What coordinates.c makes of blocks of rows, in the panels of coordinates_body.h: a map, z in rows
     * again, z of whole tiles of rows, to whose squares is added, while so many bytes a row are
     * fetched from `next` on, and the products of z, scaled. */
    void (*pack)(const dpfast_map *map, ptrdiff_t dim, double *packed);
    void (*unpack)(ptrdiff_t m, ptrdiff_t columns, const double *z, double *out);
    void (*coordinates)(const dpfast_map *map, ptrdiff_t m, ptrdiff_t dim, const double *x,
                        const double *packed, double *z, double *squares, const void *next,
                        ptrdiff_t bytes);
    void (*add_gram)(ptrdiff_t m, ptrdiff_t columns, const double *factor, double *z, double *gram);
} dpfast_vector_ops;

/* dpfast_dense_ops_<isa> is indexed by dpfast_scalar. */
#define DECLARE_OPS(isa)                                                                           \
    extern const dpfast_dense_ops dpfast_dense_ops_##isa[2];                                       \
    extern const dpfast_vector_ops dpfast_vector_ops_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

#endif
