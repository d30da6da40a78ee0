"""What a release carries, as a section of its report: the map of pairs, and the list, the worst first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dipsmith.report.commands import command
from dipsmith.report.content import Block, Code, Figure, Table
from dipsmith.report.support_map import Shade, support_map
from dipsmith.schema.formula.tree import quote
from dipsmith.synthesis.supports import LEVELS, Support

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

MOST_MAPPED = 40
"""Columns on the map."""
MOST_LISTED = 200


def support_blocks(release: Release) -> tuple[Block, ...]:
    """Map and list; one sentence where nothing is known."""
    if not release.measurements:
        return ("This release was made by a version that kept no measurements, so that this is not known.",)
    index = release.support_index
    found = {frozenset(s.columns): s for s in index.pairs()}
    pairs = index.worst_pairs()
    counts = Counter(s.level for s in pairs)
    if not pairs:
        return ("There are no two columns of which one is private.",)
    n, price = f"{release.card.rows:,}", release.card.price
    names = index.names[:MOST_MAPPED]
    tally = ", ".join(f"{counts[level]} {level}" for level in LEVELS)
    left = len(index.names) - len(names)
    figure = Figure(
        title=f"Which pairs of columns this release can speak about: {tally}",
        svg=support_map(names, lambda a, b: _shade(found[frozenset((a, b))])),
        caption=f"Every pair of columns, each column by itself on the diagonal; {n} rows, {price}. Measured: a noisy table holds the "
        "pair. Carried: tables and the model imply it. Not carried: the rows relate the two by way of other columns, if at all; "
        "do not interpret what they show."
        + (" Public: released as they stand." if index.public else "")
        + (f" {left} more columns are in the list only." if left > 0 else ""),
        alternative=f"A triangle of all pairs of columns. {tally}. The worst first: {_worst(pairs)}.",
    )
    # Where the map has every column, its empty squares need no line each.
    lines = [s for s in pairs if s.tables or left > 0] or pairs
    unlisted = len(pairs) - len(lines)
    rest = len(lines) - MOST_LISTED
    listing = Table.of(
        "Pairs of columns, the worst first",
        ("pair", "support", "noise on a count, s.e.", "average count", "where"),
        [(s.asked, s.level, s.standard_error, s.typical_count, _why(s)) for s in lines[:MOST_LISTED]],
        (f"And {rest} more pairs that are better supported. " if rest > 0 else "")
        + (f"{unlisted} pairs are in no noisy table: the empty squares of the picture. " if unlisted else "")
        + "Single counts of a table whose noise is near its average count say little; sums over them say more.",
    )
    one, other = (quote(name) for name in pairs[0].columns)
    ask = Code(
        f"release.supports({pairs[0].columns[0]!r}, {pairs[0].columns[1]!r})\n"
        f"release.supports({f'{one} ~ {other}'!r})\n" + command("supports", "FOLDER", f"{one} ~ {other}")
    )
    return figure, listing, "For a formula, or any columns, ask the release:", ask


def _shade(found: Support) -> Shade:
    return Shade("public" if found.public else found.level, f"{found.asked}: {found.level}. {found.reason}")


def _worst(pairs: list[Support]) -> str:
    return "; ".join(f"{s.asked} ({s.level})" for s in pairs[:3])


def _why(found: Support) -> str:
    """Where a pair is found, in a few words."""
    if not found.tables:
        return "in no noisy table"
    if found.level == "not carried":
        return "leaves too coarse"
    if found.coarse:
        return f"{found.tables[0]}, in coarser labels"
    return found.tables[0] if found.in_rows else f"{found.tables[0]}; rows follow it badly"
