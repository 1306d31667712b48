r"""Lowy & Razaviyayn 2021, "Output perturbation for differentially private convex optimization".

Their classes: ``F(w, X)`` convex and L-Lipschitz with a minimizer in the ball of radius R
(``G``), also β-smooth (``J``), µ-strongly convex (``F``), or both (``H``), each either a mean over
n records ("ERM") or any function of the data.  Everything they prove about the noise follows from
one number, here `ratio`::

    p = d/(εm)  (δ = 0)      p = √d (c + √(c² + ε))/(εm)  (δ > 0),   c² = log(2/(√(16δ + 1) - 1))

with ``2L/(µm)`` the sensitivity of the minimizer: ``m = n`` for a mean over records, 1 for any
function, ``n/C`` for a tilted risk whose losses have the spread ``log(C)/τ``.

:func:`guarantee` evaluates the inequalities of their proofs rather than the constants that their
theorems round these to; :data:`ROWS` has their Tables 1 to 6.

Where this departs from the paper:

- L bounds the gradient of what depends on the data; the ridge adds nothing to the sensitivity,
  where they carry ``L + λR``.
- Optimization accuracy: theirs, `accuracy`, bounds a mean; a solver must certify it on every run.
- Proposition 4.3 loses the stability term, ``2L²/(λn)``, ``2LR/√n`` at its ridge; it is kept here.
- Theorem 3.4, part 2b, needs the factor ``(1 + pn)^-2`` that its part 2a has: with
  ``α = LRp^{3/2}`` alone the optimizer's share of the noise is ``pn`` times the sensitivity's.
- Theorem 5.2 has the first power of C where ``Δ²`` gives the second.
- Propositions 2.5 and 2.8 are stated for ``p <= 1`` and ``p² <= L/(Rβ)``, beyond which the bounds
  exceed ``LR``, that of answering 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.theory import zhang2017

RISKS = ("erm", "population")


@dataclass(frozen=True)
class Setting:
    """A class of functions, a data set's size, and a budget.

    Parameters
    ----------
    lipschitz : float
        ``L``, of what depends on the data.
    radius : float
        ``R``: a ball that holds the minimizer, or the weights to compare with.
    dim, n_samples : int
    epsilon, delta : float
        ``ε > 0`` and ``0 <= δ < 1/2``.
    strong_convexity : float, default=0.0
        ``µ``; 0 for functions that are only convex.
    smoothness : float, default=inf
        ``β`` of the whole function.
    mean : bool, default=True
        Whether the function is a mean over records.
    spread : float, default=1.0
        ``C >= 1``, the factor of the sensitivity of a tilted risk.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind or range.
    """

    lipschitz: float
    radius: float
    dim: int
    n_samples: int
    epsilon: float
    delta: float = 0.0
    strong_convexity: float = 0.0
    smoothness: float = math.inf
    mean: bool = True
    spread: float = 1.0

    def __post_init__(self) -> None:
        check_real("lipschitz", self.lipschitz, low=0.0, low_open=True)
        check_real("radius", self.radius, low=0.0, low_open=True)
        check_integer("dim", self.dim, low=1)
        check_integer("n_samples", self.n_samples, low=1)
        check_real("epsilon", self.epsilon, low=0.0, low_open=True)
        check_real("delta", self.delta, low=0.0)
        if self.delta >= 0.5:
            raise ValueError(f"delta must be < 1/2; got {self.delta!r}.")
        check_real("strong_convexity", self.strong_convexity, low=0.0)
        check_real("smoothness", self.smoothness, low=self.strong_convexity, allow_inf=True)
        check_real("spread", self.spread, low=1.0)

    @property
    def smooth(self) -> bool:
        """Whether β is finite."""
        return math.isfinite(self.smoothness)

    @property
    def records(self) -> float:
        """``m``: the sensitivity of the minimizer is ``2L/(µm)``."""
        return max(1.0, self.n_samples / self.spread) if self.mean else 1.0

    @property
    def width(self) -> float:
        """``q = pm``: ``d/ε``, or ``√d (c + √(c² + ε))/ε``."""
        if self.delta == 0.0:
            return self.dim / self.epsilon
        # sqrt(1 + x) - 1 = x / (sqrt(1 + x) + 1), without cancellation.
        root = 16.0 * self.delta / (math.sqrt(1.0 + 16.0 * self.delta) + 1.0)
        c = math.sqrt(math.log(2.0 / root))
        return math.sqrt(self.dim) * (c + math.sqrt(c * c + self.epsilon)) / self.epsilon

    @property
    def ratio(self) -> float:
        """``p``; bounds say nothing beyond 1."""
        return self.width / self.records

    @property
    def kappa(self) -> float:
        """``β/µ``."""
        return self.smoothness / self.strong_convexity if self.strong_convexity else math.inf

    def moments(self, sensitivity: float) -> tuple[float, float]:
        """Bounds of ``E‖z‖`` and ``E‖z‖²`` for noise calibrated to `sensitivity`, (4) and (5).

        ``‖z‖`` is Gamma(d, Δ/ε), or ``z`` Gaussian with ``σ = (c + √(c² + ε)) Δ/(√2 ε)``.
        """
        first = self.width * sensitivity
        if self.delta == 0.0:
            return first, first**2 * (1.0 + 1.0 / self.dim)
        return first / math.sqrt(2.0), first**2 / 2.0


@dataclass(frozen=True)
class Guarantee:
    """What the paper promises, and what it takes.

    Attributes
    ----------
    source : str
        The theorem.
    ridge : float or None
        ``λ`` that is added to a function that is only convex.
    accuracy : float
        ``α``: expected suboptimality up to which the minimization may stop.
    exact_risk : float
        Bound of the expected excess risk with exact minimizers ("conceptual").
    risk : float
        The same with minimizers of accuracy `accuracy`.
    optimizer : str
        Name of the optimizer that the paper takes.
    iterations : float
        Its number of iterations, with the constant 1 where the paper has ``O(·)``.
    runtime : float
        ``d`` times the number of gradients of single records.
    applies : bool
        Whether the theorem's condition on ``p`` holds.
    """

    source: str
    ridge: float | None
    accuracy: float
    exact_risk: float
    risk: float
    optimizer: str
    iterations: float
    runtime: float
    applies: bool


def ridge(setting: Setting, *, smooth: bool, risk: str = "erm") -> float:
    """``λ`` of Theorems 3.4 and 3.5, or of Propositions 4.3 and 4.4 for the population's risk.

    ======  ==========================  =============================
    risk    Lipschitz                   also smooth
    ======  ==========================  =============================
    erm     ``L/(R √(1 + 1/p))``        ``(βL²/R²)^{1/3} p^{2/3}``
    popul.  ``(L/R)(√p + 1/√n)``        ``(βL²/R²)^{1/3} (p^{2/3} + 1/√n)``
    ======  ==========================  =============================

    Parameters
    ----------
    setting : Setting
    smooth : bool
        Which of the two rules.
    risk : {"erm", "population"}

    Returns
    -------
    float
    """
    check_choice("risk", risk, RISKS)
    p, sampling = setting.ratio, 1.0 / math.sqrt(setting.n_samples)
    if smooth:
        scale = (setting.smoothness * (setting.lipschitz / setting.radius) ** 2) ** (1.0 / 3.0)
        return float(scale * (p ** (2.0 / 3.0) + (sampling if risk == "population" else 0.0)))
    scale = setting.lipschitz / setting.radius
    if risk == "population":
        return scale * (math.sqrt(p) + sampling)
    return scale / math.sqrt(1.0 + 1.0 / p)


def excess_risk(
    setting: Setting,
    *,
    smooth: bool,
    risk: str = "erm",
    strong_convexity: float | None = None,
    accuracy: float = 0.0,
    added_ridge: bool = False,
) -> float:
    """Bound of the expected excess risk of noise added to an approximate minimizer.

    ``α + L_F E‖z‖`` (Lipschitz, projected on the ball) or ``α + (β/2) E‖z‖²`` (smooth), with ``z``
    calibrated to ``2L/(µm) + 2√(2α/µ)``; plus ``(µ/2)R²`` if the ridge was added, the excess then
    being that of the function without it; plus ``L · 2L/(µn)``, the uniform stability of the
    minimizer, for the population's risk.  ``L_F`` is ``L``, plus ``µR`` if the ridge counts.

    Parameters
    ----------
    setting : Setting
    smooth : bool
        Which of the two.
    risk : {"erm", "population"}
    strong_convexity : float or None, default=None
        ``µ``; None takes that of the setting.
    accuracy : float, default=0.0
        ``α``.
    added_ridge : bool, default=False

    Returns
    -------
    float
    """
    check_choice("risk", risk, RISKS)
    mu = setting.strong_convexity if strong_convexity is None else strong_convexity
    sensitivity = 2.0 * setting.lipschitz / (mu * setting.records)
    first, second = setting.moments(sensitivity + 2.0 * math.sqrt(2.0 * accuracy / mu))
    if smooth:
        noise = 0.5 * (setting.smoothness + (mu if added_ridge else 0.0)) * second
    else:
        whole = setting.lipschitz + (0.0 if added_ridge else mu * setting.radius)
        noise = whole * first
    total = accuracy + noise
    if added_ridge:
        total += 0.5 * mu * setting.radius**2
    if risk == "population":
        total += 2.0 * setting.lipschitz**2 / (mu * setting.n_samples)
    return total


def accuracy(setting: Setting, *, smooth: bool) -> float:
    """``α`` of Theorems 3.1, 3.2, 3.4, 3.5, 5.1 and 5.2, and of the corollaries of section 4.

    Parameters
    ----------
    setting : Setting
    smooth : bool

    Returns
    -------
    float
    """
    m, q, p = setting.records, setting.width, setting.ratio
    scale, radius, beta = setting.lipschitz, setting.radius, setting.smoothness
    mu = setting.strong_convexity
    if mu > 0.0:
        if smooth:
            return scale**2 / (mu * m**2) * min(setting.kappa * (q / setting.spread) ** 2, 1.0)
        return scale**2 / (mu * m) * min(1.0 / m, q)
    if smooth:
        steep = (scale**4 * radius**2 / beta) ** (1.0 / 3.0)
        flat = (beta * scale**2 * radius**4) ** (1.0 / 3.0)
        return float(min(steep * q ** (-2.0 / 3.0) * m ** (-4.0 / 3.0), flat * p ** (2.0 / 3.0)))
    # For any function (m = 1) the theorem has no factor, and p = q <= 1.
    return float(scale * radius * p**1.5 / ((1.0 + q) ** 2 if m > 1.0 else 1.0))


def _effort(setting: Setting, *, smooth: bool, mu: float, alpha: float) -> tuple[str, float, float]:
    """Optimizer, iterations and runtime of the corollaries."""
    n, d = setting.n_samples, setting.dim
    radius = setting.radius
    if smooth:
        kappa = (setting.smoothness + (mu - setting.strong_convexity)) / mu
        if setting.mean and setting.spread == 1.0:
            work = max(1.0, math.log(max(1.0, setting.lipschitz * radius / alpha)))
            count = (n + math.sqrt(n * kappa)) * work
            return "katyusha", count, d * count
        start = (mu + setting.smoothness) * radius**2 / (2.0 * alpha)
        count = math.sqrt(kappa) * max(1.0, math.log(max(1.0, start)))
        return "agd", count, n * d * count
    whole = setting.lipschitz + mu * radius
    count = math.ceil(2.0 * whole**2 / (mu * alpha)) if alpha > 0.0 else math.inf
    if setting.mean and setting.spread == 1.0:
        return "sgd", count, d * count
    return "subgradient", count, n * d * count


def guarantee(setting: Setting, *, smooth: bool | None = None, risk: str = "erm") -> Guarantee:
    """The paper's theorem for a setting, evaluated.

    Parameters
    ----------
    setting : Setting
    smooth : bool or None, default=None
        Which of the two families of bounds; None takes the smaller one (Remarks 3.1 to 3.4).
    risk : {"erm", "population"}

    Returns
    -------
    Guarantee

    Raises
    ------
    ValueError
        If `smooth` is asked for of a function that is not.

    Examples
    --------
    >>> setting = Setting(1.0, 1.0, dim=10, n_samples=100_000, epsilon=1.0, smoothness=0.25)
    >>> found = guarantee(setting)
    >>> found.source, found.optimizer, found.risk < 0.05
    ('Theorem 3.5', 'katyusha', True)
    """
    if smooth is None:
        both = [guarantee(setting, smooth=False, risk=risk)]
        if setting.smooth:
            both.append(guarantee(setting, smooth=True, risk=risk))
        return min(both, key=lambda found: (not found.applies, found.risk))
    if smooth and not setting.smooth:
        raise ValueError(f"smoothness must be finite for smooth=True; got {setting.smoothness!r}.")
    check_choice("risk", risk, RISKS)
    p, convex = setting.ratio, setting.strong_convexity == 0.0
    added = ridge(setting, smooth=smooth, risk=risk) if convex else None
    mu = setting.strong_convexity if added is None else added
    alpha = accuracy(setting, smooth=smooth)
    exact, risk_bound = (
        excess_risk(
            setting,
            smooth=smooth,
            risk=risk,
            strong_convexity=mu,
            accuracy=value,
            added_ridge=convex,
        )
        for value in (0.0, alpha)
    )
    limit = setting.lipschitz / (setting.radius * setting.smoothness) if smooth and convex else 1.0
    name, count, runtime = _effort(setting, smooth=smooth, mu=mu, alpha=alpha)
    return Guarantee(
        source=_SOURCES[risk, convex, smooth],
        ridge=added,
        accuracy=alpha,
        exact_risk=exact,
        risk=risk_bound,
        optimizer=name,
        iterations=count,
        runtime=runtime,
        applies=p**2 <= limit if smooth and convex else p <= limit,
    )


# By risk, whether only convex, whether smooth.
_SOURCES = {
    ("erm", False, False): "Theorem 3.1",
    ("erm", False, True): "Theorem 3.2",
    ("erm", True, False): "Theorem 3.4",
    ("erm", True, True): "Theorem 3.5",
    ("population", False, False): "Proposition 4.1",
    ("population", False, True): "Proposition 4.2",
    ("population", True, False): "Proposition 4.3",
    ("population", True, True): "Proposition 4.4",
}


def stated_risk(setting: Setting, *, smooth: bool, risk: str = "erm") -> float:
    """The bound with the constants that the theorems state, for minimizers of their accuracy.

    Parameters
    ----------
    setting : Setting
    smooth : bool
    risk : {"erm", "population"}
        For "population", that of exact minimizers (Propositions 4.1 to 4.4).

    Returns
    -------
    float
    """
    check_choice("risk", risk, RISKS)
    p, n, pure = setting.ratio, setting.n_samples, setting.delta == 0.0
    scale, radius, mu = setting.lipschitz, setting.radius, setting.strong_convexity
    if mu > 0.0:
        if risk == "population":
            noise = 4.0 * setting.kappa * p**2 + 2.0 / n if smooth else 2.0 * (p + 1.0 / n)
        elif smooth:
            noise = (26.0 if pure else 13.5) * setting.kappa * p**2
        else:
            noise = (9.0 if pure else 6.0) * p
        return scale**2 / mu * noise
    if not smooth:
        if risk == "population":
            noise = (127.0 if pure else 19.0) * math.sqrt(p) + 0.5 / math.sqrt(n)
        else:
            noise = (49.0 if pure else 25.0) * math.sqrt(p)
        return scale * radius * noise
    flat = (setting.smoothness * scale**2 * radius**4) ** (1.0 / 3.0)
    if risk == "population":
        noise = (83.0 if pure else 43.0) * p ** (2.0 / 3.0) + 11.0 / math.sqrt(n)
    else:
        noise = (65.0 if pure else 127.0) * p ** (2.0 / 3.0)
    return float(flat * noise)


# ---- Tables 1 to 6 ------------------------------------------------------------------------------

Formula = Callable[[Setting], float]


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `risk` and `runtime` are the table's rates with the constant 1, logarithms of ``O~`` left out.
    `bound` is an inequality, where the theorem or its proof has all constants: for this paper's
    rows and for gradient descent of Zhang et al. 2017.  The other methods' rows are rates alone.

    Attributes
    ----------
    table : int
    function_class : {"F", "H", "G", "J", "TERM", "smooth TERM"}
    reference : str
    risk : callable
        Setting to bound, at most ``LR``.
    runtime : callable or None
        Setting to operations; None where the paper says that none is known.
    condition : callable
        Setting to whether the method applies.
    bound : callable or None
        Setting to a bound of the expected excess risk with exact minimizers; None where only the
        rate is known.
    """

    table: int
    function_class: str
    reference: str
    risk: Formula
    runtime: Formula | None
    condition: Callable[[Setting], bool]
    bound: Formula | None = None


