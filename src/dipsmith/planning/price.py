"""What precision costs: the ε of a wanted width, and what a tiny δ beside it would buy; from public facts only.

The precision is the total width of a 90 % interval: under `label` of the synthetic share of a label in a
typical leaf or cell (`label_width`), otherwise of the noise on every share in all 1- and 2-way marginals
whose noise is known (`expected_error`). Noise shrinks in proportion to ε, or to √ρ, but for the shares of
stages, which may depend on it a little; so the budget is found by scaling, again and again, until the
plan made with it reaches the width.

A δ: under pure ε the noise of L tables of equal share grows with L, under (ε, δ) with √L: from some twenty tables on the
same ε tells more with a δ, which bounds the chance that the promise fails at all. On Adult at δ = 10⁻⁹ AIM errs by 20 to
36 % more without it (``docs/decisions/0006-own-inference.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, log, log10
from statistics import NormalDist

from dipsmith.errors import BudgetError, UsageError
from dipsmith.methods.method import Planned
from dipsmith.planning.expected_error import ExpectedError
from dipsmith.planning.label_width import LabelWidths
from dipsmith.planning.law import LARGEST
from dipsmith.planning.leaf_interval import lam_for_width
from dipsmith.privacy.budget import LARGEST as LARGEST_BUDGET
from dipsmith.privacy.budget import ZCDP, Budget, PureDP

ROUNDS = 40
"""Budgets that are tried at most; a handful is usual."""


def strain_of_labels(widths: tuple[LabelWidths, ...], width: float, p0: float, level: float) -> float:
    """By how much the noise must shrink for the typical leaves or cells to reach a width."""
    known = [(w, w.typical) for w in widths if w.labels > 1]
    if not known or any(typical is None for _, typical in known):
        raise UsageError("how large cells and leaves are is not known: give the FILE, of which public columns are read")
    worst = 0.0
    for found, typical in known:
        assert typical is not None
        n = min(typical[0], LARGEST)
        try:
            needed = lam_for_width(width, p0, n, noise=found.law, level=level)
        except UsageError:
            raise UsageError(
                f"'{found.what}' labels the median row from {n:,} rows, whose drawing alone makes a share uncertain by more than "
                f"{width}: no ε is enough; allow more width, or use larger leaves and cells (--set n_leaf=…, coarser bins)"
            ) from None
        worst = max(worst, needed / found.lam)
    return worst


def strain_of_marginals(errors: tuple[ExpectedError, ...], width: float, level: float) -> float:
    """By how much the noise must shrink for the noisiest marginal to reach a width."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    known = [e.share_sd for e in errors if e.share_sd is not None and e.how != "public"]
    if not known:
        raise UsageError("shares need the number of rows: give --rows (a public number, or a guess to plan with)")
    return 2 * z * max(known) / width


def solve(strain: Callable[[Budget], float], currency: str) -> Budget:
    """The least budget, to three digits, whose strain is at most 1.

    `strain` says by how much the noise of a budget must shrink; it falls as the budget grows.
    """
    made = PureDP if currency == "epsilon" else ZCDP
    power = 1.0 if currency == "epsilon" else 2.0
    amount, enough = 1.0, float("inf")
    for _ in range(ROUNDS):
        now = strain(made(_round_up(amount)))
        if now <= 1:
            enough = min(enough, amount)
            if now > 0.995 or amount <= 1e-9:
                break
        amount = min(max(amount * now**power * (1.0 if now <= 1 else 1.0005), 1e-9), enough)
        if amount > LARGEST_BUDGET / 10:
            raise UsageError("no budget is enough for this width; allow more, or use coarser bins")
    if enough == float("inf"):
        raise UsageError("no budget was found for this width; try another one, or another method")
    return made(_round_up(enough))


def _round_up(amount: float) -> str:
    """Three digits, rounded up, as a decimal."""
    digits = min(max(0, 2 - floor(log10(amount))), 12)
    scale = 10**digits
    return f"{ceil(amount * scale - 1e-9) / scale:.{digits}f}"


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
