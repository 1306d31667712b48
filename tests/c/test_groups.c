/* Gradients of groups without Python: buffers that are exactly as large as they must be, so that the
 * address sanitizer sees any step outside, against the definition; every instruction set. */
#include "check.h"
#include "dpfast.h"

enum { GROUPS = 7, CLASSES = 3 };
/* The third has no room for its products, the sixth no rows; the last is longer than a block. */
static const int64_t sizes[GROUPS] = {1, 3, 5, 1, 2, 0, 1100};

static double *zeros(ptrdiff_t n)
{
    return calloc((size_t)(n > 0 ? n : 1), sizeof(double));
}

/* By what the slopes of m rows are multiplied whichever labels they have: of each row's probability
 * of its classes, and of its length. */
static double alike(const dpfast_group_clip *clip, ptrdiff_t m, ptrdiff_t n_classes,
                    const double *probability, const double *length, double *cut)
{
    double mean = 0.0, surprise = 0.0, sum = 0.0, squares = 0.0, l;
    ptrdiff_t i, k;
    for (i = 0; i < m; i++) {
        const double *p = probability + i * CLASSES;
        double square = 0.0, least = 1.0, longest, expected;
        for (k = 0; k < n_classes + (n_classes == 1); k++) {
            square += p[k] * p[k];
            least = fmin(least, p[k]);
        }
        /* Of two classes one margin's slope is one of a pair that are alike. */
        longest = sqrt((square + 1.0 - 2.0 * least) / (n_classes == 1 ? 2.0 : 1.0));
        expected = (1.0 - square) / (n_classes == 1 ? 2.0 : 1.0);
        cut[i] = fmin(1.0, clip->row_norm / length[i] / longest);
        longest *= cut[i] * length[i];
        expected *= cut[i] * length[i] * cut[i] * length[i];
        mean += expected;
        surprise = fmax(surprise, longest * longest - expected);
        sum += longest;
        squares += longest * longest;
    }
    l = sqrt(mean + surprise + clip->correlation * (sum * sum - squares));
    return m > 1 ? fmin(1.0, clip->norm / l) : 1.0;
}

/* The definition: the groups' gradients one by one. */
static void twin(const dpfast_dense *rows, const dpfast_groups *groups, ptrdiff_t n_classes,
                 const double *w, const dpfast_group_clip *clip, double *out)
{
    const dpfast_loss logistic = {0, 0.0, 0.0};
    const double *x = rows->x, *t = groups->transform;
    const ptrdiff_t dim = rows->d + 1;
    double *alone = zeros(n_classes * dim), *slopes = zeros(n_classes * rows->n);
    double *probability = zeros(CLASSES * rows->n), *length = zeros(rows->n), *cut = zeros(rows->n);
    ptrdiff_t g, i, j, l, k;
    memset(out, 0, (size_t)(n_classes * dim) * sizeof *out);
    for (g = 0; g < groups->n; g++) {
        const ptrdiff_t first = (ptrdiff_t)groups->start[g];
        double square = 0.0, factor, before = 1.0;
        memset(alone, 0, (size_t)(n_classes * dim) * sizeof *alone);
        for (i = groups->start[g]; i < groups->start[g + 1]; i++) {
            double margin[CLASSES], *slope = slopes + i * n_classes, sum = 0.0;
            length[i] = 1.0 / (double)rows->inverse_norm[i];
            cut[i] = 1.0;
            for (k = 0; k < n_classes; k++) {
                margin[k] = rows->intercept * w[k * dim + rows->d];
                for (j = 0; j < rows->d; j++) margin[k] += x[i * rows->d + j] * w[k * dim + j];
                sum += exp(margin[k]);
            }
            if (n_classes == 1) {
                double value;
                dpfast_loss_points(&logistic, 1, margin, rows->target + i, &value, slope, NULL);
            }
            for (k = 0; k < n_classes && n_classes > 1; k++) {
                slope[k] = exp(margin[k]) / sum - (rows->target[i] == (double)k);
            }
            for (k = 0; k < n_classes; k++) {
                probability[i * CLASSES + k] = exp(margin[k]) / sum;
            }
            if (n_classes == 1) {
                probability[i * CLASSES] = fabs(slope[0]);
                probability[i * CLASSES + 1] = 1.0 - fabs(slope[0]);
            }
        }
        if (clip->consistent) {
            before = alike(clip, (ptrdiff_t)sizes[g], n_classes, probability + first * CLASSES,
                           length + first, cut + first);
        }
        for (i = groups->start[g]; i < groups->start[g + 1]; i++) {
            for (k = 0; k < n_classes; k++) {
                for (j = 0; j < dim; j++) {
                    alone[k * dim + j] +=
                        before * cut[i] * slopes[i * n_classes + k] *
                        (j < rows->d ? x[i * rows->d + j] : rows->intercept);
                }
            }
        }
        for (k = 0; k < n_classes; k++) {
            for (l = 0; l < dim; l++) {
                double z = t == NULL ? alone[k * dim + l] : 0.0;
                for (j = 0; j < dim && t != NULL; j++) z += alone[k * dim + j] * t[j * dim + l];
                square += z * z;
            }
        }
        factor = sizes[g] > 1 && sqrt(square) > clip->norm ? clip->norm / sqrt(square) : 1.0;
        for (j = 0; j < n_classes * dim; j++) out[j] += factor * alone[j];
    }
    free(alone), free(slopes), free(probability), free(length), free(cut);
}

