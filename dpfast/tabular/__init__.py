"""Tables with declared bounds: from a file or a data frame to a private model and its release."""

from dpfast.tabular.families import (
    FAMILIES,
    check_threshold,
    chosen,
    default_threshold,
    output_of,
    parameters_of,
    scores_of,
)
from dpfast.tabular.fitting import FitPlan, TableFit
from dpfast.tabular.model import EncodedRows, TableModel
from dpfast.tabular.schema import TableSchema, read_bounds
from dpfast.tabular.scores import Scores
from dpfast.tabular.tally import Tally
from dpfast.tabular.targets import ClassTarget, RangeTarget

__all__ = [
    "FAMILIES",
    "ClassTarget",
    "EncodedRows",
    "FitPlan",
    "RangeTarget",
    "Scores",
    "TableFit",
    "TableModel",
    "TableSchema",
    "Tally",
    "check_threshold",
    "chosen",
    "default_threshold",
    "output_of",
    "parameters_of",
    "read_bounds",
    "scores_of",
]
