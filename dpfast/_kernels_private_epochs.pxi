# ---- Private epochs -----------------------------------------------------------------------------


cdef extern from "dpfast.h" nogil:
    ctypedef enum dpfast_sampling:
        DPFAST_BATCH_GIVEN
        DPFAST_BATCH_POISSON
        DPFAST_BATCH_FIXED_SIZE

    ctypedef enum dpfast_step_noise:
        DPFAST_NOISE_NONE
        DPFAST_NOISE_GIVEN
        DPFAST_NOISE_GAUSSIAN
        DPFAST_NOISE_DISCRETE

    ctypedef struct dpfast_private_epoch:
        double alpha
        double clip_norm
        double w_radius
        double momentum
        double divisor
        const double *snapshot
        const double *snapshot_gradient
        ptrdiff_t n_steps
        const double *step
        ptrdiff_t step_stride
        const double *average_weight
        dpfast_sampling sampling
        ptrdiff_t batch
        ptrdiff_t capacity
        int64_t *index
        uint64_t *set
        const int64_t *indices
        const int64_t *batch_start
        dpfast_step_noise noise
        double stddev
        double grid
        uint64_t scale
        const double *given_noise
        double *noise_work
        int64_t *discrete_work
        double *w
        double *velocity
        double *average
        double *work

    ptrdiff_t DPFAST_BATCH_SET_WORDS(ptrdiff_t n)
    dpfast_status dpfast_fixed_size_batch(
        dpfast_stream *stream, ptrdiff_t n, ptrdiff_t m, uint64_t *set, int64_t *index)
    dpfast_status dpfast_poisson_batch(
        dpfast_stream *stream, ptrdiff_t n, ptrdiff_t batch, ptrdiff_t capacity, uint64_t *set,
        int64_t *index, ptrdiff_t *count)
    dpfast_status dpfast_dense_private_epoch(
        const dpfast_dense *rows, const dpfast_loss *loss, const dpfast_private_epoch *epoch,
        dpfast_stream *stream)
    dpfast_status dpfast_csr_private_epoch(
        const dpfast_csr *rows, const dpfast_loss *loss, const dpfast_private_epoch *epoch,
        dpfast_stream *stream)


_SAMPLINGS = {"given": DPFAST_BATCH_GIVEN, "poisson": DPFAST_BATCH_POISSON,
              "fixed-size": DPFAST_BATCH_FIXED_SIZE}
_STEP_NOISES = {"none": DPFAST_NOISE_NONE, "given": DPFAST_NOISE_GIVEN,
                "gaussian": DPFAST_NOISE_GAUSSIAN, "discrete": DPFAST_NOISE_DISCRETE}


cdef _choice(str name, str value, dict table):
    if value not in table:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, table))}; got {value!r}.")
    return table[value]


def draw_batch(Stream stream not None, str sampling, ptrdiff_t n, ptrdiff_t batch,
               ptrdiff_t capacity):
    """The rows of one random batch, as the private epochs draw them.

    Parameters
    ----------
    stream : Stream
    sampling : {"poisson", "fixed-size"}
    n, batch : int
    capacity : int
        A Poisson batch of more rows is drawn again.
    """
    cdef uint64_t[::1] used
    cdef int64_t[::1] index
    cdef ptrdiff_t count = batch
    cdef dpfast_status status
    cdef bint poisson = _choice("sampling", sampling, _SAMPLINGS) == DPFAST_BATCH_POISSON
    if sampling == "given" or n < 1 or batch < 1 or batch > n or capacity < batch:
        raise ValueError(
            "a batch needs sampling 'poisson' or 'fixed-size' and 1 <= batch <= n, batch <= "
            f"capacity; got {sampling!r}, batch={batch}, n={n}, capacity={capacity}.")
    used = np.zeros(DPFAST_BATCH_SET_WORDS(n), dtype=np.uint64)
    index = np.empty(capacity, dtype=np.int64)
    with nogil:
        if poisson:
            status = dpfast_poisson_batch(
                &stream._state, n, batch, capacity, &used[0], &index[0], &count)
        else:
            status = dpfast_fixed_size_batch(&stream._state, n, batch, &used[0], &index[0])
    _check(status, "batch")
    return np.asarray(index)[:count]


