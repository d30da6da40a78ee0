"""What can be expected of a run before anything is spent: what a method knows beyond the lines of its plan.

A method may say what its answers will tell of marginals, where labels will be made, and what fitting takes. What
it does not say is derived from its plan: the tables named there, and the time that counting them takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.methods.method import Method, Planned, PublicFacts
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

Names = tuple[str, ...]

QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The shares of rows at which sizes of leaves and cells are given."""


@dataclass(frozen=True)
class PlannedTable:
    """A table of noisy counts that will be measured.

    Attributes
    ----------
    attributes
        Its columns.
    cells
        Its noisy counts in all.
    variance
        Of the noise on one count.
    labels
        Under `label`: counts per public group, which are known to add up; otherwise 0.
    repeats
        In how many independent copies it is measured (the trees of an ensemble).
    """

    attributes: Names
    cells: float
    variance: float
    labels: int = 0
    repeats: int = 1


@dataclass(frozen=True)
class LabelCells:
    """Leaves or cells of one kind in which labels are made.

    Attributes
    ----------
    what
        The ensemble or effect.
    labels
        How many labels there are.
    sd
        Standard deviation of the noise on one count.
    sizes
        Rows in the leaf or cell that a row is labelled by, at the `QUANTILES` of rows; empty when unknown.
    cells
        How many leaves or cells have rows.
    leaves
        Whether they are leaves of trees.
    pooled_width
        Where they are estimated together: the width of the interval of a label's share in the typical one, from
        the share, the level, the rate λ of the noise, its size and the number of cells.
    """

    what: str
    labels: int
    sd: float
    sizes: tuple[int, ...]
    cells: int
    leaves: bool = False
    pooled_width: Callable[[float, float, float, int, int], float] | None = None


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
    """How deep branches go and how large leaves are, in one ensemble.

    Attributes
    ----------
    n_b
        The count down to which branches are split.
    noise
        Standard deviation of the noise on one count of a leaf.
    leaves_by_depth, rows_by_depth
        Leaves with rows, and rows, by the number of attributes on the path, in all trees and strata.
    leaf_sizes
        Rows per leaf, at the quantiles `QUANTILES` of the leaves that have rows.
    typical_sizes
        The same over rows: the sizes of the leaves that rows are labelled by.
    """

    ensemble: str
    targets: Names
    n_b: float
    noise: float
    leaves_by_depth: tuple[int, ...] = ()
    rows_by_depth: tuple[int, ...] = ()
    leaf_sizes: tuple[float, ...] = ()
    typical_sizes: tuple[float, ...] = ()

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
        return {
            "costs": [
                {
                    "ensemble": c.ensemble,
                    "question": c.question,
                    "each": float(c.each.exact),
                    "times": c.times,
                    "strata": c.strata,
                    "total": float(c.total.exact),
                }
                for c in self.costs
            ],
            "shapes": [
                {
                    "ensemble": s.ensemble,
                    "n_b": s.n_b,
                    "noise": s.noise,
                    "leaves_by_depth": list(s.leaves_by_depth),
                    "rows_by_depth": list(s.rows_by_depth),
                    "leaf_sizes": list(s.leaf_sizes),
                    "typical_sizes": list(s.typical_sizes),
                }
                for s in self.shapes
            ],
            "quantiles": list(QUANTILES),
            "total": float(self.total.exact),
            "all_strata": float(self.all_strata.exact),
        }


@dataclass(frozen=True)
class Outlook:
    """What a method expects of a run.

    Attributes
    ----------
    tables
        The tables that will be measured, as far as they are known before.
    complete
        Whether these are all that will ever be known of a marginal.
    if_chosen
        The variance of the noise on one count of a table that may be chosen, by its columns in the schema's order.
    label_cells
        Where labels are made.
    effort
        What fitting takes.
    trees
        Of methods that grow trees: what each costs, how deep branches go, how large leaves are.
    fix_sizes
        Where leaves shrink as the noise does, so that no budget makes them precise: the options that fix the number of
        rows in a leaf instead.
    """

    tables: tuple[PlannedTable, ...] = ()
    complete: bool = False
    if_chosen: Mapping[Names, float] = field(default_factory=dict)
    label_cells: tuple[LabelCells, ...] = ()
    effort: Effort = Effort()
    trees: TreePreview | None = None
    fix_sizes: Callable[[int], str] | None = None


@runtime_checkable
class WithOutlook(Method, Protocol):
    """A method that says more of a run than the lines of its plan."""

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """What can be expected of the run that `steps` plan."""


@dataclass(frozen=True)
class Suitability:
    """Why a method suits a table; of several that do, the one with the highest rank is suggested."""

    rank: int
    reason: str


TABLE_SECONDS, TABLE_BYTES = 1.3e-7, 30.0
"""Per noisy number of a table: counting, noise, projection."""


def table_effort(steps: Sequence[Planned]) -> Effort:
    """What it takes to measure the tables of a plan."""
    cells = sum(s.cells or 0 for s in steps)
    return Effort(TABLE_SECONDS * cells, TABLE_BYTES * cells)


def tables_of(
    schema: Schema, steps: Sequence[Planned], strata: str | None = None
) -> tuple[PlannedTable, ...]:
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
        replace(group[0], variance=times * sum(t.variance for t in group) / len(group))
        for group in groups.values()
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
