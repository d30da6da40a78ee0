"""A cell of a table: one question to one kind of release, and how often its intervals held the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.coverage.tally import REFUSED, Tally, wilson


@dataclass(frozen=True)
class Cell:
    """One question to one kind of release, all slopes together."""

    name: str
    answered: int
    refused: int
    held: float
    relative: float

    @classmethod
    def of(cls, name: str, tallies: Sequence[Tally]) -> Cell:
        """From the tallies of its coefficients."""
        told = [t for t in tallies if t.coefficient != REFUSED]
        intervals = sum(t.intervals for t in told)
        return cls(
            name,
            max((t.intervals for t in told), default=0),
            sum(t.runs for t in tallies if t.coefficient == REFUSED),
            sum(t.held for t in told) / intervals if intervals else float("nan"),
            sum(t.relative for t in told) / intervals if intervals else float("nan"),
        )

    @property
    def runs(self) -> int:
        """Releases."""
        return self.answered + self.refused

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, by runs."""
        return wilson(self.held * self.answered, self.answered)

    def __str__(self) -> str:
        if not self.runs:
            return ""
        if not self.answered:
            return "refused"
        low, high = self.interval
        some = f", {self.answered} of {self.runs} answered" if self.refused else ""
        return f"{share(self.held)} ({share(low)}–{share(high)}) ×{self.relative:.1f}{some}"


def share(value: float) -> str:
    """A share in three digits.

    >>> share(0.95), share(1.0)
    ('.950', '1')
    """
    return f"{value:.3f}".removeprefix("0") if round(value, 3) < 1 else "1"