def _d(s: Setting) -> float:
    """``d`` for δ = 0, ``√d`` for δ > 0: the tables leave the logarithms out."""
    return float(s.dim) if s.delta == 0.0 else math.sqrt(s.dim)


def _sc(s: Setting) -> float:
    return s.lipschitz**2 / s.strong_convexity


def _flat(s: Setting) -> float:
    return float((s.smoothness * s.lipschitz**2 * s.radius**4) ** (1.0 / 3.0))


def _bend(s: Setting) -> float:
    """``βR/L``."""
    return s.smoothness * s.radius / s.lipschitz


def _t(s: Setting) -> float:
    """``d/ε`` (or ``√d/ε``)."""
    return _d(s) / s.epsilon


def _tn(s: Setting) -> float:
    return _t(s) / s.n_samples


def _small(x: Formula) -> Callable[[Setting], bool]:
    return lambda s: x(s) <= 1.0


def _smooth_small(x: Formula) -> Callable[[Setting], bool]:
    return lambda s: x(s) ** 2 <= 1.0 / _bend(s)


def _trivial(formula: Formula) -> Formula:
    return lambda s: min(formula(s), s.lipschitz * s.radius)


def _own(table: int, population: bool, t: Formula, extra: Formula) -> list[Row]:
    """This paper's rows, which differ between tables in ``t`` and in the sampling term."""

    def j_risk(s: Setting) -> float:
        sampling = math.sqrt(extra(s))
        smooth = _flat(s) * (t(s) ** (2.0 / 3.0) + sampling)
        return float(min(smooth, s.lipschitz * s.radius * (math.sqrt(t(s)) + sampling)))

    mean = table > 2
    label = "Proposition 4.{}" if population else "Corollary 3.{}"
    numbers = (1, 2, 3, 4) if population else ((2, 4, 6, 8) if mean else (1, 3, 5, 7))
    rows = [
        ("F", lambda s: _sc(s) * (t(s) + extra(s)), _small(t)),
        ("H", lambda s: _sc(s) * (min(s.kappa * t(s) ** 2, t(s)) + extra(s)), _small(t)),
        (
            "G",
            lambda s: s.lipschitz * s.radius * (math.sqrt(t(s)) + math.sqrt(extra(s))),
            _small(t),
        ),
        ("J", j_risk, _smooth_small(t)),
    ]
    return [
        Row(
            table,
            name,
            label.format(number),
            _trivial(risk),
            _own_runtime(name, mean),
            condition,
            _own_bound(name, "population" if population else "erm", mean=mean),
        )
        for (name, risk, condition), number in zip(rows, numbers, strict=True)
    ]