static void check(ptrdiff_t d, ptrdiff_t n_classes, int transformed)
{
    const dpfast_loss logistic = {0, 0.0, 0.0};
    const ptrdiff_t dim = d + 1;
    dpfast_group_clip clip = {0.4, 1e9, 1e9, 1.5, 1e-14, 1e-14, 0, 0.0};
    dpfast_groups groups;
    dpfast_dense dense;
    dpfast_csr csr;
    unsigned state = 9u;
    int64_t start[GROUPS + 1] = {0}, gram_start[GROUPS + 1] = {0};
    ptrdiff_t n, i, j, l, g;
    double *x, *y, *w, *t, *z, *gram, *scratch, *expected, *out, share, other;
    float *inverse;
    int32_t *indptr, *indices;
    for (g = 0; g < GROUPS; g++) {
        const int64_t m = sizes[g];
        start[g + 1] = start[g] + m;
        gram_start[g + 1] = gram_start[g] + (m > 1 && m < 5 ? m * (m + 1) / 2 : 0);
    }
    n = (ptrdiff_t)start[GROUPS];
    x = zeros(n * d);
    y = zeros(n);
    w = zeros(n_classes * dim);
    t = zeros(dim * dim);
    z = zeros(n * dim);
    gram = zeros((ptrdiff_t)gram_start[GROUPS]);
    expected = zeros(n_classes * dim);
    out = zeros(n_classes * dim);
    inverse = malloc((size_t)n * sizeof *inverse);
    indptr = malloc((size_t)(n + 1) * sizeof *indptr);
    indices = malloc((size_t)(n * d) * sizeof *indices);
    for (i = 0; i < n * d; i++) x[i] = uniform(&state);
    for (i = 0; i < n; i++) y[i] = n_classes > 1 ? (double)(i % CLASSES) : (i % 3 ? 1.0 : -1.0);
    for (i = 0; i < n_classes * dim; i++) w[i] = uniform(&state);
    for (i = 0; i < dim * dim; i++) t[i] = 0.2 * uniform(&state) + (i % (dim + 1) == 0);
    for (i = 0; i < n; i++) {
        double square = 0.0;
        for (l = 0; l < dim; l++) {
            for (j = 0; j < dim; j++) {
                z[i * dim + l] += (j < d ? x[i * d + j] : 0.5) * (transformed ? t[j * dim + l] : j == l);
            }
            square += z[i * dim + l] * z[i * dim + l];
        }
        inverse[i] = (float)(1.0 / sqrt(square));
        for (j = 0; j < d; j++) indices[i * d + j] = (int32_t)j;
        indptr[i] = (int32_t)(i * d);
    }
    indptr[n] = (int32_t)(n * d);
    memset(&dense, 0, sizeof dense);
    dense.n = n;
    dense.d = dense.row_stride = d;
    dense.x = x;
    dense.target = y;
    dense.inverse_norm = inverse;
    dense.intercept = 0.5;
    memset(&csr, 0, sizeof csr);
    csr.n = n;
    csr.d = d;
    csr.indptr = indptr;
    csr.indices = indices;
    csr.values = x;
    csr.target = y;
    csr.inverse_norm = inverse;
    csr.intercept = 0.5;
    groups.n = GROUPS;
    groups.start = start;
    groups.longest = 1100;
    groups.gram_start = gram_start;
    groups.gram = gram;
    groups.transform = transformed ? t : NULL;
    scratch = zeros(dpfast_group_scratch(groups.longest, dim, n_classes));

    CHECK(dpfast_group_products(&groups, z, dim, gram) == DPFAST_OK);
    twin(&dense, &groups, n_classes, w, &clip, expected);
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) == DPFAST_OK);
    for (i = 0; i < n_classes * dim; i++) CHECK(fabs(out[i] - expected[i]) < 1e-9);
    CHECK(share > 2.0 && share <= 6.0);
    CHECK(dpfast_csr_group_gradient(&csr, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                    &other) == DPFAST_OK);
    for (i = 0; i < n_classes * dim; i++) CHECK(fabs(out[i] - expected[i]) < 1e-9);
    CHECK(fabs(share - other) < 1e-9);

    clip.consistent = 1;
    clip.row_norm = 0.9;
    clip.correlation = 0.3;
    twin(&dense, &groups, n_classes, w, &clip, expected);
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) == DPFAST_OK);
    for (i = 0; i < n_classes * dim; i++) CHECK(fabs(out[i] - expected[i]) < 1e-6);
    CHECK(dpfast_csr_group_gradient(&csr, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                    &other) == DPFAST_OK);
    for (i = 0; i < n_classes * dim; i++) CHECK(fabs(out[i] - expected[i]) < 1e-6);
    CHECK(fabs(share - other) < 1e-9);
    clip.correlation = 1.1;
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) == DPFAST_ERR_ARGUMENT);
    clip.correlation = 0.0;

    groups.longest = 1099;
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) == DPFAST_ERR_ARGUMENT);
    groups.longest = 1100;
    gram_start[GROUPS]++;
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) == DPFAST_ERR_ARGUMENT);
    gram_start[GROUPS]--;
    y[3] = NAN;
    CHECK(dpfast_dense_group_gradient(&dense, &groups, &clip, &logistic, n_classes, w, scratch, out,
                                      &share) != DPFAST_OK);
    free(x), free(y), free(w), free(t), free(z), free(gram), free(expected), free(out);
    free(inverse), free(indptr), free(indices), free(scratch);
}

int main(void)
{
    int isa;
    dpfast_dispatch_init();
    for (isa = 0; isa < DPFAST_ISA_COUNT; isa++) {
        if (!in_use(isa)) continue;
        check(1, 1, 1);
        check(6, 1, 0);
        check(70, 1, 1);
        check(5, CLASSES, 1);
        check(9, CLASSES, 0);
    }
    CHECK(dpfast_group_addition_depth(10, 3) > 10);
    return outcome();
}
