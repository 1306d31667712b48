/* dpfast: kernels for differentially private linear models.
 *
 * C99, no Python, no heap allocation, no global state but the instruction set in use; every
 * function is safe to call from several threads at once.  Sizes are ptrdiff_t counts of elements.
 * Functions that can fail return a dpfast_status.
 *
 * A row of a problem is x~_i = (scale_i * x_i, intercept): `row_scale` brings rows into the ball that
 * the privacy analysis assumes, and the constant column is never stored.  Weight vectors and
 * gradients have d + 1 entries when intercept != 0, and d otherwise ("dim" in the headers). */
#ifndef DPFAST_H
#define DPFAST_H

#include "affine.h"
#include "batches.h"
#include "codes.h"
#include "column_counts.h"
#include "coordinates.h"
#include "csr.h"
#include "dense.h"
#include "dispatch.h"
#include "epochs.h"
#include "groups.h"
#include "line_search.h"
#include "loss.h"
#include "loss_list.h"
#include "objectives.h"
#include "private_epochs.h"
#include "random.h"
#include "status.h"

#endif
