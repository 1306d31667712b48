"""Which optimizer is asked for an objective.  Whichever it is, its point is certified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpfast._validation import check_choice
from dpfast.optimizers import OPTIMIZERS, newton

Optimizer = str | Callable[..., Any]

#: Optimizers that take single rows in a random order.
ROW_OPTIMIZERS = ("sgd", "svrg", "katyusha")
_KINK_OPTIMIZERS = ("subgradient", "sgd", "smoothing")
_SADDLE_OPTIMIZER = "minimax_appa"


def choose_optimizer(
    optimizer: Optimizer,
    dim: int,
    certificate: str | None,
    *,
    single_rows: bool,
    what: str,
    smoothable: bool = True,
) -> Optimizer:
    """The optimizer's name or the user's function, refused if it cannot work on the objective.

    `certificate` is what certifies the objective's minimizer: "gradient", "gap" or "saddle";
    `single_rows` whether steps along single rows are possible; `what` the objective, for messages;
    `smoothable` whether its kinks can be rounded off.
    """
    if certificate == "saddle":
        if optimizer not in ("auto", _SADDLE_OPTIMIZER):
            raise ValueError(
                f"optimizer must be 'auto' or {_SADDLE_OPTIMIZER!r} for a saddle point; "
                f"got {optimizer!r}."
            )
        return _SADDLE_OPTIMIZER
    if callable(optimizer):
        return optimizer
    check_choice("optimizer", optimizer, ("auto", *OPTIMIZERS))
    kinks = certificate == "gap"
    if optimizer == "auto":
        if kinks:
            return "smoothing" if smoothable else "subgradient"
        return "newton" if dim <= newton.MAX_DIM else "lbfgs"
    possible = [name for name in _KINK_OPTIMIZERS if smoothable or name != "smoothing"]
    if kinks and optimizer not in possible:
        raise ValueError(
            f"optimizer must be one of {', '.join(map(repr, possible))} for a loss with "
            f"kinks; got {optimizer!r}."
        )
    if optimizer in ROW_OPTIMIZERS and not single_rows:
        raise ValueError(
            f"optimizer must work on whole objectives, such as 'newton' or 'agd', for {what}; got "
            f"{optimizer!r}, which takes steps along single rows of an empirical risk."
        )
    return optimizer
