/* The sparse kernels without Python: every pair of types in buffers that are exactly as large as
 * they must be, so that the address sanitizer sees any step outside, against the dense kernels on
 * the same rows written out; both instruction sets. */
#include "check.h"
#include "csr.h"
#include "dpfast.h"

/* The numbers as the given type of index, in a buffer without slack. */
static void *as_indices(ptrdiff_t n, const int64_t *x, dpfast_index type)
{
    const size_t size = type == DPFAST_INT32 ? 4 : (type == DPFAST_INT64 ? 8 : 2);
    unsigned char *out = malloc((size_t)n * size);
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        const int32_t narrow = (int32_t)x[i];
        const uint16_t compact = (uint16_t)x[i];
        memcpy(out + (size_t)i * size,
               type == DPFAST_INT32   ? (const void *)&narrow
               : type == DPFAST_INT64 ? (const void *)&x[i]
                                      : (const void *)&compact,
               size);
    }
    return out;
}

typedef struct shape {
    ptrdiff_t n, d;
    double density; /* share of entries that are stored; the first and last row stay empty */
} shape;

enum { ONES = 2 };

static void check_shape(shape size, dpfast_index indptr_type, dpfast_index index_type,
                        int value_type, double intercept)
{
    const ptrdiff_t n = size.n, d = size.d, dim = d + (intercept != 0.0);
    const dpfast_loss logistic = {0, 0.0, 0.0};
    unsigned state = (unsigned)(n * 131 + d);
    int64_t *offsets = malloc((size_t)(n + 1) * sizeof *offsets);
    int64_t *columns = malloc((size_t)(n * d) * sizeof *columns);
    double *values = malloc((size_t)(n * d) * sizeof *values);
    double *x = calloc((size_t)(n * d), sizeof *x), *w = uniforms(dim, &state);
    double *y = uniforms(n, &state), *scale = uniforms(n, &state), *weight = uniforms(n, &state);
    float *inverse = malloc((size_t)n * sizeof *inverse);
    double *gradient = malloc((size_t)dim * sizeof *gradient);
    double *expected = malloc((size_t)dim * sizeof *expected);
    double *per_row = malloc((size_t)n * sizeof *per_row);
    double *expected_per_row = malloc((size_t)n * sizeof *expected_per_row);
    const ptrdiff_t hessian_dim = dim < 200 ? dim : 0; /* wider ones take too much memory */
    double *hessian = calloc((size_t)(hessian_dim * hessian_dim), sizeof *hessian);
    double *roots = malloc((size_t)(n * dim) * sizeof *roots);
    double loss = 0.0, expected_loss = 0.0, objective = 0.0;
    dpfast_csr rows;
    dpfast_dense dense;
    dpfast_csr_defect defect;
    void *indptr, *indices, *exact_values = NULL;
    ptrdiff_t nnz = 0, i, j, k;

    for (i = 0; i < n; i++) {
        offsets[i] = nnz;
        for (j = 0; j < d; j++) {
            double v = (float)uniform(&state); /* the same number in both types */
            if (i == 0 || i == n - 1 || uniform(&state) >= 2.0 * size.density - 1.0) continue;
            v = value_type == ONES ? 1.0 : v;
            x[i * d + j] = v;
            columns[nnz] = j;
            values[nnz++] = v;
        }
        y[i] = y[i] < 0.0 ? -1.0 : 1.0;
        scale[i] = 0.5 + 0.5 * fabs(scale[i]);
        weight[i] = 1.0 + weight[i];
        inverse[i] = 0.25f;
    }
    offsets[n] = nnz;
    indptr = as_indices(n + 1, offsets, indptr_type);
    indices = as_indices(nnz, columns, index_type);
    if (value_type == DPFAST_FLOAT64) {
        exact_values = malloc((size_t)nnz * sizeof(double));
        if (nnz > 0) memcpy(exact_values, values, (size_t)nnz * sizeof(double));
    } else if (value_type == DPFAST_FLOAT32) {
        exact_values = malloc((size_t)nnz * sizeof(float));
        for (k = 0; k < nnz; k++) ((float *)exact_values)[k] = (float)values[k];
    }

    memset(&rows, 0, sizeof rows);
    rows.n = n;
    rows.d = d;
    rows.indptr = indptr;
    rows.indptr_type = indptr_type;
    rows.indices = indices;
    rows.index_type = index_type;
    rows.values = exact_values;
    rows.scalar = value_type == ONES ? DPFAST_FLOAT64 : (dpfast_scalar)value_type;
    rows.target = y;
    rows.weight = weight;
    rows.row_scale = scale;
    rows.inverse_norm = inverse;
    rows.intercept = intercept;
    memset(&dense, 0, sizeof dense);
    dense.n = n;
    dense.d = dense.row_stride = d;
    dense.x = x;
    dense.target = y;
    dense.weight = weight;
    dense.row_scale = scale;
    dense.inverse_norm = inverse;
    dense.intercept = intercept;

    CHECK(dpfast_csr_check(&rows, nnz, &defect) == DPFAST_OK && defect == DPFAST_CSR_SOUND);
    CHECK(dpfast_dense_gradient(&dense, &logistic, w, 0.1, 0.9, expected, &expected_loss) ==
          DPFAST_OK);
    CHECK(dpfast_csr_gradient(&rows, &logistic, w, 0.1, 0.9, gradient, &loss) == DPFAST_OK);
    for (j = 0; j < dim; j++) {
        CHECK(fabs(gradient[j] - expected[j]) <= 1e-14 * (double)(n + 1));
    }
    CHECK(fabs(loss - expected_loss) <= 1e-14 * (double)(n + d + 1));
    dense.consistent = rows.consistent = 1;
    CHECK(dpfast_dense_gradient(&dense, &logistic, w, 0.1, 0.9, expected, &loss) == DPFAST_OK);
    CHECK(dpfast_csr_gradient(&rows, &logistic, w, 0.1, 0.9, gradient, &loss) == DPFAST_OK);
    for (j = 0; j < dim; j++) {
        CHECK(fabs(gradient[j] - expected[j]) <= 1e-14 * (double)(n + 1));
    }
    dense.consistent = rows.consistent = 0;
    CHECK(dpfast_csr_objective(&rows, &logistic, w, 0.9, &objective) == DPFAST_OK);
    CHECK(fabs(objective - loss) <= 1e-14 * (double)(n + 1));

    CHECK(dpfast_dense_margins(&dense, w, expected_per_row) == DPFAST_OK);
    CHECK(dpfast_csr_margins(&rows, w, per_row) == DPFAST_OK);
    for (i = 0; i < n; i++) {
        CHECK(fabs(per_row[i] - expected_per_row[i]) <= 1e-15 * (double)(d + 4));
    }
    CHECK(dpfast_dense_row_norms(&dense, expected_per_row) == DPFAST_OK);
    CHECK(dpfast_csr_row_norms(&rows, per_row) == DPFAST_OK);
    for (i = 0; i < n; i++) {
        CHECK(fabs(per_row[i] - expected_per_row[i]) <= 1e-15 * (double)(d + 8) * per_row[i]);
    }

    CHECK(dpfast_dense_curvature_rows(&dense, &logistic, w, 1, roots) == DPFAST_OK);
    if (hessian_dim > 0) {
        CHECK(dpfast_csr_add_hessian(&rows, &logistic, w, hessian) == DPFAST_OK);
    }
    for (i = 0; i < hessian_dim; i++) {
        for (j = 0; j < hessian_dim; j++) {
            double sum = 0.0;
            for (k = 0; k < n; k++) sum += roots[k * dim + i] * roots[k * dim + j];
            CHECK(fabs(hessian[i * dim + j] - sum) <= 1e-14 * (double)(n + 1));
            CHECK(hessian[i * dim + j] == hessian[j * dim + i]);
        }
    }

    if (n > 2) {
        /* A range of rows: only what belongs to a row moves. */
        dpfast_csr range = rows;
        const size_t step = indptr_type == DPFAST_INT32 ? 4 : 8;
        range.n = n - 2;
        range.indptr = (const unsigned char *)indptr + step;
        range.row_scale = scale + 1;
        CHECK(dpfast_csr_margins(&rows, w, expected_per_row) == DPFAST_OK);
        CHECK(dpfast_csr_margins(&range, w, per_row) == DPFAST_OK);
        for (i = 0; i < n - 2; i++) CHECK(per_row[i] == expected_per_row[i + 1]);
    }
    if (nnz > 0 && value_type != ONES) {
        if (value_type == DPFAST_FLOAT64) {
            ((double *)exact_values)[nnz - 1] = NAN;
        } else {
            ((float *)exact_values)[nnz - 1] = INFINITY;
        }
        CHECK(dpfast_csr_check(&rows, nnz, &defect) == DPFAST_ERR_NONFINITE);
        CHECK(defect == DPFAST_CSR_NONFINITE);
        CHECK(dpfast_csr_gradient(&rows, &logistic, w, 0.4, 0.9, gradient, &loss) ==
              DPFAST_ERR_NONFINITE);
        CHECK(dpfast_csr_row_norms(&rows, per_row) == DPFAST_ERR_NONFINITE);
        if (hessian_dim > 0) {
            CHECK(dpfast_csr_add_hessian(&rows, &logistic, w, hessian) == DPFAST_ERR_NONFINITE);
        }
    }
    free(offsets); free(columns); free(values); free(x); free(w); free(y); free(scale);
    free(weight); free(inverse); free(gradient); free(expected); free(per_row);
    free(expected_per_row); free(hessian); free(roots); free(indptr); free(indices);
    free(exact_values);
}

