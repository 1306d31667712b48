"""What releases tell of the lengths of rows, beside the bound that was declared.

A mean of their logarithms is one number, which tells that most rows are far shorter than their
bound where noise hides every column by itself.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import LongRows
from dpfast.shape import ProblemShape
from dpfast.solvers._shares import Release

# Deviation of the noise in that mean, as a share of all lengths that are told apart, and shares of
# the budget, in units of mu²: the least, and the most that it is worth.
_DEVIATION, _LEAST, _MOST = 0.07, 1e-4, 0.05
# Rows of more than this share of the bound are taken to be as long as it.
_LONG = 0.5
# Rows of less than this share of the declared bound are worth a word.
_SHORT = 0.1


def share(rows: float) -> float:
    """Of the budget, for the mean; 0 if that costs too much.  `rows` is ``µ n``."""
    asked = (rows * _DEVIATION) ** -2.0
    return max(asked, _LEAST) if asked <= _MOST else 0.0


def planned(shape: ProblemShape, share: float, release: Release) -> Gaussian:
    """Settle the access; `release` calibrates one from its share of the budget."""
    return release(share, LongRows(shape), "row lengths")


def usual_length(mechanism: Gaussian, curator: Curator, left_out: int | None = None) -> float:
    """How long rows are, over their bound, or 1 if that is hardly less.

    A column may be left out.
    """
    found = told_length(mechanism, curator, left_out)
    return found if found < _LONG else 1.0


def told_length(
    mechanism: Gaussian,
    curator: Curator,
    left_out: int | None = None,
    center: Vector | float = 0.0,
) -> float:
    """How far rows are from a center, over their bound: a deviation of the noise more than told."""
    query = mechanism.query
    assert isinstance(query, LongRows)
    shape, longest = query.shape, query.length(1.0)
    factor = np.full(shape.n_features, longest / shape.data_norm)
    if left_out is not None:
        factor[left_out] = 0.0
    told = float(curator.release(mechanism, np.full(len(factor), center), factor)[0])
    return min(1.0, query.length((told + mechanism.stddev) / shape.n_samples) / longest)


def said_of_lengths(shape: ProblemShape, mean_square: float) -> tuple[str, ...]:
    """What to say where a released mean square of the rows' norms is far below the bound.

    Noise makes that estimate larger rather than smaller.
    """
    share = math.sqrt(max(mean_square, 0.0)) / shape.data_norm
    if shape.unit != "row" or shape.max_weight != 1.0 or not share < _SHORT:
        return ()
    return (
        f"data_norm = {shape.data_norm:g} is far above the norms that rows have, as far as the "
        f"private releases of this fit tell: mostly {100.0 * share:.2g} % of it, or less. Noise is "
        "in proportion to data_norm. If a smaller bound is publicly known, declare that, or scale "
        "the columns.",
    )
