"""The one memory of exact counts, so that rows are not passed over twice for the same table.

A table of some attributes answers every question about fewer of them, by a sum over it. Tables are kept apart by
block (the codes that are fixed) and by view (which rows count), up to a number of cells that is fixed beforehand;
what no longer fits is counted again when it is asked again.

Privacy
-------
Exact and private, as the rows are: a memory belongs to whoever counts, behind the curator, and to nobody else. A
remembered answer is the array that another pass over the same rows would count, so whoever asks draws the same noise
and is charged the same (``docs/proofs/counting.md``, section 4).

Marginals of the same rows that overlap share the work of counting them (*joint tables*). The key of a row in a table is
a mixed-radix number: the codes are its digits (Horner's rule). A set of marginals is counted as one joint table as long
as that table stays small, and each marginal is a sum over it. All arithmetic is on integers, so the shared and the
separate counts are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.schema import Cells, Codes, Marginal

View = Literal["held", "lawful", "public"]
"""Which rows count: all that are held, those that break no rule, those that break no rule over public columns."""
FixedCodes = tuple[tuple[str, int], ...]
"""The codes that the rows of a block have."""
ROOM = 1 << 25
"""The most cells, or combinations of codes, that are remembered: 256 MB of counts."""

Answer = TypeVar("Answer")
_About = tuple[frozenset[tuple[str, int]], View]
"""Which rows an answer is about: block and view."""


def rows_in(codes: Codes, view: View, fixed_codes: FixedCodes = ()) -> Bools:
    """Which of the rows that are held a view has, of those with the fixed codes."""
    inside = np.ones(len(codes), dtype=bool)
    if view != "held":
        names = [n for n in codes.names if view == "lawful" or codes.schema[n].role == "public"]
        inside &= codes.project(names).lawful()
    for name, code in fixed_codes:
        inside &= codes[name] == code
    return inside


@dataclass(eq=False)
class AnswerMemory(Generic[Answer]):
    """Earlier answers about sets of attributes, until they are too many.

    >>> memory: AnswerMemory[str] = AnswerMemory()
    >>> memory.keep((), "lawful", ("age", "sex"), 24, "a table of both")
    >>> memory.find((), "lawful", ["sex"]), memory.find((), "public", ["sex"])
    ('a table of both', None)
    """

    room: int = field(default_factory=lambda: ROOM)
    _tables: dict[tuple[_About, frozenset[str]], tuple[int, Answer]] = field(default_factory=dict)
    _having: dict[tuple[_About, str | None], list[frozenset[str]]] = field(default_factory=dict)
    _widest: dict[_About, int] = field(default_factory=dict)

    def find(self, fixed_codes: FixedCodes, view: View, wanted: Iterable[str]) -> Answer | None:
        """The smallest answer about these rows that has all wanted attributes; None if there is none."""
        about, names = (frozenset(fixed_codes), view), frozenset(wanted)
        if (about, names) in self._tables:
            return self._tables[about, names][1]
        if len(names) >= self._widest.get(about, 0):
            return None
        # some methods ask for tens of thousands of tables: only those with a wanted attribute are looked through
        some = min((self._having.get((about, name), []) for name in names or (None,)), key=len)
        fitting = (self._tables[about, over] for over in some if names <= over)
        return min(fitting, key=lambda entry: entry[0], default=(0, None))[1]

    def keep(self, fixed_codes: FixedCodes, view: View, names: Iterable[str], size: int, answer: Answer) -> None:
        """Remember the answer about some attributes, if there is room; the answer must not change any more."""
        about, key = (frozenset(fixed_codes), view), frozenset(names)
        if size <= self.room and (about, key) not in self._tables:
            self.room -= size
            self._tables[about, key] = (size, answer)
            self._widest[about] = max(self._widest.get(about, 0), len(key))
            for name in (*key, None):
                self._having.setdefault((about, name), []).append(key)


class CountMemory:
    """Tables of counts that rows of any kind remember; nobody can write into the arrays."""

    def __init__(self) -> None:
        self._tables: AnswerMemory[tuple[Marginal, Ints]] = AnswerMemory()

    def recall(self, fixed_codes: FixedCodes, view: View, cells: Sequence[Cells]) -> list[Ints | None]:
        """The counts of each partition; None where the rows have to be counted."""
        return [self._one(fixed_codes, view, c) if isinstance(c, Marginal) else None for c in cells]

    def complete(
        self,
        fixed_codes: FixedCodes,
        view: View,
        cells: Sequence[Cells],
        known: Sequence[Ints | None],
        fresh: Iterable[Ints],
    ) -> list[Ints]:
        """Put what was counted afresh in the places that are not known, and remember it."""
        answers, counted = [], iter(fresh)
        for table, counts in zip(cells, known, strict=True):
            answer = next(counted) if counts is None else counts
            if counts is None and isinstance(table, Marginal):
                answer.flags.writeable = False
                self._tables.keep(fixed_codes, view, table.attributes, table.size, (table, answer))
            answers.append(answer)
        return answers

    def _one(self, fixed_codes: FixedCodes, view: View, wanted: Marginal) -> Ints | None:
        found = self._tables.find(fixed_codes, view, wanted.attributes)
        if found is None or found[0].attributes == wanted.attributes:
            return None if found is None else found[1]
        sizes = dict(zip(found[0].attributes, found[0].shape, strict=True))
        return project_counts(found[1], sizes, wanted.attributes)


JOINT = 1 << 16
"""The most cells of a joint table that is made for sharing: its counts fit in the second-level cache."""
SUMMED = 1 << 20
"""The most cells of a joint table, counted in any case, that marginals are summed from."""
_ONE = np.int64(1)  # a Python integer would send add.at down its slow path


@dataclass(frozen=True)
class Joint:
    """The cross-table of the attributes of several marginals: its axes in their order, and which it is summed to."""

    sizes: dict[str, int]
    members: list[int]

    @classmethod
    def of(cls, members: Sequence[int], marginals: Mapping[int, Marginal]) -> Joint:
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

    def key(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of every row."""
        return mixed_radix(codes, list(self.sizes), list(self.sizes.values()))

    def sums(self, counts: Ints, wanted: Sequence[tuple[str, ...]]) -> Iterator[Ints]:
        """Yield the counts of each marginal; a smaller one that comes later is a sum over a larger one."""
        known = {frozenset(self.sizes): (tuple(self.sizes), counts)}
        for attributes in wanted:
            fitting = (known[over] for over in known if over.issuperset(attributes))
            names, table = min(fitting, key=lambda found: len(found[1]))
            made = project_counts(table, {name: self.sizes[name] for name in names}, attributes)
            known.setdefault(frozenset(attributes), (attributes, made))
            yield made if len(wanted) == 1 else made.copy()


