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
from scipy import sparse

from dipsmith.analyses.design import Design, Float, Ints, PrivateTerm, PublicBlock
from dipsmith.analyses.sum_table import SumTable

LEAST_BIAS = 0.05
"""What clipping takes off all residuals together may be so much of σ√n: a tenth of a standard error, at worst."""

LABELS = "labels"
"""The table of all private labels of a design together."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A design with its public algebra and the tables that hold its cross-products."""

    design: Design
    tables: tuple[SumTable, ...]
    derived: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design) -> Layout:
        """Find out which sums a design needs."""
        bare = cls(design, ())
        found: dict[str, SumTable] = {}
        for table in bare._needed():
            found.setdefault(table.key, table)
        derived = {a.key: b.key for a in found.values() for b in found.values() if a.is_sum_of(b)}
        layout = cls(design, tuple(t for t in found.values() if t.key not in derived), derived)
        layout._made.update(bare._made)
        return layout

    # --- what is public ----------------------------------------------------------------------------

    @cached_property
    def public_columns(self) -> sparse.csr_array:
        """The public columns, block after block; plain numbers as `weights` has them."""
        parts = [_columns(block, self.weights[i]) for i, block in enumerate(self.design.blocks)]
        return sparse.csr_array(sparse.hstack(parts)) if parts else sparse.csr_array((len(self.design.often), 0))

    @cached_property
    def _orthogonal(self) -> tuple[tuple[Float | None, ...], Float]:
        """Plain numbers less what the other public columns and the numbers before them say; and the way back."""
        blocks, often = self.design.blocks, self.design.often
        plain = [i for i, b in enumerate(blocks) if b.weight is not None and b.size == 1]
        weights = [None if b.weight is None else _finite(b.weight) for b in blocks]
        back = np.eye(sum(len(b.levels) for b in blocks))
        others = [i for i in range(len(blocks)) if i not in plain]
        if not plain or not others:
            return tuple(weights), back
        columns = sparse.csr_array(sparse.hstack([_columns(blocks[i], weights[i]) for i in others]))
        at = np.concatenate([self.places[i] for i in others])
        for i in plain:
            given = weights[i]
            assert given is not None
            gram = np.asarray((columns.T @ columns.multiply(often[:, None])).toarray())
            explained = pseudo_inverse(gram)[0] @ (columns.T @ (often * given))
            left = given - columns @ explained
            if float((often * left) @ left) > 1e-10 * float((often * given) @ given):
                weights[i] = left
                # γ of the columns before is that of the given number less what the number itself explains of it.
                back[at, self.places[i][0]] -= explained
            columns = sparse.csr_array(sparse.hstack([columns, sparse.csr_array(np.asarray(weights[i])[:, None])]))
            at = np.append(at, self.places[i])
        return tuple(weights), _compose(back, plain, self.places)

    @property
    def weights(self) -> tuple[Float | None, ...]:
        """The weight of each block, plain numbers orthogonal to the columns before them: sums of these carry less noise."""
        return self._orthogonal[0]

    @property
    def back(self) -> Float:
        """Coefficients of the formula's own columns from those of the columns as `weights` has them."""
        return self._orthogonal[1]

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """Where each block's columns stand in Z."""
        ends = np.cumsum([0, *(len(b.levels) for b in self.design.blocks)])
        return tuple(np.arange(a, b) for a, b in pairwise(ends))

    @cached_property
    def gram(self) -> Float:
        """Z′Z."""
        weighted = self.public_columns.multiply(self.design.often[:, None])
        return np.asarray((self.public_columns.T @ weighted).toarray())

    @cached_property
    def _inverted(self) -> tuple[Float, int]:
        return pseudo_inverse(self.gram)

    @property
    def inverse(self) -> Float:
        """The pseudo-inverse of Z′Z."""
        return self._inverted[0]

    @property
    def rank(self) -> int:
        """How many public columns are independent."""
        return self._inverted[1]

    @cached_property
    def public_cross(self) -> Float:
        """Z′y of a public response."""
        assert self.design.y is not None
        return np.asarray(self.public_columns.T @ (self.design.often * _finite(self.design.y)))

    @cached_property
    def whole_residual(self) -> Float:
        """The public residual of the response on the public columns."""
        assert self.design.y is not None
        y = _finite(self.design.y)
        return np.where(self.design.often > 0, y - self.public_columns @ (self.inverse @ self.public_cross), 0.0)

    @property
    def square(self) -> float:
        """The residual sum of squares on the public columns."""
        return float((self.design.often * self.whole_residual) @ self.whole_residual)

    @cached_property
    def residual(self) -> Float:
        """The public residual of the response on the public columns, extremes clipped as far as they cannot matter.

        A heavy tail may belong to one label alone. So all that is clipped away, were it all one label's, must be small
        against what sampling makes uncertain; else nothing is clipped, and the noise is that of the largest residual.
        """
        size, often = np.abs(self.whole_residual), self.design.often
        order = np.argsort(-size, kind="stable")
        rising, many = size[order], np.cumsum(often[order])
        # Clipping at the i-th largest takes Σ (size − c) off those above it.
        taken = np.cumsum(often[order] * rising) - many * rising
        allowed = LEAST_BIAS * np.sqrt(self.square)
        at = max(int(np.searchsorted(taken, allowed, side="right")) - 1, 0)
        most = rising[at] if len(rising) else 0.0
        return np.clip(self.whole_residual, -most, most)

    # --- which sums hold what --------------------------------------------------------------------------

    def _needed(self) -> list[SumTable]:
        d = self.design
        tables = [t for i in range(len(d.private)) for j in range(i, len(d.private)) if (t := self.pair(i, j))]
        tables += [t for b in range(len(d.blocks)) for i in range(len(d.private)) if (t := self.cross(b, i))]
        if d.y is not None:
            tables += [self.score(i) for i in range(len(d.terms))]
        return tables

    def _table(
        self, name: str, groups: Sequence[tuple[Ints, int]], weights: Sequence[Float | None], labels: tuple[str, ...]
    ) -> SumTable:
        code, size = np.zeros(len(self.design.often), np.int64), 1
        for more, levels in groups:
            code, size = code * levels + more, size * levels
        given = [_finite(w) for w in weights if w is not None]
        weight = np.prod(given, axis=0) if given else None
        cells = int(np.prod([self.design.sizes[n] for n in labels]))
        return SumTable.of(name, np.where(self.design.often > 0, code, -1), size, weight, labels, cells)

    @cached_property
    def _made(self) -> dict[tuple[str, int, int], SumTable]:
        return {}

    def _once(self, kind: str, i: int, j: int, make: Callable[[], SumTable]) -> SumTable:
        return self._made.setdefault((kind, i, j), self._made.get((kind, i, j)) or make())

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
        weight = self.weights[b]
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

    def assemble(self, sums: dict[str, Float]) -> tuple[Float, Float, Float]:
        """A, N and T from sums: arrays draws × groups × labels by the tables' keys, linear in them."""
        d = self.design
        sums = sums | {one: sums[other].sum(axis=1, keepdims=True) for one, other in self.derived.items()}
        draws = len(next(iter(sums.values())))
        q = len(self.columns)
        A = np.zeros((draws, self.public_columns.shape[1], q))
        N = np.zeros((draws, q, q))
        for k, (i, c) in enumerate(self.columns):
            term = d.private[i]
            for b, block in enumerate(d.blocks):
                table = self.cross(b, i)
                value = table.spread(sums[table.key] @ _on_labels(d, term, c, table.labels))
                A[:, self.places[b], k] = value.reshape(draws, block.size, -1)[
                    :, block.levels, term.level[c] % term.size
                ]
            for m in range(k, q):
                j, e = self.columns[m]
                table = self.pair(i, j)
                product = _on_labels(d, term, c, table.labels) * _on_labels(d, d.private[j], e, table.labels)
                value = table.spread(sums[table.key] @ product)
                N[:, k, m] = N[:, m, k] = _shared(value, term, c, d.private[j], e)
        if d.y is None:
            return A, N, np.zeros((draws, 0))
        scores = np.zeros((draws, q))
        for k, (i, c) in enumerate(self.columns):
            table = self.score(i)
            scores[:, k] = table.spread(sums[table.key] @ d.terms[i].on_label[c])[:, d.terms[i].level[c]]
        return A, N, scores


