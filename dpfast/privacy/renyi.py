r"""Renyi divergences of neighboring releases at any real order, and what they promise.

Notation
--------
For laws P and Q of a release on two neighbors and an order ``a = 1 + h``, ``h > 0``, the functions
here return the *log-moment* ``K(a) = log E_Q[(P/Q)^a] = h D_a(P || Q)``, maximized over the
neighbors. Log-moments of adaptively composed releases add up (Mironov 2017, Proposition 1). All of
them are given by h and not by a, because orders close to 1 matter at large delta.

One convex function
-------------------
With ``g_s(t) = (1 + t)^s - 1 - s t`` (non-negative for ``s >= 1`` and for ``s <= 0``) and
``P / Q = 1 + t``, ``E_Q[t] = 0`` gives ::

    exp(K(a)) - 1 = E_Q[g_a(t)]

a sum of non-negative terms, so nothing cancels when it is as small as 1e-30 (a sampling rate of
1e-10). With ``L = log(1 + t)`` and ``phi(y) = (exp(y) - 1 - y) / y^2``, positive everywhere ::

    g_a(t)     = exp(L) k(-L),      k(x) = h x^2 (h phi(-h x) + phi(x))
    g_{1-a}(t) = k(L)

is how they are computed, in logarithms, without overflow.

Subsampling
-----------
Let ``E_x(P || Q) = E_Q[(P/Q - x)_+]`` be the hockey-stick divergence, ``x >= 1``. Taylor's formula
for ``t^a``, of second derivative ``a (a - 1) t^(a-2)``, integrated over Q, is ::

    exp(K(a)) - 1 = a (a - 1) int_1^oo [x^(a-2) E_x(P || Q) + x^(-a-1) E_x(Q || P)] dx

*Fixed size, replace_one.* Let a sample of ``m = q n`` rows be uniform without replacement and
``H(x)`` bound the hockey-stick divergences of the release from two samples that differ in one
replaced row. Then both divergences of the whole are at most ``q H(1 + (x - 1) / q)``. Proof: the
outputs are ``(1 - q) w0 + q w1`` and ``(1 - q) w0 + q w1'``, w0 being the law when the differing
row is not in the sample. Advanced joint convexity (Balle, Barthe & Gaboardi 2018, Theorem 2) says
``E_x = q E_y(w1 || (1 - b) w0 + b w1')`` with ``x = 1 + q (y - 1)``, ``b = x / y``: indeed
``(1-q) w0 + q w1 - x ((1-q) w0 + q w1') = q (w1 - y (1-b) w0 - y b w1')``, as
``q y b = q x`` and ``q y (1 - b) = q (y - x) = (x - 1) (1 - q)``. Convexity of E_y in its second
argument leaves ``E_y(w1 || w0)`` and ``E_y(w1 || w1')``. The samples behind w1 and w1' differ in
the replaced row; those behind w1 and w0 can be drawn together so that they do too (take the
differing row out of the first, and put one of the n - m unused rows in, uniformly). Joint convexity
of E_y ends the proof. Inserted into the integral, with ``H = E_x(P || Q)`` of a pair
whose privacy loss under Q is u, ``t = q (exp(u) - 1)`` ::

    exp(K(a)) - 1 <= E_Q[(g_a(t) + g_{1-a}(t)) 1{t > 0}]

*Poisson, add_or_remove_one.* For a Gaussian the pair ``(1 - q) N(0, 1) + q N(mu, 1)`` against
``N(0, 1)`` is exact, and in the direction that is never the smaller one (Mironov, Talwar & Zhang
2019, Theorems 4 and 5): ``exp(K(a)) - 1 = E_Q[g_a(t)]``. In general the two divergences have the
bound above too (Balle, Barthe & Gaboardi 2018, Theorem 8).

From log-moments to epsilon and delta
-------------------------------------
Canonne, Kamath & Steinke 2020, Proposition 12: at any order, it is (epsilon, delta)-DP for ::

    log delta = K(a) - h epsilon + h log h - a log a

K is convex in a, and so is ``h log h - a log a``: the right side is convex, and epsilon at given
delta, being a convex function over h, falls and then rises. Both minima are found by bisection over
a lattice of orders (whose log-moments are cached: a ledger asks for them again and again) and a
refinement between its points. Every order gives a valid bound: an imperfect minimum is loose, never
wrong.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]
LogMoment = Callable[[float], float]

_LOWEST, _PER_DECADE, _DECADES = 1e-6, 40, 16
_N_ORDERS = _PER_DECADE * _DECADES + 1
_MAX_CELLS = 100_000
_ROUNDING = 1e-9
"""Relative amount by which quadratures are rounded up; their errors are below it."""
_NEGLIGIBLE = 45.0
_ENDLESS = 1e6
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TAYLOR = np.array([1.0 / math.factorial(k + 2) for k in range(18)])[::-1]


def gaussian_log_moment(excess: float, mu: float) -> float:
    """Return the log-moment at order ``1 + excess`` of a mu-GDP release: ``a h mu^2 / 2``.

    A mu-GDP release is a post-processing of the Gaussian one (Dong, Roth & Su 2022, Theorem 2.10).
    """
    return 0.5 * (1.0 + excess) * excess * mu * mu


def pure_log_moment(excess: float, epsilon: float) -> float:
    """Return the log-moment at order ``1 + excess`` of any epsilon-DP release.

    Binary randomized response is the worst of them (Kairouz, Oh & Viswanath 2015, Theorem 2.5) and
    has ``log(cosh((h + 1/2) epsilon) / cosh(epsilon / 2))``.
    """
    # cosh(x + y) / cosh(x) = 1 + 2 sinh(y / 2) sinh(x + y / 2) / cosh(x), y = h epsilon.
    x, y = 0.5 * epsilon, excess * epsilon
    if y < 1.0:
        numerator = -math.expm1(-2.0 * x - y) * math.exp(0.5 * y)
        return math.log1p(2.0 * math.sinh(0.5 * y) * numerator / (1.0 + math.exp(-2.0 * x)))
    return y + math.log1p(math.exp(-2.0 * (x + y))) - math.log1p(math.exp(-2.0 * x))


def range_log_moment(excess: float, epsilon: float) -> float:
    """Return the log-moment at order ``1 + excess`` of any release of bounded range epsilon.

    The log-ratio lies in an interval ``[t - epsilon, t]``, ``0 <= t <= epsilon``, and ``(P/Q)^a``
    is convex in P/Q, whose mean is 1: it is largest on the two ends, with the masses that make the
    mean 1. The worst t, the derivative's only zero, has
    ``exp(t - epsilon) = (1 - exp(-a epsilon)) h / ((1 - exp(-h epsilon)) a)``.
    Compare Dong, Durfee & Rogers 2020, Lemma 3.3.
    """
    order = 1.0 + excess
    # No divergence is over epsilon; exponentials of a large one overflow, a tiny one has no digits.
    if not 1e-150 < epsilon <= 500.0:
        return min(excess * epsilon, 0.125 * order * excess * epsilon * epsilon)
    ratio = math.expm1(-order * epsilon) * excess / (math.expm1(-excess * epsilon) * order)
    top = min(max(epsilon + math.log(ratio), 0.0), epsilon)
    low = top - epsilon
    if top == 0.0 or low == 0.0:
        top, low = 0.5 * epsilon, -0.5 * epsilon
    mass = math.expm1(low) / (math.exp(low) * -math.expm1(top - low))
    ends = np.array([top, low])
    weights = np.log(np.array([mass, 1.0 - mass]))
    value = _log_sum(weights + _log_g(ends, excess))
    # Cesar & Rogers 2021, Lemma 3.4.
    return min(_log_moment(value), 0.125 * order * excess * epsilon * epsilon)


def laplace_log_moment(excess: float, epsilon: float) -> float:
    """Return the log-moment at order ``1 + excess`` of Laplace noise, l1-sensitivity / scale given.

    In one dimension ``exp(K) = (a exp(h epsilon) + h exp(-a epsilon)) / (2 a - 1)`` (Mironov 2017,
    Proposition 6). K is convex in epsilon and 0 at 0, so the parts of an l1 distance that is spread
    over several coordinates cost less together. Discrete Laplace noise whose grid step is t scales
    replaces the integral behind this formula by ``tanh(t / 2) / (t / 2)`` times its trapezoidal
    sum: the same up to O(t^2).
    """
    if epsilon > _ENDLESS:  # no divergence is over epsilon
        return excess * epsilon
    order = 1.0 + excess
    # a (exp(h e) - 1) + h (exp(-a e) - 1), where the linear terms cancel.
    y = np.array([excess * epsilon, -order * epsilon])
    logs = np.log(np.array([excess, order])) + _log_phi(y)
    scale = math.log(order * excess / (2.0 * order - 1.0)) + 2.0 * math.log(epsilon)
    return _log_moment(scale + _log_sum(logs))


@lru_cache(maxsize=1 << 16)
def subsampled_gaussian_log_moment(excess: float, mu: float, rate: float, sampling: str) -> float:
    """Return the log-moment at order ``1 + excess`` of a subsampled Gaussian release.

    `excess` is the order minus 1, `mu` the sensitivity on a sample over the standard deviation,
    `rate` the fraction of the rows in a sample; see the head of this module: exact for "poisson",
    an upper bound for "fixed-size".  The integral has a relative error below 1e-8 and is rounded
    up. Where it would need more than 100,000 panels (orders of which the log-moment is in the
    thousands), the bound without sampling is returned.
    """
    whole = gaussian_log_moment(excess, mu)
    if whole == math.inf:
        return whole
    step = min(0.5, 1.0 / mu)
    low = 0.5 * mu if sampling == "fixed-size" else -16.0
    high = max(low, (1.0 + excess) * mu) + 16.0
    cells = math.ceil((high - low) / step)
    if rate == 1.0 or cells > _MAX_CELLS:
        return whole

    def log_integrand(z: Array) -> Array:
        # The privacy loss under Q is N(-mu^2 / 2, mu^2).
        loss = mu * (z - 0.5 * mu)
        return _log_sampled(loss, excess, rate, sampling) - 0.5 * z * z - _LOG_SQRT_2PI

    edges = np.linspace(low, low + step * cells, cells + 1)
    return min(whole, _log_moment(_log_integral(log_integrand, edges)))


@lru_cache(maxsize=1 << 16)
def subsampled_laplace_log_moment(
    excess: float, epsilon: float, rate: float, dimension: int
) -> float:
    """Return the log-moment at order ``1 + excess`` of a subsampled Laplace release.

    Either sampling, by the bound at the head of this module. In one dimension H is that of the
    Laplace mechanism, whose privacy loss under Q is epsilon with probability ``exp(-epsilon) / 2``
    and has the density ``exp(-(u + epsilon) / 2) / 4`` in between. In more dimensions it is that of
    randomized response, the worst of all epsilon-DP mechanisms.

    `excess` is the order minus 1, `rate` the fraction of the rows in a sample, and `epsilon` the
    l1-sensitivity on a sample over the scale.
    """
    whole = laplace_log_moment(excess, epsilon)
    if rate == 1.0 or epsilon > _ENDLESS:
        return whole
    atom = float(_log_sampled(np.array([epsilon]), excess, rate, "fixed-size")[0])
    if dimension > 1:
        value = atom - epsilon - math.log1p(math.exp(-epsilon))
        return min(whole, _log_moment(value))

    def log_integrand(loss: Array) -> Array:
        log_density = -0.5 * (loss + epsilon) - math.log(4.0)
        return _log_sampled(loss, excess, rate, "fixed-size") + log_density

    # Panels that shrink towards the upper end, where high orders have all their weight.
    edges: Array = epsilon * np.append(1.0 - 0.5 ** np.arange(40.0), 1.0)
    between = _log_integral(log_integrand, edges)
    return min(whole, _log_moment(float(np.logaddexp(atom - epsilon - math.log(2.0), between))))


def renyi_epsilon(log_moment: LogMoment, delta: float, enough: float = -math.inf) -> float:
    """Return an epsilon at `delta` for releases with the given log-moments.

    `log_moment` takes the order minus 1 to the log-moment, summed over the releases. Refining stops
    once the result is at most `enough`. It is the smallest over all real orders from 1 + 1e-6 to
    1e10, to a relative 1e-9, and at least 0.
    """
    log_delta = math.log(delta)

    def epsilon(excess: float) -> float:
        value = log_moment(excess) - log_delta - math.log1p(excess)
        return value / excess - math.log1p(1.0 / excess)

    best = _minimum(epsilon, enough) * (1.0 + 1e-12)
    return math.inf if math.isnan(best) else max(0.0, best)


def renyi_delta(log_moment: LogMoment, epsilon: float, *, refine: bool = True) -> float:
    """Return a delta at `epsilon` for releases with the given log-moments, at most 1.

    Without `refine` it is a little larger, and needs cached log-moments only.
    """

    def log_delta(excess: float) -> float:
        linear = log_moment(excess) - excess * epsilon - math.log1p(excess)
        return linear - excess * math.log1p(1.0 / excess)

    best = _minimum(log_delta, -math.inf if refine else math.inf) + 1e-12
    return math.exp(best) if best < 0.0 else 1.0


def _minimum(function: LogMoment, enough: float = -math.inf) -> float:
    """Return the minimum over the orders of a function that falls and then rises."""
    low, high = 0, _N_ORDERS - 1
    while low < high:
        middle = (low + high) // 2
        # Written so that infinities and NaN lead to smaller orders.
        if function(_order(middle + 1)) < function(_order(middle)):
            low = middle + 1
        else:
            high = middle
    best = function(_order(low))
    if best <= enough or not math.isfinite(best):
        return best
    ends = max(low - 1, 0), min(low + 1, _N_ORDERS - 1)
    found = minimize_scalar(
        lambda x: function(math.exp(x)),
        bounds=tuple(math.log(_order(end)) for end in ends),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return min(best, float(found.fun))


@lru_cache(maxsize=_N_ORDERS)
def _order(index: int) -> float:
    return float(_LOWEST * 10.0 ** (index / _PER_DECADE))


def _log_moment(log_excess_moment: float) -> float:
    """Return ``log(1 + x)``, rounded up, for ``x = exp(log_excess_moment)``."""
    return float(np.logaddexp(0.0, log_excess_moment + _ROUNDING))


def _log_sampled(loss: Array, excess: float, rate: float, sampling: str) -> Array:
    """Return ``log g_a(t)``, or ``log(g_a(t) + g_{1-a}(t))``, for the base's privacy loss."""
    with np.errstate(over="ignore"):
        small = np.log1p(rate * np.expm1(np.minimum(loss, 1.0)))
    large = loss + np.log(rate + (1.0 - rate) * np.exp(-np.maximum(loss, 1.0)))
    log_ratio = np.where(loss > 1.0, large, small)
    forward = _log_g(log_ratio, excess)
    if sampling == "poisson":
        return forward
    return np.asarray(np.logaddexp(forward, _log_k(log_ratio, excess)))


