/* The fast part of the ziggurat, once per instruction set; private to the samplers. */
#ifndef DPFAST_ZIGGURAT_H
#define DPFAST_ZIGGURAT_H

#include <stddef.h>
#include <stdint.h>

#include "dispatch.h"

/* out[i] = the normal number that word[i] alone decides, for the longest run of such words from the
 * first on; returns its length.  Entries of out after it, up to n, are overwritten. */
typedef ptrdiff_t dpfast_ziggurat_fn(ptrdiff_t n, const uint64_t *word, double *out);

#define DECLARE_ZIGGURAT(isa) dpfast_ziggurat_fn dpfast_ziggurat_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_ZIGGURAT)
#undef DECLARE_ZIGGURAT

#endif
