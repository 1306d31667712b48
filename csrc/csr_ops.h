/* Private: the sparse kernels that are compiled once per instruction set, as a table, and access to
 * the typed arrays.  csr.c checks arguments and picks a table; csr_<isa>.c fill theirs from
 * csr_stamp.h. */
#ifndef DPFAST_CSR_OPS_H
#define DPFAST_CSR_OPS_H

#include <stdint.h>

#include "csr.h"
#include "dpfast.h"

typedef struct dpfast_csr_ops {
    void (*margins)(const dpfast_csr *rows, const double *w, double *margins);
    /* sum += sum_i s_i x~_i */
    void (*add_rows)(const dpfast_csr *rows, const double *s, double *sum);
    /* gradient may be NULL: the loss sum alone */
    double (*gradient)(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                       double clip_norm, double loss_clip, double *gradient);
    /* upper triangle only */
    void (*add_hessian)(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                        double *out);
    void (*quadratic_forms)(const dpfast_csr *rows, const double *matrix, double *forms);
} dpfast_csr_ops;

#define DECLARE_OPS(isa) extern const dpfast_csr_ops dpfast_csr_ops_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

/* Entry k of indptr or indices.  Where `type` is a constant nothing is left of the switch. */
static inline int64_t dpfast_index_at(const void *indices, int type, ptrdiff_t k)
{
    switch (type) {
    case DPFAST_INT32:
        return ((const int32_t *)indices)[k];
    case DPFAST_INT64:
        return ((const int64_t *)indices)[k];
    default:
        return ((const uint16_t *)indices)[k];
    }
}

#endif
