/* The kernels on rows in codes, for the instruction set of the including file. */
#include "loss_blocks.h"

#include "codes_body.h"

const dpfast_codes_ops DPFAST_ISA(dpfast_codes_ops) = {gather, scatter, slopes};
