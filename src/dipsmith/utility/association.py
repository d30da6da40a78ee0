"""Associations: Pearson's χ² test and Cramér's V of every pair of columns, in both tables.

Bowen, Liu and Su (2021, section 4) count how often the test of a pair is significant in both tables or in
neither. That *consistency* says little by itself: where most pairs are associated, calling everything significant
scores high, and the metric cannot see a strong association turned weak. So the scores of the two constant answers
stand beside it, with Cohen's κ (agreement beyond chance) and the rank correlation of Cramér's V, which no constant
answer can earn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.report.content import Block, Table
from dipsmith.utility.crosstabs import Crosstab, Crosstabs
from dipsmith.utility.findings import Findings, decimal, mean, table
from dipsmith.utility.metric import ONE_IS_PERFECT, Chapter, Metric, SideBySide

CUTS = (0.01, 0.05, 0.10)
CLASSES = ("≤ .01", ".01 – .05", ".05 – .1", "> .1")


@dataclass(frozen=True)
class PairTest:
    """The test of one pair of columns: statistic, degrees of freedom and p-value in each table, and Cramér's V."""

    names: tuple[str, str]
    statistic: tuple[float, float]
    freedom: tuple[int, int]
    p: tuple[float, float]
    v: tuple[float, float]


@dataclass(frozen=True)
class Consistency:
    """Agreement of the tests at one level, beside what constant answers would score."""

    level: float
    agreement: float
    nothing: float
    everything: float
    kappa: float


@dataclass(frozen=True)
class Associations:
    """The tests of all pairs with a synthesised column."""

    pairs: tuple[PairTest, ...]

    def consistency(self) -> list[Consistency]:
        """Agreement at 1, 5 and 10 %."""
        return [consistency([a.p[0] for a in self.pairs], [a.p[1] for a in self.pairs], at) for at in CUTS]

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of Cramér's V over the pairs."""
        return spearman([a.v[0] for a in self.pairs], [a.v[1] for a in self.pairs])

    def p_table(self) -> NDArray[np.int64]:
        """Pairs by class of the authentic (rows) and the synthetic p-value (columns)."""
        return p_table([a.p[0] for a in self.pairs], [a.p[1] for a in self.pairs])


def associations(crosstabs: Crosstabs) -> Associations:
    """Test every pair of columns in both tables."""
    return Associations(tuple(_pair_test(t) for t in crosstabs.dense(2)))


def chi_squared(table: NDArray[np.integer]) -> tuple[float, int, float]:
    """Pearson's statistic of independence, its degrees of freedom and Cramér's V; empty rows and columns do not count.

    >>> statistic, freedom, v = chi_squared(np.array([[10, 20], [30, 10]]))
    >>> round(statistic, 4), freedom, round(v, 4)
    (12.1528, 1, 0.4167)
    """
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(np.float64)
    rows, columns = kept.shape if kept.size else (0, 0)
    n = float(kept.sum())
    if rows < 2 or columns < 2:
        return 0.0, 0, 0.0
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / n
    statistic = float(((kept - expected) ** 2 / expected).sum())
    return statistic, (rows - 1) * (columns - 1), sqrt(statistic / n / (min(rows, columns) - 1))


def consistency(authentic: Sequence[float], synthetic: Sequence[float], level: float) -> Consistency:
    """Agreement of two lists of p-values about significance at a level.

    >>> c = consistency([.001, .001, .5, .001], [.001, .2, .5, .001], .05)
    >>> c.agreement, c.nothing, c.everything, c.kappa
    (0.75, 0.25, 0.75, 0.5)
    >>> consistency([.5, .5, .5], [.08, .5, .5], .1).kappa == 0
    True
    """
    a, s = np.asarray(authentic) <= level, np.asarray(synthetic) <= level
    if not len(a):
        return Consistency(level, float("nan"), float("nan"), float("nan"), float("nan"))
    agreement, p, q = float((a == s).mean()), float(a.mean()), float(s.mean())
    by_chance = p * q + (1 - p) * (1 - q)
    # Rounded: agreement by chance alone is 0, not what is left of it in floating point.
    kappa = round((agreement - by_chance) / (1 - by_chance), 12) if by_chance < 1 else float("nan")
    return Consistency(level, agreement, 1 - p, p, kappa)


