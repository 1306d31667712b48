"""The formulas of the papers, for reproducing their tables. The defaults elsewhere need less noise.

Each is a valid guarantee within the range it accepts; outside it is refused.
"""

import math

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.privacy.budget import Budget, check_budget, check_delta
from dpfast.privacy.calibration import MARGIN, budget_mu

CALIBRATIONS = ("analytic", "zhao", "classical")


def gaussian_stddev(budget: Budget, sensitivity: float, calibration: str = "analytic") -> float:
    """Return the standard deviation of one Gaussian release, by the formula of choice.

    Parameters
    ----------
    budget : Budget
        Of any kind with "analytic", otherwise (epsilon, delta).
    sensitivity : float
        l2-sensitivity, above 0.
    calibration : {"analytic", "zhao", "classical"}, default="analytic"
        "analytic" is the smallest (Balle & Wang 2018).
        "zhao" is lowy2021's: ``(c + sqrt(c^2 + epsilon)) / (sqrt(2) epsilon)`` with
        ``c^2 = log(2 / (sqrt(16 delta + 1) - 1))``, for delta < 1/2 and every epsilon (Zhao et
        al. 2019, Theorem 5). "classical" is ``sqrt(2 log(1.25 / delta)) / epsilon`` (Dwork & Roth
        2014, Theorem A.1), which is not private for large epsilon and refused above 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type or out of the range that the formula is proved for.

    Examples
    --------
    >>> from dpfast.privacy import Budget
    >>> from dpfast.privacy.papers import gaussian_stddev
    >>> [round(gaussian_stddev(Budget(1.0, 1e-6), 1.0, name), 3)
    ...  for name in ("analytic", "zhao", "classical")]
    [4.225, 5.084, 5.299]
    """
    check_choice("calibration", calibration, CALIBRATIONS)
    sensitivity = check_real("sensitivity", sensitivity, low=0.0, low_open=True)
    check_budget(budget)
    if calibration == "analytic":
        return sensitivity / budget_mu(budget)
    if budget.kind != "approximate" or budget.epsilon is None:
        raise ValueError(
            f"calibration={calibration!r} is a formula for (epsilon, delta); got {budget!r}. "
            "Give Budget(epsilon, delta), or calibration='analytic'."
        )
    epsilon, delta = budget.epsilon, budget.delta
    if calibration == "zhao":
        if delta >= 0.5:
            raise ValueError(f"calibration='zhao' needs delta < 1/2; got delta={delta!r}.")
        # sqrt(1 + x) - 1 = x / (sqrt(1 + x) + 1), without cancellation.
        root = 16.0 * delta / (math.sqrt(1.0 + 16.0 * delta) + 1.0)
        c = math.sqrt(math.log(2.0 / root))
        return sensitivity * (c + math.sqrt(c * c + epsilon)) / (math.sqrt(2.0) * epsilon)
    if epsilon > 1.0:
        raise ValueError(
            "calibration='classical', sqrt(2 log(1.25 / delta)) / epsilon, is proved for epsilon "
            f"up to 1 and not private for large ones; got epsilon={epsilon!r}. Use 'analytic', "
            "which needs less noise at every epsilon."
        )
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def advanced_composition(
    epsilon: float, delta: float, count: int, slack: float
) -> tuple[float, float]:
    """Return the (epsilon, delta) of `count` releases by advanced composition.

    ``sqrt(2 k log(1 / slack)) e + k e (exp(e) - 1)`` and ``k delta + slack`` (Dwork, Rothblum &
    Vadhan 2010, Theorem III.3), or ``k e`` where that is smaller.

    Parameters
    ----------
    epsilon, delta : float
        Of one release.
    count : int
        k.
    slack : float
        The part of delta that the composition itself uses, in (0, 1).

    Returns
    -------
    epsilon, delta : float

    Examples
    --------
    >>> from dpfast.privacy.papers import advanced_composition
    >>> epsilon, delta = advanced_composition(0.01, 1e-9, 1000, 1e-6)
    >>> round(epsilon, 4), round(delta, 9)
    (1.7628, 2e-06)
    """
    epsilon = check_real("epsilon", epsilon, low=0.0)
    delta = check_delta("delta", delta, allow_zero=True)
    count = check_integer("count", count, low=1)
    slack = check_delta("slack", slack, allow_zero=False)
    total = count * delta + slack
    if epsilon > 700.0:
        return count * epsilon, min(total, 1.0)
    spread = math.sqrt(2.0 * count * -math.log(slack)) * epsilon
    advanced = spread + count * epsilon * math.expm1(epsilon)
    return min(advanced, count * epsilon), min(total, 1.0)


