/* The affine kernels without Python, in buffers that are exactly as large as they must be: rows of
 * both types, with gaps between them, against loops; sparse rows against the same rows written out;
 * all instruction sets. */
#include "check.h"
#include "dpfast.h"

/* Through a square matrix, and column by column; NaN is refused. */
static void check_gram(const dpfast_dense *rows, double *x, ptrdiff_t dim, const double *factor,
                       const double *transform, unsigned *state)
{
    const ptrdiff_t n = rows->n, d = rows->d;
    const double radius = 0.7;
    int kind;
    for (kind = 0; kind < 2; kind++) {
        const dpfast_map map = {dim, kind == 0 ? transform : NULL, factor, factor};
        double *room = uniforms(dpfast_coordinates_scratch(dim, &map), state);
        double *gram = uniforms(dim * dim, state), *z = uniforms(dim, state);
        double *expected = uniforms(dim * dim, state), *squares = uniforms(n, state);
        ptrdiff_t i, j, k;
        memcpy(expected, gram, (size_t)(dim * dim) * sizeof *gram);
        CHECK(dpfast_dense_gram(rows, &map, radius, rows->row_scale, room, gram) == DPFAST_OK);
        for (i = 0; i < n; i++) {
            double square = 0.0, count;
            for (k = 0; k < dim; k++) {
                z[k] = kind == 0 ? 0.0 : factor[k];
                for (j = 0; j < dim; j++) {
                    const double entry = j < d ? rows->row_scale[i] * x[i * rows->row_stride + j]
                                               : rows->intercept;
                    z[k] += entry * (kind == 0 ? transform[j * dim + k] : j == k ? factor[k] : 0.0);
                }
                square += z[k] * z[k];
            }
            count = rows->row_scale[i] * (square > radius * radius ? radius * radius / square : 1.0);
            for (j = 0; j < dim; j++) {
                for (k = j; k < dim; k++) expected[j * dim + k] += count * z[j] * z[k];
            }
        }
        for (j = 0; j < dim; j++) {
            for (k = j; k < dim; k++) {
                CHECK(fabs(gram[j * dim + k] - expected[j * dim + k]) <= 1e-12);
            }
        }
        if (n > 0 && d > 0 && rows->scalar == DPFAST_FLOAT64) {
            double *last = &x[(n - 1) * rows->row_stride + d - 1], before = *last;
            *last = NAN;
            CHECK(dpfast_dense_gram(rows, &map, radius, NULL, room, gram) == DPFAST_ERR_NONFINITE);
            CHECK(dpfast_dense_coordinates(rows, &map, room, NULL, squares) ==
                  DPFAST_ERR_NONFINITE);
            *last = before;
        }
        free(room); free(gram); free(z); free(expected); free(squares);
    }
}

