"""The table sampler is the inverse-distribution method applied to a real number."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Context, Decimal, localcontext
from itertools import accumulate

import numpy as np
import pytest

from dipsmith.privacy.lookup import _OPEN, Boundaries, Lookup
from dipsmith.privacy.randomness import Stream

DEPTH = 512


class Scripted(Stream):
    """A stream that draws one uniform number, given by its first 512 digits."""

    def __init__(self, digits: int) -> None:
        super().__init__()
        self.digits = digits
        self.used = 0

    def take(self, k: int) -> int:
        self.used += k
        assert self.used <= DEPTH
        return self.digits >> (DEPTH - self.used) & (1 << k) - 1

    def words16(self, n: int) -> np.ndarray:
        assert n == 1
        return np.array([self.take(16)], np.uint16)

    def words64(self, n: int) -> np.ndarray:
        assert n == 1
        # The sampler uses the upper 48 bits of this word.
        return np.array([self.take(48) << 16], np.uint64)

    def bits(self, k: int) -> int:
        return self.take(k)


def law(weights: list[Decimal]) -> tuple[Boundaries, list[Decimal]]:
    """A law from decimal weights: enclosures for the table, exact numbers for the check."""
    with localcontext(Context(prec=220)):
        total = sum(weights)
        cumulative = [c / total for c in accumulate(weights)][:-1]

    def at(bits: int) -> list[tuple[int, int]]:
        with localcontext(Context(prec=220)):
            floors = [int(c * 2**bits) for c in cumulative]
        return [(f, f + 1) for f in floors]

    return at, cumulative


def weights_of(kind: str) -> list[Decimal]:
    with localcontext(Context(prec=220)):
        if kind == "geometric":
            return [Decimal(-j).exp() for j in range(60)]
        if kind == "flat":
            return [(-Decimal(j) / 1000).exp() for j in range(300)]
        if kind == "bell":
            return [(-Decimal(j * j) / 50).exp() for j in range(-40, 41)]
        # more outcomes than digits can tell apart in a first and second word
        return [Decimal(2) ** -(3 * j) for j in range(60)]


KINDS = ["geometric", "flat", "bell", "steep"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_bucket_is_certain_or_open(kind: str):
    boundaries, cumulative = law(weights_of(kind))
    table = Lookup.build(boundaries, 10, tails=False)
    with localcontext(Context(prec=220)):
        for bucket, outcome in enumerate(table.outcomes.tolist()):
            first = bisect_right(cumulative, Decimal(bucket) / 65536)
            last = bisect_right(cumulative, Decimal(bucket + 1) / 65536 - Decimal(2) ** -80)
            if outcome != _OPEN:
                assert first == last == outcome - 10
    open_buckets = int((table.outcomes == _OPEN).sum())
    assert 0 < open_buckets <= len(cumulative)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [64, 128, 192, 256])
def test_outcomes_turn_exactly_at_the_boundaries(kind: str, depth: int):
    # U agrees with C_j on `depth` digits but the last: ties are forced at every earlier word.
    boundaries, cumulative = law(weights_of(kind))
    table = Lookup.build(boundaries, 0, tails=False)
    with localcontext(Context(prec=220)):
        for c in cumulative[:: max(1, len(cumulative) // 25)]:
            digits = int(c * 2**depth)
            for u in (digits - 1, digits + 1):
                if not 0 <= u < 2**depth:
                    continue
                # the digits after `depth` are 0101…: they are not to matter
                number = u << (DEPTH - depth) | int("01" * 256, 2) >> depth
                stream = Scripted(number)
                outcome = int(table.draw(stream, 1)[0][0])
                assert outcome == bisect_right(cumulative, Decimal(number) / Decimal(2) ** DEPTH)
                if kind != "steep" and u == digits - 1:  # a steep boundary is 0.111000…, u 0.110111…
                    assert stream.used >= depth - 64


def test_many_boundaries_inside_one_word_are_told_apart():
    # 60 outcomes with probabilities 8^-j: the last forty share their first 64 digits.
    boundaries, cumulative = law(weights_of("steep"))
    table = Lookup.build(boundaries, 0, tails=False)
    with localcontext(Context(prec=220)):
        for j in range(22, 40):
            middle = int((cumulative[j] + cumulative[j + 1]) / 2 * 2**DEPTH)
            stream = Scripted(middle)
            assert int(table.draw(stream, 1)[0][0]) == j + 1
            assert stream.used > 64


def test_exhaustive_over_every_20_bit_number():
    # Boundaries at multiples of 2⁻²⁰: over all 2²⁰ prefixes, each followed by the same digits, every
    # outcome comes up exactly in proportion to its probability.
    parts = [1, 15, 16, 17, 1000, 65536, 3, 0x7FFFF]
    parts.append((1 << 20) - sum(parts))
    edges = list(accumulate(parts))[:-1]

    class Every(Stream):
        def words16(self, n: int) -> np.ndarray:
            return (np.arange(n) >> 4).astype(np.uint16)

        def words64(self, n: int) -> np.ndarray:
            assert n % 16 == 0  # whole buckets are refined, in order
            return np.tile(np.arange(16, dtype=np.uint64), n // 16) << np.uint64(60) | np.uint64(1 << 59)

    table = Lookup.build(lambda bits: [(e << bits - 20, (e << bits - 20) + 1) for e in edges], 0, tails=False)
    drawn, rare = table.draw(Every(), 1 << 20)
    assert np.bincount(drawn).tolist() == parts
    assert 0 < rare.size <= 16 * len(edges)


def test_tails_are_always_among_the_rare_positions():
    boundaries, _ = law([Decimal(1), Decimal(2), Decimal(1)])
    stream = Stream.for_testing(0)
    drawn, rare = Lookup.build(boundaries, -1, tails=True).draw(stream, 10_000)
    assert set(np.flatnonzero(drawn != 0)) <= set(rare.tolist())
    drawn, rare = Lookup.build(boundaries, -1, tails=False).draw(stream, 10_000)
    assert rare.size < 10
    assert set(drawn.tolist()) == {-1, 0, 1}
