# ---- Rows in other coordinates ------------------------------------------------------------------

from libc.stdint cimport uintptr_t


cdef extern from "dpfast.h" nogil:
    ctypedef struct dpfast_map:
        ptrdiff_t columns
        const double *transform
        const double *factor
        const double *shift

    ptrdiff_t dpfast_coordinates_scratch(ptrdiff_t dim, const dpfast_map *map)
    dpfast_status dpfast_dense_coordinates(
        const dpfast_dense *rows, const dpfast_map *map, double *scratch, double *z,
        double *squares)
    dpfast_status dpfast_dense_gram(
        const dpfast_dense *rows, const dpfast_map *map, double radius, const double *share,
        double *scratch, double *gram)


cdef class RowMap:
    """The map of rows to ``transform.T @ row``, or of the first columns to ``factor x + shift``.

    Keeps references to the arrays it was given, never copies.
    """

    cdef readonly ptrdiff_t columns
    cdef const double[:, ::1] _transform
    cdef const double[::1] _factor
    cdef const double[::1] _shift
    cdef dpfast_map _map

    def __init__(self, const double[:, ::1] transform=None, *, const double[::1] factor=None,
                 const double[::1] shift=None):
        self._transform, self._factor, self._shift = transform, factor, shift
        if transform is not None:
            if transform.shape[0] < 1 or transform.shape[1] < 1:
                raise ValueError("transform must have at least one row and one column.")
            self._map.columns, self._map.transform = transform.shape[1], &transform[0, 0]
        else:
            if factor is None or shift is None or not 1 <= factor.shape[0] == shift.shape[0]:
                raise ValueError("factor and shift must have as many entries, at least one.")
            self._map.columns = factor.shape[0]
            self._map.factor, self._map.shift = &factor[0], &shift[0]
        self.columns = self._map.columns

    cdef double[::1] _scratch(self, DenseRows rows, ptrdiff_t start, ptrdiff_t stop):
        """Room for what the kernels write, of rows that are there and that the map is of."""
        _check_block(rows, start, stop, rows.dim)
        if self._transform is not None and self._transform.shape[0] != rows.dim:
            raise ValueError(
                f"transform must have {rows.dim} rows; got {self._transform.shape[0]}.")
        if self._transform is None and self.columns > rows.dim:
            raise ValueError(f"factor must have at most {rows.dim} entries; got {self.columns}.")
        cdef ptrdiff_t size = dpfast_coordinates_scratch(rows.dim, &self._map)
        cdef double[::1] room = np.empty(size + 8)
        # From where a line of the cache begins.
        cdef ptrdiff_t first = (8 - <uintptr_t>&room[0] // 8 % 8) % 8
        return room[first : first + size]


def coordinates(DenseRows rows not None, ptrdiff_t start, ptrdiff_t stop, RowMap to not None,
                double[::1] squares not None, double[:, ::1] out=None):
    """squares = the squared lengths of the range's rows in the coordinates, out = the rows there.

    A row's are the same to the last bit wherever it is among others.
    """
    cdef dpfast_dense dense
    cdef dpfast_status status
    cdef double[::1] scratch = to._scratch(rows, start, stop)
    cdef double *z = NULL
    _check_length("squares", squares.shape[0], stop - start)
    if out is not None:
        if out.shape[0] != stop - start or out.shape[1] != to.columns:
            raise ValueError(f"out must be of shape {(stop - start, to.columns)}.")
        z = &out[0, 0]
    dense = rows._slice(start, stop)
    with nogil:
        status = dpfast_dense_coordinates(&dense, &to._map, &scratch[0], z, &squares[0])
    _check(status, "coordinates")


def gram(DenseRows rows not None, ptrdiff_t start, ptrdiff_t stop, RowMap to not None,
         double radius, const double[::1] share, double[:, ::1] out not None):
    """The upper triangle of out += the sum of the range's rows' outer products in the coordinates.

    Rows are shortened to `radius`, and counted `share` times (None: once).
    """
    cdef dpfast_dense dense
    cdef dpfast_status status
    cdef double[::1] scratch = to._scratch(rows, start, stop)
    if share is not None:
        _check_length("share", share.shape[0], stop - start)
    if not out.shape[0] == out.shape[1] == to.columns:
        raise ValueError(f"out must be of shape {(to.columns, to.columns)}.")
    cdef const double *counts = _from(share, 0)
    dense = rows._slice(start, stop)
    with nogil:
        status = dpfast_dense_gram(&dense, &to._map, radius, counts, &scratch[0], &out[0, 0])
    _check(status, "Gram matrix")
