"""Answers that were given before: exact tables, so that rows are not passed over twice for the same counts.

A table of some attributes answers every question about fewer of them, by a sum over it. Tables are kept apart by
block (the codes that are fixed) and by view (which rows count), up to a number of cells that is fixed beforehand;
what no longer fits is counted again when it is asked again.

Privacy
-------
Exact and private, as the rows are: `Remembered` is held by whoever counts, behind the curator, and nobody else. A
remembered answer is the array that another pass over the same rows would count, so whoever asks draws the same noise
and is charged the same (``docs/proofs/counting.md``, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

View = Literal["held", "lawful", "public"]
"""Which rows count: all that are held, those that break no rule, those that break no rule over public columns."""
Fixed = tuple[tuple[str, int], ...]
"""The codes that the rows of a block have."""
KEPT = 1 << 22
"""The most cells, or combinations of codes, that are remembered."""

Answer = TypeVar("Answer")


@dataclass(eq=False)
class Remembered(Generic[Answer]):
    """Earlier answers, until they are too many.

    Examples
    --------
    >>> memory: Remembered[str] = Remembered()
    >>> memory.keep((), "lawful", ("age", "sex"), 24, "a table of both")
    >>> memory.find((), "lawful", ["sex"]), memory.find((), "public", ["sex"])
    ('a table of both', None)
    """

    _shelves: dict[tuple[frozenset[tuple[str, int]], View], _Shelf[Answer]] = field(default_factory=dict)
    room: int = field(default_factory=lambda: KEPT)

    def find(self, fixed: Fixed, view: View, wanted: Iterable[str]) -> Answer | None:
        """The smallest answer about these rows that has all wanted attributes; None if there is none."""
        shelf = self._shelves.get((frozenset(fixed), view))
        return None if shelf is None else shelf.find(frozenset(wanted))

    def keep(self, fixed: Fixed, view: View, names: Iterable[str], size: int, answer: Answer) -> None:
        """Remember the answer about some attributes, if there is room; the answer must not change any more."""
        shelf = self._shelves.setdefault((frozenset(fixed), view), _Shelf())
        key = frozenset(names)
        if size <= self.room and key not in shelf.tables:
            self.room -= size
            shelf.put(key, size, answer)


@dataclass(eq=False)
class _Shelf(Generic[Answer]):
    """The answers about one block and view, by their attributes."""

    tables: dict[frozenset[str], tuple[int, Answer]] = field(default_factory=dict)
    having: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    widest: int = 0

    def put(self, names: frozenset[str], size: int, answer: Answer) -> None:
        self.tables[names] = (size, answer)
        self.widest = max(self.widest, len(names))
        for name in names:
            self.having.setdefault(name, []).append(names)

    def find(self, wanted: frozenset[str]) -> Answer | None:
        if wanted in self.tables:
            return self.tables[wanted][1]
        if len(wanted) >= self.widest:
            return None
        # some methods ask for tens of thousands of tables: only those with a wanted attribute are looked through
        some = min((self.having.get(name, []) for name in wanted), key=len, default=list(self.tables))
        fitting = (self.tables[names] for names in some if wanted <= names)
        return min(fitting, key=lambda held: held[0], default=(0, None))[1]
