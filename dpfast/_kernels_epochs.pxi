# ---- Stochastic epochs --------------------------------------------------------------------------

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int64_t


cdef extern from "dpfast.h" nogil:
    ctypedef struct dpfast_sgd:
        double alpha
        double w_radius
        const double *snapshot_derivative
        const double *snapshot_gradient
        ptrdiff_t n_steps
        const int64_t *indices
        const double *step
        ptrdiff_t step_stride
        const double *average_weight
        double *w
        double *average

    ctypedef struct dpfast_katyusha:
        double alpha
        double smoothness
        double tau1
        double w_radius
        const double *snapshot
        const double *snapshot_gradient
        const double *snapshot_margin
        const double *snapshot_derivative
        ptrdiff_t n_steps
        const int64_t *indices
        double *z
        double *y
        double *average
        double *average_scale

    dpfast_status dpfast_dense_sgd_epoch(
        const dpfast_dense *rows, const dpfast_loss *loss, const dpfast_sgd *epoch)
    dpfast_status dpfast_dense_katyusha_epoch(
        const dpfast_dense *rows, const dpfast_loss *loss, const dpfast_katyusha *epoch)
    dpfast_status dpfast_csr_sgd_epoch(
        const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_sgd *epoch)
    dpfast_status dpfast_csr_katyusha_epoch(
        const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_katyusha *epoch)


# Entries touched between two looks for Ctrl-C: about 10 to 50 ms.  Slices depend on sizes alone, so
# that results do, too.
cdef double _SLICE_ENTRIES = 2.0**24


cdef class _EpochRows:
    """Dense or sparse rows, by one name."""

    cdef DenseRows dense
    cdef CsrRows csr
    cdef readonly ptrdiff_t n_samples, dim

    def __init__(self, rows):
        if isinstance(rows, DenseRows):
            self.dense = rows
        elif isinstance(rows, CsrRows):
            self.csr = rows
            self.csr._slice(0, 0)  # rows in codes are written out
        else:
            raise TypeError(f"rows must be DenseRows or CsrRows; got {type(rows).__name__}.")
        self.n_samples = rows.n_samples
        self.dim = rows.dim

    cdef ptrdiff_t slice_steps(self, double rows_per_step, bint all_columns):
        """Steps between two looks for Ctrl-C."""
        cdef double entries = self.dim
        if self.csr is not None:
            entries = <double>self.csr.n_stored / self.n_samples + 1.0
        entries = entries * rows_per_step + (self.dim if all_columns else 0)
        return <ptrdiff_t>(_SLICE_ENTRIES / (entries + 64.0)) + 1

    cdef int check_indices(self, const int64_t[::1] indices) except -1:
        cdef ptrdiff_t k, count = indices.shape[0]
        cdef int64_t n = self.n_samples, wrong = 0
        cdef bint found = False
        with nogil:
            for k in range(count):
                if indices[k] < 0 or indices[k] >= n:
                    found = True
                    wrong = indices[k]
                    break
        if found:
            raise ValueError(f"indices must be in [0, {n}); got {wrong}.")
        return 0

    cdef dpfast_status sgd(self, const dpfast_loss *loss, const dpfast_sgd *epoch) noexcept:
        cdef dpfast_status status
        if self.dense is not None:
            with nogil:
                status = dpfast_dense_sgd_epoch(&self.dense._rows, loss, epoch)
        else:
            with nogil:
                status = dpfast_csr_sgd_epoch(&self.csr._rows, loss, epoch)
        return status

    cdef dpfast_status katyusha(self, const dpfast_loss *loss,
                                const dpfast_katyusha *epoch) noexcept:
        cdef dpfast_status status
        if self.dense is not None:
            with nogil:
                status = dpfast_dense_katyusha_epoch(&self.dense._rows, loss, epoch)
        else:
            with nogil:
                status = dpfast_csr_katyusha_epoch(&self.csr._rows, loss, epoch)
        return status


