"""Output perturbation in two steps, for studies that draw the noise many times.

What comes before the noise is the same on every run.  It is not private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpfast import Plan


def unperturbed(settled: Plan[Any], problem: Any) -> NDArray[np.float64]:
    """The certified minimizer or last iterate of a plan."""
    return np.asarray(settled.settings.mechanism.query.evaluate(problem))


def perturbed(settled: Plan[Any], point: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """One more draw of the plan's noise around it, projected as the plan says."""
    from dpfast.optimizers._contract import project
    from dpfast.random import SecureGenerator

    settings = settled.settings
    return project(settings.mechanism.perturb(point, SecureGenerator(seed)), settings.radius)
