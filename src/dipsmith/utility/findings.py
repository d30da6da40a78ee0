"""What a comparison found out about one release, by key; and what all chapters say of releases: tables, captions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.report.content import Cell, Facts, Figure, Table
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.settings_in_words import settings_in_words

Rows = list[tuple[Cell, ...]]


@dataclass(frozen=True, eq=False)
class Findings:
    """One release beside the authentic rows: `found["specks"]` is what its chapter found.

    Scores of several sets are means over the sets; everything that is listed level by level is of the first set.

    `rows` are the authentic and the synthetic ones; `given` columns are public and the same in both tables, `changed` ones
    were synthesised. `results` has the keys of comparison.json.
    """

    name: str
    card: Card
    rows: tuple[int, int]
    given: tuple[str, ...]
    changed: tuple[str, ...]
    results: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.results[key]

    if not TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any:
            if key not in self.__dict__.get("results", ()):
                raise AttributeError(key)
            message = f"findings.{key} is now findings['{key}']"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return self.results[key]


def table(
    caption: str,
    columns: Sequence[str],
    found: Sequence[Findings],
    rows: Callable[[Findings], Sequence[tuple[Cell, ...]]],
    note: str = "",
) -> Table:
    """A table of some rows for each release; with several releases the first column names the release."""
    if len(found) == 1:
        return Table.of(caption, columns, rows(found[0]), note)
    return Table.of(caption, ("release", *columns), [(f.name, *row) for f in found for row in rows(f)], note)


def mean(values: Sequence[float] | NDArray[Any]) -> float:
    """The mean; nan of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")


def each(key: str, *names: str) -> Callable[[Findings], Rows]:
    """A row for each entry of a result: some of its attributes."""
    return lambda found: [attrgetter(*names)(entry) for entry in found[key]]


def series(found: Sequence[Findings], f: Findings, alone: str = "synthetic") -> str:
    """What a release is called in a legend."""
    return alone if len(found) == 1 else f.name


def figure(
    found: Sequence[Findings], title: str, svg: str, caption: str, alternative: str, numbers: Table, file: str
) -> Figure:
    """A figure with what every figure of a comparison tells: n and ε, and how the data were made."""
    caption, file = f"{caption} {sizes(found)}", f"numbers/{file}"
    return Figure(title, svg, caption, alternative, numbers, parameters(found), file)


def parameters(found: Sequence[Findings]) -> Facts:
    """How the data were made: the table under a figure, one line for each release."""
    rows = []
    for f in found:
        chosen = settings_in_words(f.card.parameters)
        method = f.card.method + (f" ({chosen})" if chosen else "")
        sizes = f"{f.rows[0]:,} authentic and {f.rows[1]:,} synthetic rows, {f.card.sets_text}"
        rows.append((series(found, f, "Made by"), f"{method}; {f.card.guarantee}; {sizes}"))
    if given := found[0].given:
        rows.append(("Held fixed", f"{', '.join(given)} (public, the same rows in both tables)"))
    return Facts(tuple(rows))


def sizes(found: Sequence[Findings]) -> str:
    """Numbers of rows and ε for a caption."""
    authentic = f"n = {found[0].rows[0]:,} authentic"
    if len(found) == 1:
        return f"{authentic} and {found[0].rows[1]:,} synthetic rows, {found[0].card.price}."
    each = "; ".join(f"{f.name}: {f.rows[1]:,} rows, {f.card.price}" for f in found)
    return f"{authentic} rows; {each}."


def decimal(value: float, places: int) -> str:
    """A number within a sentence; a dash where there is none, as of a correlation with what does not vary.

    >>> decimal(0.98765, 3), decimal(float("nan"), 2)
    ('0.988', '–')
    """
    return "–" if value != value else f"{value:.{places}f}"
