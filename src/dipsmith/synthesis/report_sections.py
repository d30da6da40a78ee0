"""Sections of the report: what a release carries, what its households look like, and a formula to start from.

Households are described from the synthetic tables of the first set alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.counting.households import HouseholdRoster
from dipsmith.errors import UsageError
from dipsmith.report import figures
from dipsmith.report.commands import command
from dipsmith.report.content import Block, Cell, Code, Facts, Figure, Table
from dipsmith.report.support_map import Shade, support_map
from dipsmith.schema import Attribute, Bins
from dipsmith.schema.formula.tree import quote
from dipsmith.synthesis.answers import supports
from dipsmith.synthesis.gaps import carries
from dipsmith.synthesis.households import roster_of
from dipsmith.synthesis.supports import LEVELS, Support

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release


MOST_MAPPED, MOST_DRAWN = 40, 12
"""Columns on the map, or levels of one that is drawn; columns of members that are drawn."""
MOST_LISTED, MOST_FOUND = 200, 2000
"""Pairs that are listed, and of how many each can be looked for."""


def who_is_in_rows(release: Release) -> str:
    """Whether rows are people: under `label` each is somebody's, but for what was drawn."""
    if release.card.neighbours != "label":
        return "No row is a person."
    return "Rows stand for somebody: public columns are as they are, only private ones were drawn."


def support_blocks(release: Release) -> tuple[Block, ...]:
    """Map and list; one sentence where nothing is known."""
    if not release.measurements:
        return ("This release was made by a version that kept no measurements, so that this is not known.",)
    index = release.support_index
    shades = {
        frozenset(s.columns): Shade("public" if s.public else s.level, f"{s.asked}: {s.level}. {s.reason}")
        for s in index.pairs()
    }
    pairs = index.worst_pairs()
    counts = Counter(s.level for s in pairs)
    if not pairs:
        return ("There are no two columns of which one is private.",)
    n, price = f"{release.card.rows:,}", release.card.price
    names = index.names[:MOST_MAPPED]
    tally = ", ".join(f"{counts[level]} {level}" for level in LEVELS)
    left = len(index.names) - len(names)
    worst = "; ".join(f"{s.asked} ({s.level})" for s in pairs[:3])
    of = "" if release.schema.members is None else f" of {release.schema.name}"
    figure = Figure(
        title=f"Which pairs of columns{of} this release can speak about: {tally}",
        svg=support_map(names, lambda a, b: shades[frozenset((a, b))]),
        caption=f"Every pair of columns{of}, each column by itself on the diagonal; {n} rows, {price}. Measured: a noisy table holds the "
        "pair. Carried: tables and the model imply it. Not carried: the rows relate the two by way of other columns, if at all; "
        "do not interpret what they show."
        + (" Public: released as they stand." if index.public else "")
        + (f" {left} more columns are in the list only." if left > 0 else ""),
        alternative=f"A triangle of all pairs of columns{of}. {tally}. The worst first: {worst}.",
        searched=index.names,
    )
    # Where the map has every column, its empty squares need no line each, but can be looked for.
    lines = [s for s in pairs if s.tables or left > 0] or pairs
    unlisted = len(pairs) - len(lines)
    rest = len(lines) - MOST_LISTED
    listed = set(lines[:MOST_LISTED])
    rows = pairs if len(pairs) <= MOST_FOUND else lines[:MOST_LISTED]
    place = {name: f"c{i}" for i, name in enumerate(index.names)}
    listing = Table(
        "Pairs of columns, the worst first",
        ("pair", "support", "noise on a count, s.e.", "average count", "where"),
        tuple((s.asked, s.level, s.standard_error, s.typical_count, _why(s)) for s in rows),
        (f"And {rest} more pairs that are better supported. " if rest > 0 else "")
        + (
            f"{unlisted} pair{'s are' if unlisted > 1 else ' is'} in no noisy table: the empty squares of the picture. "
            if unlisted
            else ""
        )
        + "Single counts of a table whose noise is near its average count say little; sums over them say more.",
        tuple(" ".join([*(place[n] for n in s.columns), *([] if s in listed else ["more"])]) for s in rows),
    )
    one, other = (quote(name) for name in pairs[0].columns)
    ask = Code(
        f"release.supports({pairs[0].columns[0]!r}, {pairs[0].columns[1]!r})\n"
        f"release.supports({f'{one} ~ {other}'!r})\n" + command("supports", "FOLDER", f"{one} ~ {other}")
    )
    return figure, listing, "For a formula, or any columns, ask the release:", ask


def _why(found: Support) -> str:
    """Where a pair is found, in a few words."""
    if not found.tables:
        return "in no noisy table"
    if found.level == "not carried":
        return "leaves too coarse"
    if found.coarse:
        return f"{found.tables[0]}, in coarser labels"
    return found.tables[0] if found.in_rows else f"{found.tables[0]}; rows follow it badly"


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
    sizes = _sizes(found, people.unit.max_rows, release.card.price)
    return facts, sizes, _likeness(found, release.schema.members.order), _of_people(found, release.card.price)


