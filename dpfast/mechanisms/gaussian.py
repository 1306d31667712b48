"""The Gaussian mechanism, exact in finite arithmetic."""

from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms._query import Query
from dpfast.privacy import Budget, GaussianEvent, budget_mu

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator

_SMOOTHING_VARIANCE = 64**2


class Gaussian(AdditiveMechanism):
    r"""A vector-valued query plus Gaussian noise.

    The query is rounded to a grid of step g, clamped to ``+-2^61 g``, and an exact discrete
    Gaussian of integer scale s is added to every coordinate, in integers. The standard deviation is
    ``stddev = s g``, with ``2^31 <= s <= 2^32``, or less (down to 2^20) where `bound` needs a
    coarser grid.

    Parameters
    ----------
    stddev : float
        Standard deviation, in the query's unit; it is rounded up, by less than one part in 2^20
        (mostly 2^31).
    sensitivity : float
        l2 distance of the query's values on two neighbors, in exact arithmetic.
    dimension : int
        Number of coordinates, d.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        The neighbors for which `sensitivity` holds.
    error : float, default=0.0
        Bound, in l2 norm, of the floating-point error of the computed value. Twice this is charged.
    bound : float, optional
        Public bound of the coordinates' absolute values, when they must pass unclamped. Without it
        they are clamped at about ``2^29 stddev``.

    Attributes
    ----------
    stddev : float
        The actual standard deviation.
    integer_scale : int
        s, the same in grid steps.
    charged_sensitivity : float
        ``(sensitivity + 2 error + g sqrt(d)) (1 + 4096 / s^2)``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of the wrong type or out of its range.
    GridOverflow
        If `bound` is over ``2^41 stddev``.

    Notes
    -----
    Guarantee: one release is mu-GDP with ``mu = charged_sensitivity / stddev``, up to an additive
    delta of ``d 10^-35000`` from the last step below (which no float can express).

    1. Rounding moves the values of two neighbors apart by at most ``g sqrt(d)``, and clamping does
       not move them apart. What remains is a pair of integer vectors a, a' (in steps) with
       ``||a - a'|| <= D = (sensitivity + 2 error) / g + sqrt(d)``.
    2. Let X be a continuous Gaussian of variance ``r^2 = s^2 - t^2`` per coordinate, with t = 64.
       Releasing ``a + X`` is (D/r)-GDP, and so is every post-processing of it. Post-process by
       randomized rounding: x becomes the integer k with probability ``w(k - x) / W(x)``,
       ``w(z) = exp(-z^2 / 2 t^2)``, ``W(x) = sum_j w(j - x)``. It commutes with integer shifts, so
       the result is ``a + K``, where K does not depend on a.
    3. ``W(x) = t sqrt(2 pi) (1 + 2 sum_{m >= 1} exp(-2 pi^2 t^2 m^2) cos(2 pi m x))`` by Poisson
       summation: a constant up to a factor within ``1 +- b``, ``b < 3 exp(-2 pi^2 t^2)``. The
       product of the two Gaussians integrates to one of variance ``r^2 + t^2 = s^2``, so the law of
       K is the discrete Gaussian of scale s, up to a factor within ``1 +- 3 b`` *everywhere*.
    4. ``1 - delta = inf_S [P(S^c) + exp(epsilon) Q(S)]`` for two laws P and Q, so laws known up to
       factors within ``exp(+-h)`` give delta up to h, at every epsilon, and over a composition the
       h add up. Here ``h <= 3 d b < d 10^-35000``.
    5. ``s / r <= 1 + t^2 / s^2``.

    Unlike a comparison of densities cell by cell, the argument needs no cut-off of the noise and no
    limit on the number of releases. It is the convolution lemma of lattice cryptography (Peikert
    2010, Theorem 3.1). The sampler (:meth:`dpfast.random.SecureGenerator.discrete_gaussian`) works
    in integers, so floating-point attacks on the noise (Mironov 2012; Haney et al. 2022) have
    nothing to work on; it is within 2^-1000 of its law for every value, which adds at most
    ``d (1 + exp(epsilon)) 2^-1000`` to delta: nothing for an epsilon below some 600, where
    guarantees have long lost their meaning. The time that a release takes is not protected.

    Examples
    --------
    >>> from dpfast.mechanisms import Gaussian
    >>> from dpfast.privacy import Budget
    >>> from dpfast.queries import ScoreSum
    >>> query = ScoreSum(n_samples=1000, norm="l2")  # one record moves it by 1
    >>> mechanism = Gaussian.calibrate(Budget(1.0, 1e-6), query, "replace_one")
    >>> round(mechanism.stddev, 4)
    4.2247
    """

    norm = "l2"
    noise_name = "stddev"

    def __init__(
        self,
        stddev: float,
        *,
        sensitivity: float,
        dimension: int,
        neighboring_relation: str,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        super().__init__(
            stddev,
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation=neighboring_relation,
            error=error,
            bound=bound,
        )
        self.stddev = self.integer_scale * self.grid_step
        self.charged_sensitivity *= 1.0 + _SMOOTHING_VARIANCE / self.integer_scale**2

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        query: Query,
        neighboring_relation: str,
        *,
        accountant: str = "auto",
        where: str = "",
    ) -> Self:
        """Return the mechanism with the smallest noise of which one release fits `budget`.

        Parameters
        ----------
        budget : Budget
        query : Query
            States its sensitivity in l2, and what rounding adds to it.
        neighboring_relation : {"replace_one", "add_or_remove_one"}
        accountant : str, default="auto"
            The accountant of the ledger that will be charged.
        where : str, default=""
            The place in the algorithm, for the ledger.

        Raises
        ------
        ValueError
            If the budget is pure, or a parameter is out of its range.
        GridOverflow
            If no grid is both coarse enough for the query's bound and dimension and fine enough for
            the noise.
        """
        made = partial(cls._calibrated, budget_mu(budget, accountant), dimension=query.dimension)
        return cls._of(query, neighboring_relation, where, made)

    def event(self, where: str | None = None, count: int = 1) -> GaussianEvent:
        """Return the event that `count` releases are charged as; `where` is the access's own."""
        return GaussianEvent(
            sensitivity=self.charged_sensitivity,
            stddev=self.stddev,
            dimension=self.dimension,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )

    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        return rng.discrete_gaussian(self.integer_scale, self.dimension)
