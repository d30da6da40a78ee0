"""Tables by place: noisy counts of places, and of places with a few columns, on every level of a tree of places.

On each level the places are counted (all rows, states, counties, tracts), and so is every wanted set of columns within
them. Generalised least squares makes of all these tables the best unbiased linear estimate of each: levels agree with
one another, and tables that share columns agree in them.

It is exact and needs no matrix. Noise of one variance in all cells of a table over columns q is independent in its
*components*: for each set S ⊆ q, the table summed over q∖S and centred along every column of S. A component of S is told
by every table whose q holds S, with variance v_q·Π_{q∖S} n_j up to one common projection; so it is pooled by inverse
variance on each level, carried through the tree of places (`estimation.tree.gls`), and tables are put together from
their components again (the decomposition is that of Xiao, He, Zhang and Kifer, "An optimal and scalable matrix mechanism
for noisy marginals under convex loss functions", NeurIPS 2023, section 4). Public totals are the component of S = ∅,
known exactly.

Privacy
-------
`measure_places` is one call of `Curator.measure`; every table is a partition of all rows and is charged its budget. The
rest is post-processing. ``docs/proofs/places.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import inf, prod

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.estimation.tree import Tree, gls, node_variances
from dipsmith.methods.graph.junction import Attributes
from dipsmith.methods.method import Planned, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Cells, Marginal, Schema
from dipsmith.schema.places import PlaceTable, PlaceTree, tree_of

SMALL = 256
"""Without wanted tables, the smallest columns whose cross-table has at most so many cells are counted by place."""

MOST_CELLS = 1 << 22
"""Places × combinations of the columns that are counted by place, at most: the table of rows that is made of them."""

TOTAL, ALL_ROWS, SMALLEST = 1.2, 1.2, 0.9
"""Shares of the budget for totals, for tables of all rows and for those of the smallest places, against 1 for any other.

Chosen on simulated nations (seeds 1001 to 1003 of ``studies/topdown``), so that no level errs much more than TopDown does.
"""

LEAST_VARIANCE = 1e-9
"""Of a measured count, where noise is 0 to double precision: only what is public is exact, and may not be contradicted."""


def wanted_sets(schema: Schema, planned: Sequence[Attributes]) -> tuple[Attributes, ...]:
    """The sets of columns that are counted by place: of planned tables those with the place, else the smallest columns."""
    place = tree_of(schema).attribute
    others = tuple(n for n in schema.names if n != place.name)
    wanted = [tuple(n for n in others if n in names) for names in planned if place.name in names]
    if any(wanted):
        sets = tuple(dict.fromkeys(names for names in wanted if names))
        cells = place.size * schema.size(counted_columns(schema, sets))
        if cells > MOST_CELLS:
            raise UsageError(
                f"tables by {place.name}: {place.size:,} places with {', '.join(counted_columns(schema, sets))} have "
                f"{cells:,} cells, at most {MOST_CELLS:,}; plan fewer columns with it, or use fewer bins or labels"
            )
        return sets
    found: list[str] = []
    for name in sorted(others, key=lambda n: (schema[n].size, others.index(n))):
        cells = schema.size([*found, name])
        if cells <= SMALL and cells * place.size <= MOST_CELLS:
            found.append(name)
    return tuple((n,) for n in others if n in found)


def counted_columns(schema: Schema, sets: Sequence[Attributes]) -> Attributes:
    """All columns of some sets, in the order of the schema."""
    return tuple(n for n in schema.names if any(n in names for names in sets))


@dataclass(frozen=True)
class PlaceQuestion:
    """One table by place: a level, and the columns that are counted within its places."""

    level: int
    columns: Attributes

    def cells(self, schema: Schema) -> Cells:
        """The partition that is measured; that of the column's own codes is a plain cross-table."""
        place = tree_of(schema)
        if self.level == len(place.sizes) - 1:
            return Marginal.of(schema, (place.attribute.name, *self.columns))
        return PlaceTable(schema, self.level, self.columns)

    def size(self, schema: Schema) -> int:
        """Number of its cells."""
        return tree_of(schema).sizes[self.level] * schema.size(self.columns)


