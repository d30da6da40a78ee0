"""What can be expected of a run before anything is spent: what a method knows beyond the lines of its plan.

A method may say what its answers will tell of marginals, where labels will be made, and what fitting takes. What
it does not say is derived from its plan: the tables named there, and the time that counting them takes. A table is
*hopeless* when noise makes more rows in it than there are: what is drawn from it is more noise than people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.methods.method import Method, Planned, PublicFacts
from dipsmith.methods.model_tree import PathShares
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

Names = tuple[str, ...]

QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The shares of rows at which sizes of leaves and cells are given."""


@dataclass(frozen=True)
class PlannedTable:
    """A table of noisy counts that will be measured."""

    attributes: Names
    cells: float  # noisy counts in all
    variance: float  # of the noise on one count
    labels: int = 0  # under `label`: counts per public group, which are known to add up
    repeats: int = 1  # independent copies, such as the trees of an ensemble


@dataclass(frozen=True)
class LabelCells:
    """Leaves or cells of one kind in which labels are made."""

    what: str  # the ensemble or effect
    labels: int
    sd: float  # of the noise on one count
    sizes: tuple[int, ...]  # rows in the cell that a row is labelled by, at the `QUANTILES` of rows; empty when unknown
    cells: int  # how many have rows
    leaves: bool = False  # whether they are leaves of trees
    pooled_width: Callable[[float, float, float, int, int], float] | None = None
    """Where they are estimated together: the width of the interval of a label's share in the typical one, from
    the share, the level, the rate λ of the noise, its size and the number of cells."""


@dataclass(frozen=True)
class Effort:
    """What fitting takes beyond counting: CPU seconds and bytes."""

    seconds: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True)
class TreeCost:
    """One line of the ε table: `each` × `times` (trees, choices, levels) × `strata`.

    `strata` counts how often the run pays for strata (once where they compose in parallel).
    """

    ensemble: str
    question: str
    each: Budget
    times: int
    strata: int

    @property
    def total(self) -> Budget:
        """What the run pays for this line."""
        return type(self.each).of_units(self.each.units * self.times * self.strata)


@dataclass(frozen=True)
class TreeSizes:
    """How deep branches go and how large leaves are, in one ensemble; by depth in all its trees and strata."""

    ensemble: str
    targets: Names
    n_b: float  # the count down to which branches are split
    noise: float  # standard deviation on one count of a leaf
    leaves_by_depth: tuple[int, ...] = ()  # leaves with rows, by the number of attributes on the path
    rows_by_depth: tuple[int, ...] = ()
    leaf_sizes: tuple[float, ...] = ()  # rows per leaf, at the `QUANTILES` of the leaves that have rows
    typical_sizes: tuple[float, ...] = ()  # the same over rows: the sizes of the leaves that rows are labelled by

    @property
    def leaves(self) -> int:
        """Leaves with rows, in all trees and strata."""
        return sum(self.leaves_by_depth)


@dataclass(frozen=True)
class TreePreview:
    """The ε table and the expected shape of all trees."""

    costs: tuple[TreeCost, ...]
    shapes: tuple[TreeSizes, ...]
    total: Budget
    all_strata: Budget

    def to_dict(self) -> dict[str, Any]:
        """The preview as JSON-able values."""
        costs = [asdict(c) | {"each": float(c.each.exact), "total": float(c.total.exact)} for c in self.costs]
        shapes = [{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(s).items()} for s in self.shapes]
        for shape in shapes:
            del shape["targets"]
        totals = {"total": float(self.total.exact), "all_strata": float(self.all_strata.exact)}
        return {"costs": costs, "shapes": shapes, "quantiles": list(QUANTILES), **totals}


@dataclass(frozen=True)
class Outlook:
    """What a method expects of a run."""

    tables: tuple[PlannedTable, ...] = ()  # those that will be measured, as far as they are known before
    complete: bool = False  # whether these are all that will ever be known of a marginal
    if_chosen: Mapping[Names, float] = field(default_factory=dict)
    """The variance of the noise on one count of a table that may be chosen, by its columns in the schema's order."""
    label_cells: tuple[LabelCells, ...] = ()  # where labels are made
    effort: Effort = Effort()
    trees: TreePreview | None = None  # of methods that grow trees
    path_shares: tuple[PathShares, ...] = ()  # of labels that depend on the columns of a path alone
    fix_sizes: Callable[[int], str] | None = None
    """Where leaves shrink as the noise does, so that no budget makes them precise: the options that fix the number of
    rows in a leaf instead."""


@runtime_checkable
class WithOutlook(Method, Protocol):
    """A method that says more of a run than the lines of its plan."""

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """What can be expected of the run that `steps` plan."""


@dataclass(frozen=True)
class Suitability:
    """Why a method suits a table; of several that do, the one with the highest rank is suggested."""

    rank: int
    reason: str


TABLE_SECONDS, TABLE_BYTES = 1.5e-7, 200.0
"""Per noisy number of a table: counting, noise, projection, and its row in the file of measurements."""
LABEL_SECONDS, LABEL_BYTES = 1e-7, 16.0
"""Per noisy number and column of its table: the labels in that row."""
SUM_SECONDS = 4.4e-9
"""Per noisy number, column of its table, and sum over it that `explore.html` shows: by column, and for large tables by pair."""
SUMMED_CELLS = 40_000
"""Larger tables are."""


def table_effort(steps: Sequence[Planned]) -> Effort:
    """What it takes to measure the tables of a plan and to write what was measured."""
    seconds = memory = 0.0
    for cells, columns in ((s.cells or 0, len(s.attributes)) for s in steps):
        sums = columns + (columns * (columns - 1) / 2 if cells > SUMMED_CELLS else 1)
        seconds += cells * (TABLE_SECONDS + columns * (LABEL_SECONDS + SUM_SECONDS * sums))
        memory += cells * (TABLE_BYTES + columns * LABEL_BYTES)
    return Effort(seconds, memory)


def tables_of(schema: Schema, steps: Sequence[Planned], strata: str | None = None) -> tuple[PlannedTable, ...]:
    """The tables whose columns a plan names.

    With `strata` the lines are those of single strata, all listed or one for all: counts and noise add up.
    """
    label = schema.neighbours == "label"
    groups: dict[Names, list[PlannedTable]] = {}
    for step in steps:
        if not step.attributes or step.sd is None:
            continue
        names = step.attributes
        cells = schema.size(names) if step.cells is None else step.cells
        labels = schema.size([n for n in names if schema[n].role == "private"]) if label else 0
        groups.setdefault(names, []).append(PlannedTable(names, float(cells), step.sd**2, labels))
    if strata is None:
        return tuple(table for group in groups.values() for table in group)
    times = schema[strata].size
    return tuple(
        replace(group[0], variance=times * sum(t.variance for t in group) / len(group)) for group in groups.values()
    )


def typical_sizes(sizes: ArrayLike) -> tuple[float, ...]:
    """The sizes of the cells that rows lie in, at the `QUANTILES` of rows.

    >>> typical_sizes([1, 1, 8])
    (1.0, 1.0, 8.0, 8.0, 8.0, 8.0, 8.0)
    """
    order = np.sort(np.asarray(sizes, dtype=np.float64))
    reached = np.cumsum(order) / order.sum()
    found = order[np.minimum(np.searchsorted(reached, QUANTILES), len(order) - 1)]
    return tuple(float(q) for q in found)


def outlook_of(
    method: Method, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
) -> Outlook:
    """The method's own outlook, or what its plan alone tells."""
    if isinstance(method, WithOutlook):
        return method.outlook(schema, budget, steps, public)
    return Outlook(tables_of(schema, steps), effort=table_effort(steps))


INSTEAD = "use mst or aim, or coarser bins"
UNKNOWN_ROWS = 100_000
"""Where the number of rows is unknown, noise worth this many rows is worth a warning."""


def spurious_rows(cells: int, sd: float) -> float:
    """How many rows noise makes in so many empty cells once negative counts are gone: half Laplace's scale in each.

    >>> round(spurious_rows(1_270_000, 36.9 * 2**0.5) / 1e7, 2)  # ε = exp(-2)/5 on the youth-voter table
    2.34
    """
    return cells * sd / sqrt(8)


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
