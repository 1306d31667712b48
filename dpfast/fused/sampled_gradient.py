"""The noisy sum of clipped gradients over a secret sample of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_integer
from dpfast.mechanisms import Access, Gaussian, Laplace, check_size
from dpfast.privacy import Budget, Event, SubsampledGaussianEvent, SubsampledLaplaceEvent
from dpfast.queries import ClippedGradient
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.sums import RowAccess


class SampledGradient(Access[Vector]):
    """The sum of clipped gradients over a uniform sample of so many rows, plus noise.

    The sample is drawn afresh for every answer, without replacement, and kept secret.  The
    mechanism is calibrated to the query, whose sum is over one sample.

    Privacy, for a replaced row: an ε₀-DP release of the sample is
    ``ln(1 + (m/n)(e^{ε₀} - 1))``-DP for the data (Balle, Barthe & Gaboardi 2018, Theorem 9);
    Gaussian noise is priced by the ledger's accountant.  With neighbors that differ in a row's
    *presence*, a sample of fixed size has no such guarantee here, and is refused.  The sample does
    not depend on the rows, nor on anything that was released.

    Parameters
    ----------
    query : ClippedGradient
        Of `n_rows` m: in l2 for Gaussian noise, in l1 for Laplace noise.
    price : float
        Of a release of the sample: μ for Gaussian noise, ε₀ for Laplace noise.
    neighboring_relation : {"replace_one"}
    where : str, default=""
        The place in the algorithm, for the ledger.
    """

    def __init__(
        self, query: ClippedGradient, price: float, neighboring_relation: str, where: str = ""
    ) -> None:
        check_sample(query.shape, query.n_rows, neighboring_relation)
        self._sum, self.where = query, where
        settings: dict[str, Any] = {
            "dimension": query.dimension,
            "batch": query.n_rows,
            "n_samples": query.shape.n_samples,
            "sampling": "fixed-size",
            "neighboring_relation": neighboring_relation,
            "where": where,
        }
        self._mechanism: Gaussian | Laplace
        self._event: Event
        if query.norm == "l1":
            laplace = Laplace.calibrate(Budget(price), query, neighboring_relation)
            self._mechanism, settings["scale"] = laplace, laplace.scale
            event: Any = SubsampledLaplaceEvent
        else:
            gaussian = Gaussian.calibrate(Budget(mu=price), query, neighboring_relation)
            self._mechanism, settings["stddev"] = gaussian, gaussian.stddev
            event = SubsampledGaussianEvent
        self._event = event(sensitivity=self._mechanism.charged_sensitivity, **settings)

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return what `count` releases are charged as."""
        if (self._event.where, self._event.count) != (self.where, count):
            return (replace(self._event, where=self.where, count=count),)
        return (self._event,)

    def check(self, *point: Any) -> None:
        """Refuse weights for which the sum may have no finite value."""
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