cdef int _check_apart(dict written, dict read) except -1:
    """Arrays that a kernel writes must overlap no other array."""
    names = list(written)
    for k, name in enumerate(names):
        others = {other: written[other] for other in names[k + 1:]} | read
        for other, array in others.items():
            if (array is not None and written[name] is not None
                    and np.may_share_memory(written[name], array)):
                raise ValueError(f"{name} and {other} must not share memory: pass a copy.")
    return 0


def sgd_epoch(rows, LossSpec loss, double[::1] w, const int64_t[::1] indices, step, *,
              double alpha=0.0, double w_radius=INFINITY,
              const double[::1] snapshot_derivative=None,
              const double[::1] snapshot_gradient=None, double[::1] average=None,
              const double[::1] average_weight=None):
    """Stochastic gradient steps along given rows, with given step sizes.

    Step t with row i and step size ``h_t`` is, with ``s_i`` the loss's derivative there::

        g = weight_i * (s_i - s~_i) * x~_i + g~
        w = project((1 - h_t * alpha) * w - h_t * g)
        average += average_weight_t * w

    `snapshot_derivative` (``s~``) and `snapshot_gradient` (``g~``, without the ridge) make it SVRG
    (Johnson & Zhang 2013); without them both are 0.  Ctrl-C is answered within milliseconds and
    leaves `w` and `average` as they were after some step.

    Parameters
    ----------
    rows : DenseRows or CsrRows
    loss : LossSpec
    w : float64 array (dim,), updated
    indices : int64 array (n_steps,)
        Rows of the steps.
    step : float or float64 array (n_steps,)
    alpha : float
        Ridge.
    w_radius : float
        Radius of the ball onto which every step is projected.
    average : float64 array (dim,), updated, or None
    average_weight : float64 array (n_steps,) or None
        None: all ones.
    """
    cdef _EpochRows data = _EpochRows(rows)
    cdef ptrdiff_t dim = data.dim, n_steps = indices.shape[0], count, done = 0
    cdef const double[::1] steps
    cdef dpfast_sgd epoch
    cdef dpfast_status status
    cdef ptrdiff_t slice_steps = data.slice_steps(1.0, False)

    data.check_indices(indices)
    _check_length("w", w.shape[0], dim)
    steps = np.atleast_1d(np.asarray(step, dtype=np.float64))
    if np.ndim(step) != 0:
        _check_length("step", steps.shape[0], n_steps)
    if snapshot_derivative is not None:
        _check_length("snapshot_derivative", snapshot_derivative.shape[0], data.n_samples)
    if snapshot_gradient is not None:
        _check_length("snapshot_gradient", snapshot_gradient.shape[0], dim)
    if average is not None:
        _check_length("average", average.shape[0], dim)
    if average_weight is not None:
        _check_length("average_weight", average_weight.shape[0], n_steps)
    _check_apart(
        {"w": w, "average": average},
        {"snapshot_gradient": snapshot_gradient, "snapshot_derivative": snapshot_derivative,
         "step": steps, "average_weight": average_weight})
    if n_steps == 0:
        return

    epoch.alpha = alpha
    epoch.w_radius = w_radius
    epoch.snapshot_derivative = _from(snapshot_derivative, 0)
    epoch.snapshot_gradient = _from(snapshot_gradient, 0)
    epoch.indices = &indices[0]
    epoch.step = &steps[0]
    epoch.step_stride = 0 if np.ndim(step) == 0 else 1
    epoch.average_weight = _from(average_weight, 0)
    epoch.w = &w[0]
    epoch.average = NULL
    if average is not None:
        epoch.average = &average[0]

    while True:
        count = min(slice_steps, n_steps - done)
        epoch.n_steps = count
        status = data.sgd(&loss._loss, &epoch)
        _check(status, "sgd epoch")
        PyErr_CheckSignals()
        done += count
        if done == n_steps:
            return
        epoch.indices += count
        epoch.step += count * epoch.step_stride
        if epoch.average_weight != NULL:
            epoch.average_weight += count


