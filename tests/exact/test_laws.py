"""The laws of the exact samplers, by enumeration of their choices in rational arithmetic.

From the bottom up: numbers and events from words, events of probability exp(-x) from those, the
samplers from these, each with the level below it replaced by the law that was found for it. What
is enumerated are the twins of tests/reference, which give the same values as the kernels word for
word (tests/test_samplers.py).
"""

import itertools
from fractions import Fraction

import mpmath
import pytest
from exact.trees import law_of
from reference import samplers as twin

CLOSE = Fraction(1, 2**60)
SCALES = (1, 2, 3, 5)


def exp_of(x):
    """exp(x) within 2^-200."""
    with mpmath.workprec(240):
        value = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        return Fraction(int(mpmath.nint(value * 2**200)), 2**200)


def assert_law(law, expected):
    """Every value has its probability, but for the paths that were not followed."""
    assert law.error < CLOSE
    total = sum(expected.values())
    for value, weight in expected.items():
        gap = abs(law.probability(value) - weight / total)
        assert gap <= law.error + Fraction(1, 2**150), value
    assert set(law.weights) <= set(expected)


@pytest.fixture
def small_words(monkeypatch):
    """Words of a few bits, so that all of them can be tried."""

    def set_size(size):
        monkeypatch.setattr(twin, "WORD", size)
        monkeypatch.setattr(
            "exact.trees.Path.__next__",
            lambda path: path.choose([Fraction(1, size)] * size),
            raising=False,
        )

    return set_size


@pytest.mark.parametrize("size", [2, 4, 16])
def test_an_event_has_exactly_its_probability(small_words, size):
    small_words(size)
    for denominator in range(1, 9):
        for numerator in range(denominator + 1):
            p = Fraction(numerator, denominator)
            law = law_of(lambda source, p=p: twin.less(source, p))
            assert_law(law, {True: p, False: 1 - p})


@pytest.mark.parametrize("size", [4, 16, 64])
def test_uniform_numbers_are_uniform(small_words, size):
    small_words(size)
    for below in range(1, size + 1):

        def draw(source, below=below):
            source.begin()
            return twin.uniform_below(_Again(source), below)

        law = law_of(draw)
        assert law.lost == 0
        assert {law.probability(value) for value in range(below)} == {Fraction(1, below)}


class _Again:
    """Words of a path, of which every one begins a trial."""

    def __init__(self, path):
        self._path, self._first = path, True

    def __next__(self):
        if not self._first:
            self._path.begin()
        self._first = False
        return next(self._path)


@pytest.fixture
def exact_events(monkeypatch):
    """Events and uniform numbers of the laws that the tests above have found."""
    monkeypatch.setattr(twin, "less", lambda source, p: source.event(p))


FACTORS = [(Fraction(n, d),) for d in (1, 2, 3, 7) for n in range(d + 1)]
FACTORS += [(Fraction(u, 2 * s), Fraction(u, s)) for s in SCALES for u in range(s)]


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_exponential_events(exact_events, factors):
    product = factors[0] * (factors[1] if len(factors) > 1 else 1)
    law = law_of(lambda source: twin.less_exp(source, *factors))
    p = exp_of(-product)
    assert_law(law, {True: p, False: 1 - p} if p < 1 else {True: p})


def test_events_of_probability_one_over_e(exact_events):
    law = law_of(twin._less_inverse_e)
    assert_law(law, {True: exp_of(Fraction(-1)), False: 1 - exp_of(Fraction(-1))})


@pytest.fixture
def exponential_events(monkeypatch):
    """Exponential events of the laws found above; a uniform number begins a trial."""

    def uniform_below(source, below):
        source.begin()
        return source.choose([Fraction(1, below)] * below)

    def less_exp(source, *factors):
        product = factors[0] * (factors[1] if len(factors) > 1 else 1)
        return source.event(exp_of(-product))

    monkeypatch.setattr(twin, "uniform_below", uniform_below)
    monkeypatch.setattr(twin, "less_exp", less_exp)
    monkeypatch.setattr(twin, "_less_inverse_e", lambda source: source.event(exp_of(Fraction(-1))))


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_exponential(exponential_events, scale):
    law = law_of(lambda source: twin.discrete_exponential(source, scale))
    assert_law(law, {x: exp_of(Fraction(-x, scale)) for x in range(150 * scale)})


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace(monkeypatch, scale):
    values = range(130 * scale)
    weights = [exp_of(Fraction(-x, scale)) for x in values]
    weights = [weight / sum(weights) for weight in weights]

    def discrete_exponential(source, scale):
        source.begin()
        return source.choose(weights)

    monkeypatch.setattr(twin, "discrete_exponential", discrete_exponential)
    monkeypatch.setattr(
        "exact.trees.Path.__next__", lambda path: path.choose([Fraction(1, 2)] * 2), raising=False
    )
    law = law_of(lambda source: twin.discrete_laplace(source, scale), Fraction(1, 2**250))
    both = range(-values[-1], values[-1] + 1)
    assert_law(law, {x: exp_of(Fraction(-abs(x), scale)) for x in both})


def test_the_cells_of_the_discrete_gaussian():
    """A uniform real falls into cell k with probability proportional to exp(-k^2 / 2)."""
    total = sum(exp_of(Fraction(-k * k, 2)) for k in range(17))
    bounds = [Fraction(0), *twin.cell_bounds()]
    for k, (low, high) in enumerate(itertools.pairwise(bounds)):
        assert abs((high - low) - exp_of(Fraction(-k * k, 2)) / total) < Fraction(1, 2**180)


def test_the_cells_far_out(exponential_events, monkeypatch):
    """Beyond cell 7, with a word that lies beyond its bound."""
    monkeypatch.setattr("exact.trees.Path.__next__", lambda path: 2**64 - 1, raising=False)

    law = law_of(twin._cell, Fraction(1, 2**38))
    total = sum(exp_of(Fraction(64 - k * k, 2)) for k in range(8, 30))
    for k in range(8, 11):
        expected = exp_of(Fraction(64 - k * k, 2)) / total
        assert abs(law.probability((1, k)) - expected) <= law.error
    assert law.error < exp_of(Fraction(64 - 10 * 10, 2)) / 2


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_gaussian(exponential_events, monkeypatch, scale):
    cells = [exp_of(Fraction(-k * k, 2)) for k in range(17)]
    cells = [weight / sum(cells) / 2 for weight in cells for _ in range(2)]

    def cell(source):
        source.begin()
        k, negative = divmod(source.choose(cells), 2)
        return negative, k

    def uniform_below(source, below):
        return source.choose([Fraction(1, below)] * below)

    monkeypatch.setattr(twin, "_cell", cell)
    monkeypatch.setattr(twin, "uniform_below", uniform_below)
    law = law_of(lambda source: twin.discrete_gaussian(source, scale), Fraction(1, 2**250))
    reach = 17 * scale - 1
    expected = {x: exp_of(Fraction(-x * x, 2 * scale**2)) for x in range(-reach, reach + 1)}
    assert_law(law, expected)
    assert len(law.weights) > 20 * scale


@pytest.mark.parametrize("scores", [(0, 0, 0), (0, 3, 1), (2, 2), (0, 1, 1, 4)], ids=str)
@pytest.mark.parametrize("scale", [1, 3])
def test_the_exponential_mechanism(exponential_events, scores, scale):
    law = law_of(lambda source: twin.noisy_max(source, scores, scale, "gumbel"))
    assert_law(law, {i: exp_of(Fraction(score, scale)) for i, score in enumerate(scores)})
