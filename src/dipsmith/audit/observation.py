"""What an audit sees of a run: each table with the noise drawn for it, each choice with its question, and strays.

An `Observation` rides on a testing stream (`dipsmith.privacy.observer`). It puts together what the curator, the samplers and
the stream tell one by one, and hands whole facts to an `Auditor`, whose answers the run goes on with.

Random bytes that are drawn, or rows that are read, while nothing is being answered are `strays`: noise that the audit does
not see, or a read that nobody paid for. An audit with strays proves nothing, so callers check that there are none.

Privacy
-------
An auditor sees exact counts of rows. It is for simulated tables and tests; nothing in a release uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.privacy.discovery import Discovery
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import NoiseLaw as NoiseLaw
from dipsmith.privacy.observer import ChoiceFact, PublicAnswer, Question, TableFact


@dataclass(frozen=True, eq=False)
class ObservedTable:
    """What the curator answered about a table, and the noise that was drawn for it.

    `at` are the cells that noise was added to (for tables too large to hold the occupied ones), `true` their counts; `laws`
    what noise was drawn from, one for each call, and `draws` all of it.
    """

    fact: TableFact
    at: Ints
    true: Ints
    laws: tuple[NoiseLaw, ...]
    draws: Ints


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice: what was asked, and the scores and law it was made by."""

    question: Question
    fact: ChoiceFact


class Auditor(Protocol):
    """Receives whole facts; what a method returns is what the run continues with: by default what was reported."""

    def on_table(self, seen: ObservedTable) -> Measurement:
        """A table was measured."""
        return seen.fact.answer

    def on_choice(self, seen: Choice) -> int:
        """A candidate was chosen."""
        return seen.fact.winner

    def on_public_answer(self, seen: PublicAnswer) -> None:
        """A free answer was given."""
        return

    def on_randomness(self, what: str, drawn: Any) -> Any:
        """Randomness that reads no rows: "coins", "order", "key", "runs", and "run" at the start of each run."""
        return drawn


class Observation:
    """The observer that an auditor listens through."""

    def __init__(self, auditor: Auditor) -> None:
        self.strays: list[str] = []
        self.on_public_answer, self.on_randomness = auditor.on_public_answer, auditor.on_randomness
        self._auditor = auditor
        self._questions: list[Question] = []
        self._noise: list[tuple[NoiseLaw, Ints]] = []

    @contextmanager
    def answering(self, question: Question) -> Iterator[None]:
        """Remember what is being answered."""
        self._questions.append(question)
        try:
            yield
        finally:
            self._questions.pop()

    def on_noise(self, law: NoiseLaw, noise: Ints) -> Ints:
        """Keep the noise for the table that it belongs to."""
        self._noise.append((law, noise.ravel().copy()))
        return noise

    def on_table(self, fact: TableFact) -> Measurement:
        """Hand on a table with its noise."""
        at = fact.noisy_cells()
        true = fact.true if fact.occupied is not None else fact.true[at]
        noise, self._noise = self._noise, []
        draws = np.concatenate([np.empty(0, np.int64), *(drawn for _, drawn in noise)])
        return self._auditor.on_table(ObservedTable(fact, at, true, tuple(law for law, _ in noise), draws))

    def on_values(self, values: Discovery) -> Discovery:
        """Values were discovered, by noise that belongs to no table."""
        self._noise = []
        return values

    def on_choice(self, fact: ChoiceFact) -> int:
        """Hand on a choice with its question."""
        return self._auditor.on_choice(Choice(self._questions[-1], fact))

    def on_draw(self, count: int) -> None:
        """Note random bytes that no answer was drawn by."""
        if not self._questions:
            self.strays.append(f"{count} random bytes were drawn outside every mechanism")

    def on_read(self, what: str) -> None:
        """Note a read that no answer was given for; a block of rows (`within`) is not read before it is counted."""
        if not self._questions and what != "within":
            self.strays.append(f"rows were read outside every mechanism ({what})")
