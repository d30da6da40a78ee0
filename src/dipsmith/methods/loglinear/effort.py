"""What a log-linear fit will take, from public facts: passes over the distinct rows, matrices, and what is read at last.

Counts of elementary operations, times constants that ``benchmarks/planning.py`` measured on one core of a 2-core
virtual machine of 2024. How many steps a fit takes depends on the noise; the counts are those of typical fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dipsmith.methods.loglinear.penalty import EXACT
from dipsmith.methods.loglinear.solver import THINNED, TOGETHER, divide
from dipsmith.methods.outlook import Effort

PASSES, PASSES_AGAIN = 9, 4
"""Passes over the rows in a first fit, and in one that starts from a smaller model's."""
BUILDS, BUILDS_AGAIN = 2, 1
"""How often the information is computed in these."""
CHOICES, CHOICES_AGAIN = 10, 6
"""Rounds of choosing penalties in these."""
TURNS: Final = 5
"""Passes over all rows where the steps go through some of them."""
ENTRY_SECONDS: Final = 6.6e-10
"""For each row, term and label of a pass."""
LABEL_SECONDS: Final = 5.5e-09
"""For each row and label of a pass: its exponential, its share."""
PAIR_SECONDS: Final = 6e-10
"""For each row, pair of terms and covariance of labels that is added up."""
CUBE_SECONDS: Final = 2.3e-11
"""For each number of a matrix's side to the power of three, inverted."""
TERM_SECONDS: Final = 0.00033
"""For each term in a round of choosing penalties."""
ROW_SECONDS: Final = 9.3e-08
"""For each row and column: finding the distinct rows, and the cells that they lie in."""
CANDIDATE_SECONDS, CANDIDATE_ROW_SECONDS = 4e-4, 8e-9
"""For each candidate in a round, and for each of its rows: its table, expected and counted."""
ENTRY_BYTES, MATRIX_BYTES = 12.0, 45.0


@dataclass(frozen=True)
class FitSize:
    """How large a fit is: distinct rows, cells and effects of every term, joint labels.

    `alike` says whether all terms have the same targets. In each of the `rounds` one of so many `candidates` is
    added, which has `candidate_cells`.
    """

    rows: int
    labels: int
    cells: tuple[int, ...]
    effects: tuple[int, ...]
    alike: bool = True
    rounds: int = 0
    candidates: int = 0
    candidate_cells: int = 0

    @property
    def effort(self) -> Effort:
        """Seconds and bytes of all rounds, reading included."""
        seconds = self._seconds(PASSES, BUILDS, CHOICES) + ROW_SECONDS * self.rows * len(self.cells)
        size = self
        for _ in range(self.rounds):
            size = size._next_size()
            seconds += self.candidates * (CANDIDATE_SECONDS + self.rows * CANDIDATE_ROW_SECONDS)
            seconds += size._seconds(PASSES_AGAIN, BUILDS_AGAIN, CHOICES_AGAIN)
        side = size._side
        seconds += size._full_build() + 2 * _cube(side)
        memory = size.rows * (len(size.cells) + size.labels) * ENTRY_BYTES + side**2 * MATRIX_BYTES
        return Effort(seconds, memory)

    @property
    def _side(self) -> int:
        """Effects with one matrix over all of them."""
        together, _ = divide(self.effects)
        return sum(self.effects[c] for c in together)

    def _next_size(self) -> FitSize:
        k = max(1, round(sum(self.effects) / max(sum(self.cells), 1)))
        return replace(
            self, cells=(*self.cells, self.candidate_cells), effects=(*self.effects, k * self.candidate_cells)
        )

    def _seconds(self, passes: int, builds: int, choices: int) -> float:
        walked, terms = min(self.rows, THINNED), len(self.cells)
        extra = TURNS * self.rows if self.rows > walked else 0
        whole = (passes * walked + extra) * self.labels * (ENTRY_SECONDS * terms + LABEL_SECONDS)
        # Precisions and prior covariances of every term, in each round.
        whole += choices * (terms * TERM_SECONDS + sum(_cube(self.cells[c]) for c in divide(self.effects)[0]))
        k, cells = max(1, self.labels - 1), sum(self.cells)
        if self.alike and sum(self.effects) > EXACT and k * cells**2 <= TOGETHER**2:
            build = PAIR_SECONDS * walked * terms**2 / 2 * k
            return whole + builds * build + (choices + builds) * k * _cube(cells)
        return whole + (builds + 1) * self._full_build() + (choices + builds) * _cube(self._side)

    def _full_build(self) -> float:
        k = max(1, self.labels - 1) if self.alike else round(sum(self.effects) / max(sum(self.cells), 1))
        return PAIR_SECONDS * min(self.rows, THINNED) * len(self.cells) ** 2 / 2 * k * (k + 1) / 2


def _cube(side: int) -> float:
    return CUBE_SECONDS * float(side) ** 3
