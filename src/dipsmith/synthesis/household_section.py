"""What the report tells of households: how many members they have, and how alike these are.

Made from the synthetic tables of the first set alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.counting.households import HouseholdRoster
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Facts, Figure, Table
from dipsmith.synthesis.households import roster_of

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release


def household_blocks(release: Release) -> tuple[Block, ...]:
    """The section of a release of households; nothing of other releases."""
    if release.schema.members is None:
        return ()
    people = release.schema.members.schema
    found = roster_of(release.tables[0], release.tables[people.name][0], release.schema)
    homes, members = len(found.sizes), len(found.members)
    facts = Facts(
        (
            (f"Rows of {release.schema.name}", f"{homes:,}"),
            (f"Rows of {people.name}", f"{members:,}, {members / max(homes, 1):.2f} in a household"),
            ("Key", f"{release.schema.unit.column}, a new number in both tables"),
            ("Members", f"at most {people.unit.max_rows}; in every household the head is listed first"),
        )
    )
    return facts, _sizes(found, people.unit.max_rows, release.card.price), _likeness(found)


def _sizes(found: HouseholdRoster, most: int, price: str) -> Figure:
    counts = np.bincount(found.sizes, minlength=most + 1)
    shares: Floats = counts / max(counts.sum(), 1)
    labels = [str(n) for n in range(most + 1)]
    often = int(np.argmax(counts))
    rows = [(n, int(c), float(s)) for n, c, s in zip(range(most + 1), counts, shares, strict=True)]
    drawn = figures.Distribution("members of a household", labels, shares, ordered=True)
    return Figure(
        title="How many members the synthetic households have",
        svg=figures.distributions([drawn]) if figures.available() else "",
        caption=f"Share of households by their number of members; n = {len(found.sizes):,} households, {price}.",
        alternative=f"Bars of the shares of sizes. Most households, {shares[often]:.0%}, have {often}.",
        numbers=Table.of("Synthetic households by size", ("members", "households", "share"), rows),
    )


def _likeness(found: HouseholdRoster) -> Table:
    """How often a member has the head's value, and how often that would happen to strangers."""
    heads, others = found.head_pairs()
    rows: list[tuple[Cell, ...]] = []
    for column in found.members.schema:
        codes = found.members[column.name].astype(np.int64)
        same = float((codes[heads] == codes[others]).mean()) if len(others) else float("nan")
        margins = [np.bincount(codes[at], minlength=column.size) / max(len(at), 1) for at in (heads, others)]
        rows.append((column.name, column.size, same, float(margins[0] @ margins[1])))
    return Table.of(
        "How often a member has the value of the head",
        ("column", "levels", "share of members", "if they were strangers"),
        rows,
        f"Of {len(others):,} synthetic members beside a head; numbers and dates by their bins.",
    )
