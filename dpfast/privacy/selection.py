r"""The best of a random number of runs: what it costs to keep only the best of several releases.

A *run* is a mechanism Q whose output holds a score.  K is drawn from a law that does not depend on
the data, Q is run K times independently, the output of the best score is released, and nothing
else: not the other outputs, not K.  Then the price does not grow with K, as that of K releases
does, but like a logarithm of its mean (Liu & Talwar 2019; Papernot & Steinke 2022).

Laws of K
---------
"negative-binomial": ``P(K = k)`` proportional to ``(1 - g)^k Γ(k + s - 1) / k!``, ``k >= 1``, with
the `shape` ``s > 0`` (``η + 1`` in Papernot & Steinke 2022): the logarithmic law at ``s = 1``, the
geometric one at ``s = 2``.  "poisson": Poisson of rate m, given that ``K >= 1`` (the paper lets K
be 0 and release nothing).

K is drawn from just this law (:func:`number_of_runs`), without a largest value: with small shapes
rare huge K make up much of ``f'(1) = E[K]``, and a law that is cut off is another one, for which
the proof does not hold. Laws that could not be kept to in practice are refused instead.

Proof
-----
Let ``f(x) = E x^K``, and break ties of scores by independent uniform numbers, which belong to the
output.  With ``F(y)`` the probability that a run's output is at most as good as y, the best output
has the density ``Q(y) f'(F(y))``: one of the k runs gives y and the others nothing better, and
``f'(x) = E K x^(K-1)``.  For neighbors (Q', F') and the order ``a = 1 + h``, the log-moment is
therefore at most that of one run plus the logarithm of the maximum of ``f'(p)^a f'(p')^-h`` over
y, where ``p = F(y)`` and ``p' = F'(y)`` are probabilities of one event under Q and Q'.

*Negative binomial.*  ``f'(x) = E[K] (g / u(x))^s``, ``u(x) = 1 - (1 - g) x`` in [g, 1].  Also
``u = u(p)`` is the probability of an event (not both "at most as good as y" and "heads" of an
independent coin of probability 1 - g), so at any order ``1 + j`` the log-moment k_j of one run
bounds u':
``u'^(1+j) u^-j <= exp(k_j)``.  Then ``u'^h u^-a <= exp(h k_j / (1+j)) u^(h j/(1+j) - a)``, whose
exponent ``-1 - h / (1 + j)`` and ``u >= g`` give ::

    f'(p)^a f'(p')^-h <= E[K] exp(h s (k_j + log(1/g)) / (1 + j))

for every ``j > 0`` (Papernot & Steinke 2022, Theorem 2).

*Poisson.*  ``f'(x) = E[K] exp(-m (1 - x))``.  With ``t = 1 - p``, ``t' = 1 - p'``, the logarithm is
``log E[K] + m (h t' - a t)``, and ``t' <= exp(e) t + d`` for a run that is (e, d)-DP.  At
``e = log(1 + 1/h)`` that leaves ``log E[K] + m h d`` (their Theorem 6, with ``E[K]`` for m).

*Pure.*  If a run is e-DP, ``u' <= exp(e) u``, so a negative binomial search is ``(1 + s) e``-DP
(their Corollary 3; Liu & Talwar 2019 for the geometric law), and a Poisson one
``e + m tanh(e/2)``-DP, because ``p - p'`` is at most ``tanh(e/2)``.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache

from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaincc

from dpfast._validation import check_choice, check_real

REPETITIONS = ("poisson", "negative-binomial")
"""The laws of the number of runs."""

LogMoment = Callable[[float], float]

# Orders over which the bound of the second term is minimized: any of them is valid.
_ORDERS = [10.0 ** (k / 8.0) for k in range(-24, 65)]
# Nobody waits for more runs than this; so hardly any of the mean may lie beyond.
_MANY_RUNS = 10**7
_RARE = 1e-6
# Of the law's probabilities: digits enough for 640 random bits and sums of many terms.
_EXACT = Context(prec=400)
_ROUND_UP = 1.0 + 1e-9


def law_parameter(repetitions: str, mean_runs: float, shape: float) -> float:
    """Return the law's parameter, ``m`` or ``g``, from the mean number of runs.

    `mean_runs` is above 1; `shape` is of the negative binomial law.
    """
    check_choice("repetitions", repetitions, REPETITIONS)
    check_real("mean_runs", mean_runs, low=1.001, high=1e4)
    check_real("shape", shape, low=0.25, high=100.0)
    parameter = _parameter(repetitions, float(mean_runs), float(shape))
    # E[K; K > M] / E[K] is the probability that a negative binomial number of this shape exceeds M.
    if repetitions != "poisson" and betaincc(shape, _MANY_RUNS, parameter) > _RARE:
        raise ValueError(
            f"mean_runs must be smaller for shape={shape:g}: with so heavy a tail, too much of the "
            f"mean comes from searches of over {_MANY_RUNS:,} runs, which would not end; got "
            f"{mean_runs:g}. Take fewer runs or a larger shape."
        )
    return parameter


@lru_cache(maxsize=256)
def _parameter(repetitions: str, mean_runs: float, shape: float) -> float:
    def excess(log_parameter: float) -> float:
        return _mean(repetitions, math.exp(log_parameter), shape) - mean_runs

    ends = (-30.0, math.log(mean_runs) + 1.0) if repetitions == "poisson" else (-60.0, -1e-12)
    return math.exp(float(brentq(excess, *ends, xtol=1e-14, rtol=1e-14)))


def _mean(repetitions: str, parameter: float, shape: float) -> float:
    """Return E[K]."""
    if repetitions == "poisson":
        return parameter / -math.expm1(-parameter)
    eta, level = shape - 1.0, -math.log(parameter)
    return math.expm1(level) / (level if eta == 0.0 else -math.expm1(-eta * level) / eta)


def number_of_runs(
    repetitions: str, mean_runs: float, shape: float, uniform: float | Callable[[], int]
) -> int:
    """Return a draw of K, or its quantile at a number.

    The probabilities are added up in decimal arithmetic of 400 digits, and of the random number as
    many bits are drawn as decide, up to 704: the law is met within 2^-640 in total variation.

    `uniform` is a number in [0, 1), or returns random integers of 64 bits.
    """
    parameter = law_parameter(repetitions, mean_runs, shape)
    with localcontext(_EXACT):
        total = mass = _first_mass(repetitions, parameter, float(shape))
        rest, eta = 1 - Decimal(parameter), Decimal(float(shape)) - 1
        low, width = Decimal(0), Decimal(1)
        if not callable(uniform):
            check_real("uniform", uniform, low=0.0, high=1.0, high_open=True)
            low, width = Decimal(float(uniform)), Decimal(0)
        k = 1
        while True:
            # The number lies in [low, low + width).
            if low >= total:
                ratio = Decimal(parameter) if repetitions == "poisson" else rest * (k + eta)
                k += 1
                mass *= ratio / k
                total += mass
            elif low + width <= total or width < _LAST_BIT:
                return k
            else:
                assert callable(uniform)
                width /= 2**64
                low += int(uniform()) * width


_LAST_BIT = _EXACT.power(2, -640)


@lru_cache(maxsize=256)
def _first_mass(repetitions: str, parameter: float, shape: float) -> Decimal:
    """Return P(K = 1)."""
    with localcontext(_EXACT):
        exact, eta = Decimal(parameter), Decimal(shape) - 1
        if repetitions == "poisson":
            return exact / (exact.exp() - 1)
        others = -exact.ln() if eta == 0 else (exact**-eta - 1) / eta
        return (1 - exact) / others


def selection_log_moment(
    one_run: LogMoment,
    one_run_delta: Callable[[float], float],
    excess: float,
    repetitions: str,
    mean_runs: float,
    shape: float,
    offset: float | None = None,
) -> float:
    """Return the log-moment of the best of K runs at order ``1 + excess``.

    `one_run` takes the order minus 1 to the log-moment of one run; `one_run_delta`, which "poisson"
    uses, an epsilon to a delta of one run; `offset` is what :func:`selection_offset` gave, for
    "negative-binomial".
    """
    parameter = _parameter(repetitions, mean_runs, shape)
    if repetitions == "poisson":
        rate = parameter * one_run_delta(math.log1p(1.0 / excess))
    else:
        rate = selection_offset(one_run, mean_runs, shape) if offset is None else offset
    return one_run(excess) + (excess * rate + math.log(mean_runs)) * _ROUND_UP


def selection_offset(one_run: LogMoment, mean_runs: float, shape: float) -> float:
    """Return the smallest ``s (k_j + log(1/g)) / (1 + j)`` over the orders, what h is paid by."""
    level = -math.log(_parameter("negative-binomial", mean_runs, shape))

    def at(excess: float) -> float:
        return shape * (one_run(excess) + level) / (1.0 + excess)

    values = [at(order) for order in _ORDERS]
    best = min(range(len(values)), key=values.__getitem__)
    low, high = _ORDERS[max(best - 1, 0)], _ORDERS[min(best + 1, len(_ORDERS) - 1)]
    found = minimize_scalar(
        lambda x: at(math.exp(x)), bounds=(math.log(low), math.log(high)), method="bounded"
    )
    return min(values[best], float(found.fun))


def selection_epsilon(
    epsilon_of_run: float, repetitions: str, mean_runs: float, shape: float
) -> float:
    """Return the pure epsilon of the best of K runs, each `epsilon_of_run`-DP."""
    if repetitions == "poisson":
        rate = _parameter(repetitions, mean_runs, shape) * math.tanh(0.5 * epsilon_of_run)
        return (epsilon_of_run + rate) * _ROUND_UP
    return (1.0 + shape) * epsilon_of_run * _ROUND_UP
