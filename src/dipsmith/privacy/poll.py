"""A poll: a question asked of many disjoint parts of the rows, of which only noisy counts of answers are released.

Units are divided at random into M parts (`dipsmith.counting.parts`). In every part a *vote* is computed from that part's
rows alone: a regression, say, and whether its coefficient is below 0. A part that cannot say (no rows, a singular design,
any failure) answers by a fixed rule: the part's number decides, so that parts that all fail split evenly.

Privacy
-------
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
from typing import Final, Protocol

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.parts import divide
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import priced_counts
from dipsmith.privacy.events import Measured
from dipsmith.privacy.neighbours import check_relation
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import NamedCounts

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

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price; however many rows a unit has, they lie in one part."""
        if block:
            raise UnsupportedError("a poll is of all rows, not of a block of them")
        sensitivity = poll_sensitivity(relation, self.vote.answers, budget)
        return priced_counts(self.cells, sensitivity, budget, block)

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
