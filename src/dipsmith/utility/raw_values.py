"""Values as they are: means, quantiles, zeros, frequent values, digits and hours of numbers and times, not by bins.

A release draws values within bins, so a comparison by bins certifies whatever happens inside them. Here the authentic values
themselves stand beside the released ones. CONFIDENTIAL, as everything of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.codec.parse import values_of
from dipsmith.report.content import Block, Cell
from dipsmith.schema import Bins
from dipsmith.utility.findings import Findings, table
from dipsmith.utility.metric import Chapter, SideBySide

QUANTILES = (0.05, 0.5, 0.95)
NOTICEABLE_MEAN = 0.1
"""A mean that moved by so many standard deviations is worth a sentence, and a share that moved by as much."""
NOTICEABLE_SHARE = 0.02
NOTICEABLE_QUANTILE = 0.25
"""A quantile that moved by so many standard deviations."""
NOTICEABLE_PATTERN = 0.1
"""Last digits, or hours of the day, of which so many would have to be others, and three times as many as by chance."""
DAY = 86_400_000_000


@dataclass(frozen=True)
class RawColumn:
    """One column in both tables: (authentic, synthetic) each. `frequent` is the authentic table's most frequent value."""

    column: str
    mean: tuple[float, float]
    deviation: float
    quantiles: tuple[tuple[float, float], ...]
    zeros: tuple[float, float]
    frequent: float
    frequent_share: tuple[float, float]
    pattern: tuple[float, float]
    """The distance of last digits (of whole numbers) or hours of the day (of moments), and what it is by chance."""

    @property
    def mean_shift(self) -> float:
        """By how many standard deviations the mean moved."""
        gap = abs(self.mean[1] - self.mean[0])
        return gap / self.deviation if self.deviation > 0 else (0.0 if gap == 0 else float("inf"))

    @property
    def share_moved(self) -> float:
        """By how much the share of the most frequent value, or of zeros, moved at most."""
        return max(abs(a - b) for a, b in (self.zeros, self.frequent_share))


def compare_values(authentic: pa.Table, synthetic: pa.Table, both: SideBySide) -> tuple[RawColumn, ...]:
    """Every column of numbers or times that was synthesised, the most moved first."""
    found = []
    for name in both.pairs[0].changed:
        domain = both.schema[name].domain
        if not isinstance(domain, Bins) or name not in authentic.column_names:
            continue
        left, right = (_numbers(table[name], domain) for table in (authentic, synthetic))
        if len(left) and len(right):
            found.append(_compare(name, left, right, domain))
    return tuple(sorted(found, key=lambda c: -max(c.mean_shift, c.share_moved / NOTICEABLE_SHARE * NOTICEABLE_MEAN)))


def _numbers(column: pa.ChunkedArray, domain: Bins) -> Floats:
    """The values that can be read; moments in days."""
    values, known = values_of(column.combine_chunks(), domain, beyond=DAY * 365_000)
    found = np.asarray(values, np.float64) if known is None else np.asarray(values, np.float64)[known]
    found = found[np.isfinite(found)]
    return found / DAY if domain.scale == "datetime" else found


def _compare(name: str, left: Floats, right: Floats, domain: Bins) -> RawColumn:
    values, counts = np.unique(left, return_counts=True)
    frequent = float(values[counts.argmax()])
    places = tuple((_shorten(np.quantile(left, q)), _shorten(np.quantile(right, q))) for q in QUANTILES)
    return RawColumn(
        name,
        (float(left.mean()), float(right.mean())),
        float(left.std()),
        places,
        (float((left == 0).mean()), float((right == 0).mean())),
        _shorten(frequent),
        (float((left == frequent).mean()), float((right == frequent).mean())),
        _pattern(left, right, domain),
    )


def _shorten(value: float) -> float:
    """Six digits of a value: enough to tell a spike, and no long number of somebody's to the last digit."""
    return float(f"{value:.6g}")