def p_table(authentic: Sequence[float], synthetic: Sequence[float]) -> NDArray[np.int64]:
    """Cross-table of the classes of two lists of p-values: ≤ .01, .01–.05, .05–.1, > .1."""
    found = np.zeros((4, 4), dtype=np.int64)
    np.add.at(found, (np.searchsorted(CUTS, authentic), np.searchsorted(CUTS, synthetic)), 1)
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Rank correlation, ties averaged; nan when either list is constant or shorter than three."""
    if len(first) < 3:
        return float("nan")
    a, b = _ranks(first), _ranks(second)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else float("nan")


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, place, ties = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(ties) - (ties - 1) / 2)[place])


def _pair_test(table: Crosstab) -> PairTest:
    # not scipy.stats, which takes longer to import than all tests take
    from scipy.special import chdtrc

    found = [chi_squared(side) for side in table.sides]
    p, q = (float(chdtrc(freedom, statistic)) if freedom else 1.0 for statistic, freedom, _ in found)
    statistic, freedom, v = zip(*found, strict=True)
    return PairTest((table.names[0], table.names[1]), statistic, freedom, (p, q), v)


CHANGED_MOST = 10
LOST = 0.05
"""An association whose V fell by more than this is named as lost or weakened."""


def lost_most(found: Associations) -> list[PairTest]:
    """The pairs whose association fell by more than `LOST`, those that lost most first."""
    fell = [a for a in found.pairs if a.v[0] - a.v[1] > LOST]
    return sorted(fell, key=lambda a: a.v[1] - a.v[0])


def count_in_words(found: Findings, all_of_them: str = "") -> str:
    """How many pairs were tested, and how many there are where that is not all of them."""
    tested = len(found["associations"].pairs)
    columns, given = len(found.given) + len(found.changed), len(found.given)
    possible = comb(columns, 2) - comb(given, 2)
    if tested < possible:
        return f"{tested:,} pairs that were tested, out of {possible:,}"
    return all_of_them or f"{tested:,} pairs"


def in_words(pair: PairTest) -> str:
    """A pair and what became of it.

    >>> in_words(PairTest(("education", "income"), (0, 0), (1, 1), (0, 0), (0.371, 0.032)))
    'education × income (V .37 → .03)'
    """
    before, after = (f"{v:.2f}".removeprefix("0") for v in pair.v)
    return f"{' × '.join(pair.names)} (V {before} → {after})"


def _consistency(both: SideBySide) -> list[Consistency]:
    """Agreement at 1, 5 and 10 %, the mean over the sets."""
    sets = [associations(t).consistency() for t in both.tables]
    return [
        replace(level[0], agreement=mean([c.agreement for c in level]), kappa=mean([c.kappa for c in level]))
        for level in zip(*sets, strict=True)
    ]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    if not found[0]["associations"].pairs:
        return []
    agree = table(
        f"χ² tests of {count_in_words(found[0], 'all pairs of columns')}: how often both tables conclude the same",
        ("level", "agree", "“nothing is significant”", "“everything is significant”", "Cohen's κ"),
        found,
        lambda f: [(f"{c.level:.0%}", c.agreement, c.nothing, c.everything, c.kappa) for c in f["agreement"]],
        "The two constant answers need no data; agreement below the better of them is worth nothing. κ is agreement beyond "
        "chance; a dash where one table concludes the same of every pair.",
    )
    blocks: list[Block] = [agree]
    several = len(found) > 1
    for f in found:
        title = "p-values: authentic (rows) against synthetic (columns)" + (f", {f.name}" if several else "")
        counts = f["associations"].p_table().tolist()
        rows = [(name, *row) for name, row in zip(CLASSES, counts, strict=True)]
        blocks.append(Table.of(title, ("authentic p", *CLASSES), rows))
    ranks = [(f"{f.name}: " if several else "") + decimal(f["associations"].rank_correlation, 3) for f in found]
    blocks.append(f"Rank correlation of Cramér's V over {count_in_words(found[0])}: {'; '.join(ranks)}.")
    changed = table(
        "Associations that changed most",
        ("columns", "authentic V", "synthetic V", "difference"),
        found,
        lambda f: sorted(
            ((" and ".join(a.names), *a.v, a.v[1] - a.v[0]) for a in f["associations"].pairs),
            key=lambda row: -abs(row[3]),
        )[:CHANGED_MOST],
    )
    return [*blocks, changed]


ASSOCIATIONS = Chapter(
    "Associations",
    lambda both: {"associations": associations(both.tables[0]), "agreement": tuple(_consistency(both))},
    _blocks,
    lambda found: [
        ("χ² conclusions at 5 %: κ", found["agreement"][1].kappa, 0.0),
        ("Cramér's V, rank correlation", found["associations"].rank_correlation, 0.0),
    ],
    place=3,
)


def _agreement(both: SideBySide) -> tuple[float, float]:
    found = _consistency(both)[1]
    return found.agreement, max(found.nothing, found.everything)


def _rank(both: SideBySide) -> tuple[float, float]:
    return float(np.mean([associations(t).rank_correlation for t in both.tables])), 1.0


_higher = partial(Metric, better="higher", reference=ONE_IS_PERFECT, chapter=ASSOCIATIONS)
ASSOCIATION_AGREEMENT = _higher(
    "association-agreement", "agreement of χ² tests at 5 %", measure=_agreement, reference="the better constant answer"
)
ASSOCIATION_KAPPA = _higher(
    "association-kappa", "Cohen's κ of χ² tests at 5 %", measure=lambda both: (_consistency(both)[1].kappa, 1.0)
)
ASSOCIATION_RANK = _higher("association-rank", "rank correlation of Cramér's V", measure=_rank)
