"""The releasable report: what was done, what it looks like, how good it can be, how to analyse it.

Made from the release alone: card, schema and synthetic tables. It is a function of what is published anyway, so
publishing it tells nothing more; a test swaps the authentic rows, freezes the mechanisms' outputs and finds the same
bytes. It has no script. Without the `analysis` extra it has tables only, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.counting.tally import count
from dipsmith.report import figures
from dipsmith.report.commands import command
from dipsmith.report.content import Block, Code, Facts, Figure, Page, Section, Table
from dipsmith.report.explorer import LINK
from dipsmith.schema import Attribute, Codes, Marginal, Schema
from dipsmith.synthesis.panel_facts import PanelFacts, career_blocks
from dipsmith.synthesis.report_sections import household_blocks, suggested_formula, support_blocks, who_is_in_rows
from dipsmith.synthesis.settings_in_words import settings_in_words
from dipsmith.synthesis.spent import Z95, TableNoise, column_noise, least_visible_count, table_noise
from dipsmith.synthesis.trees import tree_blocks

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

MOST_DRAWN = 24
"""Columns that are drawn; all are tabulated."""
MOST_ASSOCIATED = 24
MOST_BARS = 200
"""A figure draws so many bars of a column at most, and its numbers list as many levels: a report stays small."""
MOST_ROWS = 200_000
"""Rows that associations are computed from at most: the first ones, in the release's own (random) order."""
MOST_LINES = 20
DROWNED = 0.5
"""A table in which noise alone moves so many of the rows is not called kept."""
NOTHING = (
    "No regression is suggested here: no noisy table holds two columns together that would make one. Ask "
    "release.supports(FORMULA) before you interpret what the rows show of several columns."
)

CAREERS = (
    "Rows of one career are not independent, and how alike they are is not measured: ordinary standard errors are too small, and "
    "dipsmith.fit refuses intervals of regressions. How fast a number changes within one unit is the one that has an interval."
)


@dataclass(frozen=True, eq=False)
class Glance:
    """What the report tells about the rows of the first set: how many, and how often each level of each column occurs.

    `some` are the first rows, which associations are computed from; `several_files` whether a set is a folder of files;
    `careers` what linked rows of a panel say.
    """

    rows: int
    counts: Mapping[str, NDArray[np.int64]]
    some: Codes
    several_files: bool = False
    careers: PanelFacts | None = None

    @classmethod
    def of(cls, table: pa.Table, schema: Schema, *, several_files: bool = False) -> Glance:
        """A glance at a table."""
        codes = Encoder(schema).encode(table)[0]
        counts = {a.name: np.bincount(codes[a.name], minlength=a.size) for a in schema}
        careers = None
        if schema.unit.order is not None and schema.linked in table.column_names:
            units = table.column(str(schema.linked)).to_numpy().astype(np.int64)
            careers = PanelFacts.of(replace(codes, units=units), schema)
        return cls(len(codes), counts, codes.take(slice(0, MOST_ROWS)), several_files, careers)


def report_page(release: Release, glance: Glance, *, beside: bool = False) -> Page:
    """The report of a release; `beside` says that it stands in the release's folder, whose files it may point to."""
    card = release.card
    tables = table_noise(card, release.schema, glance.careers)
    pointer = (LINK,) if beside and release.measurements else ()
    return Page(
        title=f"Synthetic data: {card.dataset}",
        lead=_lead(release, tables),
        sections=(
            *((card.result_section,) if card.results else ()),
            Section("What was done", _describe_run(release)),
            Section("What the noise does", _noise(release, tables)),
            Section("What this release carries", (*pointer, *support_blocks(release))),
            *((Section("How rows are divided", trees),) if (trees := tree_blocks(release)) else ()),
            *((Section("Households", homes),) if (homes := household_blocks(release)) else ()),
            Section("The synthetic columns", _columns(release, glance, tables)),
            *(
                (Section("Careers", career_blocks(glance.careers, release.schema, card.price)),)
                if glance.careers
                else ()
            ),
            Section("Associations in the synthetic rows", _associations(glance.some)),
            Section("How to analyse it", _analysis(release, glance)),
        ),
        stamp="NOT PRIVATE: made with a fixed noise seed, for tests only" if card.testing else "",
        footer=f"dipsmith {card.version}; this page uses only the release. The release card (card.html) has every detail.",
    )


