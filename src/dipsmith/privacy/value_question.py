"""Questions to the values of rows, answered by the curator's `ask`: totals of a weight, growth, a classification, a poll.

A question is a frozen value made of public facts. It says how far one unit moves its counts, and is priced by that; what it
counts is for the curator's eyes only.

*Weighted totals*: the survey weight added up over the cells of a table. Weights are clipped to their public bounds and
rounded to whole steps, each by itself, so that one row adds between 0 and W to one total. One unit of at most k rows
moves the totals by Δ₁ = kW (add-remove) or 2kW (replace), Δ₂² = k²W² or 2k²W². Of members of households k is the number
of members that count, or 1 where the unit is a person. Proof: ``docs/proofs/weight-totals.md``.

*Growth* of a number within the units of a panel: bounded sums over units. Whatever the rows of a unit say, it adds
at most W steps to the one sum and 2W up or down to the other. So one unit moves both by Δ₁ = 3W, Δ₂² = 5W² (add-remove)
or Δ₁ = 5W, Δ₂² = 17W² (replace), however many rows it has. To the spread of growth, one sum of squares, it adds 0 to W:
Δ₁ = W, Δ₂² = W². Proof: ``docs/proofs/growth.md``.

*Classification*: predictions within a tolerance, residuals, scores. A model that was fitted on a release is public, and
so is the class that it puts any possible row in. The classes are a data-independent partition of rows, and their counts
have the sensitivity of a histogram: Δ₁ = k (add-remove) or 2k (replace, label), Δ₂² = k² or 2k². A row that has no
class (a value is missing) is counted nowhere, which moves a count by no more. Proof: ``docs/proofs/confirm.md``.

*A poll*: a question asked of many disjoint parts of the rows, of which only noisy counts of answers are released. Units
are divided at random into M parts (`dipsmith.counting.parts`). In every part a *vote* is computed from that part's rows
alone: a regression, say, and whether its coefficient is below 0. A part that cannot say (no rows, a singular design,
any failure) answers by a fixed rule: the part's number decides, so that parts that all fail split evenly.

One unit changes the rows of one part (`add-remove`, `label`), or of two (`replace`), and so as many votes. Of K possible
answers K − 1 counts are released, the middle one of three being the rest: a changed vote moves one of them by 1 (K = 2), or
two by 1 each (K = 3). This holds whatever a vote computes, for it sees nothing but its part. Proof:
``docs/proofs/confirm.md``.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.parts import divide
from dipsmith.counting.steps import StepRows
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import price_counts, price_table, sensitivity_for
from dipsmith.privacy.events import Measured, labels_of_block
from dipsmith.privacy.neighbours import check_relation
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Cells, Codes, Schema, WeightTotals
from dipsmith.schema.growth import WHOLE, GrowthSums
from dipsmith.schema.steps import ARRIVAL, FIRST, step_schema


class ValueQuestion(Protocol):
    """A question to the values of all rows."""

    @property
    def cells(self) -> Cells:
        """What is counted: its name, and how many numbers there are."""

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise that the counts are given for a price, and the event of it; refuses what it has no proof for."""

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact counts. Nothing else that can be seen may depend on the rows."""


@dataclass(frozen=True, eq=False)
class NamedCounts:
    """So many counts under one name, which are no partition of rows by their codes."""

    schema: Schema
    key: str
    size: int
    attributes: ClassVar[tuple[str, ...]] = ()

    def index(self, codes: Codes) -> Ints:
        """Refuse: codes alone do not say where a row is counted."""
        raise UnsupportedError(f"{self.key} is no partition of rows")

    def possible(self) -> None:
        """All numbers are possible."""

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """It does not factor."""
        return None, self


@dataclass(frozen=True, eq=False)
class WeightQuestion:
    """Totals of the survey weight: a question to the values of rows."""

    cells: WeightTotals

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price, by the largest weight that the schema allows."""
        if relation == "label":
            raise UnsupportedError("weighted totals are of whole rows: under label a weight is public")
        k = max(max_rows, self.cells.schema.priced_rows)
        return price_table(relation, k, self.cells, budget, False, block)

    def count(self, rows: Rows, stream: Stream) -> NDArray[np.int64]:
        """The exact totals, in whole steps."""
        cells = self.cells
        reading = ValueReading(cells.schema, numbers=(cells.weight,), codes=cells.attributes)
        found = np.zeros(cells.size, np.int64)
        for values, _ in rows.values(reading):
            codes = Codes.of(cells.schema, {n: values.levels[n] for n in cells.attributes}, values.rows)
            found += cells.add_up(cells.index(codes), values.numbers[cells.weight])
        return found


