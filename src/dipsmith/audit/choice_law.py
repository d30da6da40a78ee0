"""How likely each candidate of a choice is, from the definition alone.

Whoever checks a mechanism by the mechanism's own formulas checks nothing. This is written anew from
``docs/proofs/selection.md`` in exact fractions and decimals of stated precision; nothing is imported that the curator
draws or charges by.

Scores are rounded to q = ⌊f/g + ½⌋ steps of g, the largest power of two up to Δ/1024. A neighbour moves them within
an interval of R = 2(D+1) steps, D = ⌈Δ/g⌉, or D+2 if all move one way. At the rate η = ε/R a candidate has the weight
h = exp(−η(q* − q)). The exponential mechanism takes it with probability h/Σh. Permute-and-flip goes through the
candidates in random order and takes each with probability h: with the s others that came before it having failed,
P = h·Σ_s (−1)^s e_s/(s+1), where e_s is the elementary symmetric polynomial of the others' weights (by inclusion and
exclusion over who came before).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import floor, inf, isnan


def choice_probabilities(
    scores: Sequence[float], sensitivity: Fraction, epsilon: Fraction, *, monotone: bool, law: str, digits: int = 40
) -> list[Decimal]:
    """The probability of each candidate, by the definition of the law.

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
    if isnan(score) or score == -inf:
        return -most
    if score == inf:
        return most
    return max(-most, min(most, floor(Fraction(score) / grid + Fraction(1, 2))))
