"""How much ε a wanted precision costs, from public facts only.

The precision is the total width of a 90 % interval: under `label` of the synthetic share of a label in a
typical leaf or cell (`label_width`), otherwise of the noise on every share in all 1- and 2-way marginals
whose noise is known (`expected_error`). Noise shrinks in proportion to ε, or to √ρ, but for the shares of
stages, which may depend on it a little; so the budget is found by scaling, again and again, until the
plan made with it reaches the width.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10
from statistics import NormalDist

from dipsmith.errors import UsageError
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
