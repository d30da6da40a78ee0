"""What a tiny δ would buy: the noise of the same plan under pure ε, and under (ε, δ).

Under pure ε the noise of L tables of equal share grows with L, under (ε, δ) with √L: from some twenty tables on the
same ε tells more with a δ, which bounds the chance that the promise fails at all. On Adult at δ = 10⁻⁹ AIM errs by 20 to
36 % more without it (``docs/decisions/0006-own-inference.md``). Made from the two plans: public facts only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

from dipsmith.errors import BudgetError, UsageError
from dipsmith.methods.method import Planned
from dipsmith.privacy.budget import ZCDP, Budget, PureDP

DELTA = 1e-9

WORTH_SAYING = 0.9
"""A δ is offered where it takes a tenth of the noise away."""


@dataclass(frozen=True)
class DeltaOffer:
    """By how much the noise on a count changes, were the same ε spent with a δ; as a geometric mean over tables."""

    epsilon: float
    delta: float
    noise: float

    @property
    def sentence(self) -> str:
        """The offer in words."""
        if self.noise <= WORTH_SAYING:
            return (
                f"With δ = {self.delta:g} beside ε = {self.epsilon:g} (--delta {self.delta:g}) the noise on a count would be "
                f"{1 - self.noise:.0%} smaller: pure ε costs {1 / self.noise - 1:.0%} more noise here."
            )
        more = "as large" if self.noise < 1.1 else f"{self.noise - 1:.0%} larger"
        return f"A δ would buy nothing here: with δ = {self.delta:g} the noise on a count would be {more}."


def offer_delta(
    budget: Budget, steps: Sequence[Planned], plan: Callable[[Budget], Sequence[Planned]]
) -> DeltaOffer | None:
    """What δ = 1e-9 would buy beside a pure ε whose plan are `steps`; None where a δ is given, or no noise planned."""
    if not isinstance(budget, PureDP):
        return None
    try:
        with_delta = ZCDP.from_approx(budget.exact, DELTA)
        pure, gaussian = _noise(steps), _noise(plan(with_delta))
    except (BudgetError, UsageError):
        return None  # too small a budget for so many parts, or for a public table that cost a pure ε
    if pure is None or gaussian is None:
        return None
    return DeltaOffer(budget.epsilon, DELTA, exp(gaussian - pure))


def _noise(steps: Sequence[Planned]) -> float | None:
    """The mean logarithm of the noise on a count, every table by its share of the budget."""
    tables = [(s.budget.units, s.sd) for s in steps if s.sd]
    return sum(units * log(sd) for units, sd in tables) / sum(units for units, _ in tables) if tables else None
