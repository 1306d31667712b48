"""Pickles of estimators say which dpfast wrote them."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from dpfast._validation import warn
from dpfast._version import __version__


class Versioned(BaseEstimator):  # type: ignore[misc]
    """An estimator whose pickle keeps the version of dpfast, for a warning by any other."""

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