def _lead(release: Release, tables: list[TableNoise]) -> tuple[str, ...]:
    card = release.card
    noisy = [t for t in tables if (_expected_tvd(t, max(1, card.rows)) or 0.0) >= DROWNED]
    named, drowned = (
        list(dict.fromkeys(" × ".join(t.attributes) for t in some if t.attributes is not None))
        for some in ([t for t in tables if t not in noisy], noisy)
    )
    drowned = [name for name in drowned if name not in named]
    usual = "next to nothing" if drowned else "what the method measured, listed below"
    kept = _list_some(named, 5) if named else usual
    mostly = f" Measured, but mostly noise: {_list_some(drowned, 5)}; sums over them say more." if drowned else ""
    limit = least_visible_count(tables)
    small = f"groups of fewer than about {max(1, round(limit)):,} rows" if np.isfinite(limit) else "small groups"
    return (
        f"{card.rows:,} synthetic rows by {card.method}, released under differential privacy: {card.guarantee}. {card.meaning}",
        f"Kept, up to known noise: {kept}.{mostly}",
        f"Not kept: whatever is beyond these tables and the model that joins them, and {small}, whose counts the noise "
        f"drowns; rare groups are served worst. {who_is_in_rows(release)}",
    )


def _describe_run(release: Release) -> tuple[Block, ...]:
    card = release.card
    facts = [
        ("Method", card.method),
        *((("Settings", chosen),) if (chosen := settings_in_words(card.parameters)) else ()),
        ("Budget", card.price),
        ("Unit of protection", str(card.unit["text"])),
        ("Neighbours", card.neighbours),
        ("Rows", f"{card.rows:,} ({card.rows_known})"),
        ("Sets", card.sets_text),
        ("Domains", card.provenance),
    ]
    if card.disclosed:
        facts.append(("Disclosed as they are", ", ".join(card.disclosed)))
    return Facts(tuple(facts)), *card.notes


def _noise(release: Release, tables: list[TableNoise]) -> tuple[Block, ...]:
    n = max(1, release.card.rows)
    rest = len(tables) - MOST_LINES
    nbsp = "\N{NO-BREAK SPACE}"
    asked = Table.of(
        "Every table that was measured, and the noise on one of its counts",
        ("table", "cells", "times", "noise s.d.", f"95 % within{nbsp}±", f"of a share{nbsp}±", "expected TVD"),
        [
            (
                t.what,
                t.cells,
                t.times,
                t.sd,
                Z95 * t.sd,
                Z95 * t.sd / (n * t.share) if t.share else None,
                _expected_tvd(t, n),
            )
            for t in tables[:MOST_LINES]
        ],
        (f"And {rest} more table{'s' * (rest > 1)} with more noise. " if rest > 0 else "")
        + f"Noise: {_list_some(sorted({t.mechanism for t in tables}), 2)}. Before counts are made consistent, which lowers it. TVD: total variation distance "
        "between the table and the authentic one, half the expected sum of absolute errors of its shares.",
    )
    blocks: list[Block] = [asked] if tables else ["Nothing was measured: no noise line is on the card."]
    public = release.schema.public if release.card.neighbours == "label" else ()
    rows: list[tuple[str | int | float | None, ...]] = []
    for name, sd in column_noise(tables, release.schema).items():
        levels = release.schema[name].size
        if name not in public:
            tvd = None if sd is None else min(1.0, 0.5 * levels * np.sqrt(2 / np.pi) * sd / n)
            rows.append((name, levels, None if sd is None else Z95 * sd / n, tvd))
    if rows:
        dash = "A dash: the column was not measured in a table of its own; its distribution follows from the model."
        expected = Table.of(
            "Expected error of every column's distribution, from the noise alone",
            ("column", "levels", "one level's share, 95 % within ±", "total variation distance"),
            rows,
            dash if any(row[2] is None for row in rows) else "",
        )
        blocks.append(expected)
    drawing = ", ".join(f"±{Z95 * np.sqrt(p * (1 - p) / n):.2g} for a share of {p:g}" for p in (0.01, 0.1, 0.5))
    blocks.append(
        f"Drawing {n:,} rows from the noisy model adds its own error: {drawing} (95 %). "
        "The larger of the two errors decides what the rows can tell."
    )
    return tuple(blocks)


