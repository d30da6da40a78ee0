"""Calibrated labels: the closest labels to a labeller's own that carry the planned results.

A labeller gives every row i a distribution p_i over the (joint) labels l. It is tilted,

    p′_il ∝ p_il · exp(Σ_a λ_a·x_ai·h_a(l)),

so that sums of public numbers x_a over labels reach their goals: how often each label occurs stays as it was, and the
planned coefficients come out of the regression of the synthetic rows. Of all distributions that reach the goals it is the
closest to the labeller's own (the I-projection: Csiszár 1975). λ is found by Newton's method.

Drawing each label by itself would add a sampling error as large as that of the rows. So uniform numbers are taken in a
low-discrepancy order along the first analysis's residual (Kronecker's sequence), and λ is corrected by what was
drawn, with the same uniforms, until the regression of the drawn labels itself says what was planned.

Privacy
-------
Reads public rows, a model and noisy sums: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints, PrivateTerm
from dipsmith.analyses.label_sums import LabelSums
from dipsmith.analyses.measure import Agenda, Part
from dipsmith.analyses.noisy_sums import NoisySums, Spread
from dipsmith.analyses.public_columns import GroupColumns, PublicColumns
from dipsmith.analyses.results import Result
from dipsmith.analyses.sum_table import STEPS as FINE
from dipsmith.analyses.sums import finite
from dipsmith.privacy.randomness import Generator
from dipsmith.schema import Schema

GOLDEN = (5**0.5 - 1) / 2

ENOUGH = 25_000
"""Rows from which the tilt is found, and which are drawn again until the goals are reached."""

BLOCK = 1 << 14
"""Rows that are drawn at once: what is computed of them stays in the processor's cache."""

ROUNDS, STEPS, DRAWS = 4, 40, 25
"""Rounds in which V follows the labels, steps of Newton's method in each, and corrections by what was drawn."""

NEAR = 0.01
"""Near enough: this share of a sum's sampling error, or half of what one row adds to it."""

SHORTER = 0.7
"""A correction that came no nearer is tried again at this share of its length."""

MOST_FEATURES = 250
"""Sums that labels are made to reach at most; beyond, fixed effects are left to the labeller."""

FARTHEST = 4.0
"""By how much a probability may be tilted in one step, in logarithms."""

LARGEST = 30.0
"""The largest tilt: beyond, a label is certain anyway."""


@dataclass(frozen=True, eq=False)
class Target:
    """Sums Σ x·h(label) that labels reach, of one part of an analysis: their goals are fixed, or V·β with the labels' own V.

    `columns` are the x of every distinct public row; `column` and `on_label` say of each sum which x and which h it has.
    """

    part: Part
    columns: PublicColumns
    column: Ints
    on_label: Float
    goals: Float | None
    beta: Float


def targets_of(
    agenda: Agenda, results: Sequence[Result], sums: dict[str, NoisySums], schema: Schema, labels: Sequence[str]
) -> tuple[list[Target], list[str]]:
    """What labels must reach; and what cannot be carried."""
    found, left = [], []
    for part, result in zip(agenda.all_parts, results, strict=True):
        design = part.layout.design
        told = [c.estimate for c in result.coefficients]
        if any(b is None for b in told):
            left.append(f"{result.title}: too noisy to be carried by the labels")
        elif design.response is not None and design.terms:
            left.append(f"{result.title}: measured; labels on both sides are not adjusted to it")
        elif design.response is None:
            found.append(_scores(part, np.array(told, dtype=np.float64), schema, labels))
        else:
            found.append(_totals(part, design.response, sums, schema, labels))
    return found, left


def _scores(part: Part, told: Float, schema: Schema, labels: Sequence[str]) -> Target:
    """S′My of a public response reaches V·β."""
    residual = part.layout.whole_residual
    blocks: list[GroupColumns] = []
    column: list[int] = []
    on_label = []
    for term in part.layout.design.terms:
        levels, place = np.unique(term.level % term.size, return_inverse=True)
        weight = residual if term.weight is None else residual * finite(term.weight)
        wide = sum(b.width for b in blocks)
        if term.size == 1:
            same = [i for i, b in enumerate(blocks) if b.at is None and b.weight is weight]
            column += [sum(b.width for b in blocks[: same[0]]) if same else wide] * len(place)
            blocks += [] if same else [GroupColumns(None, 1, weight)]
        else:
            where = np.full(term.size, len(levels))
            where[levels] = np.arange(len(levels))
            blocks.append(GroupColumns(where[term.groups], len(levels), weight))
            column += [wide + int(i) for i in place]
        on_label += [_joint(schema, labels, term, c) for c in range(len(term.names))]
    columns = PublicColumns(tuple(blocks), len(residual))
    beta = told[len(told) - len(column) :]
    return Target(part, columns, np.array(column), np.array(on_label), None, beta)


