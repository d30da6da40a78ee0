"""What a page says, before how it looks: headings, sentences, tables and figures as frozen values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A table with a caption; numbers are right-aligned, the first column names the row.

    Readers find rows by their `marks`, those of a figure's `searched` names; rows marked `more` are shown only when found.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            fit = f"does not fit its {len(self.columns)} columns"
            raise ValueError(f"table '{self.caption}' has a row that {fit}")

    @classmethod
    def of(cls, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = "") -> Table:
        """Make a table from any sequences."""
        return cls(caption, tuple(columns), tuple(tuple(r) for r in rows), note)

    def to_csv(self) -> str:
        r"""The numbers in full, for other programs.

        >>> Table.of("t", ["a", "b"], [["x, y", 0.5]]).to_csv()
        'a,b\n"x, y",0.5\n'
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if c is None or c != c else c for c in row] for row in self.rows])
        return text.getvalue()


@dataclass(frozen=True)
class Facts:
    """Short facts, name and value."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG text, the finding or question it is about (`title`), and its numbers.

    The caption says what is drawn, with n and ε, the alternative the same for those who do not see it. Where nothing can be
    drawn `svg` is empty and the numbers are shown as a table. `parameters` is the table under the figure: how the data were
    made. `file` names the files that hold the numbers, without ending, where the page is saved with them. Readers look for
    one of the `searched` names: what is marked c0 has the first, in the drawing and in the tables of its section.
    """

    title: str
    svg: str
    caption: str
    alternative: str
    numbers: Table | None = None
    parameters: Facts | None = None
    file: str = ""
    searched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Code:
    """A command or a few lines of code to copy."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Link:
    """A file beside the page, and what it is for."""

    file: str
    text: str


Block = str | Table | Figure | Facts | Code | Heading | Link


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """One self-contained page.

    `confidential` puts the red band on the screen and on every printed page; `sortable` lets readers sort the tables
    (by a few lines of script, so never on a page that is released); `contents` lists the sections, below the first.
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    confidential: bool = False
    stamp: str = ""
    footer: str = ""
    sortable: bool = False
    contents: bool = False

    def figures(self) -> Iterator[Figure]:
        """Every figure of the page."""
        for section in self.sections:
            yield from (b for b in section.blocks if isinstance(b, Figure))
