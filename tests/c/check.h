/* What the test programs share: checks that are counted, and numbers from -1 to 1. */
#ifndef DPFAST_TESTS_CHECK_H
#define DPFAST_TESTS_CHECK_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"

static int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition);                          \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* Whether the machine has an instruction set, which is in use from here on. */
static inline int in_use(int isa)
{
    if (!dpfast_isa_supported(isa)) return 0;
    CHECK(dpfast_isa_force(isa) == DPFAST_OK);
    return 1;
}

/* What a program says at its end; its exit code. */
static inline int outcome(void)
{
    printf("%d failures\n", failures);
    return failures != 0;
}

/* A small generator is enough here. */
static inline double uniform(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)*state / 4294967296.0 * 2.0 - 1.0;
}

static inline double *uniforms(ptrdiff_t n, unsigned *state)
{
    double *x = malloc((size_t)n * sizeof *x);
    ptrdiff_t i;
    for (i = 0; i < n; i++) x[i] = uniform(state);
    return x;
}

#endif
