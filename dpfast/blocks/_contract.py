"""What a problem over blocks needs of whatever holds the rows.

The rows come in a list of *blocks*, each small enough for memory.  Every sum over the rows is an
ordered map over the blocks, of a function of one block and of its own arguments alone, followed by
an addition in the blocks' order.  An :class:`Executor` does the map: :class:`~dpfast.blocks.Source`
on this machine, reading one block ahead of the one that is worked on; a cluster's client in its own
way.  What an executor must keep, for the sums and the privacy that rests on them:

- every block is in the results exactly once, however often it was computed or lost;
- results come in the order of the blocks, whichever was ready first;
- the list of blocks and their numbers of rows (which are public, but where a record is a group of
  rows) never change;
- all rows of a group are in one block;
- noise is none of its business: functions of blocks are deterministic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import NDArray

from dpfast.shape import BlockSizes

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Some rows, in memory.

    Attributes
    ----------
    number : int
        Its place in the list of blocks.
    X : ndarray, SciPy CSR or CodedMatrix of shape (rows, n_features)
    y : ndarray of shape (rows,) or None
        Targets as they are stored.
    weight : ndarray of shape (rows,) or None
    where : str
        Where the rows come from, for messages.
    groups : ndarray of shape (rows,) or None
        Whose row each is.
    made : dict or None
        Problems that were made of it, where it stays in memory from one pass to the next; they go
        with it.  None: each pass makes its own.
    """

    number: int
    X: Any
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    where: str
    groups: NDArray[Any] | None = None
    made: dict[Any, Any] | None = None


class Executor(ABC):
    """Holds a list of blocks and maps functions over them; estimators know it by this class."""

    #: Columns of X.
    n_features: int
    #: Rows of every block, in order; none is 0.
    sizes: tuple[int, ...]
    #: Groups that the rows belong to, such as persons; none has rows in two blocks.  Their number
    #: is public, and `sizes` are not.  None: every row is a record.
    n_groups: int | None = None
    #: Whether the blocks have weights.
    weighted: bool
    #: Whether the blocks have targets.
    targeted: bool = True
    #: Names of the columns, if they have any.
    feature_names: tuple[str, ...] | None
    #: Whether `map` can leave blocks out without reading them.
    seekable: bool
    #: If set: called with the number of rows of every block that was worked on.
    watch: Callable[[int], None] | None = None

    @abstractmethod
    def map(
        self, function: Callable[[Block], T], numbers: Sequence[int] | None = None
    ) -> Iterator[T]:
        """``function(block)`` for every block, or those with these `numbers`, in ascending order.

        Parameters
        ----------
        function : callable
            Pure; can be pickled, if not by pickle then by cloudpickle.
        numbers : sequence of int or None, default=None
            Ascending; None: all blocks.
        """

    @property
    def layout(self) -> BlockSizes:
        """What is public of the blocks' sizes."""
        return BlockSizes(len(self.sizes), tuple(sorted(set(self.sizes))))

    @abstractmethod
    def digest(self) -> str:
        """Fingerprint of schema and list of blocks, never of values or of what depends on them.

        It stays the same from one process to the next for the same data, and is meant to change
        when the data do.
        """


def check_name(name: object) -> str | None:
    """Return the name of a data set, by which a checkpoint knows it, if it is a text or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a text or None; got {name!r}.")
    return name
