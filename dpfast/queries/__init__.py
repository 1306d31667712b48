"""Queries: functions of the rows with their sensitivity, a kind a file.

Each proves in its docstring what one record can change, and the contract test holds the function
itself to it, on worst-case and random neighbors.  ``k`` stands for
:func:`~dpfast.privacy.records_apart` of the neighboring relation: records that tell neighbors
apart, 2 if one is replaced and 1 if it is present in one of them only.
"""

from dpfast.queries.batches import BatchSum
from dpfast.queries.classes import ClassCounts
from dpfast.queries.column_ranges import ColumnHistogram, LongRows
from dpfast.queries.columns import ColumnSums, CountsBeyond, RankScores
from dpfast.queries.coordinates import (
    ClassGradient,
    ColumnParts,
    CoordinateGradient,
    Gram,
    RelativeGradient,
    bounded,
    symmetric,
)
from dpfast.queries.estimating import (
    ResidualSizes,
    RowLengths,
    ScoreProducts,
    SquaredSlopes,
    TargetSizes,
    WeightedCurvature,
    WeightedScores,
)
from dpfast.queries.gradient import ClippedGradient, GradientStep
from dpfast.queries.groups import GroupGradient, GroupSizes
from dpfast.queries.losses import CandidateLosses, LineSearchLosses
from dpfast.queries.minimizer import CertifiedMinimizer, DescentIterate, MinimizerInUnits
from dpfast.queries.products import ProductSums
from dpfast.queries.scores import ScoreSum
from dpfast.queries.slopes import QuantileSlopes, ResidualSum
from dpfast.queries.targets import (
    TargetCounts,
    TargetHistogram,
    TargetSum,
    TargetTails,
    WeightCounts,
)

__all__ = [
    "BatchSum",
    "CandidateLosses",
    "CertifiedMinimizer",
    "ClassCounts",
    "ClassGradient",
    "ClippedGradient",
    "ColumnHistogram",
    "ColumnParts",
    "ColumnSums",
    "CoordinateGradient",
    "CountsBeyond",
    "DescentIterate",
    "GradientStep",
    "Gram",
    "GroupGradient",
    "GroupSizes",
    "LineSearchLosses",
    "LongRows",
    "MinimizerInUnits",
    "ProductSums",
    "QuantileSlopes",
    "RankScores",
    "RelativeGradient",
    "ResidualSizes",
    "ResidualSum",
    "RowLengths",
    "ScoreProducts",
    "ScoreSum",
    "SquaredSlopes",
    "TargetCounts",
    "TargetHistogram",
    "TargetSizes",
    "TargetSum",
    "TargetTails",
    "WeightCounts",
    "WeightedCurvature",
    "WeightedScores",
    "bounded",
    "symmetric",
]
