"""Joint tables: marginals of the same rows that overlap share the work of counting them.

The key of a row in a table is a mixed-radix number: the codes are its digits (Horner's rule). A set of
marginals is counted as one joint table as long as that table stays small, and each marginal is a sum over
it. All arithmetic is on integers, so the shared and the separate counts are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dipsmith.schema import Codes, Marginal

JOINT = 1 << 16
"""The most cells of a joint table that is made for sharing: its counts fit in the second-level cache."""
SUMMED = 1 << 20
"""The most cells of a joint table, counted in any case, that marginals are summed from."""
_ONE = np.int64(1)  # a Python integer would send add.at down its slow path


class Joints:
    """Dense counts of marginals, fed chunk by chunk."""

    def __init__(self, marginals: Sequence[Marginal]) -> None:
        self._marginals = list(marginals)
        self.tables, self._terms = _in_terms(_shared(self._marginals))
        self._counts = [np.zeros(table.size, dtype=np.int64) for table in self.tables]
        self._scratch = _Scratch((), 0)

    def add(self, chunk: Codes) -> None:
        """Count more rows, few enough to stay in the processor's cache."""
        if self._terms and len(chunk) > self._scratch.rows:
            self._scratch = _Scratch(self._terms, len(chunk))
        terms = self._scratch.terms(chunk)
        for table, counts in zip(self.tables, self._counts, strict=True):
            if self._terms and table.short:
                accumulate(counts, self._scratch.key(table, chunk, terms))
            else:
                accumulate(counts, table.key(chunk))

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the counts so far, one array per marginal, in the order given."""
        found: dict[int, NDArray[np.int64]] = {}
        for table, counts in zip(self.tables, self._counts, strict=True):
            wanted = [self._marginals[i].attributes for i in table.members]
            found |= zip(table.members, table.sums(counts, wanted), strict=True)
        return [found[i] for i in range(len(self._marginals))]


Term = tuple[str, ...]
"""Attributes that are next to one another in every table that has one of them: one digit of its keys."""


class _Scratch:
    """Arrays that every chunk uses again: fresh ones of this size would be fresh pages each time, at twice the cost.

    Mixed types are added half as fast, so what several 16-bit keys read is put together and widened once.
    """

    def __init__(self, terms: Sequence[Term], rows: int) -> None:
        self.rows = rows
        self._terms = {term: np.empty(rows, dtype=np.uint16) for term in terms}
        self._byte = np.empty(rows, dtype=np.uint8)
        self._short = np.empty(rows, dtype=np.uint16)
        self._key = np.empty(rows, dtype=np.intp)

    def terms(self, chunk: Codes) -> dict[Term, NDArray[np.unsignedinteger]]:
        """The digits that several keys have, in 16 bits; those of few values are found in a byte each."""
        found: dict[Term, NDArray[np.unsignedinteger]] = {}
        for term, room in self._terms.items():
            digit = found[term] = room[: len(chunk)]
            sizes = [chunk.schema[name].size for name in term]
            if len(term) > 1 and prod(sizes) < 1 << 8:
                byte = self._byte[: len(chunk)]
                _horner(byte, [chunk[name] for name in term], sizes)
                digit[:] = byte
            else:
                _horner(digit, [chunk[name] for name in term], sizes)
        return found

    def key(
        self, table: Joint, chunk: Codes, terms: dict[Term, NDArray[np.unsignedinteger]]
    ) -> NDArray[np.integer]:
        """The cell of every row of a chunk: found in 16 bits, in the type that `bincount` wants."""
        short, key = self._short[: len(chunk)], self._key[: len(chunk)]
        digits = [terms[term] if term in terms else chunk[term[0]] for term in table.digits]
        _horner(short, digits, [prod(table.sizes[name] for name in term) for term in table.digits])
        key[:] = short
        return key


@dataclass(frozen=True)
class Joint:
    """The cross-table of the attributes of several marginals.

    Attributes
    ----------
    sizes
        Its axes, in their order.
    members
        Which marginals are summed from it.
    digits
        Its axes once more: those together that other tables have together as well.
    """

    sizes: dict[str, int]
    members: list[int]
    digits: tuple[Term, ...] = ()

    @classmethod
    def of(cls, members: Sequence[int], marginals: Sequence[Marginal]) -> Joint:
        """The joint table of some marginals, of which the first is the largest.

        Its axes are in the order of the largest if that spans them all, else the short ones come first: sums
        over the first axes are the fastest, and those over the last ones want long axes.
        """
        among = [marginals[i] for i in members]
        sizes = {name: size for m in among for name, size in zip(m.attributes, m.shape, strict=True)}
        if len(sizes) > len(among[0].attributes):
            sizes = dict(sorted(sizes.items(), key=lambda item: item[1]))
        return cls(sizes, list(members))

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.sizes.values())

    @cached_property
    def short(self) -> bool:
        """Whether its keys take 16 bits."""
        return _short(self.sizes.values())

    def key(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of every row."""
        return mixed_radix(codes, list(self.sizes), list(self.sizes.values()))

    def sums(
        self, counts: NDArray[np.int64], wanted: Sequence[tuple[str, ...]]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the counts of each marginal; a smaller one that comes later is a sum over a larger one."""
        known = {frozenset(self.sizes): (tuple(self.sizes), counts)}
        for attributes in wanted:
            kept = frozenset(attributes)
            fitting = (known[over] for over in known if kept <= over)
            names, table = min(fitting, key=lambda found: len(found[1]))
            table = summed(table, [self.sizes[name] for name in names], [name in kept for name in names])
            names = tuple(name for name in names if name in kept)
            known.setdefault(kept, (names, table))
            order = [names.index(name) for name in attributes]
            shaped = table.reshape([self.sizes[name] for name in names]).transpose(order)
            yield shaped.ravel() if len(wanted) == 1 else shaped.flatten()


def mixed_radix(codes: Codes, names: Sequence[str], sizes: Sequence[int]) -> NDArray[np.integer]:
    """Return the cell of every row in the cross-table of `names`, in the smallest type that is fast."""
    kind: DTypeLike = np.uint16 if _short(sizes) else np.int32 if prod(sizes) <= 1 << 31 else np.int64
    key: NDArray[np.integer] = np.empty(len(codes), dtype=kind)
    _horner(key, [codes[name] for name in names], sizes)
    return key


def _horner(
    key: NDArray[np.integer], digits: Sequence[NDArray[np.unsignedinteger]], sizes: Sequence[int]
) -> None:
    if len(digits) < 2 or digits[0].dtype != key.dtype:
        key[:] = digits[0] if digits else 0
        first = key
    else:
        first = digits[0]
    for digit, size in zip(digits[1:], sizes[1:], strict=True):
        np.multiply(first, size, out=key)
        key += digit.astype(key.dtype, copy=False) if digit.dtype.itemsize >= 4 else digit
        first = key


def accumulate(
    counts: NDArray[np.int64], keys: NDArray[np.integer], often: NDArray[np.int64] | None = None
) -> None:
    """Count rows, or combinations that occur so often, by their cells."""
    if often is not None:
        np.add.at(counts, keys.astype(np.intp, copy=False), often)
    elif len(counts) <= 2 * len(keys):
        counts += np.bincount(keys, minlength=len(counts))
    else:
        # bincount would allocate and add the whole table for every chunk
        np.add.at(counts, keys.astype(np.intp, copy=False), _ONE)


def summed(counts: NDArray[np.int64], sizes: Sequence[int], kept: Sequence[bool]) -> NDArray[np.int64]:
    """Sum a table over the axes that are not kept, the longest first: it shrinks most.

    One axis at a time between what is before and behind it, and by `einsum`: `sum` takes three to eight times
    as long over the last axes of a table of counts.
    """
    shape = list(sizes)
    for axis in sorted(range(len(shape)), key=lambda axis: -shape[axis]):
        if not kept[axis]:
            before, behind = prod(shape[:axis]), prod(shape[axis + 1 :])
            counts = np.einsum("ijk->ik", counts.reshape(before, shape[axis], behind)).ravel()
            shape[axis] = 1
    return counts


def _short(sizes: Collection[int]) -> bool:
    """Whether the cells, and the radices themselves, can be numbered in 16 bits."""
    return prod(sizes) <= 1 << 16 and max(sizes, default=1) < 1 << 16


def _in_terms(tables: Sequence[Joint]) -> tuple[list[Joint], list[Term]]:
    """Put axes that the same 16-bit tables have next to one another; return the digits that several tables share."""
    among: dict[str, list[int]] = {}
    for i, table in enumerate(tables):
        for name in table.sizes if table.short else ():
            among.setdefault(name, []).append(i)
    made: list[Joint] = []
    shared: dict[Term, None] = {}
    for table in tables:
        if not table.short:
            made.append(table)
            continue
        together: dict[tuple[int, ...], list[str]] = {}
        for name in table.sizes:
            together.setdefault(tuple(among[name]), []).append(name)
        digits: list[Term] = []
        for places, names in together.items():
            names = sorted(names, key=list(among).index)
            digits += [tuple(names)] if len(places) > 1 else [(name,) for name in names]
            shared |= {tuple(names): None} if len(places) > 1 else {}
        sizes = {name: table.sizes[name] for term in digits for name in term}
        made.append(Joint(sizes, table.members, tuple(digits)))
    return made, list(shared)


def _shared(marginals: Sequence[Marginal]) -> list[Joint]:
    """Put marginals into joint tables: the largest first, each where it makes the smallest table."""
    sizes = {name: size for m in marginals for name, size in zip(m.attributes, m.shape, strict=True)}
    place = {name: row for row, name in enumerate(sizes)}
    radix = np.array(list(sizes.values()), dtype=float)[:, None]
    joined: list[list[int]] = []
    has = np.zeros((len(sizes), len(marginals)), dtype=bool)
    cells = np.ones(len(marginals))
    for i in sorted(range(len(marginals)), key=lambda i: -marginals[i].size):
        rows, now = [place[name] for name in marginals[i].attributes], len(joined)
        growth = np.where(has[rows, :now], 1.0, radix[rows]).prod(axis=0)
        grown = cells[:now] * growth
        within = (growth == 1) & ((grown <= SUMMED) | (grown == marginals[i].size))
        fits = within if within.any() else (growth > 1) & (grown <= JOINT)
        best = int(np.where(fits, grown, np.inf).argmin()) if fits.any() else now
        if best == now:
            joined.append([])
        cells[best] = grown[best] if best < now else marginals[i].size
        has[rows, best] = True
        joined[best].append(i)
    return [Joint.of(members, marginals) for members in joined]
