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
    round_share: tuple[float, float]
    """The share of values whose last digit (of whole numbers), or whose hour and minutes (of moments), are 0."""

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
        (_round(left, domain), _round(right, domain)),
    )


def _shorten(value: float) -> float:
    """Six digits of a value: enough to tell a spike, and no long number of somebody's to the last digit."""
    return float(f"{value:.6g}")


def _round(values: Floats, domain: Bins) -> float:
    if domain.scale == "datetime":
        return float((values % 1 == 0).mean())
    return float((values % (1 if domain.scale == "number" else 10) == 0).mean()) if domain.scale != "date" else 0.0


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
        "mean, authentic",
        "synthetic",
        "5 %",
        "",
        "median",
        "",
        "95 %",
        "",
        "zeros",
        "",
        "most frequent",
        "its share",
        "",
    )
    words = [sentence for f in found for sentence in _sentences(f)]
    said = " ".join(words) or "No mean and no frequent value moved noticeably."
    caption = "Values as they are, authentic before synthetic; the most moved first"
    return [said, table(caption, columns, found, lambda f: [_row(c) for c in f["raw_values"]])]


def _row(c: RawColumn) -> tuple[Cell, ...]:
    points = [value for pair in c.quantiles for value in pair]
    return (c.column, *c.mean, *points, *c.zeros, c.frequent, *c.frequent_share)


def _sentences(found: Findings) -> list[str]:
    said = []
    for c in found["raw_values"]:
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
