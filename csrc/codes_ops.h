/* Private: the kernels on rows in codes that are compiled once per instruction set, as a table. */
#ifndef DPFAST_CODES_OPS_H
#define DPFAST_CODES_OPS_H

#include "codes.h"
#include "dpfast.h"

typedef struct dpfast_codes_ops {
    void (*gather)(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t n, const double *table,
                   double *out);
    /* tables[0 .. levels) and a second one behind it += sums of every other row */
    void (*scatter)(const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t n, const double *s,
                    ptrdiff_t levels, double *tables);
    /* adds to tables unless it is NULL; returns the loss sum, *derivative_sum that of the slopes */
    double (*slopes)(const dpfast_coded *rows, ptrdiff_t start, const dpfast_csr *beside,
                     const dpfast_loss *loss, const double *table, double constant,
                     double clip_norm, double loss_clip, ptrdiff_t levels, double *tables,
                     double *derivative_sum);
} dpfast_codes_ops;

#define DECLARE_OPS(isa) extern const dpfast_codes_ops dpfast_codes_ops_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_OPS)
#undef DECLARE_OPS

static inline int dpfast_is_number(const dpfast_part *part)
{
    return part->type == DPFAST_NUMBER_FLOAT32 || part->type == DPFAST_NUMBER_FLOAT64;
}

/* Length of a part of a table. */
static inline ptrdiff_t dpfast_part_levels(const dpfast_part *part)
{
    return dpfast_is_number(part) ? 1 : part->levels;
}

#endif
