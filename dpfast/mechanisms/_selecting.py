"""What the mechanisms share that choose one of several candidates by their scores."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_flag, check_integer
from dpfast.mechanisms._mechanism import ROUND_UP, Mechanism

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class SelectingMechanism(Mechanism[int]):
    """The index of the candidate whose score is the largest, or the smallest, up to noise.

    Attributes
    ----------
    candidates : int
    minimum : bool
        Whether small scores are wanted.
    integer_scale : int
        The scale of the noise in grid steps.
    """

    integer_scale: int
    noise_kind: Literal["laplace", "exponential", "gumbel"]

    def __init__(
        self, *, candidates: int, minimum: bool, neighboring_relation: str, error: float
    ) -> None:
        super().__init__(neighboring_relation=neighboring_relation, error=error)
        self.candidates = check_integer("candidates", candidates, low=1)
        self.minimum = check_flag("minimum", minimum)

    def _range(self, score_range: float) -> float:
        """Return the range of the changes of the rounded scores, in the scores' unit.

        If all scores change between neighbors by values in an interval of length L that holds 0,
        the computed ones change by values in one of length ``L + 4 error``, and the rounded ones,
        each rounding being off by at most half a step, of ``L + 4 error + 2 step``. Clamping only
        shortens a change.
        """
        return (score_range + 4.0 * self.error + 2.0 * self.grid_step) * ROUND_UP

    def answer(self, prepared: Any, rng: "SecureGenerator", *point: Any) -> int:
        """Return the index that the noise leaves first among the query's scores."""
        return self._chosen(self._value(prepared, *point), rng)

    def _chosen(self, values: NDArray[np.float64], rng: "SecureGenerator") -> int:
        scores = self._grid.round(values)
        return rng.noisy_max(
            -scores if self.minimum else scores, self.integer_scale, self.noise_kind
        )
