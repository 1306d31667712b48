"""The curator: the one object that holds rows, ledger and noise at once.

A solver is given a curator instead of the rows.  It can ask for accesses
(:class:`~dpfast.mechanisms.Access`), and gets noisy answers and nothing else.  Every access is paid
for on the ledger before the rows are touched, then answered, then written to the log, if the fit
can be interrupted.  So a wrong solver costs accuracy, never privacy, if it hands back no memory
that it has not written: what ``np.empty`` begins with may be a sum that was freed here.

Planned accesses.  What a ledger that is not adaptive reports is the price of a list of accesses
that was fixed beforehand.  A curator that is given the list holds a run to it: the next access is
the list's next one, or it is refused before anything is spent, so that no release has a say in what
is asked for or in which order.  A run may still stop early, which may follow from its releases.
:meth:`Curator.finish` pays for the rest: what the run hands back is then a post-processing of the
run that makes the rest, too, with whatever arguments, and forgets the answers.

Errors.  Whether an answer ends in an error, such as that of an optimizer that does not converge,
may follow from the rows, and no noise covers it.  So there is no other answer after it, from the
parts of the rows neither, and the error is all that comes out of the fit, whatever the run does.

Parallel composition.  :meth:`Curator.disjoint` pays once for a list of accesses and returns one
curator for each of several consecutive parts of the rows, each of which may make every access of
the list once.  Row numbers alone decide the parts, so neighbors differ in the record of one
place, hence in one part.  (A group of rows has no place of its own: it follows from the others' ids
and rows.  Groups are not divided.)  Whatever was released before, an access to another part has the
same distribution for both and costs nothing between them; an access to their own part is made at
most once for each payment.  Its price was fixed before it.  So for every pair of neighbors the
prices of the accesses that tell them apart add up to what was paid, at most.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from dpfast._files import new_lock, this_process
from dpfast.mechanisms import Access, Query, plain
from dpfast.privacy import Event
from dpfast.privacy.checkpoint import Checkpoint
from dpfast.random import SecureGenerator

T = TypeVar("T")


class Payer(Protocol):
    """What a curator pays with: a ledger, or what was paid in advance."""

    @property
    def log(self) -> Checkpoint | None:
        """Where a fit that can be interrupted writes down what it is told."""
        ...

    def spend_all(self, events: Sequence[Event]) -> None:
        """Spend the events together, or raise and spend none."""
        ...

    def check(self, *events: Event) -> None:
        """Raise what spending the events would raise now."""
        ...

    def can_afford(self, *events: Event) -> bool:
        """Say whether the events could be spent together now."""
        ...

    def used(self) -> float:
        """Return the share of the budget that is used."""
        ...


@dataclass(frozen=True, eq=False)
class Fixed:
    """Public arguments of a query that were checked, and will not change."""

    query: Query
    values: tuple[Any, ...]


class Curator:
    """Answers accesses to rows that nobody else sees.

    Parameters
    ----------
    rows : object
        What the queries are functions of: a :class:`~dpfast.Problem`, an objective, an array.
    ledger : Ledger
    rng : SecureGenerator
        The source of the noise.
    planned : sequence of (Access, int) or None, default=None
        The accesses that may be made, in order, and how often; None: any that the ledger admits.
    relation : str or None, default=None
        Between which neighbors all of them are to be charged; None: as the first one is.
    """

    def __init__(
        self,
        rows: Any,
        ledger: Payer,
        rng: SecureGenerator,
        planned: Sequence[tuple[Access[Any], int]] | None = None,
        relation: str | None = None,
    ) -> None:
        self._rows, self._ledger, self._rng, self._relation = rows, ledger, rng, relation
        self._planned = None if planned is None else tuple(access for access, _ in planned)
        # How many accesses there are up to each of them.
        self._ends = list(accumulate(count for _, count in planned or ()))
        self._made, self._lock = 0, new_lock(self)
        self._fixed_here: WeakSet[Fixed] = WeakSet()
        self._prepared: WeakKeyDictionary[Fixed, Any] = WeakKeyDictionary()
        self._parts: tuple[tuple[int, ...], list[Any]] = (), []
        self._public: SecureGenerator | None = None
        # The first error of an answer, also of parts of the rows.
        self._errors: list[BaseException] = []

    @property
    def public_rng(self) -> SecureGenerator:
        """A generator of its own for what is drawn in public, such as proposals."""
        if self._public is None:
            self._public = self._rng.independent("public")
        return self._public

    def fix(self, query: Query, *values: Any) -> Fixed:
        """Check and copy the fixed arguments of a query.

        As long as the token that is returned lives, what the query prepared of the rows for these
        arguments is kept between releases.  The token holds no data.

        Raises
        ------
        TypeError, ValueError
            If the query's bounds do not hold for these values.
        """
        if len(values) != query.fixed:
            raise TypeError(
                f"{type(query).__name__} has {query.fixed} fixed arguments; got {len(values)}."
            )
        copies = tuple(map(plain, values))
        query.check_shapes(copies, slice(0, query.fixed))
        query.check_point(*copies)
        query.check(*copies)
        fixed = Fixed(query, copies)
        self._fixed_here.add(fixed)
        return fixed

    def release(self, access: Access[T], *arguments: Any) -> T:
        """Pay, then look: the noisy answer to one access.

        Parameters
        ----------
        access : Access
        *arguments
            The query's arguments; its fixed ones may be given as one :class:`Fixed`.

        Returns
        -------
        object
            What the access releases.

        Raises
        ------
        BudgetExceeded, UnsupportedEvent
            By the ledger; nothing was spent and the rows were not touched.
        TypeError, ValueError
            If it is no access, or not the one that was planned, or the arguments are not as its
            bounds require; nothing was spent.
        """
        self.check_answered()
        self._check_accesses(access)
        self._follow(access)
        self._check_rows(access)
        fixed, point = self._fixed(access.query, arguments)
        point = access.plain(*point)
        access.check(*point)

        def make() -> T:
            self._pay(access)
            try:
                return self._answer(access, fixed, point)
            except BaseException as error:
                self._errors.append(error)
                raise

        log = self._ledger.log
        if log is None:
            return make()
        return log.release(lambda: self._pay(access), make, self._rng)

    def check_answered(self) -> None:
        """Raise the error of an answer, if one ended in an error.

        Which error, and whether there was one, may follow from the rows: a run that goes on after
        it, and what that hands back, would tell.
        """
        if self._errors:
            raise self._errors[0]

    def cut_weights(self, at: float) -> None:
        """From now on, cut the rows' weights at a public number and stretch them to their bound.

        Every row becomes another within the same bounds, whatever the others are: what was
        neighbors stays so, and all sensitivities hold.  The number may follow from releases, like
        any argument of a query.
        """
        self._rows = self._rows.with_weights_cut(at)
        self._prepared.clear()
        self._parts = (), []

    def finish(self) -> None:
        """Pay for the planned accesses that were not made; see the module."""
        while (due := self._due(0)) is not None:
            self._pay(due)

    @property
    def made(self) -> int:
        """How many accesses were paid for."""
        return self._made

    def check(self, *accesses: Access[Any]) -> None:
        """Raise what paying for these accesses together would raise now.  Nothing is spent."""
        self._ledger.check(*(e for access in accesses for e in access.events()))

    def can_afford(self, *accesses: Access[Any]) -> bool:
        """Say whether these accesses could be paid for together now.  Nothing is spent."""
        return self._ledger.can_afford(*(e for access in accesses for e in access.events()))

    def used(self) -> float:
        """Return the share of the budget that is used so far: it follows from what was asked."""
        return self._ledger.used()

    def disjoint(self, edges: Sequence[int], *accesses: Access[Any]) -> list[Curator]:
        """Pay once for `accesses`, and return a curator for each part of the rows.

        Parameters
        ----------
        edges : sequence of int
            The parts are the rows ``edges[k]`` to before ``edges[k + 1]``.
        *accesses : Access
            What each part's curator may be asked for, once each.

        Raises
        ------
        BudgetExceeded
            By the ledger; nothing was spent.
        TypeError, ValueError
            If these are no accesses, not those that were planned, or not made for such parts, or
            there are no such rows; nothing was spent.
        """
        self.check_answered()
        self._check_accesses(*accesses)
        self._follow(*accesses)
        edges, once = tuple(edges), [(access, 1) for access in accesses]
        if self._parts[0] != edges:
            self._parts = edges, [self._rows.part(*ends) for ends in pairwise(edges)]
        parts = [type(self)(part, _Prepaid(), self._rng, once) for part in self._parts[1]]
        for part in parts:
            part._errors = self._errors
        for part, access in product(parts, accesses):
            part._check_rows(access)
        self._pay(*accesses)
        return parts

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Curator cannot be pickled or copied: the copy would answer again for one payment."
        )

    def _due(self, ahead: int) -> Access[Any] | None:
        """The planned access after so many more, if there is one."""
        at = bisect_right(self._ends, self._made + ahead)
        return self._planned[at] if self._planned and at < len(self._ends) else None

    def _follow(self, *accesses: Access[Any]) -> None:
        """Refuse accesses that are not the next ones of the plan."""
        if self._planned is None:
            return
        for ahead, access in enumerate(accesses):
            due = self._due(ahead)
            if access is not due:
                expected = "there are no more" if due is None else f"the next is {due.where!r}"
                raise ValueError(
                    f"access must be the next one that was planned, and {expected}; got "
                    f"{access.where!r}. Nothing was spent on it."
                )

    def _check_accesses(self, *accesses: Access[Any]) -> None:
        """Refuse what only looks like an access."""
        for access in accesses:
            if not (isinstance(access, Access) and isinstance(access.query, Query | None)):
                raise TypeError(
                    f"access must be a mechanism for a query, or another Access; got {access!r}. "
                    "Nothing was spent."
                )
            for event in access.events():
                if self._relation not in (None, event.neighboring_relation):
                    raise ValueError(
                        f"access must be calibrated between the neighbors that are asked for, "
                        f"{self._relation!r}; got {event.where!r}, between those of "
                        f"{event.neighboring_relation!r}. Nothing was spent on it."
                    )

    def _check_rows(self, access: Access[Any]) -> None:
        """Refuse an access whose price holds for rows of another shape."""
        asked = access.query or access
        shape, own = (getattr(each, "shape", None) for each in (asked, self._rows))
        stated, rows = _problem_of(asked), _problem_of(self._rows)
        # Arrays have shapes of another kind, and so has what is asked of them.
        of_rows, of_objective = hasattr(rows, "check_rows"), hasattr(own, "certificate")
        known = type(stated) is type(rows) or not of_rows
        if not known or (of_objective and not (type(shape) is type(own) and shape == own)):
            raise ValueError(
                "what is asked must be made for the public shape of the rows; got "
                f"{shape!r}. Nothing was spent on it."
            )
        if of_rows:
            query = access.query
            fewer = query is not None and query.fewer_rows
            any_loss = access.own_loss
            if query is not None and query.any_parameter:
                # Bounds of arguments, beyond which slopes may be no numbers, are those of the name.
                any_loss = stated.loss.name == rows.loss.name
            stated.check_rows(rows, fewer, any_loss)

    def _pay(self, *accesses: Access[Any]) -> None:
        """Spend what these accesses cost together, if they are still the next ones.

        Of threads that ask at once one pays and is answered: a part has one answer for a payment.
        """
        with self._lock:
            self._follow(*accesses)
            self._ledger.spend_all([e for access in accesses for e in access.events()])
            self._made += len(accesses)

    def _fixed(
        self, query: Query | None, arguments: tuple[Any, ...]
    ) -> tuple[Fixed | None, tuple[Any, ...]]:
        """The checked fixed arguments, and the others."""
        if query is None or query.fixed == 0:
            return None, arguments
        if arguments and isinstance(arguments[0], Fixed):
            if arguments[0].query is not query or arguments[0] not in self._fixed_here:
                raise ValueError("the arguments were fixed for another query, or not here.")
            return arguments[0], arguments[1:]
        return self.fix(query, *arguments[: query.fixed]), arguments[query.fixed :]

    def _answer(self, access: Access[T], fixed: Fixed | None, point: tuple[Any, ...]) -> T:
        """The one place where rows and noise meet; tests look into it."""
        return access.answer(self._prepare(access.query, fixed), self._rng, *point)

    def _prepare(self, query: Query | None, fixed: Fixed | None) -> Any:
        if query is None or fixed is None:
            return self._rows if query is None else query.prepare(self._rows)
        if fixed not in self._prepared:
            self._prepared[fixed] = query.prepare(self._rows, *fixed.values)
        return self._prepared[fixed]


class _Prepaid:
    """Stands for the ledger of one part of the rows, whose planned accesses were paid for."""

    log = None

    def __init__(self) -> None:
        self._process = this_process()

    def spend_all(self, events: Sequence[Event]) -> None:
        del events
        if self._process != this_process():
            raise RuntimeError(
                "a part of the rows was paid for in another process, and the two would have two "
                "answers for one payment."
            )

    def check(self, *events: Event) -> None:
        del events

    def can_afford(self, *events: Event) -> bool:
        del events
        return True

    def used(self) -> float:
        raise NotImplementedError("a part of the rows has no budget of its own.")


def _problem_of(asked: Any) -> Any:
    """The public shape of a problem, or that of an objective's problem."""
    shape = getattr(asked, "shape", None)
    return getattr(shape, "problem", shape)
