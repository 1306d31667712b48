r"""Privacy filters: a budget that holds although the accesses are chosen along the way.

A filter is asked before every access; it says yes as long as the sum of the prices, each fixed
before its access but chosen after looking at all earlier releases, stays within a limit that was
fixed beforehand.

Claim. Whatever rule chooses the accesses and whenever it stops, all releases together are within
the limit: epsilon-DP, rho-zCDP, mu-GDP, or a log-moment at one order.

Proof. Write ``G_b`` for the privacy profile that the unit bounds: for mu-GDP that of the Gaussian
pair with ``mu^2 = b``, for zCDP the Renyi bounds ``alpha b`` at every order, for log-moments the
bound b at the one order that was fixed beforehand, for pure DP the divergence bound b. In each
unit, an access of price p followed by something that is within ``G_r`` *whatever the access
released* is within ``G_{p + r}`` (for GDP: Dong, Roth & Su 2022, Theorem 3.2, whose continuation
may depend on what was released as long as one trade-off function bounds it; zCDP: Bun & Steinke
2016, Lemma 1.7; log-moments: Mironov 2017, Proposition 1, ``E_Q[(P/Q)^a]`` being the mean over the
access's release of ``(p/q)^a`` times the continuation's own; pure: Dwork & Roth 2014, Theorem
3.14). With at most k accesses
left and b of the limit left, the rest is within ``G_b``: true for k = 0, and for k because the
first price ``p <= b`` is fixed before its access and the rest is within ``G_{b - p}`` by induction,
whatever comes out; ``G_p`` composed with it is ``G_b``. The bound does not depend on k. (Feldman &
Zrnic 2021 and Whitehouse, Ramdas, Rogers & Wu 2023 for Renyi and zCDP, also Rogers, Roth, Ullman &
Vadhan 2016 for the pure sum; Koskela, Tobaben & Honkela 2023 for GDP.)

The unit has to be fixed beforehand. The induction needs *one* family ``G`` that bounds every
continuation. A rule that admits what the GDP sum *or* the zCDP sum allows lets the analyst pick,
after each release z, the continuation whose own profile is the larger at the point that z asks
for: delta is then the mean over z of the *larger* of the two profiles, while each sum alone only
bounds the mean of its own. Where the profiles cross this is more than delta. For the same reason
the totals of an adaptive run are no guarantee, only the limit is.

Rounding. The sum is exact (integers), so that a million small prices cannot drift past the limit.
One price carries the rounding of the accountant's two or three operations, a relative 2^-51, which
the mechanisms' margin on the charged sensitivity covers; a price that underflows is charged as the
smallest normal number.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from dpfast._validation import check_choice, check_real
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS, AdditiveAccountant
from dpfast.privacy.accountants.rdp import RDPAccountant
from dpfast.privacy.budget import Budget, check_budget
from dpfast.privacy.calibration import gaussian_mu, zcdp_rho
from dpfast.privacy.conversions import gaussian_delta, gaussian_epsilon, zcdp_epsilon
from dpfast.privacy.events import (
    Event,
    GDPEvent,
    L2LaplaceObjectiveEvent,
    ObjectivePerturbationEvent,
    ZCDPEvent,
    unit_of,
)
from dpfast.privacy.renyi import pure_log_moment

_QUANTUM = 2**1074
"""Every float64 is a whole number of 1 / _QUANTUM."""
_SMALLEST = sys.float_info.min


class PrivacyFilter:
    """What the filters share: an exact sum of prices under a fixed limit.

    Used from several threads it needs a lock of the caller's (a :class:`~dpfast.privacy.Ledger` has
    one).

    Parameters
    ----------
    limit : float
        Above 0, in the filter's unit.

    Attributes
    ----------
    unit : {"epsilon", "rho", "mu", "log-moment"}
        The parameter that is limited.
    accountant : str
        The accountant whose prices are added up.

    Raises
    ------
    TypeError, ValueError
        If `limit` is not a finite number above 0.
    """

    unit: ClassVar[str]
    accountant: ClassVar[str]
    _power: ClassVar[int] = 1
    """The prices add up to this power of the unit."""

    def __init__(self, limit: float) -> None:
        self._limit = check_real("limit", limit, low=0.0, low_open=True)
        self._room = math.floor(Fraction(self._limit) ** self._power * _QUANTUM)
        self._sum = 0
        self._relation: str | None = None
        self._source = f"{self.unit} = {self._limit!r}"

    @property
    def limit(self) -> float:
        """The limit, fixed beforehand."""
        return self._limit

    @property
    def spent(self) -> float:
        """What was spent so far, in the unit, rounded up; it depends on what was released."""
        return self._in_unit(self._sum, math.inf)

    @property
    def remaining(self) -> float:
        """The largest price, in the unit, of a single further access; rounded down."""
        return self._in_unit(self._room - self._sum, 0.0)

    def supports(self, event: Event) -> bool:
        """Say whether `event` has a price in the unit."""
        return ACCOUNTANTS[self.accountant].supports(event)

    def price(self, event: Event) -> float:
        """Return what one of the event's releases adds to the sum; the event is supported."""
        accountant = ACCOUNTANTS[self.accountant]
        assert isinstance(accountant, AdditiveAccountant)
        return accountant.price(event)

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be spent together now. Nothing is spent.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent
            As for :meth:`spend`.
        """
        cost = self._cost(events)
        return cost is not None and self._sum + cost <= self._room

    def spend(self, *events: Event) -> None:
        """Spend `events` together, or nothing if they do not fit. Call this before the access.

        Raises
        ------
        TypeError
            If something else than an Event is given.
        ValueError
            If the neighboring relations differ from each other or from those before.
        UnsupportedEvent
            If an event has no price in the unit.
        BudgetExceeded
            If the sum would pass the limit.
        """
        cost = self._cost(events)
        if cost is None or self._sum + cost > self._room:
            after = math.inf if cost is None else self._in_unit(self._sum + cost, math.inf)
            raise BudgetExceeded(
                f"{self._source} cannot pay for this. Nothing was spent. Ask for less (a smaller "
                f"epsilon, fewer releases{self._left()}), or begin with a larger budget. "
                f"[{self.unit} would grow from {self.spent:.6g} to {after:.6g}, over the limit "
                f"{self._limit:.6g}, by {sorted({event.where for event in events})}]"
            )
        self._sum += cost
        if events:
            self._relation = events[0].neighboring_relation

    def as_event(self, neighboring_relation: str, where: str) -> Event:
        """Return one event that is worth all that the filter can admit.

        Raises
        ------
        UnsupportedEvent
            If the unit has no such event.
        """
        raise UnsupportedEvent(
            f"no event stands for a whole adaptive run that is limited in {self.unit}."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._limit!r}): {self.spent:.6g} spent"

    def _left(self) -> str:
        """What is left, in words."""
        return f"; {self.unit} = {_lowered(self.remaining):g} is left"

    def _cost(self, events: Sequence[Event]) -> int | None:
        """Return the exact sum of the prices, None if it is infinite."""
        check_one_relation(events, self._relation)
        total: int | None = 0
        for event in events:
            if not self.supports(event):
                raise UnsupportedEvent(
                    f"an event of mechanism {event.mechanism!r} has no price in {self.unit}, in "
                    f"which {self._source} is limited along the way. Nothing was spent. If all "
                    "accesses are fixed beforehand, use adaptive=False."
                )
            value = self.price(event)
            # Written so that a NaN is refused.
            if total is None or not value < math.inf:
                total = None
                continue
            above, below = max(value, _SMALLEST).as_integer_ratio()
            total += event.count * above * (_QUANTUM // below)
        return total

    def _in_unit(self, quanta: int, towards: float) -> float:
        """Return the quanta as a float in the unit, rounded up (to infinity) or down (to 0)."""
        try:
            value = float((quanta / _QUANTUM) ** (1.0 / self._power))
        except OverflowError:
            return math.inf
        up = towards > 0.0
        while 0.0 < value < math.inf or (up and quanta > 0 and value == 0.0):
            exact = Fraction(value) ** self._power * _QUANTUM
            if exact >= quanta if up else exact <= quanta:
                break
            value = math.nextafter(value, towards)
        return value


class PureFilter(PrivacyFilter):
    """A limit on the sum of pure epsilons: what it admits is `limit`-DP.

    Examples
    --------
    >>> from dpfast.privacy import ExponentialEvent, PureFilter
    >>> choice = ExponentialEvent(epsilon=0.5, neighboring_relation="replace_one", where="step")
    >>> limited = PureFilter(1.25)
    >>> while limited.can_afford(choice):
    ...     limited.spend(choice)
    >>> limited.spent, limited.remaining
    (1.0, 0.25)
    """

    unit = "epsilon"
    accountant = "pure"


class ZCDPFilter(PrivacyFilter):
    """A limit on the sum of rhos: what it admits is `limit`-zCDP.

    Examples
    --------
    >>> from dpfast.privacy import ZCDPEvent, ZCDPFilter
    >>> limited = ZCDPFilter(0.5)
    >>> limited.spend(ZCDPEvent(rho=0.375, neighboring_relation="replace_one", where="gradient"))
    >>> limited.remaining
    0.125
    """

    unit = "rho"
    accountant = "zcdp"

    def as_event(self, neighboring_relation: str, where: str) -> Event:
        """Return one event that is worth all that the filter can admit."""
        return ZCDPEvent(rho=self.limit, neighboring_relation=neighboring_relation, where=where)


class GDPFilter(PrivacyFilter):
    """A limit on the root of the sum of squared mus: what it admits is `limit`-GDP.

    Examples
    --------
    >>> from dpfast.privacy import GDPEvent, GDPFilter
    >>> limited = GDPFilter(1.25)
    >>> limited.spend(GDPEvent(mu=1.0, neighboring_relation="replace_one", where="gradient"))
    >>> limited.spent, limited.remaining
    (1.0, 0.75)
    """

    unit = "mu"
    accountant = "gdp"
    _power = 2

    def as_event(self, neighboring_relation: str, where: str) -> Event:
        """Return one event that is worth all that the filter can admit."""
        return GDPEvent(mu=self.limit, neighboring_relation=neighboring_relation, where=where)


class RenyiFilter(PrivacyFilter):
    """A limit on the sum of log-moments at one order: what it admits is (`epsilon`, `delta`)-DP.

    It prices every kind of event. The order is fixed beforehand: the one at which `epsilon` and
    `delta` buy the largest rho of zCDP (:func:`~dpfast.privacy.zcdp_rho`). So Gaussian releases
    cost what they do in a :class:`ZCDPFilter`, and no other release costs more than there.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In [1e-300, 1).

    Notes
    -----
    With a log-moment of at most L at order ``a = 1 + h``, delta is at most
    ``exp(L - h epsilon + h log h - a log a)`` (:mod:`dpfast.privacy.renyi`): this gives the limit.

    An objective perturbation has a privacy loss of at most ``J + max_k X_k``, ``X_k`` the loss of a
    Gaussian release of ``mu = |v_k|`` (:mod:`dpfast.privacy.accountants.objective`), normal of mean
    ``mu^2 / 2`` and variance ``mu^2``. As ``exp(h max_k X_k) <= 1 + sum_k (exp(h X_k) - 1)_+``, its
    log-moment is at most ``h J`` plus the logarithm of ``1 + sum_k (exp(h a mu_k^2 / 2)
    Phi((h + 1/2) mu_k) - Phi(mu_k / 2))``.

    Examples
    --------
    >>> from dpfast.privacy import GDPEvent, RenyiFilter
    >>> limited = RenyiFilter(1.0, 1e-6)
    >>> fit = GDPEvent(mu=0.07, neighboring_relation="replace_one", where="fit")
    >>> while limited.can_afford(fit):
    ...     limited.spend(fit)
    >>> round(limited.spent / limited.limit, 3)
    0.905
    """

    unit = "log-moment"
    accountant = "rdp"

    def __init__(self, epsilon: float, delta: float) -> None:
        budget = Budget(epsilon, check_real("delta", delta, low=0.0, low_open=True))
        self._excess, limit = _best_order(budget.limit, budget.delta)
        self._delta = budget.delta
        super().__init__(limit)

    def _left(self) -> str:
        mu = math.sqrt(2.0 * self.remaining / (self._excess * (1.0 + self._excess)))
        epsilon = _lowered(gaussian_epsilon(mu, self._delta)) if mu else 0.0
        return f"; what is left pays for Gaussian noise of epsilon = {epsilon:g} at the same delta"

    def supports(self, event: Event) -> bool:
        """Say whether `event` has a log-moment."""
        return isinstance(event, _OBJECTIVES) or ACCOUNTANTS["rdp"].supports(event)

    def price(self, event: Event) -> float:
        """Return the log-moment of one of the event's releases; the event is supported."""
        h = self._excess
        if isinstance(event, L2LaplaceObjectiveEvent):
            return pure_log_moment(h, event.epsilon)
        if isinstance(event, ObjectivePerturbationEvent):
            corners = [(many, mu, 0.5 * h * (1.0 + h) * mu * mu) for many, mu in event.shifts]
            top = max(exponent for _, _, exponent in corners)
            if top == math.inf:
                return top
            total = math.exp(-top) + math.fsum(
                many
                * (
                    math.exp(t - top) * ndtr((h + 0.5) * mu)
                    - math.exp(-top) * ndtr(0.5 * mu)
                    + 1e-15
                )
                for many, mu, t in corners
            )
            return (h * event.log_jacobian + top + math.log(total)) * (1.0 + 1e-14)
        accountant = ACCOUNTANTS["rdp"]
        assert isinstance(accountant, RDPAccountant)
        return accountant.curves[type(event)](event, h)


