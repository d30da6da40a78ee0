"""What the chapter asks of its synthetic rows, as metrics of a study; each beside the direct Laplace answer at the same ε.

The direct answer costs the whole ε for *one* question; a synthetic table answers all of them. Percent errors are
|synthetic − true| / true, as in the chapter; for the direct answer their expectation is used.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from dipsmith.utility.metric import Metric, MetricValue, SideBySide

WIDTHS = (1, 2, 5, 10, 20, 40, 60)
FIRST, LAST = 17, 91
LARGE = 100
"""Ranges with fewer people are left out: a percentage of next to nothing says nothing."""


def ages(c: SideBySide) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Authentic and synthetic ages, in the order of the rows (bins are single years from 0)."""
    synthetic = c.release.tables[0].column("age").to_numpy()
    return c.authentic["age"].astype(np.int64), synthetic.astype(np.int64)


def direct(c: SideBySide) -> float:
    """E|noise| of one count with the whole budget: discrete Laplace noise."""
    q = exp(-float(c.release.card.budget.exact))
    return 2 * q / (1 - q * q)


def count(values: NDArray[np.int64], low: int, high: int) -> int:
    """How many have low ≤ value < high."""
    return int(((values >= low) & (values < high)).sum())


def count_as_printed(synthetic: NDArray[np.int64], authentic: NDArray[np.int64], low: int, high: int) -> int:
    """The chapter's `range_query`: the upper bound is compared with the *authentic* row of the same index."""
    n = min(len(synthetic), len(authentic))
    return int(((synthetic[:n] >= low) & (authentic[:n] < high)).sum())


def range_percent(c: SideBySide) -> list[MetricValue]:
    """Mean percent error over all ranges of a width."""
    a, s = ages(c)
    sums = [np.concatenate([[0], np.cumsum(np.bincount(v, minlength=100)[:100])]) for v in (a, s)]
    found = []
    for width in WIDTHS:
        low = np.arange(FIRST, LAST - width + 1)
        true, made = (total[low + width] - total[low] for total in sums)
        kept = true >= LARGE
        if kept.any():
            error = float((np.abs(made - true)[kept] / true[kept]).mean())
            found.append(
                MetricValue("", 100 * error, 100 * direct(c) * float((1 / true[kept]).mean()), level=str(width))
            )
    return found


def _one_range(c: SideBySide, low: int, high: int) -> tuple[float, float]:
    a, s = ages(c)
    true = count(a, low, high)
    return 100 * abs(count(s, low, high) - true) / true, 100 * direct(c) / true


def range_20_65(c: SideBySide) -> tuple[float, float]:
    """People of 20 to 64."""
    return _one_range(c, 20, 65)


def range_20_30(c: SideBySide) -> tuple[float, float]:
    """People of 20 to 29."""
    return _one_range(c, 20, 30)


def range_20_30_bug(c: SideBySide) -> tuple[float, float]:
    """The same as printed. Rows of a release come in order of cells, those of the chapter in random order."""
    a, s = ages(c)
    shuffled = np.random.default_rng(0).permutation(s)
    true = count(a, 20, 30)
    return 100 * abs(count_as_printed(shuffled, a, 20, 30) - true) / true, 100 * direct(c) / true


def chapter_ages(c: SideBySide) -> NDArray[np.int64] | None:
    """Ages drawn by the chapter's own algorithm for two columns, at this ε; None for runs that ask for fewer.

    Noise on the cross-table of the rows that have an occupation, negative counts to 0, as many rows as there are people.
    """
    cliques = c.release.card.parameters.get("cliques")
    if isinstance(cliques, int | None) or len(cliques[0]) < 2:
        return None
    a, s = ages(c)
    jobs, missing = c.authentic["occupation"], c.authentic.schema["occupation"].size - 1
    kept = jobs != missing
    table = np.zeros((int(a.max()) + 1, missing))
    np.add.at(table, (a[kept], jobs[kept]), 1)
    table = table[table.sum(axis=1) > 0]  # levels as they occur, as `crosstab` finds them
    random = np.random.default_rng(int(s.sum()))  # another draw in every run, the same one when it is repeated
    noisy = np.maximum(table + random.laplace(0, 1 / float(c.release.card.budget.exact), table.shape), 0)
    drawn = random.choice(noisy.size, len(a), p=noisy.ravel() / noisy.sum())
    return np.asarray(np.unique(a[kept])[drawn // missing], dtype=np.int64)


def chapter_20_30(c: SideBySide) -> tuple[float, float]:
    """The chapter's own algorithm, counted correctly."""
    a, s = ages(c)[0], chapter_ages(c)
    true = count(a, 20, 30)
    return float("nan") if s is None else 100 * abs(count(s, 20, 30) - true) / true, 100 * direct(c) / true


def chapter_20_30_bug(c: SideBySide) -> tuple[float, float]:
    """The chapter's own algorithm, counted as printed."""
    a, s = ages(c)[0], chapter_ages(c)
    true = count(a, 20, 30)
    return float("nan") if s is None else 100 * abs(count_as_printed(s, a, 20, 30) - true) / true, 100 * direct(
        c
    ) / true


def mean_percent(c: SideBySide) -> tuple[float, float]:
    """Mean age; the direct answer divides a noisy sum of ages up to 99 by the known number of rows."""
    a, s = ages(c)
    true = float(a.mean())
    return 100 * abs(float(s.mean()) - true) / true, 100 * 99 * direct(c) / (len(a) * true)


def rows_percent(c: SideBySide) -> tuple[float, float]:
    """How many rows there are."""
    a, s = ages(c)
    return 100 * abs(len(s) - len(a)) / len(a), 100 * direct(c) / len(a)


def cells(c: SideBySide) -> tuple[float, float]:
    """Total variation distance of age × occupation, where both are there; by chance alone the reference."""
    from dipsmith.utility.marginal_error import marginal_error

    if len(c.pairs[0].names) < 2:
        return float("nan"), float("nan")
    found = marginal_error(c.tables[0], 2)
    return found.mean, found.floor


_DIRECT = "the direct Laplace answer to this one question"
METRICS = (
    Metric("range-percent", "percent error of range queries by width", "lower", range_percent, _DIRECT),
    Metric("range-20-65", "percent error, ages 20 to 64", "lower", range_20_65, _DIRECT),
    Metric("range-20-30", "percent error, ages 20 to 29", "lower", range_20_30, _DIRECT),
    Metric(
        "range-20-30-bug",
        "percent error, ages 20 to 29, as the chapter prints it",
        "lower",
        range_20_30_bug,
        _DIRECT,
    ),
    Metric(
        "chapter-20-30", "percent error, ages 20 to 29, by the chapter's algorithm", "lower", chapter_20_30, _DIRECT
    ),
    Metric(
        "chapter-20-30-bug",
        "percent error, ages 20 to 29, by the chapter's algorithm as it prints it",
        "lower",
        chapter_20_30_bug,
        _DIRECT,
    ),
    Metric("mean-percent", "percent error of the mean age", "lower", mean_percent, _DIRECT),
    Metric("rows-percent", "percent error of the number of rows", "lower", rows_percent, _DIRECT),
    Metric("cells", "total variation distance, age × occupation", "lower", cells, "what chance alone gives"),
)
MEASURES = {metric.name: metric for metric in METRICS}