def _totals(
    part: Part, response: PrivateTerm, sums: dict[str, NoisySums], schema: Schema, labels: Sequence[str]
) -> Target:
    """Z′y of a private response reaches what was measured."""
    layout = part.layout
    measured = Spread.of(layout, sums).apply({t.key: sums[t.key].values[None] for t in layout.tables})
    goals = layout.assemble(measured)[0][0][:, -1]
    fits = layout.public_columns.width <= MOST_FEATURES
    chosen = [i for i, b in enumerate(layout.design.blocks) if fits or b.name[0] != "|"]
    counted = (layout.design.often > 0).astype(np.float64)
    blocks = tuple(layout.public_columns.blocks[i].weighed(counted) for i in chosen)
    columns = PublicColumns(blocks, len(counted))
    at = np.concatenate([np.zeros(0, np.int64), *(layout.places[i] for i in chosen)])
    h = np.tile(_joint(schema, labels, response, 0), (len(at), 1))
    return Target(part, columns, np.arange(len(at)), h, goals[at], np.zeros(0))


@dataclass(frozen=True, eq=False)
class Features:
    """The sums that labels reach: of each the column x, which of the functions `h` of the label, and the column's size."""

    columns: PublicColumns
    column: Ints
    which: Ints
    h: Float
    size: Float

    @classmethod
    def of(cls, targets: Sequence[Target], totals: Sequence[Float], place: Ints | None, rows: int) -> Features:
        """How often labels occur, then what targets ask for, of rows that are the distinct public rows at `place`."""
        ones = PublicColumns((GroupColumns(None, 1, None),), rows)
        parts = [ones, *(t.columns if place is None else t.columns.take(place) for t in targets)]
        columns = PublicColumns(tuple(b for p in parts for b in p.blocks), rows)
        starts = np.cumsum([0, *(p.width for p in parts)])
        column = [np.zeros(len(totals), np.int64)]
        column += [t.column + start for t, start in zip(targets, starts[1:-1], strict=True)]
        functions = [*totals, *(h for t in targets for h in t.on_label)]
        # Few functions of the label occur, each with many columns.
        distinct: dict[bytes, int] = {}
        which = [distinct.setdefault(np.ascontiguousarray(h).tobytes(), len(distinct)) for h in functions]
        squares = [b.cross(np.ones(rows) if b.weight is None else b.weight) for b in columns.blocks]
        size = np.sqrt(np.maximum(np.concatenate(squares) / max(rows, 1), 1e-300))
        at = np.concatenate(column)
        wide = len(functions[0]) if functions else 1
        h = np.array([np.frombuffer(key) for key in distinct]).reshape(len(distinct), wide)
        return cls(columns, at, np.array(which, np.int64), h, size[at])

    def take(self, rows: Ints | slice) -> Features:
        """Of some rows."""
        return Features(self.columns.take(rows), self.column, self.which, self.h, self.size)

    def tilt(self, lam: Float) -> Float:
        """The tilt of every label in every row: labels × rows."""
        coefficients = np.zeros((len(self.h), self.columns.width))
        np.add.at(coefficients, (self.which, self.column), lam / self.size)
        along = np.array([self.columns.times(c) for c in coefficients]).reshape(len(self.h), self.columns.rows)
        return np.clip(_product(self.h.T, along), -LARGEST, LARGEST)

    def sums(self, q: Float) -> Float:
        """What they sum to under probabilities, labels × rows."""
        crossed = [self.columns.cross(m) for m in _product(self.h, q)]
        return self._picked(np.array(crossed).reshape(len(self.h), self.columns.width).T)

    def drawn(self, labels: Ints) -> Float:
        """What they sum to with drawn labels."""
        return self._picked(self.columns.by_label(labels, self.h.shape[1]) @ self.h.T)

    def _picked(self, crossed: Float) -> Float:
        return crossed[self.column, self.which] / self.size

    def slope(self, q: Float) -> Float:
        """By how much the sums grow with λ."""
        m = _product(self.h, q)
        H = np.zeros((len(self.which), len(self.which)))
        for j in range(len(self.h)):
            for k in range(j, len(self.h)):
                both = _product((self.h[j] * self.h[k])[None], q)[0]
                crossed = self.columns.gram(both - m[j] * m[k])
                one, other = np.flatnonzero(self.which == j), np.flatnonzero(self.which == k)
                H[np.ix_(one, other)] = crossed[np.ix_(self.column[one], self.column[other])]
                H[np.ix_(other, one)] = H[np.ix_(one, other)].T
        return H / np.outer(self.size, self.size)


