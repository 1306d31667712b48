"""Transformers whose output may stand in front of a private estimator.

Scaling by a range, a mean or a list of categories that was read off private data leaks them, and no
noise added later takes that back. What stands here either needs no data at all (:mod:`public`) or
pays for what it learns like every other release: inside one :class:`dpfast.BudgetAccountant` a
pipeline's total is one number.
"""

from dpfast.preprocessing._columns import column_blocks
from dpfast.preprocessing.private_quantile_scaler import PrivateQuantileScaler
from dpfast.preprocessing.private_range_scaler import PrivateRangeScaler
from dpfast.preprocessing.private_standard_scaler import PrivateStandardScaler
from dpfast.preprocessing.public import (
    BoundedScaler,
    PublicOneHotEncoder,
    RowNormClipper,
    one_hot,
)
from dpfast.queries.columns import scale_to_range

__all__ = [
    "BoundedScaler",
    "PrivateQuantileScaler",
    "PrivateRangeScaler",
    "PrivateStandardScaler",
    "PublicOneHotEncoder",
    "RowNormClipper",
    "column_blocks",
    "one_hot",
    "scale_to_range",
]
