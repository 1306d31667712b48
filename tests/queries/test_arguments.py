"""What is no argument of a query is refused before anything is spent."""

import contextlib

import numpy as np
import pytest
from queries.contract import ALL_ROWS, CASES, relations_of

from dpfast import Budget
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Laplace, NoisyMax
from dpfast.queries import ScoreSum, WeightedCurvature
from dpfast.random import SecureGenerator

KINDS = {type(case.make(5)): case for case in reversed(CASES)}
KINDS.pop(ScoreSum)  # which takes functions
NUMBERS = ("a", None, {}, np.nan, np.inf, 10**30, 1j, np.zeros(0), np.ones(2), np.array([1.0]))


class Payer:
    """Pays for everything, and counts."""

    log, paid = None, 0

    def spend_all(self, events):
        self.paid += 1


def asked(kind):
    """A function that asks with arguments and says whether it was paid and answered."""
    case = KINDS[kind]
    query, relation = case.make(5), relations_of(case)[0]
    rows = case.rows([case.records[i % len(case.records)] for i in range(5)], case.storages[0], 5)
    if query.norm == "range":
        access = NoisyMax.calibrate(Budget(1.0), query, relation)
    else:
        access = (Gaussian if query.norm == "l2" else Laplace).of_query(1e3, query, relation)

    def ask(*arguments):
        payer, answered = Payer(), False
        with contextlib.suppress(Exception):
            Curator(rows, payer, SecureGenerator(0)).release(access, *arguments)
            answered = True
        return payer.paid, answered

    arguments = [np.arange(5) if a is ALL_ROWS else a for a in case.arguments(query)[0]]
    return ask, arguments


def malformed(array):
    yield from (array[:-1], np.concatenate([array, array]), array[None], array[..., None])
    yield from (array + 1j, array.astype(str), np.zeros(array.shape, "M8[s]"), [{}], "a", 1.0)
    yield np.full(array.shape, None)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("error")
def test_malformed_arguments_cost_nothing(kind):
    ask, arguments = asked(kind)
    assert ask(*arguments) == (1, True)
    tried = [[*arguments, 1.0, 1.0, 1.0], [*arguments, np.ones(3)], *([[]] if arguments else [])]
    for at, argument in enumerate(arguments):
        array = isinstance(argument, np.ndarray)
        for wrong in malformed(argument) if array else NUMBERS:
            tried.append([*arguments[:at], wrong, *arguments[at + 1 :]])
        for same in [argument.astype(np.float32).astype(np.float64)] if array else []:
            for dtype in (np.longdouble, object):
                assert ask(*arguments[:at], same.astype(dtype), *arguments[at + 1 :]) == (1, True)
    for each in tried:
        paid, answered = ask(*each)
        assert paid == answered, each


def test_complex_numbers_have_squares_that_bound_nothing():
    """Those of (1, i) vanish, and so would the length of a row there."""
    ask, (stack, *rest) = asked(WeightedCurvature)
    hidden = stack.astype(complex)
    hidden[:, 1] = 1j * hidden[:, 0]
    assert ask(hidden, *rest) == (0, False)