class Tilt:
    """Probabilities of labels, rows × labels, tilted to reach the goals of some targets.

    Rows are the distinct public rows at `place` (each once where None), labelled jointly with `labels`.
    """

    def __init__(
        self,
        p: NDArray[np.floating],
        targets: Sequence[Target],
        place: Ints | None,
        schema: Schema,
        labels: Sequence[str],
    ) -> None:
        self.p, self.targets, self.place, self.labels = p, targets, place, tuple(labels)
        self.sizes = {name: schema[name].size for name in labels}
        planned = [t.on_label[0] for t in targets if t.goals is not None and len(t.on_label)]
        totals = [h for h in _indicators([*self.sizes.values()]) if not _is_said(h, planned)]
        self.features = Features.of(targets, totals, place, len(p))
        kept = p.sum(axis=0, dtype=np.float64)
        self.totals = np.array([float(h @ kept) for h in totals])

    def draw(self, random: Generator, order: Ints) -> Ints:
        """Draw labels whose own sums reach the goals: uniforms in a low-discrepancy order, λ corrected by what is drawn.

        The tilt is found from some rows, evenly along the order. All rows are drawn with it; then these some are drawn again,
        with the same uniforms, until the sums of all rows reach their goals.
        """
        uniforms = np.empty(len(order))
        uniforms[order] = (random.random() + np.arange(len(order)) * GOLDEN) % 1.0
        chosen = np.sort(order[:: max(1, len(order) // ENOUGH)])
        some, whole = _Rows.of(self, chosen), _Rows.of(self, None)
        lam, slope = some.solve()
        labels = whole.draw(lam, uniforms)
        now = labels[chosen]
        own = some.drawn(now)
        rest = whole.drawn(labels) - own
        best, nearest, reached, step, pull = now, np.inf, lam, np.zeros_like(lam), 1.0
        for _ in range(DRAWS):
            missing = whole.missing(rest + own)
            far = float(np.abs(missing).max(initial=0.0))
            pull *= SHORTER
            if far < nearest:
                best, nearest, reached, step, pull = now, far, lam, _newton(slope, missing), 1.0
            if nearest < max(0.5, NEAR * len(order) ** 0.5):
                break
            lam = reached + pull * step
            now = some.draw(lam, uniforms[chosen])
            own = some.drawn(now)
        labels[chosen] = best
        return labels


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a tilt: their features, and the sums that V is made of for each target that needs one."""

    tilt: Tilt
    p: NDArray[np.floating]
    features: Features
    parts: tuple[LabelSums | None, ...]
    share: float

    @classmethod
    def of(cls, tilt: Tilt, chosen: Ints | None) -> _Rows:
        """Chosen rows, or all."""
        here: Ints | slice = slice(None) if chosen is None else chosen
        place = chosen if tilt.place is None else tilt.place[here]
        parts = tuple(
            LabelSums.of(t.part.layout, place, tilt.labels, tilt.sizes) if t.goals is None else None
            for t in tilt.targets
        )
        share = 1.0 if chosen is None else len(chosen) / max(len(tilt.p), 1)
        return cls(tilt, tilt.p[here], tilt.features if chosen is None else tilt.features.take(chosen), parts, share)

    def draw(self, lam: Float, uniforms: Float) -> Ints:
        """Labels by tilted probabilities and given uniforms."""
        labels = np.empty(len(self.p), np.int64)
        for start in range(0, len(labels), BLOCK):
            here = slice(start, start + BLOCK)
            w = np.exp(self.features.take(here).tilt(lam).astype(np.float32))
            w *= self.p[here].T
            for label in range(1, len(w)):
                w[label] += w[label - 1]
            # A label that cannot be is not reached by rounding.
            aim = np.minimum(uniforms[here] * w[-1], np.nextafter(w[-1], np.float32(0)))
            labels[here] = (w[:-1] <= aim).sum(axis=0)
        return labels

    def probabilities(self, lam: Float) -> Float:
        """The tilted probabilities, labels × rows."""
        w = np.exp(self.features.tilt(lam)) * np.maximum(self.p.T, 1e-12)
        return np.asarray(w / w.sum(axis=0))

    def drawn(self, labels: Ints) -> Float:
        """All sums of drawn labels: of the features, then of the tables."""
        return np.concatenate([self.features.drawn(labels), *(p.drawn(labels) for p in self.parts if p)])

    def missing(self, sums: Float) -> Float:
        """What all features lack to their goals, where drawn labels, or probabilities of labels, have these sums."""
        found, start = [self.tilt.totals * self.share], len(self.features.which)
        for target, part in zip(self.tilt.targets, self.parts, strict=True):
            if target.goals is not None:
                found.append(target.goals * self.share)
            elif part is not None:
                found.append(part.variation(sums[start : start + part.size], part.share) @ target.beta)
                start += part.size
        return np.asarray(np.concatenate(found) / self.features.size - sums[: len(self.features.which)])

    def solve(self) -> tuple[Float, Float]:
        """The tilt by which these rows are expected to reach their goals, and by how much their sums grow with it."""
        lam = np.zeros(len(self.features.which))
        q = self.probabilities(lam)
        for _ in range(ROUNDS):
            tables, before = [p.expected(q) for p in self.parts if p], lam
            for _ in range(STEPS):
                missing = self.missing(np.concatenate([self.features.sums(q), *tables]))
                if float(np.abs(missing).max(initial=0.0)) < 1e-6 * len(self.p) ** 0.5:
                    break
                lam = lam + _newton(self.features.slope(q), missing)
                q = self.probabilities(lam)
            if lam is before:
                break
        return lam, self.features.slope(q)


def order_of(targets: Sequence[Target], place: Ints | None, rows: int, random: Generator) -> Ints:
    """The rows along the residual of the first analysis that has one, to a fine step; in any order where none has."""
    for target in targets:
        if target.goals is None:
            residual = target.part.layout.whole_residual
            most = max(float(np.abs(residual).max(initial=0.0)), 1e-300)
            steps = np.rint(residual / most * FINE + FINE).astype(np.uint16)
            return np.argsort(steps if place is None else steps[place], kind="stable")
    return random.permutation(rows)


def _product(few: Float, many: Float) -> Float:
    """A small matrix times one of many columns; not by a library that would wake threads for it."""
    return np.asarray(np.einsum("ij,jk->ik", few, many))


def _newton(slope: Float, missing: Float) -> Float:
    # Labels that are together whole, and columns that others say, leave directions without a slope.
    if not len(slope):
        return missing
    ridge = 1e-9 * np.trace(slope) / len(slope) * np.eye(len(slope))
    found = np.linalg.lstsq(slope + ridge, missing, rcond=1e-12)[0]
    return np.asarray(found / max(1.0, float(np.abs(found).max()) / FARTHEST))


def _joint(schema: Schema, labels: Sequence[str], term: PrivateTerm, column: int) -> Float:
    """A column's function of its labels, as one of the joint labels of a labeller."""
    shape = [schema[n].size for n in labels]
    grid = np.indices(shape).reshape(len(shape), -1)
    code = np.zeros(grid.shape[1], np.int64)
    for name in term.labels:
        code = code * schema[name].size + grid[list(labels).index(name)]
    return np.ascontiguousarray(term.on_label[column][code], dtype=np.float64)


def _indicators(shape: Sequence[int]) -> list[Float]:
    """Every label of every private column, but the last of each, as a function of the joint label."""
    grid = np.indices(tuple(shape)).reshape(len(shape), -1)
    return [
        np.ascontiguousarray(grid[i] == v, dtype=np.float64) for i, size in enumerate(shape) for v in range(size - 1)
    ]


def _is_said(h: Float, others: Sequence[Float]) -> bool:
    """Whether how often a label occurs follows from sums that have goals of their own."""
    if not others:
        return False
    basis = np.column_stack([np.ones(len(h)), *others])
    left = h - basis @ np.linalg.lstsq(basis, h, rcond=None)[0]
    return bool(np.abs(left).max() < 1e-9)


def joint_codes(drawn: NDArray[np.integer], shape: Sequence[int]) -> tuple[Ints, ...]:
    """The code of each private column from the joint label."""
    return tuple(np.asarray(c, np.int64) for c in np.unravel_index(drawn, tuple(shape)))
