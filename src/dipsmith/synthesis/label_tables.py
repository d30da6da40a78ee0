"""Noisy label tables of a release under `label`, and the best estimate of a regression's sums that they give.

Under `label` public columns are released as they stand, so that anyone knows which cell of a noisy table every public row
lies in. What a regression needs are sums Σ w·1[labels] over the rows with public weights w (`dipsmith.analyses.sums`). Such
a sum follows from noisy tables wherever its weight is a sum of functions of their cells, w(row) = Σ_t f_t(cell of the row in
t): shares by agency follow from a table of agency × sex or any larger one, and what pay has beyond agency and age follows
from three small tables. Of all f the one with the least noise is taken: min Σ σ_t²·f_t² under that condition, the
Gauss–Markov estimate, in which tables that say the same are averaged by their variance, and sums of sums agree.

So a regression all of whose sums are determined has a direct estimate (`dipsmith.analyses.direct`), planned or not: the
synthetic labels are not needed, and it does not matter whether they were adjusted to something else. Everything is linear in
the noisy counts, so that noise is drawn again and sent the same way.

A table is used only if its public totals are those of the released rows: labels of another file, or rows that were left
out, are not told by it.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.measure import purchases_as_given
from dipsmith.analyses.purchase import Purchase
from dipsmith.analyses.sums import Layout
from dipsmith.errors import UsageError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.schema import Codes, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.synthesis.canonical import PublicRows
from dipsmith.synthesis.label_system import LabelSystem, RowWeights, SolvedWeights
from dipsmith.synthesis.label_table import LabelTable, Weights

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

Wanted = tuple[tuple[str, ...], NDArray[np.signedinteger], int, Weights | None]
"""Labels, the group of every row (−1: none), how many groups there are, and what rows weigh."""

AT_A_TIME = 4_000_000
"""Numbers of one batch of draws."""


@dataclass(frozen=True, eq=False)
class LabelTables:
    """All noisy label tables over the distinct public rows that count, each `often`: those at `held` of all.

    The sums of planned analyses, of which formulas have to be read again, are found `later`, by `whole`.
    """

    schema: Schema
    often: Ints
    held: Ints | slice
    tables: tuple[LabelTable, ...]
    public: pa.Table | None = None
    later: Callable[[], Iterable[LabelTable]] = tuple

    @classmethod
    def of(cls, release: Release) -> LabelTables:
        """Find out which cell of each noisy table the public rows lie in."""
        schema, table = release.schema, release.tables[0]
        names = [n for n in schema.public if n in table.column_names]
        rows = PublicRows.of(table.to_batches(), schema, names)
        first, place = rows.distinct()
        kinds, often = rows.only(first), np.bincount(place, minlength=len(first)).astype(np.int64)
        public = kinds.short_table(names)
        names = measured_columns(schema, release.measurements, public.column_names)
        codes = kinds.codes(schema, names)
        reader = _LabelTableReader(schema, {n: codes[n] for n in codes.names}, often)

        def bought() -> Iterable[LabelTable]:
            planned = [PlannedAnalysis.of(a) for a in release.card.analyses]
            with suppress(UsageError):  # formulas of columns that were not released
                purchases = purchases_as_given(planned, schema, public, often)
                return reader.bought(release.measurements, purchases, slice(None))
            return ()

        return cls(schema, often, slice(None), reader.count_tables(release.measurements), public, bought)

    @cached_property
    def whole(self) -> LabelTables:
        """With the sums of planned analyses: they make more precise what the others tell, and tell more."""
        return replace(self, tables=(*self.tables, *self.later()), later=tuple)

    @classmethod
    def read(
        cls,
        schema: Schema,
        codes: Codes,
        often: Ints,
        measured: Sequence[MeasuredTable],
        purchases: Sequence[Purchase],
    ) -> LabelTables:
        """Of tables measured in this run, beside the distinct public rows that count; `purchases` tell what sums are of."""
        held = slice(None) if often.all() else np.flatnonzero(often)
        reader = _LabelTableReader(schema, {n: codes[n][held] for n in codes.names}, often[held])
        found = (*reader.count_tables(measured), *reader.bought(measured, purchases, held, same_rows=True))
        return cls(schema, often[held], held, found)

    def sums(self, layout: Layout) -> DeterminedSums | None:
        """The sums that a regression needs; None where some are not determined."""
        wanted = {t.key: (t.labels, t.groups, t.size, t.weight) for t in layout.tables}
        if layout.design.y is not None:
            # Nothing is bought, so that residuals need not be clipped; and only whole ones are sums of functions of cells.
            for i, term in enumerate(layout.design.terms):
                table, scale = layout.score(i), 1.0 if term.weight is None else np.nan_to_num(term.weight)
                wanted[table.key] = (table.labels, table.groups, table.size, layout.whole_residual * scale)
        return self._solve_if_determined(wanted)

    def pool(self, layout: Layout) -> DeterminedSums | None:
        """The sums that were bought for a regression, with all that other tables tell of them; None where these are too many."""
        wanted: dict[str, Wanted] = {}
        for table in layout.tables:
            held = None if table.weight is None else table.steps[self.held]
            wanted[table.key] = (table.labels, table.groups[self.held], table.size, held)
        found = self._solve_if_determined(wanted)
        units = {table.key: table.unit for table in layout.tables}
        return None if found is None else found.times(units)

    def joint(self, labels: tuple[str, ...]) -> DeterminedSums | None:
        """How often some labels occur together over all rows, under the key ""."""
        return self._solve_if_determined({"": (labels, np.zeros(len(self.often), np.int64), 1, None)})

    def _solve_if_determined(self, wanted: Mapping[str, Wanted]) -> DeterminedSums | None:
        asked: dict[tuple[str, ...], dict[str, RowWeights]] = defaultdict(dict)
        for key, (labels, groups, size, weight) in wanted.items():
            asked[labels][key] = RowWeights(groups, size, weight)
        found: dict[str, SolvedWeights] = {}
        for labels, some in asked.items():
            if labels not in self._systems:
                self._systems[labels] = LabelSystem.of(self.tables, labels, self.schema)
            solved = self._systems[labels].solve(some)
            if solved is None:
                return None
            found |= solved
        return DeterminedSums({n: self.schema[n].size for n in self.schema.private}, self.tables, found)

    @cached_property
    def _systems(self) -> dict[tuple[str, ...], LabelSystem]:
        return {}


def measured_columns(schema: Schema, measured: Sequence[MeasuredTable], public: Sequence[str]) -> list[str]:
    """The public columns that measured cross-tables are of."""
    named = {n for t in measured if t.kind == "cross-table" for n in (*t.attributes, *dict(t.within))}
    return [n for n in public if n in named and n in schema]


@dataclass(frozen=True, eq=False)
class DeterminedSums:
    """Sums from label tables, by the keys of a layout's tables."""

    sizes: Mapping[str, int]
    tables: tuple[LabelTable, ...]
    parts: Mapping[str, SolvedWeights]

    @cached_property
    def used_tables(self) -> tuple[int, ...]:
        """The tables that are asked."""
        return tuple(sorted({i for part in self.parts.values() for i in part.tables}))

    def times(self, units: Mapping[str, float]) -> DeterminedSums:
        """The same sums of weights in other units."""
        parts = {k: replace(part, functions=part.functions * units[k]) for k, part in self.parts.items()}
        return replace(self, parts=parts)

    def measured_sums(self) -> dict[str, Float]:
        """The sums as they were measured: one draw."""
        return self._send({i: self.tables[i].values[None] for i in self.used_tables})

    def redraw(self, random: np.random.Generator, draws: int) -> dict[str, Float]:
        """Their noise again."""
        size = sum(self.tables[i].values.size for i in self.used_tables)
        most = max(1, AT_A_TIME // max(size, 1))
        some = [min(most, draws - start) for start in range(0, draws, most)]
        batches = [self._send({i: self.tables[i].draw(random, now) for i in self.used_tables}) for now in some]
        return {key: np.concatenate([b[key] for b in batches]) for key in self.parts}

    def _send(self, values: Mapping[int, Float]) -> dict[str, Float]:
        """Sums from the counts of every table: draws × groups × labels."""
        folded: dict[tuple[tuple[str, ...], int], Float] = {}
        found = {}
        for key, part in self.parts.items():
            for i in part.tables:
                if (part.labels, i) not in folded:
                    folded[part.labels, i] = self._fold(values[i], self.tables[i].labels, part.labels)
            cells = np.concatenate([folded[part.labels, i] for i in part.tables], axis=1)
            found[key] = np.asarray(np.einsum("cg,dcl->dgl", part.functions, cells, optimize=True))
        return found

    def _fold(self, values: Float, given: tuple[str, ...], wanted: tuple[str, ...]) -> Float:
        """Counts of some labels, the others added up."""
        draws, cells, _ = values.shape
        table = values.reshape(draws, cells, *(self.sizes[n] for n in given))
        dropped = tuple(2 + i for i, n in enumerate(given) if n not in wanted)
        table = table.sum(axis=dropped) if dropped else table
        order = [n for n in given if n in wanted]
        return np.transpose(table, (0, 1, *(2 + order.index(n) for n in wanted))).reshape(draws, cells, -1)


@dataclass(frozen=True, eq=False)
class _LabelTableReader:
    """Reads measured tables against the codes of the distinct public rows."""

    schema: Schema
    codes: dict[str, NDArray[np.integer]]
    often: Ints

    def count_tables(self, measured: Sequence[MeasuredTable]) -> tuple[LabelTable, ...]:
        """Tables of counts."""
        return (*self.cross_tables(measured), *self.margins(measured))

    def cross_tables(self, measured: Sequence[MeasuredTable]) -> Iterator[LabelTable]:
        """Cross-tables of public columns and labels; those of parts of the rows are put together."""
        alike: dict[tuple[tuple[str, ...], tuple[str, ...], str], dict[tuple[str, ...], list[MeasuredTable]]]
        alike = defaultdict(lambda: defaultdict(list))
        for table in measured:
            if table.kind == "cross-table" and table.threshold is None and self._is_labels(table):
                parts, values = tuple(n for n, _ in table.within), tuple(v for _, v in table.within)
                sanitised = table.block.split("/")[0] if table.block.startswith("set ") else ""
                alike[table.attributes, parts, sanitised][values].append(table)
        for (_, parts, _), by_part in alike.items():
            for i in range(min(len(same) for same in by_part.values())):
                made = self._cross([same[i] for same in by_part.values()], parts)
                if made is not None:
                    yield made

    def _is_labels(self, table: MeasuredTable) -> bool:
        """Whether it is public columns × private labels, in the sizes of the schema."""
        schema = self.schema
        if len(table.shape) != len(table.attributes) or not table.in_group:
            return False
        labels = [n for n in table.attributes if schema[n].role == "private"]
        own = [n for n in table.attributes if n not in labels]
        known = {*own, *dict(table.within)} <= set(self.codes)
        fits = tuple(schema[n].size for n in table.attributes) == table.shape
        return known and fits and table.attributes == (*own, *labels) and table.in_group == schema.size(labels)

    def _cross(self, tables: Sequence[MeasuredTable], parts: Sequence[str]) -> LabelTable | None:
        first = tables[0]
        labels = tuple(n for n in first.attributes if self.schema[n].role == "private")
        public = first.attributes[: len(first.attributes) - len(labels)]
        groups = first.size // first.in_group
        small = np.int32 if groups * len(tables) < 1 << 31 else np.int64
        own: NDArray[np.signedinteger] = np.zeros(len(self.often), small)
        for name in public:
            np.multiply(own, self.schema[name].size, out=own)
            np.add(own, self.codes[name], out=own, casting="same_kind")
        cell = own
        if parts:
            cell = np.full_like(own, -1)
            for i, table in enumerate(tables):
                inside = np.ones(len(own), dtype=bool)
                for name, label in table.within:
                    inside &= self.codes[name] == self.schema[name].labels.index(label)
                cell[inside] = i * groups + own[inside]
            if (cell < 0).any():
                return None
        values = np.concatenate([t.array.reshape(groups, -1) for t in tables]).astype(np.float64)
        noise = np.concatenate([(t.carries_noise * t.variance).reshape(groups, -1) for t in tables])
        totals = [np.zeros(groups) if t.totals is None else t.totals for t in tables]
        return self._make_table(labels, cell, None, values, noise, np.concatenate(totals), first)

    def margins(self, measured: Sequence[MeasuredTable]) -> Iterator[LabelTable]:
        """How often labels occur over all rows, by the leaves of trees."""
        for table in measured:
            if table.kind != "regions" or table.within or table.totals is None or len(table.shape) != 2:
                continue
            labels = tuple(n for n in table.attributes if self.schema[n].role == "private")
            if table.in_group != table.shape[1] or self.schema.size(labels) != table.in_group or not labels:
                continue
            values = table.array.astype(np.float64).sum(axis=0, keepdims=True)
            noise = (table.carries_noise * table.variance).astype(np.float64).sum(axis=0, keepdims=True)
            cell = np.zeros(len(self.often), np.int8)
            made = self._make_table(labels, cell, None, values, noise, table.totals.sum(keepdims=True), table)
            if made is not None:
                yield replace(made, laplace=False)

    def bought(
        self,
        measured: Sequence[MeasuredTable],
        purchases: Sequence[Purchase],
        held: Ints | slice,
        *,
        same_rows: bool = False,
    ) -> Iterator[LabelTable]:
        """The sums of planned analyses, of whose groups and weights the formulas tell; `same_rows` if bought of these rows."""
        known: dict[str, Float | None] = {}  # totals of the same groups and weights, by other labels
        for one, table in _match(purchases, [t for t in measured if t.kind == "weighted sums"]):
            bought, groups = one.table, one.table.size + 1
            if table.shape != (groups, bought.label_cells) or table.attributes != bought.labels or table.totals is None:
                continue
            cell = bought.groups[held]
            if cell.min(initial=0) < 0:
                cell = np.where(cell < 0, bought.size, cell.astype(np.int64))
            weight = None if bought.weight is None else bought.steps[held]
            used = slice(bought.size + bought.has_uncounted)  # the last group is that of rows that do not count
            values = table.array[used].astype(np.float64)
            noise = (table.carries_noise * table.variance)[used].astype(np.float64)
            totals = np.asarray(table.totals[used], np.float64)
            of_rows = totals if same_rows else known.get(bought.public_key)
            made = self._make_table(bought.labels, cell, weight, values, noise, totals, table, of_rows)
            known[bought.public_key] = totals if made is not None else None
            if made is not None:
                yield made

    def _make_table(
        self,
        labels: tuple[str, ...],
        cell: NDArray[np.signedinteger],
        weight: Weights | None,
        values: Float,
        noise: Float,
        totals: Float,
        table: MeasuredTable,
        of_rows: Float | None = None,
    ) -> LabelTable | None:
        """A table, if its public totals are those of the released rows (`of_rows`, where they are known)."""
        law = table.law != "discrete Gaussian"
        made = LabelTable(labels, cell, weight, values, noise, law, table.single)
        most = 1e-6 * max(1.0, float(np.abs(totals).max(initial=0.0)))
        reached = made.totals(self.often) if of_rows is None else of_rows
        if not np.abs(reached - totals).max(initial=0.0) <= most:
            return None
        return made.agree_with_totals(totals.astype(np.float64))


def _match(purchases: Sequence[Purchase], sums: Sequence[MeasuredTable]) -> Iterator[tuple[Purchase, MeasuredTable]]:
    """Purchases beside what was measured of them, both in the order in which they were asked for; some may not be sought."""
    names, start = [table.name.rpartition(" (")[0] for table in sums], 0
    for one in purchases:
        with suppress(ValueError):
            at = names.index(one.title, start)
            yield one, sums[at]
            start = at + 1
