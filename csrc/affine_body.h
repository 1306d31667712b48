/* The kernels of affine.h on dense rows, stamped by affine_stamp.h once per instruction set and type
 * of entries; SCALAR, LOAD, LOAD_PART and NAME are those of dense_body.h.  Deliberately no include
 * guard. */

static void NAME(affine_rows)(const dpfast_dense *rows, ptrdiff_t columns,
                              const double *DPFAST_RESTRICT factor,
                              const double *DPFAST_RESTRICT shift, double *DPFAST_RESTRICT out,
                              double *DPFAST_RESTRICT squares)
{
    const ptrdiff_t d = rows->d < columns ? rows->d : columns;
    ptrdiff_t i;
    for (i = 0; i < rows->n; i++) {
        const SCALAR *x = (const SCALAR *)rows->x + i * rows->row_stride;
        const vec scale = vec_set(rows->row_scale != NULL ? rows->row_scale[i] : 1.0);
        vec s0 = vec_set(0.0), s1 = s0;
        double constant = 0.0;
        ptrdiff_t j = 0;
        for (; j + 2 * DPFAST_LANES <= d; j += 2 * DPFAST_LANES) {
            const ptrdiff_t k = j + DPFAST_LANES;
            const vec a = vec_mul_add(vec_mul(LOAD(x + j), scale), vec_load(factor + j),
                                      vec_load(shift + j));
            const vec b = vec_mul_add(vec_mul(LOAD(x + k), scale), vec_load(factor + k),
                                      vec_load(shift + k));
            vec_store(out + j, a);
            vec_store(out + k, b);
            s0 = vec_mul_add(a, a, s0);
            s1 = vec_mul_add(b, b, s1);
        }
        while (j < d) {
            const ptrdiff_t count = d - j < DPFAST_LANES ? d - j : DPFAST_LANES;
            vec a;
            if (count == DPFAST_LANES) {
                a = vec_mul_add(vec_mul(LOAD(x + j), scale), vec_load(factor + j),
                                vec_load(shift + j));
                vec_store(out + j, a);
            } else {
                a = vec_mul_add(vec_mul(LOAD_PART(x + j, count), scale),
                                vec_load_part(factor + j, count), vec_load_part(shift + j, count));
                vec_store_part(out + j, a, count);
            }
            s0 = vec_mul_add(a, a, s0);
            j += count;
        }
        if (d < columns) {
            constant = rows->intercept * factor[d] + shift[d];
            out[d] = constant;
        }
        squares[i] = vec_sum(vec_add(s0, s1)) + constant * constant;
        out += columns;
    }
}

static void NAME(affine_rows_float)(const dpfast_dense *rows, ptrdiff_t columns,
                                    const double *DPFAST_RESTRICT factor,
                                    const double *DPFAST_RESTRICT shift,
                                    float *DPFAST_RESTRICT out)
{
    const ptrdiff_t d = rows->d < columns ? rows->d : columns;
    ptrdiff_t i, j;
    for (i = 0; i < rows->n; i++) {
        const SCALAR *DPFAST_RESTRICT x = (const SCALAR *)rows->x + i * rows->row_stride;
        const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
        for (j = 0; j < d; j++) {
            out[j] = (float)(x[j] * scale * factor[j] + shift[j]);
        }
        if (d < columns) {
            out[d] = (float)(rows->intercept * factor[d] + shift[d]);
        }
        out += columns;
    }
}
