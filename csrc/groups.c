/* Stamps the gradients of groups for dense and for sparse rows. */
#include "csr_ops.h"
#include "dense_ops.h"
#include "finite.h"
#include "groups.h"
#include "parts.h"
#include "softmax.h"

#include <math.h>
#include <string.h>

/* Bytes of dense rows between their two readings: they stay in the L2 cache. */
#define BLOCK_BYTES 131072
/* Rows between two readings at most, unless a group has more; and rows that are added up before
 * their sum is added to the gradient, which keeps chains of additions short. */
#define BLOCK_ROWS 1024
/* Covers the few operations that compute a length and a factor from it. */
#define UP (1.0 + 0x1p-49)
#define DOWN (1.0 - 0x1p-49)

static const dpfast_vector_ops *vectors(void)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_vector_ops);
}

static ptrdiff_t most_rows(ptrdiff_t longest)
{
    return longest > BLOCK_ROWS ? longest : BLOCK_ROWS;
}

ptrdiff_t dpfast_group_scratch(ptrdiff_t longest, ptrdiff_t dim, ptrdiff_t n_classes)
{
    const ptrdiff_t rows = most_rows(longest);
    return (n_classes + 1) * rows + 2 * n_classes * dim + (dim > rows ? dim : rows);
}

ptrdiff_t dpfast_group_addition_depth(ptrdiff_t n, ptrdiff_t longest)
{
    /* Within a sum of fewer than BLOCK_ROWS rows and one more block, then sum by sum. */
    return BLOCK_ROWS + most_rows(longest) + n / BLOCK_ROWS + 16;
}

static ptrdiff_t rows_of(const dpfast_groups *groups, ptrdiff_t g)
{
    return (ptrdiff_t)(groups->start[g + 1] - groups->start[g]);
}

static ptrdiff_t products_of(const dpfast_groups *groups, ptrdiff_t g)
{
    return (ptrdiff_t)(groups->gram_start[g + 1] - groups->gram_start[g]);
}

/* Whether it has to be added up before its length is known. */
static int is_long(const dpfast_groups *groups, ptrdiff_t g)
{
    return rows_of(groups, g) > 1 && products_of(groups, g) == 0;
}

static int valid_groups(const dpfast_groups *groups, ptrdiff_t n_rows)
{
    return groups != NULL && groups->n >= 0 && groups->start != NULL &&
           groups->gram_start != NULL && groups->longest >= 0 &&
           groups->start[groups->n] - groups->start[0] == (int64_t)n_rows &&
           (groups->gram != NULL || groups->gram_start[groups->n] == groups->gram_start[0]);
}

static int valid_group(const dpfast_groups *groups, ptrdiff_t g)
{
    const ptrdiff_t m = rows_of(groups, g), held = products_of(groups, g);
    return m >= 0 && m <= groups->longest && (held == 0 || held == m * (m + 1) / 2);
}

dpfast_status dpfast_group_products(const dpfast_groups *groups, const double *z, ptrdiff_t dim,
                                    double *gram)
{
    ptrdiff_t g;
    if (z == NULL || gram == NULL || dim < 1 ||
        !valid_groups(groups, (ptrdiff_t)(groups->start[groups->n] - groups->start[0]))) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (g = 0; g < groups->n; g++) {
        if (!valid_group(groups, g)) {
            return DPFAST_ERR_ARGUMENT;
        }
        if (products_of(groups, g) > 0) {
            vectors()->products(rows_of(groups, g), dim,
                                z + (groups->start[g] - groups->start[0]) * dim,
                                gram + groups->gram_start[g]);
        }
    }
    return DPFAST_OK;
}

/* Of the slopes of a group: what its gradient's length and its errors are bounded by. */
typedef struct group_sizes {
    double mass;    /* sum_i |s_i| */
    double squares; /* sum_i (s_i ||z_i||)^2 */
    double square;  /* of the length of sum_i s_i z_i */
} group_sizes;

