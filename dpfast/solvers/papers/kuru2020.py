"""The accelerated methods of Kuru et al. 2020: rows of the table of solvers."""

from __future__ import annotations

from dpfast.solvers._gradient_method import gradient_method

_STAGES = ("p", "first_stage")
_IN_STAGES = {"iterations": 400, "step": 1.0, "first_stage": 400}

SOLVERS = (
    gradient_method(
        "dp-hb",
        "heavy-ball",
        """The heavy ball on noisy gradients (Kuru et al. 2020, section 3; Polyak 1964).

By default step, momentum and iterations follow from the worst quadratic, with
``bound="strongly convex"`` from the certificates of Proposition 3.4, which hold for every strongly
convex function and therefore ask for small steps.""",
        {"iterations": 2500, "step": 0.5},
        options=("bound",),
        bound="quadratic",
    ),
    gradient_method(
        "dp-nag",
        "nesterov",
        "Nesterov's accelerated method on noisy gradients (Kuru et al. 2020, section 4).",
        {"iterations": 400, "step": 1.0},
    ),
    gradient_method(
        "dp-nag-opt",
        "nesterov",
        """\
Nesterov's method with the budget divided as its bound prefers (Kuru et al. 2020, Prop. 4.2).

Later iterations get more of the budget: ``ε_t`` proportional to ``a_t^{1/3}`` for Laplace noise,
``μ_t²`` to ``a_t^{1/2}`` for Gaussian noise.""",
        {"iterations": 400, "step": 1.0},
        split="optimal",
    ),
    gradient_method(
        "dp-masg",
        "multistage",
        """\
Multistage accelerated gradient descent on noisy gradients (Kuru et al. 2020, section 4.2).

Nesterov's method in stages of growing length and falling step size (Aybat et al. 2019).""",
        _IN_STAGES,
        options=_STAGES,
    ),
    gradient_method(
        "dp-masg-opt",
        "multistage",
        """Multistage accelerated gradient descent with the budget divided as its bound prefers.

Kuru et al. 2020, section 4.2, with the shares of Proposition 4.2.""",
        _IN_STAGES,
        options=_STAGES,
        split="optimal",
    ),
)
