r"""Lowy & Razaviyayn 2021, "Output perturbation for differentially private convex optimization".

Their classes: ``F(w, X)`` convex and L-Lipschitz with a minimizer in the ball of radius R
(``G``), also β-smooth (``J``), µ-strongly convex (``F``), or both (``H``), each either a mean over
n records ("ERM") or any function of the data.  Everything they prove about the noise follows from
one number, here `ratio`::

    p = d/(εm)  (δ = 0)      p = √d (c + √(c² + ε))/(εm)  (δ > 0),   c² = log(2/(√(16δ + 1) - 1))

with ``2L/(µm)`` the sensitivity of the minimizer: ``m = n`` for a mean over records, 1 for any
function, ``n/C`` for a tilted risk whose losses have the spread ``log(C)/τ``.

:func:`guarantee` evaluates the inequalities of their proofs rather than the constants that their
theorems round these to.

Where this departs from the paper:

- L bounds the gradient of what depends on the data; the ridge adds nothing to the sensitivity,
  where they carry ``L + λR``.
- Optimization accuracy: theirs, `accuracy`, bounds a mean; a solver must certify it on every run.
- Proposition 4.3 loses the stability term, ``2L²/(λn)``, ``2LR/√n`` at its ridge; it is kept here.
- Theorem 3.4, part 2b, needs the factor ``(1 + pn)^-2`` that its part 2a has: with
  ``α = LRp^{3/2}`` alone the optimizer's share of the noise is ``pn`` times the sensitivity's.
- Theorem 5.2 has the first power of C where ``Δ²`` gives the second.
- Proposition 2.7 leaves its constant open, and rests on a lemma of Bassily et al. 2014 that does;
  :func:`lower_bound` has constants, and for ``δ > 0`` the rate ``min(d, log(1/δ))/(εn)`` of
  packings instead of ``√d/(εn)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.special
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_integer, check_real

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
    """What the paper promises.

    Attributes
    ----------
    ridge : float or None
        ``λ`` that is added to a function that is only convex.
    accuracy : float
        ``α``: expected suboptimality up to which the minimization may stop.
    exact_risk : float
        Bound of the expected excess risk with exact minimizers ("conceptual").
    risk : float
        The same with minimizers of accuracy `accuracy`.
    applies : bool
        Whether the theorem's condition on ``p`` holds.
    """

    ridge: float | None
    accuracy: float
    exact_risk: float
    risk: float
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
    >>> found.applies, found.risk < 0.05
    (True, True)
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
    return Guarantee(
        ridge=added,
        accuracy=alpha,
        exact_risk=exact,
        risk=risk_bound,
        applies=p**2 <= limit if smooth and convex else p <= limit,
    )


# ---- what no method can pass --------------------------------------------------------------------


def lower_bound(setting: Setting, *, replacements: int = 1) -> float:
    """What no private method can promise less than, for a class of means over records.

    Proposition 2.7 with constants.  Take ``f(w, x) = (c/2)‖w - x‖²`` on ``‖x‖ <= R'``: its mean has
    the excess ``(c/2)‖w - x̄‖²``, and so a private ``w`` one of at least ``(c R'²/2) u``, ``u`` of
    :func:`private_mean_error`, on some data.  The function is in the class, c-strongly convex and
    c-smooth,

    - for ``c = µ`` and ``R' = min(R, L/µ)``, since then ``c‖x‖``, the gradient of what depends on
      the data, is at most L;
    - for ``µ <= c <= β`` and ``R' = min(R, L/c - R)``, since then the whole gradient is, on the
      ball of radius R.  The best c is ``L/(2R)`` brought into that range; where it is β, this is
      the proposition's ``L = 2βR``.

    The smaller classes' bounds hold for the larger ones: not strongly convex, not smooth, no mean.

    Parameters
    ----------
    setting : Setting
        `spread` is not used: tilted risks have bounds of their own, which nobody knows.
    replacements : int, default=1
        Neighbors from one data set to the next that differs in one record; 2 for
        ``add_or_remove_one``.

    Returns
    -------
    float
        A bound of the expected excess risk for the worst function and data of the class.

    Examples
    --------
    >>> setting = Setting(1.0, 1.0, dim=10, n_samples=1000, epsilon=0.1, strong_convexity=0.1)
    >>> lower_bound(setting) < guarantee(setting, smooth=False).exact_risk
    True
    """
    scale, radius, mu = setting.lipschitz, setting.radius, setting.strong_convexity
    bend = min(max(scale / (2.0 * radius), mu), setting.smoothness)
    size = 0.5 * bend * max(0.0, min(radius, scale / bend - radius)) ** 2
    if mu > 0.0:
        size = max(size, 0.5 * mu * min(radius, scale / mu) ** 2)
    epsilon = setting.epsilon * replacements
    growth = sum(math.exp(min(k * setting.epsilon, 700.0)) for k in range(replacements))
    delta = min(1.0, setting.delta * growth)
    return size * private_mean_error(setting.dim, setting.n_samples, epsilon, delta)


@lru_cache(maxsize=1024)
def private_mean_error(dim: int, n_samples: int, epsilon: float, delta: float = 0.0) -> float:
    """Lower bound of ``E‖A(X) - x̄‖²`` over n points of the unit ball, for the worst X.

    ``M`` points ``z`` of ``{±1/√d}^d`` differ in at least h signs each; ``X_z`` has k records z
    and is 0 elsewhere.  The open balls of radius ``r = (k/n) √(h/d)`` around the means ``kz/n`` are
    disjoint, and ``X_z`` and ``X_z'`` differ in k records.  So with ``p`` the least probability of
    ``A(X_z)`` to lie in its own ball,
    ``1 >= p + (M - 1)(e^{-εk} p - δ(1 - e^{-εk})/(e^ε - 1))``: on some ``X_z`` the error is r or
    more with a probability of at least::

        (e^{-εk} - δ(1 - e^{-εk})/(e^ε - 1)) / (1/(M - 1) + e^{-εk})

    There are ``M >= 2^d / Σ_{i<h} C(d, i)`` such points (Gilbert and Varshamov), of which fewer may
    be taken.  The largest ``r²`` times that probability over a grid of h, k and M is returned; for
    ``δ = 0`` it is of the order ``min(1, d/(εn))²``.

    Parameters
    ----------
    dim, n_samples : int
    epsilon, delta : float
        Of the guarantee under replacement of one record.
    """
    signs = np.unique(np.round(np.geomspace(1, dim, 16)).astype(int))
    best = 0.0
    for h, log_count in zip(signs, _log_code_sizes(dim, signs), strict=True):
        # Numbers of points, as logarithms of M - 1: two at least.
        logs = np.array([log_count])
        if delta > 0.0:
            logs = np.append(logs, np.linspace(0.0, log_count, 24))
        useful = max(1.0, (log_count + 4.0) / epsilon)
        k = np.floor(np.geomspace(1.0, max(1.0, min(float(n_samples), useful)), 48))
        # Everything divided by e^{-εk}; huge factors stand for a probability of nothing.
        grown = np.minimum(epsilon * k, 700.0)[:, None]
        slip = delta * np.expm1(grown) / math.expm1(min(epsilon, 700.0))
        own = np.exp(np.minimum(grown - logs[None, :], 700.0))
        missed = (1.0 - slip) / (1.0 + own)
        radius = (k / n_samples)[:, None] ** 2 * (h / dim)
        best = max(best, float(np.max(radius * missed)))
    # Below by what the sums of binomials may be wrong by.
    return best * (1.0 - 1e-9)


def _log_code_sizes(dim: int, signs: NDArray[np.int64]) -> NDArray[np.float64]:
    """``log(M - 1)`` for codes of these least distances, at least two points each."""
    i = np.arange(dim)
    logs = scipy.special.gammaln(dim + 1.0) - (
        scipy.special.gammaln(i + 1.0) + scipy.special.gammaln(dim - i + 1.0)
    )
    volumes = np.logaddexp.accumulate(logs)[signs - 1]
    size = np.maximum(dim * math.log(2.0) - volumes - 1e-9, 0.0)
    small = size < 40.0
    whole = np.ceil(np.exp(np.where(small, size, 0.0)) - 1e-6) - 1.0
    return np.where(small, np.log(np.maximum(whole, 1.0)), size - 1e-12)


# ---- minimax ------------------------------------------------------------------------------------


def minimax_gradients(
    setting: Setting,
    *,
    adversary_smoothness: float,
    diameter: float,
    strong_concavity: float = 0.0,
    reach: float | None = None,
) -> float:
    """Gradients that Minimax-APPA takes to the accuracy of Corollaries 5.1 and 5.2.

    ``√(κ β_v / α) ρ`` for a function that is concave in the adversary's ``v``, and ``√(κ κ_v)``
    for one that is strongly so (their Proposition 5.2, after Lin, Jin & Jordan 2020), with the
    constant 1 and without logarithms.  Each takes the gradients of all records.

    Parameters
    ----------
    setting : Setting
        Strongly convex and smooth.
    adversary_smoothness : float
        ``β_v``.
    diameter : float
        ``ρ`` of the whole set of ``v``: ``√n`` times that of one record's perturbations.
    strong_concavity : float, default=0.0
        ``µ_v``.
    reach : float or None, default=None
        ``α`` to reach; None is that of the corollaries, :func:`accuracy`.

    Raises
    ------
    ValueError
        If the setting is not strongly convex and smooth, or a constant is out of range.
    """
    if not (setting.smooth and setting.strong_convexity > 0.0):
        raise ValueError(
            "setting must be strongly convex and smooth for a minimax bound; got "
            f"strong_convexity={setting.strong_convexity!r}, smoothness={setting.smoothness!r}."
        )
    check_real("adversary_smoothness", adversary_smoothness, low=0.0)
    check_real("diameter", diameter, low=0.0)
    check_real("strong_concavity", strong_concavity, low=0.0)
    if strong_concavity > 0.0:
        return math.sqrt(setting.kappa * max(1.0, adversary_smoothness / strong_concavity))
    alpha = accuracy(setting, smooth=True) if reach is None else reach
    return max(1.0, math.sqrt(setting.kappa * adversary_smoothness / alpha) * diameter)
