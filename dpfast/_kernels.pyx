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
        double width

    int DPFAST_CONVEX
    int DPFAST_MONOTONE
    int DPFAST_EVEN
    int DPFAST_QUADRATIC
    int DPFAST_MULTICLASS
    int DPFAST_LOG_LINK
    int DPFAST_SIGNS
    int DPFAST_LOSS_squared

    ctypedef struct dpfast_loss_info:
        int targets
        int facts
        int smoothed
        double parameter
        double parameter_low
        double parameter_high
        double width

    int dpfast_loss_count()
    const char *dpfast_loss_name(int id)
    dpfast_status dpfast_loss_describe(int id, dpfast_loss_info *info)
    double dpfast_loss_lipschitz(const dpfast_loss *loss)
    double dpfast_loss_smoothness(const dpfast_loss *loss)
    double dpfast_loss_at_zero(const dpfast_loss *loss)
    double dpfast_loss_lowest_target(const dpfast_loss *loss)
    double dpfast_loss_highest_target(const dpfast_loss *loss)
    dpfast_status dpfast_loss_points(
        const dpfast_loss *loss, ptrdiff_t n, const double *margin, const double *target,
        double *value, double *derivative, double *curvature)

    dpfast_status dpfast_line_search(
        ptrdiff_t n, const double *margin, const double *direction_margin, const double *target,
        const double *weight, const dpfast_loss *loss, double loss_clip, ptrdiff_t n_steps,
        const double *steps, double *out)
    ptrdiff_t dpfast_line_search_addition_depth(ptrdiff_t n)
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


cdef int _check_length(str name, ptrdiff_t length, ptrdiff_t expected) except -1:
    if length != expected:
        raise ValueError(f"{name} must have {expected} entries; got {length}.")
    return 0


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

cdef str _loss_name(int id):
    return dpfast_loss_name(id).decode().replace("_", "-")


cdef object _if_any(double value):
    """None for NaN, which stands for what a loss does not have."""
    return None if value != value else value


def loss_table():
    """Mapping of loss name to the line of the C list, as a dict.

    `smoothed`, `parameter` with its bounds, and `width` are None where the loss has no such thing.
    """
    cdef dpfast_loss_info info
    table = {}
    for i in range(dpfast_loss_count()):
        _check(dpfast_loss_describe(i, &info), "loss table")
        table[_loss_name(i)] = {
            "id": i,
            "kind": "classification" if info.targets == DPFAST_SIGNS else "regression",
            "convex": bool(info.facts & DPFAST_CONVEX),
            "monotone": bool(info.facts & DPFAST_MONOTONE),
            "even": bool(info.facts & DPFAST_EVEN),
            "quadratic": bool(info.facts & DPFAST_QUADRATIC),
            "multiclass": bool(info.facts & DPFAST_MULTICLASS),
            "log_link": bool(info.facts & DPFAST_LOG_LINK),
            "smoothed": None if info.smoothed < 0 else _loss_name(info.smoothed),
            "parameter": _if_any(info.parameter),
            "parameter_low": _if_any(info.parameter_low),
            "parameter_high": _if_any(info.parameter_high),
            "width": _if_any(info.width),
        }
    return table


cdef class LossSpec:
    """A loss of the C list with its parameter and width, as the kernels take it."""

    cdef dpfast_loss _loss

    def __init__(self, int id, double parameter=0.0, double width=0.0):
        self._loss = dpfast_loss(id, parameter, width)
        if dpfast_loss_lipschitz(&self._loss) != dpfast_loss_lipschitz(&self._loss):
            raise ValueError(
                f"loss {id} with parameter {parameter} and width {width} does not exist.")

    def __reduce__(self):
        return LossSpec, (self._loss.id, self._loss.parameter, self._loss.width)

    def constants(self):
        """(sup |loss'|, sup |loss''|, sup loss at margin 0) in the margin."""
        return (dpfast_loss_lipschitz(&self._loss), dpfast_loss_smoothness(&self._loss),
                dpfast_loss_at_zero(&self._loss))

    def target_range(self):
        """The lowest and the highest valid target."""
        return (dpfast_loss_lowest_target(&self._loss), dpfast_loss_highest_target(&self._loss))

    def points(self, const double[::1] margin not None, const double[::1] target not None):
        """(value, derivative, curvature) of the loss at each pair of margin and target."""
        cdef ptrdiff_t n = margin.shape[0]
        cdef double[:, ::1] out = np.empty((3, n))
        cdef dpfast_status status
        _check_length("target", target.shape[0], n)
        if n > 0:
            with nogil:
                status = dpfast_loss_points(
                    &self._loss, n, &margin[0], &target[0], &out[0, 0], &out[1, 0], &out[2, 0])
            _check(status, "loss points")
        values = np.asarray(out)
        return values[0], values[1], values[2]


def exp_points(const double[::1] x not None):
    """exp as the kernels compute it."""
    cdef double[::1] out = np.empty(x.shape[0])
    if x.shape[0] > 0:
        dpfast_exp_points(x.shape[0], &x[0], &out[0])
    return np.asarray(out)


def line_search(const double[::1] margin not None, const double[::1] direction_margin not None,
                const double[::1] target not None, const double[::1] weight,
                LossSpec loss not None, double loss_clip, const double[::1] steps not None,
                double[::1] out not None):
    """out[k] = sum of weight * min(loss(margin - steps[k] * direction_margin), loss_clip)."""
    cdef ptrdiff_t n = margin.shape[0], n_steps = steps.shape[0]
    cdef dpfast_status status
    cdef const double *weights = NULL
    if direction_margin.shape[0] != n or target.shape[0] != n:
        raise ValueError(f"direction_margin and target must have {n} entries.")
    if weight is not None:
        _check_length("weight", weight.shape[0], n)
        if n > 0:
            weights = &weight[0]
    _check_length("out", out.shape[0], n_steps)
    if n_steps == 0:
        return
    if n == 0:
        out[:] = 0.0
        return
    with nogil:
        status = dpfast_line_search(
            n, &margin[0], &direction_margin[0], &target[0], weights, &loss._loss, loss_clip,
            n_steps, &steps[0], &out[0])
    _check(status, "line search")


def read_sum(const double[::1] x not None):
    """Sum of x, as fast as memory can be read; the yardstick of the benchmarks."""
    cdef double total = 0.0
    cdef ptrdiff_t n = x.shape[0]
    if n > 0:
        with nogil:
            total = dpfast_read_sum(n, &x[0])
    return total


def line_search_addition_depth(ptrdiff_t n):
    """Longest chain of additions behind one sum of a line search over n rows."""
    return dpfast_line_search_addition_depth(n)


include "_kernels_rows.pxi"
include "_kernels_dense.pxi"
include "_kernels_csr.pxi"
include "_kernels_codes.pxi"
include "_kernels_epochs.pxi"
include "_kernels_objectives.pxi"
include "_kernels_affine.pxi"
include "_kernels_coordinates.pxi"
include "_kernels_groups.pxi"
include "_kernels_random.pxi"
include "_kernels_private_epochs.pxi"
