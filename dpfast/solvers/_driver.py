"""From a request to a result: choose a solver, plan, pay, run, report."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from dpfast._blas import one_blas_thread
from dpfast._validation import check_choice, python_number
from dpfast.curator import Curator
from dpfast.errors import BudgetExceeded
from dpfast.objectives import Saddle
from dpfast.privacy import (
    NEIGHBORING_RELATIONS,
    Budget,
    Event,
    Ledger,
    PrivacyReport,
    relation_of,
)
from dpfast.privacy.open_accounts import Charged, active_accountants
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.solvers import (
    dp_adassp,
    dp_sgd,
    dp_whitened_gd,
    objective_perturbation,
    output_perturbation,
)
from dpfast.solvers._contract import (
    Outcome,
    Plan,
    Result,
    Solver,
    check_options,
    check_planned,
    check_supported,
)
from dpfast.solvers._requests import (
    blame_bounds,
    check_blocks,
    check_groups,
    check_objective,
    check_outcome,
    check_plan,
    of_problem,
)
from dpfast.solvers._resume import logged
from dpfast.solvers._table import SOLVERS
from dpfast.solvers.along_prior import AlongSettings, run_along
from dpfast.solvers.multinomial import is_multinomial, run_multinomial
from dpfast.solvers.papers import privgene, rrpsgd
from dpfast.solvers.prior import RefitSettings, run_refit
from dpfast.solvers.public_rows import PublicSettings, run_with_rows
from dpfast.sums import RowSums

#: Names of scikit-learn's solvers, and what to say of them.
_NOT_PRIVATE = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga", "highs")
_OTHER_SOLVERS = (
    "(That one is not private. What finds the exact minimizer inside of 'output-perturbation' and "
    "'objective-perturbation' is chosen by optimizer.)"
)


def _resolve(
    solver: str,
    shape: ProblemShape,
    budget: Budget,
    neighboring_relation: str,
    accountant: str,
    options: Collection[str],
) -> Solver[Any]:
    """The solver by name; of "auto", the first that serves and is worth its time.

    Whitened descent loses least to noise on most tables tried (docs/auto.md), and goes on doing so
    however many rows there are: objective perturbation, which reads them less often, never finds
    columns that are narrow for their bounds. It takes the budgets that whitened descent does not.
    Output perturbation serves every budget. The squared loss has a solver of its own.
    Whitened descent clips groups of rows, the others weigh them.
    """
    hint = _OTHER_SOLVERS if solver in _NOT_PRIVATE else ""
    if f"dp-{solver}" in SOLVERS:
        hint = f"Did you mean 'dp-{solver}'?"
    check_choice("solver", solver, ("auto", *SOLVERS), hint)
    if solver != "auto":
        return SOLVERS[solver]
    if not isinstance(shape, ProblemShape):
        return output_perturbation.SOLVER  # the one that takes whole objectives
    if not shape.loss.convex:
        return _without_convexity(shape, budget, neighboring_relation)
    least_squares, whitened, objective = (
        served(solver, shape, budget, options)
        for solver in (dp_adassp.SOLVER, dp_whitened_gd.SOLVER, objective_perturbation.SOLVER)
    )
    if least_squares and not (shape.several_rows and whitened):
        return dp_adassp.SOLVER
    if whitened and (shape.several_rows or accountant not in _FOR_OTHERS):
        return dp_whitened_gd.SOLVER
    if objective and not shape.several_rows and accountant in _FOR_OBJECTIVE:
        return objective_perturbation.SOLVER
    return output_perturbation.SOLVER


# Accountants that do not price the Gaussian noise of whitened descent, and those that price
# objective perturbation.
_FOR_OTHERS, _FOR_OBJECTIVE = ("pure", "optimal", "objective"), ("auto", "objective", "pure")
# Rows up to which the n² steps that rrpsgd may take end within a minute or so.
_FEW_ROWS = 2**15


def _without_convexity(
    shape: ProblemShape, budget: Budget, neighboring_relation: str
) -> Solver[Any]:
    """The solver of "auto" for a loss whose minimizer nothing makes stable."""
    if budget.kind not in dp_sgd.SOLVER.budgets:
        return privgene.SOLVER
    if neighboring_relation in rrpsgd.SOLVER.relations and shape.n_samples <= _FEW_ROWS:
        return rrpsgd.SOLVER
    return dp_sgd.SOLVER


#: An accountant by name, though not the ledger's: a solver's own analysis of its whole run.
LAST_ITERATE = "last-iterate"


def _last_iterate(solver: str, options: dict[str, Any]) -> dict[str, Any]:
    """Ask the solver for that analysis; any accountant can price the one event that it spends."""
    able = [name for name, known in SOLVERS.items() if "analysis" in known.options]
    if solver not in able:
        raise ValueError(
            f"solver must be {' or '.join(map(repr, able))} for accountant={LAST_ITERATE!r}; got "
            f"{solver!r}."
        )
    if options.get("analysis", LAST_ITERATE) != LAST_ITERATE:
        raise ValueError(
            f"analysis must be {LAST_ITERATE!r} or left out for accountant={LAST_ITERATE!r}; got "
            f"{options['analysis']!r}."
        )
    return {**options, "analysis": LAST_ITERATE}


def served(
    solver: Solver[Any], shape: ProblemShape, budget: Budget, options: Collection[str]
) -> bool:
    """Whether a solver takes this kind of budget, this loss, so many columns and these options."""
    return (
        budget.kind in solver.budgets
        and solver.refusal is not None
        and solver.refusal(shape.loss) is None
        and shape.dim <= solver.max_dim
        and set(options) <= set(solver.options)
    )


@np.errstate(all="ignore")
def plan(
    problem: Any,
    solver: str = "auto",
    budget: Budget | None = None,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    **options: Any,
) -> Plan[Any]:
    """What a private fit would do and cost, without touching data.

    Parameters
    ----------
    problem : Problem or ProblemShape
        Of a problem, only its shape is used.  Solvers that take any objective
        ("output-perturbation") also take one of :mod:`dpfast.objectives`, or its public shape.
    solver : str, default="auto"
        One of the solvers' names, or "auto", which chooses from public quantities: whitened
        descent, or objective perturbation if the budget is pure (both need a loss of bounded slope
        and curvature), otherwise output perturbation; noisy sums for the squared loss;
        "rrpsgd", "dp-sgd" or "privgene" for one that is not convex.
    budget : Budget
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        How neighboring data sets differ: in one record's values, or in one record's presence.
    accountant : str, default="auto"
        How the ledger prices its events; "auto" takes the smallest valid ε. "last-iterate" has the
        solver pay for its last iterate instead of for every step, where it can prove that price
        ("dp-gd", the same as its option ``analysis="last-iterate"``).
    **options
        Options of the solver; see its module.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument or an option is unknown or out of range.

    Examples
    --------
    >>> import dpfast
    >>> shape = dpfast.ProblemShape(n_samples=50_000, n_features=30, data_norm=1.0)
    >>> p = dpfast.plan(shape, "auto", dpfast.Budget(epsilon=1.0, delta=1e-6))
    >>> p.solver, len(p.events)
    ('dp-whitened-gd', 7)
    """
    shape = problem if isinstance(problem, ProblemShape) else getattr(problem, "shape", problem)
    if not isinstance(shape, ProblemShape) and not hasattr(shape, "minimizer_sensitivity"):
        raise TypeError(
            "problem must be a Problem or a ProblemShape (or an objective or its public shape); "
            f"got {type(problem).__name__}."
        )
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a dpfast.Budget, such as Budget(1.0, 1e-6); got {budget!r}."
        )
    check_choice("neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS)
    options = {name: python_number(value) for name, value in options.items()}
    if options.get("objective", "erm") == "erm" and not options.get("objective_options"):
        # The mean loss is what every solver minimizes.
        options = {k: v for k, v in options.items() if not k.startswith("objective")}
    if accountant == LAST_ITERATE:
        accountant, options = "auto", _last_iterate(solver, options)
    chosen = _resolve(solver, shape, budget, neighboring_relation, accountant, options.keys())
    if not isinstance(chosen, Solver):
        raise TypeError(
            f"dpfast.solvers.SOLVERS[{solver!r}] must be a dpfast.solvers.Solver; got "
            f"{type(chosen).__name__}."
        )
    options = check_objective(chosen, problem, shape, options)
    check_blocks(chosen, shape, options)
    check_groups(chosen, shape, options)
    other = "" if solver != "auto" else " Name the solver that has it: 'auto' knows of none."
    check_options(options, chosen.options, chosen.name, other)
    check_supported(chosen, budget, neighboring_relation)
    unit = getattr(of_problem(shape), "unit", "row")
    # Refuses a budget that the accountant cannot limit before anything is planned.
    Ledger(budget, accountant)
    relation = relation_of(neighboring_relation, unit)
    make = partial(chosen.plan, budget=budget, neighboring_relation=relation, accountant=accountant)
    try:
        result: Plan[Any] = make(shape, **options)
    except (ArithmeticError, LookupError, ValueError) as error:
        blame_bounds(shape, options, make, error)
        if not isinstance(error, OverflowError):
            raise
        raise ValueError(
            f"budget and options must leave the plan's numbers within the range of float64 for "
            f"{chosen.name}; got {budget!r}. Give a larger budget, or less extreme options."
        ) from error
    check_plan(result, chosen, relation)
    # A trial on an empty ledger: a plan never exceeds its own budget.
    Ledger(budget, accountant, result.adaptive).check(*result.events, alone=True)
    return result


#: What carries out plans that begin with something known, by the kind of their settings.
_RUNS: dict[type, Callable[..., Outcome]] = {
    PublicSettings: run_with_rows,
    RefitSettings: run_refit,
    AlongSettings: run_along,
}


@one_blas_thread()
@np.errstate(all="ignore")
def carry_out(
    plan: Plan[Any],
    problem: Any,
    rng: SecureGenerator,
    ledger: Ledger,
) -> Outcome:
    """Run a plan on what it was made for.

    All accesses of a plan are paid for, also those that its run leaves out, unless they depend on
    what was released and the ledger accounts for that.

    Raises
    ------
    ValueError
        If `problem` is something else, or the accesses depend on what was released and the ledger
        cannot account for that; nothing is spent.
    """
    check_planned(plan, problem)
    if plan.adaptive and not ledger.adaptive:
        raise ValueError(
            f"ledger must be Ledger(budget, adaptive=True) for {plan.solver}, whose accesses "
            "depend on what was released; got one that is not adaptive."
        )
    run = _RUNS.get(type(plan.settings)) or SOLVERS[plan.solver].run
    if is_multinomial(plan):
        run = run_multinomial
    planned = None if plan.adaptive else plan.accesses
    curator = Curator(problem, ledger, rng, planned, plan.neighboring_relation)
    try:
        outcome = run(plan, curator)
        curator.check_answered()
    except Exception:
        # That it failed here may follow from what was released, too.  With a log it can go on.
        with suppress(BudgetExceeded):
            if curator.made and ledger.log is None:
                curator.finish()
        raise
    curator.finish()
    check_outcome(outcome, plan)
    return outcome


def _kept(outcome: Outcome) -> dict[str, Any]:
    """What a checkpoint keeps of an outcome."""
    kept: dict[str, Any] = {"w": outcome.w, "history": outcome.history}
    kept["unit"] = np.array(outcome.unit)
    for name in ("covariance", "column_ranges", "prediction_range"):
        if (value := getattr(outcome, name)) is not None:
            kept[name] = np.array(value)
    return kept


def begin(
    plan: Plan[Any],
    budget: Budget,
    accountant: str,
    random_state: Any,
    accounts: Sequence[Charged] | None,
) -> tuple[Ledger, SecureGenerator]:
    """The ledger and the source of noise of a fit."""
    pricing = "auto" if accountant == LAST_ITERATE else accountant
    # Looked up once, and not at every access: it takes a system call or two.
    payers = active_accountants() if accounts is None else accounts
    return Ledger(budget, pricing, plan.adaptive, payers), SecureGenerator(random_state)


@np.errstate(all="ignore")
def fit_each(
    plan: Plan[Any],
    problems: Sequence[Callable[[], Any]],
    whole: Any,
    budget: Budget,
    *,
    accountant: str,
    events: Sequence[Event],
    random_state: Any = None,
    notes: tuple[str, ...] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    accounts: Sequence[Charged] | None = None,
    distinction: tuple[Any, ...] = (),
    begun: tuple[Ledger, SecureGenerator] | None = None,
) -> tuple[list[Outcome], PrivacyReport]:
    """Carry out a plan on each of several problems, which are made in turn, on one ledger.

    `whole` has the checkpoint's rows, and what was inferred from data; `events` are what all the
    runs spend: a BudgetAccountant is charged for all of it, or nothing.  `distinction` is what else
    makes this fit another one for a checkpoint.  `begun` are ledger and generator with which
    something was released for this fit before (:func:`begin`): the events were checked then.
    """
    if checkpoint is not None and not SOLVERS[plan.solver].resumable:
        raise ValueError(
            f"checkpoint must be None for solver={plan.solver!r}, which draws at random between "
            f"its releases what later ones rest on; got {os.fspath(checkpoint)!r}."
        )
    ledger, rng = begun or begin(plan, budget, accountant, random_state, accounts)
    with logged(checkpoint, whole, plan, ledger, rng, *distinction) as log:
        if log is not None and log.outcome is not None:
            outcomes = [Outcome(**log.outcome[str(k)]) for k in range(len(problems))]
        else:
            if begun is None:
                ledger.check(*events)
            outcomes = [carry_out(plan, make(), rng, ledger) for make in problems]
            if log is not None:
                kept = [_kept(found) for found in outcomes]
                log.finish(**{str(k): found for k, found in enumerate(kept)})
    report = PrivacyReport.from_ledger(
        ledger, reproducible=rng.reproducible, notes=(*getattr(whole, "leaks", ()), *notes)
    )
    return outcomes, report


def solve(
    problem: Any,
    solver: str = "auto",
    budget: Budget | None = None,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    random_state: Any = None,
    notes: tuple[str, ...] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    accounts: Sequence[Charged] | None = None,
    **options: Any,
) -> Result:
    """Fit a problem privately.

    Parameters
    ----------
    problem : Problem
        Or an objective, see :func:`plan`.
    solver, budget, neighboring_relation, accountant, **options
        As for :func:`plan`.
    random_state : None, int or NumPy generator
        None draws the noise's key from the operating system.  Anything else makes the run
        repeatable, and the report says not to release it.
    notes : tuple of str
        Statements to add to the report, besides the problem's own leaks.
    checkpoint : path-like or None, default=None
        For rows in blocks: file from which an interrupted fit continues. Called again with the same
        arguments, the fit does not pay twice, see :mod:`dpfast.privacy.checkpoint`. A complete file
        returns the result at once; a new fit needs a new file. With a `random_state`, the noise
        differs from that without the file.
    accounts : sequence of BudgetAccountant or None, default=None
        The accountants to charge. None: those whose blocks surround the call.

    Returns
    -------
    Result
        The private weights, the report computed from the ledger, and the plan.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; nothing is spent.
    BudgetExceeded, CertificateNotReached
        See the solvers.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5000, axis=0)
    >>> y = np.repeat([1.0, -1.0], 5000)
    >>> problem = dpfast.Problem(X, y, "logistic", data_norm=1.0)
    >>> result = dpfast.solve(problem, "auto", dpfast.Budget(1.0, 1e-6))
    >>> bool(result.w[0] > result.w[1]), result.privacy.epsilon <= 1.0
    (True, True)
    """
    if not isinstance(problem, RowSums | Saddle) and not hasattr(problem, "value_and_gradient"):
        raise TypeError(
            f"problem must be a Problem (or an objective); got {type(problem).__name__}."
        )
    planned = plan(
        problem,
        solver,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        **options,
    )
    (outcome,), report = fit_each(
        planned,
        [lambda: problem],
        problem,
        planned.budget,
        accountant=accountant,
        events=planned.events,
        random_state=random_state,
        notes=notes,
        checkpoint=checkpoint,
        accounts=accounts,
        distinction=(options,),
    )
    return Result(
        w=outcome.w,
        privacy=report,
        plan=planned,
        history=outcome.history,
        prediction_range=outcome.prediction_range,
        column_ranges=outcome.column_ranges,
    )
