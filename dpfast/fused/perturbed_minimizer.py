r"""The minimizer of an objective with a random linear term that stays secret, perturbed once more.

The release is close to ``w(b) = argmin Σ ℓ_i + (Λ/2)‖w‖² + Σ_j (r_j/2) w_j² + <b, w>``, the sum
form of the problem with ridge ``α = Λ/n``; single weights may have more, ``r >= 0``, which is
public and makes the objective no less convex.  Of a loss of numbers the release may be in other
units that are public: with a `center` and a `half`, ``w = half w' + center e``, e the weights of a
constant 1, ``w'`` minimizes the same with the targets ``(y - center) / half``, whose slopes and
curvatures have the same bounds, whatever targets are.  Of a loss with a log link targets may be
divided by a public unit and cut to what the loss takes: a row's is still a function of that row.
Two events pay for it:

1. ``w(b)`` itself, exactly, for Gaussian ``b`` (the accountant "objective") or l2-Laplace ``b``
   (the accountant "pure").  The slope of a loss that is monotone in the margin has a known sign,
   which spares a factor of 2 in δ.  Losses must be convex with a bounded slope and a bounded
   curvature; :class:`~dpfast.privacy.ObjectivePerturbationEvent` has the proof.
2. What an optimizer finds instead (approximate minima perturbation, Iyengar et al. 2019): a point
   ``ŵ`` certified to have a gradient of at most ``τ`` (of the mean objective), for a linear term
   ``b̃`` in floating point with ``‖b̃ - b‖ <= η``.  By strong convexity
   ``‖ŵ - w(b)‖ <= r = (nτ + η)/Λ`` on every run.  Given ``w(b)``, which with the data determines
   ``b``, the two neighbors' ``ŵ`` lie in one ball of radius r: a query of sensitivity ``2r``,
   released with Gaussian or l2-Laplace noise on a grid.

So nothing rests on ``b̃`` being exact: its deviation is charged in η.

In other units the objective is minimized over w, times ``half`` and the stretch of the slopes: the
linear term is rounded once more, beside a center at most `farthest` halves away from 0, and so is
``w'``; both are charged in r.

Gaussian: with ``K1``, ``K2`` exact discrete Gaussians of scale 2^32, ``K = 2^26 K1 + K2`` is a
discrete Gaussian of variance ``2^116 + 2^64``, and that is the randomized rounding, with a Gaussian
kernel of scale 64, of a continuous Gaussian of variance above 2^116, all up to factors within
``1 ± 10^-35000`` (the lemma in the notes of :class:`~dpfast.mechanisms.Gaussian`, used twice).  The
rounding moves a coordinate by more than 2560 steps, or the coordinate is beyond 45 standard
deviations, with a probability below 10^-340; otherwise that of ``b̃ = (σ/2^58) K`` is within
``2^-45 σ`` of that of ``b``, the rounding of float64 included.

l2-Laplace: ``b̃`` is computed in floating point from the secure stream, with errors below
``2^-48 √d ‖b‖``; the pure guarantee is that of an ideal sampler of which this is the rounding, and
whose norm stays below a bound that it passes with a probability below ``e^-700``.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2; Kifer, Smith & Thakurta 2012; Iyengar et
al. 2019; Redberg, Koskela & Wang 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
from dpfast.losses import Loss
from dpfast.mechanisms import Access, Gaussian, L2Laplace
from dpfast.objectives import Erm, LinearTerm
from dpfast.optimizers.choice import choose_optimizer
from dpfast.privacy import Event, L2LaplaceObjectiveEvent, ObjectivePerturbationEvent
from dpfast.queries.minimizer import certified_minimizer, check_units, minimizer_in_units
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.sums import RowSums

LinearEvent = ObjectivePerturbationEvent | L2LaplaceObjectiveEvent

NOISES = ("gaussian", "l2-laplace")
#: What one-sided roundings of sums and quotients are covered by.
ROUND_UP = 1.0 + 2.0**-48

_OUTPUT = "output: distance to the exact minimizer"
_SCALE = 2**32
_REFINEMENT = 2**26


class PerturbedMinimizer(Access[Vector]):
    """The certified minimizer with a random linear term, plus noise; two events in one access.

    Parameters
    ----------
    shape : ProblemShape
        With its ridge α.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    noise : {"gaussian", "l2-laplace"}
        Of the linear term, and of the output.
    scale : float
        Of the linear term, in the unit of the gradient sum: the standard deviation of Gaussian
        coefficients.
    tolerance : float
        τ.
    output_noise : float
        Standard deviation or scale of the output's noise.
    optimizer : str or callable, default="auto"
        As for :class:`~dpfast.queries.CertifiedMinimizer`.
    more_ridge : array-like of shape (dim,), default=0.0
        ``r / n``; 0 for the intercept in other units, whose start is rounded with it.
    farthest : float or None, default=None
        How far the center of other units may be from 0, over their half; None if the release is in
        those of the targets.
    in_unit : bool, default=False
        Whether targets are divided by a unit, of a loss with a log link.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is not as the proof needs it.
    """

    where = "objective: minimizer with a random linear term"

    def __init__(
        self,
        shape: ProblemShape,
        neighboring_relation: str,
        *,
        noise: str,
        scale: float,
        tolerance: float,
        output_noise: float,
        optimizer: str | Callable[..., Any] = "auto",
        more_ridge: ArrayLike = 0.0,
        farthest: float | None = None,
        in_unit: bool = False,
    ) -> None:
        reason = refusal(shape.loss)
        if reason is not None:
            raise ValueError(f"loss must be {reason}; got {shape.loss.name!r}.")
        if shape.several_rows:
            raise ValueError(
                "shape must be of rows, or of groups of one row; got groups of several, of which "
                "the proof knows nothing: their curvature has no rank of one."
            )
        self.shape, n, dim = shape, shape.n_samples, shape.dim
        self.alpha = check_real("alpha", shape.alpha, low=0.0, low_open=True)
        self.noise = check_choice("noise", noise, NOISES)
        self.scale = check_real("scale", scale, low=0.0, low_open=True)
        tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
        # Of the comparison with a computed norm, 2^-53 of which LinearTerm leaves out.
        self.tolerance = tolerance * (1.0 - 2.0**-40)
        self.optimizer = choose_optimizer(
            optimizer,
            shape.dim,
            "gradient",
            single_rows=False,
            what="objectives with a linear term",
        )
        self.more_ridge = np.asarray(more_ridge, dtype=np.float64)
        # The one-sided rounding of products is absorbed: the event's ridge is never above that of
        # the objective, which strong convexity and Jacobian are bounded by.
        ridge = self.alpha * n / ROUND_UP
        self.linear = linear_event(shape, neighboring_relation, noise, ridge, scale)
        self.farthest, self.in_unit = farthest, in_unit
        self.own_loss = in_unit  # see `answer`
        _check_units(shape, float(np.ravel(self.more_ridge)[-1]), farthest, in_unit)
        distance = (tolerance * n + deviation(shape, noise, ridge, scale, farthest)) / ridge
        distance *= ROUND_UP
        reach = minimizer_reach(shape, noise, ridge, scale, farthest)
        mechanism: type[Gaussian | L2Laplace] = Gaussian if noise == "gaussian" else L2Laplace
        self.output = mechanism(
            output_noise,
            sensitivity=2.0 * distance,
            dimension=dim,
            neighboring_relation=neighboring_relation,
            bound=reach + distance,
        )

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return those of the exact minimizer and of the distance to it, `count` times."""
        return (self.linear, self.output.event(_OUTPUT)) * count

    def check(self, *point: Any) -> None:
        """Refuse units that the proof does not cover."""
        if self.in_unit:
            if len(point) != 1 or not 0.0 < point[0] < math.inf:
                raise ValueError(f"the unit must be positive; got {point}. Nothing was spent.")
            return
        if self.farthest is None and not point:
            return
        if self.farthest is None or len(point) != 2:
            raise ValueError(
                f"a center and a half are taken with farthest, or nothing without; got {point} "
                f"with {self.farthest}. Nothing was spent."
            )
        check_units(self.shape, self.farthest, *point)

    def answer(self, prepared: RowSums, rng: SecureGenerator, *point: Any) -> Vector:
        """The perturbed minimizer; of targets in units of `point`, a center and a half, or a unit.

        Raises
        ------
        CertificateNotReached
            If no optimizer's point can be certified.
        """
        linear = self.draw(rng) / self.shape.n_samples
        if self.in_unit:
            prepared = prepared.in_unit(point[0], self.shape.loss)
        if self.in_unit or not point:
            objective = LinearTerm(Erm(prepared, self.alpha), linear, self.more_ridge)
            w = certified_minimizer(objective, self.tolerance, self.optimizer).w
            return self.output.perturb(w, rng)
        center, half = point
        w = minimizer_in_units(
            prepared, self.shape, self.alpha, self.tolerance, self.optimizer,
            (center, half), linear, self.more_ridge,
        )  # fmt: skip
        return self.output.perturb(w, rng)

    def draw(self, rng: SecureGenerator) -> Vector:
        """Coefficients of the linear term, in the unit of the gradient sum; see the module."""
        if self.noise == "l2-laplace":
            return rng.l2_laplace(self.shape.dim, self.scale)
        coarse, fine = (rng.discrete_gaussian(_SCALE, self.shape.dim) for _ in range(2))
        return self.scale * (coarse / _SCALE + fine / (_SCALE * _REFINEMENT))


