"""What all estimators share: parameters by name, the promise in their text, versions in pickles."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator

from dpfast._validation import warn
from dpfast._version import __version__
from dpfast.estimators._messages import unknown_parameters, with_promise


class Estimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that names what it does not know, and says what it promises.

    Its pickle keeps the version of dpfast; any other version warns.
    """

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        if text := unknown_parameters(cls, settings):
            raise TypeError(text)
        made: Self = super().__new__(cls)
        return made

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of an estimator inside as ``NAME__OTHER``; returns self.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known = {**vars(self), **params}
        inside = {name for name, value in known.items() if hasattr(value, "set_params")}
        own = [name for name in params if name.partition("__")[0] not in inside]
        if text := unknown_parameters(type(self), own):
            raise ValueError(text)
        super().set_params(**params)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return with_promise(super().__repr__(N_CHAR_MAX), self)

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
