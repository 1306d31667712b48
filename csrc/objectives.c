/* Stamps the sums of objectives.h for dense and for sparse rows. */
#include "finite.h"
#include "line_search.h"
#include "loss_list.h"
#include "objectives.h"
#include "parts.h"
#include "softmax.h"
#include "vecmath.h"

#include <math.h>
#include <string.h>

/* Bytes of X in a block of dense rows: it stays in the L2 cache between its two readings. */
#define BLOCK_BYTES 131072
/* Below this |x|, exp(x) - 1 comes from its series; above, subtracting loses at most 5 bits. */
#define SERIES_BELOW 0.03125

ptrdiff_t dpfast_objective_scratch(ptrdiff_t n, ptrdiff_t dim)
{
    const ptrdiff_t block = n < DPFAST_OBJECTIVE_BLOCK ? n : DPFAST_OBJECTIVE_BLOCK;
    return 3 * block + n + 2 * dim;
}

/* exp(x) - 1 from e = exp(x). */
DPFAST_INLINE double exp_less_one(double x, double e)
{
    double p = 1.0 / 362880.0;
    p = p * x + 1.0 / 40320.0;
    p = p * x + 1.0 / 5040.0;
    p = p * x + 1.0 / 720.0;
    p = p * x + 1.0 / 120.0;
    p = p * x + 1.0 / 24.0;
    p = p * x + 1.0 / 6.0;
    p = p * x + 0.5;
    p = p * x + 1.0;
    return fabs(x) < SERIES_BELOW ? p * x : e - 1.0;
}

static int is_classification(const dpfast_loss *loss)
{
    dpfast_loss_info info;
    return dpfast_loss_describe(loss->id, &info) == DPFAST_OK &&
           info.targets == DPFAST_SIGNS;
}

/* Loss, derivative in z and derivative in the shift at m margins, which are overwritten. */
static dpfast_status shifted_points(const dpfast_loss *loss, int classification, ptrdiff_t m,
                                    const double *target, double shift, double rounding, double *z,
                                    double *value, double *slope, double *loss_sum, double *pull,
                                    const double *weight)
{
    double part_loss = 0.0, part_pull = 0.0;
    dpfast_status status;
    ptrdiff_t i;
    if (classification) {
        for (i = 0; i < m; i++) {
            z[i] -= target[i] * shift;
        }
        status = dpfast_loss_points(loss, m, z, target, value, slope, NULL);
        for (i = 0; i < m; i++) {
            const double c = weight != NULL ? weight[i] : 1.0;
            slope[i] *= c;
            part_loss += c * value[i];
            part_pull -= target[i] * slope[i];
        }
    } else {
        const double square = rounding * rounding;
        status = DPFAST_OK;
        for (i = 0; i < m && status == DPFAST_OK; i++) {
            const double zero = 0.0, r = z[i] - target[i];
            const double a = rounding > 0.0 ? sqrt(r * r + square) : fabs(r);
            const double moved = a + shift, c = weight != NULL ? weight[i] : 1.0;
            status = dpfast_loss_points(loss, 1, &moved, &zero, &value[i], &slope[i], NULL);
            part_loss += c * value[i];
            part_pull += c * slope[i];
            slope[i] *= c * (a > 0.0 ? r / a : 0.0 * r);
        }
    }
    *loss_sum += part_loss;
    *pull += part_pull;
    return status;
}

ptrdiff_t dpfast_multinomial_scratch(ptrdiff_t n, ptrdiff_t n_classes)
{
    const ptrdiff_t block = n < DPFAST_OBJECTIVE_BLOCK ? n : DPFAST_OBJECTIVE_BLOCK;
    return n_classes * block;
}

static ptrdiff_t dense_block(const dpfast_dense *rows)
{
    const ptrdiff_t entry = rows->scalar == DPFAST_FLOAT64 ? 8 : 4;
    ptrdiff_t block = BLOCK_BYTES / entry / (rows->d > 0 ? rows->d : 1);
    block -= block % 8;
    return block < 8 ? 8 : (block > 1024 ? 1024 : block);
}

static ptrdiff_t csr_block(const dpfast_csr *rows)
{
    (void)rows;
    return DPFAST_OBJECTIVE_BLOCK;
}

#define ROWS dpfast_dense
#define NAME(name) dpfast_dense_##name
#define LOCAL(name) dense_##name
#include "objectives_body.h"
#undef ROWS
#undef NAME
#undef LOCAL

#define ROWS dpfast_csr
#define NAME(name) dpfast_csr_##name
#define LOCAL(name) csr_##name
#include "objectives_body.h"
#undef ROWS
#undef NAME
#undef LOCAL
