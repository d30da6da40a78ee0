"""The stream: exact integers, and noise that no other process repeats."""

from __future__ import annotations

import copy
import ctypes
import itertools
import multiprocessing
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

import dipsmith
from dipsmith.errors import UsageError
from dipsmith.privacy import randomness
from dipsmith.privacy.randomness import Stream, coins, generator, named_seed, place_key


def in_fork(draw: Callable[[], bytes], fork: Callable[[], int] = os.fork) -> bytes:
    """What `draw` returns in a forked child; a child that hangs is ended by its own alarm."""
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        signal.alarm(20)
        try:
            os.write(write, draw())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def test_the_stream_is_the_aes_counter_stream_and_never_repeats_a_byte():
    stream = Stream.for_testing(3)
    sizes = [3, 5000, 10, 1 << 18, 1000, 7, 2000, 70_000]
    drawn = [stream.words8(n).tobytes() for n in sizes]
    reference = Cipher(algorithms.AES(stream._key), modes.CTR(bytes(16))).encryptor()
    key_stream = reference.update(bytes(1 << 20))
    places = sorted((key_stream.index(piece), len(piece)) for piece in drawn if len(piece) > 6)
    assert all(start + n <= following for (start, n), (following, _) in itertools.pairwise(places))


def test_bulk_words_come_in_the_width_asked_for():
    stream = Stream()
    for draw, dtype in (
        (stream.words8, np.uint8),
        (stream.words16, np.uint16),
        (stream.words32, np.uint32),
        (stream.words64, np.uint64),
    ):
        for n in (0, 1, 33, 100_000):
            words = draw(n)
            assert words.dtype == dtype
            assert words.shape == (n,)
        # n = 1e5 words: the mean of the top bit is within 6 standard errors (FPR 2e-9 each).
        top = words >> (8 * words.itemsize - 1)
        assert abs(top.mean() - 0.5) < 6 * 0.5 / np.sqrt(words.size)


def test_bytes_are_uniform():
    # n = 1e6, χ² with 255 degrees of freedom, FPR 1e-7.
    observed = np.bincount(Stream.for_testing(0).words8(1_000_000), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-7


def test_testing_streams_replay_and_say_so():
    assert Stream.for_testing(1).testing
    assert "NOT PRIVATE" in repr(Stream.for_testing(1))
    first, second = Stream.for_testing(1), Stream.for_testing(1)
    assert first.words64(50).tolist() == second.words64(50).tolist()
    assert first.bits(64) != Stream.for_testing(2).bits(64)
    assert Stream.for_testing("1").bits(64) != Stream.for_testing(1).bits(64)


def test_children_follow_from_their_name_under_testing_only():
    parent = Stream.for_testing(1)
    before = parent.child("noise").bits(64)
    parent.words64(10)
    assert parent.child("noise").bits(64) == before
    assert parent.child("choice").bits(64) != before
    assert parent.child("noise").testing
    assert not Stream().child("noise").testing
    assert Stream().child("noise").bits(64) != Stream().child("noise").bits(64)


def test_system_streams_differ():
    assert len({Stream().bits(128) for _ in range(100)}) == 100


def test_bits_fill_their_range():
    stream = Stream.for_testing(0)
    for k in (0, 1, 2, 7, 8, 9, 63, 64, 65, 300):
        values = [stream.bits(k) for _ in range(200)]
        assert all(0 <= v < 1 << k for v in values)
        # 200 draws miss the top bit with probability 2⁻²⁰⁰.
        assert k == 0 or any(v >> (k - 1) for v in values)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 16, 100])
def test_integers_below_a_bound_are_uniform(n: int):
    # n draws per bound: 1e5 (array) and 1e4 (one by one); χ², FPR 1e-8 each.
    stream = Stream.for_testing(n)
    many = np.bincount(stream.integers(n, 100_000), minlength=n)
    single = np.bincount([stream.below(n) for _ in range(10_000)], minlength=n)
    assert many.size == single.size == n
    if n > 1:
        assert stats.chisquare(many).pvalue > 1e-8
        assert stats.chisquare(single).pvalue > 1e-8


def test_bounds_of_any_size():
    stream = Stream()
    assert 0 <= stream.below(10**100) < 10**100
    assert int(stream.integers(1 << 63, 1000).min()) >= 0
    for bad in (0, -1):
        with pytest.raises(UsageError):
            stream.below(bad)
        with pytest.raises(UsageError):
            stream.integers(bad, 3)
    with pytest.raises(UsageError):
        stream.integers((1 << 63) + 1, 3)


@pytest.mark.slow
def test_every_order_is_equally_likely():
    # n = 24 000 orders of 4, χ² with 23 degrees of freedom, FPR 1e-7.
    stream = Stream.for_testing(9)
    orders = [tuple(stream.permutation(4)) for _ in range(24_000)]
    expected = list(itertools.permutations(range(4)))
    assert stats.chisquare([orders.count(o) for o in expected]).pvalue > 1e-7


def test_orders_with_ties_are_drawn_again():
    class Tied(Stream):
        def words64(self, n: int) -> np.ndarray:
            return next(draws)

    draws = iter([np.array([5, 1, 5], np.uint64), np.array([7, 7, 7], np.uint64), np.array([2, 9, 1], np.uint64)])
    assert Tied().permutation(3).tolist() == [2, 0, 1]
    assert next(draws, None) is None
    assert Stream().permutation(0).tolist() == []
    assert Stream().permutation(1).tolist() == [0]


