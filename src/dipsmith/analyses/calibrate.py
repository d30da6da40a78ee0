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

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints, PrivateTerm
from dipsmith.analyses.measure import Agenda, Part
from dipsmith.analyses.noisy_sums import NoisySums, Spread
from dipsmith.analyses.results import Result
from dipsmith.privacy.randomness import Generator
from dipsmith.schema import Schema

Mean = Callable[[Float], Float]
"""The mean of a function of the label in every row: under probabilities of labels, or of labels that were drawn."""

MANY = 200_000

GOLDEN = (5**0.5 - 1) / 2

ENOUGH = 50_000
"""Rows from which the tilt is found; what is drawn of all rows corrects it."""

ROUNDS, STEPS, DRAWS = 4, 40, 10
"""Rounds in which V follows the labels, steps of Newton's method in each, and corrections by what was drawn."""

MOST_FEATURES = 250
"""Sums that labels are made to reach at most; beyond, fixed effects are left to the labeller."""

FARTHEST = 4.0
"""By how much a probability may be tilted in one step, in logarithms."""


@dataclass(frozen=True, eq=False)
class Feature:
    """A sum Σ_i x_i·h(label_i) that synthetic labels reach."""

    on_label: Float
    x: Float


@dataclass(frozen=True, eq=False)
class Target:
    """The features of one part of an analysis and their goals: fixed, or V·β with the V of the labels themselves."""

    part: Part
    features: tuple[Feature, ...]
    goals: Float | None
    beta: Float


def targets_of(
    agenda: Agenda,
    results: Sequence[Result],
    sums: dict[str, NoisySums],
    place: Ints,
    schema: Schema,
    labels: Sequence[str],
) -> tuple[list[Target], list[str]]:
    """What labels must reach, for rows that are the distinct public rows at `place`; and what cannot be carried."""
    found, left = [], []
    for part, result in zip(agenda.all_parts, results, strict=True):
        design, layout = part.layout.design, part.layout
        told = [c.estimate for c in result.coefficients]
        if any(b is None for b in told):
            left.append(f"{result.title}: too noisy to be carried by the labels")
            continue
        if design.response is not None and design.terms:
            left.append(f"{result.title}: measured; labels on both sides are not adjusted to it")
            continue
        counted = (design.often > 0)[place]
        if design.response is None:
            features = []
            for term in design.terms:
                for column in range(len(term.names)):
                    weight = _weight(term, column)[place] * layout.whole_residual[place]
                    features.append(Feature(_joint(schema, labels, term, column), np.where(counted, weight, 0.0)))
            beta = np.array(told[len(told) - len(features) :], dtype=np.float64)
            found.append(Target(part, tuple(features), None, beta))
            continue
        spread = Spread.of(layout, sums)
        measured = spread.apply({t.key: sums[t.key].values[None] for t in layout.tables})
        cross = layout.assemble(measured)[0][0][:, -1]
        wide = layout.public_columns
        fits = wide.shape[1] <= MOST_FEATURES
        chosen = [i for b, at in zip(design.blocks, layout.places, strict=True) if fits or b.name[0] != "|" for i in at]
        h = _joint(schema, labels, design.response, 0)
        dense = wide[:, chosen].toarray()[place] * counted[:, None]
        found.append(
            Target(part, tuple(Feature(h, dense[:, k]) for k in range(len(chosen))), cross[chosen], np.zeros(0))
        )
    return found, left


