"""Are the associations kept? χ² conclusions with the constant answers beside them, and Cramér's V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dipsmith.report.content import Block, Cell, Table
from dipsmith.utility.association import CLASSES, Consistency, associations
from dipsmith.utility.captions import Rows, decimal, table
from dipsmith.utility.findings import Findings
from dipsmith.utility.metric import ONE_IS_PERFECT, Chapter, Metric
from dipsmith.utility.side_by_side import SideBySide

CHANGED_MOST = 10


def _consistency(both: SideBySide) -> list[Consistency]:
    """Agreement at 1, 5 and 10 %, the mean over the sets."""
    sets = [associations(t).consistency() for t in both.tables]
    return [
        Consistency(
            level[0].level,
            float(np.mean([c.agreement for c in level])),
            level[0].nothing,
            level[0].everything,
            float(np.mean([c.kappa for c in level])),
        )
        for level in zip(*sets, strict=True)
    ]


def _find(both: SideBySide) -> dict[str, Any]:
    return {"associations": associations(both.tables[0]), "agreement": tuple(_consistency(both))}


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    return [
        ("χ² conclusions at 5 %: κ", found["agreement"][1].kappa, 0.0),
        ("Cramér's V, rank correlation", found["associations"].rank_correlation, 0.0),
    ]


def _strengths(found: Findings) -> Rows:
    most = sorted(found["associations"].pairs, key=lambda a: -abs(a.v[0] - a.v[1]))[:CHANGED_MOST]
    return [(" and ".join(a.names), a.v[0], a.v[1], a.v[1] - a.v[0]) for a in most]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    pairs = len(found[0]["associations"].pairs)
    if not pairs:
        return []
    agree = table(
        "χ² tests of all pairs of columns: how often both tables conclude the same",
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
        rows = [
            (name, *map(int, row)) for name, row in zip(CLASSES, f["associations"].p_table(), strict=True)
        ]
        blocks.append(Table.of(title, ("authentic p", *CLASSES), rows))
    ranks = [
        (f"{f.name}: " if several else "") + decimal(f["associations"].rank_correlation, 3) for f in found
    ]
    blocks.append(f"Rank correlation of Cramér's V over {pairs:,} pairs: {'; '.join(ranks)}.")
    columns = ("columns", "authentic V", "synthetic V", "difference")
    blocks.append(table("Associations that changed most", columns, found, _strengths))
    return blocks


ASSOCIATIONS = Chapter("Associations", _find, _blocks, _lines, place=3)


def _agreement(both: SideBySide) -> tuple[float, float]:
    found = _consistency(both)[1]
    return found.agreement, max(found.nothing, found.everything)


def _rank(both: SideBySide) -> tuple[float, float]:
    return float(np.mean([associations(t).rank_correlation for t in both.tables])), 1.0


ASSOCIATION_AGREEMENT = Metric(
    "association-agreement",
    "agreement of χ² tests at 5 %",
    "higher",
    _agreement,
    "the better constant answer",
    ASSOCIATIONS,
)
ASSOCIATION_KAPPA = Metric(
    "association-kappa",
    "Cohen's κ of χ² tests at 5 %",
    "higher",
    lambda both: (_consistency(both)[1].kappa, 1.0),
    ONE_IS_PERFECT,
    ASSOCIATIONS,
)
ASSOCIATION_RANK = Metric(
    "association-rank", "rank correlation of Cramér's V", "higher", _rank, ONE_IS_PERFECT, ASSOCIATIONS
)
