"""The sums that planned analyses need, and what a design makes of them.

Several designs share a `SumTable` where they ask for the same. `Layout` knows which table holds which cross-product of a design:

* A = Z′S, public columns × private ones;
* N = S′S, private × private;
* T = r′S, where r is the public residual of a public response on the public columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.bin_doubt import Values
from dipsmith.analyses.design import Design, Float, Ints, PrivateTerm
from dipsmith.analyses.orthogonal import OrthogonalColumns, finite, plain_numbers, square_of
from dipsmith.analyses.public_columns import Gram, GroupColumns, Inverse, PublicColumns, RowRuns
from dipsmith.analyses.sum_table import SumTable

LEAST_BIAS = 0.05
"""What clipping takes off all residuals together may be so much of σ√n: a tenth of a standard error, at worst."""

FAR = 3.0
"""Residuals beyond so many standard deviations are looked through first for where to clip."""

LABELS = "labels"
"""The table of all private labels of a design together."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A design with its public algebra and the tables that hold its cross-products."""

    design: Design
    tables: tuple[SumTable, ...]
    derived: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, *, as_given: bool = False) -> Layout:
        """Find out which sums a design needs; or only those of groups and numbers as they are given, which cost less."""
        bare = cls(design, ())
        found: dict[str, SumTable] = {}
        for table in bare._list_needed(as_given):
            found.setdefault(table.key, table)
        derived = {a.key: b.key for a in found.values() for b in found.values() if a.is_sum_of(b)}
        layout = cls(design, tuple(t for t in found.values() if t.key not in derived), derived)
        # What is known of the public columns does not depend on the tables.
        known = {name: value for name, value in vars(bare).items() if name not in ("tables", "derived")}
        vars(layout).update(known)
        return layout

    def with_values(self, values: Values) -> Layout:
        """The same with other numbers for the labels of some private columns."""
        layout = Layout(self.design.with_values(values), self.tables, self.derived)
        vars(layout).update({name: value for name, value in vars(self).items() if name not in ("design", "_known")})
        return layout

    # --- what is public ----------------------------------------------------------------------------

    @cached_property
    def runs(self) -> RowRuns:
        """Rows that follow one another and agree in the public columns."""
        return RowRuns.of(self.design.blocks, len(self.design.often))

    @cached_property
    def run_often(self) -> Float:
        """How many rows of each run count."""
        return self.runs.sums(self.design.often)

    @cached_property
    def _algebra(self) -> OrthogonalColumns:
        """Z with plain numbers less what the other columns and the numbers before them say; Z′Z; and the way back."""
        blocks = [self.runs.block(b) for b in self.design.blocks]
        return OrthogonalColumns.of(blocks, self.run_often, self.places, self.reported_columns)

    @property
    def run_columns(self) -> PublicColumns:
        """The public columns Z of each run, plain numbers orthogonal to the columns before them: sums of these carry less noise."""
        return self._algebra.columns

    @cached_property
    def public_columns(self) -> tuple[GroupColumns, ...]:
        """The public columns of every row, block by block."""
        weights = [None if b.weight is None else self.runs.spread(b.weight) for b in self.run_columns.blocks]
        return tuple(GroupColumns.of(b, w) for b, w in zip(self.design.blocks, weights, strict=True))

    @property
    def back(self) -> Float:
        """Coefficients of the formula's own `reported` columns from those of the columns of Z."""
        return self._algebra.back

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """Where each block's columns stand in Z."""
        ends = np.cumsum([0, *(len(b.levels) for b in self.design.blocks)])
        return tuple(np.arange(a, b) for a, b in pairwise(ends))

    @cached_property
    def reported_columns(self) -> Ints:
        """The columns of Z whose coefficients are told: those of terms, not of fixed effects."""
        told = [at for b, at in zip(self.design.blocks, self.places, strict=True) if b.name[0] != "|"]
        return np.concatenate([np.zeros(0, np.int64), *told])

    @property
    def gram(self) -> Gram:
        """Z′Z."""
        return self._algebra.gram

    @property
    def inverse(self) -> Inverse:
        """A generalised inverse of Z′Z."""
        return self.gram.inverse

    @cached_property
    def told_inverse(self) -> Float:
        """Its rows of the `reported` columns."""
        return self.inverse.rows(self.reported_columns)

    @property
    def is_identified(self) -> bool:
        """Whether none of the `reported_columns` is said by the other public ones."""
        one = np.eye(self.run_columns.width)[:, self.reported_columns]
        return np.allclose(self.told_inverse @ self.gram.times(one), one[self.reported_columns], atol=1e-6)

    @cached_property
    def public_cross(self) -> Float:
        """Z′y of a public response."""
        assert self.design.y is not None
        return self.run_columns.cross(self.runs.sums(self.design.often * finite(self.design.y)))

    @cached_property
    def whole_residual(self) -> Float:
        """The public residual of the response on the public columns."""
        assert self.design.y is not None
        residual = self.runs.spread(-self.run_columns.times(self.inverse.times(self.public_cross)))
        residual += finite(self.design.y)
        residual[self.design.often == 0] = 0.0
        return residual

    @cached_property
    def square(self) -> float:
        """The residual sum of squares on the public columns."""
        return square_of(self.design.often, self.whole_residual)

    @cached_property
    def residual(self) -> Float:
        """The public residual of the response on the public columns, extremes clipped as far as they cannot matter.

        A heavy tail may belong to one label alone. So all that is clipped away, were it all one label's, must be small
        against what sampling makes uncertain; else nothing is clipped, and the noise is that of the largest residual.
        """
        whole, often = self.whole_residual, self.design.often
        allowed, spread = LEAST_BIAS * np.sqrt(self.square), np.sqrt(self.square / max(self.design.rows, 1.0))
        # Most residuals are far from the extremes, which alone have to be sorted.
        for least in (FAR * spread, FAR * spread / 2, FAR * spread / 4, -1.0):
            far = np.flatnonzero((whole > least) | (whole < -least))
            if float(often[far] @ (np.abs(whole[far]) - least)) > allowed:
                break
        size, often = np.abs(whole[far]), often[far]
        order = np.argsort(-size, kind="stable")
        rising, many = size[order], np.cumsum(often[order])
        # Clipping at the i-th largest takes Σ (size − c) off those above it.
        taken = np.cumsum(often[order] * rising) - many * rising
        at = max(int(np.searchsorted(taken, allowed, side="right")) - 1, 0)
        return np.clip(whole, -rising[at], rising[at]) if len(rising) else whole

    # --- which sums hold what --------------------------------------------------------------------------

    @cached_property
    def _plain(self) -> list[int]:
        """Blocks whose weight is made orthogonal."""
        return plain_numbers(self.design.blocks)

    def _list_needed(self, as_given: bool) -> list[SumTable]:
        d = self.design
        blocks = [b for b in range(len(d.blocks)) if not (as_given and b in self._plain)]
        tables = [t for i in range(len(d.private)) for j in range(i, len(d.private)) if (t := self.pair(i, j))]
        tables += [t for b in blocks for i in range(len(d.private)) if (t := self.cross(b, i))]
        if d.y is not None and not as_given:
            tables += [self.score(i) for i in range(len(d.terms))]
        return tables

    def _table(
        self,
        name: str,
        groups: Sequence[tuple[NDArray[np.signedinteger], int]],
        weights: Sequence[Float | None],
        labels: tuple[str, ...],
    ) -> SumTable:
        cells = int(np.prod([self.design.sizes[n] for n in labels]))
        groups = [pair for pair in groups if pair[1] > 1]
        alike = (*(id(codes) for codes, _ in groups), None, *(id(w) for w in weights if w is not None))
        if alike in self._alike:  # the same groups and weights by other labels
            return self._alike[alike].by(name, labels, cells)
        size = 1
        code: NDArray[np.signedinteger] = np.broadcast_to(np.int16(0), len(self.design.often))
        for more, levels in groups:
            # Groups may be in a small type, their combinations not.
            code, size = (np.multiply(code, levels, dtype=np.int64) + more if size > 1 else more), size * levels
        weight: Float | None = None
        for given in weights:
            if given is not None:
                weight = finite(given) if weight is None else weight * finite(given)
        counted = self.design.often > 0
        code = code if counted.all() else np.where(counted, code, -1)
        self._alike[alike] = SumTable.of(name, code, size, weight, labels, cells)
        return self._alike[alike]

    @cached_property
    def _alike(self) -> dict[tuple[int | None, ...], SumTable]:
        return {}

    def totals(self, table: SumTable) -> Float:
        """The public weight of every group of a table."""
        if table.public_key not in self._totals:
            self._totals[table.public_key] = table.totals(self.design.often)
        return self._totals[table.public_key]

    @cached_property
    def _totals(self) -> dict[str, Float]:
        return {}

    @cached_property
    def _tables_made(self) -> dict[tuple[str, int, int], SumTable]:
        return {}

    def _once(self, kind: str, i: int, j: int, make: Callable[[], SumTable]) -> SumTable:
        return self._tables_made.setdefault((kind, i, j), self._tables_made.get((kind, i, j)) or make())

    def pair(self, i: int, j: int) -> SumTable:
        """The table of two private terms' products."""
        return self._once("pair", i, j, lambda: self._pair(i, j))

    def cross(self, b: int, i: int) -> SumTable:
        """The table of a public block and a private term."""
        return self._once("cross", b, i, lambda: self._cross(b, i))

    def score(self, i: int) -> SumTable:
        """The table of the residual and a private term."""
        return self._once("score", i, i, lambda: self._score(i))

    def _pair(self, i: int, j: int) -> SumTable:
        d = self.design
        one, other = d.private[i], d.private[j]
        if all(_simple(t) for t in (one, other)):
            return self._table(f"{LABELS} {' × '.join(d.labels)}", [], [], d.labels)
        labels = tuple(n for n in d.labels if n in {*one.labels, *other.labels})
        key = f"{one.name} · {other.name}"
        return self._table(key, _joint_groups(one, other), [one.weight, other.weight], labels)

    def _cross(self, b: int, i: int) -> SumTable:
        block, term = self.design.blocks[b], self.design.private[i]
        if block.size == 1 and block.weight is None and _simple(term):
            return self.pair(i, i)  # an intercept: the labels themselves
        weight = self.public_columns[b].weight if b in self._plain else block.weight
        outer = "" if _simple(term) else f" · {term.name}"
        key = f"{block.name}{outer} × {' × '.join(term.labels)}"
        return self._table(
            key, [(block.groups, block.size), (term.groups, term.size)], [weight, term.weight], term.labels
        )

    def _score(self, i: int) -> SumTable:
        term = self.design.terms[i]
        outer = "" if _simple(term) else f" · {term.name}"
        key = f"residual of {self.design.formula.text}{outer} × {' × '.join(term.labels)}"
        return self._table(key, [(term.groups, term.size)], [self.residual, term.weight], term.labels)

    # --- from sums to cross-products -----------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """Every private column as (term, column within it)."""
        return tuple((i, c) for i, term in enumerate(self.design.private) for c in range(len(term.names)))

    @cached_property
    def cross_tables(self) -> tuple[SumTable, ...]:
        """The tables that hold A and N."""
        scores = [self.score(i).key for i in range(len(self.design.terms))] if self.design.y is not None else []
        return tuple(t for t in self.tables if t.key not in scores)

    def assemble(self, sums: Mapping[str, Float]) -> tuple[Float, Float, Float]:
        """A, N and T from sums: arrays draws × groups × labels by the tables' keys, linear in them."""
        d = self.design
        A, N = self.cross_products(sums)
        if d.y is None:
            return A, N, np.zeros((len(A), 0))
        sums = self._complete(sums)
        scores = [np.zeros((len(A), 0))]
        for i, term in enumerate(d.terms):
            table = self.score(i)
            h, which = self._functions(i, table.labels)
            scores.append(table.spread(sums[table.key] @ h.T)[:, term.level, which])
        return A, N, np.concatenate(scores, axis=1)

    def _complete(self, sums: Mapping[str, Float]) -> Mapping[str, Float]:
        """With tables that are sums over others."""
        derived = {one: other for one, other in self.derived.items() if other in sums}
        return {**sums, **{one: sums[other].sum(axis=1, keepdims=True) for one, other in derived.items()}}

    def cross_products(self, sums: Mapping[str, Float]) -> tuple[Float, Float]:
        """A and N from the sums of `cross_tables`."""
        d, sums = self.design, self._complete(sums)
        draws = len(next(iter(sums.values())))
        ends = np.cumsum([0, *(len(term.names) for term in d.private)])
        A = np.zeros((draws, self.run_columns.width, int(ends[-1])))
        N = np.zeros((draws, int(ends[-1]), int(ends[-1])))
        for i, term in enumerate(d.private):
            own = slice(ends[i], ends[i + 1])
            for b, block in enumerate(d.blocks):
                table = self.cross(b, i)
                h, which = self._functions(i, table.labels)
                value = table.spread(sums[table.key] @ h.T).reshape(draws, block.size, term.size, len(h))
                A[:, self.places[b], own] = value[:, block.levels[:, None], term.level % term.size, which]
            for j in range(i, len(d.private)):
                table, beside = self.pair(i, j), slice(ends[j], ends[j + 1])
                (one, this), (other, that) = (self._functions(k, table.labels) for k in (i, j))
                value = table.spread(sums[table.key] @ (one[:, None] * other).reshape(-1, one.shape[1]).T)
                place, shared = _locate_shared(term, d.private[j])
                N[:, own, beside] = np.where(shared, value[:, place, this[:, None] * len(other) + that], 0.0)
                N[:, beside, own] = N[:, own, beside].transpose(0, 2, 1)
        return A, N

    def _functions(self, i: int, labels: tuple[str, ...]) -> tuple[Float, Ints]:
        """The functions of labels that a private term's columns have, few for many columns, and which each has."""
        term, sizes = self.design.private[i], self.design.sizes
        if (i, labels) not in self._placed_codes:
            own = int(np.prod([sizes[n] for n in term.labels]))
            h, which = np.unique(term.on_label.reshape(len(term.names), own), axis=0, return_inverse=True)
            grid = dict(zip(labels, np.indices([sizes[n] for n in labels]).reshape(len(labels), -1), strict=True))
            code = np.zeros(len(next(iter(grid.values()))), np.int64)
            for name in term.labels:
                code = code * sizes[name] + grid[name]
            self._placed_codes[i, labels] = np.asarray(h[:, code]), which.ravel()
        return self._placed_codes[i, labels]

    @cached_property
    def _placed_codes(self) -> dict[tuple[int, tuple[str, ...]], tuple[Float, Ints]]:
        return {}


def _simple(term: PrivateTerm) -> bool:
    return term.weight is None and term.size == 1


def _joint_groups(one: PrivateTerm, other: PrivateTerm) -> list[tuple[Ints, int]]:
    if one.size == 1 or (one.size == other.size and np.array_equal(one.groups, other.groups)):
        return [(other.groups, other.size)]
    return [(one.groups, one.size)] if other.size == 1 else [(one.groups, one.size), (other.groups, other.size)]


def _locate_shared(one: PrivateTerm, other: PrivateTerm) -> tuple[Ints, NDArray[np.bool_]]:
    """Where the sums of the rows stand that are in the groups of two columns, and whether there are such rows."""
    a, b = one.level[:, None], other.level[None, :]
    if one.size == 1 or other.size == 1:
        return (b if one.size == 1 else a) + 0 * (a + b), np.ones((1, 1), dtype=bool)
    if one.size == other.size and np.array_equal(one.groups, other.groups):
        return a + 0 * b, a == b
    return a * other.size + b, np.ones((1, 1), dtype=bool)
