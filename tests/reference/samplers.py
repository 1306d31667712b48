"""Slow exact twins of the random stream and its exact samplers, written from the papers.

Probabilities are Fractions and a uniform real is an interval that shrinks with every word, so there
is nothing to overflow or to round.  The twins read the stream word for word as the kernels do:
same key, same values.
"""

from fractions import Fraction
from functools import lru_cache

from mpmath import mp

WORD = 2**64


# ---- ChaCha20, RFC 8439, and the stream with fast key erasure -----------------------------------


def _rotate(x, by):
    return ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF


def chacha20_block(key, counter, nonce):
    """The 64 bytes of one block; key of 32 bytes, nonce of 12."""
    start = [int.from_bytes(b"expand 32-byte k"[i : i + 4], "little") for i in range(0, 16, 4)]
    start += [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    start += [counter]
    start += [int.from_bytes(nonce[i : i + 4], "little") for i in range(0, 12, 4)]
    x = list(start)
    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for low, high, by in ((a, d, 16), (c, b, 12), (a, d, 8), (c, b, 7)):
                other = {a: b, c: d}[low]
                x[low] = (x[low] + x[other]) & 0xFFFFFFFF
                x[high] = _rotate(x[high] ^ x[low], by)
    return b"".join(
        ((u + v) & 0xFFFFFFFF).to_bytes(4, "little") for u, v in zip(x, start, strict=True)
    )


def words(key):
    """The 64-bit words under a key: sixteen blocks at a time, the first 32 bytes the next key."""
    while True:
        stream = b"".join(chacha20_block(key, counter, bytes(12)) for counter in range(16))
        key = stream[:32]
        for i in range(32, len(stream), 8):
            yield int.from_bytes(stream[i : i + 8], "little")


# ---- Events of exact probability ----------------------------------------------------------------


def less(source, probability):
    """Whether a uniform real is below `probability`, reading as few words as decide it."""
    low, width = Fraction(0), Fraction(1)
    while True:
        width /= WORD
        low += next(source) * width
        if low >= probability:
            return False
        if low + width <= probability:
            return True


def less_exp(source, *factors):
    """Whether a uniform real is below exp(-product of factors); Canonne et al., algorithm 1."""
    k = 1
    while all(less(source, f) for f in factors) and (k == 1 or less(source, Fraction(1, k))):
        k += 1
    return k % 2 == 1


def uniform_below(source, below):
    """Uniform in range(below): the high half of word * below, without the surplus of words."""
    surplus = WORD % below
    while True:
        high, low = divmod(next(source) * below, WORD)
        if low >= surplus:
            return high


# ---- The samplers -------------------------------------------------------------------------------


@lru_cache
def cell_bounds():
    """C_0 to C_7 with 1100 digits: see csrc/gaussian_cells.h."""
    with mp.workprec(1200):
        weights = [mp.exp(-mp.mpf(k * k) / 2) for k in range(100)]
        total = mp.fsum(weights)
        return [
            Fraction(int(mp.floor(mp.fsum(weights[: k + 1]) / total * 2**1100)), 2**1100)
            for k in range(8)
        ]


def _cell(source):
    word = next(source)
    negative, low, width = word % 2, Fraction(word // 2, 2**63), Fraction(1, 2**63)
    while True:
        below = sum(bound <= low for bound in cell_bounds())
        if below == sum(bound < low + width for bound in cell_bounds()):
            break
        width /= WORD
        low += next(source) * width
    if below < 8:
        return negative, below
    while True:  # exp(-k^2 / 2), k = 8 + j, in powers of exp(-1/2)
        half = Fraction(1, 2)
        j = 0
        while all(less_exp(source, half) for _ in range(16)):
            j += 1
        if all(less_exp(source, half) for _ in range(j * j)):
            return negative, 8 + j


def discrete_gaussian(source, scale):
    while True:
        negative, k = _cell(source)
        u = uniform_below(source, scale)
        x = Fraction(u, scale)
        if not all(less_exp(source, x) for _ in range(k)):
            continue
        if not less_exp(source, x / 2, x):
            continue
        value = u + scale * k
        if not (negative and value == 0):
            return -value if negative else value


def discrete_exponential(source, scale):
    while True:
        u = uniform_below(source, scale)
        if less_exp(source, Fraction(u, scale)):
            break
    v = 0
    while _less_inverse_e(source):
        v += 1
    return u + scale * v


def _less_inverse_e(source):
    k = 2  # the trial of probability 1 is not made
    while less(source, Fraction(1, k)):
        k += 1
    return k % 2 == 1


def discrete_laplace(source, scale):
    while True:
        value = discrete_exponential(source, scale)
        negative = next(source) % 2
        if not (negative and value == 0):
            return -value if negative else value


def noisy_max(source, scores, scale, noise):
    if noise == "gumbel":
        while True:
            i = uniform_below(source, len(scores))
            steps, rest = divmod(max(scores) - scores[i], scale)
            if all(_less_inverse_e(source) for _ in range(steps)) and less_exp(
                source, Fraction(rest, scale)
            ):
                return i
    draw = {"laplace": discrete_laplace, "exponential": discrete_exponential}[noise]
    noisy = [score + draw(source, scale) for score in scores]
    return noisy.index(max(noisy))
