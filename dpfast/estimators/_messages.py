"""What estimators say to those who come from scikit-learn, and before a promise that is none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

_STEPS = (
    "private solvers fix their steps beforehand, from public numbers; see solver_options and "
    "'dpfast solvers NAME'"
)
#: Parameters of scikit-learn's estimators that dpfast has by another name, or not.
_ELSEWHERE = {
    "C": "the ridge is alpha, of the mean loss: alpha = 1 / (C * n_samples)",
    "penalty": "the penalty is the ridge alpha; 'l1' and 'elasticnet' are not available, and "
    "alpha=0 is none",
    "l1_ratio": "the penalty is the ridge alpha, without an l1 part",
    "class_weight": "a parameter of classifiers, not of fit; fit takes a sample_weight, with a "
    "public max_weight",
    "max_iter": _STEPS,
    "n_iter": _STEPS,
    "tol": _STEPS,
    "early_stopping": _STEPS,
    "warm_start": "every fit looks at the rows anew and is paid for anew",
    "dual": "the solver decides; see solver",
    "inference": "standard errors come with LogisticRegression, LinearRegression, HuberRegressor "
    "and the regressors of counts and costs",
    "normalize": "scale by public ranges: dpfast.preprocessing.BoundedScaler, or TableModel",
}


def hints(names: Iterable[str]) -> str:
    """Which parameters do what these of scikit-learn do; nothing for others."""
    return "".join(f" ({name}: {_ELSEWHERE[name]}.)" for name in names if name in _ELSEWHERE)


def unknown_parameters(kind: Any, given: Iterable[str]) -> str | None:
    """What to say of parameters that an estimator does not have; None if it has them all."""
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return None
    return (
        f"{kind.__name__} has no parameter {', '.join(map(repr, unknown))}.{hints(unknown)} It "
        f"has {', '.join(known)}."
    )


def with_promise(text: str, model: Any) -> str:
    """The text of an estimator, with epsilon and delta also where they are the defaults."""
    kind, _, rest = text.partition("(")
    shown = [
        f"{name}={getattr(model, name)!r}"
        for name in ("epsilon", "delta")
        if not re.search(rf"(^|[\s,]){name}=", rest)
    ]
    return f"{kind}({', '.join([*shown, *[rest] * (rest != ')')])}{')' * (rest == ')')}"


def unreadable(X: Any, error: Exception) -> str | None:
    """What to say of rows that scikit-learn refused; None if it says enough."""
    try:
        text = _text_in(X)
    except Exception:  # no table at all
        return None
    if text is None and "contains NaN" in str(error):
        return (
            f"{str(error).splitlines()[0]} Put a number there that is known beforehand, and a "
            "column that says where; dpfast.TableModel does, as declared. (An imputer that looks "
            "at the rows is a release that nobody pays for.)"
        )
    return text


def _text_in(X: Any) -> str | None:
    """What to say of rows that hold text or dates where numbers are needed; None if they do not."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        kinds = zip(X.columns, list(X.dtypes), strict=True)
        found = [repr(name) for name, kind in kinds if not _is_numeric(kind)]
        where = f"the columns {', '.join(found[:8])}{', ...' * (len(found) > 8)} hold"
    else:
        values = np.asarray(X, dtype=object).ravel()
        found = [""] * any(isinstance(value, str | bytes) for value in values)
        where = "some columns hold"
    if not found:
        return None
    return (
        f"X must hold numbers; {where} text, categories or dates. Encode them by what is publicly "
        "known of them: dpfast.preprocessing.PublicOneHotEncoder(categories), or "
        "dpfast.TableModel, which takes tables as they are."
    )


def _is_numeric(kind: Any) -> bool:
    """Whether a column's type, of pandas or polars, is one of numbers or truth values."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "biuf"