class Tilt:
    """Probabilities of labels, tilted to reach the goals of some targets."""

    def __init__(self, p: Float, targets: Sequence[Target], place: Ints, shape: Sequence[int]) -> None:
        self.targets, self.place = targets, place
        self.log = np.log(np.maximum(p, 1e-12))
        planned = [t.features[0].on_label for t in targets if t.goals is not None and t.features]
        totals = [Feature(h, np.ones(len(p))) for h in _indicators(shape) if not _is_said(h, planned)]
        kept = p @ np.array([f.on_label for f in totals]).T if totals else np.zeros((len(p), 0))
        self.features = [*totals, *(f for t in targets for f in t.features)]
        self.goal_totals = kept.sum(axis=0)
        # Few functions of the label occur, each with many weights.
        distinct: dict[bytes, int] = {}
        self.which = np.array([distinct.setdefault(f.on_label.tobytes(), len(distinct)) for f in self.features])
        self.h = np.array([np.frombuffer(key) for key in distinct])
        self.x = np.column_stack([f.x for f in self.features])
        size = np.sqrt(np.maximum((self.x**2).mean(axis=0), 1e-300))
        self.x = self.x / size
        self.size = size
        self.lam = np.zeros(len(self.features))

    def probabilities(self) -> Float:
        """The tilted probabilities."""
        tilt = np.column_stack([self.x[:, self.which == j] @ self.lam[self.which == j] for j in range(len(self.h))])
        w = tilt @ self.h
        w += self.log
        w -= w.max(axis=1, keepdims=True)
        np.exp(w, out=w)
        w /= w.sum(axis=1, keepdims=True)
        return np.asarray(w)

    def goals(self, mean: Mean) -> Float:
        """What the features must sum to, where rows have these labels (or these probabilities of labels)."""
        found = [self.goal_totals]
        for target in self.targets:
            found.append(_variation(target, mean, self.place) @ target.beta if target.goals is None else target.goals)
        return np.asarray(np.concatenate(found) / self.size)

    def sums(self, mean: Mean) -> Float:
        """What the features sum to."""
        found = np.empty(len(self.which))
        for j, h in enumerate(self.h):
            found[self.which == j] = mean(h) @ self.x[:, self.which == j]
        return found

    def step(self, q: Float, missing: Float) -> Float:
        """Newton's step towards what is missing."""
        return _newton(self.slope(q), missing)

    def slope(self, q: Float) -> Float:
        """By how much the sums grow with λ."""
        m = q @ self.h.T
        H = np.empty((len(self.which), len(self.which)))
        for j in range(len(self.h)):
            for k in range(j, len(self.h)):
                covariance = q @ (self.h[j] * self.h[k]) - m[:, j] * m[:, k]
                one, other = np.flatnonzero(self.which == j), np.flatnonzero(self.which == k)
                H[np.ix_(one, other)] = (self.x[:, one] * covariance[:, None]).T @ self.x[:, other]
                H[np.ix_(other, one)] = H[np.ix_(one, other)].T
        return H

    def solve(self) -> Float:
        """Find the tilt, and return the probabilities."""
        q = self.probabilities()
        for _ in range(ROUNDS):
            goal = self.goals(q.__matmul__)
            for _ in range(STEPS):
                missing = goal - self.sums(q.__matmul__)
                if float(np.abs(missing).max()) < 1e-6 * len(q) ** 0.5:
                    break
                self.lam += self.step(q, missing)
                q = self.probabilities()
        return q

    def some(self, order: Ints) -> Tilt:
        """The same of every k-th row in this order: enough to find the tilt from."""
        chosen = order[:: max(1, len(order) // ENOUGH)]
        share = len(chosen) / len(order)
        part = copy.copy(self)
        part.log, part.x, part.place = self.log[chosen], self.x[chosen], self.place[chosen]
        part.goal_totals = self.goal_totals * share
        part.targets = [t if t.goals is None else replace(t, goals=t.goals * share) for t in self.targets]
        part.lam = self.lam.copy()
        return part

    def draw(self, random: Generator, order: Ints) -> Ints:
        """Draw labels whose own sums reach the goals: uniforms in a low-discrepancy order, λ corrected by what is drawn."""
        some = self.some(order)
        slope = some.slope(some.solve()) * (len(order) / len(some.log))
        self.lam = some.lam
        uniforms = np.empty(len(order))
        uniforms[order] = (random.random() + np.arange(len(order)) * GOLDEN) % 1.0
        best, nearest = np.zeros(0, np.int64), np.inf
        # Of many rows a few draws are as near: what one row moves is little against what all of them do.
        for _ in range(DRAWS if len(order) <= MANY else 3):
            labels = _drawn(self.probabilities(), uniforms)
            missing = self.goals(labels_mean(labels)) - self.sums(labels_mean(labels))
            far = float(np.abs(missing).max())
            if far < nearest:
                best, nearest = labels, far
            self.lam = self.lam + _newton(slope, missing)
        return best


def order_of(targets: Sequence[Target], place: Ints) -> Ints:
    """The rows along the residual of the first analysis that has one; as they stand where none has."""
    for target in targets:
        if target.goals is None:
            return np.argsort(target.part.layout.whole_residual[place], kind="stable")
    return np.arange(len(place))


def _newton(slope: Float, missing: Float) -> Float:
    # Labels that are together whole, and columns that others say, leave directions without a slope.
    ridge = 1e-9 * np.trace(slope) / len(slope) * np.eye(len(slope))
    found = np.linalg.lstsq(slope + ridge, missing, rcond=1e-12)[0]
    return np.asarray(found / max(1.0, float(np.abs(found).max()) / FARTHEST))


def _drawn(q: Float, uniforms: Float) -> Ints:
    reached = np.cumsum(q, axis=1)
    found = (reached <= (uniforms * reached[:, -1])[:, None]).sum(axis=1)
    return np.asarray(np.minimum(found, q.shape[1] - 1), np.int64)


def _variation(target: Target, mean: Mean, place: Ints) -> Float:
    """V of labels with these means: E[S′S] − A′(Z′Z)⁻¹A."""
    layout = target.part.layout
    design = layout.design
    counted = (design.often > 0)[place]
    found: list[tuple[Float, Float]] = []
    for i, c in layout.columns:
        found.append((_weight(design.terms[i], c)[place] * counted, target.features[len(found)].on_label))
    folded = [np.bincount(place, weights=w * mean(h), minlength=len(design.often)) for w, h in found]
    A = layout.public_columns.T @ np.column_stack(folded)
    N = np.empty((len(found), len(found)))
    for a, (w, h) in enumerate(found):
        for b, (v, g) in enumerate(found[: a + 1]):
            N[a, b] = N[b, a] = float((w * v) @ mean(h * g)) if (h * g).any() else 0.0
    # Some of the rows stand for all: Z′Z is that of all.
    share = max(float(counted.sum()), 1.0) / max(design.rows, 1.0)
    return np.asarray(N - A.T @ layout.inverse @ A / share)


def _weight(term: PrivateTerm, column: int) -> Float:
    """The public factor of a private column, of every distinct public row."""
    inside = (term.groups == term.level[column]).astype(np.float64)
    factor = 1.0 if term.weight is None else np.nan_to_num(term.weight, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(inside * factor)


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


def labels_mean(labels: Ints) -> Mean:
    """A function of the label in every row, of drawn labels."""
    return lambda h: h[labels]


def joint_codes(drawn: NDArray[np.integer], shape: Sequence[int]) -> tuple[Ints, ...]:
    """The code of each private column from the joint label."""
    return tuple(np.asarray(c, np.int64) for c in np.unravel_index(drawn, tuple(shape)))
