"""Exact laws of functions that make random choices, from the tree of their choices.

A function is run once for every path from the root to a leaf; a path weighs what its choices are
likely, a Fraction.  Paths that are very unlikely are not followed, and what they weigh is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


class Unfinished(Exception):
    """The path has come to a choice that has not been made yet, or began anew."""


@dataclass
class Law:
    """Weights of the values; of the paths that began anew; and of those that were not followed."""

    weights: Counter[Hashable]
    anew: Fraction
    lost: Fraction

    def probability(self, value: Hashable) -> Fraction:
        """Return the probability, at least, where a function that begins anew forgets the past."""
        return Fraction(self.weights[value]) / (1 - self.anew)

    @property
    def error(self) -> Fraction:
        """By how much a probability can be larger."""
        return self.lost / (1 - self.anew)


class Path:
    """The choices of one path: those at its beginning are given, the next one ends the run.

    The functions take it for the stream of words.
    """

    def __init__(self, given: Sequence[int]) -> None:
        self._given = list(given)
        self._made = 0
        self._begun = False
        self.weights: Sequence[Fraction] = ()
        self.anew = False

    def choose(self, weights: Sequence[Fraction]) -> int:
        """Return the position of one of the weights."""
        if self._made < len(self._given):
            self._made += 1
            return self._given[self._made - 1]
        self.weights = weights
        raise Unfinished

    def event(self, probability: Fraction) -> bool:
        """Return whether an event of this probability happens."""
        return self.choose((1 - probability, probability)) == 1

    def begin(self) -> None:
        """Say that a trial begins: the second time the path began anew."""
        self.anew = self._begun
        if self.anew:
            raise Unfinished
        self._begun = True


def law_of(function: Callable[[Path], Any], least: Fraction = Fraction(1, 2**90)) -> Law:
    """Return the law of what `function` returns, without paths lighter than `least`."""
    law = Law(Counter(), Fraction(0), Fraction(0))
    paths: list[tuple[list[int], Fraction]] = [([], Fraction(1))]
    while paths:
        given, weight = paths.pop()
        path = Path(given)
        try:
            law.weights[function(path)] += weight  # type: ignore[assignment]
        except Unfinished:
            if path.anew:
                law.anew += weight
                continue
            for position, share in enumerate(path.weights):
                if weight * share >= least:
                    paths.append(([*given, position], weight * share))
                else:
                    law.lost += weight * share
    assert sum(law.weights.values()) + law.anew + law.lost == 1
    return law
