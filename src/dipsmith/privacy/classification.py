"""Counts of a public classification of rows by their values: predictions within a tolerance, residuals, scores.

A model that was fitted on a release is public, and so is the class that it puts any possible row in. The classes are a
data-independent partition of rows, and their counts have the sensitivity of a histogram: Δ₁ = k (add-remove) or 2k (replace,
label), Δ₂² = k² or 2k². A row that has no class (a value is missing) is counted nowhere, which moves a count by no more.
Proof: ``docs/proofs/confirm.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.values import ValueReading, Values
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import priced_counts, sensitivity_for
from dipsmith.privacy.events import Measured
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import NamedCounts


class Classifier(Protocol):
    """What puts a row in a class. Made of public facts alone; arithmetic on a row's own values."""

    @property
    def name(self) -> str:
        """What is counted, for the ledger."""

    @property
    def size(self) -> int:
        """The number of classes."""

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""

    def __call__(self, rows: Values) -> Ints:
        """The class of each row: 0 … size − 1, or −1 for none."""


@dataclass(frozen=True, eq=False)
class Classification:
    """The numbers of rows in each class: a question to the values of rows."""

    classifier: Classifier

    @property
    def cells(self) -> NamedCounts:
        """What is counted."""
        return NamedCounts(self.classifier.reading.schema, self.classifier.name, self.classifier.size)

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise of a histogram for a price."""
        return priced_counts(self.cells, sensitivity_for(relation, max_rows, budget), budget, block)

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact numbers."""
        found = np.zeros(self.classifier.size, np.int64)
        for values, _ in rows.values(self.classifier.reading):
            with np.errstate(all="ignore"):
                classes = self.classifier(values)
            found += np.bincount(classes[classes >= 0], minlength=self.classifier.size)
        return found
