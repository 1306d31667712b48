"""The laws of the samplers.

Two kinds of evidence: the exact samplers give the values of slow twins in rational arithmetic, word
for word; and samples agree with the stated law *and* disagree with the same law at 2/3 and 3/2 of
its scale.  Seeds are fixed; over the choice of seeds a correct sampler fails any one of these tests
with probability below 1e-6, except that a single value is below ALARM = 1e-8.
"""

import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from reference import samplers as twin
from reference.selection import selection_law
from scipy import special, stats

from dpfast import _kernels
from dpfast.random import SecureGenerator

KEY = bytes(range(32))
ALARM = 1e-8
CSRC = Path(__file__).parent.parent / "csrc"
needs_csrc = pytest.mark.skipif(not CSRC.is_dir(), reason="needs the C sources")


def assert_law(sample, cdf):
    """Kolmogorov-Smirnov: accepts the law, rejects it at 2/3 and at 3/2 of its scale."""
    sample = np.asarray(sample, dtype=np.float64)
    assert stats.kstest(sample, cdf).pvalue > ALARM
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(sample, lambda x, c=wrong: cdf(x / c)).pvalue < ALARM


def assert_counts(counts, probabilities):
    """Chi-square test, cells of expectation below 20 put together."""
    counts, expected = np.asarray(counts), np.asarray(probabilities) * np.sum(counts)
    small = expected < 20
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] < 20:
        expected[np.argmax(expected)] += expected[-1]
        counts[np.argmax(expected)] += counts[-1]
        counts, expected = counts[:-1], expected[:-1]
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert stats.chi2(len(counts) - 1).sf(statistic) > ALARM


def gaussian_pmf(scale, reach):
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x**2) / (2 * scale**2))
    return x, weights / weights.sum()


def laplace_pmf(scale, reach):
    x = np.arange(-reach, reach + 1)
    return x, np.exp(-np.abs(x) / scale) * np.tanh(0.5 / scale)


# ---- The stream ---------------------------------------------------------------------------------


def test_every_instruction_set_gives_the_stream_of_the_twin(isa):
    out = np.empty(700, np.uint64)
    _kernels.Stream(KEY).fill_uint64(out)
    source = twin.words(KEY)
    assert out.tolist() == [next(source) for _ in range(700)]


def test_words_are_uniform_and_unrelated():
    words = SecureGenerator(0).uint64(300_000)
    assert_counts(np.bincount(words.view(np.uint8), minlength=256), np.full(256, 1 / 256))
    assert len(np.unique(words)) == len(words)  # by chance 2e-9
    bits = np.unpackbits(words[:100_000].view(np.uint8)).astype(np.float64) - 0.5
    for lag in (1, 8, 64, 124 * 64):
        assert abs(np.mean(bits[:-lag] * bits[lag:])) < 6 * 0.25 / math.sqrt(len(bits))


# ---- Exact samplers against their twins ---------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 2, 3, 5, 1000, 2**31 + 11, 3 * 10**9 + 1, 2**32 - 1, 2**32])
def test_discrete_gaussian_is_the_twin(scale, isa):
    out = np.empty(300, np.int64)
    _kernels.Stream(KEY).fill_discrete_gaussian(scale, out)
    source = twin.words(KEY)
    assert out.tolist() == [twin.discrete_gaussian(source, scale) for _ in out]


@pytest.mark.parametrize("scale", [1, 2, 3, 1000, 3 * 10**9 + 1, 2**52 - 1, 2**52])
def test_discrete_laplace_is_the_twin(scale, isa):
    out = np.empty(80, np.int64)
    _kernels.Stream(KEY).fill_discrete_laplace(scale, out)
    source = twin.words(KEY)
    assert out.tolist() == [twin.discrete_laplace(source, scale) for _ in out]


@pytest.mark.parametrize("noise", ["laplace", "exponential", "gumbel"])
@pytest.mark.parametrize("scale", [1, 3, 10**12 + 39])
def test_noisy_max_is_the_twin(noise, scale):
    scores = [scale * s // 2 for s in (0, 5, -3, 7, 6)]
    selection = ("laplace", "exponential", "gumbel").index(noise)
    stream, source = _kernels.Stream(KEY), twin.words(KEY)
    for _ in range(100):
        expected = twin.noisy_max(source, scores, scale, noise)
        assert stream.noisy_max(selection, scale, np.array(scores)) == expected


# ---- Exact samplers against their laws ----------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize(
    ("law", "pmf", "reach"), [("gaussian", gaussian_pmf, 12), ("laplace", laplace_pmf, 60)]
)
def test_discrete_noise_at_small_scales(law, pmf, reach, scale):
    sample = getattr(SecureGenerator(scale), f"discrete_{law}")(scale, 1_000_000)
    x, p = pmf(scale, reach * scale)
    counts = np.bincount(sample + reach * scale, minlength=len(x))
    assert len(counts) == len(x)
    assert_counts(counts, p)
    for other in (scale * 2 / 3, scale * 3 / 2):
        with pytest.raises(AssertionError):
            assert_counts(counts, pmf(other, reach * scale)[1])