def _simple(term: PrivateTerm) -> bool:
    return term.weight is None and term.size == 1


def _finite(values: Float | None) -> Float:
    assert values is not None
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _joint_groups(one: PrivateTerm, other: PrivateTerm) -> list[tuple[Ints, int]]:
    if one.size == 1 or (one.size == other.size and np.array_equal(one.groups, other.groups)):
        return [(other.groups, other.size)]
    return [(one.groups, one.size)] if other.size == 1 else [(one.groups, one.size), (other.groups, other.size)]


def _shared(value: Float, one: PrivateTerm, c: int, other: PrivateTerm, e: int) -> Float:
    """The sum of the rows that are in the groups of both columns."""
    a, b = int(one.level[c]), int(other.level[e])
    if one.size == 1:
        return value[:, b]
    if other.size == 1:
        return value[:, a]
    if one.size == other.size and np.array_equal(one.groups, other.groups):
        return value[:, a] if a == b else np.zeros(len(value))
    return value[:, a * other.size + b]


def _on_labels(design: Design, term: PrivateTerm, column: int, labels: tuple[str, ...]) -> Float:
    """H of a column over more private columns than its own."""
    if labels == term.labels:
        return np.asarray(term.on_label[column])
    shape = [design.sizes[name] for name in labels]
    own = [design.sizes[name] for name in term.labels]
    grid = np.indices(shape).reshape(len(shape), -1)
    code = np.zeros(grid.shape[1], np.int64)
    for name, size in zip(term.labels, own, strict=True):
        code = code * size + grid[labels.index(name)]
    return np.asarray(term.on_label[column][code])


def _columns(block: PublicBlock, given: Float | None) -> sparse.csr_array:
    place = np.full(block.size, -1)
    place[block.levels] = np.arange(len(block.levels))
    at = place[block.groups]
    weight = np.ones(len(at)) if given is None else given
    inside = np.flatnonzero(at >= 0)
    return sparse.csr_array((weight[inside], (inside, at[inside])), shape=(len(at), len(block.levels)))


def pseudo_inverse(gram: Float) -> tuple[Float, int]:
    """The pseudo-inverse of cross-products, found on columns of the same size, and their rank."""
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    kept = values > 1e-10 * max(values.max(initial=0.0), 1e-300)
    found = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return np.asarray(found / np.outer(scale, scale)), int(kept.sum())


def _compose(steps: Float, plain: Sequence[int], places: Sequence[Ints]) -> Float:
    """One matrix for all numbers: the last is taken out first."""
    whole = np.eye(len(steps))
    for i in plain:
        one = np.eye(len(steps))
        one[:, places[i][0]] = steps[:, places[i][0]]
        whole = whole @ one
    return whole
