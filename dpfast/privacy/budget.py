"""The privacy budget: what may be promised at most."""

import math
from dataclasses import dataclass, field

from dpfast._validation import check_real, warn
from dpfast.errors import QuestionableSettingWarning

MIN_DELTA = 1e-300
"""The smallest non-zero delta: below it the conversions leave the range of float64."""

MAX_EPSILON = 1e6
MAX_RHO = 1e6
MAX_MU = 1e3

REPORTING_DELTA = 1e-6
"""The delta at which a budget given as rho or mu is also reported as (epsilon, delta)."""

_INFINITE = "For a fit without privacy, use scikit-learn's estimator of the same kind."
# Privacy losses beyond this are questioned.
_HARDLY = 20.0


def check_delta(name: str, value: object, *, allow_zero: bool) -> float:
    """Return `value` as a delta: in ``[1e-300, 1)``, or 0 where `allow_zero`."""
    low = 0.0 if allow_zero else MIN_DELTA
    delta = check_real(name, value, low=low, high=1.0, high_open=True)
    if 0.0 < delta < MIN_DELTA:
        raise ValueError(f"{name} must be 0 or at least {MIN_DELTA:g}; got {value!r}.")
    return delta


@dataclass(frozen=True, repr=False)
class Budget:
    """An upper limit on the privacy loss, in one of four forms.

    ``Budget(epsilon)`` is pure differential privacy, ``Budget(epsilon, delta)`` approximate
    differential privacy, ``Budget(rho=...)`` zero-concentrated differential privacy and
    ``Budget(mu=...)`` Gaussian differential privacy.

    Parameters
    ----------
    epsilon : float, optional
        In (0, 1e6].
    delta : float, optional
        With `epsilon`: 0 or in [1e-300, 1); default 0, which is pure differential privacy. With
        `rho` or `mu`: the delta at which the guarantee is also reported as (epsilon, delta);
        default 1e-6. There it limits nothing.
    rho : float, optional
        In (0, 1e6].
    mu : float, optional
        In (0, 1e3].

    Attributes
    ----------
    kind : {"pure", "approximate", "zcdp", "gdp"}
    unit : {"epsilon", "rho", "mu"}
        The parameter that is limited.
    limit : float
        Its value.

    Raises
    ------
    TypeError
        If a parameter is not a real number.
    ValueError
        If a parameter is out of its range, or not exactly one of `epsilon`, `rho`, `mu` is given.

    Examples
    --------
    >>> from dpfast.privacy import Budget
    >>> Budget(1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    >>> Budget(1.0).kind
    'pure'
    >>> Budget(rho=0.1)
    Budget(rho=0.1, delta=1e-06)
    """

    epsilon: float | None = None
    delta: float = None  # type: ignore[assignment]  # always a float after __post_init__
    rho: float | None = field(default=None, kw_only=True)
    mu: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = [unit for unit in ("epsilon", "rho", "mu") if getattr(self, unit) is not None]
        if len(given) != 1:
            raise ValueError(
                "exactly one of epsilon, rho and mu must be given; got "
                f"{' and '.join(given) or 'none of them'}. An estimator takes epsilon and delta; a "
                "budget is Budget(epsilon, delta), Budget(rho=...) or Budget(mu=...)."
            )
        (unit,) = given
        high = {"epsilon": MAX_EPSILON, "rho": MAX_RHO, "mu": MAX_MU}[unit]
        value = getattr(self, unit)
        hint = _INFINITE if isinstance(value, float) and math.isinf(value) else ""
        limit = check_real(unit, value, low=0.0, low_open=True, high=high, hint=hint)
        delta: object = self.delta
        if delta is None:
            delta = 0.0 if unit == "epsilon" else REPORTING_DELTA
        object.__setattr__(self, unit, limit)
        object.__setattr__(self, "delta", check_delta("delta", delta, allow_zero=unit == "epsilon"))

    @property
    def kind(self) -> str:
        """The kind of promise: "pure", "approximate", "zcdp" or "gdp"."""
        if self.rho is not None:
            return "zcdp"
        if self.mu is not None:
            return "gdp"
        return "approximate" if self.delta > 0.0 else "pure"

    @property
    def unit(self) -> str:
        """The name of the parameter that is limited: "epsilon", "rho" or "mu"."""
        return {"zcdp": "rho", "gdp": "mu"}.get(self.kind, "epsilon")

    @property
    def limit(self) -> float:
        """The value of the parameter that is limited."""
        return float(getattr(self, self.unit))

    def __repr__(self) -> str:
        return f"Budget({self.unit}={self.limit!r}, delta={self.delta!r})"

    def to_dict(self) -> dict[str, float]:
        """Return the arguments that make this budget again."""
        return {self.unit: self.limit, "delta": self.delta}


def check_budget(budget: object) -> None:
    """Refuse what is no Budget."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, such as Budget(1.0, 1e-6); got {budget!r}.")


def check_promise(budget: Budget, n_samples: int, unit: str = "row") -> None:
    """Refuse a delta that would allow publishing whole records, and question a large epsilon.

    A delta above one over the number of records is refused.
    """
    if budget.delta * n_samples > 1.0:
        raise ValueError(
            f"delta must be below one over the number of {unit}s ({n_samples:,}), best far below; "
            f"got {budget.delta:g}. With it, publishing a {unit} drawn by lot would count as "
            "private."
        )
    if budget.limit > _HARDLY:
        warn(
            f"epsilon = {budget.limit:g} is hardly a promise: the probability of a result may "
            "change by a factor of a hundred million and more with one record. Values from 0.1 to "
            "10 are usual.",
            QuestionableSettingWarning,
        )