/* Of m rows with products; s[k stride + i] is the slope of row i for class k. */
static group_sizes sizes_by_products(ptrdiff_t m, const double *triangle, ptrdiff_t n_classes,
                                     ptrdiff_t stride, const double *s, double *scratch)
{
    group_sizes sizes = {0.0, 0.0, 0.0};
    const double *row = triangle;
    ptrdiff_t i, j, k;
    for (i = 0; i < m; i++) {
        double square = s[i] * s[i];
        for (k = 1; k < n_classes; k++) {
            square += s[k * stride + i] * s[k * stride + i];
        }
        sizes.mass += n_classes == 1 ? fabs(s[i]) : sqrt(square);
        sizes.squares += square * row[i];
        row += i + 1;
    }
    sizes.square = sizes.squares;
    for (k = 0; k < n_classes; k++) {
        const double *t = s + k * stride;
        if (m >= 16) {
            sizes.square += vectors()->form(m, triangle, t, scratch);
            continue;
        }
        row = triangle;
        for (i = 1; i < m; i++) {
            double sum = 0.0;
            row += i;
            for (j = 0; j < i; j++) {
                sum += row[j] * t[j];
            }
            sizes.square += 2.0 * t[i] * sum;
        }
    }
    return sizes;
}

/* Of m rows without: all but the square. */
static group_sizes sizes_by_lengths(ptrdiff_t m, ptrdiff_t n_classes, ptrdiff_t stride,
                                    const double *s, const float *inverse_norm)
{
    group_sizes sizes = {0.0, 0.0, 0.0};
    ptrdiff_t i, k;
    for (i = 0; i < m; i++) {
        /* A row of zeros has an infinite inverse length. */
        const double length = 1.0 / (double)inverse_norm[i];
        double square = s[i] * s[i];
        for (k = 1; k < n_classes; k++) {
            square += s[k * stride + i] * s[k * stride + i];
        }
        sizes.mass += sqrt(square);
        sizes.squares += square * length * length;
    }
    return sizes;
}

/* The factor of a group of m rows, and its part of the share. */
static double factor_of(const dpfast_group_clip *clip, ptrdiff_t m, const group_sizes *sizes,
                        double *share)
{
    /* (sum_i |s_i| ||z_i||)^2 <= m squares. */
    const double error = clip->relative * (double)m * sizes->squares;
    const double square = (sizes->square > 0.0 ? sizes->square : 0.0) + error;
    const double length = (sqrt(square) + clip->absolute * sizes->mass) * UP;
    const double typical = clip->gauge * sqrt(sizes->squares / (double)m);
    double factor = length > clip->norm ? clip->norm / length * DOWN : 1.0;
    factor = factor * sizes->mass > clip->mass ? clip->mass / sizes->mass * DOWN : factor;
    *share += typical >= length ? 1.0 : typical / length; /* NaN stays NaN */
    return sizes->square == sizes->square ? factor : sizes->square;
}

/* The factor of a lone row's slopes: beside a short row with a huge one, sums of all the others'
 * would be rounded. */
static double factor_of_mass(const dpfast_group_clip *clip, ptrdiff_t n_classes, ptrdiff_t stride,
                             const double *s)
{
    double square = 0.0, mass;
    ptrdiff_t k;
    for (k = 0; k < n_classes; k++) {
        square += s[k * stride] * s[k * stride];
    }
    mass = n_classes == 1 ? fabs(s[0]) : sqrt(square);
    return mass > clip->mass ? clip->mass / mass * DOWN : 1.0; /* a NaN stays in the slopes */
}

/* Of a row's slopes: the length of the longest that any label gives it, and the mean of the squares
 * if labels follow the model. */
typedef struct label_slopes {
    double longest, mean;
} label_slopes;

static label_slopes slopes_of_labels(ptrdiff_t n_classes, ptrdiff_t stride, const double *s)
{
    label_slopes slopes;
    if (n_classes == 1) {
        const double own = fabs(s[0]), other = 1.0 - own;
        slopes.longest = own > other ? own : other;
        slopes.mean = own * other;
    } else {
        /* Of label k the square is ||p||^2 - 2 p_k + 1, with probability p_k; the row's own slopes
         * are p but for its label's, p_k - 1, which alone is negative. */
        double square = 0.0, own = 1.0, least = 1.0, mean;
        ptrdiff_t k;
        for (k = 0; k < n_classes; k++) {
            const double v = s[k * stride], p = v < 0.0 ? 1.0 + v : v;
            own = v < 0.0 ? p : own;
            least = p < least ? p : least;
            square += v * v;
        }
        mean = 2.0 - square - 2.0 * own;
        slopes.longest = sqrt(square + 2.0 * (own - least));
        slopes.mean = mean > 0.0 ? mean : 0.0;
    }
    return slopes;
}