def _log_g(log_ratio: Array, excess: float) -> Array:
    """Return ``log(r^a - 1 - a (r - 1))`` for ``r = exp(log_ratio)``."""
    return log_ratio + _log_k(-log_ratio, excess)


def _log_k(x: Array, excess: float) -> Array:
    with np.errstate(divide="ignore"):
        square = math.log(excess) + 2.0 * np.log(np.abs(x))
    return np.asarray(square + np.logaddexp(math.log(excess) + _log_phi(-excess * x), _log_phi(x)))


def _log_phi(y: Array) -> Array:
    """Return ``log((exp(y) - 1 - y) / y^2)``, without cancellation or overflow."""
    size = np.maximum(np.abs(y), 1.0)
    decay = np.exp(-size)
    positive = size + np.log1p(-(1.0 + size) * decay)
    negative = np.log(size - 1.0 + decay)
    near = np.log(np.polyval(_TAYLOR, np.clip(y, -1.0, 1.0)))
    away = np.where(y > 0.0, positive, negative) - 2.0 * np.log(size)
    return np.asarray(np.where(np.abs(y) < 1.0, near, away))


def _log_integral(log_integrand: Callable[[Array], Array], edges: Array) -> float:
    """Return the logarithm of the integral over the panels, skipping those that add nothing."""
    log_lengths = np.log(np.diff(edges))
    middle = log_integrand(0.5 * (edges[1:] + edges[:-1]))
    ends = log_integrand(edges)
    height = np.maximum(np.maximum(ends[1:], ends[:-1]), middle) + log_lengths
    near = height > height.max() - _NEGLIGIBLE
    near[1:] |= near[:-1].copy()
    near[:-1] |= near[1:].copy()
    low, half = edges[:-1][near], 0.5 * np.diff(edges)[near]
    z = low[:, None] + half[:, None] * (1.0 + _NODES)
    values = log_integrand(z.ravel()).reshape(z.shape)
    return _log_sum((values + np.log(half)[:, None] + np.log(_WEIGHTS)).ravel())


def _log_sum(values: Array) -> float:
    highest = float(values.max())
    if not math.isfinite(highest):
        return highest
    return highest + math.log(math.fsum(np.exp(values - highest)))
