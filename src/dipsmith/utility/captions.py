"""What the chapters of a comparison share: tables over several releases, captions, the table under a figure."""

from __future__ import annotations

from collections.abc import Sequence

from dipsmith.report.content import Cell, Facts, Table
from dipsmith.synthesis.report import settings
from dipsmith.utility.findings import Findings

Rows = list[tuple[Cell, ...]]


def table(
    caption: str,
    columns: Sequence[str],
    parts: Sequence[tuple[Findings, Sequence[tuple[Cell, ...]]]],
    note: str = "",
) -> Table:
    """A table over all releases; with several, the first column names the release."""
    if len(parts) == 1:
        return Table.of(caption, columns, parts[0][1], note)
    rows = [(found.name, *row) for found, part in parts for row in part]
    return Table.of(caption, ("release", *columns), rows, note)


def parameters(found: Sequence[Findings]) -> Facts:
    """How the data were made: the table under a figure, one line for each release."""
    rows = []
    for f in found:
        chosen = settings(f.card.parameters)
        made = f.card.method + (f" ({chosen})" if chosen else "")
        said = f"{made}; {f.card.guarantee}; {f.rows[0]:,} authentic and {f.rows[1]:,} synthetic rows, {f.card.sets_text}"
        rows.append((f.name if len(found) > 1 else "Made by", said))
    first = found[0]
    if first.given:
        rows.append(("Held fixed", f"{', '.join(first.given)} (public, the same rows in both tables)"))
    return Facts(tuple(rows))


def sizes(found: Sequence[Findings]) -> str:
    """Numbers of rows and ε for a caption."""
    if len(found) == 1:
        return f"n = {found[0].rows[0]:,} authentic and {found[0].rows[1]:,} synthetic rows, {found[0].card.price}."
    said = "; ".join(f"{f.name}: {f.rows[1]:,} rows, {f.card.price}" for f in found)
    return f"n = {found[0].rows[0]:,} authentic rows; {said}."


def told(value: float, places: int) -> str:
    """A figure within a sentence; a dash where there is none, as of a correlation with what does not vary.

    >>> told(0.98765, 3), told(float("nan"), 2)
    ('0.988', '–')
    """
    return "–" if value != value else f"{value:.{places}f}"
