"""How far one unit reaches and how likely noise is, from the definitions alone.

Whoever checks a mechanism by the mechanism's own formulas checks nothing. Everything here is written anew from the
proof notes (``docs/proofs/accounting.md``, ``noise.md``), in exact fractions and whole numbers; nothing is imported
that the curator draws or charges by. How likely a choice is stands in `dipsmith.audit.choice_law`.

*How far a unit reaches.* `reach` tries every row that the schema knows: where it lies in a partition, and where it can
lie in a neighbouring table. k rows of one unit move counts by at most k such moves, all of them alike at worst.

*How likely an answer is.* Discrete Laplace noise has P(x) ∝ exp(−abs(x)/b), discrete Gaussian noise
P(x) ∝ exp(−x²/(2σ²)). Both are summed term by term.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema import Cells, Codes, Schema, WeightedSums

Ints = NDArray[np.int64]

WIDE = 10_000
"""A scale of Laplace noise from which its sums are integrals, to one part in 10⁹."""


def reach(cells: Cells, relation: str, *, rows_vary: bool, noisy: Ints | None = None) -> int:
    """By how much one row can move the noisy counts of a partition: 0, 1 or 2, added up over cells.

    The squares add up to the same number. With k rows per unit Δ₁ is k times and Δ₂² is k² times as much. `rows_vary`
    says whether a unit may come back with more or fewer rows under `replace`; `noisy` are the cells that are noised
    and released, all of them when omitted.
    """
    rows = _every_row(cells.schema, _deciding(cells))
    place = np.where(rows.lawful(), cells.index(rows), -1)
    if noisy is not None:
        place = np.where(np.isin(place, noisy), place, -1)
    if relation == "add-remove":
        return int(np.any(place >= 0))
    together = _public_key(rows) if relation == "label" else np.zeros(len(rows), np.int64)
    # Where the rows of a group lie, each place once: -1 is nowhere.
    pairs = np.unique(np.stack([together, place]), axis=1)
    groups, counts = np.unique(pairs[0], return_counts=True)
    nowhere = np.isin(groups, pairs[0, pairs[1] < 0])
    seen = counts - nowhere
    away = nowhere | (rows_vary and relation == "replace")
    return int(np.where(seen > 1, 2, (seen == 1) & away).max(initial=0))


def moments(scale: Fraction, *, squared: bool) -> tuple[float, float]:
    """Variance and fourth moment of integer noise, summed term by term; `scale` is b, or σ² where `squared`.

    >>> [round(m, 4) for m in moments(Fraction(1), squared=False)]
    [1.8413, 22.1847]
    >>> [round(m) for m in moments(Fraction(100), squared=True)]
    [100, 30000]
    """
    if not squared and scale > WIDE:
        return 2 * float(scale) ** 2, 24 * float(scale) ** 4
    if squared and scale > WIDE**2:
        return float(scale), 3 * float(scale) ** 2
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


def _deciding(cells: Cells) -> tuple[str, ...]:
    """The columns that are tried: all of them; of weighted sums no further groups and weights, which are many."""
    schema = cells.schema
    if not isinstance(cells, WeightedSums):
        return schema.names
    kept = {*cells.groups, *schema.private, *(name for rule in schema.rules for name in rule.attributes)}
    return tuple(name for name in schema.names if name in kept)


@lru_cache(maxsize=8)
def _every_row(schema: Schema, tried: tuple[str, ...]) -> Codes:
    """Each row that the schema knows, once; columns that are not tried hold their first value."""
    sizes = [a.size if a.name in tried else 1 for a in schema]
    total = int(np.prod(sizes))
    places = np.unravel_index(np.arange(total), sizes)
    return Codes.of(schema, dict(zip(schema.names, places, strict=True)), total)


def _public_key(rows: Codes) -> Ints:
    key = np.zeros(len(rows), np.int64)
    for attribute in rows.schema:
        if attribute.role == "public":
            key = key * attribute.size + rows[attribute.name]
    return key
