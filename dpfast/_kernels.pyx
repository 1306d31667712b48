# cython: language_level=3
"""The only door between Python and the C kernels.

Arrays come in as typed memoryviews, shapes are checked here, the GIL is released, and a status code
becomes an exception.  Nothing here knows about privacy.
"""

import numpy as np

from libc.stddef cimport ptrdiff_t


cdef extern from "dpfast.h" nogil:
    ctypedef enum dpfast_status:
        DPFAST_OK
        DPFAST_ERR_NONFINITE
        DPFAST_ERR_ARGUMENT
        DPFAST_ERR_ENTROPY
        DPFAST_ERR_UNSUPPORTED
        DPFAST_ERR_INTERRUPTED

    int DPFAST_ISA_COUNT
    void dpfast_dispatch_init()
    int dpfast_isa_current()
    int dpfast_isa_supported(int isa)
    const char *dpfast_isa_name(int isa)
    dpfast_status dpfast_isa_force(int isa)

    ctypedef struct dpfast_loss:
        int id
        double parameter

    int dpfast_loss_count()
    const char *dpfast_loss_name(int id)
    int dpfast_loss_kind(int id)
    double dpfast_loss_lipschitz(dpfast_loss loss)
    double dpfast_loss_smoothness(dpfast_loss loss)
    double dpfast_loss_at_zero(dpfast_loss loss)
    dpfast_status dpfast_loss_points(
        dpfast_loss loss, ptrdiff_t n, const double *margin, const double *target,
        double *value, double *derivative, double *curvature)

    double dpfast_read_sum(ptrdiff_t n, const double *x)
    void dpfast_exp_points(ptrdiff_t n, const double *x, double *out)


cdef int _check(dpfast_status status, str what) except -1:
    """Turn a status code into an exception that names the operation."""
    if status == DPFAST_OK:
        return 0
    if status == DPFAST_ERR_NONFINITE:
        raise FloatingPointError(
            f"{what}: NaN or infinity in the input, or a result too large for float64."
        )
    if status == DPFAST_ERR_ARGUMENT:
        raise ValueError(f"{what}: an argument is outside its documented range.")
    if status == DPFAST_ERR_ENTROPY:
        raise OSError(f"{what}: the operating system gave no random bytes.")
    if status == DPFAST_ERR_INTERRUPTED:
        raise KeyboardInterrupt
    raise NotImplementedError(f"{what}: not supported on this CPU or by this build.")


dpfast_dispatch_init()


def isa_name():
    """Name of the instruction set in use."""
    return dpfast_isa_name(dpfast_isa_current()).decode()


def supported_isas():
    """Names of the instruction sets that this CPU and this build can run."""
    return [dpfast_isa_name(i).decode() for i in range(DPFAST_ISA_COUNT) if dpfast_isa_supported(i)]


def force_isa(str name):
    """Use the named instruction set from now on; for tests and benchmarks."""
    for i in range(DPFAST_ISA_COUNT):
        if dpfast_isa_name(i).decode() == name:
            _check(dpfast_isa_force(i), f"instruction set {name!r}")
            return
    raise ValueError(f"name must be one of {supported_isas()}; got {name!r}.")


# ---- Losses -------------------------------------------------------------------------------------

def loss_table():
    """Mapping of loss name to (id, kind); kind is "classification" or "regression"."""
    return {
        dpfast_loss_name(i).decode(): (i, ("classification", "regression")[dpfast_loss_kind(i)])
        for i in range(dpfast_loss_count())
    }


def loss_constants(int loss_id, double parameter):
    """(sup |loss'|, sup |loss''|, sup loss at margin 0) in the margin."""
    cdef dpfast_loss loss = dpfast_loss(loss_id, parameter)
    return dpfast_loss_lipschitz(loss), dpfast_loss_smoothness(loss), dpfast_loss_at_zero(loss)


def loss_points(int loss_id, double parameter, const double[::1] margin, const double[::1] target):
    """(value, derivative, curvature) of the loss at each pair of margin and target."""
    cdef ptrdiff_t n = margin.shape[0]
    cdef dpfast_loss loss = dpfast_loss(loss_id, parameter)
    cdef double[:, ::1] out = np.empty((3, n))
    cdef dpfast_status status
    if target.shape[0] != n:
        raise ValueError(f"target must have {n} entries; got {target.shape[0]}.")
    if n > 0:
        with nogil:
            status = dpfast_loss_points(
                loss, n, &margin[0], &target[0], &out[0, 0], &out[1, 0], &out[2, 0])
        _check(status, "loss_points")
    values = np.asarray(out)
    return values[0], values[1], values[2]


def exp_points(const double[::1] x):
    """exp as the kernels compute it."""
    cdef double[::1] out = np.empty(x.shape[0])
    if x.shape[0] > 0:
        dpfast_exp_points(x.shape[0], &x[0], &out[0])
    return np.asarray(out)


def read_sum(const double[::1] x):
    """Sum of x, as fast as memory can be read; the yardstick of the benchmarks."""
    cdef double total = 0.0
    cdef ptrdiff_t n = x.shape[0]
    if n > 0:
        with nogil:
            total = dpfast_read_sum(n, &x[0])
    return total


include "_kernels_dense.pxi"
include "_kernels_random.pxi"
