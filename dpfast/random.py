"""The only source of noise: a cryptographic generator and the distributions drawn from it.

Random bits are ChaCha20 (RFC 8439), keyed from the operating system, with fast key erasure: after
every 124 words the key is replaced by output of its own and wiped, so that the state of a generator
never tells what it gave before.

`SecureGenerator.discrete_gaussian`, `SecureGenerator.discrete_laplace` and
`SecureGenerator.noisy_max` are exact: integer arithmetic only, within 2^-1000 (for a value, or a
candidate) of the stated law in total variation.  The other distributions are floating-point
approximations; each says how.  The time that a draw takes depends on its value.

References
----------
Canonne, Kamath & Steinke (2020), "The discrete Gaussian for differential privacy".
Karney (2016), "Sampling exactly from the normal distribution".
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Final, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._files import this_process
from dpfast._validation import check_choice, check_integer, check_real
from dpfast.lattice import Mixture, largest_width

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

# Values drawn between two looks at pending signals: some milliseconds.
_SLICE: Final = 1 << 16
_DOMAIN: Final = b"dpfast.random.SecureGenerator/1:"
_SELECTIONS: Final = {"laplace": 0, "exponential": 1, "gumbel": 2}

# Guards the rekeying after a fork.
_fork_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _fork_lock
    _fork_lock = threading.Lock()  # another thread of the parent may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _derive_key(kind: bytes, secret: bytes) -> bytes:
    return hashlib.sha256(_DOMAIN + kind + b":" + secret).digest()


def _key_of(random_state: RandomState) -> bytes | None:
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return _derive_key(b"numpy", random_state.bytes(_kernels.KEY_BYTES))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        seed = check_integer("random_state", random_state, low=0)
        return _derive_key(b"integer", str(seed).encode())
    raise TypeError(
        "random_state must be None, an integer >= 0, a numpy.random.Generator or a "
        f"numpy.random.RandomState; got {random_state!r} ({type(random_state).__name__}). "
        "Only None gives noise that may be released."
    )


class SecureGenerator:
    """A cryptographically secure source of noise.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState, default=None
        None takes a key of 256 bits from the operating system: the only choice whose noise may be
        released.  An integer >= 0 determines the whole stream.  From a NumPy generator the key is
        drawn, which advances it.

    Attributes
    ----------
    reproducible : bool
        True if the stream can be repeated, so that whoever knows `random_state` can remove the
        noise.

    Raises
    ------
    TypeError
        If `random_state` is of another type.
    ValueError
        If it is negative.
    OSError
        If the operating system gives no random bytes.

    Notes
    -----
    Safe to use from several threads.  After a fork, a generator keyed from the operating system
    takes a new key in the child before its next value, so that no two processes share noise; a
    reproducible one continues as in the parent.  Generators can be neither pickled nor copied.

    An integer that is easy to guess makes noise that is easy to guess: use it for tests only.

    Examples
    --------
    >>> from dpfast.random import SecureGenerator
    >>> rng = SecureGenerator()
    >>> rng.discrete_gaussian(2**32, 3).shape
    (3,)
    >>> SecureGenerator(7).discrete_gaussian(10, 5) - SecureGenerator(7).discrete_gaussian(10, 5)
    array([0, 0, 0, 0, 0])
    """

    reproducible: bool

    def __init__(self, random_state: RandomState = None) -> None:
        key = _key_of(random_state)
        self.reproducible = key is not None
        self._key = key
        self._stream = _kernels.Stream(key)
        self._lock = threading.Lock()
        self._process = this_process()

    def __repr__(self) -> str:
        return f"<SecureGenerator, {'reproducible' if self.reproducible else 'operating system'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SecureGenerator cannot be pickled or copied: the copy would repeat the noise of the "
            "original. Create a new one where it is needed."
        )

    def independent(self, purpose: str) -> "SecureGenerator":
        """Return another generator, whose values tell nothing about this one's.

        Parameters
        ----------
        purpose : str
            Two generators of a reproducible one are the same for the same purpose.

        Returns
        -------
        SecureGenerator
            Reproducible if this one is.
        """
        other = SecureGenerator()
        if self._key is not None:
            other.reproducible = True
            other._key = _derive_key(b"purpose", self._key + purpose.encode())
            other._stream = _kernels.Stream(other._key)
        return other

    def begin_access(self, number: int) -> None:
        """Give an access of a fit that can be interrupted a stream of its own, if reproducible.

        So that the noise of access `number` is the same whether those before it were made in this
        process or are known from a checkpoint.  Without effect on noise that may be released.
        """
        if self._key is not None:
            with self._own_lock():
                key = _derive_key(b"access", self._key + number.to_bytes(8, "big"))
                self._stream = _kernels.Stream(key)

    def _own_lock(self) -> threading.Lock:
        """The lock of the stream, once the stream is this process's own."""
        if self._process != this_process():
            with _fork_lock:
                if self._process != this_process():
                    if not self.reproducible:
                        self._stream.rekey()
                    # The old lock may have been held by a thread that the child does not have.
                    self._lock = threading.Lock()
                    self._process = this_process()
        return self._lock

    def _fill(self, fill: Callable[[NDArray[Any]], None], n: int, dtype: type) -> NDArray[Any]:
        """n values, drawn in slices: an interrupt comes through between two of them."""
        out: NDArray[Any] = np.empty(check_integer("n", n, low=0), dtype=dtype)
        for start in range(0, len(out), _SLICE):
            with self._own_lock():
                fill(out[start : start + _SLICE])
        return out

    @contextmanager
    def stream(self) -> Iterator[_kernels.Stream]:
        """Lend the stream to a kernel that draws from it; no other thread draws meanwhile."""
        with self._own_lock():
            yield self._stream

    def uint64(self, n: int) -> NDArray[np.uint64]:
        """Draw `n` >= 0 uniform 64-bit words, an array of shape (n,) and dtype uint64."""
        return self._fill(self._stream.fill_uint64, n, np.uint64)

    def below(self, bound: int) -> int:
        """Draw a uniform integer in [0, `bound`), exactly: words beyond a multiple are refused.

        `bound` is an integer from 1 to 2^63.
        """
        check_integer("bound", bound, low=1, high=2**63)
        limit = (1 << 64) // bound * bound
        while True:
            word = int(self.uint64(1)[0])
            if word < limit:
                return word % bound

    def discrete_gaussian(self, scale: int, n: int) -> NDArray[np.int64]:
        """Draw from the discrete Gaussian distribution, exactly.

        P(x) is proportional to exp(-x^2 / (2 scale^2)) over the integers x, by rejection as in
        Canonne, Kamath & Steinke (2020), algorithm 3, with integer arithmetic only; within 2^-1000
        a value in total variation.

        Parameters
        ----------
        scale : int
            In [1, 2^32].  The standard deviation is at most `scale`, and smaller by a relative
            2e-7 at most.
        n : int
            Number of values, >= 0.

        Returns
        -------
        ndarray of shape (n,), dtype int64

        Raises
        ------
        TypeError, ValueError
            If an argument is not an integer or is out of its range.
        """
        scale = check_integer("scale", scale, low=1, high=_kernels.MAX_GAUSSIAN_SCALE)
        return self._fill(lambda out: self._stream.fill_discrete_gaussian(scale, out), n, np.int64)

    def discrete_laplace(self, scale: int, n: int) -> NDArray[np.int64]:
        """Draw from the discrete Laplace distribution, exactly.

        P(x) is proportional to ``exp(-|x| / scale)`` over the integers x (Canonne, Kamath & Steinke
        2020, algorithm 2), with integer arithmetic only; within 2^-1000 a value in total variation.

        Parameters
        ----------
        scale : int
            In [1, 2^52]; then ``|x| < 2^62`` always.
        n : int
            Number of values, >= 0.

        Returns
        -------
        ndarray of shape (n,), dtype int64

        Raises
        ------
        TypeError, ValueError
            If an argument is not an integer or is out of its range.
        """
        scale = check_integer("scale", scale, low=1, high=_kernels.MAX_LAPLACE_SCALE)
        return self._fill(lambda out: self._stream.fill_discrete_laplace(scale, out), n, np.int64)

    def discrete_l2_laplace(self, scale: int, d: int) -> NDArray[np.int64]:
        """Draw a vector of integers from the l2-Laplace law on them, exactly.

        P(k) is proportional to ``exp(-||k||_2 / scale)`` over the vectors of d integers, by
        rejection from a mixture of discrete Gaussians (:mod:`dpfast.lattice`); within 2^-1000 a
        value in total variation.

        Parameters
        ----------
        scale : int
            At least 2^19, and so small that the widest Gaussian has a scale of at most 2^32.
        d : int
            Dimension, >= 1.

        Returns
        -------
        ndarray of shape (d,), dtype int64

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong type or out of its range.
        """
        d = check_integer("d", d, low=1)
        highest = int(_kernels.MAX_GAUSSIAN_SCALE / largest_width(d))
        scale = check_integer("scale", scale, low=2**19, high=highest)
        mixture = Mixture.of(d, scale)
        while True:
            k = self.discrete_gaussian(mixture.choose(self._below), d)
            if mixture.accepts(k, self._below):
                return k

    def _below(self, bound: int) -> int:
        """A uniform integer in [0, `bound`), of any size: those beyond are refused."""
        bits = (bound - 1).bit_length()
        while True:
            words = self.uint64(-(-bits // 64)).astype("<u8")
            number = int.from_bytes(words.tobytes(), "little")
            number >>= -bits % 64
            if number < bound:
                return number

    def noisy_max(
        self, scores: ArrayLike, scale: int, noise: Literal["laplace", "exponential", "gumbel"]
    ) -> int:
        """Choose the index of the largest noisy score, exactly.

        Parameters
        ----------
        scores : array_like of int, shape (k,), k >= 1
            Scores in units of the caller's grid, within +-2^61.
        scale : int
            Scale of the noise in the same units, in [1, 2^52].
        noise : {"laplace", "exponential", "gumbel"}
            "laplace" and "exponential" add discrete noise with P(x) proportional to
            ``exp(-|x| / scale)``, the latter to x >= 0 only, and take the first maximum.  If a
            neighbor moves every score by at most D, both are (2 D / scale)-differentially private,
            and (D / scale)-differentially private if it moves all of them the same way: the proofs
            of Dwork & Roth (2014), claim 3.9, and Ding et al. (2021) hold on the integers, where
            P(x >= t + D) >= exp(-D / scale) P(x >= t).  "gumbel" is the exponential mechanism,
            P(i) proportional to exp(scores[i] / scale), with the same two guarantees.

        Returns
        -------
        int
            In [0, k).

        Raises
        ------
        TypeError
            If `scores` are not integers, or `scale` is not one.
        ValueError
            If an argument is out of its range.
        """
        scale = check_integer("scale", scale, low=1, high=_kernels.MAX_LAPLACE_SCALE)
        selection = _SELECTIONS[check_choice("noise", noise, tuple(_SELECTIONS))]
        values = np.asarray(scores)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(
                f"scores must be one-dimensional and not empty; got shape {values.shape}."
            )
        if values.dtype.kind not in "iu":
            raise TypeError(
                f"scores must be integers; got dtype {values.dtype}. Round them to a grid first."
            )
        limit = _kernels.MAX_SCORE
        if values.max() > limit or values.min() < -limit:
            raise ValueError(
                f"scores must be within +-2^61; got values in [{values.min()}, {values.max()}]. "
                "Take a coarser grid."
            )
        values = np.ascontiguousarray(values, dtype=np.int64)
        with self._own_lock():
            return self._stream.noisy_max(selection, scale, values)

    def gaussian(self, n: int) -> NDArray[np.float64]:
        """Draw `n` >= 0 standard normal values, for anything but the noise of a release.

        An array of shape (n,) and dtype float64. Ziggurat (Marsaglia & Tsang 2000); each value is a
        multiple of 2^-53 times the width of its layer, so the low bits of a sum with it tell about
        the other term.
        """
        return self._fill(self._stream.fill_gaussian, n, np.float64)

    def l2_laplace(self, d: int, scale: float) -> NDArray[np.float64]:
        """Draw a vector z of density proportional to exp(-||z||_2 / scale).

        Its norm is gamma distributed with shape d and the given scale, its direction uniform: d
        normalized Gaussians.  In floating point: coordinates have a relative error of a few 2^-53
        for the norm and an absolute one of about 2^-53 ||z|| for the direction, so round the sum of
        value and noise to a grid that is coarse against that.

        Parameters
        ----------
        d : int
            Dimension, in [1, 2^32].
        scale : float
            > 0, finite.

        Returns
        -------
        ndarray of shape (d,), dtype float64

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong type or out of its range.
        FloatingPointError
            If a coordinate is too large for float64.
        """
        d = check_integer("d", d, low=1, high=int(_kernels.MAX_LAPLACE_DIM))
        scale = check_real("scale", scale, low=0.0, low_open=True)
        out = np.empty(d)
        with self._own_lock():
            self._stream.fill_l2_laplace(scale, out)
        return out