def joint_tables(marginals: Mapping[int, Marginal]) -> list[Joint]:
    """Put marginals into joint tables: the largest first, each where it makes the smallest table."""
    sizes = {name: size for m in marginals.values() for name, size in zip(m.attributes, m.shape, strict=True)}
    place = {name: row for row, name in enumerate(sizes)}
    radix = np.array(list(sizes.values()), dtype=float)[:, None]
    joined: list[list[int]] = []
    has = np.zeros((len(sizes), len(marginals)), dtype=bool)
    cells = np.ones(len(marginals))
    for i in sorted(marginals, key=lambda i: -marginals[i].size):
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


def mixed_radix(codes: Codes, names: Sequence[str], sizes: Sequence[int]) -> NDArray[np.integer]:
    """Return the cell of every row in the cross-table of `names`, in the smallest type that is fast."""
    cells = prod(sizes)
    short = cells <= 1 << 16 and max(sizes, default=1) < 1 << 16
    kind: DTypeLike = np.uint16 if short else np.int32 if cells <= 1 << 31 else np.int64
    if not names:
        return np.zeros(len(codes), dtype=kind)
    key: NDArray[np.integer] = codes[names[0]].astype(kind)
    for name, size in zip(names[1:], sizes[1:], strict=True):
        key *= size
        key += codes[name].astype(key.dtype, copy=False) if codes[name].itemsize >= 4 else codes[name]
    return key


def accumulate(counts: Ints, keys: NDArray[np.integer], often: Ints | None = None) -> None:
    """Count rows, or combinations that occur so often, by their cells."""
    if often is not None:
        np.add.at(counts, keys.astype(np.intp, copy=False), often)
    elif len(counts) <= 2 * len(keys):
        counts += np.bincount(keys, minlength=len(counts))
    else:
        # bincount would allocate and add the whole table for every chunk
        np.add.at(counts, keys.astype(np.intp, copy=False), _ONE)


def project_counts(counts: Ints, sizes: Mapping[str, int], wanted: Sequence[str]) -> Ints:
    """The counts of some attributes, in the given order, from those of more.

    Summed over one axis at a time, the longest first, and by `einsum`: `sum` takes three to eight times as long
    over the last axes of a table of counts.

    >>> project_counts(np.arange(8), {"x": 2, "y": 2, "z": 2}, "zx").tolist()
    [2, 10, 4, 12]
    """
    names, shape = list(sizes), list(sizes.values())
    for axis in sorted(range(len(shape)), key=lambda axis: -shape[axis]):
        if names[axis] not in wanted:
            before, behind = prod(shape[:axis]), prod(shape[axis + 1 :])
            counts = np.einsum("ijk->ik", counts.reshape(before, shape[axis], behind)).ravel()
            shape[axis] = 1
    left = [name for name in names if name in wanted]
    shaped = counts.reshape([sizes[name] for name in left])
    return shaped.transpose([left.index(name) for name in wanted]).ravel()