def _check_units(
    shape: ProblemShape, more_for_intercept: float, farthest: float | None, in_unit: bool
) -> None:
    """Refuse releases in other units for losses, or ridges, that the proof does not cover."""
    if in_unit and (farthest is not None or not shape.loss.log_link):
        raise ValueError(f"in_unit must be False for the loss {shape.loss.name!r}.")
    if farthest is None:
        return
    check_real("farthest", farthest, low=0.0, high=2.0**30)
    if shape.loss.kind != "regression" or shape.loss.log_link:
        raise ValueError(f"farthest must be None for the loss {shape.loss.name!r}.")
    if shape.intercept != 0.0 and more_for_intercept != 0.0:
        raise ValueError(
            f"more_ridge must be 0 for the intercept with farthest; got {more_for_intercept!r}."
        )


def linear_event(
    shape: ProblemShape, neighboring_relation: str, noise: str, ridge: float, scale: float
) -> LinearEvent:
    """Return what the exact minimizer is charged as, with the ridge ``Λ`` of the sum."""
    settings: dict[str, Any] = {
        "lipschitz": shape.lipschitz * ROUND_UP,
        "smoothness": shape.smoothness * ROUND_UP,
        "ridge": ridge,
        "dimension": shape.dim,
        "neighboring_relation": neighboring_relation,
        "where": PerturbedMinimizer.where,
    }
    if noise == "l2-laplace":
        return L2LaplaceObjectiveEvent(scale=scale, **settings)
    return ObjectivePerturbationEvent(stddev=scale, monotone=shape.loss.monotone, **settings)