/* Dense rows, every third entry zero, and the others as sparse rows. */
static void check_shape(ptrdiff_t n, ptrdiff_t d, double intercept, dpfast_scalar scalar)
{
    unsigned state = 7;
    const ptrdiff_t stride = d + 1, dim = d + (intercept != 0.0);
    const ptrdiff_t entries = n > 0 ? (n - 1) * stride + d : 0;
    double *x = uniforms(entries, &state), *scale = uniforms(n, &state);
    double *factor = uniforms(dim, &state), *shift = uniforms(dim, &state);
    double *matrix = uniforms(dim * dim, &state), *squares = uniforms(n, &state);
    double *stored = uniforms(n * d, &state), *forms = uniforms(n, &state);
    float *narrow = malloc((size_t)(entries + 1) * sizeof *narrow);
    int32_t *indptr = malloc((size_t)(n + 1) * sizeof *indptr);
    int32_t *indices = malloc((size_t)(n * d + 1) * sizeof *indices);
    ptrdiff_t columns, i, j, k, nnz = 0;
    dpfast_dense dense;
    dpfast_csr csr;

    indptr[0] = 0;
    for (i = 0; i < n; i++) {
        scale[i] = 0.5 + 0.5 * fabs(scale[i]);
        for (j = 0; j < d; j++) {
            double *entry = &x[i * stride + j];
            *entry = (i + j) % 3 == 0 ? 0.0 : (double)(float)*entry;
            narrow[i * stride + j] = (float)*entry;
            if (*entry != 0.0) {
                stored[nnz] = *entry;
                indices[nnz++] = (int32_t)j;
            }
        }
        indptr[i + 1] = (int32_t)nnz;
    }
    for (i = 0; i < dim; i++) {
        for (j = 0; j < i; j++) matrix[i * dim + j] = matrix[j * dim + i];
    }
    memset(&dense, 0, sizeof dense);
    dense.n = n;
    dense.d = d;
    dense.row_stride = stride;
    dense.scalar = scalar;
    dense.x = scalar == DPFAST_FLOAT64 ? (const void *)x : (const void *)narrow;
    dense.row_scale = scale;
    dense.intercept = intercept;
    memset(&csr, 0, sizeof csr);
    csr.n = n;
    csr.d = d;
    csr.indptr = indptr;
    csr.indices = indices;
    csr.values = stored;
    csr.scalar = DPFAST_FLOAT64;
    csr.row_scale = scale;
    csr.intercept = intercept;

    for (columns = d; columns <= dim; columns++) {
        double *out = uniforms(n * columns, &state), *other = uniforms(n * columns, &state);
        float *single = malloc((size_t)(n * columns + 1) * sizeof *single);
        const dpfast_map map = {columns, NULL, factor, shift};
        double *room = uniforms(dpfast_coordinates_scratch(dim, &map), &state);
        CHECK(dpfast_dense_coordinates(&dense, &map, room, out, squares) == DPFAST_OK);
        CHECK(dpfast_csr_affine_rows(&csr, columns, factor, shift, other, forms) == DPFAST_OK);
        CHECK(dpfast_dense_affine_rows_float(&dense, columns, factor, shift, single) == DPFAST_OK);
        for (i = 0; i < n; i++) {
            double square = 0.0;
            for (j = 0; j < columns; j++) {
                const double row = j < d ? scale[i] * x[i * stride + j] : intercept;
                const double expected = row * factor[j] + shift[j];
                CHECK(fabs(out[i * columns + j] - expected) <= 4e-16);
                CHECK(fabs(other[i * columns + j] - expected) <= 4e-16);
                CHECK(fabs(single[i * columns + j] - expected) <= 1.3e-7);
                square += expected * expected;
            }
            CHECK(fabs(squares[i] - square) <= 1e-15 * (double)(columns + 1));
            CHECK(fabs(forms[i] - square) <= 1e-15 * (double)(columns + 1));
        }
        free(out); free(other); free(single); free(room);
    }
    {
        const double radius = 0.7;
        double *z = uniforms(DPFAST_PART_ROWS * d, &state), *sums = uniforms(3 * d, &state);
        double *expected = malloc((size_t)(3 * d + 1) * sizeof *expected);
        double *sparse = malloc((size_t)(3 * d + 1) * sizeof *sparse);
        memcpy(expected, sums, (size_t)(3 * d) * sizeof *sums);
        memcpy(sparse, sums, (size_t)(3 * d) * sizeof *sums);
        for (i = 0; i < n; i++) {
            double norm = 0.0;
            for (j = 0; j < d; j++) {
                const double entry = scale[i] * x[i * stride + j] * factor[j] + shift[j];
                norm += entry * entry;
            }
            norm = sqrt(norm);
            for (j = 0; j < d; j++) {
                const double shorter = norm > radius ? radius / norm : 1.0;
                const double entry =
                    shorter * (scale[i] * x[i * stride + j] * factor[j] + shift[j]);
                expected[j] += scale[i] * (entry > 0.0 ? entry : 0.0);
                expected[d + j] += scale[i] * (entry < 0.0 ? -entry : 0.0);
                expected[2 * d + j] += scale[i] * entry * entry;
            }
        }
        CHECK(dpfast_dense_part_sums(&dense, factor, shift, radius, scale, z, sums, sums + d,
                                     sums + 2 * d) == DPFAST_OK);
        CHECK(dpfast_csr_part_sums(&csr, factor, shift, radius, scale, sparse, sparse + d,
                                   sparse + 2 * d) == DPFAST_OK);
        for (j = 0; j < 3 * d; j++) {
            CHECK(fabs(sums[j] - expected[j]) <= 1e-15 * (double)(n + 8));
            CHECK(fabs(sparse[j] - expected[j]) <= 2e-14 * (double)(n + 8));
        }
        CHECK(dpfast_csr_part_sums(&csr, factor, shift, radius, NULL, sparse, sparse + d, NULL) ==
              DPFAST_OK);
        CHECK(dpfast_csr_shortening(&csr, factor, shift, radius, forms) == DPFAST_OK);
        for (i = 0; i < n; i++) CHECK(forms[i] > 0.0 && forms[i] <= 1.0);
        CHECK(dpfast_dense_part_sums(&dense, factor, shift, radius, scale, z, sums, sums + d,
                                     NULL) == DPFAST_OK);
        for (j = 2 * d; j < 3 * d; j++) {
            CHECK(fabs(sums[j] - expected[j]) <= 1e-15 * (double)(n + 8));
        }
        free(z); free(sums); free(expected); free(sparse);
    }
    {
        const ptrdiff_t bins = 4;
        double *low = uniforms(d, &state), *per_bin = uniforms(d, &state);
        double *counts = uniforms(bins * d, &state), *other = malloc((size_t)(bins * d + 1) * 8);
        double *expected = malloc((size_t)(bins * d + 1) * sizeof *expected);
        ptrdiff_t *slot = malloc((size_t)(d + 1) * sizeof *slot);
        for (j = 0; j < d; j++) {
            slot[j] = j % 3 == 2 ? -1 : d - 1 - j;
            low[j] -= 0.5;
            per_bin[j] = 3.0 + fabs(per_bin[j]);
        }
        memcpy(other, counts, (size_t)(bins * d) * sizeof *other);
        memcpy(expected, counts, (size_t)(bins * d) * sizeof *expected);
        for (i = 0; i < n; i++) {
            for (j = 0; j < d; j++) {
                if (slot[j] >= 0) {
                    const double entry = scale[i] * x[i * stride + j];
                    const double place = floor((entry - low[slot[j]]) * per_bin[slot[j]]);
                    const double bin = fmin(fmax(place, 0.0), (double)(bins - 1));
                    expected[slot[j] * bins + (ptrdiff_t)bin] += scale[i];
                }
            }
        }
        CHECK(dpfast_dense_column_counts(&dense, d, slot, low, per_bin, bins, scale, counts) ==
              DPFAST_OK);
        CHECK(dpfast_csr_column_counts(&csr, d, slot, low, per_bin, bins, scale, other) ==
              DPFAST_OK);
        for (j = 0; j < bins * d; j++) {
            CHECK(fabs(counts[j] - expected[j]) <= 1e-15 * (double)(n + 8));
            CHECK(fabs(other[j] - expected[j]) <= 2e-15 * (double)(n + 8));
        }
        if (d > 0) {
            slot[0] = d;
            CHECK(dpfast_dense_column_counts(&dense, d, slot, low, per_bin, bins, NULL, counts) ==
                  DPFAST_ERR_ARGUMENT);
            CHECK(dpfast_csr_column_counts(&csr, d, slot, low, per_bin, bins, NULL, other) ==
                  DPFAST_ERR_ARGUMENT);
        }
        free(low); free(per_bin); free(counts); free(other); free(expected); free(slot);
    }
    if (dim > 0) {
        CHECK(dpfast_csr_quadratic_forms(&csr, matrix, forms) == DPFAST_OK);
        for (i = 0; i < n; i++) {
            double expected = 0.0;
            for (j = 0; j < dim; j++) {
                const double a = j < d ? scale[i] * x[i * stride + j] : intercept;
                for (k = 0; k < dim; k++) {
                    expected += a * matrix[j * dim + k] * (k < d ? scale[i] * x[i * stride + k]
                                                                 : intercept);
                }
            }
            CHECK(fabs(forms[i] - expected) <= 1e-15 * (double)(dim * dim + 1));
        }
    }
    check_gram(&dense, x, dim, factor, matrix, &state);
    free(x); free(scale); free(factor); free(shift); free(matrix); free(squares); free(stored);
    free(forms); free(narrow); free(indptr); free(indices);
}

