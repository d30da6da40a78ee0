"""What noisy tables hold of some columns: from the measurements alone, with the noise that sums over them would carry.

A cross-table holds every group of its columns: what is asked is a sum over the others, unbiased, whose noise is known.
Leaves and nodes of trees demand different columns in different places; they hold a group as far as rows lie in cells that
demand all of it, and as far as a leaf is large enough to tell an effect from its noise (`EFFECT`).

Privacy: reads noisy answers and public facts; free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.methods.outlook import spurious_rows
from dipsmith.schema import Schema

EFFECT = 0.03
"""The difference of a label's share that a leaf should tell from chance and noise: of larger ones more gets through."""

KEPT_SHARE = 0.95
"""A table of which only large counts were kept holds its columns if these are so large a share of the rows."""


@dataclass(frozen=True)
class Holding:
    """What a noisy table holds of a group of columns: which table, the noise on one count, and whether all of it.

    `made_rows` are the rows that noise makes in empty cells of the table, once negative counts are gone.
    """

    table: str
    standard_error: float
    whole: bool = True
    made_rows: float = 0.0


@dataclass(frozen=True, eq=False)
class CrossTable:
    """A cross-table that was measured, once or several times, in all rows or in every part of them.

    `variance` is that of one count; where the parts are added up it is `sum_variance`. `cells` are those that carry noise. `kept_share` is
    the share of the rows in the cells that were kept, 1 where all were.
    """

    columns: tuple[str, ...]
    parts: tuple[str, ...]
    variance: float
    sum_variance: float
    cells: float
    kept_share: float = 1.0
    has_public_groups: bool = False

    @property
    def name(self) -> str:
        """The columns joined."""
        return " × ".join((*self.parts, *self.columns)) or "(total)"

    def holding_of(self, group: Collection[str], schema: Schema) -> Holding | None:
        """What it holds of a group of columns."""
        if not set(group) <= {*self.columns, *self.parts}:
            return None
        own = prod(schema[n].size if n in schema else 1 for n in self.columns if n in group)
        noise = self.variance if set(self.parts) <= set(group) else self.sum_variance
        return Holding(self.name, sqrt(noise * max(1.0, self.cells / own)), self.kept_share >= 1, self.made_rows)

    @property
    def made_rows(self) -> float:
        """Rows that noise makes in its cells, were they all empty; none where groups are public, which cells add up to."""
        return 0.0 if self.has_public_groups else spurious_rows(round(self.cells), sqrt(self.variance))


