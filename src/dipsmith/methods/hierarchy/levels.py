"""What the levels of a hierarchy cost, and what a steward should know of each before paying.

Privacy: reads the schema, the budget and a public number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import require_possible
from dipsmith.estimation.tree import level_weights
from dipsmith.methods.hierarchy.noisy_tree import LARGEST_TABLE, Hierarchy
from dipsmith.methods.method import Planned, count_noise
from dipsmith.methods.outlook import Effort, Outlook, hopeless_note, spurious_rows, table_effort, tables_of
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Marginal, Schema


@dataclass(frozen=True)
class Readable:
    """Which levels of a hierarchy a budget can make readable, from public facts alone.

    `budget` is what all counts may cost together, `rows` the public number of rows (None when there is none),
    `leaves` the cells of the full cross-table that no rule forbids.

    Bowen, Liu and Su leave open how many layers a tree of splits should have. The rule here: none while the full
    cross-table is not hopeless by itself, because layers never make single cells more precise; otherwise as many
    as are not hopeless.
    """

    relation: str
    max_rows: int
    budget: Budget
    rows: int | None
    leaves: int

    def sd(self, nodes: int) -> float:
        """The noise on a level with so many nodes that shares the budget with the leaves."""
        share = self.budget.split(level_weights([nodes, self.leaves], self.budget.currency))[0]
        return count_noise(self.relation, self.max_rows, share).sd

    @property
    def sd_alone(self) -> float:
        """The noise on the leaves when nothing else is measured."""
        return count_noise(self.relation, self.max_rows, self.budget).sd

    def hopeless(self, cells: int, sd: float) -> bool:
        """Whether noise makes more rows than there are; unknown rows are given the benefit of the doubt."""
        return self.rows is not None and spurious_rows(cells, sd) > self.rows

    def worth_dividing(self, nodes: int) -> bool:
        """Whether a layer of so many nodes would be readable."""
        return not self.hopeless(nodes, self.sd(nodes))


def possible_cells(schema: Schema) -> int:
    """The cells of the full cross-table that no rule forbids; refuses a table too large to hold, or without any."""
    require_possible(schema)
    if schema.size() > LARGEST_TABLE:
        raise UsageError(
            f"the full table has {schema.size():,} cells, more than {LARGEST_TABLE:,}; "
            "use mst, aim or marginals, or coarser bins"
        )
    possible = Marginal(schema, schema.names).possible()
    return schema.size() if possible is None else max(1, int(possible.sum()))


def check_weights(method: str, weights: Sequence[float]) -> tuple[float, ...]:
    """The weights of levels as a tuple; raises unless all are above 0."""
    if not all(w > 0 for w in weights):
        raise UsageError(f"{method}: layer_weights must be numbers above 0")
    return tuple(weights)


def level_budgets(
    budget: Budget, rows: int | None, default: Sequence[float], given: Sequence[float] | None
) -> list[Budget | None]:
    """What each level may cost, root first; None for a row count that is public or not to be measured.

    `default` has the weight of every level, root first; `given` the weights that the user gave: of all levels
    below the root, or of the root too where the number of rows is private.
    """
    below = len(default) - 1
    weights = list(default if rows is None else default[1:])
    if given is not None:
        if len(given) != below and (rows is not None or len(given) != below + 1):
            raise UsageError(f"{len(given)} layer_weights, expected {below}: one for each level below the row count")
        weights = [float(w) for w in given]
    shares: list[Budget] = list(budget.split(weights))
    return [None] * (len(default) - len(shares)) + shares


def plan_levels(
    hierarchy: Hierarchy, budgets: Sequence[Budget | None], facts: Readable, *, ordered: bool = True, remark: str = ""
) -> list[Planned]:
    """One line for every level that gets noise, with a warning where it is hopeless.

    A hierarchy whose order is not known yet (`ordered` is False) is known by its leaves only.
    """
    steps = []
    last = len(budgets) - 1
    for i, (cells, share) in enumerate(zip(hierarchy.levels, budgets, strict=True)):
        if share is None:
            continue
        sd = count_noise(facts.relation, facts.max_rows, share).sd
        size = facts.leaves if i == last else cells.size
        stage = "row count" if i == 0 else "leaves" if i == last else f"layer {i}"
        note = remark if 0 < i < last else ""
        usable = "only sums over the layers are usable; " if i == last > 1 else ""
        hopeless = hopeless_note(size, sd, facts.rows, usable)
        note = hopeless or note
        if not hopeless and i == last > 1 and facts.rows is not None and not facts.hopeless(size, facts.sd_alone):
            note = "readable by itself: flat makes single cells more precise, layers only sums over them"
        named = isinstance(cells, Marginal) and (ordered or i == last)
        line = Planned(stage, cells.key, share, size, sd, note, hopeless=bool(hopeless))
        names, group = cells.attributes if named else (), "layer" if 0 < i < last else ""
        steps.append(replace(line, attributes=names, group=group))
    return steps


LEVEL_SECONDS, LEVEL_BYTES = 3e-7, 130.0
"""Per noisy number of a hierarchy: least squares, projection, drawing."""


def level_outlook(schema: Schema, steps: Sequence[Planned]) -> Outlook:
    """The levels whose columns are known, and what it takes to make them agree."""
    cells, measured = sum(s.cells or 0 for s in steps), table_effort(steps)
    effort = Effort(measured.seconds + LEVEL_SECONDS * cells, measured.memory + LEVEL_BYTES * cells)
    return Outlook(tables_of(schema, steps), effort=effort)