def place_questions(schema: Schema, sets: Sequence[Attributes]) -> list[PlaceQuestion]:
    """What is asked, the largest places first: totals where they are not all public, and every set of columns."""
    place = tree_of(schema)
    asked = []
    for level in range(len(place.sizes)):
        # All rows are the sum of the places below, and public where these are.
        if level and not np.isfinite(place.totals(level)).all():
            asked.append(PlaceQuestion(level, ()))
        asked += [PlaceQuestion(level, names) for names in sets]
    return asked


def place_budgets(schema: Schema, asked: Sequence[PlaceQuestion], budget: Budget) -> list[Budget]:
    """Alike for all tables, but more for totals and all rows, and less for the smallest places.

    Tables of these are drawn towards those of the places that hold them (`raking`), and need less to be as precise.
    """
    by_level = {0: ALL_ROWS, len(tree_of(schema).sizes) - 1: SMALLEST}
    return list(budget.split([by_level.get(q.level, 1.0) if q.columns else TOTAL for q in asked]))


def measure_places(curator: Curator, sets: Sequence[Attributes], budget: Budget, rows: float | None) -> PlaceEstimates:
    """Measure all tables by place; `rows` is the number of rows where it is public."""
    schema = curator.schema
    asked = place_questions(schema, sets)
    answers = curator.measure([q.cells(schema) for q in asked], place_budgets(schema, asked, budget))
    place = tree_of(schema)
    own = np.argsort(place.nodes[-1])
    values, variances = {}, {}
    for question, answer in zip(asked, answers, strict=True):
        table = answer.values.astype(np.float64).reshape(-1, *(schema[n].size for n in question.columns))
        values[question] = table[own] if question.level == len(place.sizes) - 1 else table
        variances[question] = max(answer.variance, LEAST_VARIANCE)
    return PlaceEstimates(schema, tuple(sets), values, variances, rows)