def _pattern(left: Floats, right: Floats, domain: Bins) -> tuple[float, float]:
    """Total variation distance of last digits, or of hours, and its expectation by chance; 0 where there are none."""
    if domain.scale not in ("integer", "datetime"):
        return 0.0, 0.0
    kinds = 10 if domain.scale == "integer" else 24
    shares = []
    for values in (left, right):
        at = np.abs(values) % 10 if domain.scale == "integer" else values % 1 * 24
        shares.append(np.bincount(at.astype(np.int64), minlength=kinds)[:kinds] / len(values))
    p = (shares[0] + shares[1]) / 2
    chance = np.sqrt(p * (1 - p) * (1 / len(left) + 1 / len(right)) * 2 / np.pi).sum() / 2
    return float(np.abs(shares[0] - shares[1]).sum() / 2), float(chance)


def find(both: SideBySide) -> dict[str, Any]:
    """What the chapter shows of a release; nothing where raw values were not read."""
    if both.raw is None:
        return {"raw_values": ()}
    return {"raw_values": compare_values(both.raw, both.release.tables[0], both)}


def blocks(found: Sequence[Findings]) -> Sequence[Block]:
    """The table, and what moved in words."""
    if not any(f["raw_values"] for f in found):
        return ()
    columns = (
        "column",
        "rows",
        "mean",
        "5 %",
        "median",
        "95 %",
        "share of 0",
        "frequent",
        "its share",
        "digits or hours",
    )
    words = [sentence for f in found for sentence in _sentences(f)]
    said = " ".join(words) or "No mean, quantile or frequent value moved noticeably."
    caption = "Values as they are; the most moved first"
    note = (
        "Frequent: the most frequent authentic value. Digits or hours: how many last digits of whole numbers, or hours of the day, "
        "would have to be others (total variation distance); above it, what chance alone would give."
    )
    return [said, table(caption, columns, found, lambda f: [row for c in f["raw_values"] for row in _rows(c)], note)]


def _rows(c: RawColumn) -> list[tuple[Cell, ...]]:
    """Authentic above synthetic."""
    patterned = any(c.pattern)
    return [
        (
            c.column,
            ("authentic", "synthetic")[i],
            c.mean[i],
            *(pair[i] for pair in c.quantiles),
            c.zeros[i],
            c.frequent,
            c.frequent_share[i],
            c.pattern[1 - i] if patterned else "",
        )
        for i in (0, 1)
    ]


def _sentences(found: Findings) -> list[str]:
    said = []
    for c in found["raw_values"]:
        near = c.deviation * NOTICEABLE_QUANTILE
        far = [(q, pair) for q, pair in zip(QUANTILES, c.quantiles, strict=True) if abs(pair[1] - pair[0]) > near > 0]
        if far:
            q, pair = max(far, key=lambda point: abs(point[1][1] - point[1][0]))
            said.append(
                f"{q:.0%} of the rows have {c.column} up to {pair[0]:,.6g}; of the synthetic ones, {pair[1]:,.6g}."
            )
        if c.pattern[0] > NOTICEABLE_PATTERN and c.pattern[0] > 3 * c.pattern[1]:
            said.append(
                f"The last digits, or hours, of {c.column} are others: {c.pattern[0]:.0%} would have to change."
            )
        if c.mean_shift > NOTICEABLE_MEAN:
            said.append(f"The mean of {c.column} moved from {c.mean[0]:,.6g} to {c.mean[1]:,.6g}.")
        if c.share_moved > NOTICEABLE_SHARE:
            value, pair = (
                (0.0, c.zeros) if abs(c.zeros[0] - c.zeros[1]) >= c.share_moved else (c.frequent, c.frequent_share)
            )
            said.append(
                f"{pair[0]:.0%} of the authentic rows have {c.column} = {value:,.6g}, {pair[1]:.0%} of the synthetic ones: "
                "give that value a bin of its own."
            )
    return said


def lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    """Lines of the summary: the column whose mean moved most, and the worst spike."""
    if not found["raw_values"]:
        return []
    mean = max(found["raw_values"], key=lambda c: c.mean_shift)
    share = max(found["raw_values"], key=lambda c: c.share_moved)
    return [
        (f"mean of {mean.column}: moved by so many standard deviations", mean.mean_shift, 0.0),
        (f"frequent value of {share.column}: its share moved by", share.share_moved, 0.0),
    ]


RAW_VALUES = Chapter("Values as they are", find, blocks, lines, place=1)
