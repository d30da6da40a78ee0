"""Randomness: one secret stream for noise, one public kind for structure, one free kind for sampling.

**Noise** comes from a `Stream`: AES-256 in counter mode under a key that the operating system
draws (`os.urandom`). On a processor with AES instructions this is about twenty times faster than
asking the kernel for every byte and about twice as fast as ChaCha20 (``benchmarks/noise.py``
measures all three). To predict one bit of the noise is to break AES.

A forked process never continues its parent's stream: two processes that add the same noise to
neighbouring tables would let a reader subtract it. Every draw compares the process it runs in
with the process that drew the key, by an object that every fork replaces and by the process id
(for forks that bypass the interpreter), and draws a new key where they differ. A stream cannot be
pickled or copied for the same reason.

**Structure** that is published anyway (which attributes a tree asks about) uses `coins`: a
generator that anyone can replay from a public seed.

**Sampling** rows from a model whose counts are already noisy is post-processing and costs
nothing; `generator` makes its generator, from the system's entropy unless a seed is given. Workers of a
cluster, who must draw the same rows again when a task is run again, draw by the same cipher, each
block of rows under a `place_key` of its own. This is the only module that names ``numpy.random``.

Not protected against: a virtual machine that is snapshotted in the middle of a run and resumed
twice repeats its stream, and the time a draw takes depends on the value drawn.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NoReturn, TypeVar, cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.observer import Observer, Question

T = TypeVar("T")

_ZEROS: Final = bytes(1 << 16)
"""What is encrypted to obtain the key stream, one piece at a time."""

_SLACK: Final = 16
"""`update_into` asks for a block more than it writes."""

_BUFFER: Final = 1 << 13
"""Requests below an eighth of this are served from a buffer of this many bytes."""

_KEY_LIFE: Final = 1 << 36
"""Bytes under one key: at 2³² blocks, counter mode is distinguished from random with advantage 2⁻⁶⁵."""

_KEYS: Final = 1 << 255
"""Seeds from here on are keys: what follows from them is drawn by the cipher."""

Generator = np.random.Generator
"""The type of `generator` and `coins`, so that nobody else has to name ``numpy.random``."""


class _Process:
    """Which process this is. A fork makes it another one."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.mark = object()


# A process is what it is for everyone in it: the one piece of module state, changed only by a fork.
_PROCESS: Final = _Process()
os.register_at_fork(after_in_child=_PROCESS.renew)


class _KeyStream:
    """The bytes under one key, in one process."""

    def __init__(self, key: bytes, counter: bytes) -> None:
        self._mark = _PROCESS.mark
        self._pid = os.getpid()
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        # Lives and dies with the key, so that a lock that was held during a fork is never waited for.
        self._lock = threading.Lock()
        self._buffer = np.empty(0, np.uint8)
        self._left = _KEY_LIFE

    @property
    def foreign(self) -> bool:
        """Whether the key was drawn by another process, of which this one is a fork."""
        return self._mark is not _PROCESS.mark or self._pid != os.getpid()

    @property
    def expired(self) -> bool:
        """Whether the key has served as long as it should."""
        return self._left <= 0

    def take(self, n: int) -> NDArray[np.uint8]:
        with self._lock:
            if n >= _BUFFER // 8:
                return self._encrypt(n)
            if n > self._buffer.size:
                self._buffer = self._encrypt(_BUFFER)
            head, self._buffer = self._buffer[:n], self._buffer[n:]
            return head.copy()

    def _encrypt(self, n: int) -> NDArray[np.uint8]:
        out = np.empty(n + _SLACK, np.uint8)
        view = out.data
        for start in range(0, n, len(_ZEROS)):
            piece = _ZEROS if n - start >= len(_ZEROS) else _ZEROS[: n - start]
            self._encryptor.update_into(piece, view[start:])
        self._left -= n
        return out[:n]