/* From the derivatives of a group's m rows to its slopes, weights included: rows, and then the whole
 * group, are multiplied by factors that are the same whatever their labels are. */
static void weigh_labels_alike(const dpfast_group_clip *clip, ptrdiff_t m, ptrdiff_t n_classes,
                               ptrdiff_t stride, const double *weight,
                               const float *inverse_norm, double *s)
{
    double mean = 0.0, surprise = 0.0, sum = 0.0, squares = 0.0, length;
    ptrdiff_t i, k;
    for (i = 0; i < m; i++) {
        const double limit = clip->row_norm * (double)inverse_norm[i];
        const double own = weight != NULL ? weight[i] : 1.0;
        const label_slopes slopes = slopes_of_labels(n_classes, stride, s + i);
        const double cut = limit < slopes.longest ? limit / slopes.longest : 1.0;
        const double reach = cut * own / (double)inverse_norm[i]; /* of zeros it is 0 */
        const double longest = slopes.longest * reach, expected = slopes.mean * reach * reach;
        for (k = 0; k < n_classes; k++) {
            double v = s[k * stride + i] * cut; /* NaN fails both comparisons and stays NaN */
            v = v > limit ? limit : v;
            v = v < -limit ? -limit : v;
            s[k * stride + i] = v * own;
        }
        mean += expected;
        surprise = longest * longest - expected > surprise ? longest * longest - expected : surprise;
        squares += longest * longest;
        sum += longest;
    }
    length = sqrt(mean + surprise + clip->correlation * (sum * sum - squares));
    if (m > 1 && length > clip->norm) {
        const double factor = clip->norm / length;
        for (k = 0; k < n_classes; k++) {
            for (i = 0; i < m; i++) {
                s[k * stride + i] *= factor;
            }
        }
    }
}

static ptrdiff_t dense_block(const dpfast_dense *rows)
{
    const ptrdiff_t entry = rows->scalar == DPFAST_FLOAT64 ? 8 : 4;
    const ptrdiff_t block = BLOCK_BYTES / entry / (rows->d > 0 ? rows->d : 1);
    return block < 8 ? 8 : (block > BLOCK_ROWS ? BLOCK_ROWS : block);
}

static void dense_margins(const dpfast_dense *rows, const double *w, double *z)
{
    dpfast_dense alike = *rows;
    alike.alike = 1;
    DPFAST_OF_ISA_IN_USE(dpfast_dense_ops)[rows->scalar].margins(&alike, w, z);
}

static void dense_add_rows(const dpfast_dense *rows, const double *s, double *sum)
{
    DPFAST_OF_ISA_IN_USE(dpfast_dense_ops)[rows->scalar].add_rows(rows, s, sum);
}

static ptrdiff_t csr_block(const dpfast_csr *rows)
{
    (void)rows;
    return BLOCK_ROWS;
}

/* A row's margin does not depend on its place. */
static void csr_margins(const dpfast_csr *rows, const double *w, double *z)
{
    DPFAST_OF_ISA_IN_USE(dpfast_csr_ops).margins(rows, w, z);
}

static void csr_add_rows(const dpfast_csr *rows, const double *s, double *sum)
{
    DPFAST_OF_ISA_IN_USE(dpfast_csr_ops).add_rows(rows, s, sum);
}

#define ROWS dpfast_dense
#define NAME(name) dpfast_dense_##name
#define LOCAL(name) dense_##name
#include "groups_body.h"
#undef ROWS
#undef NAME
#undef LOCAL

#define ROWS dpfast_csr
#define NAME(name) dpfast_csr_##name
#define LOCAL(name) csr_##name
#include "groups_body.h"
#undef ROWS
#undef NAME
#undef LOCAL
