"""Calibrated labels: the closest labels to a labeller's own that carry the planned results.

A labeller gives every row i a distribution p_i over the (joint) labels l. It is tilted,

    p′_il ∝ p_il · exp(Σ_a λ_a·x_ai·h_a(l)),

so that sums of public numbers x_a over labels reach their goals: how often each label occurs stays as it was, and the
planned coefficients come out of the regression of the synthetic rows. Of all distributions that reach the goals it is the
closest to the labeller's own (the I-projection: Csiszár 1975). λ is found by Newton's method.

Drawing each label by itself would add a sampling error as large as that of the rows. So uniform numbers are taken in a
low-discrepancy order along the first analysis's residual (Kronecker's sequence), and λ is corrected by what was
drawn, with the same uniforms, until the regression of the drawn labels itself says what was planned.

Where all rows of a unit share their labels, i is a unit, and x_ai the sum over its rows.

Privacy
-------
Reads public rows, a model and noisy sums: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints, PrivateTerm
from dipsmith.analyses.direct import KnownSums
from dipsmith.analyses.features import Features, Target
from dipsmith.analyses.label_sums import LabelSums
from dipsmith.analyses.measure import Agenda, Part
from dipsmith.analyses.orthogonal import finite
from dipsmith.analyses.public_columns import GroupColumns, PublicColumns, pieces
from dipsmith.analyses.results import Result
from dipsmith.analyses.sum_table import STEPS as FINE
from dipsmith.estimation.unit_law import even_numbers
from dipsmith.privacy.randomness import Generator
from dipsmith.regression.least_squares import independent
from dipsmith.schema import Schema
from dipsmith.schema.codes import code_dtype

ENOUGH = 25_000
"""Rows from which the tilt is found, and which are drawn again until the goals are reached."""

BLOCK = 1 << 14
"""Rows that are drawn at once: what is computed of them stays in the processor's cache."""

ROUNDS, STEPS, DRAWS = 4, 40, 25
"""Rounds in which V follows the labels, steps of Newton's method in each, and corrections by what was drawn."""

NEAR = 0.01
"""Near enough: this share of a sum's sampling error, or half of what one row adds to it."""

EXCHANGES, OFFERS = 4, 2000
"""How often some units are offered another label, and how many are at a time."""

SHORTER = 0.7
"""A correction that came no nearer is tried again at this share of its length."""

MOST_FEATURES = 250
"""Sums that labels are made to reach at most; beyond, fixed effects are left to the labeller."""

FARTHEST = 4.0
"""By how much a probability may be tilted in one step, in logarithms."""


def targets_of(
    agenda: Agenda, results: Sequence[Result], known: Sequence[KnownSums], schema: Schema, labels: Sequence[str]
) -> tuple[list[Target], list[str]]:
    """What labels must reach; and what cannot be carried."""
    found, left = [], []
    for part, result, sums in zip(agenda.all_parts, results, known, strict=True):
        design = part.layout.design
        told = [c.estimate for c in result.coefficients]
        if not set(design.labels) <= set(labels):
            left.append(f"{result.title}: names other labels")
        elif any(b is None for b in told):
            left.append(f"{result.title}: too noisy to be carried by the labels")
        elif design.response is not None and design.terms:
            left.append(f"{result.title}: measured; labels on both sides are not adjusted to it")
        elif design.response is None:
            found.append(_scores(part, np.array(told, dtype=np.float64), schema, labels))
        else:
            found.append(_totals(part, design.response, sums, schema, labels))
    # Where two analyses ask for the same sum, noise lets their goals differ: that of fewer coefficients is known better.
    return sorted(found, key=lambda t: len(t.column)), left


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


def _totals(part: Part, response: PrivateTerm, sums: KnownSums, schema: Schema, labels: Sequence[str]) -> Target:
    """Z′y of a private response reaches what was measured."""
    layout = part.layout
    goals = layout.assemble(sums.measured_sums())[0][0][:, -1]
    fits = layout.run_columns.width <= MOST_FEATURES
    chosen = [i for i, b in enumerate(layout.design.blocks) if fits or b.name[0] != "|"]
    counted = (layout.design.often > 0).astype(np.float64)
    blocks = tuple(layout.public_columns[i].weigh(counted) for i in chosen)
    columns = PublicColumns(blocks, len(counted))
    at = np.concatenate([np.zeros(0, np.int64), *(layout.places[i] for i in chosen)])
    h = np.tile(_joint(schema, labels, response, 0), (len(at), 1))
    return Target(part, columns, np.arange(len(at)), h, goals[at], np.zeros(0))