def katyusha_epoch(rows, LossSpec loss, double[::1] z, double[::1] y, double[::1] average,
                   double[::1] average_scale, const int64_t[::1] indices, *, double alpha,
                   double smoothness, double tau1, const double[::1] snapshot,
                   const double[::1] snapshot_gradient, const double[::1] snapshot_margin,
                   const double[::1] snapshot_derivative, double w_radius=INFINITY):
    """Katyusha steps (Allen-Zhu 2018, Algorithm 1, option I for y) on given rows.

    With ``gamma = 1 / (3 * tau1 * smoothness)`` and the mean loss gradient ``g~`` and derivatives
    ``s~`` of the snapshot ``w~``, the step with row i is::

        w = tau1 * z + w~ / 2 + (1 / 2 - tau1) * y
        g = weight_i * (s_i(w) - s~_i) * x~_i + g~
        z = project((z - gamma * g) / (1 + gamma * alpha))
        y = project((3 * smoothness * w - g) / (3 * smoothness + alpha))

    `average` becomes the mean of the epoch's ``y``, with weights that grow by ``1 + gamma * alpha``
    a step: the next snapshot.  Ctrl-C is answered as in :func:`sgd_epoch`.

    Parameters
    ----------
    rows : DenseRows or CsrRows
    loss : LossSpec
    z, y : float64 arrays (dim,), updated
        Both the first snapshot when the first epoch begins.
    average : float64 array (dim,), updated
    average_scale : float64 array (1,), updated
        The weights' sum relative to the latest; 0 when an epoch begins, which clears `average`.
    indices : int64 array
        One row a step.
    alpha : float
        Ridge of the mean loss.
    smoothness : float
        Of every row's loss in w, its weight included.
    tau1 : float in (0, 1/2]
        ``min(sqrt(m * alpha / (3 * smoothness)), 1 / 2)`` for epochs of m steps.
    snapshot, snapshot_gradient : float64 arrays (dim,)
        The snapshot, and the mean loss gradient there without the ridge.
    snapshot_margin, snapshot_derivative : float64 arrays (n_samples,)
        ``<x~_i, w~>`` and the loss's derivative there.
    w_radius : float
        Radius of the ball onto which z and y are projected.
    """
    cdef _EpochRows data = _EpochRows(rows)
    cdef ptrdiff_t n = data.n_samples, dim = data.dim, n_steps = indices.shape[0]
    cdef ptrdiff_t slice_steps, count, done = 0
    cdef dpfast_katyusha epoch
    cdef dpfast_status status

    data.check_indices(indices)
    _check_length("z", z.shape[0], dim)
    _check_length("y", y.shape[0], dim)
    _check_length("average", average.shape[0], dim)
    _check_length("average_scale", average_scale.shape[0], 1)
    _check_length("snapshot", snapshot.shape[0], dim)
    _check_length("snapshot_gradient", snapshot_gradient.shape[0], dim)
    _check_length("snapshot_margin", snapshot_margin.shape[0], n)
    _check_length("snapshot_derivative", snapshot_derivative.shape[0], n)
    _check_apart(
        {"z": z, "y": y, "average": average, "average_scale": average_scale},
        {"snapshot": snapshot, "snapshot_gradient": snapshot_gradient,
         "snapshot_margin": snapshot_margin, "snapshot_derivative": snapshot_derivative})
    if n_steps == 0:
        return

    epoch.alpha = alpha
    epoch.smoothness = smoothness
    epoch.tau1 = tau1
    epoch.w_radius = w_radius
    epoch.snapshot = &snapshot[0]
    epoch.snapshot_gradient = &snapshot_gradient[0]
    epoch.snapshot_margin = &snapshot_margin[0]
    epoch.snapshot_derivative = &snapshot_derivative[0]
    epoch.indices = &indices[0]
    epoch.z = &z[0]
    epoch.y = &y[0]
    epoch.average = &average[0]
    epoch.average_scale = &average_scale[0]

    slice_steps = data.slice_steps(1.0, w_radius < INFINITY)
    while True:
        count = min(slice_steps, n_steps - done)
        epoch.n_steps = count
        status = data.katyusha(&loss._loss, &epoch)
        _check(status, "katyusha epoch")
        PyErr_CheckSignals()
        done += count
        if done == n_steps:
            return
        epoch.indices += count
