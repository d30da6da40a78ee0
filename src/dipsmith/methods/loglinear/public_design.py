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
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

Float = NDArray[np.float64]

CHUNK_BYTES = 1 << 22
"""Size of the widest array of one chunk of rows."""
FEW = 32
"""Labels up to which a pass over the rows for each label is faster than one along the labels."""
LEAST_ROWS = 256


def contrasts(labels: int) -> Float:
    """An orthonormal basis (labels × labels − 1) of the vectors that sum to zero (Helmert's).

    >>> bool(np.allclose(contrasts(3).T @ contrasts(3), np.eye(2)))
    True
    """
    return np.ascontiguousarray(-linalg.helmert(labels).T)


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
class BarredLabels:
    """Joint labels that a rule forbids for some rows."""

    rows: NDArray[np.bool_]
    labels: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Moments:
    """What one pass over the rows finds at given effects.

    `expected` is E_θ S in contrasts, one flat vector over all terms. `information` is Cov_θ S among the terms asked
    for, dense; `blocks`, of single terms, Cov_θ of each cell's contrasts: cells × contrasts × contrasts.
    """

    expected: Float
    information: Float | None
    blocks: dict[int, Float]


@dataclass(frozen=True, eq=False)
class PublicDesign:
    """Distinct public rows with multiplicities, seen through the terms of a model."""

    terms: tuple[LabelTerm, ...]
    multiplicities: NDArray[np.integer] | Float
    labels: int
    barred: tuple[BarredLabels, ...] = ()

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where each term's effects are in the flat vector."""
        ends = np.cumsum([0, *(t.size for t in self.terms)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def size(self) -> int:
        """Number of free effects."""
        return sum(t.size for t in self.terms)

    def effects(self, phi: Float) -> list[Float]:
        """Every term's effects as a table cells × labels, from the flat vector of contrasts."""
        return [
            phi[s].reshape(t.cells, t.contrasts) @ contrasts(t.labels).T
            for t, s in zip(self.terms, self.slices, strict=True)
        ]

    def statistics(self, tables: Sequence[NDArray[np.floating] | NDArray[np.integer]]) -> Float:
        """Tables cells × labels, one per term, as one flat vector of contrasts."""
        flat = [
            (np.asarray(s, dtype=np.float64).reshape(t.cells, t.labels) @ contrasts(t.labels)).ravel()
            for t, s in zip(self.terms, tables, strict=True)
        ]
        return np.concatenate(flat) if flat else np.zeros(0)

    def moments(self, phi: Float, dense: Sequence[int] = (), blocks: Sequence[int] = ()) -> Moments:
        """E_θ S of all terms; Cov_θ S among the terms `dense` and within each cell of the terms `blocks`."""
        expected = [np.zeros((t.cells, t.labels)) for t in self.terms]
        pairs = [(a, b) for i, a in enumerate(dense) for b in dense[i:]] + [(c, c) for c in blocks]
        sums = {pair: np.zeros(self._pair_shape(*pair)) for pair in pairs}
        wide = max([self.labels, *(shape.shape[1] for shape in sums.values())])
        for rows, p, _ in self._passes(phi, wide):
            self._expect(expected, rows, p)
            self._covary(sums, rows, p)
        return Moments(
            expected=self.statistics(expected),
            information=self._assembled(dense, sums) if dense else None,
            blocks={c: self._finished(c, c, sums[c, c]) for c in blocks},
        )

    def thinned(self, rows: int) -> PublicDesign:
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
            barred=tuple(BarredLabels(b.rows[kept], b.labels) for b in self.barred),
        )

    def expected_tables(self, phi: Float, others: Sequence[LabelTerm]) -> list[Float]:
        """E_θ of the label counts of terms that are not (yet) in the model: cells × labels each."""
        tables = [np.zeros((t.cells, t.labels)) for t in others]
        for rows, p, _ in self._passes(phi, self.labels):
            self._expect(tables, rows, p, others)
        return tables

    # --- passes -----------------------------------------------------------------------------------

    def _passes(self, phi: Float, wide: int) -> Iterator[tuple[slice, Float, Float]]:
        spread = [e[:, t.of_label] for t, e in zip(self.terms, self.effects(phi), strict=True)]
        rows = len(self.multiplicities)
        step = max(LEAST_ROWS, CHUNK_BYTES // (8 * wide))
        for start in range(0, rows, step):
            chunk = slice(start, min(start + step, rows))
            eta = np.zeros((chunk.stop - chunk.start, self.labels))
            for term, table in zip(self.terms, spread, strict=True):
                eta += table[0] if term.cells == 1 else table.take(term.cell[chunk], axis=0)
            yield chunk, *barred_softmax(eta, self.barred, chunk)

    def _expect(
        self, tables: list[Float], rows: slice, p: Float, terms: Sequence[LabelTerm] | None = None
    ) -> None:
        weighted = p * self.multiplicities[rows, None]
        for term, table in zip(self.terms if terms is None else terms, tables, strict=True):
            table += scattered(term.cell[rows], term.cells, _marginal(weighted, term))

    def _covary(self, sums: dict[tuple[int, int], Float], rows: slice, p: Float) -> None:
        m = self.multiplicities[rows, None]
        found: dict[tuple[int, int], Float] = {}
        for (a, b), total in sums.items():
            one, other = self.terms[a], self.terms[b]
            maps = self._maps[a], self._maps[b]
            if maps not in found:
                found[maps] = np.ascontiguousarray(_covariances(p, one, other, maps[0] == maps[1]) * m)
            if a == b:
                total += scattered(one.cell[rows], one.cells, found[maps])
            else:
                cell = one.cell[rows].astype(np.int64) * other.cells + other.cell[rows]
                total += scattered(cell, one.cells * other.cells, found[maps])

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

    def _finished(self, a: int, b: int, total: Float) -> Float:
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

    def _assembled(self, dense: Sequence[int], sums: dict[tuple[int, int], Float]) -> Float:
        ends = np.cumsum([0, *(self.terms[c].size for c in dense)])
        whole = np.zeros((ends[-1], ends[-1]))
        for i, a in enumerate(dense):
            k, cells = self.terms[a].contrasts, self.terms[a].cells
            here = slice(ends[i], ends[i + 1])
            diagonal = whole[here, here].reshape(cells, k, cells, k)
            each = np.arange(cells)
            diagonal[each, :, each, :] = self._finished(a, a, sums[a, a])
            whole[here, here] = diagonal.reshape(cells * k, cells * k)
            for j in range(i + 1, len(dense)):
                b = dense[j]
                there = slice(ends[j], ends[j + 1])
                block = self._finished(a, b, sums[a, b]).reshape(cells, self.terms[b].cells, k, -1)
                whole[here, there] = block.transpose(0, 2, 1, 3).reshape(cells * k, -1)
                whole[there, here] = whole[here, there].T
        return whole


def softmax(eta: Float) -> tuple[Float, Float]:
    """Probabilities along the last axis, in place, and the log of their normaliser."""
    top = _along_labels(np.maximum, eta)
    eta -= top[:, None]
    np.exp(eta, out=eta)
    total = _along_labels(np.add, eta)
    eta /= total[:, None]
    return eta, np.log(total) + top


def _along_labels(ufunc: np.ufunc, x: Float) -> Float:
    """Reduce rows × labels over the labels; label by label while these are few, which is faster."""
    if x.shape[1] > FEW:
        return np.asarray(ufunc.reduce(x, axis=1))
    total = x[:, 0].copy()
    for k in range(1, x.shape[1]):
        ufunc(total, x[:, k], out=total)
    return total


def barred_softmax(eta: Float, barred: Sequence[BarredLabels], chunk: slice) -> tuple[Float, Float]:
    """`softmax` with probability 0 for labels that a rule forbids.

    A row whose labels are all forbidden breaks the rules whatever it is called; it gets the model's label.
    """
    if not barred:
        return softmax(eta)
    allowed = eta.copy()
    for bar in barred:
        allowed[np.ix_(bar.rows[chunk], bar.labels)] = -np.inf
    hopeless = np.isneginf(allowed).all(axis=1)
    allowed[hopeless] = eta[hopeless]
    return softmax(allowed)


def scattered(cell: NDArray[np.integer], cells: int, rows: Float) -> Float:
    """Sum the rows that fall in the same cell."""
    if cells == 1:
        return np.asarray(rows.sum(axis=0, keepdims=True))
    n = len(cell)
    one_hot = sparse.csc_array((np.ones(n), cell, np.arange(n + 1)), shape=(cells, n))
    return np.asarray(one_hot @ rows)


def _marginal(p: Float, term: LabelTerm) -> Float:
    """Joint probabilities summed over the targets that are not the term's."""
    if np.array_equal(term.of_label, np.arange(term.labels)):
        return p
    return np.asarray(scattered(term.of_label, term.labels, np.ascontiguousarray(p.T)).T)


def _covariances(p: Float, one: LabelTerm, other: LabelTerm, same: bool) -> Float:
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
