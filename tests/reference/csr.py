"""Slow twin of the sparse rows: written out densely, they go through the dense twins."""

from itertools import pairwise

import numpy as np


def densify(indptr, indices, data, n_features):
    """The rows as a dense float64 array; data None: every stored entry is 1."""
    rows = np.zeros((len(indptr) - 1, n_features))
    for i, (start, stop) in enumerate(pairwise(indptr)):
        for k in range(start, stop):
            rows[i, indices[k]] += 1.0 if data is None else float(data[k])
    return rows
