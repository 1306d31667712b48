"""Audits: lower bounds on the privacy loss of a mechanism, measured from its outputs.

Run a mechanism many times on two neighbors that differ as much as they may, turn every output into
one number (the score: the more it speaks for the first data set, the larger), and ask how well a
threshold on the score tells the two apart. (epsilon, delta)-DP bounds what any test can achieve
(Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015), so a test that achieves more refutes the
claim. The threshold is chosen on one half of the outputs and judged on the other, and the error
rates are exact Clopper-Pearson bounds: a correct mechanism is refuted with a probability of at most
``1 - confidence``, whatever the score.

Where a run takes too long to be repeated, one run on data with many canaries, each of them in or
out by a coin of its own, gives a bound, too (:func:`audit_one_run`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from dpfast._validation import check_integer, check_real

_MINIMUM_RUNS = 20
_THRESHOLDS = 256
# Numbers of guesses that an audit of one run tries, each half of the one before.
_HALVINGS = 8
_LARGEST_EPSILON = 100.0


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on a privacy parameter.

    Attributes
    ----------
    value : float
        The bound: on epsilon for :func:`audit_epsilon`, on mu for :func:`audit_mu`. At least 0.
    confidence : float
        With this probability the mechanism's parameter is at least `value`.
    threshold : float
        Scores above it were taken to speak for the first data set, or for the second if `flipped`.
    true_positive_rate, false_positive_rate : float
        Observed, on the half that judges.
    flipped : bool
        Whether low scores, not high ones, were the better test.
    """

    value: float
    confidence: float
    threshold: float
    true_positive_rate: float
    false_positive_rate: float
    flipped: bool


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return a lower and an upper bound of a probability, each wrong with probability `error`.

    Parameters
    ----------
    successes, trials : int
        ``0 <= successes <= trials``, ``trials >= 1``.
    error : float
        In (0, 1); of each bound separately.

    Returns
    -------
    low, high : float

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type or out of its range.

    Examples
    --------
    >>> from dpfast.privacy import clopper_pearson
    >>> low, high = clopper_pearson(5, 10, 0.025)
    >>> round(low, 4), round(high, 4)
    (0.1871, 0.8129)
    """
    check_integer("trials", trials, low=1)
    check_integer("successes", successes, low=0, high=trials)
    error = check_real("error", error, low=0.0, high=1.0, low_open=True, high_open=True)
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, error)) if successes else 0.0
    # The upper bound is the failures' lower bound, which keeps its precision near 1.
    high = 1.0 - float(betaincinv(failures, successes + 1, error)) if failures else 1.0
    return low, high


def audit_epsilon(
    scores: ArrayLike,
    neighbor_scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 1.0 - 1e-6,
) -> AuditResult:
    """Return a lower bound on the epsilon of a mechanism at `delta`.

    For every event S, ``P(S) <= exp(epsilon) Q(S) + delta``, so
    ``epsilon >= log((P(S) - delta) / Q(S))``.

    Parameters
    ----------
    scores : array-like of shape (n_runs,)
        Scores of independent runs on the first data set.
    neighbor_scores : array-like of shape (n_neighbor_runs,)
        Scores of independent runs on its neighbor.
    delta : float, default=0.0
        In [0, 1).
    confidence : float, default=1 - 1e-6
        In (0, 1).

    Returns
    -------
    result : AuditResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type or out of its range, or there are fewer than 20 scores
        of a kind or one is NaN.

    Examples
    --------
    Laplace noise of scale 1/2 on a query of sensitivity 1, which is 2-DP and no better:

    >>> import numpy as np
    >>> from dpfast.privacy import audit_epsilon
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.laplace(1.0, 0.5, 20_000), rng.laplace(0.0, 0.5, 20_000)
    >>> 1.5 < audit_epsilon(x, y).value < 2.0
    True
    """
    delta = check_real("delta", delta, low=0.0, high=1.0, high_open=True)

    def bound(p: float, q: float) -> float:
        return math.log((p - delta) / q) if p > delta else -math.inf

    return _audit(scores, neighbor_scores, confidence, bound)


def audit_mu(
    scores: ArrayLike, neighbor_scores: ArrayLike, *, confidence: float = 1.0 - 1e-6
) -> AuditResult:
    """Return a lower bound on the mu of a mechanism that is claimed to be mu-GDP.

    No test of level alpha has a power over ``Phi(Phi^-1(alpha) + mu)`` (Dong, Roth & Su 2022), so
    ``mu >= Phi^-1(power) - Phi^-1(alpha)``. It is much sharper than :func:`audit_epsilon` for
    Gaussian noise, whose best test is not an extreme one (Nasr et al. 2023).

    Parameters, result and errors are those of :func:`audit_epsilon`, without a delta.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast.privacy import audit_mu
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(1.0, 1.0, 20_000), rng.normal(0.0, 1.0, 20_000)
    >>> 0.8 < audit_mu(x, y).value < 1.0
    True
    """

    def bound(p: float, q: float) -> float:
        return float(ndtri(p) - ndtri(q)) if p > 0.0 and q < 1.0 else -math.inf

    return _audit(scores, neighbor_scores, confidence, bound)


@dataclass(frozen=True)
class OneRunAudit:
    """A lower bound on epsilon from a single run.

    Attributes
    ----------
    value : float
        With probability `confidence` the mechanism's epsilon is at least this. At least 0.
    confidence : float
    guesses : int
        How many canaries were guessed at, those with the largest and the smallest scores.
    correct : int
        How many of the guesses were right.
    """

    value: float
    confidence: float
    guesses: int
    correct: int


def audit_one_run(
    scores: ArrayLike,
    members: ArrayLike,
    *,
    delta: float = 0.0,
    guesses: int | None = None,
    confidence: float = 1.0 - 1e-6,
) -> OneRunAudit:
    r"""Return a lower bound on the epsilon of a mechanism at `delta` from one run of it.

    For each of m canaries a fair coin of its own decides which of two records (or whether any, for
    the relation `add_or_remove_one`) is in the data. The mechanism runs once, and the canaries with
    the highest scores are guessed to be in, those with the lowest not to be (Steinke, Nasr &
    Jagielski 2023).

    Parameters
    ----------
    scores : array-like of shape (n_canaries,)
        A function of the run's output; larger values speak for the canary. Ties are
        guessed in the order of the canaries, which must not follow from `members`.
    members : array-like of bool, shape (n_canaries,)
        The coins. They must be independent and fair, and have decided nothing else.
    delta : float, default=0.0
        In [0, 1).
    guesses : int, optional
        How many canaries to guess at, fixed beforehand. By default all, half of them, a quarter,
        ..., eight numbers in all, for each of which an eighth of the error probability is set
        aside.
    confidence : float, default=1 - 1e-6
        In (0, 1).

    Returns
    -------
    result : OneRunAudit

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type, shape or range, or there are fewer than 20 canaries or
        a score is NaN.

    Notes
    -----
    Write S for the coins, Y for the output, r for the number of guesses, W for how many are right,
    and ``q = e^epsilon / (1 + e^epsilon)``.

    1. Fix the coins before i. Averaged over those after i, the laws ``P_+`` and ``P_-`` of Y for
       both values of coin i are (epsilon, delta)-close, since hockey-stick divergences are jointly
       convex. The coin being fair, a guess at it from Y and from the coins before is right with
       probability ``dP_+ / (dP_+ + dP_-)`` or one minus that. By how much this passes q has the
       expectation ``1/2 \int (dP_+ - q (dP_+ + dP_-))_+ = 1/2 (1 - q) \int (dP_+ - e^epsilon
       dP_-)_+ <= (1 - q) delta / 2`` for each of the two guesses, ``(1 - q) delta <= delta / 2``
       for both together.
    2. So, guess after guess, "right" is at most ``A_i + B_i`` with independent coins A of bias q
       and indicators B of which ``N = sum_i B_i`` has an expectation of at most ``m delta / 2``.
    3. ``P(W >= v) <= P(A + N >= v)``, A binomial (r, q). Beyond ``P(A >= v)`` this needs
       ``N >= v - A``; an event of probability ``x_j`` within ``A = v - j`` uses up ``j x_j`` of
       N's expectation. Filling j = 1, 2, ... in this order gives the most.

    The bound grows with q, so the smallest epsilon for which it passes ``1 - confidence`` is a
    lower bound of the truth with this confidence. For delta = 0 it is Theorem 5.1 of Steinke, Nasr
    & Jagielski 2023; for delta > 0 it takes the place of their Theorem 5.2, with a proof of its
    own.

    Examples
    --------
    A thousand coins, each told truthfully with probability 9/10, which is ln(9)-DP:

    >>> import math
    >>> import numpy as np
    >>> from dpfast.privacy import audit_one_run
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(1000) < 0.5
    >>> told = np.where(rng.random(1000) < 0.9, coins, ~coins)
    >>> 1.4 < audit_one_run(1.0 * told, coins, guesses=1000).value < math.log(9.0)
    True
    """
    delta = check_real("delta", delta, low=0.0, high=1.0, high_open=True)
    confidence = check_real(
        "confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True
    )
    values = _runs("scores", scores)
    coins = np.asarray(members)
    if coins.dtype != np.bool_ or coins.shape != values.shape:
        raise ValueError(
            f"members must be a boolean vector as long as scores ({values.size}); got dtype "
            f"{coins.dtype}, shape {coins.shape}."
        )
    if guesses is None:
        numbers = sorted({values.size >> k for k in range(_HALVINGS)} - {0})
    else:
        numbers = [check_integer("guesses", guesses, low=1, high=values.size)]
    error = (1.0 - confidence) / len(numbers)
    order = np.argsort(-values, kind="stable")
    best: OneRunAudit | None = None
    for number in numbers:
        high, low = order[: -(-number // 2)], order[values.size - number // 2 :]
        correct = int(coins[high].sum()) + int((~coins[low]).sum())
        found = _one_run_epsilon(number, correct, 0.5 * delta * values.size, error)
        if best is None or found > best.value:
            best = OneRunAudit(found, confidence, number, correct)
    assert best is not None
    return best


def _one_run_epsilon(guesses: int, correct: int, extra: float, error: float) -> float:
    """Return the smallest epsilon at which so many right guesses have a probability over `error`.

    `extra` bounds the expectation of N; see :func:`audit_one_run`.
    """

    counts = np.arange(correct, 0 if extra > 0.0 else correct - 1, -1.0)

    def tail(epsilon: float) -> float:
        q = 1.0 / (1.0 + math.exp(-epsilon))
        # P(A >= k) for k = correct, correct - 1, ..., 1.
        at_least = betainc(counts, guesses - counts + 1.0, q)
        if extra == 0.0:
            return float(at_least[0])
        there = np.diff(np.append(at_least, 1.0))
        missing = np.arange(1.0, correct + 1.0)
        before = np.cumsum(missing * there) - missing * there
        return float(at_least[0] + np.clip((extra - before) / missing, 0.0, there).sum())

    if correct == 0 or tail(0.0) > error:
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    if tail(high) <= error:
        return high
    while high - low > 1e-9 * (1.0 + low):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if tail(middle) <= error else (low, middle)
    return low


def gaussian_score(
    outputs: ArrayLike, value: ArrayLike, neighbor_value: ArrayLike, stddev: float
) -> NDArray[np.float64]:
    """Return the log-likelihood ratio of two means under Gaussian noise, the best score for it.

    Parameters
    ----------
    outputs : array-like of shape (n_runs, dimension)
    value, neighbor_value : array-like of shape (dimension,)
        The query on the first data set and on its neighbor.
    stddev : float

    Returns
    -------
    scores : ndarray of shape (n_runs,)
        Larger where the first data set is more likely.
    """
    outputs, value, neighbor_value = map(_float64, (outputs, value, neighbor_value))
    middle = 0.5 * (value + neighbor_value)
    return _float64((outputs - middle) @ (value - neighbor_value) / stddev**2)


def l2_laplace_score(
    outputs: ArrayLike, value: ArrayLike, neighbor_value: ArrayLike, scale: float
) -> NDArray[np.float64]:
    """Return the log-likelihood ratio of two centers under l2 Laplace noise.

    Parameters and result are as for :func:`gaussian_score`, with a `scale` for its `stddev`.
    """
    return _distance_score(outputs, value, neighbor_value, scale, 2)


def laplace_score(
    outputs: ArrayLike, value: ArrayLike, neighbor_value: ArrayLike, scale: float
) -> NDArray[np.float64]:
    """Return the log-likelihood ratio of two centers under Laplace noise in every coordinate.

    Parameters and result are as for :func:`gaussian_score`, with a `scale` for its `stddev`.
    """
    return _distance_score(outputs, value, neighbor_value, scale, 1)


def _distance_score(
    outputs: ArrayLike, value: ArrayLike, neighbor_value: ArrayLike, scale: float, order: int
) -> NDArray[np.float64]:
    """How much farther outputs are from one center than from the other, in this norm."""
    far, near = (
        np.linalg.norm(_float64(outputs) - _float64(center), order, axis=1)
        for center in (neighbor_value, value)
    )
    return _float64((far - near) / scale)


def choice_score(
    outputs: ArrayLike, probabilities: ArrayLike, neighbor_probabilities: ArrayLike
) -> NDArray[np.float64]:
    """Return the log-likelihood ratio of two laws on finitely many candidates.

    Parameters
    ----------
    outputs : array-like of int, shape (n_runs,)
        The indices that were chosen.
    probabilities, neighbor_probabilities : array-like of shape (candidates,)
        P(index) on the first data set and on its neighbor. Estimates do: a score that is not the
        best only weakens the audit.

    Returns
    -------
    scores : ndarray of shape (n_runs,)
        Larger where the first data set is more likely; infinite where only one is possible.

    Raises
    ------
    ValueError
        If the two laws have different shapes.
    """
    laws = _float64(probabilities), _float64(neighbor_probabilities)
    if laws[0].ndim != 1 or laws[0].shape != laws[1].shape:
        raise ValueError(
            "probabilities and neighbor_probabilities must be vectors of one length; got shapes "
            f"{laws[0].shape} and {laws[1].shape}."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(laws[0]) - np.log(laws[1])
    # A candidate that is impossible under both says nothing.
    return _float64(np.nan_to_num(ratios, nan=0.0, posinf=np.inf, neginf=-np.inf))[
        np.asarray(outputs, dtype=np.intp)
    ]


def _audit(
    scores: ArrayLike,
    neighbor_scores: ArrayLike,
    confidence: float,
    bound: Callable[[float, float], float],
) -> AuditResult:
    """Maximize ``bound(lower bound of P(S), upper bound of Q(S))`` over threshold tests S."""
    confidence = check_real(
        "confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True
    )
    choosing, judging = zip(
        _halves("scores", scores), _halves("neighbor_scores", neighbor_scores), strict=True
    )
    error = 0.5 * (1.0 - confidence)

    def judge(
        samples: tuple[NDArray[np.float64], ...], threshold: float, flipped: bool
    ) -> AuditResult:
        sign = -1.0 if flipped else 1.0
        first, second = (sign * sample > sign * threshold for sample in samples)
        # Low scores speak for the second data set: there the roles of the two are exchanged.
        true, false = (second, first) if flipped else (first, second)
        p, _ = clopper_pearson(int(true.sum()), true.size, error)
        _, q = clopper_pearson(int(false.sum()), false.size, error)
        return AuditResult(
            value=max(0.0, bound(p, q)),
            confidence=confidence,
            threshold=threshold,
            true_positive_rate=float(true.mean()),
            false_positive_rate=float(false.mean()),
            flipped=flipped,
        )

    thresholds = np.unique(np.quantile(np.concatenate(choosing), np.linspace(0, 1, _THRESHOLDS)))
    best = max(
        (judge(choosing, float(t), flipped) for t in thresholds for flipped in (False, True)),
        key=lambda result: result.value,
    )
    return judge(judging, best.threshold, best.flipped)


def _halves(name: str, scores: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = _runs(name, scores)
    return values[0::2], values[1::2]


def _runs(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    values = _float64(scores)
    if values.ndim != 1 or values.size < _MINIMUM_RUNS or np.isnan(values).any():
        raise ValueError(
            f"{name} must be a vector of at least {_MINIMUM_RUNS} numbers, none of them NaN; got "
            f"shape {values.shape}. Give the score of every run."
        )
    return values


def _float64(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)
