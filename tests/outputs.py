"""Output perturbation in two steps, for tests that draw the noise many times."""

from dpfast.optimizers._contract import project


def unperturbed(settled, problem):
    """The certified minimizer or last iterate of a plan of output perturbation; not private."""
    return settled.settings.mechanism.query.evaluate(problem)


def perturbed(settled, point, rng):
    """The plan's noise and projection on what `unperturbed` returned."""
    settings = settled.settings
    return project(settings.mechanism.perturb(point, rng), settings.radius)
