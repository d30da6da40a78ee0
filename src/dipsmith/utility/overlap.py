"""Confidence interval overlap: how much two intervals for the same quantity have in common.

Karr, Kohnen, Oganian, Reiter and Sanil (The American Statistician 60, 2006): with I the length of the
intersection, J = ½[I / (U_o − L_o) + I / (U_s − L_s)], and 0 where the intervals do not meet. 1 is equality.
An interval inside the other always scores at least ½ (a tiny one in a huge one: .500), so a wide, uninformative
interval looks fine: the ratio of the widths belongs beside it.
"""

from __future__ import annotations

Interval = tuple[float, float]


def overlap(original: Interval, synthetic: Interval) -> float:
    """Karr's J of two intervals.

    >>> overlap((0, 2), (1, 3)), overlap((0, 1), (2, 3)), overlap((0, 1), (0, 1))
    (0.5, 0.0, 1.0)
    >>> round(overlap((-1000, 1000), (-0.01, 0.01)), 3)
    0.5
    """
    common = min(original[1], synthetic[1]) - max(original[0], synthetic[0])
    if not common >= 0:
        return 0.0
    widths = [high - low for low, high in (original, synthetic)]
    if min(widths) == 0:
        # a point inside the other interval has all of itself in common with it
        return 1.0 if max(widths) == 0 else 0.5
    return 0.5 * (common / widths[0] + common / widths[1])


def covers(interval: Interval, value: float) -> bool:
    """Whether an interval contains a value."""
    return interval[0] <= value <= interval[1]


def width_ratio(original: Interval, synthetic: Interval) -> float:
    """How many times as wide the synthetic interval is."""
    width = original[1] - original[0]
    return (synthetic[1] - synthetic[0]) / width if width else float("nan")
