"""The exponential mechanism over a finite set, exact in finite arithmetic."""

import math
from functools import partial
from typing import Self

from dpfast._validation import check_choice, check_real
from dpfast.errors import GridOverflow
from dpfast.mechanisms._grid import Grid
from dpfast.mechanisms._mechanism import ROUND_UP
from dpfast.mechanisms._query import Query
from dpfast.mechanisms._selecting import SelectingMechanism
from dpfast.privacy import ACCOUNTANTS, Budget, ExponentialEvent, budget_epsilon, budget_rho

_LARGEST_SCALE = 2**52
"""Of the sampler, in grid steps."""


class Exponential(SelectingMechanism):
    """One of finitely many candidates, with probabilities that grow with their scores.

    ``P(i) ~ exp(a_i / s)``, where a are the scores rounded to a grid of step g, clamped to
    ``+-2^61 g``, in steps, and s is an integer.

    Parameters
    ----------
    epsilon : float
        Range of the log-probabilities, eta: the smaller, the more noise.
    score_range : float
        Length of an interval, holding 0, in which the changes of all scores between two neighbors
        lie, in exact arithmetic: twice the sensitivity of a score in general. If the scores are
        sums over the records of losses clipped to [0, C], it is ``C`` for "add_or_remove_one" (all
        scores rise, or all fall) and ``2 C`` for "replace_one", that is
        ``C * records_apart(neighboring_relation)``.
    candidates : int
        Number of scores.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        The neighbors for which `score_range` holds.
    minimum : bool, default=False
        Whether small scores are wanted.
    error : float, default=0.0
        Bound of the floating-point error of each computed score.
    bound : float, optional
        Public bound of the scores' absolute values, when they must pass unclamped. Without it they
        are clamped at about ``2^29 score_range / epsilon``.

    Attributes
    ----------
    scale : float
        ``s g >= (score_range + 4 error + 2 g) / epsilon``.
    charged_range : float
        ``score_range + 4 error + 2 g``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of the wrong type or out of its range.
    GridOverflow
        If `bound` is over ``2^41 scale``, or `epsilon` is below some 2^-51.

    Notes
    -----
    Guarantee: one choice is epsilon-DP and (epsilon^2 / 8)-zCDP. The rounded scores of two
    neighbors satisfy ``A <= a'_i - a_i <= A + D`` for all i with ``D g = charged_range`` (both data
    sets' errors and roundings widen the interval by ``4 error + 2 g``; clamping only shortens
    moves). So ``log(P'(i) / P(i)) = (a'_i - a_i) / s - log(Z' / Z)`` lies, for all i, in one
    interval of length ``D / s <= epsilon``. The interval holds 0, both laws adding up to one: hence
    the first claim. The second is Hoeffding's lemma for a log-ratio in an interval of that length:
    the Renyi divergence of order alpha is at most ``alpha epsilon^2 / 8`` (Cesar & Rogers 2021,
    Lemma 3.4, after Dong, Durfee & Rogers 2020).

    The sampler works in integers and draws from P by rejection
    (:meth:`dpfast.random.SecureGenerator.noisy_max`): no Gumbel variable of finite precision is
    involved, nothing is left to be charged but what follows. Candidates more than 1000 s below the
    best are never chosen, which is within ``candidates exp(-1000)`` of the law, and adds at most
    ``candidates (1 + exp(epsilon)) 2^-1000`` to delta. It takes up to `candidates` trials on
    average, and this time is not protected.

    Examples
    --------
    Twenty sums of losses clipped to [0, 3], of which the smallest is wanted:

    >>> from dpfast import ProblemShape
    >>> from dpfast.mechanisms import Exponential
    >>> from dpfast.privacy import Budget
    >>> from dpfast.queries import CandidateLosses
    >>> shape = ProblemShape(n_samples=1000, n_features=5, data_norm=1.0)
    >>> query = CandidateLosses(shape, candidates=20, loss_clip=3.0, radius=1.0)
    >>> budget = Budget(rho=0.005)
    >>> mechanism = Exponential.calibrate(budget, query, "add_or_remove_one", minimum=True)
    >>> round(mechanism.epsilon, 6), round(mechanism.scale, 6)
    (0.2, 15.0)
    """

    norm = "range"
    noise_name = "epsilon"
    noise_kind = "gumbel"

    def __init__(
        self,
        epsilon: float,
        *,
        score_range: float,
        candidates: int,
        neighboring_relation: str,
        minimum: bool = False,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        self.epsilon = check_real("epsilon", epsilon, low=0.0, low_open=True)
        self.score_range = check_real("score_range", score_range, low=0.0, low_open=True)
        super().__init__(
            candidates=candidates,
            minimum=minimum,
            neighboring_relation=neighboring_relation,
            error=error,
        )
        # The scale is exact in real arithmetic only; the charge for the grid makes it grow a bit.
        self._grid = Grid.for_noise(
            "score_range / epsilon", (self.score_range + 4.0 * self.error) / self.epsilon, bound
        )
        self.charged_range = self._range(self.score_range)
        steps = self.charged_range / self.epsilon / self.grid_step * ROUND_UP
        if not steps <= _LARGEST_SCALE:
            raise GridOverflow(
                f"epsilon={self.epsilon:g} is too small: its noise would need a scale of over 2^52 "
                "grid steps. Give a larger epsilon."
            )
        self.integer_scale = math.ceil(steps)
        self.scale = self.integer_scale * self.grid_step

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        query: Query,
        neighboring_relation: str,
        *,
        minimum: bool = False,
        accountant: str = "auto",
        where: str = "",
    ) -> Self:
        """Return the mechanism with the smallest noise of which one release fits `budget`.

        Parameters
        ----------
        budget : Budget
            For ``Budget(rho=...)``, epsilon is ``sqrt(8 rho)``; for a pure budget its epsilon; for
            (epsilon, delta) the better of its epsilon and what its delta buys by zCDP.
        query : Query
            States its sensitivity in the range of scores, and what rounding adds to it.
        minimum : bool, default=False
            Whether small scores are wanted.
        neighboring_relation, accountant, where
            As for :meth:`Gaussian.calibrate`. Errors are the same, for a budget given as mu instead
            of a pure one.
        """
        check_choice("accountant", accountant, ("auto", *ACCOUNTANTS))
        if accountant == "gdp":
            raise ValueError(
                "accountant must be 'auto', 'zcdp' or 'pure' for a choice, which has no price in "
                "mu; got 'gdp'."
            )
        if budget.kind == "zcdp" or accountant == "zcdp":
            epsilon = math.sqrt(8.0 * budget_rho(budget))
        else:
            epsilon = budget_epsilon(budget)
            if budget.kind == "approximate" and accountant == "auto":
                epsilon = max(epsilon, math.sqrt(8.0 * budget_rho(budget)))
        return cls.of_query(epsilon, query, neighboring_relation, minimum=minimum, where=where)

    @classmethod
    def of_query(
        cls,
        epsilon: float,
        query: Query,
        neighboring_relation: str,
        *,
        minimum: bool = False,
        where: str = "",
    ) -> Self:
        """Return the mechanism with a given epsilon for a query whose values are scores.

        The other parameters are as for :meth:`calibrate`.
        """
        made = partial(cls, epsilon, candidates=query.dimension, minimum=minimum)
        return cls._of(query, neighboring_relation, where, lambda r, **s: made(score_range=r, **s))

    def event(self, where: str | None = None, count: int = 1) -> ExponentialEvent:
        """Return the event that `count` choices are charged as; `where` is the access's own."""
        return ExponentialEvent(
            epsilon=self.epsilon,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )
