"""Private partition selection: which values of a column are frequent enough to be released.

A column's values are nobody's list yet. Each value that occurs is counted, noise is added to its count, and the value is
told, with its noisy count, where that reaches a threshold. A value that does not occur is never told; so a value that one
unit alone brings must almost never be: its count is at most k = `max_rows`, and the threshold lies so far above k that the
noise bridges the gap with probability δ at most, over all columns and all new values of a unit together.

Korolova, Kenthapadi, Mishra and Ntoulas, "Releasing Search Queries and Clicks Privately" (WWW 2009). Proof, also for
Gaussian noise: ``docs/proofs/learn.md``.

*A survey*: histograms of many columns over public cells, counted in one pass and released with noise.

Before a schema exists nothing is known of a column's values; but any fixed way to sort *all possible* values into cells
(blank, a whole number, a date, text; or 1 to 2, 2 to 5, 5 to 10, …) is a data-independent partition of rows. A
survey counts several of them, each of one column.

Privacy
-------
One unit moves at most k rows in each of m histograms: Δ₁ = m·k (add-remove) or 2mk (replace, label), Δ₂² = m·k² or 2mk²
(``docs/proofs/learn.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log, sqrt
from typing import Protocol

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.frequent import MOST, count_values
from dipsmith.counting.values import plain_column
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import noise_of, price_counts, scale_of, sensitivity_for
from dipsmith.privacy.events import Discovered, Measured, tail_bound
from dipsmith.privacy.noise import DiscreteLaplace, NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import NamedCounts
from dipsmith.schema import Schema

LARGEST_EPSILON = 1000
"""Beyond it e^ε, among which δ is divided, has hundreds of digits."""
LEAST_CHANCE = Fraction(1, 1 << 1900)
"""Probabilities are bounded to 2000 binary places (`tail_bound`)."""

Discovery = Mapping[str, tuple[tuple[str, int], ...]]
"""For each column the released values and their noisy counts, the most frequent first."""


@dataclass(frozen=True)
class FrequentValues:
    """Which values of some columns occur often: a question whose answer fails to be private with probability `delta`."""

    columns: tuple[str, ...]
    delta: Fraction
    most: int = MOST

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise UsageError("values are discovered of one or more columns, each named once")
        if not 0 < self.delta < 1:
            raise UsageError(f"δ must lie between 0 and 1, got {float(self.delta):g}")

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Discovered]:
        """The noise for a price, and the event with its threshold.

        Every column is a histogram, of which one unit moves at most k rows: Δ₁ and Δ₂² of one, times the columns.
        """
        if block:
            raise UnsupportedError("values are discovered in all rows, not in a block of them")
        sensitivity = len(self.columns) * sensitivity_for(relation, max_rows, budget)
        law = noise_of(sensitivity, budget)
        scale = law.scale if isinstance(law, DiscreteLaplace) else law.sigma2
        parts = delta_parts(budget)
        each = self.delta / (len(self.columns) * max_rows * parts)
        event = Discovered(
            what=f"frequent values of {len(self.columns)} columns",
            columns=len(self.columns),
            rows=max_rows,
            mechanism=law.name,
            sensitivity=sensitivity,
            scale=scale,
            threshold=max_rows + _gap(law, scale, each),
            delta=self.delta,
            parts=parts,
            budget=budget,
            block=block,
        )
        return law, event

    def find(self, rows: Rows, law: NoiseLaw, threshold: int, stream: Stream) -> Discovery:
        """The values whose noisy counts reach the threshold. Every value that occurs gets noise of its own."""
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in self.columns}
        for name, values, counts in count_values(rows.raw, self.columns, self.most):
            noisy = counts + law.sample(stream, len(counts))
            told = np.flatnonzero(noisy >= threshold)
            texts = [value.decode("utf-8", "replace") for value in values.take(told).to_pylist()]
            found[name] += zip(texts, noisy[told].tolist(), strict=True)
        return {name: tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))) for name, pairs in found.items()}


def delta_parts(budget: Budget) -> int:
    """Into how many parts δ is divided: 1 + e^ε, rounded up; 1 under ρ, where an (ε, δ) statement counts it so often itself.

    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.privacy.budget import ZCDP
    >>> delta_parts(PureDP("0.1")), delta_parts(ZCDP("0.1"))
    (4, 1)
    """
    if not isinstance(budget, PureDP):
        return 1
    if budget.exact > LARGEST_EPSILON:
        raise UsageError(f"{budget} leaves nothing of a δ: lower ε to {LARGEST_EPSILON:,} or less, or give no δ")
    return 1 + int(3 ** ceil(budget.exact))


def _gap(law: NoiseLaw, scale: Fraction, chance: Fraction) -> int:
    """The least distance that noise bridges with at most this probability."""
    if chance < LEAST_CHANCE:
        raise UsageError("so little of δ is left for each value that no threshold can be found: raise δ, or lower ε")
    nats = log(chance.denominator) - log(chance.numerator)
    width = scale_of(law)
    distance = ceil(width * nats if isinstance(law, DiscreteLaplace) else width * sqrt(2 * nats))
    while tail_bound(law.name, scale, distance) > chance:  # the float may be a little short
        distance += max(1, distance >> 40)
    return distance


class ColumnCells(Protocol):
    """A public partition of all values that a column could have."""

    @property
    def column(self) -> str:
        """The column."""

    @property
    def size(self) -> int:
        """The number of cells."""

    def place(self, values: pa.Array) -> Ints:
        """The cell of each value, 0 … size − 1, a function of that value alone; −1 for none."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Histograms of columns: a question to the values of rows. `what` names it in the ledger."""

    what: str
    schema: Schema
    tables: tuple[ColumnCells, ...]

    def __post_init__(self) -> None:
        if not self.tables:
            raise UsageError("a survey has at least one column")

    @property
    def cells(self) -> NamedCounts:
        """What is counted."""
        return NamedCounts(self.schema, f"{self.what} of {len(self.tables)} columns", self._starts()[-1])

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise on all histograms for a price."""
        if block:
            raise UnsupportedError("a survey is of all rows, not of a block of them")
        sensitivity = len(self.tables) * sensitivity_for(relation, max_rows, budget)
        return price_counts(self.cells, sensitivity, budget, block)

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact numbers of all histograms, one after the other."""
        starts = self._starts()
        found = np.zeros(starts[-1], np.int64)
        for batch in rows.raw([*dict.fromkeys(table.column for table in self.tables)]):
            for table, start in zip(self.tables, starts, strict=False):
                cells = table.place(plain_column(batch.column(table.column)))
                found[start : start + table.size] += np.bincount(cells[cells >= 0], minlength=table.size)
        return found

    def apart(self, counts: Ints) -> list[Ints]:
        """The histograms of an answer, one for each table."""
        return np.split(counts, self._starts()[1:-1])

    def _starts(self) -> list[int]:
        return [0, *np.cumsum([table.size for table in self.tables]).tolist()]
