"""Attackers who know everything but one unit, and guess which of two worlds a run was made from.

*White box*: sees every noisy table and choice, and knows the program. By the Neyman–Pearson lemma no attacker does
better than the likelihood ratio, and here it can be computed: the noise laws are known, and so are both tables.

*Black box*: sees synthetic rows alone. Counts the cells of the full table and learns, from training runs of both
worlds, the linear combination that tells them apart best (Fisher 1936).

*Optimal*: what the likelihood ratio would reach if every answer told as much as its price allows. A table is moved by its
whole sensitivity; a choice is randomised response at its ε, the most telling ε-DP mechanism there is. A white-box
attacker that reaches nearly as much shows that the audit is not loose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.audit.watch import Counted, NoiseLaw, Picked, Shown
from dipsmith.audit.worlds import TwinRows
from dipsmith.errors import UnsupportedError
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.selection import selection_probabilities
from dipsmith.schema import Codes

Floats = NDArray[np.float64]

Told = tuple[str, NoiseLaw | float, int]
"""An answer's kind, its law (or ε of a choice), and how many counts a unit moves by how much: cells, each by k."""


@dataclass
class Transcript:
    """Watches one run and adds up the log-likelihood ratio of its answers, the second world over the first."""

    ratio: float = 0.0
    told: list[Told] = field(default_factory=list)

    def counted(self, seen: Counted) -> Measurement:
        """A table: the ratio of the noise's probabilities at the two differences."""
        rows = seen.curator._rows
        assert isinstance(rows, TwinRows)
        if seen.answer.kept is not None:
            raise UnsupportedError("tables held block by block are not attacked here; use smaller worlds")
        first, second = (counts[seen.at] for counts in rows.both(seen.cells))
        if seen.laws:
            self.ratio += log_ratio(seen.laws[0], seen.answer.values[seen.at], first, second)
        moved = 1 if seen.curator.relation == "add-remove" or seen.answer.single else 2
        if seen.laws:
            self.told.append(("counts", seen.laws[0], moved))
        return seen.answer

    def picked(self, seen: Picked) -> int:
        """A choice: the ratio of the winner's probabilities."""
        rows = seen.curator._rows
        assert isinstance(rows, TwinRows)
        both = [[rows.both(table) for table in seen.score.tables(c)] for c in seen.candidates]
        chances = []
        for world in (0, 1):
            scores = [
                seen.score.value(c, [pair[world] for pair in tables])
                for c, tables in zip(seen.candidates, both, strict=True)
            ]
            chances.append(
                selection_probabilities(
                    np.array(scores),
                    seen.sensitivity,
                    seen.epsilon,
                    monotone=seen.monotone,
                    law=seen.law,
                    digits=20,
                )[seen.winner]
            )
        self.ratio += float(chances[1].ln() - chances[0].ln())
        if len(seen.candidates) > 1:
            self.told.append(("choice", float(seen.epsilon), 1))
        return seen.winner

    def shown(self, seen: Shown) -> None:
        """Free answers are the same in both worlds (record and replay sees to that)."""

    def random(self, what: str, drawn: Any) -> Any:
        """Coins tell nothing."""
        return drawn


def log_ratio(law: NoiseLaw, values: Any, first: Any, second: Any) -> float:
    """How much likelier the values are with the second counts than with the first.

    >>> from fractions import Fraction
    >>> log_ratio(DiscreteLaplace(Fraction(1, 2)), np.array([5]), np.array([0]), np.array([1]))
    2.0
    """
    one, other = values - first, values - second
    if isinstance(law, DiscreteLaplace):
        return float((np.abs(one) - np.abs(other)).sum() / law.scale)
    return float((one.astype(float) ** 2 - other.astype(float) ** 2).sum() / (2 * law.sigma2))


def optimal_ratios(lists: Sequence[Sequence[Told]], world: int, stream: Stream) -> Floats:
    """The log-likelihood ratios of an optimal attacker, one for each list of answers, in one of the worlds.

    Parameters
    ----------
    lists
        What each run was told, as transcripts record it.
    world
        0 or 1.
    stream
        Where the noise comes from.
    """
    ratios = np.zeros(len(lists))
    # Grouped by identity: hashing exact fractions takes longer than everything else here.
    places: dict[int, list[int]] = {}
    for i, told in enumerate(lists):
        places.setdefault(id(told), []).append(i)
    for where in places.values():
        told = lists[where[0]]
        for (kind, law, moved), often in Counter(told).items():
            n = len(where)
            if kind == "choice":
                assert isinstance(law, float)
                right = stream.integers(1 << 53, n * often).reshape(n, often) < (1 << 53) / (1 + exp(-law))
                signs = np.where(right, 1.0, -1.0) * (1 if world else -1)
                ratios[where] += (signs * law).sum(axis=1)
                continue
            assert not isinstance(law, float)
            noise = law.sample(stream, (n, often * moved)).astype(np.float64)
            # Every count is moved by one: it is 0 in the first world and 1 in the second.
            one, other = noise + world, noise + world - 1
            if isinstance(law, DiscreteLaplace):
                ratios[where] += (np.abs(one) - np.abs(other)).sum(axis=1) / float(law.scale)
            else:
                ratios[where] += (one**2 - other**2).sum(axis=1) / float(2 * law.sigma2)
    return ratios


def cell_counts(rows: Codes) -> Floats:
    """What the black-box attacker looks at: how many synthetic rows lie in each cell of the full table."""
    cell = np.zeros(len(rows), dtype=np.int64)
    for attribute in rows.schema:
        cell = cell * attribute.size + rows[attribute.name]
    return np.bincount(cell, minlength=rows.schema.size()).astype(np.float64)


def linear_scores(
    first: Floats, second: Floats, training: tuple[int, int], ridge: float = 1e-3
) -> tuple[Floats, Floats]:
    """Fisher's linear discriminant, learned from the first runs of both worlds and applied to all of them."""
    one, other = first[: training[0]], second[: training[1]]
    spread = (np.cov(one.T) + np.cov(other.T)) / 2
    scale = ridge * max(float(np.trace(spread)) / len(spread), 1e-9)
    weights = np.linalg.solve(spread + scale * np.eye(len(spread)), other.mean(axis=0) - one.mean(axis=0))
    return first @ weights, second @ weights
