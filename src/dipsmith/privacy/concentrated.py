"""Zero-concentrated DP as it was charged until version 0.1: what a ρ of that time implies.

ρ-zCDP implies (ε, δ)-DP for every order α > 1 with (Canonne, Kamath and Steinke 2020, Proposition 12)

    δ = exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α.

Every α gives a valid statement, so that the search for the best one may be approximate.
"""

from __future__ import annotations

import math


def concentrated_to_approx(rho: float, delta: float) -> float:
    """An ε, rounded up in its tenth digit, such that ρ-zCDP implies (ε, δ)-differential privacy.

    >>> concentrated_to_approx(0.01498, 1e-9) > 1 > concentrated_to_approx(0.01496, 1e-9)
    True
    """

    def epsilon(t: float) -> float:
        """ε at the order α = 1 + exp(t)."""
        log_order = math.log1p(math.exp(t))
        return (1 + math.exp(t)) * rho + t - log_order + (-math.log(delta) - log_order) / math.exp(t)

    # log δ is convex in α, hence ε(α) at fixed δ has one valley.
    low, high, ratio = -40.0, 40.0, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if epsilon(a) <= epsilon(b) else (a, high)
    return max(epsilon((low + high) / 2) * (1 + 1e-10), 0.0)
