"""The chapters of a comparison that are tables: classifiers, marginals, associations, the full table, how it was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dipsmith.report import figures
from dipsmith.report.content import Block, Facts, Section, Table
from dipsmith.utility.association import CLASSES
from dipsmith.utility.captions import Rows, table, told
from dipsmith.utility.cell_sizes import SIZES
from dipsmith.utility.findings import Findings

if TYPE_CHECKING:
    from dipsmith.utility.comparison import Comparison

WORST = 10
"""Lines of a list that is sorted worst first."""


def classifiers(found: Sequence[Findings]) -> Section:
    """SPECKS, pMSE and binned scores."""
    scores = table(
        "SPECKS: the Kolmogorov–Smirnov distance of the propensity scores",
        ("classifier", "KS", "null mean", "null 95 %", "scored"),
        [
            (
                f,
                [
                    (
                        s.classifier,
                        s.value,
                        s.null_mean,
                        s.null_95,
                        "by the other half" if s.crossfitted else "in sample",
                    )
                    for s in sorted(f.specks, key=lambda s: -s.value)
                ],
            )
            for f in found
        ],
        "0 would be indistinguishable, 1 perfectly separable. Only what exceeds the null's 95 % point is a difference.",
    )
    squared = table(
        "pMSE of the logistic model with main effects, against both nulls",
        ("pMSE", "S-pMSE", "null: resampled", "ratio", "null: independent", "ratio to it"),
        [
            (
                f,
                [
                    (
                        f.pmse.value,
                        f.pmse.standardised,
                        f.pmse.resampled_mean,
                        f.pmse.ratio,
                        f.pmse.independent_mean,
                        f.pmse.independent_ratio,
                    )
                ],
            )
            for f in found
        ],
        "Resampled: synthetic rows drawn from the authentic ones (Snoke et al. 2018). Independent: another sample of the "
        "same population, which no release can be asked to beat.",
    )
    binned = table(
        "χ² of binned scores: are both tables equally frequent in every tenth of the scores?",
        ("classifier", "χ²", "degrees of freedom", "null mean", "p"),
        [(f, [(b.classifier, b.statistic, b.freedom, b.null_mean, b.p) for b in f.binned]) for f in found],
        "Sakshaug and Raghunathan 2010. With many rows p is 0 for any difference; compare χ² with its null mean.",
    )
    return Section("Can a classifier tell them apart?", (scores, squared, binned))


def marginals(found: Sequence[Findings]) -> Section:
    """Distances of all 1-, 2- and 3-way tables, and range queries."""
    means = table(
        "Total variation distance of all tables of k columns",
        ("k", "tables", "mean TVD", "floor", "largest", "k-marginal score"),
        [
            (
                f,
                [
                    (
                        e.ways,
                        len(e.tables),
                        f.set_tvd[i],
                        e.floor,
                        e.worst.tvd if e.worst else None,
                        1000 * (1 - f.set_tvd[i]),
                    )
                    for i, e in enumerate(f.marginals)
                ],
            )
            for f in found
        ],
        "Half the sum of absolute differences of shares: the share of rows that would have to move. Floor: chance "
        "alone."
        + (" Tables of public columns alone are left out: they are the same." if found[0].given else "")
        + "".join(
            f" Of {e.possible:,} tables of {e.ways} columns {len(e.tables):,} were chosen at random."
            for e in found[0].marginals
            if len(e.tables) < e.possible
        ),
    )
    worst: list[tuple[Findings, Rows]] = []
    for f in found:
        every = sorted((t for e in f.marginals for t in e.tables), key=lambda t: t.floor - t.tvd)[:WORST]
        worst.append((f, [(" × ".join(t.names), t.tvd, t.floor, t.tvd - t.floor) for t in every]))
    farthest = table(
        "The tables farthest off, beyond what chance explains", ("table", "TVD", "floor", "excess"), worst
    )
    blocks: list[Block] = [means, farthest]
    ranges = [
        (
            f,
            [
                (" × ".join(r.names), r.queries, r.mean, r.floor, r.largest, r.relative)
                for r in f.ranges[:WORST]
            ],
        )
        for f in found
    ]
    if any(rows for _, rows in ranges):
        blocks.append(
            table(
                "Range queries: error of the share of rows between two bounds",
                ("columns", "queries", "mean", "floor", "largest", "mean relative"),
                ranges,
                "All ranges of a column, a thousand random rectangles of a pair. Floor: the mean by chance alone. Relative to the authentic share, at least .001.",
            )
        )
    return Section("Marginals", tuple(blocks))


def associations(found: Sequence[Findings]) -> Section:
    """χ² conclusions with the constant answers beside them, and Cramér's V."""
    if not found[0].associations.pairs:
        return Section("Associations", ())
    agree = table(
        "χ² tests of all pairs of columns: how often both tables conclude the same",
        ("level", "agree", "“nothing is significant”", "“everything is significant”", "Cohen's κ"),
        [
            (f, [(f"{c.level:.0%}", c.agreement, c.nothing, c.everything, c.kappa) for c in f.agreement])
            for f in found
        ],
        "The two constant answers need no data; agreement below the better of them is worth nothing. κ is agreement beyond "
        "chance; a dash where one table concludes the same of every pair.",
    )
    blocks: list[Block] = [agree]
    for f in found:
        cross = f.associations.p_table()
        title = "p-values: authentic (rows) against synthetic (columns)"
        blocks.append(
            Table.of(
                title if len(found) == 1 else f"{title}, {f.name}",
                ("authentic p", *CLASSES),
                [(CLASSES[i], *(int(n) for n in cross[i])) for i in range(len(CLASSES))],
            )
        )
    blocks.append(
        f"Rank correlation of Cramér's V over {len(found[0].associations.pairs):,} pairs: "
        + "; ".join(
            (f"{f.name}: " if len(found) > 1 else "") + told(f.associations.rank_correlation, 3)
            for f in found
        )
        + "."
    )
    strengths = [
        (
            f,
            [
                (" and ".join(a.names), a.v[0], a.v[1], a.v[1] - a.v[0])
                for a in sorted(f.associations.pairs, key=lambda a: -abs(a.v[0] - a.v[1]))[:WORST]
            ],
        )
        for f in found
    ]
    blocks.append(
        table(
            "Associations that changed most",
            ("columns", "authentic V", "synthetic V", "difference"),
            strengths,
        )
    )
    return Section("Associations", tuple(blocks))


