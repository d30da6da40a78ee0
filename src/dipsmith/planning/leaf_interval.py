"""Intervals for the synthetic share of a label in a leaf, and what they need: records, ε or width.

The exact law is `LeafLaw`. Three intervals that hold 1 − α of it:

- `sym`, as in the reports of the synthetic data project of Duke University (2018, 2019): grow x0 ± δ around
  x0 = round(m·p0), cut at 0 and m, until it holds at least 1 − α;
- `interp`: the same with δ interpolated linearly, so that it holds 1 − α;
- `equal`: from the α/2 to the 1 − α/2 quantile.

Each is a prediction interval for the synthetic share given the authentic one, **not** a confidence
interval for the authentic share. Any two of records, λ and width give the third, by bisection on the
exact width of the interpolated interval, started at the normal approximation

    width/2 = h,  h² = z²·(p0·q0/n + 2/(λn)²),  n = [z²p0q0 + √(z⁴p0²q0² + 8h²z²/λ²)] / (2h²).

How to use it for a leaf: n is the number of authentic records *in the leaf* (a threshold for splitting
bounds it from no side), m the number that will be labelled, λ = ε/Δ of one tree, with Δ = 2 under
`replace` and `label`, 1 under `add-remove` and for one count of two labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.planning.law import LARGEST, LeafLaw, NoiseLaw

Kind = Literal["sym", "interp", "equal"]

LEAST_LAM: Final = 1e-9
MOST_LAM: Final = 1e6
"""With λ = 10⁶ noise is absent: what is left of the width is drawing."""


@dataclass(frozen=True)
class LeafInterval:
    """An interval that holds `level` of the synthetic shares of a label; its ends are shares."""

    lo: float
    hi: float
    n: int  # authentic records in the leaf
    lam: float  # ε/Δ of the noise on the count
    p0: float  # the authentic share
    level: float
    m: int  # synthetic records drawn from the leaf
    kind: Kind
    law: NoiseLaw

    @property
    def width(self) -> float:
        """From end to end."""
        return self.hi - self.lo

    def to_dict(self) -> dict[str, Any]:
        """The interval as JSON-able values."""
        return {**asdict(self), "width": self.width}


def interval(
    p0: float,
    lam: float,
    n: int,
    *,
    m: int | None = None,
    kind: Kind = "sym",
    noise: NoiseLaw = "continuous",
    level: float = 0.9,
) -> LeafInterval:
    """The interval of the synthetic share of a label whose authentic share is p0.

    >>> found = interval(0.25, 0.4, 1000)
    >>> found.lo, found.hi
    (0.227, 0.273)
    """
    drawn = n if m is None else m
    [(lo, hi)] = intervals(p0, [lam], n, m=drawn, kind=kind, noise=noise, level=level)
    return LeafInterval(float(lo), float(hi), n, lam, p0, level, drawn, kind, noise)


def intervals(
    p0: float,
    lams: Sequence[float],
    n: int,
    *,
    m: int | None = None,
    kind: Kind = "sym",
    noise: NoiseLaw = "continuous",
    level: float = 0.9,
) -> Floats:
    """The intervals for several λ at once: one row (lo, hi) for each."""
    if not 0 < level < 1:
        raise UsageError(f"level is {level}, expected a probability between 0 and 1")
    if kind not in get_args(Kind):
        raise UsageError(f"kind is '{kind}', expected one of: {', '.join(get_args(Kind))}")
    drawn = n if m is None else m
    law = LeafLaw(p0, n, drawn, noise)
    ends = _ends(law.counts(np.asarray(lams, dtype=np.float64)), round(drawn * p0), kind, level)
    return np.asarray(ends / drawn)


def rows_for_width(
    width: float, p0: float, lam: float, *, m: int | None = None, noise: NoiseLaw = "continuous", level: float = 0.9
) -> int:
    """The least n at which the interpolated interval is no wider than `width`.

    `m` records are drawn, n of them when omitted. Because n·p0 is rounded the width ripples, for small p0
    over some tens of records: with n − 1 records it is wider than asked, yet a few more than n may
    be slightly too few again. Brackets are powers of two, so that the answer does not depend on the start.

    >>> rows_for_width(0.05, 0.25, 0.4), rows_for_width(0.05, 0.0, 0.4)
    (836, 77)
    """
    _check_width(width)

    def wide(n: int) -> bool:
        return interval(p0, lam, n, m=m, kind="interp", noise=noise, level=level).width > width

    least = 0.0 if m is None else interval(p0, MOST_LAM, LARGEST, m=m, kind="interp", level=level).width
    if least > width:
        raise UsageError(f"{m:,} draws alone make the interval {least:.3g} wide, more than {width}: draw more records")
    start = normal_rows(width, p0, lam, level)
    high = min(1 << max(start - 1, 1).bit_length(), 1 << (LARGEST.bit_length() - 1))
    while wide(high):
        if high >= LARGEST // 2:
            raise UsageError(f"a width of {width} needs more than {high:,} records; allow more width or more ε")
        high *= 2
    while high > 1 and not wide(high // 2):
        high //= 2
    return bisect_left(range(high), True, lo=high // 2 + 1, key=lambda n: not wide(n))


@lru_cache(maxsize=1024)
def lam_for_width(
    width: float, p0: float, n: int, *, m: int | None = None, noise: NoiseLaw = "continuous", level: float = 0.9
) -> float:
    """The least λ = ε/Δ, to five digits, at which the interpolated interval is no wider than `width`.

    >>> round(lam_for_width(0.05, 0.25, 836), 2)
    0.4
    """
    _check_width(width)

    def wide(lam: float) -> bool:
        return interval(p0, lam, n, m=m, kind="interp", noise=noise, level=level).width > width

    least = interval(p0, MOST_LAM, n, m=m, kind="interp", noise=noise, level=level).width
    if least > width:
        raise UsageError(
            f"drawing {n if m is None else m:,} labels alone makes the interval {least:.3g} wide, more than {width}: "
            "no ε is enough; allow more width or use leaves with more records"
        )
    if not wide(LEAST_LAM):
        return LEAST_LAM
    low, high = log(LEAST_LAM), log(MOST_LAM)
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if wide(exp(middle)) else (low, middle)
    return exp(high)


def normal_rows(width: float, p0: float, lam: float, level: float = 0.9) -> int:
    """The normal approximation of `rows_for_width`: conservative, and useless near p0 = 0.

    >>> normal_rows(0.05, 0.25, 0.4)
    874
    """
    z, h, pq = NormalDist().inv_cdf((1 + level) / 2), width / 2, p0 * (1 - p0)
    found = (z**2 * pq + sqrt(z**4 * pq**2 + 8 * h**2 * z**2 / lam**2)) / (2 * h**2)
    return ceil(min(found, float(LARGEST)))


def _check_width(width: float) -> None:
    if not 0 < width < 1:
        raise UsageError(f"width is {width}, expected a number between 0 and 1")


def _ends(law: Floats, x0: int, kind: Kind, level: float) -> Floats:
    """The ends of every row's interval, in records."""
    m = law.shape[1] - 1
    below: Floats = np.concatenate([np.zeros((len(law), 1)), np.cumsum(law, axis=1)], axis=1)
    if kind == "equal":
        tail = (1 - level) / 2
        lo, hi = (_first(below[:, 1:] >= share - 1e-12) for share in (tail, 1 - tail))
        return np.stack([lo, hi], axis=1).astype(np.float64)
    delta = np.arange(m + 1)
    mass: Floats = below[:, np.minimum(m, x0 + delta) + 1] - below[:, np.maximum(0, x0 - delta)]
    grown = _first(mass >= level).astype(np.float64)
    if kind == "interp":
        at = grown.astype(np.int64)
        rows = np.arange(len(law))
        short, full = mass[rows, np.maximum(at - 1, 0)], mass[rows, at]
        grown -= np.where(at > 0, (full - level) / np.where(at > 0, full - short, 1.0), 0.0)
    return np.stack([np.maximum(0.0, x0 - grown), np.minimum(float(m), x0 + grown)], axis=1)


def _first(reached: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first place of every row that is true, the last place if none is."""
    return np.asarray(np.where(reached.any(axis=1), reached.argmax(axis=1), reached.shape[1] - 1))
