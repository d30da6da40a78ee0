"""What noise and choices must be, from their definitions alone.

Whoever checks a mechanism by the mechanism's own formulas checks nothing. Everything here is written anew from the
proof notes (``docs/proofs/accounting.md``, ``noise.md``, ``selection.md``), in exact fractions, whole numbers and decimals of
stated precision; nothing is imported that the curator draws or charges by.

*How far a unit reaches.* `reach` tries every row that the schema knows: where it lies in a partition, and where it can
lie in a neighbouring table. k rows of one unit move counts by at most k such moves, all of them alike at worst.

*How likely an answer is.* Discrete Laplace noise has P(x) ∝ exp(−abs(x)/b), discrete Gaussian noise P(x) ∝ exp(−x²/(2σ²)). Both are
summed term by term here.

*How likely a choice is.* Scores are rounded to q = ⌊f/g + ½⌋ steps of g, the largest power of two up to Δ/1024. A neighbour moves them within
an interval of R = 2(D+1) steps, D = ⌈Δ/g⌉, or D+2 if all move one way. At the rate η = ε/R a candidate has the weight
h = exp(−η(q* − q)). The exponential mechanism takes it with probability h/Σh. Permute-and-flip goes through the candidates in random order and
takes each with probability h: with the s others that came before it having failed, P = h·Σ_s (−1)^s e_s/(s+1), where e_s is the
elementary symmetric polynomial of the others' weights (by inclusion and exclusion over who came before).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import floor

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema import Cells, Codes, Schema

Ints = NDArray[np.int64]

MOST_ROWS = 1 << 16
"""Different rows that are tried, at most: audits use small domains."""


def reach(cells: Cells, relation: str, *, rows_vary: bool, noisy: Ints | None = None) -> int:
    """By how much one row can move the noisy counts of a partition: 0, 1 or 2, added up over cells.

    The squares add up to the same number. With k rows per unit Δ₁ is k times and Δ₂² is k² times as much.

    Parameters
    ----------
    relation
        Which rows may take the place of which.
    rows_vary
        Whether a unit may come back with more or fewer rows under `replace`.
    noisy
        The cells that are noised and released; all of them when omitted.
    """
    rows = _every_row(cells.schema)
    place = np.where(rows.lawful(), cells.index(rows), -1)
    if noisy is not None:
        place = np.where(np.isin(place, noisy), place, -1)
    if relation == "add-remove":
        return int(np.any(place >= 0))
    together = _public_key(rows) if relation == "label" else np.zeros(len(rows), np.int64)
    furthest = 0
    for group in np.unique(together):
        places = {int(p) for p in place[together == group]}
        if rows_vary and relation == "replace":
            places.add(-1)
        seen = len(places - {-1})
        furthest = max(furthest, 2 if seen > 1 else int(seen == 1 and -1 in places))
    return furthest


def moments(scale: Fraction, *, squared: bool) -> tuple[float, float]:
    """Variance and fourth moment of integer noise, summed term by term: P(x) ∝ exp(−abs(x)/b) or exp(−x²/(2σ²)).

    Parameters
    ----------
    scale
        b, or σ² where `squared`.

    Examples
    --------
    >>> [round(m, 4) for m in moments(Fraction(1), squared=False)]
    [1.8413, 22.1847]
    """
    reach_of_sum = 60.0 * float(scale) + 60 if not squared else 14.0 * float(scale) ** 0.5 + 40
    x = np.arange(1, int(reach_of_sum), dtype=np.float64)
    weight = np.exp(-(x**2) / (2 * float(scale)) if squared else -x / float(scale))
    total = 1 + 2 * weight.sum()
    return float(2 * (x**2 * weight).sum() / total), float(2 * (x**4 * weight).sum() / total)


def log_ratio(
    scale: Fraction, answer: Sequence[int], one: Sequence[int], other: Sequence[int], *, squared: bool
) -> Fraction:
    """Log P(answer; one) − log P(answer; other) for counts with noise on each: the normalising sums cancel.

    >>> log_ratio(Fraction(1, 2), [5], [1], [0], squared=False)
    Fraction(2, 1)
    """
    told = Fraction(0)
    for y, a, b in zip(answer, one, other, strict=True):
        if squared:
            told += Fraction((int(y) - int(b)) ** 2 - (int(y) - int(a)) ** 2) / (2 * scale)
        else:
            told += Fraction(abs(int(y) - int(b)) - abs(int(y) - int(a))) / scale
    return told


def choice_probabilities(
    scores: Sequence[float],
    sensitivity: Fraction,
    epsilon: Fraction,
    *,
    monotone: bool,
    law: str,
    digits: int = 40,
) -> list[Decimal]:
    """The probability of each candidate, by the definition of the law.

    Examples
    --------
    >>> [round(float(p), 4) for p in choice_probabilities([0.0, 1.0], Fraction(1), Fraction(2), monotone=True, law="exponential")]
    [0.1196, 0.8804]
    >>> [round(float(p), 4) for p in choice_probabilities([0.0, 1.0], Fraction(1), Fraction(2), monotone=True, law="permute-and-flip")]
    [0.0679, 0.9321]
    """
    grid = Fraction(1)
    while grid > sensitivity / 1024:
        grid /= 2
    while 2 * grid <= sensitivity / 1024:
        grid *= 2
    steps = -(-sensitivity // grid)
    rate = epsilon / (steps + 2 if monotone else 2 * steps + 2)
    rounded = [_steps(score, grid) for score in scores]
    behind = [max(rounded) - q for q in rounded]
    # Inclusion and exclusion cancels about one digit for each candidate.
    with localcontext(Context(prec=digits + len(scores))):
        weights = [(-Decimal(b * rate.numerator) / Decimal(rate.denominator)).exp() for b in behind]
        if law == "exponential":
            return [w / sum(weights) for w in weights]
        return [w * _nobody_before(weights[:i] + weights[i + 1 :]) for i, w in enumerate(weights)]


def _nobody_before(others: Sequence[Decimal]) -> Decimal:
    """The probability that in a random order nobody who came before was taken: Σ_s (−1)^s e_s/(s+1)."""
    symmetric = [Decimal(1)]
    for weight in others:
        raised = [Decimal(0), *(weight * e for e in symmetric)]
        symmetric = [a + b for a, b in zip([*symmetric, Decimal(0)], raised, strict=True)]
    return sum((e / (s + 1) * (-1) ** s for s, e in enumerate(symmetric)), Decimal(0))


def _steps(score: float, grid: Fraction) -> int:
    """A score in whole steps, halves upwards, held within ±2⁶¹; what is no number is the lowest of all."""
    most = 1 << 61
    if score != score or score == -np.inf:
        return -most
    if score == np.inf:
        return most
    return max(-most, min(most, floor(Fraction(score) / grid + Fraction(1, 2))))


@lru_cache(maxsize=8)
def _rows_of(schema: Schema) -> Codes:
    sizes = [a.size for a in schema]
    if (total := int(np.prod(sizes, dtype=np.float64))) > MOST_ROWS:
        raise ValueError(f"{total:,} different rows are too many to try them all")
    places = np.unravel_index(np.arange(total), sizes)
    return Codes.of(schema, dict(zip(schema.names, places, strict=True)), total)


def _every_row(schema: Schema) -> Codes:
    """Each row that the schema knows, once."""
    return _rows_of(schema)


def _public_key(rows: Codes) -> Ints:
    key = np.zeros(len(rows), np.int64)
    for attribute in rows.schema:
        if attribute.role == "public":
            key = key * attribute.size + rows[attribute.name]
    return key
