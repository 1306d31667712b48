"""Lowy & Razaviyayn 2021: what their theorems take and state, and their Tables 1 to 6.

See :mod:`dpfast.theory.lowy2021`, which has the notation and where it departs from the paper.
Propositions 2.5 and 2.8 are stated for ``p <= 1`` and ``p² <= L/(Rβ)``, beyond which the bounds
exceed ``LR``, that of answering 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.papers import zhang2017
from dpfast._validation import check_choice, check_integer
from dpfast.theory.lowy2021 import RISKS, Setting, guarantee


def effort(setting: Setting, *, smooth: bool, risk: str = "erm") -> tuple[str, float, float]:
    """Optimizer, iterations (with the constant 1) and runtime of the corollaries.

    The runtime is ``d`` times the number of gradients of single records.
    """
    found = guarantee(setting, smooth=smooth, risk=risk)
    mu = setting.strong_convexity if found.ridge is None else found.ridge
    alpha = found.accuracy
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


Formula = Callable[[Setting], float]


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `risk` and `runtime` are the table's rates with the constant 1, logarithms of ``O~`` left out.
    Three runtimes are not as printed.  Table 1 has ``d/ε`` for ``ε/d`` in the tilted risk's, whose
    theorem takes ``εn/d`` iterations; Tables 1 and 2 have ``κ`` for the ``√κ`` of Theorem 5.2; and
    Table 3 has a factor n in that of the exponential mechanism with localization, which the paper's
    footnote 4 and Table 5 do without.

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
        n, d, bend = s.n_samples, s.dim, _bend(s)
        # For δ > 0 the runtimes keep the √ε of c + √(c² + ε), which the risks leave out.
        t = _t(s) if s.delta == 0.0 else math.sqrt(d / s.epsilon)
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
            found = zhang2017.excess_risk_bound(
                zhang2017.Setting(
                    mu, s.smoothness, s.lipschitz, s.radius, s.n_samples, s.dim, s.epsilon, s.delta
                )
            )
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
