/* Kernels on vectors of one entry a row, stamped once per instruction set by dense_<isa>.c.
 * Deliberately no include guard. */

/* Steps whose sums are carried side by side. */
#define STEPS_AT_ONCE 4

/* Between these bounds of the losses, log(1 + exp(-t)) comes out of products of the factors
 * 1 + exp(-t) themselves.  Below, the 1 would swallow them; above, products would be too short. */
#define FACTORS_FROM 0.125
#define FACTORS_UP_TO 16.0
/* The product of a block stays below exp of this. */
#define LARGEST_PRODUCT 700.0

/* Losses of m rows at `count` step sizes from `step` on: one exponential a row and step. */
DPFAST_INLINE void logistic_steps(ptrdiff_t m, const double *DPFAST_RESTRICT ym,
                                  const double *DPFAST_RESTRICT yq, int count, const double *step,
                                  vec threshold, vec loss_clip, double *out)
{
    logistic_sums sums[STEPS_AT_ONCE];
    ptrdiff_t i;
    int k;
    for (k = 0; k < count; k++) {
        sums[k] = logistic_begin();
    }
    for (i = 0; i < m; i += DPFAST_LANES) {
        const vec a = vec_load(ym + i), b = vec_load(yq + i);
        for (k = 0; k < count; k++) {
            logistic_add(&sums[k], vec_mul_add(vec_set(step[k]), b, a), threshold, loss_clip);
        }
    }
    for (k = 0; k < count; k++) {
        out[k] += logistic_end(&sums[k]);
    }
}

/* The same by factors: ym and yq are divided by -EXP_STEP. */
DPFAST_INLINE void logistic_factors(ptrdiff_t m, const double *DPFAST_RESTRICT ym,
                                    const double *DPFAST_RESTRICT yq, int count,
                                    const double *step, vec highest, double *out)
{
    const vec lowest = vec_set(-1000.0 * EXP_STEPS), one = vec_set(1.0);
    vec product[STEPS_AT_ONCE], size[STEPS_AT_ONCE];
    ptrdiff_t i;
    int k;
    for (k = 0; k < count; k++) {
        product[k] = one;
        size[k] = vec_set(step[k]);
    }
    for (i = 0; i < m; i += DPFAST_LANES) {
        const vec a = vec_load(ym + i), b = vec_load(yq + i);
        for (k = 0; k < count; k++) {
            const vec x = vec_at_most(vec_mul_add(size[k], b, a), highest);
            const vec e = vec_exp_scaled(vec_at_least(x, lowest));
            product[k] = vec_mul(product[k], vec_add(e, one));
        }
    }
    for (k = 0; k < count; k++) {
        out[k] += log(vec_product(product[k]));
    }
}

static void logistic_line_search(ptrdiff_t n, const double *DPFAST_RESTRICT margin,
                                 const double *DPFAST_RESTRICT direction_margin,
                                 const double *DPFAST_RESTRICT target, double clip,
                                 ptrdiff_t n_steps, const double *steps, double *out)
{
    const int factors = clip >= FACTORS_FROM && clip <= FACTORS_UP_TO;
    const ptrdiff_t short_block = factors ? (ptrdiff_t)(LARGEST_PRODUCT / clip) : DPFAST_BLOCK_ROWS;
    const ptrdiff_t block = short_block < DPFAST_BLOCK_ROWS ? short_block - short_block % 8
                                                            : DPFAST_BLOCK_ROWS;
    const double scale = factors ? -1.0 / EXP_STEP : 1.0, threshold = logistic_threshold(clip);
    const vec bound = vec_set(scale * threshold), loss_clip = vec_set(clip);
    double ym[DPFAST_BLOCK_ROWS], yq[DPFAST_BLOCK_ROWS];
    ptrdiff_t start, i, k;
    for (start = 0; start < n; start += block) {
        const ptrdiff_t m = n - start < block ? n - start : block;
        for (i = 0; i < m; i++) {
            const double y = scale * target[start + i];
            ym[i] = y * margin[start + i];
            yq[i] = -y * direction_margin[start + i];
        }
        for (; i % DPFAST_LANES != 0; i++) {
            ym[i] = scale * LOGISTIC_NOTHING;
            yq[i] = 0.0;
        }
        for (k = 0; k < n_steps; k += STEPS_AT_ONCE) {
            const int whole = k + STEPS_AT_ONCE <= n_steps;
            ptrdiff_t rest = k;
            if (factors && whole) {
                logistic_factors(m, ym, yq, STEPS_AT_ONCE, steps + k, bound, out + k);
            } else if (whole) {
                logistic_steps(m, ym, yq, STEPS_AT_ONCE, steps + k, bound, loss_clip, out + k);
            }
            for (; !whole && rest < n_steps; rest++) {
                if (factors) {
                    logistic_factors(m, ym, yq, 1, steps + rest, bound, out + rest);
                } else {
                    logistic_steps(m, ym, yq, 1, steps + rest, bound, loss_clip, out + rest);
                }
            }
        }
    }
}

