"""Which levels of a hierarchy a budget can make readable, from public facts alone.

Bowen, Liu and Su leave open how many layers a tree of splits should have. The rule here: none while the
full cross-table is not hopeless by itself, because layers never make single cells more precise; otherwise
as many as are not hopeless.

Privacy: reads the schema, the budget and a public number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from dipsmith.estimation.hopeless import spurious_rows
from dipsmith.methods.hierarchy.noisy_tree import level_weights
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import noise_for


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