def _own_bound(name: str, risk: str, *, mean: bool) -> Formula:
    """:func:`guarantee` for a class: its constants, and no others that the setting may have."""

    def bound(s: Setting) -> float:
        known: dict[str, Any] = {"mean": True} if mean else {"mean": False, "spread": 1.0}
        if name in ("F", "G"):
            known["smoothness"] = math.inf
        if name in ("G", "J"):
            known["strong_convexity"] = 0.0
        return guarantee(replace(s, **known), risk=risk).exact_risk

    return bound


def _own_runtime(name: str, mean: bool) -> Formula:
    def strongly(s: Setting) -> float:
        n, d = s.n_samples, s.dim
        if not mean:
            return n * s.epsilon if s.delta == 0.0 else n * math.sqrt(s.epsilon * d)
        if s.delta == 0.0:
            return max(d * n**2, s.epsilon * n)
        return max(d * n**2, n * math.sqrt(d * s.epsilon))

    def both(s: Setting) -> float:
        n, d = s.n_samples, s.dim
        return d * (n + math.sqrt(n * s.kappa)) if mean else n * d * math.sqrt(s.kappa)

    def convex(s: Setting) -> float:
        n, d = s.n_samples, s.dim
        if not mean:
            return n * s.epsilon**2 / d if s.delta == 0.0 else n * s.epsilon
        if s.delta == 0.0:
            return n**2 * d * max(1.0, (s.epsilon / d) ** 2)
        return n**2 * s.epsilon

    def smooth(s: Setting) -> float:
        n, d, t, bend = s.n_samples, s.dim, _t(s), _bend(s)
        if not mean:
            return float(n * d * max((bend / t) ** (1.0 / 3.0), math.sqrt(bend) * t**-0.25))
        first = n ** (5.0 / 6.0) * (bend / t) ** (1.0 / 3.0)
        return float(d * (n + max(first, n**0.75 * math.sqrt(bend) * t**-0.25)))

    return {"F": strongly, "H": both, "G": convex, "J": smooth}[name]


