"""What all estimators share: they name unknown parameters; pickles say which dpfast wrote them."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator

from dpfast._validation import warn
from dpfast._version import __version__
from dpfast.estimators._messages import unknown_parameters


class Versioned(BaseEstimator):  # type: ignore[misc]
    """An estimator that knows its parameters, and whose pickle keeps the version of dpfast.

    Any other version warns.
    """

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        if text := unknown_parameters(cls, settings):
            raise TypeError(text)
        made: Self = super().__new__(cls)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_dpfast_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written = state.pop("_dpfast_version", "an earlier version")
        if written != __version__:
            warn(
                f"{type(self).__name__} was pickled by dpfast {written}, and this is dpfast "
                f"{__version__}: it may fail or predict otherwise. Load it with the version that "
                "wrote it, or fit again, which spends again."
            )
        super().__setstate__(state)