@pytest.mark.parametrize("scale", [2**20 + 7, 3 * 10**9, 2**32])
def test_discrete_gaussian_at_large_scales(scale):
    sample = SecureGenerator(scale).discrete_gaussian(scale, 300_000)
    assert_law(sample / scale, stats.norm.cdf)
    # The low bits are as random as the high ones.
    assert_counts(np.bincount(sample & 63, minlength=64), np.full(64, 1 / 64))


@pytest.mark.parametrize("scale", [2**20 + 7, 2**52])
def test_discrete_laplace_at_large_scales(scale):
    sample = SecureGenerator(scale).discrete_laplace(scale, 300_000)
    assert_law(sample / scale, stats.laplace.cdf)
    assert_counts(np.bincount(sample & 63, minlength=64), np.full(64, 1 / 64))


def test_successive_values_are_independent():
    sample = SecureGenerator(6).discrete_gaussian(1, 1_000_000)
    pairs = np.clip(sample.reshape(-1, 2), -3, 3) + 3
    x, p = gaussian_pmf(1, 20)
    p = np.array([p[x <= -3].sum(), *p[(x > -3) & (x < 3)], p[x >= 3].sum()])
    assert_counts(np.bincount(pairs @ [7, 1], minlength=49), np.outer(p, p).ravel())


@pytest.mark.parametrize("scale", [1, 2, 7])
def test_discrete_gaussian_deviates_as_documented(scale):
    x, p = gaussian_pmf(scale, 40 * scale)
    deviation = math.sqrt(np.sum(p * x**2))
    assert scale * (1 - 2e-7) < deviation < scale * (1 + 1e-15)


# ---- Private selection --------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "exponential", "gumbel"])
@pytest.mark.parametrize("scores", [[4], [0, 3, 1, 3], [5, 5], [-2, 9, 7, 8, 8, 0, 4]])
def test_noisy_max_follows_its_law(noise, scores):
    rng = SecureGenerator(len(scores))
    scale = 3
    counts = np.bincount(
        [rng.noisy_max(scores, scale, noise) for _ in range(12_000)], minlength=len(scores)
    )
    if len(scores) == 1:
        return
    assert_counts(counts, selection_law(scores, scale, noise))
    if len(scores) > 2:
        for other in (2, 5):
            with pytest.raises(AssertionError):
                assert_counts(counts, selection_law(scores, other, noise))


@pytest.mark.parametrize("noise", ["laplace", "exponential", "gumbel"])
def test_noisy_max_is_as_private_as_documented(noise):
    """The exact laws of neighbors, ties included, differ by no more than the documented factor."""
    rng = np.random.default_rng(8)
    scale, shift = 4, 3
    worst = {1: 0.0, 2: 0.0}
    for _ in range(300):
        scores = rng.integers(-6, 7, size=rng.integers(2, 6))
        for sides, low in ((1, 0), (2, -shift)):
            neighbor = scores + rng.integers(low, shift, size=len(scores), endpoint=True)
            ratio = np.log(selection_law(scores, scale, noise))
            ratio -= np.log(selection_law(neighbor, scale, noise))
            worst[sides] = max(worst[sides], np.abs(ratio).max())
    for sides, epsilon in worst.items():
        assert 0.5 * sides * shift / scale < epsilon <= sides * shift / scale * (1 + 1e-9)


# ---- Floating-point samplers --------------------------------------------------------------------


def test_gaussian():
    sample = SecureGenerator(0).gaussian(4_000_000)
    assert_law(sample[:300_000], stats.norm.cdf)
    assert np.isfinite(sample).all()
    # Narrow cells see a wrong wedge of the ziggurat, which matters most where layers are wide.
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4, 161), [np.inf]])
    assert_counts(np.histogram(sample, edges)[0], np.diff(special.ndtr(edges)))
    tail = np.abs(sample[np.abs(sample) > 3.6541528853610088])
    share = 2 * stats.norm.sf(3.6541528853610088)
    assert abs(len(tail) - share * 4e6) < 6 * math.sqrt(share * 4e6)
    assert stats.kstest(tail, lambda x: 1 - 2 * stats.norm.sf(x) / share).pvalue > ALARM


