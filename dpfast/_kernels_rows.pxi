# ---- Rows of any layout -------------------------------------------------------------------------

class LayoutError(ValueError):
    """An array laid out in a way that the kernels do not read."""


cdef inline const double *_from(const double[::1] values, ptrdiff_t start) noexcept:
    """Address of an entry, NULL without values."""
    return NULL if values is None else &values[0] + start


cdef class _Rows:
    """Rows ``(scale_i * x_i, intercept)`` of a problem, with their targets.

    Keeps references to the arrays it was given.  The methods take a row range, so that threads can
    work on different blocks of the same object.  A layout has the rows in a struct for C, and what
    is called with their sizes checked.
    """

    cdef readonly ptrdiff_t n_samples, n_features, dim
    cdef readonly double intercept
    cdef const double[::1] _target
    cdef const double[::1] _weight
    cdef const double[::1] _row_scale
    cdef const float[::1] _inverse_norm
    cdef bint _consistent

    cdef int _begin(self, ptrdiff_t n, ptrdiff_t d, const double[::1] target,
                    double intercept) except -1:
        """Note sizes, and a target for each row."""
        if n < 1 or d < 1:
            raise ValueError(f"there must be at least one row and one column; got shape {(n, d)}.")
        _check_length("target", target.shape[0], n)
        self._target = target
        self._weight = self._row_scale = None
        self._inverse_norm = None
        self._consistent = False
        self.n_samples, self.n_features = n, d
        self.dim = d + (1 if intercept != 0.0 else 0)
        self.intercept = intercept
        return 0

    cdef int _check_range(self, ptrdiff_t start, ptrdiff_t stop) except -1:
        if not 0 <= start <= stop <= self.n_samples:
            raise ValueError(f"rows [{start}, {stop}) are outside [0, {self.n_samples}).")
        return 0

    cdef const float *_inverse_norms_from(self, ptrdiff_t start) noexcept:
        return NULL if self._inverse_norm is None else &self._inverse_norm[0] + start

    cdef int _attach(self) except -1:
        """Put the addresses of the arrays into the struct."""
        raise NotImplementedError

    cdef dpfast_status _row_norms(self, ptrdiff_t start, ptrdiff_t stop, double *out) except *:
        raise NotImplementedError

    cdef dpfast_status _margins(self, ptrdiff_t start, ptrdiff_t stop, const double *w,
                                double *out) except *:
        raise NotImplementedError

    cdef dpfast_status _gradient(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                 const double *w, double clip_norm, double loss_clip,
                                 double *out, double *loss_sum) except *:
        raise NotImplementedError

    cdef dpfast_status _objective(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                  const double *w, double loss_clip, double *loss_sum) except *:
        raise NotImplementedError

    def set_weight(self, const double[::1] weight):
        """Multiply row i's loss and clipped gradient by ``weight[i] >= 0``; None: by one."""
        if weight is not None:
            _check_length("weight", weight.shape[0], self.n_samples)
        self._weight = weight
        self._attach()

    def set_row_scale(self, const double[::1] row_scale):
        """Multiply row i by ``row_scale[i]`` from now on; None: by one."""
        if row_scale is not None:
            _check_length("row_scale", row_scale.shape[0], self.n_samples)
        self._row_scale = row_scale
        self._attach()

    def set_inverse_norm(self, const float[::1] inverse_norm, bint consistent=False):
        """Lower bounds of the rows' inverse norms, which gradient clipping needs.

        If `consistent`, clipped rows count less whichever their label is, see csrc/dense.h.
        """
        if inverse_norm is not None:
            _check_length("inverse_norm", inverse_norm.shape[0], self.n_samples)
        self._inverse_norm = inverse_norm
        self._consistent = consistent
        self._attach()

    def row_norms(self, ptrdiff_t start, ptrdiff_t stop, double[::1] out not None):
        """out = upper bounds of the norms of the stored rows (before scaling)."""
        self._check_range(start, stop)
        _check_length("out", out.shape[0], stop - start)
        if start < stop:
            _check(self._row_norms(start, stop, &out[0]), "row norms")

    def margins(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] w not None,
                double[::1] out not None):
        """out = <row, w> for the rows of the range."""
        self._check_range(start, stop)
        _check_length("w", w.shape[0], self.dim)
        _check_length("out", out.shape[0], stop - start)
        if start < stop:
            _check(self._margins(start, stop, &w[0], &out[0]), "margins")

    def gradient(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                 const double[::1] w not None, double clip_norm, double loss_clip,
                 double[::1] out not None):
        """out = sum of the rows' clipped gradients; returns the sum of their clipped losses."""
        cdef double loss_sum = 0.0
        self._check_range(start, stop)
        _check_length("w", w.shape[0], self.dim)
        _check_length("out", out.shape[0], self.dim)
        _check(
            self._gradient(
                start, stop, &loss._loss, &w[0], clip_norm, loss_clip, &out[0], &loss_sum),
            "gradient")
        return loss_sum

    def objective(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                  const double[::1] w not None, double loss_clip):
        """Sum of the rows' clipped losses."""
        cdef double loss_sum = 0.0
        self._check_range(start, stop)
        _check_length("w", w.shape[0], self.dim)
        _check(self._objective(start, stop, &loss._loss, &w[0], loss_clip, &loss_sum), "objective")
        return loss_sum
