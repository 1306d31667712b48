/* Kernels on vectors of one entry a row, stamped once per instruction set by dense_<isa>.c.
 * Deliberately no include guard. */

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

static double read_sum(ptrdiff_t n, const double *x)
{
    vec4 s[8];
    double tail = 0.0;
    ptrdiff_t i = 0;
    int k;
    for (k = 0; k < 8; k++) {
        s[k] = vec4_set(0.0);
    }
    for (; i + 32 <= n; i += 32) {
        for (k = 0; k < 8; k++) {
            s[k] = vec4_add(s[k], vec4_load(x + i + 4 * k));
        }
    }
    for (; i < n; i++) {
        tail += x[i];
    }
    for (k = 1; k < 8; k++) {
        s[0] = vec4_add(s[0], s[k]);
    }
    return vec4_sum(s[0]) + tail;
}