def libc_fork() -> int:
    """A fork that the interpreter does not hear of."""
    return int(ctypes.PyDLL(None).fork())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fork", [os.fork, libc_fork])
def test_a_forked_child_never_continues_its_parents_stream(fork: Callable[[], int]):
    stream = Stream()
    stream.words8(100)  # leaves a part-used buffer, which the child must not read either
    children = [in_fork(lambda: stream.words8(500).tobytes(), fork) for _ in range(2)]
    own = stream.words8(500).tobytes()
    assert all(len(piece) == 500 for piece in [*children, own])
    assert len({*children, own}) == 3
    # and bulk draws, which bypass the buffer
    child = in_fork(lambda: stream.words8(5000).tobytes(), fork)
    assert child != stream.words8(5000).tobytes()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_grandchildren_differ_although_a_process_id_may_return(monkeypatch: pytest.MonkeyPatch):
    stream = Stream()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid)  # a new pid namespace, or a reused number
    child = in_fork(lambda: stream.words8(64).tobytes())
    assert len(child) == 64
    assert child != stream.words8(64).tobytes()


_shared: list[Stream] = []


def _draw_shared(_: int) -> int:
    return _shared[0].bits(128)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_pool_draw_differently():
    _shared[:] = [Stream()]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = pool.map(_draw_shared, range(20), chunksize=1)
    drawn += [_draw_shared(0) for _ in range(20)]
    assert len(set(drawn)) == 40


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lock_held_during_a_fork_does_not_stop_the_child():
    stream = Stream()
    with stream._keystream._lock:
        assert len(in_fork(lambda: stream.words8(8).tobytes())) == 8


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_testing_stream_is_refused_in_a_forked_child():
    stream = Stream.for_testing(1)

    def draw() -> bytes:
        try:
            return stream.words8(8).tobytes()
        except UsageError as refusal:
            return str(refusal).encode()

    assert b"forked process" in in_fork(draw)


@pytest.mark.slow
def test_threads_share_a_stream_without_repeating():
    stream = Stream()
    drawn: list[np.ndarray] = []

    def work() -> None:
        for n in (1, 50, 3000) * 40:
            drawn.append(stream.words64(n))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(drawn)
    # 732 240 words: two are equal by chance with probability 1.5e-8.
    assert np.unique(words).size == words.size == 6 * 40 * 3051


def test_a_worn_key_is_replaced_except_under_testing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(randomness, "_KEY_LIFE", 10_000)
    stream, replayable = Stream(), Stream.for_testing(1)
    first, kept = stream._keystream, replayable._keystream
    for s in (stream, replayable):
        s.words8(9_000)
        s.words8(9_000)
        s.words8(9_000)
    assert stream._keystream is not first
    assert replayable._keystream is kept


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_cannot_be_duplicated(duplicate: Callable[[Stream], object]):
    with pytest.raises(TypeError, match="repeat its noise"):
        duplicate(Stream())


def test_sampling_generators():
    assert generator(5).integers(1 << 60) == generator(5).integers(1 << 60)
    assert len({int(generator().integers(1 << 60)) for _ in range(50)}) == 50


def test_keys_of_places_draw_by_the_cipher_and_replay():
    key = place_key(b"secret", 2, 7)
    first, again = generator(key), generator(key)
    encryptor = Cipher(algorithms.AES(key.to_bytes(32, "big")), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(encryptor.update(bytes(8 * 4096)), "<u8") >> np.uint64(11)
    drawn = first.random(4096)
    assert np.array_equal(drawn, words / 2.0**53)
    assert np.array_equal(again.random(4096), drawn)
    # Two draws of 4096 numbers, each refused one time in a million.
    assert stats.kstest(drawn, "uniform").pvalue > 1e-6
    assert stats.chisquare(np.bincount(first.integers(3, 8, 4096))[3:]).pvalue > 1e-6
    assert sorted(first.permutation(50)) == list(range(50))
    assert sorted(first.permutation(np.arange(5, 9))) == [5, 6, 7, 8]
    assert 0 <= first.random() < 1
    with pytest.raises(AttributeError):
        first.normal()
    seeds = {place_key(b"secret", *place) for place in itertools.product(range(30), range(30))}
    seeds |= {place_key(b"secret", 1), place_key(b"other", 1)}
    assert len(seeds) == 902
    assert len({named_seed(key, names) for names in (("a",), ("b",), ("a", "b"))}) == 3
    assert named_seed(key, ("a",)) >= 1 << 255 > named_seed(5, ("a",)), "a key gives a key"


def test_public_coins_replay_for_ever():
    # Published structures depend on these numbers: a change of derivation must fail here.
    assert coins(b"public", "tree 1").integers(0, 1000, 5).tolist() == PINNED
    assert coins(b"public", "tree 2").integers(0, 1000, 5).tolist() != PINNED
    assert coins(b"publi", "ctree 1").integers(0, 1000, 5).tolist() != PINNED


PINNED = [493, 140, 36, 912, 213]


def test_nothing_else_near_private_rows_draws_from_numpy():
    package = Path(dipsmith.__file__).parent
    forbidden = re.compile(
        r"(np|numpy)\.random\.(?!Generator\b)|from numpy import .*\brandom\b|^\s*(import|from) random\b", re.M
    )
    files = [f for room in ("privacy", "methods", "counting", "consistency") for f in (package / room).rglob("*.py")]
    assert len(files) > 4
    offenders = [f.name for f in files if f.name != "randomness.py" and forbidden.search(f.read_text("utf-8"))]
    assert offenders == []