def _none(s: Setting) -> float:
    return 0.0


def _one_over_n(s: Setting) -> float:
    return 1.0 / s.n_samples


def _tilted_rows(table: int) -> list[Row]:
    def plain_runtime(s: Setting) -> float:
        n, d, c = s.n_samples, s.dim, s.spread
        return n * d / c * max(n**2 / c, n / _t(s))

    return [
        Row(
            table,
            "TERM",
            "Theorem 5.1",
            _trivial(lambda s: _sc(s) * s.spread * _tn(s)),
            plain_runtime,
            _small(_tn),
            _own_bound("F", "erm", mean=True),
        ),
        Row(
            table,
            "smooth TERM",
            "Theorem 5.2",
            _trivial(lambda s: _sc(s) * s.spread * _tn(s) * min(1.0, s.kappa * _tn(s))),
            lambda s: s.n_samples * s.dim * math.sqrt(s.kappa),
            _small(_tn),
            _own_bound("H", "erm", mean=True),
        ),
    ]


def _rivals() -> list[Row]:
    """The other methods in the tables."""

    def low_epsilon(s: Setting) -> bool:
        return s.epsilon <= 1.0 and _tn(s) <= 1.0

    def log_epsilon(s: Setting) -> bool:
        return s.epsilon <= 2.0 * math.sqrt(-math.log(s.delta)) and _tn(s) <= 1.0

    def exponential_runtime(s: Setting) -> float:
        ratio = s.lipschitz / s.strong_convexity
        n, d = s.n_samples, s.dim
        return ratio**2 * d**9 / s.epsilon**2 * max(1.0, ratio) + max(d * n**2, s.epsilon * n)

    def sampling_runtime(s: Setting) -> float:
        n, d = s.n_samples, s.dim
        return s.radius**2 * d**6 * n**3 * max(d, s.epsilon * n * s.radius)

    def squared(s: Setting) -> float:
        return _sc(s) * s.kappa * _tn(s) ** 2

    def descent_runtime(s: Setting) -> float:
        return s.kappa * s.n_samples * s.dim

    def population(formula: Formula) -> Formula:
        return lambda s: formula(s) + _sc(s) / s.n_samples

    def noisy_sgd(power: int) -> Formula:
        def risk(s: Setting) -> float:
            return _sc(s) * _tn(s) ** power * math.log(s.n_samples / s.delta) ** 2

        return risk

    def sgd_time(s: Setting) -> float:
        return float(s.n_samples) ** 2 * s.dim

    def descent(name: str, population: bool) -> Formula:
        """Zhang et al.: an iterate is as stable as the minimizer, ``2L/(µn)``, at most."""

        def bound(s: Setting) -> float:
            mu = s.strong_convexity if name == "H" else 0.0
            common = (s.lipschitz, s.radius, s.n_samples, s.dim, s.epsilon, s.delta)
            found = zhang2017.excess_risk_bound(mu, s.smoothness, *common)
            return found + (2.0 * s.lipschitz**2 / (mu * s.n_samples) if population else 0.0)

        return bound

    rows = [
        (1, "F", "exponential mechanism with localization (Bassily et al. 2014), Proposition G.2",
         lambda s: _sc(s) * _t(s) ** 2, None, _small(_t)),
        (1, "G", "exponential mechanism (Bassily et al. 2014), Theorem G.1",
         lambda s: s.lipschitz * s.radius * _t(s), None, _small(_t)),
        (3, "F", "exponential mechanism with localization (Bassily et al. 2014)",
         population(lambda s: _sc(s) * _tn(s)), exponential_runtime, _small(_tn)),
        (3, "H", "objective perturbation (Chaudhuri et al. 2011)",
         lambda s: s.lipschitz * s.radius * (s.n_samples**-0.5 + _tn(s))
         + s.smoothness * s.radius**2 * _tn(s), None, _small(_tn)),
        (3, "H", "gradient descent (Zhang et al. 2017)", population(squared), descent_runtime,
         _small(_tn)),
        (3, "G", "exponential mechanism (Bassily et al. 2014)",
         lambda s: (s.lipschitz * s.radius) ** 2 * (math.sqrt(_tn(s)) + s.n_samples**-0.5),
         sampling_runtime, _small(_tn)),
        (4, "H", "noisy SGD (Bassily et al. 2014)", population(noisy_sgd(1)), sgd_time,
         log_epsilon),
        (4, "H", "gradient descent (Zhang et al. 2017)", population(squared), descent_runtime,
         low_epsilon),
        (4, "H", "phased ERM (Feldman et al. 2020)",
         population(lambda s: _sc(s) * _tn(s) ** 2),
         lambda s: float(s.n_samples) * s.dim,
         lambda s: low_epsilon(s) and s.kappa * math.log(s.n_samples) <= s.n_samples),
        (5, "F", "exponential mechanism with localization (Bassily et al. 2014)",
         lambda s: _sc(s) * _tn(s) ** 2, exponential_runtime, _small(_tn)),
        (5, "H", "objective perturbation (Chaudhuri et al. 2011)",
         lambda s: _sc(s) * _tn(s) ** 2, None, _small(_tn)),
        (5, "H", "gradient descent (Zhang et al. 2017)", squared, descent_runtime, _small(_tn)),
        (5, "G", "exponential mechanism (Bassily et al. 2014)",
         lambda s: s.lipschitz * s.radius * _tn(s), sampling_runtime, _small(_tn)),
        (5, "J", "objective perturbation (Chaudhuri et al. 2011)",
         lambda s: s.lipschitz * s.radius * _tn(s), None, _small(_tn)),
        (5, "J", "gradient descent (Zhang et al. 2017)",
         lambda s: _flat(s) * _tn(s) ** (2.0 / 3.0),
         lambda s: float(s.n_samples ** (5.0 / 3.0) * s.dim ** (1.0 / 3.0)
                         * (s.epsilon * _bend(s)) ** (2.0 / 3.0)),
         _smooth_small(_tn)),
        (6, "H", "objective perturbation (Kifer et al. 2012)",
         lambda s: _sc(s) * _tn(s) ** 2 + s.smoothness * s.radius**2 / (s.epsilon * s.n_samples),
         None, lambda s: low_epsilon(s) and s.n_samples >= s.dim**2),
        (6, "H", "noisy SGD (Bassily et al. 2014)", noisy_sgd(2), sgd_time, log_epsilon),
        (6, "H", "noisy SVRG (Wang et al. 2017)",
         lambda s: _sc(s) * _tn(s) ** 2 * math.log(s.n_samples),
         lambda s: s.dim * (s.n_samples + s.kappa),
         lambda s: s.epsilon <= s.kappa / s.n_samples**2 and _tn(s) <= 1.0),
        (6, "H", "gradient descent (Zhang et al. 2017)", squared, descent_runtime, low_epsilon),
    ]  # fmt: skip
    return [
        Row(
            t,
            c,
            name,
            _trivial(risk),
            cost,
            when,
            descent(c, t in (3, 4)) if "Zhang" in name else None,
        )
        for t, c, name, risk, cost, when in rows
    ]