def _sizes(found: HouseholdRoster, most: int, price: str) -> Figure:
    counts = np.bincount(found.sizes, minlength=most + 1)
    shares: Floats = counts / max(counts.sum(), 1)
    labels = [str(n) for n in range(most + 1)]
    often = int(np.argmax(counts))
    rows = [(n, int(c), float(s)) for n, c, s in zip(range(most + 1), counts, shares, strict=True)]
    drawn = figures.Distribution("members of a household", labels, shares, ordered=True, of="households")
    return Figure(
        title="How many members the synthetic households have",
        svg=figures.distributions([drawn]) if figures.available() else "",
        caption=f"Share of households by their number of members; n = {len(found.sizes):,} households, {price}.",
        alternative=f"Bars of the shares of sizes. Most households, {shares[often]:.0%}, have {often}.",
        numbers=Table.of("Synthetic households by size", ("members", "households", "share"), rows),
    )


def _of_people(found: HouseholdRoster, price: str) -> Figure:
    """How members are distributed."""
    n, drawn, rows = max(1, len(found.members)), list[figures.Distribution](), list[tuple[Cell, ...]]()
    for column in found.members.schema:
        counts = np.bincount(found.members[column.name], minlength=column.size)
        rows += [(column.name, label, int(c), float(c / n)) for label, c in zip(column.labels, counts, strict=True)]
        if 1 < column.size <= MOST_MAPPED and len(drawn) < MOST_DRAWN:
            drawn.append(
                figures.Distribution(column.name, column.labels, counts / n, bool(column.domain.ordered), of="members")
            )
    return Figure(
        title="How the synthetic members are distributed",
        svg=figures.distributions(drawn) if figures.available() and drawn else "",
        caption=f"Share of the members by level; n = {len(found.members):,} synthetic members, {price}.",
        alternative=f"Bar charts of the shares of every level of {', '.join(d.title for d in drawn)}.",
        numbers=Table.of(
            "Shares of the synthetic members", ("column", "level", "members", "share"), rows[:MOST_LISTED]
        ),
    )


def _likeness(found: HouseholdRoster, order: str | None) -> Table:
    """How often a member has the head's value, and how often that would happen to strangers; the head's own level aside."""
    heads, others = found.head_pairs()
    rows: list[tuple[Cell, ...]] = []
    for column in (c for c in found.members.schema if c.name != order):
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


NUMBERS = ("number", "integer")
MOST_TERMS = 3
MOST_RESPONSES, MOST_TRIED = 4, 12
"""Columns that are tried as response and as terms: every trial costs a moment."""


def suggested_formula(release: Release) -> str | None:
    """A regression that this release answers: a planned one, or a number or share by columns it was measured with."""
    untold = {r.formula for r in release.results if any(c.estimate is None for c in r.coefficients)}
    for result in release.results:
        if result.formula not in untold:
            return result.formula
    if not release.measurements:
        return None
    schema = release.schema
    private_first = sorted(schema, key=lambda a: a.role == "public")
    # Between backticks there is no way to write one.
    named = [a for a in private_first if "`" not in a.name and a.name.isprintable() and a.size > 1]
    for chosen, response in _responses(named):
        terms: list[str] = []
        for other in [a for a in named if a is not chosen][:MOST_TRIED]:
            longer = [*terms, quote(other.name)]
            try:
                found = release.support_index.formula(f"{response} ~ {' + '.join(longer)}")
            except UsageError:
                # A report is made after the charge: what cannot be suggested is left out.
                continue
            if not found.public and carries(found):
                terms = longer
            if len(terms) == MOST_TERMS:
                break
        formula = f"{response} ~ {' + '.join(terms)}"
        if terms and supports(release, formula).level != "not carried":
            return formula
    return None


def _responses(named: list[Attribute]) -> Iterator[tuple[Attribute, str]]:
    """Numbers, the finest first; columns with two levels; comparisons with a level."""
    numbers = [a for a in named if a.type in NUMBERS and isinstance(a.domain, Bins)]
    two = [a for a in named if len(a.labels) == 2 and a not in numbers]
    chosen = [*sorted(numbers, key=lambda a: -a.size), *two]
    found = [(a, quote(a.name)) for a in chosen]
    found += [
        (a, _comparison(a)) for a in named if a not in chosen and a.type == "string" and _can_be_quoted(a.labels[0])
    ]
    yield from found[:MOST_RESPONSES]


def _comparison(attribute: Attribute) -> str:
    label = attribute.labels[0]
    return quote(attribute.name) + (f' == "{label}"' if "'" in label else f" == '{label}'")


def _can_be_quoted(label: str) -> bool:
    """Whether a formula can name the level: it knows quotes, but no escapes."""
    return label.isprintable() and "\\" not in label and not ("'" in label and '"' in label)
