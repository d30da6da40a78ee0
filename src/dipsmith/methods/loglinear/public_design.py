"""The public side of a conditional log-linear model: distinct rows, their cells, their labels.

The model says, for a row with public cells x_c and joint label y,

    log P(y | x) = Σ_c θ_c[x_c, y_c] − log Z(x),

where a term c pairs some public attributes (none for an intercept) with some private ones. Its
sufficient statistics are the tables S_c[x_c, y_c] of label counts, and its log-likelihood is

    ℓ(θ) = Σ_c ⟨θ_c, S_c⟩ − Σ_i m_i log Z(x_i)

over the distinct public rows i with multiplicities m_i: private rows enter through S alone. A `PublicDesign`
holds everything else. It computes E_θ S, log Z and the information matrix Cov_θ S in passes over the
rows that never hold more than a chunk of probabilities.

Effects live in *label contrasts*: θ_c = φ_c Qᵀ with Q an orthonormal basis of the vectors over the
labels that sum to zero. Adding a constant to all labels changes nothing, so no effect is lost; and
independent noise of equal variance on the labels stays so on the contrasts once the noisy counts are
projected on their public sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.methods.loglinear.softmax import BarredLabels, barred_softmax

CHUNK_BYTES = 1 << 22
"""Size of the widest array of one chunk of rows."""
LEAST_ROWS = 256
BASIS_ROWS = 4000
"""Rows by which the basis of the label contrasts is chosen at most."""


@cache
def contrasts(labels: int) -> Floats:
    """An orthonormal basis (labels × labels − 1) of the vectors that sum to zero (Helmert's).

    >>> bool(np.allclose(contrasts(3).T @ contrasts(3), np.eye(2)))
    True
    """
    basis = np.ascontiguousarray(-scipy.linalg.helmert(labels).T)
    basis.flags.writeable = False
    return basis


@dataclass(frozen=True, eq=False)
class LabelTerm:
    """One clique: the public `cell` of every distinct row, and the term's own label `of_label` every joint label."""

    cell: NDArray[np.integer]
    cells: int
    of_label: NDArray[np.integer]
    labels: int

    @property
    def contrasts(self) -> int:
        """Free effects per cell."""
        return self.labels - 1

    @property
    def size(self) -> int:
        """Number of free effects."""
        return self.cells * self.contrasts


@dataclass(frozen=True, eq=False)
class Moments:
    """What one pass over the rows finds at given effects.

    `expected` is E_θ S in contrasts, one flat vector over all terms. `information` is Cov_θ S among the terms asked
    for, dense; `blocks`, of single terms, Cov_θ of each cell's contrasts: cells × contrasts × contrasts.
    """

    expected: Floats
    information: Floats | None
    blocks: dict[int, Floats]


@dataclass(frozen=True, eq=False)
class ContrastInformation:
    """Cov_θ S of terms with the same targets, without what different label contrasts say of each other.

    Contrasts are turned by `basis` (k × k), in which those of the average row are uncorrelated; `blocks` are
    k matrices over the cells of all terms, of which the lower triangle counts.
    """

    basis: Floats
    blocks: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _SameTargets:
    """The terms with the same targets: each one's cell of every row, and where its cells start among all their cells."""

    terms: tuple[int, ...]
    starts: tuple[int, ...]
    cells: int
    each: tuple[NDArray[np.integer], ...]

    def index(self, rows: slice) -> NDArray[np.int32]:
        """Where the cells of some rows are among all cells: rows × terms."""
        found = np.empty((rows.stop - rows.start, len(self.each)), dtype=np.int32)
        for i, (cell, start) in enumerate(zip(self.each, self.starts, strict=True)):
            np.add(cell[rows], start, out=found[:, i], dtype=np.int32, casting="unsafe")
        return found

    def pick(self, rows: slice) -> scipy.sparse.sparray:
        """The matrix rows × cells that has a one for each cell of a row."""
        return self._whole if rows == slice(0, len(self.each[0])) else self._pick(rows)

    @cached_property
    def _whole(self) -> scipy.sparse.sparray:
        return self._pick(slice(0, len(self.each[0])))

    def _pick(self, rows: slice) -> scipy.sparse.sparray:
        return _cell_matrix(self.index(rows), self.cells).T


@dataclass(frozen=True, eq=False)
class PublicDesign:
    """Distinct public rows with multiplicities, seen through the terms of a model."""

    terms: tuple[LabelTerm, ...]
    multiplicities: NDArray[np.integer] | Floats
    labels: int
    barred_labels: tuple[BarredLabels, ...] = ()

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where each term's effects are in the flat vector."""
        ends = np.cumsum([0, *(t.size for t in self.terms)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def size(self) -> int:
        """Number of free effects."""
        return sum(t.size for t in self.terms)

    @property
    def same_targets(self) -> bool:
        """Whether all terms have the same targets."""
        return len(set(self._maps)) == 1

    def effects(self, phi: Floats) -> list[Floats]:
        """Every term's effects as a table cells × labels, from the flat vector of contrasts."""
        return [
            phi[s].reshape(t.cells, t.contrasts) @ contrasts(t.labels).T
            for t, s in zip(self.terms, self.slices, strict=True)
        ]

    def statistics(self, tables: Sequence[NDArray[np.floating] | NDArray[np.integer]]) -> Floats:
        """Tables cells × labels, one per term, as one flat vector of contrasts."""
        flat = [
            (np.asarray(s, dtype=np.float64).reshape(t.cells, t.labels) @ contrasts(t.labels)).ravel()
            for t, s in zip(self.terms, tables, strict=True)
        ]
        return np.concatenate(flat) if flat else np.zeros(0)

    def moments(self, phi: Floats, dense: Sequence[int] = (), blocks: Sequence[int] = ()) -> Moments:
        """E_θ S of all terms; Cov_θ S among the terms `dense` and within each cell of the terms `blocks`."""
        expected = [np.zeros((t.cells, t.labels)) for t in self.terms]
        pairs = [(a, b) for i, a in enumerate(dense) for b in dense[i:]] + [(c, c) for c in blocks]
        sums = {pair: np.zeros(self._pair_shape(*pair)) for pair in pairs}
        wide = max([self.labels, *(shape.shape[1] for shape in sums.values())])
        for rows, p, _ in self._passes(phi, wide):
            self._expect(expected, rows, p)
            if sums:
                self._covary(sums, rows, p)
        return Moments(
            expected=self.statistics(expected),
            information=self._assemble(dense, sums) if dense else None,
            blocks={c: self._to_contrasts(c, c, sums[c, c]) for c in blocks},
        )

    def contrast_information(self, phi: Floats) -> ContrastInformation:
        """Cov_θ S where all terms have the same targets, one label contrast at a time."""
        (same,), first = self._same_targets, self.terms[0]
        basis = self.thin(BASIS_ROWS)._decorrelate(phi, first)
        turned = contrasts(first.labels) @ basis
        alike = not self.barred_labels and not any(
            phi[here].any() for t, here in zip(self.terms, self.slices, strict=True) if t.cells > 1
        )
        above = np.zeros((1 if alike else first.contrasts, same.cells, same.cells))
        scale = np.ones(first.contrasts)
        for rows, p, _ in self._passes(phi, self.labels):
            own = _marginal(p[:1] if alike else p, first)
            variance = own @ turned**2 - (own @ turned) ** 2
            if alike:
                # All rows have the same label distribution, so that contrasts differ by a factor alone.
                scale, variance = variance[0], np.ones((rows.stop - rows.start, 1))
            self._add_crossed(above, variance * self.multiplicities[rows, None], rows)
        whole = np.broadcast_to(above, (first.contrasts, same.cells, same.cells))
        return ContrastInformation(basis, tuple((s * block).T for s, block in zip(scale, whole, strict=True)))

    def _decorrelate(self, phi: Floats, term: LabelTerm) -> Floats:
        """The basis in which a term's contrasts are uncorrelated in the average row."""
        within = np.zeros((term.labels, term.labels))
        for rows, p, _ in self._passes(phi, self.labels):
            own = _marginal(p, term)
            weighted = own * self.multiplicities[rows, None]
            within += np.diag(weighted.sum(axis=0)) - own.T @ weighted
        helmert = contrasts(term.labels)
        return np.asarray(np.linalg.eigh(helmert.T @ within @ helmert)[1])

    def thin(self, rows: int) -> PublicDesign:
        """The same design seen through about `rows` of its distinct rows, drawn by multiplicity.

        Systematic sampling along the rows' order: deterministic, unbiased up to its starting point, and
        spread over the cells of the leading attributes.
        """
        if len(self.multiplicities) <= rows:
            return self
        reached = np.cumsum(self.multiplicities, dtype=np.float64)
        spacing = reached[-1] / rows
        hit = np.searchsorted(reached, (np.arange(rows) + 0.5) * spacing, side="right")
        kept, times = np.unique(np.minimum(hit, len(reached) - 1), return_counts=True)
        return PublicDesign(
            terms=tuple(LabelTerm(t.cell[kept], t.cells, t.of_label, t.labels) for t in self.terms),
            multiplicities=times * spacing,
            labels=self.labels,
            barred_labels=tuple(BarredLabels(b.rows[kept], b.labels) for b in self.barred_labels),
        )

    def expected_tables(self, phi: Floats, others: Sequence[LabelTerm]) -> list[Floats]:
        """E_θ of the label counts of terms that are not (yet) in the model: cells × labels each."""
        tables = [np.zeros((t.cells, t.labels)) for t in others]
        for rows, p, _ in self._passes(phi, self.labels):
            weighted = p * self.multiplicities[rows, None]
            for term, table in zip(others, tables, strict=True):
                table += sum_by_cell(term.cell[rows], term.cells, _marginal(weighted, term))
        return tables

    # --- passes -----------------------------------------------------------------------------------

    def _passes(self, phi: Floats, wide: int) -> Iterator[tuple[slice, Floats, Floats]]:
        effects = self.effects(phi)
        stacked = [np.concatenate([effects[c] for c in same.terms]) for same in self._same_targets]
        rows = len(self.multiplicities)
        step = max(LEAST_ROWS, CHUNK_BYTES // (8 * wide))
        for start in range(0, rows, step):
            chunk = slice(start, min(start + step, rows))
            eta = np.zeros((chunk.stop - chunk.start, self.labels))
            for same, table in zip(self._same_targets, stacked, strict=True):
                eta += _spread(same.pick(chunk) @ table, self.terms[same.terms[0]])
            yield chunk, *barred_softmax(eta, self.barred_labels, chunk)

    def _expect(self, tables: list[Floats], rows: slice, p: Floats) -> None:
        weighted = p * self.multiplicities[rows, None]
        for same in self._same_targets:
            found = same.pick(rows).T @ _marginal(weighted, self.terms[same.terms[0]])
            for c, start in zip(same.terms, same.starts, strict=True):
                tables[c] += found[start : start + self.terms[c].cells]

    def _add_crossed(self, blocks: Floats, weights: Floats, rows: slice) -> None:
        """Add every contrast's weights of the rows to the pairs of cells that they lie in: a term and those after."""
        (same,) = self._same_targets
        index = same.index(rows)
        for i, (term, start) in enumerate(zip(self.terms, same.starts, strict=True)):
            after = same.cells - start
            pairs = index[:, i:] + (term.cell[rows, None].astype(np.int32) * np.int32(after) - np.int32(start))
            found = _cell_matrix(pairs, term.cells * after) @ weights
            blocks[:, start : start + term.cells, start:] += found.T.reshape(-1, term.cells, after)

    @cached_property
    def _same_targets(self) -> tuple[_SameTargets, ...]:
        found = []
        for number in sorted(set(self._maps)):
            terms = tuple(c for c, m in enumerate(self._maps) if m == number)
            starts = np.cumsum([0, *(self.terms[c].cells for c in terms)])
            each = tuple(self.terms[c].cell for c in terms)
            found.append(_SameTargets(terms, tuple(int(s) for s in starts[:-1]), int(starts[-1]), each))
        return tuple(found)

    def _covary(self, sums: dict[tuple[int, int], Floats], rows: slice, p: Floats) -> None:
        m = self.multiplicities[rows, None]
        found: dict[tuple[int, int], Floats] = {}
        for (a, b), total in sums.items():
            one, other = self.terms[a], self.terms[b]
            maps = self._maps[a], self._maps[b]
            if maps not in found:
                found[maps] = np.ascontiguousarray(_covariances(p, one, other, maps[0] == maps[1]) * m)
            if a == b:
                total += sum_by_cell(one.cell[rows], one.cells, found[maps])
            else:
                cell = one.cell[rows].astype(np.int64) * other.cells + other.cell[rows]
                total += sum_by_cell(cell, one.cells * other.cells, found[maps])

    @cached_property
    def _maps(self) -> list[int]:
        """Terms with the same targets share one number."""
        known: dict[bytes, int] = {}
        return [known.setdefault(t.of_label.astype(np.int64).tobytes(), len(known)) for t in self.terms]

    def _pair_shape(self, a: int, b: int) -> tuple[int, int]:
        one, other = self.terms[a], self.terms[b]
        cells = one.cells if a == b else one.cells * other.cells
        k, j = one.contrasts, other.contrasts
        return cells, k * (k + 1) // 2 if self._maps[a] == self._maps[b] else k * j

    def _to_contrasts(self, a: int, b: int, total: Floats) -> Floats:
        """Covariances of the first K − 1 labels, turned into covariances of the contrasts."""
        k, j = self.terms[a].contrasts, self.terms[b].contrasts
        if self._maps[a] == self._maps[b]:
            upper = np.triu_indices(k)
            whole = np.empty((len(total), k, k))
            whole[:, upper[0], upper[1]] = total
            whole[:, upper[1], upper[0]] = total
        else:
            whole = total.reshape(-1, k, j)
        # With the last label minus the sum of the others: Qᵀ[I; −1ᵀ].
        left = contrasts(k + 1)[:-1] - contrasts(k + 1)[-1]
        right = contrasts(j + 1)[:-1] - contrasts(j + 1)[-1]
        return np.asarray(left.T @ whole @ right)

    def _assemble(self, dense: Sequence[int], sums: dict[tuple[int, int], Floats]) -> Floats:
        ends = np.cumsum([0, *(self.terms[c].size for c in dense)])
        whole = np.zeros((ends[-1], ends[-1]))
        for i, a in enumerate(dense):
            k, cells = self.terms[a].contrasts, self.terms[a].cells
            here = slice(ends[i], ends[i + 1])
            diagonal = whole[here, here].reshape(cells, k, cells, k)
            each = np.arange(cells)
            diagonal[each, :, each, :] = self._to_contrasts(a, a, sums[a, a])
            whole[here, here] = diagonal.reshape(cells * k, cells * k)
            for j in range(i + 1, len(dense)):
                b = dense[j]
                there = slice(ends[j], ends[j + 1])
                block = self._to_contrasts(a, b, sums[a, b]).reshape(cells, self.terms[b].cells, k, -1)
                whole[here, there] = block.transpose(0, 2, 1, 3).reshape(cells * k, -1)
                whole[there, here] = whole[here, there].T
        return whole


def sum_by_cell(cell: NDArray[np.integer], cells: int, rows: Floats) -> Floats:
    """Sum the rows that fall in the same cell."""
    if cells == 1:
        return np.asarray(rows.sum(axis=0, keepdims=True))
    return np.asarray(_cell_matrix(cell[:, None], cells) @ rows)


def _cell_matrix(index: NDArray[np.integer], cells: int) -> scipy.sparse.csc_array:
    """The matrix cells × rows that has a one for each of a row's cells."""
    whole = np.int32 if cells < 1 << 31 and index.size < 1 << 31 else np.int64
    ends = np.arange(0, index.size + 1, max(index.shape[1], 1), dtype=whole)
    each = index.astype(whole, copy=False).ravel()
    return scipy.sparse.csc_array((np.ones(index.size), each, ends), shape=(cells, len(index)))


def _marginal(p: Floats, term: LabelTerm) -> Floats:
    """Joint probabilities summed over the targets that are not the term's."""
    if np.array_equal(term.of_label, np.arange(term.labels)):
        return p
    return np.asarray(sum_by_cell(term.of_label, term.labels, np.ascontiguousarray(p.T)).T)


def _spread(own: Floats, term: LabelTerm) -> Floats:
    """Values of the term's own labels, for every joint label."""
    if np.array_equal(term.of_label, np.arange(term.labels)):
        return own
    return own.take(term.of_label, axis=1)


def _covariances(p: Floats, one: LabelTerm, other: LabelTerm, same: bool) -> Floats:
    """Cov(1[y_one = u], 1[y_other = v]) of every row for all but the last u and v; upper triangle if same."""
    left = _marginal(p, one)
    if same:
        u, v = np.triu_indices(one.labels - 1)
        found = left.take(u, axis=1)
        found *= left.take(v, axis=1)
        np.negative(found, out=found)
        found[:, u == v] += left[:, :-1]
        return found
    right = _marginal(p, other)
    pair = LabelTerm(one.cell, 0, one.of_label * other.labels + other.of_label, one.labels * other.labels)
    both = _marginal(p, pair).reshape(len(p), one.labels, other.labels)
    found = both[:, :-1, :-1] - left[:, :-1, None] * right[:, None, :-1]
    return found.reshape(len(p), -1)
