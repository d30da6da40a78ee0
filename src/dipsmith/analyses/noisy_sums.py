"""Noisy sums as they were bought: in the weight's own unit, made to agree with one another, their noise known.

Two steps come before anything is estimated, both linear, so that noise can be sent the same way as sums:

* the sums of a group's labels are made to add up to its public weight (`NoisySums`);
* tables that count the same labels are made to agree on how often each occurs (`Spread`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.analyses.design import Float
from dipsmith.analyses.sum_table import SumTable
from dipsmith.analyses.sums import Layout
from dipsmith.privacy.measurement import Measurement


@dataclass(frozen=True, eq=False)
class NoisySums:
    """The sums of a table as they were measured, draws × groups × labels in the weight's own unit; and their noise."""

    table: SumTable
    values: Float
    sd: float
    noisy: Float
    laplace: bool
    single: bool

    @classmethod
    def of(cls, table: SumTable, measurement: Measurement) -> NoisySums:
        """A measurement in the weight's own unit, made to agree with the public weight of each group."""
        labels = measurement.cells.size // (table.size + 1)
        values = measurement.values.reshape(-1, labels)[: table.size].astype(np.float64)
        noisy = (
            np.ones(table.size) if measurement.noisy is None else measurement.noisy.reshape(-1, labels)[: table.size, 0]
        )
        totals = None if measurement.totals is None else measurement.totals[: table.size].astype(np.float64)
        if totals is not None and not measurement.single:
            values += np.asarray(noisy, np.float64)[:, None] * (totals - values.sum(axis=1))[:, None] / labels
        laplace = measurement.mechanism == "discrete Laplace"
        sd = float(np.sqrt(measurement.variance)) * table.unit
        return cls(table, values * table.unit, sd, np.asarray(noisy, np.float64), laplace, measurement.single)

    def cut(self, part: SumTable, start: int) -> NoisySums:
        """Some of its groups, as a table of their own."""
        here = slice(start, start + part.size)
        return replace(self, table=part, values=self.values[here], noisy=self.noisy[here])

    def draw(self, random: np.random.Generator, draws: int) -> Float:
        """The noise again."""
        labels = self.values.shape[1]
        shape = (draws, len(self.values), 1 if self.single else labels)
        noise = random.laplace(0.0, self.sd / np.sqrt(2), shape) if self.laplace else random.normal(0.0, self.sd, shape)
        noise = noise * self.noisy[:, None]
        if self.single:
            return np.concatenate([-noise, noise], axis=2)
        return np.asarray(noise - noise.mean(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class Spread:
    """Tables of the same labels are made to agree on how often each label occurs: weights of each table's total."""

    tables: Mapping[str, tuple[tuple[str, float], ...]]
    sums: Mapping[str, NoisySums]
    labels: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, layout: Layout, sums: Mapping[str, NoisySums]) -> Spread:
        """Which tables count the same labels, and how much each of them is believed."""
        counts = {t.key: t for t in layout.tables if t.weight is None}
        families: dict[str, tuple[tuple[str, float], ...]] = {}
        for key, table in counts.items():
            alike = [(k, t) for k, t in counts.items() if set(table.labels) <= set(t.labels)]
            believed = [
                (k, 1 / max(_total_variance(sums[k], table.labels, layout.design.sizes), 1e-300)) for k, t in alike
            ]
            whole = sum(w for _, w in believed)
            families[key] = tuple((k, w / whole) for k, w in believed) if len(believed) > 1 else ()
        return cls(families, sums, {t.key: t.labels for t in layout.tables}, layout.design.sizes)

    def apply(self, values: Mapping[str, Float]) -> dict[str, Float]:
        """Spread what each table's totals lack over its groups; linear, so that noise can be sent through it."""
        found = dict(values)
        for key, believed in self.tables.items():
            if not believed:
                continue
            totals = sum(w * self._total(values[k], k, key) for k, w in believed)
            own = values[key].sum(axis=1)
            noisy = self.sums[key].noisy
            share = noisy / max(noisy.sum(), 1.0)
            found[key] = values[key] + share[None, :, None] * (totals - own)[:, None, :]
        return found

    def _total(self, values: Float, key: str, wanted: str) -> Float:
        """How often each label of another table occurs by this one."""
        labels, over = self.labels[key], self.labels[wanted]
        table = values.sum(axis=1).reshape(len(values), *(self.sizes[n] for n in labels))
        dropped = tuple(i + 1 for i, n in enumerate(labels) if n not in over)
        table = table.sum(axis=dropped) if dropped else table
        order = [n for n in labels if n in over]
        moved = np.transpose(table, (0, *(1 + order.index(n) for n in over)))
        return moved.reshape(len(values), -1)


def _total_variance(sums: NoisySums, labels: tuple[str, ...], sizes: Mapping[str, int]) -> float:
    """The variance of the number of one label, added up over groups and over the other private columns."""
    others = float(np.prod([sizes[n] for n in sums.table.labels if n not in labels] or [1]))
    return float(sums.noisy.sum()) * sums.sd**2 * others


@dataclass(frozen=True, eq=False)
class Bought:
    """The sums that were bought for a layout, each with its own noise, made to agree."""

    sums: Mapping[str, NoisySums]
    spread: Spread

    @classmethod
    def of(cls, layout: Layout, sums: Mapping[str, NoisySums]) -> Bought:
        """The sums of one layout among all that were bought."""
        return cls({t.key: sums[t.key] for t in layout.tables}, Spread.of(layout, sums))

    def measured_sums(self) -> dict[str, Float]:
        """The sums as they were measured: one draw."""
        return self.spread.apply({k: s.values[None] for k, s in self.sums.items()})

    def redraw(self, random: np.random.Generator, draws: int) -> dict[str, Float]:
        """Their noise again."""
        return self.spread.apply({k: s.draw(random, draws) for k, s in self.sums.items()})