def standard_deviation(noise: str, dim: int, scale: float) -> float:
    """Standard deviation of a coordinate of the linear term, or of the output's noise."""
    # E‖z‖² = d (d + 1) scale² for the l2-Laplace law.
    return math.sqrt(dim + 1.0) * scale if noise == "l2-laplace" else scale


def deviation(
    shape: ProblemShape, noise: str, ridge: float, scale: float, farthest: float | None = None
) -> float:
    """η: bound of the distance between the drawn linear term and an exact draw.

    And of what other units, up to `farthest` halves away, round in the unit of the linear term.
    """
    dim = shape.dim
    if noise == "l2-laplace":
        found = 2.0**-48 * math.sqrt(dim) * scale * (dim + 40.0 * math.sqrt(dim) + 800.0)
    else:
        found = 2.0**-45 * math.sqrt(dim) * scale
    if farthest is None:
        return found
    reach = minimizer_reach(shape, noise, ridge, scale, farthest)
    return found + 2.0**-49 * ridge * (farthest / (abs(shape.intercept) or 1.0) + reach)


def minimizer_reach(
    shape: ProblemShape, noise: str, ridge: float, scale: float, farthest: float | None = None
) -> float:
    """Bound of the minimizer's norm, in all but one of e^700 draws.

    The minimizer moves by at most ``‖b‖/Λ`` with b.  In other units the targets have no bounds, and
    the slopes alone tell how far it is.
    """
    norm = standard_deviation(noise, shape.dim, scale) * (math.sqrt(shape.dim) + 40.0)
    if noise == "l2-laplace":
        norm += 800.0 * scale
    alpha = ridge / shape.n_samples
    far = shape.minimizer_norm(alpha) if farthest is None else shape.lipschitz / alpha
    return far + norm / ridge


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the proof, or None if it holds."""
    needs = {
        "convex, so that minimizer and linear term determine each other": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth, so that one record's curvature is bounded": math.isfinite(loss.smoothness),
    }
    return next((need for need, met in needs.items() if not met), None)