def _expected_tvd(table: TableNoise, n: int) -> float | None:
    """Half the sum over the cells of the expected absolute noise: s.d./√2 for Laplace noise, s.d.·√(2/π) for Gaussian."""
    mean = table.sd * (np.sqrt(2 / np.pi) if "Gauss" in table.mechanism else np.sqrt(0.5))
    return min(1.0, float(0.5 * table.cells * mean / (n * table.share))) if table.share else None


def _columns(release: Release, glance: Glance, tables: list[TableNoise]) -> tuple[Block, ...]:
    schema, n, counts = release.schema, max(1, glance.rows), glance.counts
    public = set(schema.public) if release.card.neighbours == "label" else set()
    noise = column_noise(tables, schema)
    listing = Table.of(
        "What was released",
        ("column", "type", "role", "levels", "most frequent"),
        [(a.name, a.type, a.role, a.size, _most_frequent(a.labels, counts[a.name], n)) for a in schema],
    )

    def shares(caption: str, order: Callable[[NDArray[np.int64]], Iterable[int]]) -> Table:
        rows = [
            (a.name, a.labels[i], int(counts[a.name][i]), counts[a.name][i] / n)
            for a in schema
            for i in order(counts[a.name])
        ]
        return Table.of(caption, ("column", "level", "rows", "share"), rows)

    if not figures.available():
        missing = "Figures need more libraries (pip install 'dipsmith[analysis]'); this report has tables only."
        return listing, shares("Most frequent levels", lambda c: np.argsort(-c, kind="stable")[:8]), missing
    drawn = [a for a in schema if a.size > 1][:MOST_DRAWN]
    panels = []
    for a in drawn:
        sd = None if a.name in public else noise[a.name]
        labels, few, joined = _few_bars(a, counts[a.name])
        bars = labels, few / n, bool(a.domain.ordered), a.name in public
        panels.append(figures.Distribution(a.name, *bars, None if sd is None else Z95 * sd * joined**0.5 / n))
    frequent = "; ".join(f"{a.name}: {_most_frequent(a.labels, counts[a.name], n)}" for a in drawn)
    left = len(schema.names) - len(drawn)
    figure = Figure(
        title="How the synthetic rows are distributed",
        svg=figures.distributions(panels) if panels else "",
        caption=f"Share of the rows by level; n = {glance.rows:,} synthetic rows, {release.card.price}. Blue: synthetic, with "
        "whiskers that hold 95 % of the noise."
        + (" Grey: public, as they are." if public else "")
        + (f" {left} more columns are not drawn." if left > 0 else ""),
        alternative=f"Bar charts of the shares of every level. Most frequent: {frequent}.",
        numbers=shares(
            "Shares of the synthetic rows",
            lambda c: range(len(c)) if len(c) <= MOST_BARS else np.sort(np.argsort(-c, kind="stable")[:MOST_BARS]),
        ),
    )
    return listing, figure


def _associations(some: Codes) -> tuple[Block, ...]:
    names = [n for n in some.names if 1 < some.schema[n].size <= 1000][:MOST_ASSOCIATED]
    cells = [Marginal.of(some.schema, pair) for pair in combinations(names, 2)]
    tables = zip(cells, count([some], cells), strict=True)
    pairs = [(" and ".join(m.attributes), _cramer(table.reshape(m.shape))) for m, table in tables]
    found = sorted(pairs, key=lambda pair: -pair[1])
    if not found:
        return ("There are no two columns to associate.",)
    note = f"Cramér's V: 0 is none, 1 is complete. From {len(some):,} synthetic rows"
    note += f"; {len(found) - 10} weaker pairs are not shown." if len(found) > 10 else "."
    columns = "columns", "Cramér's V"
    return (Table.of("The strongest associations between two columns", columns, found[:10], note),)