def private_epoch(rows, LossSpec loss not None, double[::1] w not None, step, *,
                  str sampling, str noise, Stream stream=None, n_steps=None,
                  ptrdiff_t batch=0, ptrdiff_t capacity=0, divisor=None,
                  const int64_t[::1] indices=None, const int64_t[::1] batch_start=None,
                  double stddev=0.0, double grid=0.0, uint64_t scale=0,
                  const double[:, ::1] given_noise=None,
                  double alpha=0.0, double clip_norm=INFINITY, double w_radius=INFINITY,
                  double momentum=0.0, double[::1] velocity=None,
                  const double[::1] snapshot=None, const double[::1] snapshot_gradient=None,
                  double[::1] average=None, const double[::1] average_weight=None):
    """Noisy mini-batch steps: batches and noise are drawn, rows clipped and added up, in C.

    Step t with the batch ``B_t``, the step size ``h_t`` and ``s_i`` the loss's derivative at row i,
    less the same at the snapshot if there is one, is::

        G = sum(weight_i * clamp(s_i, clip_norm / norm(x~_i)) * x~_i for i in B_t) + noise
        v = momentum * v + G / divisor + snapshot_gradient
        w = project((1 - h_t * alpha) * w - h_t * v)
        average += average_weight_t * w

    Ctrl-C is answered within milliseconds and leaves the arrays as they were after some step.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        With inverse norms set if `clip_norm` is finite.
    loss : LossSpec
    w : float64 array (dim,), updated
    step : float or float64 array (n_steps,)
    sampling : {"poisson", "fixed-size", "given"}
        Every row with probability ``batch / n``; a uniform subset of `batch` rows; or
        ``indices[batch_start[t]:batch_start[t + 1]]``.
    noise : {"discrete", "gaussian", "given", "none"}
        ``grid`` times an exact discrete Gaussian of the integer `scale`, added to the sum rounded
        to the grid; `stddev` times a floating-point Gaussian, the result rounded to the grid;
        ``given_noise[t]``; or none.
    stream : Stream
        Source of batches and noise; not used by anyone else meanwhile.
    n_steps : int
        Not needed with `batch_start`.
    capacity : int
        Poisson batches of more rows are drawn again.
    divisor : float or None
        What the noisy sum is divided by; None: `batch`.
    momentum : float in [0, 1)
    velocity : float64 array (dim,), updated, or None
        Needed with momentum.
    snapshot, snapshot_gradient : float64 array (dim,) or None
    average : float64 array (dim,), updated, or None
    average_weight : float64 array (n_steps,) or None
        None: all ones.
    """
    cdef _EpochRows data = _EpochRows(rows)
    cdef ptrdiff_t n = data.n_samples, dim = data.dim, count, done = 0, total, slice_steps
    cdef double[::1] work = np.empty(dim), noise_work = np.empty(dim)
    cdef int64_t[::1] discrete_work = np.empty(dim, dtype=np.int64), index
    cdef uint64_t[::1] used
    cdef const double[::1] steps
    cdef dpfast_private_epoch epoch
    cdef dpfast_stream *state = NULL
    cdef dpfast_status status
    cdef double rows_per_step

    _check_length("w", w.shape[0], dim)
    epoch.sampling = _choice("sampling", sampling, _SAMPLINGS)
    epoch.noise = _choice("noise", noise, _STEP_NOISES)
    epoch.batch, epoch.capacity = batch, capacity
    epoch.indices = NULL
    epoch.batch_start = NULL
    epoch.index = NULL
    epoch.set = NULL
    if sampling == "given":
        if indices is None or batch_start is None or batch_start.shape[0] < 1:
            raise ValueError("indices and batch_start must be given with sampling='given'.")
        if batch_start[0] != 0 or batch_start[batch_start.shape[0] - 1] != indices.shape[0]:
            raise ValueError(
                f"batch_start must begin with 0 and end with {indices.shape[0]}, the number of "
                f"indices.")
        if divisor is None:
            raise ValueError("divisor must be given with sampling='given'.")
        data.check_indices(indices)
        total = batch_start.shape[0] - 1
        rows_per_step = <double>indices.shape[0] / max(total, 1)
        if indices.shape[0] > 0:
            epoch.indices = &indices[0]
    else:
        if n_steps is None or n_steps < 0:
            raise ValueError(f"n_steps must be a number >= 0; got {n_steps!r}.")
        if batch < 1 or batch > n:
            raise ValueError(f"batch must be in [1, {n}]; got {batch}.")
        if sampling == "poisson" and capacity < batch:
            raise ValueError(f"capacity must be at least batch={batch}; got {capacity}.")
        epoch.capacity = min(n, capacity) if sampling == "poisson" else batch
        total = n_steps
        rows_per_step = batch
        index = np.empty(epoch.capacity, dtype=np.int64)
        used = np.zeros(DPFAST_BATCH_SET_WORDS(n), dtype=np.uint64)
        epoch.index = &index[0]
        epoch.set = &used[0]
    if stream is not None:
        state = &stream._state
    elif sampling != "given" or noise in ("discrete", "gaussian"):
        raise ValueError("stream must be given: batches or noise are drawn from it.")
    steps = np.atleast_1d(np.asarray(step, dtype=np.float64))
    if np.ndim(step) != 0:
        _check_length("step", steps.shape[0], total)
    for name, vector in (("velocity", velocity), ("snapshot", snapshot),
                         ("snapshot_gradient", snapshot_gradient), ("average", average)):
        if vector is not None:
            _check_length(name, vector.shape[0], dim)
    if momentum != 0.0 and velocity is None:
        raise ValueError("velocity must be given with momentum.")
    if average_weight is not None:
        _check_length("average_weight", average_weight.shape[0], total)
    if noise == "given" and (given_noise is None or given_noise.shape[0] != total
                             or given_noise.shape[1] != dim):
        raise ValueError(f"given_noise must have shape {(total, dim)}.")
    _check_apart(
        {"w": w, "velocity": velocity, "average": average},
        {"snapshot": snapshot, "snapshot_gradient": snapshot_gradient, "step": steps,
         "given_noise": given_noise, "average_weight": average_weight})
    if total == 0:
        return

    epoch.alpha, epoch.clip_norm, epoch.w_radius = alpha, clip_norm, w_radius
    epoch.momentum = momentum
    epoch.divisor = batch if divisor is None else divisor
    epoch.snapshot = _from(snapshot, 0)
    epoch.snapshot_gradient = _from(snapshot_gradient, 0)
    epoch.step_stride = 0 if np.ndim(step) == 0 else 1
    epoch.stddev, epoch.grid, epoch.scale = stddev, grid, scale
    epoch.given_noise = NULL
    epoch.average_weight = NULL
    epoch.noise_work = &noise_work[0]
    epoch.discrete_work = &discrete_work[0]
    epoch.w = &w[0]
    epoch.velocity = NULL if velocity is None else &velocity[0]
    epoch.average = NULL if average is None else &average[0]
    epoch.work = &work[0]
    # A drawn value costs as much as some twenty entries, a tossed bit of a Poisson batch a tenth.
    slice_steps = data.slice_steps(rows_per_step + 20.0, True)
    if sampling == "poisson":
        slice_steps = min(slice_steps, <ptrdiff_t>(_SLICE_ENTRIES / (0.1 * n)) + 1)
    while True:
        count = min(slice_steps, total - done)
        epoch.n_steps = count
        epoch.step = &steps[done * epoch.step_stride]
        if sampling == "given":
            epoch.batch_start = &batch_start[done]
        if noise == "given":
            epoch.given_noise = &given_noise[done, 0]
        if average_weight is not None:
            epoch.average_weight = &average_weight[done]
        if data.dense is not None:
            with nogil:
                status = dpfast_dense_private_epoch(
                    &data.dense._rows, &loss._loss, &epoch, state)
        else:
            with nogil:
                status = dpfast_csr_private_epoch(&data.csr._rows, &loss._loss, &epoch, state)
        _check(status, "private epoch")
        done += count
        if done >= total:
            return
        PyErr_CheckSignals()
