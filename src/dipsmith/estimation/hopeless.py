"""Hopeless tables: those in which noise makes more rows than there are people, known from public facts alone.

Noise of standard deviation σ on N cells, cut off at zero, makes about N·σ/√8 rows where there are none (half
the scale b of Laplace noise in every empty cell). A partition is *hopeless* when that exceeds the number of
rows: what is drawn from it is more noise than people.

Privacy: reads the schema, the budget and a public number of rows.
"""

from __future__ import annotations

from math import sqrt

UNKNOWN_ROWS = 100_000
"""Where the number of rows is unknown, noise worth this many rows is worth a warning."""


def spurious_rows(cells: int, sd: float) -> float:
    """How many rows noise makes in so many empty cells once negative counts are gone.

    >>> round(spurious_rows(1_270_000, 36.9 * 2**0.5) / 1e7, 2)  # ε = exp(-2)/5 on the youth-voter table
    2.34
    """
    return cells * sd / sqrt(8)


INSTEAD = "use mst or aim, or coarser bins"


def hopeless_note(cells: int, sd: float, rows: int | None, usable: str = "", advice: str = INSTEAD) -> str:
    """What a steward should know before paying for so many cells; empty where noise does not outweigh the rows.

    >>> print(hopeless_note(1_000_000, 2.0, 44_821).split(";")[0])
    hopeless: about 707,107 rows' worth of noise in empty cells against 44,821 rows
    >>> hopeless_note(1_000, 2.0, 44_821)
    ''
    """
    made = spurious_rows(cells, sd)
    if made <= (UNKNOWN_ROWS if rows is None else rows):
        return ""
    said = f"about {made:,.0f} rows' worth of noise in empty cells"
    if rows is None:
        return f"hopeless unless there are many more rows: {said}; {usable}{advice}"
    return f"hopeless: {said} against {rows:,} rows; {usable}{advice}"