static dpfast_csr_defect defect_of(const dpfast_csr *rows, ptrdiff_t nnz)
{
    dpfast_csr_defect defect = DPFAST_CSR_SOUND;
    const dpfast_status status = dpfast_csr_check(rows, nnz, &defect);
    CHECK((status == DPFAST_OK) == (defect == DPFAST_CSR_SOUND));
    CHECK((status == DPFAST_ERR_NONFINITE) == (defect == DPFAST_CSR_NONFINITE));
    CHECK(dpfast_csr_check(rows, nnz, NULL) == status);
    return defect;
}

/* From here on the rows have another field, and what is then wrong with them. */
#define WITH(field, value, defect)                                                                 \
    do {                                                                                           \
        rows.field = value;                                                                        \
        CHECK(defect_of(&rows, 3) == defect);                                                      \
    } while (0)

static void check_defects(void)
{
    const int64_t sound[4] = {0, 2, 2, 3}, late[4] = {1, 2, 2, 3}, down[4] = {0, 2, 1, 3};
    const int64_t wide[4] = {0, INT64_MAX, 2, 3}, negative[4] = {0, -1, 2, 3};
    const int32_t columns[3] = {0, 4, 2}, below[3] = {0, -1, 2}, above[3] = {0, 5, 2};
    const int32_t twice[3] = {4, 4, 2}, unsorted[3] = {4, 0, 2};
    const double values[3] = {1, 2, 3}, bad[3] = {1, 2, -INFINITY};
    const float narrow[3] = {1, 2, NAN};
    dpfast_csr rows;
    memset(&rows, 0, sizeof rows);
    rows.n = 3;
    rows.d = 5;
    rows.indptr = sound;
    rows.indptr_type = DPFAST_INT64;
    rows.indices = columns;
    WITH(values, values, DPFAST_CSR_SOUND);
    CHECK(defect_of(&rows, 2) == DPFAST_CSR_BAD_INDPTR);
    CHECK(defect_of(&rows, 4) == DPFAST_CSR_BAD_INDPTR);
    CHECK(defect_of(&rows, -1) == DPFAST_CSR_BAD_SIZE);
    CHECK(defect_of(&rows, PTRDIFF_MAX) == DPFAST_CSR_BAD_SIZE);
    WITH(indptr, late, DPFAST_CSR_BAD_INDPTR);
    WITH(indptr, down, DPFAST_CSR_BAD_INDPTR);
    WITH(indptr, wide, DPFAST_CSR_BAD_INDPTR);
    WITH(indptr, negative, DPFAST_CSR_BAD_INDPTR);
    rows.indptr = sound;
    WITH(indices, below, DPFAST_CSR_BAD_INDEX);
    WITH(indices, above, DPFAST_CSR_BAD_INDEX);
    WITH(indices, twice, DPFAST_CSR_BAD_ORDER);
    WITH(indices, unsorted, DPFAST_CSR_BAD_ORDER);
    WITH(indices, NULL, DPFAST_CSR_BAD_SIZE);
    rows.indices = columns;
    WITH(values, bad, DPFAST_CSR_NONFINITE);
    rows.values = narrow;
    WITH(scalar, DPFAST_FLOAT32, DPFAST_CSR_NONFINITE);
    WITH(scalar, (dpfast_scalar)7, DPFAST_CSR_BAD_SIZE);
    rows.scalar = DPFAST_FLOAT64;
    WITH(values, NULL, DPFAST_CSR_SOUND);
    WITH(indptr_type, DPFAST_UINT16, DPFAST_CSR_BAD_SIZE);
    rows.indptr_type = DPFAST_INT64;
    WITH(d, PTRDIFF_MAX, DPFAST_CSR_BAD_SIZE);
    rows.d = 5;
    WITH(n, -1, DPFAST_CSR_BAD_SIZE);
    rows.n = 3;
    WITH(intercept, NAN, DPFAST_CSR_BAD_SIZE);
}

