"""What releases tell of the lengths of rows, beside the bound that was declared."""

from __future__ import annotations

import math

from dpfast.shape import ProblemShape

# Rows of less than this share of the declared bound are worth a word.
_SHORT = 0.1


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