def l2_laplace_vectors(rng, d, scale, n):
    return np.array([rng.l2_laplace(d, scale) for _ in range(n)])


def test_l2_laplace_is_fine_near_zero():
    """Small values keep 53 significant bits: they are no multiples of 2^-53."""
    sample = np.abs(l2_laplace_vectors(SecureGenerator(2), 1, 1.0, 200_000))
    small = sample[sample < 2**-10] * 2**53
    assert len(small) > 150
    assert np.mean(small == np.round(small)) < 0.02


@pytest.mark.parametrize("d", [1, 2, 3, 20])
def test_l2_laplace(d):
    rng = SecureGenerator(d)
    scale = 2.5
    sample = l2_laplace_vectors(rng, d, scale, 50_000)
    radius = np.linalg.norm(sample, axis=1)
    assert_law(radius, stats.gamma(d, scale=scale).cdf)
    if d == 1:
        assert_law(sample[:, 0], stats.laplace(scale=scale).cdf)
        return
    # The square of a coordinate of a uniform direction is Beta(1/2, (d - 1)/2), whatever the
    # coordinate, and whatever the radius.
    axis = np.random.default_rng(0).standard_normal(d)
    cosine = sample @ axis / np.linalg.norm(axis) / radius
    beta = stats.beta(0.5, (d - 1) / 2).cdf
    assert stats.kstest(cosine**2, beta).pvalue > ALARM
    assert stats.kstest(sample[:, -1] ** 2 / radius**2, beta).pvalue > ALARM
    assert stats.kstest(cosine[radius > np.median(radius)] ** 2, beta).pvalue > ALARM
    assert abs(np.mean(cosine > 0) - 0.5) < 3 / math.sqrt(len(cosine))


def test_l2_laplace_in_many_dimensions():
    d = 100_000
    z = SecureGenerator(0).l2_laplace(d, 1.0)
    # The radius has mean d and standard deviation sqrt(d).
    assert abs(np.linalg.norm(z) - d) < 6 * math.sqrt(d)
    assert_law(z / math.sqrt(np.mean(z**2)), stats.norm.cdf)


# ---- Tables -------------------------------------------------------------------------------------


def numbers_after(text, name):
    body = text[text.index(name) :]
    body = body[body.index("= {") : body.index("};")]
    return re.findall(r"[0-9][0-9a-fx.e+-]*", body)


@needs_csrc
def test_digits_of_the_gaussian_cells():
    text = (CSRC / "gaussian_cells.h").read_text()
    lead = [int(x, 16) for x in numbers_after(text, "cell_bound[CELLS]")]
    digits = [int(x, 16) for x in numbers_after(text, "cell_digits[CELLS][CELL_WORDS]")]
    assert (len(lead), len(digits)) == (8, 8 * 15)
    bits = 63 + 64 * 15
    with mpmath.mp.workprec(bits + 200):
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / 2) for k in range(80)]
        for k in range(8):
            bound = mpmath.fsum(weights[: k + 1]) / mpmath.fsum(weights)
            expected = int(mpmath.floor(bound * mpmath.mpf(2) ** bits))
            found = lead[k]
            for word in digits[15 * k : 15 * k + 15]:
                found = found << 64 | word
            assert found == expected


@needs_csrc
def test_layers_of_the_ziggurat_have_equal_areas():
    text = (CSRC / "ziggurat_tables.h").read_text()
    x = np.array(numbers_after(text, "zig_x[ZIG_LAYERS + 1]"), dtype=np.float64)
    f = np.array(numbers_after(text, "zig_f[ZIG_LAYERS + 1]"), dtype=np.float64)
    assert len(x) == len(f) == 257
    assert x[-1] == 0.0
    assert (np.diff(x) < 0).all()
    np.testing.assert_allclose(f, np.exp(-0.5 * x**2), rtol=1e-14)
    area = x[1] * f[1] + math.sqrt(math.pi / 2) * special.erfc(x[1] / math.sqrt(2))
    np.testing.assert_allclose(x[0] * f[1], area, rtol=1e-14)
    np.testing.assert_allclose(x[1:-1] * np.diff(f[1:]), area, rtol=1e-10)
