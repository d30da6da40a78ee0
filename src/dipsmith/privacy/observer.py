"""The observer: how an audit watches a curator from inside, on rows that need no protection.

The curator, the samplers and the stream tell an `Observer` what they answer: every noisy table with the true
counts behind it, every choice with its exact scores, every free answer, every random order or number of runs. What
the observer returns is what goes on, so that a run can be replayed with the answers of another one.

Privacy
-------
An observer sees exact counts. It lives on a *testing* stream (`Stream.for_testing`) and nowhere else: no curator, method
or release takes one by itself, and a stream that draws real noise has none and cannot be given one. A testing stream's noise
is known to whoever has its seed, which voids every guarantee anyway, and `synthesize` accepts one only with
``testing=True``, which the card says (NOT PRIVATE). Where there is no observer nothing is reported: each place that would
report asks `Stream.observer` first. ``tests/privacy/test_observer.py`` holds all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.counting.count import Rows
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Cells

if TYPE_CHECKING:  # what is watched imports this module
    from dipsmith.privacy.curator import Curator
    from dipsmith.privacy.discovery import Discovery
    from dipsmith.privacy.noise import NoiseLaw
    from dipsmith.privacy.randomness import Stream
    from dipsmith.privacy.score import Score
    from dipsmith.privacy.selection import Law

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Question:
    """What a curator, or a stream, is about to answer.

    The verb is "measure", "choose", "discover", "best of", "public counts", "public rows" or "rows"; of a stream "coins" (a curator's
    public seed), "key" (by which rows beyond `max_rows` are left out) or "order" (of labelled rows), and then there
    is no curator. Candidates (a copy), score and budget are those of a choice.
    """

    verb: str
    curator: Curator | None = None
    rows: Rows | None = None
    candidates: Sequence[Any] = ()
    score: Score[Any] | None = None
    budget: Budget | None = None


@dataclass(frozen=True, eq=False)
class TableFact:
    """A noisy table and the counts behind it.

    `true` are the exact counts: of every cell, or for tables too large to hold of the `occupied` ones.
    """

    curator: Curator
    rows: Rows
    cells: Cells
    budget: Budget
    true: Ints
    occupied: Ints | None
    answer: Measurement

    def noisy_cells(self) -> Ints:
        """The cells that a draw of its own was added to; for tables too large to hold the occupied ones."""
        if self.occupied is not None:
            return self.occupied
        noisy = self.answer.noisy
        cells = np.arange(self.cells.size) if noisy is None else np.flatnonzero(noisy)
        return cells[cells % 2 == 1] if self.answer.single else cells


@dataclass(frozen=True, eq=False)
class ChoiceFact:
    """A choice: the exact scores, the law, and the index of the winner. Who asked is in the `Question`."""

    scores: Floats
    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool
    law: Law
    winner: int


@dataclass(frozen=True, eq=False)
class PublicAnswer:
    """An answer that cost nothing: "public counts", "public rows" or "rows"."""

    curator: Curator
    what: str
    answer: Any


class Observer(Protocol):
    """Watches a run. What a method returns is what the run continues with: by default what was reported."""

    def answering(self, question: Question) -> AbstractContextManager[object]:
        """Something is being answered until the context ends; draws and reads at any other time are strays."""
        return nullcontext()

    def on_table(self, fact: TableFact) -> Measurement:
        """A table was measured."""
        return fact.answer

    def on_values(self, values: Discovery) -> Discovery:
        """Values were discovered."""
        return values

    def on_choice(self, fact: ChoiceFact) -> int:
        """A candidate was chosen."""
        return fact.winner

    def on_public_answer(self, fact: PublicAnswer) -> None:
        """A free answer was given."""
        return

    def on_noise(self, law: NoiseLaw, noise: Ints) -> Ints:
        """Noise was drawn, before it is added to anything; copy it to keep it."""
        return noise

    def on_randomness(self, what: str, drawn: Any) -> Any:
        """Randomness that reads no rows: "coins", "order", "key", "runs", and "run" (None) as each run starts."""
        return drawn

    def on_draw(self, count: int) -> None:
        """So many random bytes were taken from the stream."""
        return

    def on_read(self, what: str) -> None:
        """Rows are read, or counts that were kept of them; `what` is the verb of `Rows`."""
        return


class Witness:
    """Tells the observer of a testing stream what a curator answers; silent where there is none."""

    def __init__(self, stream: Stream, rows: Rows) -> None:
        self._observer = stream.observer
        self._rows = rows.rows if isinstance(rows, _ObservedRows) else rows

    def answering(
        self,
        curator: Curator,
        verb: str,
        candidates: Sequence[Any] = (),
        score: Score[Any] | None = None,
        budget: Budget | None = None,
    ) -> AbstractContextManager[object]:
        """The time during which a curator answers."""
        if self._observer is None:
            return nullcontext()
        return self._observer.answering(Question(verb, curator, self._rows, list(candidates), score, budget))

    def on_public_answer(self, curator: Curator, what: str, answer: T) -> T:
        """A free answer."""
        if self._observer is not None:
            self._observer.on_public_answer(PublicAnswer(curator, what, answer))
        return answer

    def on_values(self, values: Discovery) -> Discovery:
        """Discovered values, as the observer returns them."""
        return values if self._observer is None else self._observer.on_values(values)

    def on_table(self, curator: Curator, answer: Measurement, true: Ints, occupied: Ints | None = None) -> Measurement:
        """A noisy table, as the observer returns it."""
        if self._observer is None:
            return answer
        fact = TableFact(curator, self._rows, answer.cells, answer.budget, true, occupied, answer)
        return self._observer.on_table(fact)


def observed_rows(rows: Rows, observer: Observer | None) -> Rows:
    """The same rows, which tell the observer whenever they are read; the rows themselves where nobody watches."""
    if observer is None or isinstance(rows, _ObservedRows):
        return rows
    return cast("Rows", _ObservedRows(rows, observer))


class _ObservedRows:
    """Rows that tell an observer of everything but the schema, which is public."""

    def __init__(self, rows: Rows, observer: Observer) -> None:
        self.rows, self.schema, self._observer = rows, rows.schema, observer

    def within(self, attribute: str, code: int) -> Rows:
        """The block of rows with this code; the observer hears when it is read."""
        return observed_rows(self.rows.within(attribute, code), self._observer)

    def steps(self) -> Rows:
        """Steps, entries or lines of households; the observer hears when they are read."""
        return observed_rows(self.rows.steps(), self._observer)

    def with_larger_places(self, level: int) -> Rows:
        """The rows with larger places; the observer hears when they are read."""
        return observed_rows(self.rows.with_larger_places(level), self._observer)

    def with_fewer_steps(self, most: int, away: bool = False) -> Rows:
        """Some steps of each unit; the observer hears when they are read."""
        return observed_rows(self.rows.with_fewer_steps(most, away), self._observer)

    def __getattr__(self, verb: str) -> Any:
        self._observer.on_read(verb)
        return getattr(self.rows, verb)
