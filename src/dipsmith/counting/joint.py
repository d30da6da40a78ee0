"""Joint tables: marginals of the same rows that overlap share the work of counting them.

The key of a row in a table is a mixed-radix number: the codes are its digits (Horner's rule). A set of
marginals is counted as one joint table as long as that table stays small, and each marginal is a sum over
it. All arithmetic is on integers, so the shared and the separate counts are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
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
        self.tables = _shared(self._marginals)
        self._counts = [np.zeros(table.size, dtype=np.int64) for table in self.tables]
        short = Counter(name for table in self.tables if table.short for name in table.sizes)
        self._widened = [name for name, times in short.items() if times > 1]
        self._scratch = _Scratch((), 0)

    def add(self, chunk: Codes) -> None:
        """Count more rows, few enough to stay in the processor's cache."""
        widened = None
        if self._widened:
            if len(chunk) > self._scratch.rows:
                self._scratch = _Scratch(self._widened, len(chunk))
            widened = self._scratch.widened(chunk)
        for table, counts in zip(self.tables, self._counts, strict=True):
            if widened is not None and table.short:
                accumulate(counts, self._scratch.key(table, widened))
            else:
                accumulate(counts, table.key(chunk))

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the counts so far, one array per marginal, in the order given."""
        found: dict[int, NDArray[np.int64]] = {}
        for table, counts in zip(self.tables, self._counts, strict=True):
            wanted = [self._marginals[i].attributes for i in table.members]
            found |= zip(table.members, table.sums(counts, wanted), strict=True)
        return [found[i] for i in range(len(self._marginals))]


class _Scratch:
    """Arrays that every chunk uses again: fresh ones of this size would be fresh pages each time, at twice the cost.

    Mixed types are added half as fast, so columns that several 16-bit keys read are widened once.
    """

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self.rows = rows
        self._columns = {name: np.empty(rows, dtype=np.uint16) for name in names}
        self._short = np.empty(rows, dtype=np.uint16)
        self._key = np.empty(rows, dtype=np.intp)

    def widened(self, chunk: Codes) -> Codes:
        """The chunk with its columns in 16 bits."""
        wide: dict[str, NDArray[np.unsignedinteger]] = {}
        for name, column in self._columns.items():
            wide[name] = column[: len(chunk)]
            wide[name][:] = chunk[name]
        return Codes(chunk.schema, {**chunk.columns, **wide}, len(chunk))

    def key(self, table: Joint, chunk: Codes) -> NDArray[np.integer]:
        """The cell of every row of a widened chunk: found in 16 bits, in the type that `bincount` wants."""
        short, key = self._short[: len(chunk)], self._key[: len(chunk)]
        _horner(short, chunk, list(table.sizes), list(table.sizes.values()))
        key[:] = short
        return key


@dataclass(frozen=True)
class Joint:
    """The cross-table of the attributes of several marginals."""

    sizes: dict[str, int]
    members: list[int]

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

    @property
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
    _horner(key, codes, names, sizes)
    return key


def _horner(key: NDArray[np.integer], codes: Codes, names: Sequence[str], sizes: Sequence[int]) -> None:
    key[:] = codes[names[0]] if names else 0
    for name, size in zip(names[1:], sizes[1:], strict=True):
        key *= size
        key += codes[name].astype(key.dtype, copy=False) if codes[name].dtype.itemsize >= 4 else codes[name]


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
