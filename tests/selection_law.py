"""The formula of a private choice, which what `select` draws is compared with."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipsmith.privacy.selection import Law, round_to_grid, step_and_rate


def selection_probabilities(
    scores: NDArray[np.float64],
    sensitivity: Fraction,
    epsilon: Fraction,
    *,
    monotone: bool,
    law: Law,
    grid: Fraction | None = None,
    digits: int = 50,
) -> list[Decimal]:
    """Return the probability with which `select` returns each candidate, for small lists.

    Not used to draw anything: it is the formula that tests, audits and proofs compare with.

    >>> p = selection_probabilities(np.array([0.0, 2.0]), Fraction(1), Fraction(1), monotone=False,
    ...                             law="permute-and-flip", grid=Fraction(1))
    >>> [round(float(x), 6) for x in p]  # η = 1/4: exp(-1/2)/2 and the rest
    [0.303265, 0.696735]
    """
    step, rate = step_and_rate(sensitivity, epsilon, monotone=monotone, grid=grid)
    rounded = round_to_grid(scores, step)
    behind = [int(b) for b in rounded.max() - rounded]
    with localcontext(Context(prec=digits)):
        heads = [(Decimal(-b) * rate.numerator / rate.denominator).exp() for b in behind]
        if law == "exponential":
            return [h / sum(heads) for h in heads]
        return [h * _first_of_heads(heads[:i] + heads[i + 1 :]) for i, h in enumerate(heads)]


def _first_of_heads(others: list[Decimal]) -> Decimal:
    """Return E[1/(1+N)], N the number of heads among the other coins: ∫₀¹ Π(1 - p + p·t) dt."""
    product = [Decimal(1)]
    for p in others:
        raised = [Decimal(0), *(p * c for c in product)]
        product = [a + b for a, b in zip([*((1 - p) * c for c in product), Decimal(0)], raised, strict=True)]
    return sum((c / (power + 1) for power, c in enumerate(product)), Decimal(0))
