"""What estimators say to those who come from scikit-learn, and before a promise that is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from dpfast._validation import did_you_mean, too_few, warn
from dpfast.errors import QuestionableSettingWarning
from dpfast.shape import ProblemShape
from dpfast.solvers import SOLVERS, Plan

_STEPS = (
    "private solvers fix their steps beforehand, from public numbers; see solver_options and "
    "'dpfast solvers NAME'"
)
_OPTION = 'an option of solvers goes into solver_options={{"{0}": ...}}'
#: Over the intercept's column: rows that are shorter are worth a question.
_LEAST_NORM = 0.01
#: Solvers whose fits are the same in any unit of X.
_OF_ANY_UNIT = ("dp-whitened-gd", "dp-newton")
#: Parameters of scikit-learn's estimators that dpfast has by another name, or not.
_ELSEWHERE = {
    "C": "the ridge is alpha, of the mean loss: alpha = 1 / (C * n_samples)",
    "penalty": "the penalty is the ridge alpha; 'l1' and 'elasticnet' are not available, and "
    "alpha=1e-12 is next to none",
    "l1_ratio": "the penalty is the ridge alpha, without an l1 part",
    "class_weight": "a parameter of classifiers, not of fit; fit takes a sample_weight, with a "
    "public max_weight",
    "max_iter": _STEPS,
    "n_iter": _STEPS,
    "tol": _STEPS,
    "early_stopping": _STEPS,
    "learning_rate": _STEPS,
    "eta0": _STEPS,
    "loss": "each loss has an estimator: LogisticRegression, LinearSVC, HuberRegressor and others",
    "warm_start": "every fit looks at the rows anew and is paid for anew",
    "dual": "the solver decides; see solver",
    "inference": "standard errors come with LogisticRegression, LinearRegression, HuberRegressor "
    "and the regressors of counts and costs",
    "alpha": "a parameter of the model: LogisticRegression(alpha=...), also of a table's: "
    "TableModel(bounds, LogisticRegression(alpha=...))",
    "data_norm": "a TableModel derives it from the declaration",
    "classes": "a parameter of classifiers; a TableModel derives it from the declaration",
    "target_bounds": "a parameter of regressors; a TableModel derives it from the declaration",
    "cov_type": "a kind of standard errors, which come with inference",
    "exposure": "an argument of fit, with a public max_exposure, of PoissonRegressor, "
    "GammaRegressor and TweedieRegressor",
    "offset": "the logarithm of an exposure, which these take: exposure=numpy.exp(offset)",
    "quantile": "a parameter of QuantileRegressor, --family quantile",
    "normalize": "scale by public ranges: dpfast.preprocessing.BoundedScaler, or TableModel",
}


def hints(names: Iterable[str], known: Iterable[str] = ()) -> str:
    """Which parameters do what these of scikit-learn or of solvers do, or are spelled like them."""
    options = {option for solver in SOLVERS.values() for option in solver.options}
    elsewhere = {name: _OPTION.format(name) for name in options} | _ELSEWHERE
    return "".join(
        f" ({name}: {elsewhere[name]}.)" if name in elsewhere else did_you_mean(name, known)
        for name in names
    )


def unknown_parameters(kind: Any, given: Iterable[str]) -> str | None:
    """What to say of parameters that an estimator does not have; None if it has them all."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None  # a subclass that passes them on
    known = [each.name for each in parameters]
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return None
    return (
        f"{kind.__name__} has no parameter {', '.join(map(repr, unknown))}."
        f"{hints(unknown, known)} It has {', '.join(known)}."
    )


def question_norm(shape: ProblemShape, solver: str) -> None:
    """Warn, before anything is spent, of a bound that is far below the intercept's column."""
    if shape.data_norm >= _LEAST_NORM * shape.intercept:
        return
    advice = ""
    if solver not in _OF_ANY_UNIT:
        advice = (
            f" Otherwise scale X, and data_norm with it: for {solver} such rows hardly count "
            "beside the intercept."
        )
    warn(
        f"data_norm = {shape.data_norm:g} is far below intercept_scaling = {shape.intercept:g}. "
        "If it is not in the units of X, longer rows are cut to it: declare a bound that is."
        f"{advice}",
        QuestionableSettingWarning,
    )


def question_regime(plan: Plan[Any], noun: str) -> None:
    """Warn, before anything is spent, where noise will drown what the rows say."""
    regime = plan.parameters.get("regime", "all weights")
    if regime == "all weights":
        return
    few, said = f"{too_few(plan.shape.n_samples, noun)} for this budget", ""
    if "direction" in regime:
        said += (
            f"{few} to learn every weight. At most {regime} can be found, in which single "
            "coefficients are mostly noise, and followed as far as rows seem to follow. "
        )
    elif "constant" in regime:
        said += f"{few} to learn much more than a constant prediction. "
    if "far too wide" in regime:
        said += (
            f"{few} to find targets in bounds that are far too wide, where predictions may be "
            "anywhere between target_bounds. Bounds no wider than targets usually are help most. "
        )
    if "so far out" in regime:
        said += (
            f"{few} to find a quantile so far out: noise in a count is more than all targets "
            "beyond it. A quantile nearer to the median helps most. "
        )
    said += f"More {noun}s, fewer columns or a larger epsilon help."
    warn(said, QuestionableSettingWarning)


def with_promise(text: str, model: Any) -> str:
    """The text of an estimator, with epsilon and delta also where they are the defaults."""
    kind, _, rest = text.partition("(")
    shown = [
        f"{name}={getattr(model, name)!r}"
        for name in ("epsilon", "delta")
        if not re.search(rf"(^|[\s,]){name}=", rest)
    ]
    return f"{kind}({', '.join([*shown, *[rest] * (rest != ')')])}{')' * (rest == ')')}"