static void check_arguments(void)
{
    const int32_t indptr[3] = {0, 1, 2}, indices[2] = {0, 1};
    const double y[2] = {1, -1}, w[2] = {0, 0}, hidden[2] = {0, NAN};
    const dpfast_loss logistic = {0, 0.0, 0.0}, unknown = {-1, 0.0, 0.0};
    double gradient[2], hessian[4] = {0, 0, 0, 0}, loss;
    dpfast_csr rows;
    memset(&rows, 0, sizeof rows);
    rows.n = 2;
    rows.d = 2;
    rows.indptr = indptr;
    rows.indices = indices;
    rows.target = y;
    CHECK(dpfast_csr_gradient(&rows, &logistic, w, 1, 1, gradient, &loss) == DPFAST_OK);
    CHECK(dpfast_csr_gradient(&rows, &unknown, w, 1, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_gradient(&rows, &logistic, w, 0, 1, gradient, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_gradient(&rows, &logistic, w, 1, NAN, gradient, &loss) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_gradient(&rows, &logistic, NULL, 1, 1, gradient, &loss) ==
          DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_objective(&rows, &logistic, w, 0, &loss) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_margins(&rows, w, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_row_norms(&rows, NULL) == DPFAST_ERR_ARGUMENT);
    CHECK(dpfast_csr_add_hessian(&rows, &logistic, w, NULL) == DPFAST_ERR_ARGUMENT);
    rows.d = PTRDIFF_MAX / 64; /* d x d does not fit */
    CHECK(dpfast_csr_add_hessian(&rows, &logistic, w, hessian) == DPFAST_ERR_ARGUMENT);
    rows.d = 2;
    rows.n = 1; /* no row has the second column */
    CHECK(dpfast_csr_gradient(&rows, &logistic, hidden, 1, 1, gradient, &loss) ==
          DPFAST_ERR_NONFINITE);
    CHECK(dpfast_csr_objective(&rows, &logistic, hidden, 1, &loss) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_csr_margins(&rows, hidden, gradient) == DPFAST_ERR_NONFINITE);
    CHECK(dpfast_csr_add_hessian(&rows, &logistic, hidden, hessian) == DPFAST_ERR_NONFINITE);
    rows.indptr = NULL;
    CHECK(dpfast_csr_row_norms(&rows, gradient) == DPFAST_ERR_ARGUMENT);
}

int main(void)
{
    /* n beside the rows of a block (512) and the entries of a block (2048); one row longer than a
     * block. */
    static const shape shapes[] = {{0, 3, 0.5},    {1, 1, 1.0},   {3, 1, 1.0},   {5, 7, 0.6},
                                   {40, 5, 0.0},   {513, 5, 0.4}, {1030, 2, 0.3}, {300, 64, 0.5},
                                   {66, 127, 0.9}, {4, 4000, 1.0}};
    int isa, value_type, index_type, indptr_type;
    size_t k;
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        for (k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
            for (value_type = 0; value_type <= ONES; value_type++) {
                for (index_type = 0; index_type <= (int)DPFAST_UINT16; index_type++) {
                    indptr_type = (index_type + value_type) % 2; /* both, with any other type */
                    check_shape(shapes[k], (dpfast_index)indptr_type, (dpfast_index)index_type,
                                value_type, 0.0);
                    check_shape(shapes[k], (dpfast_index)indptr_type, (dpfast_index)index_type,
                                value_type, 0.5);
                }
            }
        }
        printf("sparse kernels on %s: done\n", dpfast_isa_name(isa));
    }
    check_defects();
    check_arguments();
    return outcome();
}
