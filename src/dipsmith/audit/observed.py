"""What a watch sees of a curator: tables, choices and free answers, with the exact numbers behind them.

Privacy
-------
These hold exact counts of rows. They are for simulated tables and tests; nothing in a release uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.score import Score
from dipsmith.privacy.selection import Law
from dipsmith.schema import Cells

Ints = NDArray[np.int64]
NoiseLaw = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Counted:
    """A noisy table.

    Attributes
    ----------
    curator, cells, budget
        Who was asked, what, and what it was charged.
    true
        The counts that noise was added to.
    at
        Their positions in the table; for tables held block by block the occupied cells.
    laws, draws
        The noise that was drawn, and from which law.
    answer
        What was answered.
    """

    curator: Curator
    cells: Cells
    budget: Budget
    true: Ints
    at: Ints
    laws: tuple[NoiseLaw, ...]
    draws: Ints
    answer: Measurement


@dataclass(frozen=True, eq=False)
class Picked:
    """A choice: the exact scores, the law, and the index of the winner."""

    curator: Curator
    candidates: Sequence[Any]
    score: Score[Any]
    budget: Budget
    scores: NDArray[np.float64]
    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool
    law: Law
    winner: int


@dataclass(frozen=True, eq=False)
class Shown:
    """An answer that cost nothing."""

    curator: Curator
    what: str
    answer: Any


class Observer(Protocol):
    """Whoever watches; what a verb returns is what the method is told."""

    def counted(self, seen: Counted) -> Measurement:
        """A table was measured."""

    def picked(self, seen: Picked) -> int:
        """A candidate was chosen."""

    def shown(self, seen: Shown) -> None:
        """A free answer was given."""

    def random(self, what: str, drawn: Any) -> Any:
        """Randomness that reads no rows: "coins", "order", "key", "runs", and "run" at the start of each run."""