def _analysis(release: Release, glance: Glance) -> tuple[Block, ...]:
    card = release.card
    in_r = "open_dataset" if glance.several_files else "read_parquet"
    rule = {
        None: "There is one set. Its ordinary standard errors leave the noise out: dipsmith.fit adds it.",
        "split": "The sets were sanitised separately. T = ū + B/m (dipsmith.combine) combines them, but sees no bias that all "
        "share: dipsmith.fit takes it off.",
        "draw": "The sets were drawn from one sanitised model and share its noise: T = ū + B/m does not apply, "
        "use the noise-aware intervals of dipsmith.fit.",
    }[card.each]
    formula = suggested_formula(release) if glance.careers is None else None
    numbers = [] if glance.careers is None else [t.name for t in release.measurements if t.kind == "growth sums"]
    if glance.careers is not None:
        rule = CAREERS
    answered = "" if formula is None else f"\nds.fit(release, {formula!r})     # estimates with honest intervals"
    return (
        Code(
            "import dipsmith as ds\n"
            'release = ds.Release.load("FOLDER")\n'
            "release.tables[0].to_pandas()                    # the first set"
            + _of_members(release)
            + answered
            + (
                "\nds.growth(release)                               # change per period, with intervals"
                if numbers
                else ""
            )
        ),
        *(() if formula is None else (Code(command("fit", "FOLDER", formula)),)),
        *((NOTHING,) if formula is None and glance.careers is None else ()),
        Code(
            f'R:      arrow::{in_r}("synthetic-1.parquet")\n'
            '        read.csv("synthetic-1.csv")             (release made with --format csv)\n'
            'Stata:  import delimited "synthetic-1.csv"      (release made with --format csv)'
        ),
        rule,
        "Check that the folder is whole and unchanged with: dipsmith verify FOLDER. Counts near the noise's standard "
        "deviation are not evidence of anything; combinations that schema.yaml calls impossible were never synthesised.",
    )


def _of_members(release: Release) -> str:
    """How the members of households are read."""
    if release.schema.members is None:
        return ""
    return f'\nrelease.to_pandas(name="{release.schema.members.schema.name}")               # members of its households'


def _cramer(table: NDArray[np.int64]) -> float:
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(np.float64)
    if min(used.shape, default=0) < 2:
        return 0.0
    n = used.sum()
    expected = np.outer(used.sum(axis=1), used.sum(axis=0)) / n
    return float(np.sqrt(((used - expected) ** 2 / expected).sum() / n / (min(used.shape) - 1)))


def _few_bars(attribute: Attribute, counts: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.int64], int]:
    """Bars of a column, at most `MOST_BARS`: neighbours joined where levels are ordered, else the most frequent and the rest.

    The last number is how many levels a bar holds, for its noise.
    """
    if len(counts) <= MOST_BARS:
        return attribute.labels, counts, 1
    if attribute.domain.ordered:
        joined = -(-len(counts) // MOST_BARS)
        starts = np.arange(0, len(counts), joined)
        ends = np.minimum(starts + joined, len(counts)) - 1
        names = (f"{attribute.labels[a]} … {attribute.labels[b]}" for a, b in zip(starts, ends, strict=True))
        return tuple(names), np.add.reduceat(counts, starts), joined
    most = np.sort(np.argsort(-counts, kind="stable")[: MOST_BARS - 1])
    rest = int(counts.sum() - counts[most].sum())
    return (*(attribute.labels[i] for i in most), "all others"), np.append(counts[most], rest), 1


def _most_frequent(labels: tuple[str, ...], counts: NDArray[np.int64], n: int) -> str:
    order = np.argsort(-counts, kind="stable")[:3]
    return ", ".join(f"{labels[i]} ({counts[i] / n:.0%})" for i in order if counts[i])


def _list_some(items: list[str], most: int) -> str:
    text = "; ".join(items[:most])
    return text + (f"; and {len(items) - most} more" if len(items) > most else "")