@dataclass(frozen=True, eq=False)
class GrowthQuestion:
    """The sums behind the growth of one column: a question to all steps of a panel."""

    cells: GrowthSums

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price, by how much a unit can add."""
        if relation not in self.cells.reach:
            raise UnsupportedError(f"growth within units has no proof under {relation}; use add-remove or replace")
        if labels_of_block(block):  # where a unit's first step may be missing, two units would be taken for one
            raise UnsupportedError("growth is asked of all steps of a panel, not of some of them")
        reach = self.cells.reach[relation]
        moved = sum(reach) * WHOLE if isinstance(budget, PureDP) else sum(r * r for r in reach) * WHOLE**2
        return price_counts(self.cells, Fraction(moved), budget, block)

    def count(self, rows: Rows, stream: Stream) -> NDArray[np.int64]:
        """The exact sums, in whole steps."""
        if rows.schema.names != step_schema(self.cells.schema).names:
            raise UnsupportedError("growth is asked of all steps of a panel")
        steps: Codes = cast("StepRows", rows).codes
        return self.cells.add_up(np.cumsum(steps[ARRIVAL] == FIRST) - 1, steps)


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

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise of a histogram for a price."""
        return price_counts(self.cells, sensitivity_for(relation, max_rows, budget), budget, block)

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact numbers."""
        found = np.zeros(self.classifier.size, np.int64)
        for values, _ in rows.values(self.classifier.reading):
            with np.errstate(all="ignore"):
                classes = self.classifier(values)
            found += np.bincount(classes[classes >= 0], minlength=self.classifier.size)
        return found


FEWEST_PARTS: Final = 5
MOST_PARTS: Final = 1000
ANSWERS: Final = (2, 3)
"""Yes or no; or below, within and above."""


class Vote(Protocol):
    """What every part is asked. Made of public facts alone."""

    @property
    def name(self) -> str:
        """The question, for the ledger."""

    @property
    def answers(self) -> int:
        """How many answers there are: 2 (no, yes) or 3 (below, within, above)."""

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""

    def __call__(self, part: Values) -> int | None:
        """The answer of a part: 0 … answers − 1, or None where it cannot say."""


@dataclass(frozen=True, eq=False)
class Poll:
    """A vote of so many parts: a question to the values of rows."""

    vote: Vote
    parts: int

    def __post_init__(self) -> None:
        if not FEWEST_PARTS <= self.parts <= MOST_PARTS:
            raise UsageError(f"a poll of {self.parts} parts: expected {FEWEST_PARTS} to {MOST_PARTS}")
        if self.vote.answers not in ANSWERS:
            raise UsageError(f"a vote has 2 or 3 answers, got {self.vote.answers}")

    @property
    def cells(self) -> NamedCounts:
        """The numbers of parts that gave each reported answer: yes; or below and above."""
        name = f"poll of {self.parts} parts: {self.vote.name}"
        return NamedCounts(self.vote.reading.schema, name, self.vote.answers - 1)

    def price(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price; however many rows a unit has, they lie in one part."""
        if block:
            raise UnsupportedError("a poll is of all rows, not of a block of them")
        sensitivity = poll_sensitivity(relation, self.vote.answers, budget)
        return price_counts(self.cells, sensitivity, budget, block)

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact numbers, of parts made by a key that is drawn for this poll and forgotten."""
        return count_votes(rows, self.vote, self.parts, stream.new_seed("key"))


def poll_sensitivity(relation: str, answers: int, budget: Budget) -> Fraction:
    """How far one unit moves the released counts: Δ₁ where the price is an ε, Δ₂² where it is a ρ.

    A unit changes one vote, or two where it may leave a part and enter another; a changed vote moves `answers` − 1 numbers
    by 1. Two changed votes may move the same number.

    >>> [int(poll_sensitivity(r, 2, PureDP(1))) for r in ("add-remove", "label", "replace")]
    [1, 1, 2]
    """
    votes = 2 if check_relation(relation) == "replace" else 1
    if isinstance(budget, PureDP):
        return Fraction(votes * (answers - 1))
    return Fraction(votes * votes * (answers - 1))


def default_answer(part: int, answers: int) -> int:
    """What a part says that cannot: by its number, the two ends in turn, so that a poll of such parts is undecided."""
    return (answers - 1) * (part % 2)


def count_votes(rows: Rows, vote: Vote, number_of_parts: int, key: bytes) -> Ints:
    """The exact numbers of parts that gave each reported answer.

    Privacy
    -------
    Private. Nothing but the result depends on rows: a vote that fails in any way is a default answer, without a word.
    """
    parts = divide(rows, vote.reading, key, number_of_parts)
    found = np.zeros(vote.answers, np.int64)
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        warnings.simplefilter("ignore")
        for number, answer in enumerate(workers.map(partial(_cast, vote), parts)):
            found[default_answer(number, vote.answers) if answer is None else answer] += 1
    return found[1:] if vote.answers == 2 else found[[0, 2]]


def _cast(vote: Vote, part: Values) -> int | None:
    """The answer of one part; whatever goes wrong in it is no answer."""
    if not part.rows:
        return None
    try:
        with np.errstate(all="ignore"):
            answer = vote(part)
    except Exception:  # noqa: BLE001 - a failure that depends on rows must not be seen
        return None
    return answer if answer is not None and 0 <= answer < vote.answers else None
