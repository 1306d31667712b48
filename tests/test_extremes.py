"""Numbers and data from the edge: a finite answer, or a clear error before anything is spent."""

import warnings

import numpy as np
import pytest
import scipy.sparse

import dpfast
from dpfast import Budget, BudgetAccountant, LogisticRegression, ProblemShape, plan
from dpfast.errors import DpfastError
from dpfast.privacy.ledger import kinds
from dpfast.solvers import SOLVERS

ESTIMATORS = (
    "GammaRegressor",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "NegativeBinomialRegressor",
    "PoissonRegressor",
    "QuantileRegressor",
    "TweedieRegressor",
)
# What a solver cannot do without, where "auto" does not stand for it; long searches are cut short.
NEEDED = {
    "privgene": {"alpha": 0.1},
    **{s: {"solver_options": {"max_iterations": 50}} for s in ("dp-hb", "dp-masg", "dp-masg-opt")},
}


def rows(n=40, d=3, norm=1.0):
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d))
    X *= norm / np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def repeated(n=40):
    X, y = rows(n, 2)
    return np.column_stack([X, X, np.ones(n)]), y


X, Y = rows()
CASES = {
    **{f"norm {r:g}": (rows(norm=r), {"data_norm": r}) for r in (1e-30, 1e-10, 1e10, 1e30)},
    **{f"epsilon {e:g}": ((X, Y), {"epsilon": e}) for e in (1e-6, 1e-3, 1e3, 1e6)},
    "one row": (rows(1), {}),
    "two rows": (rows(2), {}),
    "more columns than rows": (rows(5, 60), {}),
    "constant columns": ((np.ones_like(X), Y), {}),
    "zeros": ((np.zeros_like(X), Y), {}),
    "repeated columns": (repeated(), {}),
    "all rows clipped": ((1e6 * X, Y), {}),
    "huge entries": ((1e300 * X, Y), {}),
    "tiny entries": ((1e-310 * X, Y), {}),
    "one class": ((X, np.ones_like(Y)), {}),
    "sparse and empty": ((scipy.sparse.csr_array(X.shape), Y), {}),
}
# Those that tell most, for the default run.
FEW = (
    *("norm 1e-30", "norm 1e+30", "epsilon 1e-06", "epsilon 1e+06", "one row"),
    *("constant columns", "zeros", "all rows clipped", "one class"),
)


def outcome(name, solver, data, **settings):
    """True if the fit gave finite numbers within its budget, False if it refused in time."""
    estimator = getattr(dpfast, name)
    public = {"data_norm": 1.0, "random_state": 0, "strict": True, "solver": solver}
    known = estimator().get_params()
    bounds = (0.5, 2) if estimator().__sklearn_tags__().target_tags.positive_only else (-1, 1)
    public |= {"classes": [-1, 1]} if "classes" in known else {"target_bounds": bounds}
    settings = {**public, **NEEDED.get(solver, {}), **settings}
    model = estimator(**settings)
    with BudgetAccountant(Budget(1e6, 0.5)) as account, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies, and overflow in the loss of a huge model
        try:
            model.fit(*data)
        except (DpfastError, TypeError, ValueError) as error:
            assert account.events == (), f"spent, then: {error}"
            assert len(str(error)) > 40
            return False
    # An adaptive run is charged whole.
    paid, reported = kinds(account.events), kinds(model.privacy_.events)
    assert paid == reported or model.privacy_.adaptive
    assert model.privacy_.epsilon <= model.epsilon
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    return True


def fits(name, solver, case):
    data, settings = CASES[case]
    return outcome(name, solver, data, **settings)


# Seconds each, most of them for a search in the accountant; nothing here is special to them.
LONG = {"dp-sgd", "dp-svrg", "rrpsgd", "exponential", "localized-exponential", "privgene"}


