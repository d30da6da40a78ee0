"""Questions to the values of rows, answered by the curator's verb `ask`: a poll of parts, a public classification.

A question is a frozen value made of public facts. It says how far one unit moves its counts, and is priced by that; what it
counts is for the curator's eyes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.errors import UnsupportedError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.events import Measured
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Cells, Codes, Schema


class ValueQuestion(Protocol):
    """A question to the values of all rows."""

    @property
    def cells(self) -> Cells:
        """What is counted: its name, and how many numbers there are."""

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise that the counts are given for a price, and the event of it; refuses what it has no proof for."""

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact counts. Nothing else that can be seen may depend on the rows."""


@dataclass(frozen=True, eq=False)
class NamedCounts:
    """So many counts under one name, which are no partition of rows by their codes."""

    schema: Schema
    key: str
    size: int
    attributes: ClassVar[tuple[str, ...]] = ()

    def index(self, codes: Codes) -> Ints:
        """Refuse: codes alone do not say where a row is counted."""
        raise UnsupportedError(f"{self.key} is no partition of rows")

    def possible(self) -> None:
        """All numbers are possible."""

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """It does not factor."""
        return None, self