@dataclass(frozen=True, eq=False)
class Trees:
    """The leaves of an ensemble: all trees that were measured for the same labels, in all parts of the rows."""

    labels: frozenset[str]
    tables: tuple[MeasuredTable, ...]

    @property
    def name(self) -> str:
        """What its leaves count."""
        return f"leaves of trees × {' × '.join(sorted(self.labels))}" if self.labels else "nodes of a tree"

    @cached_property
    def columns(self) -> frozenset[str]:
        """Every column that some tree asks, and the labels."""
        return frozenset(n for t in self.tables for n in (*t.attributes, *dict(t.within)))

    @cached_property
    def _leaves(self) -> list[Leaves]:
        return [Leaves.of(table) for table in self.tables]

    def effect_share(self, group: Collection[str]) -> float:
        """The share of an effect between the columns of a group that survives in the leaves, on average over trees."""
        if not set(group) <= self.columns or not set(group) & self.labels:
            return 0.0
        sizes = np.array([leaves.rows for leaves in self._leaves])
        each = np.array([leaves.effect_share(group) for leaves in self._leaves])
        return float(each @ sizes / sizes.sum()) if sizes.sum() > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of one tree: how many rows each has, and which columns it demands."""

    sizes: NDArray[np.float64]
    demands: dict[str, NDArray[np.bool_]]
    variance: float

    @classmethod
    def of(cls, table: MeasuredTable) -> Leaves:
        """From the noisy counts of its labels."""
        labels = table.shape[-1] if len(table.shape) > 1 else 1
        leaf, first = np.unique(table.cells // labels, return_index=True)
        if table.totals is not None and table.in_group == labels:
            sizes = table.totals[leaf].astype(np.float64)
        else:
            ends = np.append(first[1:], len(table.values)) - 1
            reached = np.concatenate([[0], np.cumsum(table.values)])
            sizes = np.maximum(reached[ends + 1] - reached[first], 0).astype(np.float64)
        found = table.conditions_at(first)
        return cls(sizes, {name: c.places >= 0 for name, c in found.items()}, table.variance)

    @property
    def rows(self) -> float:
        """Rows in all leaves."""
        return float(self.sizes.sum())

    @cached_property
    def telling_share(self) -> NDArray[np.float64]:
        """For each leaf, the share of an effect that its size lets it tell from chance and noise."""
        signal = (EFFECT * self.sizes) ** 2
        return signal / (signal + self.sizes / 4 + self.variance)

    def effect_share(self, group: Collection[str]) -> float:
        """The share of rows in leaves that demand a whole group, each by what it can tell."""
        if not self.rows or not set(group) <= set(self.demands):
            return 0.0
        inside = np.logical_and.reduce([self.demands[n] for n in group])
        return float((self.sizes * self.telling_share) @ inside / self.rows)


@dataclass(frozen=True, eq=False)
class Holdings:
    """All noisy tables behind one model."""

    schema: Schema
    crosses: tuple[CrossTable, ...]
    trees: tuple[Trees, ...]

    @classmethod
    def of(cls, tables: Iterable[MeasuredTable], schema: Schema, rows: int) -> Holdings:
        """From the measurements of a model that made so many rows."""
        same: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]], list[MeasuredTable]] = defaultdict(list)
        grown: dict[frozenset[str], list[MeasuredTable]] = defaultdict(list)
        for table in tables:
            if table.kind == "cross-table":
                # of equal shape too: one beside what was the period before is another table than the column by itself
                same[tuple(dict(table.within)), table.attributes, table.shape].append(table)
            elif table.kind == "regions":
                grown[label_columns(table)].append(table)
        made = [_cross(list(found), parts, names, schema, rows) for (parts, names, _), found in same.items()]
        trees = tuple(Trees(labels, tuple(found)) for labels, found in grown.items())
        return cls(schema, tuple(c for c in made if c is not None), trees)

    def best_table(self, group: Collection[str]) -> Holding | None:
        """The table that holds a group of columns with the least noise, whole ones first."""
        found = [
            h
            for c in self.crosses
            if c.kept_share >= KEPT_SHARE and (h := c.holding_of(group, self.schema)) is not None
        ]
        return min(found, key=lambda h: (not h.whole, h.standard_error), default=None)

    def best_trees(self, group: Collection[str]) -> tuple[str, float]:
        """Which trees carry most of a group of columns, and how much of an effect."""
        found = [(t.name, t.effect_share(group)) for t in self.trees]
        return max(found, key=lambda f: f[1], default=("", 0.0))


def label_columns(table: MeasuredTable) -> frozenset[str]:
    """The columns that stand beside the leaves of a tree: those after the last × of its name, one label in each cell."""
    if len(table.shape) < 2 or not len(table.cells):
        return frozenset()
    places = np.arange(min(len(table.cells), table.shape[1]))
    # Within one leaf the labels alone change.
    leaf = table.cells // table.shape[1]
    inside = table.conditions_at(places[leaf[places] == leaf[0]])
    changing = {n for n, c in inside.items() if len(np.unique(c.places)) > 1}
    return frozenset(changing) or frozenset(n for n, c in inside.items() if n in table.attributes[-1:])


def _cross(
    tables: Sequence[MeasuredTable], parts: tuple[str, ...], columns: tuple[str, ...], schema: Schema, rows: int
) -> CrossTable | None:
    """Tables over the same columns as one; None where some part of the rows was never asked."""
    precision: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
    for table in tables:
        # Where some rows are counted, such as some steps of each unit, noise weighs as much more as there are more rows.
        times = max(1.0, rows / max(float(table.values.sum()), 1.0)) if table.counts_some_rows else 1.0
        precision[table.within] += inf if table.variance == 0 else 1 / (table.variance * times**2)
    if len(precision) < prod(schema[n].size for n in parts if n in schema):
        return None
    variances = [0.0 if p == inf else 1 / p for p in precision.values()]
    cells = float(np.mean([t.noisy.sum() if t.threshold is None else t.size for t in tables]))
    kept = 1.0
    if any(t.threshold is not None for t in tables):
        kept = min(1.0 - 1e-9, float(sum(t.values.sum() for t in tables)) / max(rows, 1))
    return CrossTable(columns, parts, max(variances), sum(variances), cells, kept, tables[0].in_group > 0)
