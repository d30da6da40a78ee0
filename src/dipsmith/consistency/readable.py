"""Readable: which partitions of the rows are worth measuring, from public facts alone.

Noise of standard deviation σ on N cells, cut off at zero, makes about N·σ/√8 rows where there are none (half
the scale b of Laplace noise in every empty cell). A partition is *hopeless* when that exceeds the number of
rows: what is drawn from it is more noise than people.

Bowen, Liu and Su leave open how many layers a tree of splits should have. The rule here: none while the
full cross-table is not hopeless by itself, because layers never make single cells more precise; otherwise
as many as are not hopeless.

Privacy: reads the schema, the budget and a public number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from dipsmith.consistency.noisy_tree import level_weights
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import noise_for

UNKNOWN_ROWS = 100_000
"""Where the number of rows is unknown, noise worth this many rows is worth a warning."""


@dataclass(frozen=True)
class Readable:
    """What a budget can make readable.

    Attributes
    ----------
    relation, max_rows
        Neighbours and rows per unit.
    budget
        What all counts may cost together.
    rows
        The public number of rows; None when there is none.
    leaves
        Cells of the full cross-table that no rule forbids.
    """

    relation: str
    max_rows: int
    budget: Budget
    rows: int | None
    leaves: int

    def sd(self, nodes: int) -> float:
        """The noise on a level with so many nodes that shares the budget with the leaves."""
        share = self.budget.split(level_weights([nodes, self.leaves], self.budget.currency))[0]
        return sqrt(noise_for(self.relation, self.max_rows, share).variance)

    @property
    def sd_alone(self) -> float:
        """The noise on the leaves when nothing else is measured."""
        return sqrt(noise_for(self.relation, self.max_rows, self.budget).variance)

    def hopeless(self, cells: int, sd: float) -> bool:
        """Whether noise makes more rows than there are; unknown rows are given the benefit of the doubt."""
        return self.rows is not None and spurious_rows(cells, sd) > self.rows

    def worth_dividing(self, nodes: int) -> bool:
        """Whether a layer of so many nodes would be readable."""
        return not self.hopeless(nodes, self.sd(nodes))


def spurious_rows(cells: int, sd: float) -> float:
    """How many rows noise makes in so many empty cells once negative counts are gone.

    >>> round(spurious_rows(1_270_000, 36.9 * 2**0.5) / 1e7, 2)  # ε = exp(-2)/5 on the youth-voter table
    2.34
    """
    return cells * sd / sqrt(8)


INSTEAD = "use mst or aim, or coarser bins"


def forewarning(cells: int, sd: float, rows: int | None, usable: str = "", advice: str = INSTEAD) -> str:
    """What a steward should know before paying for so many cells; empty where noise does not outweigh the rows.

    >>> print(forewarning(1_000_000, 2.0, 44_821).split(";")[0])
    hopeless: about 707,107 rows' worth of noise in empty cells against 44,821 rows
    >>> forewarning(1_000, 2.0, 44_821)
    ''
    """
    made = spurious_rows(cells, sd)
    if made <= (UNKNOWN_ROWS if rows is None else rows):
        return ""
    said = f"about {made:,.0f} rows' worth of noise in empty cells"
    if rows is None:
        return f"hopeless unless there are many more rows: {said}; {usable}{advice}"
    return f"hopeless: {said} against {rows:,} rows; {usable}{advice}"