@dataclass(frozen=True, eq=False)
class PlaceEstimates:
    """The generalised least squares estimates of all tables by place.

    `values` has the noisy counts of every question, one axis for the places of its level and one for each column;
    `variances` the noise on one of them; `rows` the public number of rows, None where it is not.
    """

    schema: Schema
    sets: tuple[Attributes, ...]
    values: Mapping[PlaceQuestion, Floats]
    variances: Mapping[PlaceQuestion, float]
    rows: float | None = None

    @property
    def places(self) -> PlaceTree:
        """The tree of places."""
        return tree_of(self.schema)

    @cached_property
    def tree(self) -> Tree:
        """The shape of the tree, all rows at its root."""
        starts = np.cumsum([0, *self.places.sizes])
        return Tree(np.concatenate([[-1], *(p + s for p, s in zip(self.places.parents, starts, strict=False))]))

    @cached_property
    def exact(self) -> Floats:
        """The public total of every node, NaN where there is none."""
        totals = np.concatenate([self.places.totals(level) for level in range(len(self.places.sizes))])
        known = self.places.known_rows()
        stated = self.rows if known is None else float(known)
        return np.concatenate([[np.nan if stated is None else stated], totals[1:]])

    def variance(self, component: Attributes) -> Floats:
        """The noise variance of a component, summed over all other columns, on every node; 0 where it is public."""
        levels = []
        for level, size in enumerate(self.places.sizes):
            weight = sum(1 / self._summed_variance(q, component) for q in self._telling(level, component))
            levels.append(np.full(size, 1 / weight if weight else inf))
        found = np.concatenate(levels)
        return found if component else np.where(np.isfinite(self.exact), 0.0, found)

    @cached_property
    def _components(self) -> dict[Attributes, Floats]:
        """The estimate of every component, nodes first."""
        found = {}
        for component in dict.fromkeys([(), *(part for names in self.sets for part in _parts(names))]):
            levels = [self._pool(level, component) for level in range(len(self.places.sizes))]
            pooled = np.concatenate(levels)
            if not component:
                pooled = np.where(np.isfinite(self.exact), self.exact, pooled)
            shape = pooled.shape
            flat = gls(self.tree, pooled.reshape(shape[0], -1), self.variance(component))
            found[component] = flat.reshape(shape)
        return found

    def table(self, columns: Attributes) -> Floats:
        """The estimated counts of some columns (a wanted set, or part of one) in every node."""
        shape = tuple(self.schema[n].size for n in columns)
        found = np.zeros((self.tree.size, *shape))
        for part in _parts(columns):
            absent = [1 + i for i, n in enumerate(columns) if n not in part]
            found += np.expand_dims(self._components[part], absent) / prod(shape[i - 1] for i in absent)
        return found

    def table_variance(self, columns: Attributes) -> Floats:
        """The variance of one estimated count in every node."""
        found = np.zeros(self.tree.size)
        for part in _parts(columns):
            centred = prod(1 - 1 / self.schema[n].size for n in part)
            others = prod(self.schema[n].size for n in columns if n not in part)
            found += node_variances(self.tree, self.variance(part)) * centred / others**2
        return found

    def level(self, level: int) -> slice:
        """The nodes of a level."""
        starts = np.cumsum([0, *self.places.sizes])
        return slice(int(starts[level]), int(starts[level + 1]))

    def _telling(self, level: int, component: Attributes) -> list[PlaceQuestion]:
        return [q for q in self.variances if q.level == level and set(component) <= set(q.columns)]

    def _summed_variance(self, question: PlaceQuestion, component: Attributes) -> float:
        """The variance of a table summed over all but the columns of a component."""
        return self.variances[question] * prod(self.schema[n].size for n in question.columns if n not in component)

    def _pool(self, level: int, component: Attributes) -> Floats:
        """What the tables of one level tell of a component, by inverse variance."""
        shape = (self.places.sizes[level], *(self.schema[n].size for n in component))
        total, found = 0.0, np.zeros(shape)
        for question in self._telling(level, component):
            weight = 1 / self._summed_variance(question, component)
            axes = tuple(1 + i for i, n in enumerate(question.columns) if n not in component)
            found += weight * self.values[question].sum(axis=axes)
            total += weight
        found /= total or 1.0
        for axis in range(1, found.ndim):
            found -= found.mean(axis=axis, keepdims=True)
        return found


def _parts(columns: Attributes) -> list[Attributes]:
    """All subsets of some columns, in their order."""
    return [part for size in range(len(columns) + 1) for part in combinations(columns, size)]


def plan_places(schema: Schema, sets: Sequence[Attributes], budget: Budget, rows: int | None) -> list[Planned]:
    """One line for every table by place, with the error that is left after least squares."""
    asked = place_questions(schema, sets)
    shares = place_budgets(schema, asked, budget)
    sds = [count_noise(schema.neighbours, schema.unit.max_rows, share).sd for share in shares]
    variances = {q: max(sd**2, LEAST_VARIANCE) for q, sd in zip(asked, sds, strict=True)}
    known = rows if schema.counts_are_public and not schema.rules else schema.known_rows
    told = PlaceEstimates(schema, tuple(sets), {}, variances, None if known is None else float(known))
    steps = []
    for question, share, sd in zip(asked, shares, sds, strict=True):
        left = float(np.sqrt(told.table_variance(question.columns)[told.level(question.level)].mean()))
        cells, leaf = question.cells(schema), question.level == len(told.places.sizes) - 1
        what = " × ".join([told.places.names[question.level], *question.columns])
        names = cells.attributes if leaf or not question.level else ()
        note = f"±{left:,.1f} with all levels together"
        line = Planned(f"counts by place, {what}", what, share, question.size(schema), sd, note, attributes=names)
        steps.append(replace(line, group="counts by place"))
    return steps