def advanced_composition_share(epsilon: float, slack: float, count: int) -> float:
    """Return the largest epsilon of one of `count` releases that compose to `epsilon`.

    The inverse of :func:`advanced_composition`, on the safe side by a relative 1e-10.

    Parameters
    ----------
    epsilon : float
        Of all the releases together, above 0.
    slack : float
        The part of delta that the composition itself uses, in (0, 1).
    count : int

    Examples
    --------
    >>> from dpfast.privacy.papers import advanced_composition_share
    >>> round(advanced_composition_share(1.0, 1e-6, 1000), 6)
    0.005812
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, low_open=True)
    low, high = epsilon / check_integer("count", count, low=1), epsilon
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if advanced_composition(middle, 0.0, count, slack)[0] <= epsilon:
            low = middle
        else:
            high = middle
    return low * (1.0 - MARGIN)


def sgd_advanced_stddev(
    budget: Budget, sensitivity: float, *, steps: int, batch: int, n_samples: int
) -> float:
    """Return the noise of SGD by advanced composition and amplification by sampling ("SGD-Adv").

    Half of delta is the composition's slack, the other half is cut into equal parts for the steps
    (Bassily, Smith & Thakurta 2014, with exact constants). A step that is (e, d)-DP on its sample
    is ``(log(1 + q (exp(e) - 1)), q d)``-DP, ``q = batch / n_samples`` (Balle, Barthe & Gaboardi
    2018, Theorems 8 and 9); its Gaussian noise is the analytic one at (e, d).

    Parameters
    ----------
    budget : Budget
        (epsilon, delta).
    sensitivity : float
        On a sample.
    steps, batch, n_samples : int

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type or out of its range.
    """
    steps = check_integer("steps", steps, low=1)
    n_samples = check_integer("n_samples", n_samples, low=1)
    rate = check_integer("batch", batch, low=1, high=n_samples) / n_samples
    if budget.kind != "approximate" or budget.epsilon is None:
        raise ValueError(f"advanced composition needs Budget(epsilon, delta); got {budget!r}.")
    share = advanced_composition_share(budget.epsilon, 0.5 * budget.delta, steps)
    one = Budget(
        math.log1p(math.expm1(share) / rate) if share < 700.0 else share,
        min(0.5 * budget.delta / (steps * rate), 0.5),
    )
    return gaussian_stddev(one, sensitivity)


def rrpsgd_noise_stddev(budget: Budget, lipschitz: float, n_samples: int) -> float:
    """Return the noise of a step of RRPSGD (Zhang et al. 2017, Algorithm 2 and Theorem 4).

    ``2 L sqrt(log(3 n / delta) log(2 / delta)) / epsilon``, for ``n^2`` steps along single records
    drawn uniformly, neighbors that differ in one record, and epsilon up to 1.  By advanced
    composition; an accountant of subsampled Gaussians needs much less.

    Parameters
    ----------
    budget : Budget
        (epsilon, delta).
    lipschitz : float
        Bound of a record's gradient.
    n_samples : int

    Raises
    ------
    ValueError
        If the budget is not (epsilon, delta) or epsilon is above 1.

    Examples
    --------
    >>> from dpfast.privacy import Budget
    >>> from dpfast.privacy.papers import rrpsgd_noise_stddev
    >>> round(rrpsgd_noise_stddev(Budget(1.0, 1e-3), 1.0, 1000), 3)
    21.294
    """
    lipschitz = check_real("lipschitz", lipschitz, low=0.0)
    n_samples = check_integer("n_samples", n_samples, low=1)
    if budget.kind != "approximate" or budget.epsilon is None or budget.epsilon > 1.0:
        raise ValueError(
            "calibration='paper' is proved for Budget(epsilon, delta) with epsilon up to 1 "
            f"(Zhang et al. 2017, Theorem 4); got {budget!r}. Use 'tight', which needs less noise "
            "at every epsilon."
        )
    delta = budget.delta
    log_terms = math.log(3.0 * n_samples / delta) * math.log(2.0 / delta)
    return 2.0 * lipschitz * math.sqrt(log_terms) / budget.epsilon


def zcdp_simple_rho(epsilon: float, delta: float) -> float:
    """Return the rho of which ``rho + 2 sqrt(rho log(1 / delta))`` is `epsilon` (lee2018's budget).

    Bun & Steinke 2016, Proposition 1.3; :func:`dpfast.privacy.zcdp_rho` is larger.

    Examples
    --------
    >>> from dpfast.privacy.papers import zcdp_simple_rho
    >>> round(zcdp_simple_rho(1.0, 1e-6), 6)
    0.017469
    """
    epsilon = check_real("epsilon", epsilon, low=0.0)
    log_term = -math.log(check_delta("delta", delta, allow_zero=False))
    # sqrt(l + e) - sqrt(l), without cancellation.
    root = epsilon / (math.sqrt(log_term + epsilon) + math.sqrt(log_term))
    return root * root * (1.0 - MARGIN)