class Stream:
    """Secret random words and exact integers for noise.

    ``Stream()`` draws its key from the operating system. It may be shared by threads, and a forked
    process that inherits one goes on with a key of its own. A `testing` stream is replayable: whatever is made
    with it is **not private**.
    """

    __slots__ = ("_key", "_keystream", "_observer", "testing")

    testing: bool

    def __init__(self) -> None:
        self._observer: Observer | None = None
        self.testing = False
        self._key = b""
        self._keystream = _KeyStream(os.urandom(32), os.urandom(16))

    @classmethod
    def for_testing(cls, seed: int | str | bytes, observer: Observer | None = None) -> Stream:
        """Make a replayable stream, which voids every guarantee; only such a stream may have an observer.

        >>> Stream.for_testing(1).below(100) == Stream.for_testing(1).below(100)
        True
        """
        return cls._replayable(_digest(b"dipsmith testing stream", repr(seed).encode()), observer)

    @classmethod
    def of(cls, seed: int | Stream | None, observer: Observer | None = None) -> Stream:
        """The given stream, a replayable one for a seed, or a secret one without; only a seed may have an observer."""
        if isinstance(seed, int):
            return cls.for_testing(seed, observer)
        if observer is not None:
            raise UsageError("an observer sees exact counts: it watches replayable noise only; give a seed")
        return cls() if seed is None else seed

    @classmethod
    def _replayable(cls, key: bytes, observer: Observer | None = None) -> Stream:
        stream = cls()
        stream.testing = True
        stream._observer = observer
        stream._key = key
        stream._keystream = _KeyStream(key, bytes(16))
        return stream

    def child(self, name: str) -> Stream:
        """Make an independent stream: a fresh one, or under testing one that follows from `name`."""
        if self.testing:
            return self._replayable(_digest(self._key, b"child", name.encode()), self._observer)
        return Stream()

    @property
    def observer(self) -> Observer | None:
        """Who watches what is made with this stream: nobody, unless it is a testing stream."""
        return self._observer if self.testing else None

    def answering(self, question: Question) -> AbstractContextManager[object]:
        """The time during which a question is answered, for an observer."""
        return nullcontext() if self.observer is None else self.observer.answering(question)

    def show_observer(self, what: str, drawn: T) -> T:
        """Let an observer see, and replace, randomness that reads no rows."""
        return drawn if self.observer is None else cast("T", self.observer.on_randomness(what, drawn))

    def _bytes(self, n: int) -> NDArray[np.uint8]:
        if self.observer is not None:
            self.observer.on_draw(n)
        keystream = self._keystream
        if self.testing and keystream.foreign:
            raise UsageError(
                "a testing stream was carried into a forked process: make one there, with for_testing(seed).child(name)"
            )
        if not self.testing and (keystream.foreign or keystream.expired):
            # Two threads of a forked child may both get here; each then draws from a key of its own.
            keystream = self._keystream = _KeyStream(os.urandom(32), os.urandom(16))
        return keystream.take(n)

    def words8(self, n: int) -> NDArray[np.uint8]:
        """Draw n uniform 8-bit words."""
        return self._bytes(n)

    def words16(self, n: int) -> NDArray[np.uint16]:
        """Draw n uniform 16-bit words."""
        return self._bytes(2 * n).view("<u2").astype(np.uint16, copy=False)

    def words32(self, n: int) -> NDArray[np.uint32]:
        """Draw n uniform 32-bit words."""
        return self._bytes(4 * n).view("<u4").astype(np.uint32, copy=False)

    def words64(self, n: int) -> NDArray[np.uint64]:
        """Draw n uniform 64-bit words."""
        return self._bytes(8 * n).view("<u8").astype(np.uint64, copy=False)

    def bits(self, k: int) -> int:
        """Draw a uniform integer of k bits, of any size."""
        n = -(-k // 8)
        return int.from_bytes(self._bytes(n).tobytes(), "little") >> (8 * n - k)

    def below(self, n: int) -> int:
        """Draw an exactly uniform integer in 0 … n-1, by rejection."""
        if n < 1:
            raise UsageError(f"cannot draw an integer below {n}: the bound must be at least 1")
        k = (n - 1).bit_length()
        while (value := self.bits(k)) >= n:
            pass
        return value

    def integers(self, n: int, size: int) -> Ints:
        """Draw `size` exactly uniform integers in 0 … n-1, by rejection; n is at most 2⁶³."""
        if not 1 <= n <= 1 << 63:
            raise UsageError(f"cannot draw integers below {n}: the bound must lie in 1 … 2⁶³")
        mask = np.uint64((1 << (n - 1).bit_length()) - 1)
        out = np.empty(size, np.int64)
        filled = 0
        while filled < size:
            words = self.words64(size - filled) & mask
            words = words[words < np.uint64(n)]
            out[filled : filled + words.size] = words
            filled += words.size
        return out

    def permutation(self, n: int) -> Ints:
        """Draw an exactly uniform order of 0 … n-1.

        The order of n uniform 64-bit words, all drawn again when two are equal: given that they
        differ, every order is equally likely. Ties have probability below n²/2⁶⁵.
        """
        with self.answering(Question("order")):
            while True:
                words = self.words64(n)
                order = np.argsort(words)
                ranked = words[order]
                if n < 2 or bool(np.all(ranked[1:] != ranked[:-1])):
                    return self.show_observer("order", order.astype(np.int64, copy=False))

    def new_seed(self, what: str) -> bytes:
        """Draw 32 bytes for a named purpose: a seed, or a key."""
        with self.answering(Question(what)):
            return self.show_observer(what, self.words8(32).tobytes())

    def __repr__(self) -> str:
        return "Stream(testing=True, NOT PRIVATE)" if self.testing else "Stream()"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: the copy would repeat the noise."""
        raise TypeError("a stream cannot be copied or pickled: the copy would repeat its noise")


def generator(seed: int | None = None) -> Generator:
    """Make the generator that samples rows from a noisy model: post-processing, free.

    With a seed the sample can be drawn again; without it, 128 bits of the system's entropy are used. A `place_key` gives
    the key stream of AES-256 instead of PCG64.
    """
    if seed is not None and seed >= _KEYS:
        # Has the verbs by which rows are drawn; any other one fails loudly instead of drawing otherwise.
        return cast("Generator", _KeyedGenerator(seed))
    return Generator(np.random.PCG64(secrets.randbits(128) if seed is None else seed))


def place_key(secret: bytes, *place: int) -> int:
    """Make the seed of one place among many (a partition, a block of rows): a key for the cipher."""
    parts = [number.to_bytes(8, "big") for number in place]
    return _KEYS | int.from_bytes(_digest(b"dipsmith place", secret, *parts))


def named_seed(seed: int, names: tuple[str, ...]) -> int:
    """Make the seed that follows from another one and from names; a key gives a key.

    Models of different targets draw differently by it: equal draws would associate their labels.
    """
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
    return _KEYS | int.from_bytes(digest) if seed >= _KEYS else int.from_bytes(digest[:16])


class _KeyedGenerator:
    """The verbs of a generator by which rows are drawn, from the key stream of one key."""

    def __init__(self, key: int) -> None:
        self._stream = Stream._replayable(key.to_bytes(32, "big"))

    def random(self, size: int | None = None) -> float | Floats:
        words = self._stream.words64(1 if size is None else size) >> np.uint64(11)
        drawn: Floats = np.multiply(words, 2.0**-53, dtype=np.float64)
        return float(drawn[0]) if size is None else drawn

    def integers(self, low: int, high: int, size: int) -> Ints:
        return low + self._stream.integers(high - low, size)

    def permutation(self, x: int | NDArray[np.generic]) -> NDArray[np.generic]:
        if isinstance(x, np.ndarray):
            return x[self._stream.permutation(len(x))]
        return self._stream.permutation(x)


def coins(seed: bytes, name: str) -> Generator:
    """Make the public, replayable generator of one named structure.

    The generator is a function of the published `seed` and `name` (through SHA-256), so that a
    reader can draw the same structure again. It must never touch noise.

    >>> bool(coins(b"public", "tree 1").random() == coins(b"public", "tree 1").random())
    True
    >>> bool(coins(b"public", "tree 1").random() == coins(b"public", "tree 2").random())
    False
    """
    digest = _digest(b"dipsmith public coins", seed, name.encode())
    return Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def _digest(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each preceded by its length so that no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
