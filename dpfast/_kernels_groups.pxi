# ---- Groups of rows -----------------------------------------------------------------------------

cdef extern from "dpfast.h" nogil:
    ctypedef struct dpfast_groups:
        ptrdiff_t n
        const int64_t *start
        ptrdiff_t longest
        const int64_t *gram_start
        const double *gram
        const double *transform

    ctypedef struct dpfast_group_clip:
        double norm
        double row_norm
        double mass
        double gauge
        double relative
        double absolute
        int consistent
        double correlation

    dpfast_status dpfast_group_products(
        const dpfast_groups *groups, const double *z, ptrdiff_t dim, double *gram)
    ptrdiff_t dpfast_group_scratch(ptrdiff_t longest, ptrdiff_t dim, ptrdiff_t n_classes)
    dpfast_status dpfast_dense_group_gradient(
        const dpfast_dense *rows, const dpfast_groups *groups, const dpfast_group_clip *clip,
        const dpfast_loss *loss, ptrdiff_t n_classes, const double *w, double *scratch,
        double *gradient, double *share)
    dpfast_status dpfast_csr_group_gradient(
        const dpfast_csr *rows, const dpfast_groups *groups, const dpfast_group_clip *clip,
        const dpfast_loss *loss, ptrdiff_t n_classes, const double *w, double *scratch,
        double *gradient, double *share)
    ptrdiff_t dpfast_group_addition_depth(ptrdiff_t n, ptrdiff_t longest)


cdef class RowGroups:
    """Which rows belong together, and the products of each group's rows in coordinates of theirs.

    Group g has the rows ``start[g] <= i < start[g + 1]``.  Keeps references to the arrays it was
    given.

    Parameters
    ----------
    start : int64 array (n_groups + 1,)
        Begins with 0, never decreases.
    gram_start : int64 array (n_groups + 1,)
        Where a group's products are in `gram`; none for a group of one row.  Of a longer one
        without any, the gradient is added up before it is clipped.
    transform : float64 array (dim, dim), or None
        The coordinates of a row x are ``transform.T @ x``; None: its own.

    Attributes
    ----------
    gram : float64 array
        The lower triangles, row by row.
    """

    cdef readonly ptrdiff_t n_groups, n_samples, longest
    cdef const int64_t[::1] _start
    cdef const int64_t[::1] _gram_start
    cdef const double[:, ::1] _transform
    cdef double[::1] _gram
    cdef dpfast_groups _groups

    def __init__(self, const int64_t[::1] start not None, const int64_t[::1] gram_start not None,
                 const double[:, ::1] transform=None):
        cdef ptrdiff_t n = start.shape[0] - 1
        if n < 1 or gram_start.shape[0] != n + 1:
            raise ValueError("start and gram_start must have one entry more than there are groups.")
        steps = np.diff(start)
        if start[0] != 0 or np.any(steps < 0):
            raise ValueError("start must begin with 0 and never decrease.")
        held = np.diff(gram_start)
        if gram_start[0] != 0 or np.any((held != 0) & (held != steps * (steps + 1) // 2)):
            raise ValueError("gram_start must leave m (m + 1) / 2 entries or none to m rows.")
        self.n_groups = n
        self.n_samples = start[n]
        self.longest = steps.max()
        self._start = start
        self._gram_start = gram_start
        self._transform = transform
        self._gram = np.zeros(max(1, gram_start[n]))
        self._groups.longest = self.longest
        self._groups.gram = &self._gram[0]
        self._groups.transform = NULL
        if transform is not None:
            self._groups.transform = &self._transform[0, 0]

    @property
    def start(self):
        return np.asarray(self._start)

    @property
    def gram(self):
        return np.asarray(self._gram)[:self._gram_start[self.n_groups]]

    cdef dpfast_groups _slice(self, ptrdiff_t first, ptrdiff_t last) except *:
        cdef dpfast_groups groups = self._groups
        if not 0 <= first <= last <= self.n_groups:
            raise ValueError(f"groups [{first}, {last}) are outside [0, {self.n_groups}).")
        groups.n = last - first
        groups.start = &self._start[first]
        groups.gram_start = &self._gram_start[first]
        return groups

    def set_products(self, ptrdiff_t first, ptrdiff_t last, const double[:, ::1] z not None):
        """Compute the products of groups [first, last), whose rows in the coordinates are `z`."""
        cdef dpfast_groups groups = self._slice(first, last)
        cdef dpfast_status status
        if z.shape[0] != self._start[last] - self._start[first]:
            raise ValueError(
                f"z must have {self._start[last] - self._start[first]} rows; got {z.shape[0]}.")
        if z.shape[0] == 0:
            return
        with nogil:
            status = dpfast_group_products(&groups, &z[0, 0], z.shape[1], &self._gram[0])
        _check(status, "products of groups")


def group_gradient(rows, ptrdiff_t start, RowGroups groups not None, ptrdiff_t first,
                   ptrdiff_t last, LossSpec loss, const double[::1] label,
                   const double[:, ::1] w not None, dict clip not None,
                   double[:, ::1] out not None):
    """The share of groups [first, last), and out = the sum of their clipped gradients.

    Their rows are those from `start` on.  With `label`, the classes of these rows, `w` and `out`
    have one row a class; otherwise they have one row, and `loss` is the loss.  `clip` has the
    entries of dpfast_group_clip.
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef dpfast_groups part = groups._slice(first, last)
    cdef dpfast_group_clip how = clip
    cdef double share = 0.0
    cdef ptrdiff_t n_classes = w.shape[0]
    cdef ptrdiff_t stop = start + groups._start[last] - groups._start[first]
    cdef const dpfast_loss *kind = NULL if loss is None else &loss._loss
    _check_block(rows, start, stop, w.shape[1])
    _check_block(rows, start, stop, out.shape[1])
    if groups._transform is not None and (
            groups._transform.shape[0] != rows.dim or groups._transform.shape[1] != rows.dim):
        raise ValueError(f"the groups' transform must have shape {(rows.dim, rows.dim)}.")
    if out.shape[0] != n_classes or n_classes < 1 or (n_classes == 1) != (label is None):
        raise ValueError("w and out must have one row a class, or one without labels.")
    if (loss is None) != (label is not None):
        raise ValueError("there must be either a loss or labels.")
    if label is not None:
        _check_length("label", label.shape[0], stop - start)
    cdef double[::1] scratch = np.empty(
        dpfast_group_scratch(groups.longest, rows.dim, n_classes))
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        if label is not None:
            dense.target = &label[0]
        with nogil:
            status = dpfast_dense_group_gradient(
                &dense, &part, &how, kind, n_classes, &w[0, 0], &scratch[0], &out[0, 0],
                &share)
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        if label is not None:
            sparse.target = &label[0]
        with nogil:
            status = dpfast_csr_group_gradient(
                &sparse, &part, &how, kind, n_classes, &w[0, 0], &scratch[0], &out[0, 0],
                &share)
    _check(status, "gradient of groups")
    return share


def group_addition_depth(ptrdiff_t n, ptrdiff_t longest):
    """Longest chain of additions behind an entry of a gradient over n rows in groups."""
    return dpfast_group_addition_depth(n, longest)