#: Tables 1 to 6: any function (1, 2), population's risk (3, 4), means over records (5, 6); the odd
#: ones for δ = 0.  Tables 4 and 6 show class H alone; this paper's other classes follow from its
#: theorems and are here, too.
ROWS: tuple[Row, ...] = (
    *_rivals(),
    *(row for table in (1, 2) for row in _own(table, False, _t, _none)),
    *(row for table in (1, 2) for row in _tilted_rows(table)),
    *(row for table in (3, 4) for row in _own(table, True, _tn, _one_over_n)),
    *(row for table in (5, 6) for row in _own(table, False, _tn, _none)),
)


def table(number: int, setting: Setting, function_class: str | None = None) -> list[Row]:
    """The rows of a table that a setting meets the conditions of.

    Parameters
    ----------
    number : int
        1 to 6; odd for δ = 0, even for δ > 0.
    setting : Setting
    function_class : {"F", "H", "G", "J", "TERM", "smooth TERM"} or None, default=None
        None takes all that the setting has the constants for.

    Returns
    -------
    list of Row

    Raises
    ------
    ValueError
        If the table is for the other kind of budget.

    Examples
    --------
    >>> setting = Setting(1.0, 1.0, 10, 10_000, epsilon=1.0, strong_convexity=0.1, smoothness=1.0)
    >>> for row in table(5, setting, "H"):
    ...     print(f"{row.reference}: {row.risk(setting):.1e}")
    objective perturbation (Chaudhuri et al. 2011): 1.0e-05
    gradient descent (Zhang et al. 2017): 1.0e-04
    Corollary 3.4: 1.0e-04
    """
    number = check_integer("number", number, low=1, high=6)
    if (setting.delta == 0.0) != (number % 2 == 1):
        raise ValueError(
            f"number must be {'odd' if setting.delta == 0.0 else 'even'} for "
            f"delta={setting.delta!r}; got {number}."
        )
    smooth, strongly = setting.smooth, setting.strong_convexity > 0.0
    possible = {
        "F": strongly,
        "H": strongly and smooth,
        "G": True,
        "J": smooth,
        "TERM": strongly,
        "smooth TERM": strongly and smooth,
    }
    if function_class is not None:
        check_choice("function_class", function_class, tuple(possible))
    return [
        row
        for row in ROWS
        if row.table == number
        and possible[row.function_class]
        and function_class in (None, row.function_class)
        and row.condition(setting)
    ]