static void check_arguments(void)
{
    const double x[2] = {1, 2}, ones[3] = {1, 1, 1};
    const dpfast_map wide = {3, NULL, ones, ones}, none = {2, NULL, ones, NULL};
    const int32_t indptr[2] = {0, 1}, indices[1] = {1};
    double out[2], square, room[1];
    float single[2];
    dpfast_dense dense;
    dpfast_csr csr;
    memset(&dense, 0, sizeof dense);
    dense.n = 1;
    dense.d = dense.row_stride = 2;
    dense.x = x;
    memset(&csr, 0, sizeof csr);
    csr.n = 1;
    csr.d = 2;
    csr.indptr = indptr;
    csr.indices = indices;
    CHECK(dpfast_dense_coordinates(&dense, &wide, room, out, &square) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_coordinates(&dense, &none, room, out, &square) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_gram(&dense, &none, 1.0, NULL, room, out) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_affine_rows(&csr, 3, ones, ones, out, &square) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_affine_rows(&csr, 2, NULL, ones, out, &square) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_affine_rows_float(&dense, -1, ones, ones, single) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_affine_rows_float(&dense, 2, ones, ones, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_shortening(&csr, ones, ones, 0.0, out) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_shortening(&csr, ones, ones, 1.0, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_part_sums(&csr, ones, NULL, 1.0, NULL, out, out, out) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_part_sums(&dense, ones, ones, 0.0, NULL, out, out, out, NULL) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_dense_part_sums(&dense, ones, ones, 1.0, NULL, out, NULL, out, NULL) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_quadratic_forms(&csr, NULL, out) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_affine_rows(&csr, 2, ones, ones, out, &square) == DPFAST_OK);
    CHECK(out[0] == 1.0 && out[1] == 2.0 && square == 5.0);
    /* Entries beyond the columns that are asked for. */
    CHECK(dpfast_csr_affine_rows(&csr, 1, ones, ones, out, &square) == DPFAST_OK);
    CHECK(out[0] == 1.0 && square == 1.0);
    dense.row_stride = 1;
    CHECK(dpfast_dense_affine_rows_float(&dense, 2, ones, ones, single) == DPFAST_ERR_ARGUMENT);
}

int main(void)
{
    static const ptrdiff_t sizes[][2] = {{0, 3}, {1, 0}, {1, 1}, {3, 2}, {5, 7}, {4, 8},
                                         {6, 9}, {5, 16}, {7, 17}, {3, 33}, {2, 130}, {261, 26}};
    int isa;
    size_t k;
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            check_shape(sizes[k][0], sizes[k][1], 0.0, DPFAST_FLOAT64);
            check_shape(sizes[k][0], sizes[k][1], 0.5, DPFAST_FLOAT64);
            check_shape(sizes[k][0], sizes[k][1], 0.5, DPFAST_FLOAT32);
        }
        printf("affine kernels on %s: done\n", dpfast_isa_name(isa));
    }
    check_arguments();
    return outcome();
}