_OBJECTIVES = (ObjectivePerturbationEvent, L2LaplaceObjectiveEvent)


def _lowered(value: float) -> float:
    """Return `value` with three digits after the point, or three digits in all, never more."""
    unit = 10.0 ** -max(3, 2 - math.floor(math.log10(value))) if 0.0 < value < 1.0 else 1e-3
    return math.floor(value / unit) * unit


@lru_cache(maxsize=256)
def _best_order(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the order, minus 1, that buys the most zCDP, and the log-moment allowed there."""

    def limit(excess: float) -> float:
        entropy = math.log1p(excess) + excess * math.log1p(1.0 / excess)
        return excess * epsilon + math.log(delta) + entropy

    # Divided by h a it limits rho; the maximum is about where zCDP's simple rule has it.
    center = 0.5 * math.log(-math.log(delta) / zcdp_rho(epsilon, delta))
    found = minimize_scalar(
        lambda x: -limit(math.exp(x)) / math.exp(x) / (1.0 + math.exp(x)),
        bounds=(center - 10.0, center + 10.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    excess = math.exp(float(found.x))
    return excess, limit(excess) * (1.0 - 1e-12)


_BY_KIND = {"pure": "pure", "approximate": "zcdp", "zcdp": "zcdp", "gdp": "gdp"}


def budget_filter(budget: Budget, accountant: str = "auto") -> PrivacyFilter:
    """Return the filter whose limit is the most that `budget` buys.

    Parameters
    ----------
    budget : Budget
    accountant : {"auto", "pure", "gdp", "zcdp", "rdp"}, default="auto"
        In whose unit the prices are added up. It is fixed here, before the first access: a filter
        cannot choose along the way (see :mod:`dpfast.privacy.filters`). "auto" takes the budget's
        own unit, and zCDP for (epsilon, delta) with ``delta > 0``. There, "rdp" prices every kind
        of release, at one order, and "gdp" buys more if all releases are Gaussian.

    Returns
    -------
    filter : PrivacyFilter
        What it admits is within `budget`: a limit of another unit is confirmed by
        :func:`~dpfast.privacy.zcdp_epsilon` (Canonne, Kamath & Steinke 2020) or
        :func:`~dpfast.privacy.gaussian_delta`.

    Raises
    ------
    TypeError, ValueError
        If `budget` is not a Budget, or the accountant has no filter that keeps it.

    Examples
    --------
    >>> from dpfast.privacy import Budget, budget_filter
    >>> limited = budget_filter(Budget(1.0, 1e-6))
    >>> limited.unit, round(limited.limit, 6)
    ('rho', 0.024356)
    """
    check_budget(budget)
    check_choice("accountant", accountant, ("auto", *ACCOUNTANTS))
    name = _BY_KIND[budget.kind] if accountant == "auto" else accountant
    limited: PrivacyFilter | None = None
    if name == "pure" and budget.epsilon is not None:
        limited = PureFilter(budget.epsilon)
    elif name == "zcdp" and budget.rho is not None:
        limited = ZCDPFilter(budget.rho)
    elif name == "gdp" and budget.mu is not None:
        limited = GDPFilter(budget.mu)
    elif name == "zcdp" and budget.kind == "approximate" and budget.epsilon is not None:
        limited = ZCDPFilter(zcdp_rho(budget.epsilon, budget.delta))
        _confirm(zcdp_epsilon(limited.limit, budget.delta) <= budget.epsilon, budget)
    elif name == "gdp" and budget.kind == "approximate" and budget.epsilon is not None:
        limited = GDPFilter(gaussian_mu(budget.epsilon, budget.delta))
        _confirm(gaussian_delta(budget.epsilon, limited.limit) <= budget.delta, budget)
    elif name == "rdp" and budget.kind == "approximate" and budget.epsilon is not None:
        limited = RenyiFilter(budget.epsilon, budget.delta)
    if limited is None:
        raise ValueError(
            f"the accountant {accountant!r} has no filter that keeps {budget!r} when accesses are "
            "chosen along the way; use 'auto'."
        )
    limited._source = repr(budget)
    return limited


def _confirm(kept: bool, budget: Budget) -> None:
    """Refuse a limit that does not keep the budget: how it was found does not matter."""
    if not kept:
        raise AssertionError(f"the limit that was found for {budget!r} does not keep it.")


def check_one_relation(events: Iterable[Event], begun_with: str | None) -> None:
    """Refuse what is not an event, and events of another neighboring relation than the first.

    Raises
    ------
    TypeError, ValueError
    """
    for event in events:
        if not isinstance(event, Event):
            raise TypeError(f"only a privacy event can be spent; got {event!r}.")
        begun_with = begun_with or event.neighboring_relation
        if event.neighboring_relation != begun_with:
            same_unit = unit_of(begun_with) == unit_of(event.neighboring_relation)
            remedy = "Use one relation" if same_unit else "Give the groups (groups=, --person)"
            raise ValueError(
                "one ledger cannot mix neighboring relations: it began with "
                f"{begun_with!r} and {event.where!r} asks for "
                f"{event.neighboring_relation!r}. Nothing was spent. {remedy} for all "
                "releases, or take a ledger for each."
            )