static void line_search(ptrdiff_t n, const double *DPFAST_RESTRICT margin,
                        const double *DPFAST_RESTRICT direction_margin, const double *target,
                        const double *weight, const dpfast_loss *loss, double loss_clip,
                        ptrdiff_t n_steps, const double *steps, double *out)
{
    const loss_block losses_of_block = loss_blocks[loss->id];
    double z[DPFAST_BLOCK_ROWS];
    ptrdiff_t start, i, k;
    for (k = 0; k < n_steps; k++) {
        out[k] = 0.0;
    }
    if (loss->id == DPFAST_LOSS_logistic && weight == NULL) {
        logistic_line_search(n, margin, direction_margin, target, loss_clip, n_steps, steps, out);
        return;
    }
    for (start = 0; start < n; start += DPFAST_BLOCK_ROWS) {
        const ptrdiff_t m = n - start < DPFAST_BLOCK_ROWS ? n - start : DPFAST_BLOCK_ROWS;
        const double *row_weight = weight != NULL ? weight + start : NULL;
        for (k = 0; k < n_steps; k++) {
            const double step = steps[k];
            for (i = 0; i < m; i++) {
                z[i] = margin[start + i] - step * direction_margin[start + i];
            }
            out[k] += losses_of_block(m, z, target + start, row_weight, loss, loss_clip, NULL);
        }
    }
}

static void exp_points(ptrdiff_t n, const double *x, double *out)
{
    ptrdiff_t i = 0;
    for (; i + DPFAST_LANES <= n; i += DPFAST_LANES) {
        vec_store(out + i, vec_exp(vec_load(x + i), 0));
    }
    if (i < n) {
        vec_store_part(out + i, vec_exp(vec_load_part(x + i, n - i), 0), n - i);
    }
}

DPFAST_INLINE vec load_some(const double *p, ptrdiff_t count)
{
    return count < DPFAST_LANES ? vec_load_part(p, count) : vec_load(p);
}

DPFAST_INLINE void store_some(double *p, vec v, ptrdiff_t count)
{
    if (count < DPFAST_LANES) {
        vec_store_part(p, v, count);
    } else {
        vec_store(p, v);
    }
}

static double softmax(ptrdiff_t m, ptrdiff_t n_classes, const double *target, const double *weight,
                      const float *inverse_norm, int consistent, double clip_norm, double *z)
{
    const vec zero = vec_set(0.0), one = vec_set(1.0);
    vec infinite = zero; /* NaN from the first margin on that is not finite */
    ptrdiff_t i, k;
    for (i = 0; i < m; i += DPFAST_LANES) {
        const ptrdiff_t left = m - i;
        const vec label = load_some(target + i, left);
        vec top = load_some(z + i, left), sum = zero, own = zero, least = one, square = zero;
        vec limit = vec_set(INFINITY), factor = one, length, each;
        for (k = 1; k < n_classes; k++) {
            const vec margin = load_some(z + k * m + i, left);
            top = vec_select_less(top, margin, margin, top);
        }
        for (k = 0; k < n_classes; k++) {
            const vec margin = load_some(z + k * m + i, left);
            const vec e = vec_exp(vec_sub(margin, top), 1);
            infinite = vec_add(infinite, vec_mul(margin, zero));
            sum = vec_add(sum, e);
            store_some(z + k * m + i, e, left);
        }
        each = vec_div(one, sum);
        for (k = 0; k < n_classes; k++) {
            const vec p = vec_mul(load_some(z + k * m + i, left), each);
            const vec apart = vec_minus_abs(vec_sub(label, vec_set((double)k)));
            const vec slope = vec_select_less(vec_set(-0.5), apart, vec_sub(p, one), p);
            own = vec_select_less(vec_set(-0.5), apart, p, own);
            least = vec_at_most(p, least);
            square = vec_mul_add(slope, slope, square);
            store_some(z + k * m + i, slope, left);
        }
        /* The gradient is the outer product of the slopes and the row.  Those of another label k
         * have the square ||p||^2 - 2 p_k + 1; never less than the row's own, own >= least. */
        if (consistent) {
            square = vec_mul_add(vec_set(2.0), vec_sub(own, least), square);
        }
        length = vec_sqrt(square);
        if (weight != NULL) {
            factor = load_some(weight + i, left);
        }
        if (inverse_norm != NULL) {
            limit = left < DPFAST_LANES ? vec_load_float_part(inverse_norm + i, left)
                                        : vec_load_float(inverse_norm + i);
            limit = vec_mul(limit, vec_set(clip_norm));
        }
        factor = vec_mul(factor, vec_select_less(limit, length, vec_div(limit, length), one));
        for (k = 0; k < n_classes; k++) {
            store_some(z + k * m + i, vec_mul(load_some(z + k * m + i, left), factor), left);
        }
    }
    return vec_sum(infinite);
}

