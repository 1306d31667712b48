# ---- Randomness ---------------------------------------------------------------------------------

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef extern from "random.h" nogil:
    int DPFAST_KEY_BYTES
    uint64_t DPFAST_MAX_GAUSSIAN_SCALE
    uint64_t DPFAST_MAX_LAPLACE_SCALE
    int64_t DPFAST_MAX_SCORE
    double DPFAST_MAX_LAPLACE_DIM

    ctypedef struct dpfast_stream:
        pass

    ctypedef enum dpfast_selection:
        DPFAST_SELECT_LAPLACE
        DPFAST_SELECT_EXPONENTIAL
        DPFAST_SELECT_GUMBEL

    dpfast_status dpfast_os_entropy(void *out, size_t n)
    void dpfast_stream_init(dpfast_stream *stream, const uint8_t *key)
    dpfast_status dpfast_stream_init_os(dpfast_stream *stream)
    void dpfast_stream_wipe(dpfast_stream *stream)
    dpfast_status dpfast_fill_uint64(dpfast_stream *stream, ptrdiff_t n, uint64_t *out)
    dpfast_status dpfast_fill_discrete_gaussian(
        dpfast_stream *stream, uint64_t scale, ptrdiff_t n, int64_t *out)
    dpfast_status dpfast_fill_discrete_laplace(
        dpfast_stream *stream, uint64_t scale, ptrdiff_t n, int64_t *out)
    dpfast_status dpfast_noisy_max(
        dpfast_stream *stream, dpfast_selection selection, uint64_t scale, ptrdiff_t n,
        const int64_t *scores, ptrdiff_t *index)
    dpfast_status dpfast_fill_gaussian(dpfast_stream *stream, ptrdiff_t n, double *out)
    dpfast_status dpfast_fill_l2_laplace(
        dpfast_stream *stream, double scale, ptrdiff_t d, double *out)


KEY_BYTES = DPFAST_KEY_BYTES
MAX_GAUSSIAN_SCALE = DPFAST_MAX_GAUSSIAN_SCALE
MAX_LAPLACE_SCALE = DPFAST_MAX_LAPLACE_SCALE
MAX_SCORE = DPFAST_MAX_SCORE
MAX_LAPLACE_DIM = DPFAST_MAX_LAPLACE_DIM


def os_entropy(Py_ssize_t n):
    """n random bytes from the operating system."""
    cdef bytes out
    cdef char *start
    cdef dpfast_status status
    if n < 0:
        raise ValueError(f"n must be >= 0; got {n}.")
    out = PyBytes_FromStringAndSize(NULL, n)
    start = PyBytes_AsString(out)
    with nogil:
        status = dpfast_os_entropy(start, <size_t>n)
    _check(status, "os_entropy")
    return out


cdef class Stream:
    """A stream of random bits, and the samplers that read it.

    Not safe to use from several threads at once: the methods release the GIL and change the state.
    Each fills an array given by the caller; filling it in slices gives the same values.

    Parameters
    ----------
    key : bytes of length 32, or None
        None: from the operating system.
    """

    cdef dpfast_stream _state

    def __init__(self, key=None):
        self.rekey(key)

    def __dealloc__(self):
        dpfast_stream_wipe(&self._state)

    def __reduce__(self):
        raise TypeError(
            "a Stream cannot be pickled or copied: the copy would repeat the noise of the original."
        )

    def rekey(self, key=None):
        """Start again from the given key, or from one of the operating system."""
        cdef const uint8_t[::1] view
        if key is None:
            _check(dpfast_stream_init_os(&self._state), "random stream")
            return
        view = key
        if view.shape[0] != DPFAST_KEY_BYTES:
            raise ValueError(f"key must have {DPFAST_KEY_BYTES} bytes; got {view.shape[0]}.")
        dpfast_stream_init(&self._state, &view[0])

    def fill_uint64(self, uint64_t[::1] out):
        """Uniform 64-bit words."""
        cdef dpfast_status status
        with nogil:
            status = dpfast_fill_uint64(&self._state, out.shape[0], _first_uint64(out))
        _check(status, "fill_uint64")

    def fill_discrete_gaussian(self, uint64_t scale, int64_t[::1] out):
        """P(x) proportional to exp(-x^2 / (2 scale^2)), exactly."""
        cdef dpfast_status status
        with nogil:
            status = dpfast_fill_discrete_gaussian(
                &self._state, scale, out.shape[0], _first_int64(out))
        _check(status, "fill_discrete_gaussian")

    def fill_discrete_laplace(self, uint64_t scale, int64_t[::1] out):
        """P(x) proportional to exp(-|x| / scale), exactly."""
        cdef dpfast_status status
        with nogil:
            status = dpfast_fill_discrete_laplace(
                &self._state, scale, out.shape[0], _first_int64(out))
        _check(status, "fill_discrete_laplace")

    def fill_gaussian(self, double[::1] out):
        """Standard normal, in floating point."""
        cdef dpfast_status status
        with nogil:
            status = dpfast_fill_gaussian(&self._state, out.shape[0], _first_double(out))
        _check(status, "fill_gaussian")

    def fill_l2_laplace(self, double scale, double[::1] out):
        """A vector of density proportional to exp(-||z|| / scale), in floating point."""
        cdef dpfast_status status
        with nogil:
            status = dpfast_fill_l2_laplace(&self._state, scale, out.shape[0], _first_double(out))
        _check(status, "fill_l2_laplace")

    def noisy_max(self, int selection, uint64_t scale, const int64_t[::1] scores):
        """Index of the largest noisy score; selection 0: Laplace, 1: exponential, 2: Gumbel."""
        cdef ptrdiff_t index = 0
        cdef const int64_t *first = &scores[0] if scores.shape[0] > 0 else NULL
        cdef dpfast_status status
        with nogil:
            status = dpfast_noisy_max(
                &self._state, <dpfast_selection>selection, scale, scores.shape[0], first, &index)
        _check(status, "noisy_max")
        return index


# An empty view has no first element to take the address of.

cdef inline uint64_t *_first_uint64(uint64_t[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL


cdef inline int64_t *_first_int64(int64_t[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL


cdef inline double *_first_double(double[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL
