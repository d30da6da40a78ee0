"""What a page says, before how it looks: headings, sentences, tables and figures as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table with a caption; numbers are right-aligned, the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    note: str = ""

    @classmethod
    def of(
        cls,
        caption: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str | int | float | None]],
        note: str = "",
    ) -> Table:
        """Make a table from any sequences."""
        return cls(caption, tuple(columns), tuple(tuple(r) for r in rows), note)


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG text, the finding it shows, and its numbers as a table behind it."""

    title: str
    svg: str
    caption: str
    alternative: str
    numbers: Table | None = None


@dataclass(frozen=True)
class Facts:
    """Short facts, name and value."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    """A command or a few lines of code to copy."""

    text: str


Block = str | Table | Figure | Facts | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """One self-contained page. `confidential` puts the red band on the screen and on every printed page."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    confidential: bool = False
    stamp: str = ""
    footer: str = ""
