"""The noisy sum of clipped gradients over a secret sample of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer
from dpfast.mechanisms import Access, Gaussian, Laplace, check_size
from dpfast.privacy import Budget, Event, SubsampledGaussianEvent, SubsampledLaplaceEvent
from dpfast.queries import ClippedGradient
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.sums import RowAccess


class SampledGradient(Access[Vector]):
    """The sum of clipped gradients over a uniform sample of `batch` rows, plus noise.

    The sample is drawn afresh for every answer, without replacement, and kept secret.  The
    mechanism is calibrated to :class:`~dpfast.queries.ClippedGradient` over one sample of that
    size.

    Privacy, for a replaced row: an ε₀-DP release of the sample is
    ``ln(1 + (batch/n)(e^{ε₀} - 1))``-DP for the data (Balle, Barthe & Gaboardi 2018, Theorem 9);
    Gaussian noise is priced by the ledger's accountant.  With neighbors that differ in a row's
    *presence*, a sample of fixed size has no such guarantee here, and is refused.  The sample does
    not depend on the rows, nor on anything that was released.

    Parameters
    ----------
    shape : ProblemShape
    batch : int
        Rows in a sample.
    price : float
        Of a release of the sample: ε₀ for Laplace noise, μ for Gaussian noise.
    noise : {"gaussian", "laplace"}
    neighboring_relation : {"replace_one"}
    clip_norm, data_l1_norm : float or None, default=None
        As for :class:`~dpfast.queries.ClippedGradient`.
    where : str, default=""
        The place in the algorithm, for the ledger.
    """

    def __init__(
        self,
        shape: ProblemShape,
        batch: int,
        price: float,
        *,
        noise: str,
        neighboring_relation: str,
        clip_norm: float | None = None,
        data_l1_norm: float | None = None,
        where: str = "",
    ) -> None:
        check_choice("noise", noise, ("gaussian", "laplace"))
        check_sample(shape, batch, neighboring_relation)
        norm: Literal["l1", "l2"] = "l1" if noise == "laplace" else "l2"
        self._sum = ClippedGradient(
            shape, clip_norm, norm=norm, data_l1_norm=data_l1_norm, n_rows=batch
        )
        settings: dict[str, Any] = {
            "dimension": self._sum.dimension,
            "batch": batch,
            "n_samples": shape.n_samples,
            "sampling": "fixed-size",
            "neighboring_relation": neighboring_relation,
            "where": where,
        }
        self._mechanism: Gaussian | Laplace
        self._event: Event
        if noise == "laplace":
            laplace = Laplace.calibrate(Budget(price), self._sum, neighboring_relation)
            self._mechanism, settings["scale"] = laplace, laplace.scale
            event: Any = SubsampledLaplaceEvent
        else:
            gaussian = Gaussian.calibrate(Budget(mu=price), self._sum, neighboring_relation)
            self._mechanism, settings["stddev"] = gaussian, gaussian.stddev
            event = SubsampledGaussianEvent
        self.shape, self.where = shape, where
        self._event = event(sensitivity=self._mechanism.charged_sensitivity, **settings)

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return what `count` releases are charged as."""
        if (self._event.where, self._event.count) != (self.where, count):
            return (replace(self._event, where=self.where, count=count),)
        return (self._event,)

    def check(self, *point: Any) -> None:
        """Refuse other than weights for which the sum has a finite value."""
        self._sum.check_shapes(point, slice(None))
        check_size("SampledGradient", *point, largest=self._sum.largest_argument)

    def answer(self, prepared: RowAccess, rng: SecureGenerator, *point: Any) -> Vector:
        """Draw a sample, sum over it at the weights, and add noise."""
        (w,) = point
        n, batch = self._sum.shape.n_samples, self._sum.n_rows
        return self._mechanism.answer(
            self._sum.over_sample(prepared, w, random_subset(rng, n, batch)), rng
        )


def check_sample(shape: ProblemShape, batch: int, neighboring_relation: str) -> None:
    """Refuse samples that have no amplification here."""
    check_integer("batch", batch, low=1, high=shape.n_samples)
    if not neighboring_relation.startswith("replace_one"):
        raise ValueError(
            f"batch must be None for neighboring_relation={neighboring_relation!r}; got {batch}. "
            "Amplification by samples of fixed size is proved for a replaced record: use "
            "neighboring_relation='replace_one', or full batches."
        )


def random_subset(rng: SecureGenerator, n: int, size: int) -> NDArray[np.int64]:
    """A uniform subset of ``{0, ..., n - 1}``, from the secure stream.

    The first `size` different values of uniform draws are a uniform subset, by symmetry; words that
    would favor some values are dropped.  Of a large subset the complement is drawn.
    """
    drawn = min(size, n - size)
    limit = 2**64 - 2**64 % n
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < drawn:
        words = rng.uint64(2 * (drawn - len(chosen)) + 16)
        if limit < 2**64:
            words = words[words < np.uint64(limit)]
        values = np.concatenate([chosen, (words % np.uint64(n)).astype(np.int64)])
        _, first = np.unique(values, return_index=True)
        chosen = values[np.sort(first)][:drawn]
    chosen = np.sort(chosen)
    if drawn == size:
        return chosen
    kept = np.ones(n, dtype=bool)
    kept[chosen] = False
    return np.flatnonzero(kept).astype(np.int64, copy=False)