@pytest.mark.parametrize(
    "solver",
    [pytest.param(s, marks=pytest.mark.slow if s in LONG else ()) for s in ["auto", *SOLVERS]],
)
def test_every_solver_at_the_edge(solver):
    done = {case: fits("LogisticRegression", solver, case) for case in FEW}
    if solver == "dp-adassp":  # for the squared loss alone
        assert not any(done.values())
    elif "exponential" in solver:  # draws exactly or refuses: a tiny budget takes too many trials
        assert done["norm 1e-30"] and done["norm 1e+30"] and done["one class"]
    else:
        assert all(done.values()), done


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_at_the_edge(name):
    assert all(fits(name, "auto", case) for case in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_everything_at_the_edge(solver, delta, relation):
    public = {"delta": delta, "neighboring_relation": relation}
    for name in ESTIMATORS:
        for data, settings in CASES.values():
            outcome(name, solver, data, **{**public, **settings})


def wide(d=100_000):
    X = scipy.sparse.random_array((20, d), density=1e-4, format="csr", rng=0)
    return X, np.where(np.arange(20) % 2 == 0, -1.0, 1.0)


# The others work on single steps over all columns too often for a test.
@pytest.mark.parametrize(
    "solver", ["auto", "output-perturbation", "objective-perturbation", "dp-nag", "dp-whitened-gd"]
)
def test_a_hundred_thousand_sparse_columns(solver):
    assert outcome("LogisticRegression", solver, wide()) == (solver != "dp-whitened-gd")


def test_what_needs_square_matrices_refuses_too_many_columns():
    shape = dpfast.ProblemShape(n_samples=1000, n_features=100_000, data_norm=1.0)
    budget = Budget(1.0, 1e-6)
    assert dpfast.plan(shape, "auto", budget).solver == "objective-perturbation"
    for solver, loss in (("dp-whitened-gd", "logistic"), ("dp-adassp", "squared")):
        other = dpfast.ProblemShape(
            n_samples=1000, n_features=100_000, data_norm=1.0, loss=dpfast.Loss(loss)
        )
        with pytest.raises(ValueError, match="at most 10000 columns"):
            dpfast.plan(other, solver, budget)


def test_several_classes_of_a_hundred_thousand_columns():
    X, _ = wide()
    y = np.arange(20) % 3
    model = LogisticRegression(data_norm=1.0, classes=[0, 1, 2], random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all() and model.coef_.shape == (3, 100_000)


@pytest.mark.parametrize("name", ["LogisticRegression", "HuberRegressor"])
def test_a_budget_beyond_all_arithmetic_is_refused_in_time(name):
    tiny = {"epsilon": 1e-300, "alpha": 1.0}
    assert not outcome(name, "output-perturbation", (X, Y), delta=0.0, **tiny)
    # With a delta the noise is that of epsilon = 0.
    assert outcome(name, "output-perturbation", (X, Y), delta=1e-6, **tiny)


LABELS = {
    "strings": np.where(Y > 0, "yes", "no"),
    "objects": np.where(Y > 0, "yes", "no").astype(object),
    "booleans": Y > 0,
    "list": [bool(v > 0) for v in Y],
    "unsigned": (Y > 0).astype(np.uint8),
    "large": np.where(Y > 0, 2**62, -(2**62)),
    "floats": np.where(Y > 0, 2.0, -7.0),
}


@pytest.mark.parametrize("given", [True, False], ids=["declared", "inferred"])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_come_back_as_they_were(kind, given):
    y = LABELS[kind]
    classes = list(np.unique(np.asarray(y))) if given else None
    model = LogisticRegression(
        data_norm=1.0, classes=classes, random_state=0, epsilon=1e3, solver="output-perturbation"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error" if given else "ignore", dpfast.PrivacyLeakWarning)
        model.fit(X, y)
    assert list(model.classes_) == sorted(set(np.asarray(y).tolist()))
    # The larger label is the positive one, whatever its kind.
    signs = LogisticRegression(
        data_norm=1.0, classes=[-1, 1], random_state=0, epsilon=1e3, solver="output-perturbation"
    ).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, signs.coef_)
    predicted = model.predict(X)
    assert set(predicted.tolist()) <= set(np.asarray(y).tolist())
    if not given:
        assert predicted.dtype == np.asarray(y).dtype


BAD_LABELS = {
    "nothing": np.where(Y > 0, 1.0, np.nan),
    "none": np.where(Y > 0, "a", None),
    "mixed": np.array([1, "a"] * 20, dtype=object),
    "complex": Y + 0j,
    "continuous": np.linspace(0.0, 1.0, 40),
    "two columns": np.column_stack([Y, Y]),
}


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "inferred"])
@pytest.mark.parametrize("kind", BAD_LABELS)
def test_labels_that_are_none_are_refused_before_anything_is_spent(kind, declared):
    settings = {"classes": [-1, 1]} if declared else {}
    with (
        BudgetAccountant(Budget(1e6, 0.5)) as account,
        warnings.catch_warnings(),
        pytest.raises((TypeError, ValueError)),
    ):
        warnings.simplefilter("ignore")
        LogisticRegression(data_norm=1.0, **settings).fit(X, BAD_LABELS[kind])
    assert account.events == ()


def test_one_class_must_be_declared_as_one_of_two():
    with pytest.raises(ValueError, match="y must hold two classes; got 1 class"):
        LogisticRegression(data_norm=1.0).fit(X, np.ones_like(Y))
    model = LogisticRegression(data_norm=1.0, classes=[-1, 1], epsilon=1e4, random_state=0)
    assert (model.fit(X, np.ones_like(Y)).predict(X) == 1).all()


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(100.0)])
@pytest.mark.parametrize(
    ("solver", "bounds"),
    [
        ("auto", {"intercept": 1e100}),
        ("auto", {"data_norm": 1e100, "max_weight": 1e100}),
        ("output-perturbation", {"data_norm": 1e-100}),
        ("dp-gd", {"data_norm": 1e-100, "alpha": 1e-100}),
        ("dp-adassp", {"data_norm": 1e-100, "max_weight": 1e-100}),
    ],
)
def test_bounds_with_which_there_is_no_plan_are_named(solver, bounds, budget):
    loss = "squared" if solver == "dp-adassp" else "logistic"
    given = {"n_samples": 1000, "n_features": 3, "data_norm": 1.0, "loss": loss, "intercept": 0.0}
    names = ", ".join(bounds)
    with pytest.raises(
        ValueError, match=rf"^{names} must be between 1e-15 and 1e15.*; got {names[:5]}"
    ):
        plan(ProblemShape(**{**given, **bounds}), solver, budget)


def test_what_else_is_wrong_is_said_instead():
    """Whoever has two faults is told of the one that stays."""
    shape = ProblemShape(1000, 3, 1e-100, "logistic", 1e100)
    with pytest.raises(ValueError, match="budget must be larger for this problem"):
        plan(shape, "objective-perturbation", Budget(1e-9))
    with pytest.raises(ValueError, match="loss must be 'squared'"):
        plan(shape, "dp-adassp", Budget(1.0))
