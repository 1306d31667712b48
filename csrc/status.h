/* Status codes shared by every kernel.  Kernels never print, allocate or abort: they return one of
 * these, and the Cython layer turns it into an exception. */
#ifndef DPFAST_STATUS_H
#define DPFAST_STATUS_H

typedef enum dpfast_status {
    DPFAST_OK = 0,
    DPFAST_ERR_NONFINITE = 1,   /* NaN or infinity in the input, or produced from it */
    DPFAST_ERR_ARGUMENT = 2,    /* a size, scale or index outside the documented range */
    DPFAST_ERR_ENTROPY = 3,     /* the operating system refused to give random bytes */
    DPFAST_ERR_UNSUPPORTED = 4, /* unknown loss, or instruction set this CPU lacks */
    DPFAST_ERR_INTERRUPTED = 5  /* the caller asked a long kernel to stop */
} dpfast_status;

#endif
