"""What is refused is refused before anything is spent."""

from contextlib import contextmanager

import pytest

from dpfast import Budget, BudgetAccountant

LARGE = Budget(9.0, 1e-3)


@contextmanager
def refused(error, match=None, budget=LARGE):
    """The block must raise `error`, and charge nothing to an account of `budget` around it."""
    with BudgetAccountant(budget) as account, pytest.raises(error, match=match):
        yield
    assert account.events == ()
