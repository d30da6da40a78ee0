"""What the chapters of a comparison share: tables over several releases, captions, the table under a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dipsmith.report.content import Cell, Facts, Table
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
    """How the data were made: the table under a figure."""
    rows = []
    for f in found:
        settings = ", ".join(
            f"{k} = {json.dumps(v, ensure_ascii=False)}"
            for k, v in f.card.parameters.items()
            if v not in (None, [], ())
        )
        rows += [
            (
                f.name if len(found) > 1 else "Method",
                f"{f.card.method}" + (f" ({settings})" if settings else ""),
            ),
            ("Guarantee", f.card.guarantee),
            ("Rows", f"{f.rows[0]:,} authentic, {f.rows[1]:,} synthetic, {f.card.sets_text}"),
        ]
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
