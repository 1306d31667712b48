/* The kernels on sparse rows, for the instruction set of the including file. */
#include "loss_blocks.h"

#include "csr_rows.h"

#include "csr_body.h"

const dpfast_csr_ops DPFAST_ISA(dpfast_csr_ops) = {margins, add_rows, gradient, add_hessian,
                                                     quadratic_forms};
