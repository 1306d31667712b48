"""Report noisy max: the candidate of the largest noisy score, exact in finite arithmetic."""

import math
from typing import Any, Literal, Self

from dpfast._validation import check_choice, check_flag, check_real
from dpfast.mechanisms._grid import Grid, resolution_for
from dpfast.mechanisms._query import Query
from dpfast.mechanisms._selecting import SelectingMechanism
from dpfast.privacy import Budget, NoisyMaxEvent, budget_epsilon, records_apart


class NoisyMax(SelectingMechanism):
    """The index of the largest (or smallest) score, noise having been added to each score.

    The scores are rounded to a grid of step g and clamped to ``+-2^61 g``; integer noise of scale s
    (in steps) is added to each, and the first of the largest sums wins.

    Parameters
    ----------
    scale : float
        Scale of the noise in the scores' unit; it is rounded up, by less than one part in 2^20
        (mostly 2^31).
    sensitivity : float
        Largest change of any one score between two neighbors, in exact arithmetic.
    candidates : int
        Number of scores.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        The neighbors for which `sensitivity` holds.
    noise_kind : {"exponential", "laplace", "gumbel"}, default="exponential"
        "exponential" (one-sided, added) is the mechanism "permute and flip" (Ding et al. 2021),
        whose expected score is never below that of "gumbel" at the same epsilon (McKenna & Sheldon
        2020). "gumbel" is the exponential mechanism, which :class:`Exponential` charges less for
        under zCDP.
    monotone : bool, default=False
        Whether all scores of a neighbor move in the same direction, as sums of non-negative clipped
        losses do when a record is added or removed. Halves the cost.
    minimum : bool, default=False
        Whether the smallest score is wanted: the scores are negated, the noise is not.
    error : float, default=0.0
        Bound of the floating-point error of each computed score.
    bound : float, optional
        Public bound of the scores' absolute values, when they must pass unclamped. Without it they
        are clamped at about ``2^29 scale``, or ``2^47 sensitivity`` if that is less, but never
        below ``2^9 scale``.

    Attributes
    ----------
    scale : float
        The actual scale.
    charged_sensitivity : float
        ``sensitivity + 4 error + 2 g`` for monotone scores, ``sensitivity + 2 error + g``
        otherwise.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of the wrong type or out of its range, or `monotone` is declared for
        replaced records.
    GridOverflow
        If `bound` is over ``2^41 scale``.

    Notes
    -----
    Guarantee: one choice is epsilon-DP with ``epsilon = 2 charged_sensitivity / scale``, half of
    that for monotone scores.

    1. The rounded scores a, a' of two neighbors, in steps, satisfy ``A <= a'_i - a_i <= A + D`` for
       all i, where ``D g`` is ``2 charged_sensitivity``, or ``charged_sensitivity`` for monotone
       scores. (Each score moves by an amount in an interval of length ``2 sensitivity``, or
       ``sensitivity``; both data sets' errors and roundings widen it by ``4 error + 2 g``; clamping
       only shortens moves. Errors can make monotone scores move the wrong way: an interval of the
       same length covers that too.)
    2. Fix the noise of all candidates but i. Then i wins if and only if its own noise is at least
       an integer ``t = max_j (a_j + Z_j + [j < i]) - a_i``, the bracket being the rule for ties,
       and for the neighbor the threshold is t' with ``|t' - t| <= D``: only differences of scores
       enter, whose change is at most D.
    3. ``P(Z >= t + D) >= exp(-D / s) P(Z >= t)`` for discrete exponential noise,
       ``P(Z >= t) = exp(-max(t, 0) / s)``, and for discrete Laplace noise. So the probability that
       i wins changes by a factor of at most ``exp(D / s)``, in both directions. (With the noise
       *subtracted* this step fails: see below.)
    4. For "gumbel", P(i) is proportional to ``exp(a_i / s)``: adding A to all scores changes
       nothing, and what is left changes the numerator by a factor in ``[1, exp(D / s)]`` and so
       does it the denominator.

    Compare Dwork & Roth (2014), Claim 3.9, Ding et al. (2021) and McSherry & Talwar (2007). The
    noise ends at ``1023 s`` (and "gumbel" at 1000 s below the best score), which is within
    ``candidates 2^-1000`` of the law and adds at most ``candidates (1 + exp(epsilon)) 2^-1000`` to
    delta.

    Exponential noise has to be *added*, also for the minimum. If it is subtracted from the scores
    and the largest is taken, a candidate that is r behind all the others, which are equal, wins
    with probability ``exp(-(k - 1) r / s) / k``, since the least of k - 1 exponential variables has
    the rate (k - 1) / s: the loss is k - 1 times what is claimed. Only for two candidates it does
    not matter, the difference of their noises being Laplace in any case.
    The time that a choice takes is not protected.

    Examples
    --------
    Twenty sums of losses clipped to [0, 3], of which the smallest is wanted:

    >>> from dpfast import ProblemShape
    >>> from dpfast.mechanisms import NoisyMax
    >>> from dpfast.privacy import Budget
    >>> from dpfast.queries import CandidateLosses
    >>> shape = ProblemShape(n_samples=1000, n_features=5, data_norm=1.0)
    >>> query = CandidateLosses(shape, candidates=20, loss_clip=3.0, radius=1.0)
    >>> mechanism = NoisyMax.calibrate(Budget(0.5), query, "add_or_remove_one", minimum=True)
    >>> round(mechanism.scale, 6)
    6.0
    """

    norm = "range"
    noise_name = "scale"

    def __init__(
        self,
        scale: float,
        *,
        sensitivity: float,
        candidates: int,
        neighboring_relation: str,
        noise_kind: Literal["exponential", "laplace", "gumbel"] = "exponential",
        monotone: bool = False,
        minimum: bool = False,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        scale = check_real("scale", scale, low=0.0, low_open=True)
        self.sensitivity = check_real("sensitivity", sensitivity, low=0.0, low_open=True)
        super().__init__(
            candidates=candidates,
            minimum=minimum,
            neighboring_relation=neighboring_relation,
            error=error,
        )
        check_choice("noise_kind", noise_kind, ("exponential", "laplace", "gumbel"))
        self.noise_kind = noise_kind
        self.monotone = check_flag("monotone", monotone)
        if monotone and records_apart(neighboring_relation) == 2:
            raise ValueError(
                "monotone=True must not go with neighboring_relation='replace_one': replacing a "
                "record takes one contribution away and brings another, so some scores may rise "
                "while others fall. Use monotone=False, or 'add_or_remove_one'."
            )
        self._grid = Grid.for_noise(
            "scale", scale, bound, resolution_for(2.0 * (scale / self.sensitivity))
        )
        self.integer_scale = math.ceil(scale / self.grid_step)
        self.scale = self.integer_scale * self.grid_step
        sides = 1.0 if monotone else 2.0
        self.charged_sensitivity = self._range(sides * self.sensitivity) / sides

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        query: Query,
        neighboring_relation: str,
        *,
        noise_kind: Literal["exponential", "laplace", "gumbel"] = "exponential",
        minimum: bool = False,
        where: str = "",
    ) -> Self:
        """Return the mechanism with the smallest noise of which one release fits `budget`.

        Parameters and errors are those of :meth:`Exponential.calibrate` and of the constructor; a
        delta is not used. Scores of which the query says so are taken for monotone where a record
        is added or removed.
        """
        # One side of the interval in which the scores change, if they all change the same way.
        monotone = query.monotone and records_apart(neighboring_relation) == 1
        sides = 1.0 if monotone else 2.0
        target = budget_epsilon(budget)
        settings: dict[str, Any] = {
            "candidates": query.dimension,
            "noise_kind": noise_kind,
            "monotone": monotone,
            "minimum": minimum,
        }

        def made(score_range: float, *, error: float, **others: Any) -> Any:
            guess = (score_range + 4.0 * error) / target
            return cls._smallest(
                target, guess, sensitivity=score_range / sides, error=error, **settings, **others
            )

        return cls._of(query, neighboring_relation, where, made)

    def event(self, where: str | None = None, count: int = 1) -> NoisyMaxEvent:
        """Return the event that `count` choices are charged as; `where` is the access's own."""
        return NoisyMaxEvent(
            sensitivity=self.charged_sensitivity,
            scale=self.scale,
            candidates=self.candidates,
            noise_kind=self.noise_kind,
            monotone=self.monotone,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )

    @staticmethod
    def _loss(event: NoisyMaxEvent) -> float:
        return event.epsilon
