"""What `fit` takes by keyword: how much each row counts, whose it is, and where a fit is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from dpfast._validation import check_real
from dpfast.estimators._messages import hints


class FitParameters(TypedDict, total=False):
    """What `fit` takes by keyword."""

    sample_weight: ArrayLike | None
    groups: ArrayLike | None
    exposure: ArrayLike | None
    checkpoint: str | os.PathLike[str] | None


# What `fit` takes beside the rows, which a source of blocks has itself.
_OF_ROWS = ("sample_weight", "groups")


def row_arguments(
    fit_params: Mapping[str, Any], max_weight: float | None, max_rows_per_group: int | None
) -> dict[str, Any]:
    """Keyword arguments of the Problem that say how much each row counts, and whose it is."""
    _refuse_unknown(fit_params)
    if fit_params.get("checkpoint") is not None:
        raise ValueError(
            f"checkpoint must be None for rows in memory; got {fit_params['checkpoint']!r}. "
            "Rows in blocks (dpfast.blocks) can have one."
        )
    groups = fit_params.get("groups")
    if groups is None:
        refuse_limit(max_rows_per_group)
        return _weight_arguments(fit_params, max_weight)
    owners = {"groups": groups, "max_rows_per_group": max_rows_per_group}
    return {**_weight_arguments(fit_params, max_weight), **owners}


def refuse_limit(max_rows_per_group: int | None) -> None:
    """Refuse a limit of rows of a group where there are no groups."""
    if max_rows_per_group is not None:
        raise ValueError(
            f"groups must be given to fit with max_rows_per_group={max_rows_per_group!r}; got "
            "None. They say whose row each is."
        )


def refuse_beside_blocks(y: Any, fit_params: Mapping[str, Any]) -> None:
    """Refuse what a source of blocks has itself."""
    _refuse_unknown(fit_params)
    given = [name for name in _OF_ROWS if fit_params.get(name) is not None]
    if given := ["y"] * (y is not None) + given:
        raise ValueError(
            "y, sample_weight and groups must be left out for rows in blocks, whose source has "
            f"them; got {' and '.join(given)}. Name their columns where the source is made."
        )


def _weight_arguments(fit_params: Mapping[str, Any], max_weight: float | None) -> dict[str, Any]:
    if max_weight is not None:
        max_weight = check_real("max_weight", max_weight, low=1e-100, high=1e100)
    weight = fit_params.get("sample_weight")
    if weight is None:
        return {}
    if max_weight is None:
        raise ValueError(
            "max_weight must be given with sample_weight; got None. The weights are as private "
            "as the rows, and noise is in proportion to the largest: declare it, known without "
            "looking at the data (larger weights are lowered to it)."
        )
    return {"sample_weight": weight, "max_weight": max_weight}


def _refuse_unknown(fit_params: Mapping[str, Any]) -> None:
    unknown = sorted(set(fit_params) - {*_OF_ROWS, "checkpoint"})
    if unknown:
        raise TypeError(
            "fit must get no keyword arguments but sample_weight and groups; got "
            f"{', '.join(unknown)}. (Rows in blocks can have a checkpoint, too.)"
            f"{hints(unknown, _OF_ROWS)}"
        )