class Tilt:
    """Probabilities of labels, rows × labels, tilted to reach the goals of some targets.

    Rows are the distinct public rows at `place` (each once where None), labelled jointly with `labels`. With `starts`, the
    probabilities and labels are those of units, whose rows stand together from there on.
    """

    def __init__(
        self,
        p: NDArray[np.floating],
        targets: Sequence[Target],
        place: Ints | None,
        schema: Schema,
        labels: Sequence[str],
        starts: Ints | None = None,
    ) -> None:
        self.p, self.targets, self.place, self.labels, self.starts = p, targets, place, tuple(labels), starts
        rows = len(p) if place is None else len(place)
        self.many = None if starts is None else np.diff(np.append(starts, rows))
        self.sizes = {name: schema[name].size for name in labels}
        planned = [t.on_label[0] for t in targets if t.goals is not None and len(t.on_label)]
        totals = [h for h in _indicators([*self.sizes.values()]) if not _is_said(h, planned)]
        whole = Features.of(targets, totals, place, rows, starts)
        self.kept = whole.independent()
        self.features = whole.only(self.kept)
        counted = np.ones(len(p)) if self.many is None else self.many.astype(np.float64)
        kept = sum((counted[here] @ p[here] for here in pieces(len(p))), np.zeros(p.shape[1]))
        self.totals = np.array([float(h @ kept) for h in totals])

    def rows_of(self, chosen: Ints | None) -> tuple[Ints, Ints]:
        """The rows of chosen units, or of all, and which of these each belongs to."""
        assert self.starts is not None
        assert self.many is not None
        these = np.arange(len(self.many)) if chosen is None else chosen
        owner = np.repeat(np.arange(len(these)), self.many[these])
        within = np.arange(len(owner)) - np.repeat(np.cumsum(self.many[these]) - self.many[these], self.many[these])
        return np.asarray(self.starts[these][owner] + within, np.int64), owner

    def draw(self, random: Generator, order: Ints) -> Ints:
        """Draw labels whose own sums reach the goals: uniforms in a low-discrepancy order, λ corrected by what is drawn.

        The tilt is found from some rows, evenly along the order. All rows are drawn with it; then these some are drawn again,
        with the same uniforms, until the sums of all rows reach their goals.
        """
        uniforms = np.empty(len(order))
        uniforms[order] = even_numbers(random, len(order))
        chosen = np.sort(order[:: max(1, len(order) // ENOUGH)])
        some, whole = _Rows.of(self, chosen), _Rows.of(self, None)
        lam, slope = some.solve()
        labels = whole.draw(lam, uniforms)
        now = labels[chosen]
        own = some.sum_labels(now)
        rest = whole.sum_labels(labels) - own
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
            own = some.sum_labels(now)
        labels[chosen] = best
        if self.starts is not None:
            self._exchange(labels, whole, reached, random)
        return labels

    def _exchange(self, labels: Ints, whole: _Rows, lam: Float, random: Generator) -> None:
        """Bring sums nearer to their goals by giving a few units another label, drawn by the same tilt.

        One unit has many rows, so that few units make coarse sums: corrections of λ alone do not come near.
        """
        for _ in range(EXCHANGES):
            missing = whole.missing(whole.sum_labels(labels))
            if float(np.abs(missing).max(initial=0.0)) < 0.05:
                return
            others = whole.draw(lam, np.asarray(random.random(len(labels))))
            units = random.permutation(np.flatnonzero(others != labels))[:OFFERS]
            moved = self.features.changes(units, labels[units], others[units])
            for _ in range(len(units)):
                left = ((missing - moved) ** 2).sum(axis=1)
                taken = int(left.argmin()) if len(left) else 0
                if not len(left) or left[taken] >= missing @ missing:
                    break
                missing = missing - moved[taken]
                labels[units[taken]] = others[units[taken]]
                moved[taken] = 0.0


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a tilt: their features, and the sums that V is made of for each target that needs one."""

    tilt: Tilt
    p: NDArray[np.floating]
    features: Features
    parts: tuple[LabelSums | None, ...]
    share: float
    owner: Ints | slice
    """Whose label each row has: its own, or its unit's."""

    @classmethod
    def of(cls, tilt: Tilt, chosen: Ints | None) -> _Rows:
        """Chosen rows or units, or all."""
        here: Ints | slice = slice(None) if chosen is None else chosen
        rows, owner = (here, slice(None)) if tilt.starts is None else tilt.rows_of(chosen)
        place = chosen if tilt.place is None else tilt.place[rows]
        parts = tuple(
            LabelSums.of(t.part.layout, place, tilt.labels, tilt.sizes) if t.goals is None else None
            for t in tilt.targets
        )
        share = 1.0 if chosen is None else len(chosen) / max(len(tilt.p), 1)
        features = tilt.features if chosen is None else tilt.features.take(chosen)
        return cls(tilt, tilt.p[here], features, parts, share, owner)

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
            labels[here] = 0
            for reached in w[:-1]:
                labels[here] += reached <= aim
        return labels

    def probabilities(self, lam: Float) -> Float:
        """The tilted probabilities, labels × rows."""
        w = np.exp(self.features.tilt(lam)) * np.maximum(self.p.T, 1e-12)
        return np.asarray(w / w.sum(axis=0))

    def sum_labels(self, labels: Ints) -> Float:
        """All sums of drawn labels: of the features, then of the tables."""
        return np.concatenate(
            [self.features.sum_labels(labels), *(p.sum_labels(labels[self.owner]) for p in self.parts if p)]
        )

    def missing(self, sums: Float) -> Float:
        """What all features lack to their goals, where drawn labels, or probabilities of labels, have these sums."""
        found, start = [self.tilt.totals * self.share], len(self.features.which)
        for target, part in zip(self.tilt.targets, self.parts, strict=True):
            if target.goals is not None:
                found.append(target.goals * self.share)
            elif part is not None:
                found.append(part.variation(sums[start : start + part.size], part.share) @ target.beta)
                start += part.size
        return np.asarray(np.concatenate(found)[self.tilt.kept] / self.features.size - sums[: len(self.features.which)])

    def solve(self) -> tuple[Float, Float]:
        """The tilt by which these rows are expected to reach their goals, and by how much their sums grow with it."""
        lam = np.zeros(len(self.features.which))
        q = self.probabilities(lam)
        for _ in range(ROUNDS):
            tables, before = [p.expect(q[:, self.owner]) for p in self.parts if p], lam
            for _ in range(STEPS):
                missing = self.missing(np.concatenate([self.features.sums(q), *tables]))
                if float(np.abs(missing).max(initial=0.0)) < 1e-6 * len(self.p) ** 0.5:
                    break
                lam = lam + _newton(self.features.slope(q), missing)
                q = self.probabilities(lam)
            if lam is before:
                break
        return lam, self.features.slope(q)


def plain_coefficients(
    target: Target, place: Ints | None, labels: Ints, names: Sequence[str], sizes: Mapping[str, int]
) -> Float | None:
    """What a plain regression of labelled rows gives, from the sums of their labels; every row that there is must count.

    None where the response is a label, or where a column says nothing that others do not.
    """
    layout = target.part.layout
    if target.goals is not None or not layout.is_identified:
        return None
    sums = LabelSums.of(layout, place, names, sizes)
    A, N = sums.cross_products(sums.sum_labels(labels), 1.0)
    V = N - A.T @ layout.inverse.times(A)
    if len(independent(V, np.diag(N))) < len(V):
        return None
    columns = target.columns if place is None else target.columns.take(place)
    T = (columns.by_label(labels, sums.many)[target.column] * target.on_label).sum(axis=1)
    beta = np.linalg.solve(V, T)
    public = layout.back @ layout.told_inverse @ (layout.public_cross - A @ beta)
    return np.concatenate([public, beta])


def order_of(
    targets: Sequence[Target], place: Ints | None, rows: int, random: Generator, starts: Ints | None = None
) -> Ints:
    """The rows along the residual of the first analysis that has one, to a fine step; in any order where none has.

    Units, whose rows begin at `starts`, go along the sum of their rows'.
    """
    for target in targets:
        if target.goals is None:
            residual = target.part.layout.whole_residual
            if starts is not None:
                each = residual if place is None else residual[place]
                residual, place = np.add.reduceat(each, starts), None
            most = max(float(np.abs(residual).max(initial=0.0)), 1e-300)
            steps = np.empty(len(residual), np.uint16)
            for here in pieces(len(steps)):
                np.rint(residual[here] / most * FINE + FINE, out=steps[here], casting="unsafe")
            return np.argsort(steps if place is None else steps[place], kind="stable")
    return random.permutation(rows)


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


def joint_codes(drawn: NDArray[np.integer], shape: Sequence[int]) -> tuple[NDArray[np.unsignedinteger], ...]:
    """The code of each private column from the joint label."""
    of_label = np.indices(tuple(shape)).reshape(len(shape), -1)
    return tuple(codes.astype(code_dtype(size))[drawn] for codes, size in zip(of_label, shape, strict=True))
