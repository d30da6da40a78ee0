"""What is believed of V = S′MS before it is measured, and how it is weighed against what was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float
from dipsmith.analyses.sums import Layout

MEAN, SD, BESIDE = -0.1, 0.4, 0.1
"""What is believed of V before it is measured, against labels that do not depend on public columns: on the diagonal, and
beside it. There public columns take off the product of what they explain of two labels, which is less than either."""

BELIEVED, SOME = 0.5, 0.2
"""Where what was measured of V weighs less than this, coefficients that depend on it by so much are not told."""

FLOOR = 0.05
"""V is believed to be at least this share of that of such labels, in every direction."""


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of V before: labels vary over the public columns by little more than chance.

    V is reckoned from the one that labels would have which do not depend on public columns, in units of its square root.
    Its entries there are believed to be MEAN on average on the diagonal, give or take SD, and 0 beside it, give or take
    BESIDE: five labels whose entries beside the diagonal were as uncertain as those on it could cancel each other, and the
    intervals of all of them would be far too wide (×4 at ε = .25 and 40,000 rows). What was measured is weighed against that by its noise: where tables of labels are exact they decide alone, where noise swamps them the
    regression still knows how often labels occur, which is nearly all that V depends on.
    """

    centre: Float
    root: Float
    weight: Float

    @classmethod
    def of(cls, layout: Layout, sums: Mapping[str, Float], moved: Float, twice: Float) -> Prior:
        """From how often labels occur, and from draws of the noise on V; `twice` is what noise in A itself adds to them."""
        q = moved.shape[1]
        A, N, _ = (part[0] for part in layout.assemble(independent_sums(layout, sums)))
        centre = (N - A.T @ layout.inverse.times(A))[:q, :q]
        values, vectors = np.linalg.eigh(centre) if q else (np.zeros(0), np.zeros((0, 0)))
        values = np.maximum(values, 1e-6 * max(values.max(initial=0.0), 1e-12))
        root = vectors * np.sqrt(values)
        found = cls((root @ root.T), root, np.ones((q, q)))
        noise = found.standard(moved).var(axis=0)
        noise = np.maximum(noise - found.standard(twice).var(axis=0), noise / 3)
        return replace(found, weight=found.believed_sd**2 / (found.believed_sd**2 + noise))

    @property
    def believed_sd(self) -> Float:
        """By how much every entry may differ from what is believed."""
        return np.where(np.eye(len(self.root), dtype=bool), SD, BESIDE)

    @property
    def swamped(self) -> NDArray[np.bool_]:
        """Which coefficients depend on directions of V that noise hides: the prior would speak for the rows."""
        weak = np.diag(self.weight) < BELIEVED
        loads = np.linalg.pinv(self.root) ** 2 if len(self.root) else np.zeros((0, 0))
        return np.asarray(loads[weak].sum(axis=0) > SOME * loads.sum(axis=0))

    def standard(self, V: Float) -> Float:
        """In units of the centre's square root."""
        inverse = np.linalg.pinv(self.root)
        return np.asarray(inverse @ V @ inverse.T)

    def shrink(self, V: Float) -> Float:
        """The V that is believed after it was measured."""
        q = len(V)
        believed = self.weight * (self.standard(V - self.centre)) + (1 - self.weight) * MEAN * np.eye(q)
        whole = np.eye(q) + (believed + believed.T) / 2
        values, vectors = np.linalg.eigh(whole) if q else (np.zeros(0), np.zeros((0, 0)))
        return np.asarray(self.root @ (vectors * np.maximum(values, FLOOR)) @ vectors.T @ self.root.T)

    def redraw(self, moved: Float, random: np.random.Generator) -> Float:
        """By how much noise, and what is not known of V, move the V that is believed."""
        free = random.normal(0.0, 1.0, moved.shape) * self.believed_sd * (1 - self.weight)
        free = np.triu(free) + np.triu(free, 1).transpose(0, 2, 1)
        return self.weigh(moved) + np.asarray(self.root @ free @ self.root.T)

    def weigh(self, moved: Float) -> Float:
        """By how much something that moves the V that was measured moves the one that is believed."""
        return np.asarray(self.root @ (self.weight * self.standard(moved)) @ self.root.T)


def independent_sums(layout: Layout, sums: Mapping[str, Float]) -> dict[str, Float]:
    """The sums that labels would have which do not depend on public columns, by how often each occurs."""
    d = layout.design
    shares = {name: _margin(layout, sums, name) for name in d.labels}
    joint = next((t for t in layout.tables if t.size == 1 and t.weight is None and t.labels == d.labels), None)
    found = {}
    for t in layout.tables:
        if joint is not None:
            table = _share(sums[joint.key][0].sum(axis=0)).reshape([d.sizes[n] for n in d.labels])
            table = table.sum(axis=tuple(i for i, n in enumerate(d.labels) if n not in t.labels))
            kept = [n for n in d.labels if n in t.labels]
            of_label = np.transpose(table, [kept.index(n) for n in t.labels]).ravel()
        else:
            of_label = np.ones(1)
            for name in t.labels:
                of_label = np.outer(of_label, shares[name]).ravel()
        found[t.key] = (layout.totals(t)[:, None] * of_label[None, :])[None]
    return found


def _margin(layout: Layout, sums: Mapping[str, Float], name: str) -> Float:
    """How often each label of one column occurs, by the smallest table that counts it."""
    tables = [t for t in layout.tables if t.weight is None and name in t.labels]
    if not tables:
        return np.full(layout.design.sizes[name], 1 / layout.design.sizes[name])
    table = min(tables, key=lambda t: t.size * t.label_cells)
    counts = sums[table.key][0].sum(axis=0).reshape([layout.design.sizes[n] for n in table.labels])
    return _share(counts.sum(axis=tuple(i for i, n in enumerate(table.labels) if n != name)))


def _share(counts: Float) -> Float:
    """Counts as shares that are possible: none below one in ten thousand."""
    positive = np.maximum(counts, 1e-4 * max(float(np.abs(counts).sum()), 1.0))
    return np.asarray(positive / positive.sum())
