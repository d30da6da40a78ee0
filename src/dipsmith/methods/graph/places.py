"""A model of rows in a tree of places: whole counts that add up from all rows to the smallest place, and rows in them.

Behind it are two things. `counts` says how many rows of each combination of a few columns lie in every place, in whole
numbers that add up over all levels, with public totals met exactly (`place_tables`, `raking`). A graphical model over
larger places and all columns (`areas`) draws what else there is in a row, given these columns and the larger place.

So a row's other columns depend on its place through its larger place and the columns that are counted by place, and on
nothing else.

The order of the estimates, from all rows down with whole numbers within each larger place, is that of the TopDown algorithm
(Abowd et al., Harvard Data Science Review, special issue 2, 2022); estimates use all levels at once.

Privacy: computed from noisy measurements and public facts; post-processing, free. ``docs/proofs/places.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.estimation.answers import NoisyTable
from dipsmith.estimation.balance import balance_given
from dipsmith.estimation.simplex import round_to
from dipsmith.estimation.tree_counts import project_down, round_top_down
from dipsmith.methods.graph.evidence import LEAST_SD, Evidence
from dipsmith.methods.graph.junction import Attributes
from dipsmith.methods.graph.model import GraphModel, admit
from dipsmith.methods.graph.place_tables import PlaceEstimates, counted_columns
from dipsmith.methods.graph.raking import RakingGoal, rake, round_places
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.places import area_name, coarse_schema, tree_of

MOST_AREAS = 512
"""The graphical model sees the finest level with at most so many places, in which a typical count departs by more than the
noise on a table that it chooses, by chance alone; the largest places where there is no such level."""

PLACE_ROOM = 2
"""How many times `max_cells` a model of places has, since every table with a place is large."""

PLACE_WEIGHT = 0.3
"""What a table by place weighs among those that may be chosen. Rows of a small place depart from any model by chance: with
weight 1 such tables take the rounds and the room from all others."""

FLOOR = 1e-9
"""The least weight of a combination that is possible."""


@dataclass(frozen=True, eq=False)
class PlaceModel:
    """Rows over a tree of places.

    `counts` has the rows of every place (in the order of the column's codes) and combination of `columns`; `areas` is the
    model of larger places and all other columns, those of one `level`; `tables` are the sets that were counted by place.
    """

    schema: Schema
    areas: GraphModel
    level: int
    columns: Attributes
    tables: tuple[Attributes, ...]
    counts: Ints

    kind: ClassVar[str] = "places"

    @property
    def rows(self) -> int:
        """How many rows there are in all places."""
        return int(self.counts.sum())

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """The noisy tables of larger places."""
        return self.areas.measurements

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows: as many as there are in every place and combination. Of another number, some at random."""
        random, place = generator(seed), tree_of(self.schema)
        cells = np.repeat(np.arange(self.counts.size), self.counts.ravel())
        wanted = len(cells) if n is None else n
        if len(cells) == 0 and wanted:  # nobody was measured: everybody is equally likely to be anywhere
            cells = np.arange(self.counts.size)
        times, rest = divmod(wanted, max(len(cells), 1))
        cells = np.concatenate([np.tile(cells, times), random.permutation(cells)[:rest]])
        cells = random.permutation(cells)
        code, combination = np.divmod(cells, self.counts.shape[1])
        shape = tuple(self.schema[c].size for c in self.columns)
        known: dict[str, Ints] = {self._area: place.nodes[self.level][code]}
        known |= zip(self.columns, np.unravel_index(combination, shape), strict=True) if self.columns else {}
        drawn, lawful = self.areas.complete(known, len(cells), random)
        if not lawful.all():  # no row with these columns is lawful: others are drawn, in the same place
            again = self.areas.sample(int((~lawful).sum()), int(random.integers(1 << 62)))
            columns = {name: column.copy() for name, column in drawn.columns.items()}
            for name, column in columns.items():
                column[~lawful] = again[name]
            drawn = Codes.of(self.areas.schema, columns, len(cells))
        if self.areas.balances(len(cells)):
            other, possible = self.areas.complete(known, len(cells), random)
            other = Codes.of(other.schema, {n: np.where(possible, other[n], drawn[n]) for n in other.names}, len(cells))
            drawn = balance_given(drawn, other, self.areas.expected_tables(len(cells)), random)
        own = {n: drawn[n] for n in self.schema.names if n in drawn.names}
        return Codes.of(self.schema, own | {place.attribute.name: code}, len(cells))

    @property
    def _area(self) -> str:
        return area_column(self.schema, self.level)

    def kept_tables(self) -> tuple[Attributes, ...]:
        """The tables by place, and those of other columns."""
        place = tree_of(self.schema).attribute.name
        inside = (tuple(n for n in clique if n in self.schema) for clique in self.areas.kept_tables())
        return ((place,), *((place, *names) for names in self.tables), *(names for names in inside if names))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The counts by place and the state of the graphical model."""
        facts, arrays = self.areas.state()
        own = {"level": self.level, "columns": list(self.columns), "tables": [list(t) for t in self.tables]}
        return {"places": own, **facts}, {"places/counts": self.counts, **arrays}

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        own = facts["places"]
        areas = GraphModel.from_state(coarse_schema(schema, own["level"]), facts, arrays)
        tables = tuple(tuple(t) for t in own["tables"])
        return cls(schema, areas, own["level"], tuple(own["columns"]), tables, arrays["places/counts"])


def area_column(schema: Schema, level: int) -> str:
    """The column of the places of a level."""
    place = tree_of(schema)
    return area_name(place.attribute.name, place.names[level])


def area_level(schema: Schema, rows: float, sd: float) -> int:
    """The level of places that a graphical model of so many rows should see, with such noise on what it chooses."""
    place = tree_of(schema)
    sizes = sorted(schema[n].size for n in schema.names if n != place.attribute.name)
    typical = sizes[len(sizes) // 2] if sizes else 1
    fitting = [i for i, n in enumerate(place.sizes) if n <= MOST_AREAS and rows / (n * typical) >= sd**2]
    return max([1, *fitting])


def area_evidence(estimates: PlaceEstimates, level: int, max_cells: int) -> list[Evidence]:
    """What tables by place tell of larger places: the evidence that the graphical model starts from."""
    schema = estimates.schema
    coarse, area = coarse_schema(schema, level), area_column(schema, level)
    found = []
    for names in fitting_sets(coarse, area, estimates.sets, max_cells):
        # What all rows together say is in the sums over places, but a fit that shrinks cells would lose it.
        for depth, attributes in ((level, (area, *names)), (0, names)):
            here = estimates.level(depth)
            values = estimates.table(names)[here]
            variance = float(estimates.table_variance(names)[here].mean())
            if attributes:
                table = Marginal.of(coarse, attributes)
                possible = table.possible()
                mask = None if possible is None else possible.reshape(table.shape)
                found.append(Evidence(attributes, values.reshape(table.shape), max(variance, LEAST_SD**2), mask))
    return found


def fitting_sets(coarse: Schema, area: str, sets: Sequence[Attributes], max_cells: int) -> list[Attributes]:
    """Of the sets that were counted by place, and the places themselves, those that the graphical model can hold."""
    wanted: list[Attributes] = [(area,), *((area, *names) for names in sets)]
    fitting = {frozenset(names) for names in admit(coarse, [], wanted, max_cells // 2)}
    return [names[1:] for names in wanted if frozenset(names) in fitting]


def known_columns(coarse: Schema, sets: Sequence[Attributes], max_cells: int) -> set[str]:
    """The columns, larger places among them, of which tables by place tell the graphical model."""
    area = next(n for n in coarse.names if all(n not in names for names in sets) and " (" in n)
    return {area, *(n for names in fitting_sets(coarse, area, sets, max_cells) for n in names)}


def place_totals(estimates: PlaceEstimates) -> Ints:
    """The whole number of rows of every node, adding up over all levels; public totals as they are."""
    variance = estimates.variance(())
    made = project_down(estimates.tree, estimates.table(()), variance)
    known = estimates.exact[0]
    return round_top_down(estimates.tree, made, int(known) if np.isfinite(known) else None)


def fill_places(estimates: PlaceEstimates, areas: GraphModel, level: int) -> PlaceModel:
    """Whole counts of every place and combination, from all rows down, and the model of rows with them."""
    schema, place = estimates.schema, estimates.places
    columns = counted_columns(schema, estimates.sets)
    shape = tuple(schema[n].size for n in columns)
    totals = place_totals(estimates)
    area = area_column(schema, level)
    prior = areas.marginal((area, *columns)).reshape(place.sizes[level], prod(shape))
    mask = Marginal.of(schema, columns).possible() if columns else None
    prior = (prior + FLOOR / prior.size) * (1.0 if mask is None else mask)
    targets = _targets(estimates, columns)
    counts = np.zeros((0, prod(shape)), dtype=np.int64)
    for depth, size in enumerate(place.sizes):
        here = estimates.level(depth)
        block = place.parents[depth - 1] if depth else np.zeros(1, dtype=np.int64)
        mine = totals[here].astype(np.float64)
        local = [replace(t, values=t.values[here], sd=t.sd[here]) for t in targets]
        if depth == 0:
            guess = mine[:, None] * prior.sum(axis=0, keepdims=True) / prior.sum()
            real = rake(guess, block, None, mine, local, shape)
            counts = round_to(real, int(totals[0]), None if mask is None else mask[None, :])
            continue
        if depth <= level:
            ancestors = _ancestors(place.parents, depth, level)
            shares = np.zeros((size, prod(shape)))
            np.add.at(shares, ancestors, prior)
        else:
            shares = np.repeat(mine[:, None], prod(shape), axis=1)
        together = np.zeros((len(counts), prod(shape)))
        np.add.at(together, block, shares)
        above = counts.astype(np.float64)
        guess = above[block] * np.divide(shares, together[block], out=np.zeros_like(shares), where=together[block] > 0)
        guess[mine == 0] = 0.0
        real = rake(guess, block, above, mine, local, shape)
        counts = round_places(real, block, counts, totals[here], local, shape)
    return PlaceModel(schema, areas, level, columns, estimates.sets, counts[place.nodes[-1]])


def _targets(estimates: PlaceEstimates, columns: Attributes) -> list[RakingGoal]:
    found = []
    for names in estimates.sets:
        values = estimates.table(names)
        sd = np.sqrt(estimates.table_variance(names))
        found.append(RakingGoal(tuple(columns.index(n) for n in names), values.reshape(len(values), -1), sd))
    return found


def _ancestors(parents: Sequence[Ints], depth: int, level: int) -> Ints:
    """Of every place of `level`: the place of the larger level `depth` that holds it."""
    found = np.arange(len(parents[level - 1])) if level else np.zeros(1, dtype=np.int64)
    for step in range(level, depth, -1):
        found = parents[step - 1][found]
    return np.asarray(found)
