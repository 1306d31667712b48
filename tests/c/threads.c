/* Kernels in several threads at once on the same rows, for the thread sanitizer: they share the
 * data and the instruction set in use, and nothing that is written. */
#include "dpfast.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 12, THREADS = 4, TURNS = 20 };

static double x[ROWS * COLUMNS], y[ROWS], w[COLUMNS + 1], results[THREADS][COLUMNS + 1];
static int failures[THREADS];

static void *work(void *argument)
{
    const ptrdiff_t me = (ptrdiff_t)(intptr_t)argument;
    const dpfast_loss logistic = {0, 0.0, 0.0};
    dpfast_dense rows;
    dpfast_stream stream;
    uint8_t key[DPFAST_KEY_BYTES] = {0};
    double norms[ROWS], margins[ROWS], loss_sum, noise[8];
    int64_t exact[8];
    int turn;
    memset(&rows, 0, sizeof rows);
    rows.n = ROWS;
    rows.d = rows.row_stride = COLUMNS;
    rows.x = x;
    rows.target = y;
    rows.intercept = 1.0;
    key[0] = (uint8_t)me;
    dpfast_stream_init(&stream, key);
    for (turn = 0; turn < TURNS; turn++) {
        failures[me] |= dpfast_isa_current() < 0;
        failures[me] |= dpfast_dense_row_norms(&rows, norms) != DPFAST_OK;
        failures[me] |= dpfast_dense_margins(&rows, w, margins) != DPFAST_OK;
        failures[me] |= dpfast_dense_gradient(&rows, &logistic, w, 1.0, 1.0, results[me],
                                              &loss_sum) != DPFAST_OK;
        failures[me] |= dpfast_fill_gaussian(&stream, 8, noise) != DPFAST_OK;
        failures[me] |= dpfast_fill_discrete_gaussian(&stream, 1000, 8, exact) != DPFAST_OK;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    ptrdiff_t i;
    for (i = 0; i < ROWS * COLUMNS; i++) x[i] = (double)(i * 37 % 101) / 101.0 - 0.5;
    for (i = 0; i < ROWS; i++) y[i] = i % 3 ? 1.0 : -1.0;
    for (i = 0; i <= COLUMNS; i++) w[i] = 0.1 * (double)i;
    dpfast_dispatch_init();
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i)) return 2;
    for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < THREADS; i++)
        if (failures[i] || memcmp(results[i], results[0], sizeof results[0])) {
            printf("FAILED in thread %d\n", (int)i);
            return 1;
        }
    return 0;
}