static double read_sum(ptrdiff_t n, const double *x)
{
    vec s[8];
    double tail = 0.0;
    ptrdiff_t i = 0;
    int k;
    for (k = 0; k < 8; k++) {
        s[k] = vec_set(0.0);
    }
    for (; i + 8 * DPFAST_LANES <= n; i += 8 * DPFAST_LANES) {
        for (k = 0; k < 8; k++) {
            s[k] = vec_add(s[k], vec_load(x + i + DPFAST_LANES * k));
        }
    }
    for (; i < n; i++) {
        tail += x[i];
    }
    for (k = 1; k < 8; k++) {
        s[0] = vec_add(s[0], s[k]);
    }
    return vec_sum(s[0]) + tail;
}

static double losses(ptrdiff_t n, const double *margin, const double *target, const double *weight,
                     const dpfast_loss *loss, double loss_clip, double *derivative)
{
    double sum = 0.0;
    ptrdiff_t start;
    for (start = 0; start < n; start += DPFAST_BLOCK_ROWS) {
        const ptrdiff_t m = n - start < DPFAST_BLOCK_ROWS ? n - start : DPFAST_BLOCK_ROWS;
        sum += loss_blocks[loss->id](m, margin + start, target + start,
                                     weight != NULL ? weight + start : NULL, loss, loss_clip,
                                     derivative + start);
    }
    return sum;
}

/* y += a x over n entries. */
DPFAST_INLINE void add_multiple(ptrdiff_t n, double a, const double *DPFAST_RESTRICT x,
                                double *DPFAST_RESTRICT y)
{
    const vec factor = vec_set(a);
    ptrdiff_t i = 0;
    for (; i + DPFAST_LANES <= n; i += DPFAST_LANES) {
        vec_store(y + i, vec_mul_add(vec_load(x + i), factor, vec_load(y + i)));
    }
    for (; i < n; i++) {
        y[i] += a * x[i];
    }
}

static void products(ptrdiff_t n, ptrdiff_t d, const double *rows, double *triangle)
{
    ptrdiff_t i, j;
    for (i = 0; i < n; i++) {
        for (j = 0; j <= i; j++) {
            *triangle++ = dot_float64(rows + i * d, rows + j * d, d);
        }
    }
}

static double form(ptrdiff_t n, const double *triangle, const double *s, double *scratch)
{
    double sum = 0.0;
    ptrdiff_t i;
    /* Twice what is left of the diagonal; its own part is the caller's. */
    for (i = 1; i < n; i++) {
        scratch[i - 1] = 0.0;
        triangle += i;
        add_multiple(i, 2.0 * s[i], triangle, scratch);
    }
    for (i = 0; i + 1 < n; i++) {
        sum += scratch[i] * s[i];
    }
    return sum;
}

static double square_through(ptrdiff_t n, const double *a, const double *s, double *scratch)
{
    double sum = 0.0;
    ptrdiff_t i;
    memset(scratch, 0, (size_t)n * sizeof *scratch);
    for (i = 0; i < n; i++) {
        add_multiple(n, s[i], a + i * n, scratch);
    }
    for (i = 0; i < n; i++) {
        sum += scratch[i] * scratch[i];
    }
    return sum;
}