def full_table(found: Sequence[Findings]) -> Section:
    """Cell sizes of the full cross-tabulation, inventions and losses."""
    first = found[0].cells
    columns = ["cell size", "authentic cells", "rows"]
    for f in found:
        columns += [f"{f.name}: cells" if len(found) > 1 else "synthetic cells", "rows"]
    rows: Rows = []
    for i, size in enumerate(SIZES):
        rows.append((size, *first.authentic[i], *(n for f in found for n in f.cells.synthetic[i])))
    rows.append(
        (
            "all",
            *map(sum, zip(*first.authentic, strict=True)),
            *(s for f in found for s in map(sum, zip(*f.cells.synthetic, strict=True))),
        )
    )
    kept = table(
        "Combinations that only one table has",
        (
            "invented",
            "rows in them",
            "lost",
            "rows in them",
            "correlation of cells",
        ),
        [
            (
                f,
                [
                    (
                        f.cells.invented,
                        f.cells.invented_rows,
                        f.cells.lost,
                        f.cells.lost_rows,
                        f.cells.correlation,
                    )
                ],
            )
            for f in found
        ],
        "Invented: in the synthetic table and not in the authentic one, as a share of the synthetic combinations (rows). "
        "Lost: the other way round.",
    )
    return Section(
        "The full cross-tabulation",
        (
            Table.of(f"Occupied cells of the full table of {first.cells:,} cells", columns, rows),
            kept,
        ),
    )


def method(comparison: Comparison) -> Section:
    """What was compared with what."""
    first = comparison.findings[0]
    facts = [
        ("Columns compared", ", ".join((*first.given, *first.changed))),
        ("Synthesised", ", ".join(first.changed)),
        ("Authentic rows left out", f"{comparison.left_out:,} (a value without a code)"),
        ("Seed", f"{comparison.seed} (samples, folds and null draws)"),
        ("Looks logged", f"{comparison.looks} at '{comparison.dataset}', this one included"),
    ]
    blocks: list[Block] = [
        Facts(tuple(facts)),
        "Values are compared as the codes of the schema: bins and collapsed labels. Scores of several sets are means over the "
        "sets; lists and figures are of the first set. Definitions: docs/reference/metrics.md.",
    ]
    if not figures.available():
        blocks.append(
            "Figures need more libraries (pip install 'dipsmith[analysis]'); this page has tables only."
        )
    return Section("How this was compared", tuple(blocks))
