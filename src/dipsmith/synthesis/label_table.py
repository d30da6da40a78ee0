"""One noisy label table of a release under `label`, beside the public rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.public_columns import PIECE, pieces

Weights = NDArray[np.signedinteger] | NDArray[np.float64]
"""What every row weighs; weights that were bought are whole steps."""


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Noisy sums by cell and label: `cell` has the cell of every distinct public row, `weight` what the row counts for.

    `values` are cells × labels and agree with the public totals; `noise` has the variance of each before they were made
    to. With `single` only the second of two labels was drawn.
    """

    labels: tuple[str, ...]
    cell: NDArray[np.signedinteger]
    weight: Weights | None
    values: Float
    noise: Float
    laplace: bool
    single: bool

    @cached_property
    def example_rows(self) -> Ints:
        """A row that shows each cell; −1 where none does."""
        found, rows = np.full(len(self.values), -1), len(self.cell)
        # Rows here and there show nearly every cell; those in order may come to some at last.
        for here in (slice(0, rows, max(1, rows // PIECE)), *pieces(rows)):
            found[self.cell[here]] = np.arange(*here.indices(rows))
            if found.min(initial=0) >= 0:
                break
        return found

    @cached_property
    def heaviest(self) -> float:
        """The largest weight of a row."""
        return (
            1.0
            if self.weight is None
            else max(float(self.weight.max(initial=0.0)), -float(self.weight.min(initial=0.0)))
        )

    def totals(self, often: Ints) -> Float:
        """The public weight of every cell."""
        found = np.zeros(len(self.values))
        for here in pieces(len(self.cell)):
            heavy = often[here] if self.weight is None else often[here] * self.weight[here]
            found += np.bincount(self.cell[here], weights=heavy, minlength=len(found))
        return found

    @cached_property
    def _free(self) -> Float:
        """The share of a cell's surplus that each label takes: equal ones of those with noise."""
        noisy = (self.noise > 0).astype(np.float64)
        return np.asarray(noisy / np.maximum(noisy.sum(axis=1, keepdims=True), 1.0))

    def agree_with_totals(self, totals: Float) -> LabelTable:
        """The same with labels that add up to the public total of each cell."""
        if self.single:
            return self
        lacking = totals - self.values.sum(axis=1)
        return replace(self, values=self.values + self._free * lacking[:, None])

    def noise_of(self, labels: int) -> Float:
        """The variance of one of so many labels in each cell, others added up, on average."""
        mean = self.noise.mean(axis=1)
        if self.single or labels == 1:
            return np.asarray(mean)
        together = self.noise.shape[1] / labels
        return np.asarray(mean * together * (1 - 1 / labels))

    def draw(self, random: np.random.Generator, draws: int) -> Float:
        """The noise again: draws × cells × labels."""
        shape = (draws, *self.noise.shape)
        noise = random.laplace(0.0, np.sqrt(0.5), shape) if self.laplace else random.normal(0.0, 1.0, shape)
        noise = noise * np.sqrt(self.noise)
        if self.single:
            return np.concatenate([-noise[..., 1:], noise[..., 1:]], axis=-1)
        return np.asarray(noise - self._free * noise.sum(axis=-1, keepdims=True))
