"""What the two Laplace mechanisms share: one scale, an integer on the grid, and a pure epsilon."""

from functools import partial
from typing import ClassVar, Self

from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms._query import Query
from dpfast.privacy import Budget, L2LaplaceEvent, LaplaceEvent, budget_epsilon


class PureMechanism(AdditiveMechanism):
    """A query plus noise whose log density falls by at most ``1 / scale`` a unit of the norm.

    One release is epsilon-DP with ``epsilon = charged_sensitivity / scale``.
    """

    noise_name = "scale"
    _event: ClassVar[type[LaplaceEvent | L2LaplaceEvent]]

    def __init__(
        self,
        scale: float,
        *,
        sensitivity: float,
        dimension: int,
        neighboring_relation: str,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        super().__init__(
            scale,
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation=neighboring_relation,
            error=error,
            bound=bound,
        )
        self.scale = self.integer_scale * self.grid_step

    @classmethod
    def calibrate(
        cls, budget: Budget, query: Query, neighboring_relation: str, *, where: str = ""
    ) -> Self:
        """Return the mechanism with the smallest noise of which one release fits `budget`.

        Parameters are those of :meth:`Gaussian.calibrate`, with a sensitivity in the mechanism's
        norm; a delta is not used. Errors are the same, for a budget given as mu instead of a pure
        one.
        """
        made = partial(cls._calibrated, budget_epsilon(budget), dimension=query.dimension)
        return cls._of(query, neighboring_relation, where, made)

    def event(self, where: str | None = None, count: int = 1) -> LaplaceEvent | L2LaplaceEvent:
        """Return the event that `count` releases are charged as; `where` is the access's own."""
        return self._event(
            sensitivity=self.charged_sensitivity,
            scale=self.scale,
            dimension=self.dimension,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )
