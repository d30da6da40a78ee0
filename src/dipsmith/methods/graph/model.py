"""Graphical models of noisy marginals: one distribution over all columns, and rows drawn from it.

`GraphModel` is what MST, AIM and PrivBayes (and overlapping marginals) end in: the clique tables of a
junction tree, fitted to noisy marginals by maximum entropy (`entropy`). It answers any marginal
(`queries`), draws rows along the tree and completes rows in which some columns are given
(`completion`). Impossible combinations whose columns lie in one clique have probability 0; the rest
are left out when rows are drawn.

Its size is decided before anything is measured: `junction.cells_needed` counts the cells of a model
that does not exist yet, and `admit` keeps only the links that fit.

Privacy: everything here is computed from noisy measurements and public facts; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable, Post
from dipsmith.estimation.balance import LEAST_SPARE, SPARE, balance
from dipsmith.estimation.lawful import ROUNDS, lawful_rows
from dipsmith.methods.graph.completion import complete_columns, draw_columns
from dipsmith.methods.graph.entropy import EntropyFit, fit
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree, cells_needed
from dipsmith.methods.graph.queries import marginal, pairs
from dipsmith.methods.method import arrays_of, join_states
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Codes, Schema

C = TypeVar("C", bound=Sequence[str])

MAX_CELLS = 1 << 19
"""Cells of a model at most, unless a method says otherwise: 4 MB of probabilities."""

LOOKED_UP, BALANCED_CELLS, LARGEST_PAIR = 10**8, 1 << 22, 1 << 16
"""Rows are balanced where that looks up so many cells at most (two seconds) in tables with so many cells (100 MB)."""

COUNTED_CELLS = 1 << 25
"""Cells of all candidate tables together at most: 256 MB of counts behind the barrier."""


@dataclass(frozen=True, eq=False)
class GraphModel:
    """A distribution over all columns of a schema: the probabilities (`beliefs`) of every clique of a junction tree.

    `total` is the number of rows in the measurements, `rows` how many `sample` draws when not told; `measurements` are
    all noisy tables as they were measured, also those that the model does not hold.
    """

    schema: Schema
    tree: JunctionTree
    beliefs: tuple[Array, ...]
    total: float
    rows: int
    measurements: tuple[NoisyTable, ...] = ()

    kind: ClassVar[str] = "graph"

    @classmethod
    def of(
        cls, schema: Schema, fitted: EntropyFit, rows: int | None = None, measurements: tuple[NoisyTable, ...] = ()
    ) -> Self:
        """The model of a fit; it draws as many rows as were measured unless told otherwise."""
        count = max(0, round(fitted.total)) if rows is None else rows
        return cls(schema, fitted.tree, fitted.beliefs, fitted.total, count, measurements)

    def marginal(self, attributes: Sequence[str]) -> Array:
        """The probabilities of the cross-table of some attributes, in the order given."""
        return marginal(self.tree, self.beliefs, attributes)

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows that break no rule, also those over several cliques; their tables of pairs are near the model's."""
        random, wanted = generator(seed), self.rows if n is None else n

        def draw(count: int) -> Codes:
            return Codes.of(self.schema, draw_columns(self.tree, self.beliefs, count, random), count)

        rows = lawful_rows(draw, wanted, seed)
        if not self.balances(wanted):
            return rows
        spare = lawful_rows(draw, max(int(SPARE * wanted), LEAST_SPARE), seed)
        return balance(Codes.concatenate([rows, spare]), wanted, self.expected_tables(wanted), random)

    def expected_tables(self, rows: int) -> dict[Attributes, Array]:
        """The tables that so many rows are balanced to: all pairs that are not too large, and the model's own."""
        tables = pairs(self.tree, self.beliefs, self._small_pairs())
        found: dict[Attributes, Array] = {names: rows * table for names, table in tables.items()}
        larger = ((c, b) for c, b in zip(self.tree.cliques, self.beliefs, strict=True) if len(c) > 2)
        return found | {names: rows * belief for names, belief in larger}

    def _small_pairs(self) -> list[Attributes]:
        return [pair for pair in combinations(self.schema.names, 2) if self.schema.size(pair) <= LARGEST_PAIR]

    def balances(self, rows: int) -> bool:
        """Whether rows are balanced: there is something to gain, the model knows all rules, and it takes seconds only."""
        if len(self.tree.cliques) == 1 or any(self.tree.find_clique(r.attributes) is None for r in self.schema.rules):
            return False
        if not (small := self._small_pairs()):
            return False
        cells = self.tree.cells + sum(map(self.schema.size, small))
        return rows * (len(small) + len(self.tree.cliques)) <= LOOKED_UP and cells <= BALANCED_CELLS

    def sample_given(self, given: Codes, seed: int | None = None) -> Codes:
        """Complete rows: draw the columns that `given` does not have, given those that it has.

        The given columns come back unchanged, in their order.
        """
        if not given.lawful().all():
            raise UsageError("Rows to complete: some break a rule of the schema; leave them out first")
        known: dict[str, NDArray[np.integer]] = {name: given[name] for name in given.names}
        completed, lawful = self.complete(known, len(given), generator(seed))
        if lawful.all():
            return completed
        raise UsageError(
            f"Rows to complete: {(~lawful).sum()} still break a rule of the schema after {ROUNDS} draws; "
            "give fewer columns, or leave these rows out"
        )

    def complete(
        self, known: Mapping[str, NDArray[np.integer]], rows: int, random: Generator
    ) -> tuple[Codes, NDArray[np.bool_]]:
        """Draw the columns that are not known of every row, given those that are; and which rows then break no rule.

        Rows that break one are drawn again, a number of times.
        """
        columns = complete_columns(self.tree, self.beliefs, known, rows, random)
        lawful = Codes.of(self.schema, columns, rows).lawful()
        for _ in range(ROUNDS):
            broken = np.flatnonzero(~lawful)
            if not broken.size:
                break
            some = {name: column[broken] for name, column in known.items()}
            again = complete_columns(self.tree, self.beliefs, some, broken.size, random)
            for name in columns.keys() - known.keys():
                columns[name][broken] = again[name]
            lawful[broken] = Codes.of(self.schema, again, broken.size).lawful()
        return Codes.of(self.schema, columns, rows), lawful

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The cliques."""
        return self.tree.cliques

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The model as JSON-able facts and arrays."""
        tables, arrays = join_states(table.state() for table in self.measurements)
        facts = {
            "cliques": [list(c) for c in self.tree.cliques],
            "parents": list(self.tree.parents),
            "separators": [list(s) for s in self.tree.separators],
            "total": self.total,
            "rows": self.rows,
            "measurements": tables,
        }
        return facts, {f"clique/{i}": b for i, b in enumerate(self.beliefs)} | arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        tree = JunctionTree(
            {a.name: a.size for a in schema.attributes},
            tuple(tuple(c) for c in facts["cliques"]),
            tuple(facts["parents"]),
            tuple(tuple(s) for s in facts["separators"]),
        )
        beliefs = tuple(arrays[f"clique/{i}"] for i in range(len(tree.cliques)))
        tables = enumerate(facts.get("measurements", ()))
        measured = tuple(NoisyTable.from_state(schema, fact, arrays_of(i, arrays)) for i, fact in tables)
        return cls(schema, tree, beliefs, float(facts["total"]), int(facts["rows"]), measured)


def admit(
    schema: Schema, linked: Sequence[Collection[str]], wishes: Sequence[Collection[str]], max_cells: int
) -> list[Collection[str]]:
    """Those of the wished links, first come first served, with which the model stays within `max_cells`.

    Decided from public sizes alone.
    """
    sizes = {a.name: a.size for a in schema.attributes}
    added: list[Collection[str]] = []
    for wish in wishes:
        if cells_needed(sizes, [*linked, *added, wish]) <= max_cells:
            added.append(wish)
    return added


def within_cells(schema: Schema, candidates: Sequence[C], cells: int) -> list[C]:
    """Those candidates, smallest tables first, that have at most so many cells together, in their order."""
    smallest = sorted(range(len(candidates)), key=lambda i: schema.size(candidates[i]))
    reached = np.cumsum([schema.size(candidates[i]) for i in smallest], dtype=np.float64)
    kept = set(smallest[: int(np.searchsorted(reached, cells, side="right"))])
    return [c for i, c in enumerate(candidates) if i in kept]


def rule_links(schema: Schema, linked: Sequence[Collection[str]], max_cells: int) -> list[Collection[str]]:
    """The rules' sets of attributes that can be cliques, so that the model itself knows the rule."""
    return admit(schema, linked, [r.attributes for r in schema.rules], max_cells)


def fit_tables(tables: Sequence[NoisyTable], post: Post = "project", max_cells: int = MAX_CELLS) -> GraphModel:
    """The joint model of noisy tables.

    Tables that share no attribute are taken as they are after projecting or clipping. Tables that
    overlap are made to agree by maximum entropy; those with which the model would exceed `max_cells`
    are left out of it, later ones first.
    """
    schema, total = tables[0].marginal.schema, max(tables[0].total, 0.0)
    sets = [t.marginal.attributes for t in tables]
    names = [n for s in sets for n in s]
    if len(set(names)) == len(names):
        tree = JunctionTree.of({a.name: a.size for a in schema.attributes}, sets)
        measured = {frozenset(t.marginal.attributes): t for t in tables}
        beliefs = []
        for clique in tree.cliques:
            counts = np.zeros(tree.shape(clique))
            table = measured.get(frozenset(clique))
            if table is not None:
                counts = table.table(post).reshape(table.marginal.shape)
                counts = counts.transpose([table.marginal.attributes.index(n) for n in clique])
            mass = counts.sum()
            beliefs.append(counts / mass if mass > 0 else np.full(counts.shape, 1 / counts.size))
        return GraphModel(schema, tree, tuple(beliefs), total, round(total))
    fitting = {frozenset(s) for s in admit(schema, [], sets, max_cells)}
    evidence = []
    for t in (t for t in tables if frozenset(t.marginal.attributes) in fitting):
        shape = t.marginal.shape
        possible = None if t.possible is None else t.possible.reshape(shape)
        evidence.append(Evidence(t.marginal.attributes, t.estimates.reshape(shape), t.variance, possible))
    links = rule_links(schema, [e.attributes for e in evidence], max_cells)
    return GraphModel.of(schema, fit(schema, evidence, total, linked=links), round(total))
