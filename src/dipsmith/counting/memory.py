"""The one memory of exact counts, so that rows are not passed over twice for the same table.

A table of some attributes answers every question about fewer of them, by a sum over it. Tables are kept apart by
block (the codes that are fixed) and by view (which rows count), up to a number of cells that is fixed beforehand;
what no longer fits is counted again when it is asked again.

Privacy
-------
Exact and private, as the rows are: a memory belongs to whoever counts, behind the curator, and to nobody else. A
remembered answer is the array that another pass over the same rows would count, so whoever asks draws the same noise
and is charged the same (``docs/proofs/counting.md``, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import numpy as np

from dipsmith.arrays import Bools, Ints
from dipsmith.counting.joint import project_counts
from dipsmith.schema import Cells, Codes, Marginal

View = Literal["held", "lawful", "public"]
"""Which rows count: all that are held, those that break no rule, those that break no rule over public columns."""
Fixed = tuple[tuple[str, int], ...]
"""The codes that the rows of a block have."""
ROOM = 1 << 25
"""The most cells, or combinations of codes, that are remembered: 256 MB of counts."""

Answer = TypeVar("Answer")
_About = tuple[frozenset[tuple[str, int]], View]
"""Which rows an answer is about: block and view."""


def rows_in(codes: Codes, view: View, fixed: Fixed = ()) -> Bools:
    """Which of the rows that are held a view has, of those with the fixed codes."""
    inside = np.ones(len(codes), dtype=bool)
    if view != "held":
        names = [n for n in codes.names if view == "lawful" or codes.schema[n].role == "public"]
        inside &= codes.project(names).lawful()
    for name, code in fixed:
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

    def find(self, fixed: Fixed, view: View, wanted: Iterable[str]) -> Answer | None:
        """The smallest answer about these rows that has all wanted attributes; None if there is none."""
        about, names = (frozenset(fixed), view), frozenset(wanted)
        if (about, names) in self._tables:
            return self._tables[about, names][1]
        if len(names) >= self._widest.get(about, 0):
            return None
        # some methods ask for tens of thousands of tables: only those with a wanted attribute are looked through
        some = min((self._having.get((about, name), []) for name in names or (None,)), key=len)
        fitting = (self._tables[about, over] for over in some if names <= over)
        return min(fitting, key=lambda entry: entry[0], default=(0, None))[1]

    def keep(self, fixed: Fixed, view: View, names: Iterable[str], size: int, answer: Answer) -> None:
        """Remember the answer about some attributes, if there is room; the answer must not change any more."""
        about, key = (frozenset(fixed), view), frozenset(names)
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

    def recall(self, fixed: Fixed, view: View, cells: Sequence[Cells]) -> list[Ints | None]:
        """The counts of each partition; None where the rows have to be counted."""
        return [self._one(fixed, view, c) if isinstance(c, Marginal) else None for c in cells]

    def complete(
        self, fixed: Fixed, view: View, cells: Sequence[Cells], known: Sequence[Ints | None], fresh: Iterable[Ints]
    ) -> list[Ints]:
        """Put what was counted afresh in the places that are not known, and remember it."""
        answers, counted = [], iter(fresh)
        for table, counts in zip(cells, known, strict=True):
            answer = next(counted) if counts is None else counts
            if counts is None and isinstance(table, Marginal):
                answer.flags.writeable = False
                self._tables.keep(fixed, view, table.attributes, table.size, (table, answer))
            answers.append(answer)
        return answers

    def _one(self, fixed: Fixed, view: View, wanted: Marginal) -> Ints | None:
        found = self._tables.find(fixed, view, wanted.attributes)
        if found is None or found[0].attributes == wanted.attributes:
            return None if found is None else found[1]
        sizes = dict(zip(found[0].attributes, found[0].shape, strict=True))
        return project_counts(found[1], sizes, wanted.attributes)
