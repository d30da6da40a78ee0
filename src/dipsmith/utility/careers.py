"""Careers, authentic and synthetic: transitions, spells, arrivals and departures, memory of numbers, growth of one person.

Only for a panel whose release links its rows. Of both sides what counts is one row of a unit in a period; unlike the
mechanism, authentic careers are not cut at `max_rows`, because losing rows is part of what a release does.

*Memory* is the correlation of a number with itself a period before. *Growth* is the mean change per period within one
unit: the slope of a regression on the period with an effect for every unit, of log(1 + x) where no value is negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import values_of
from dipsmith.counting.units import has_unit, unit_text
from dipsmith.errors import InputError
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Table
from dipsmith.schema import Bins, Codes, Schema
from dipsmith.schema.steps import changing_columns
from dipsmith.sources import Source
from dipsmith.synthesis.panel_facts import PanelFacts, spell_shares
from dipsmith.utility.findings import Findings, Rows, figure, mean, series, table
from dipsmith.utility.metric import ZERO_IS_PERFECT, Chapter, Metric, SideBySide

MOST_DRAWN = 4
"""Columns whose transitions are drawn: those farthest off."""


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """Rows as codes whose units are numbered, and the numbers of columns that have any."""

    codes: Codes
    numbers: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class CareerGap:
    """One release's careers beside the authentic ones, column by column and by period."""

    authentic: PanelFacts
    synthetic: PanelFacts
    transitions: Mapping[str, tuple[float, float]]  # TVD, and what unlinked rows would have
    memory: Mapping[str, tuple[float, float]]
    growth: Mapping[str, tuple[float, float]]
    labels: Mapping[str, tuple[str, ...]]

    @property
    def spells(self) -> float:
        """The total variation distance of the lengths of spells."""
        most = max(len(self.authentic.spells), len(self.synthetic.spells))
        return 0.5 * float(np.abs(spell_shares(self.authentic, most) - spell_shares(self.synthetic, most)).sum())

    @property
    def rates(self) -> float:
        """The largest difference of a share that arrives or leaves."""
        pairs = (
            (self.authentic.arrivals, self.synthetic.arrivals),
            (self.authentic.departures, self.synthetic.departures),
        )
        return max((float(np.abs(a - s).max(initial=0.0)) for a, s in pairs), default=0.0)


def read_careers(source: Source, schema: Schema) -> LinkedRows:
    """The authentic rows of a panel, linked.

    Privacy
    -------
    Reads private rows; the result is private. Log a look first.
    """
    unit = str(schema.unit.column)
    encoder = Encoder(replace(schema, rules=()))
    parts, texts, numbers = [], [], {n: [np.zeros(0)] for n in _numeric(schema)}
    for batch in source.batches([*schema.names, unit]):
        codes, keep = encoder.encode(batch)
        text = unit_text(batch.column(batch.schema.names.index(unit)))
        keep = keep & has_unit(text)
        parts.append(codes.take(keep))
        texts.append(text.filter(pa.array(keep)))
        for name, found in numbers.items():
            found.append(_values(batch.column(batch.schema.names.index(name)), schema, name)[keep])
    if not parts:
        raise InputError("the authentic table has no row to compare with")
    named = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode()
    codes = replace(Codes.concatenate(parts), units=named.indices.to_numpy(zero_copy_only=False).astype(np.int64))
    return LinkedRows(codes, {n: np.concatenate(found) for n, found in numbers.items()})


def released_careers(released: pa.Table, schema: Schema, described: Schema) -> LinkedRows:
    """The linked rows of a set."""
    codes, _ = Encoder(described).encode(released)
    units = released.column(str(schema.unit.column)).to_numpy().astype(np.int64)
    made = replace(Codes(schema, codes.columns, codes.rows), units=units)
    columns = {n: released.column(n).combine_chunks() for n in _numeric(schema)}
    return LinkedRows(made, {n: _values(c, schema, n) for n, c in columns.items()})


def _numeric(schema: Schema) -> tuple[str, ...]:
    changing = (schema[n] for n in changing_columns(schema))
    return tuple(a.name for a in changing if isinstance(a.domain, Bins) and a.domain.scale in ("integer", "number"))


def _values(column: pa.Array, schema: Schema, name: str) -> Floats:
    domain = schema[name].domain
    assert isinstance(domain, Bins)
    values, known = values_of(column, domain)
    found = np.clip(values.astype(np.float64), domain.minimum, domain.maximum)
    return found if known is None else np.where(known, found, np.nan)


def career_gap(authentic: LinkedRows, synthetic: LinkedRows, schema: Schema) -> CareerGap:
    """Compare two panels."""
    left, right = PanelFacts.of(authentic.codes, schema), PanelFacts.of(synthetic.codes, schema)
    transitions = {n: (_tvd(left.moves[n], right.moves[n]), _distance_if_unlinked(left.moves[n])) for n in left.moves}
    sides = [(n, authentic.numbers[n], synthetic.numbers[n]) for n in authentic.numbers if n in synthetic.numbers]
    memory, growth = {}, {}
    for name, a, s in sides:
        log = min(np.nanmin(a, initial=0.0), np.nanmin(s, initial=0.0)) >= 0
        both = [
            _over_time(rows.codes, np.log1p(x) if log else x, schema) for rows, x in ((authentic, a), (synthetic, s))
        ]
        memory[name], growth[name] = (tuple(pair) for pair in zip(*both, strict=True))
    labels = {n: schema[n].labels for n in left.moves}
    return CareerGap(left, right, transitions, memory, growth, labels)


def _tvd(one: Floats, other: Floats) -> float:
    return 0.5 * float(np.abs(one / max(one.sum(), 1.0) - other / max(other.sum(), 1.0)).sum())


def _distance_if_unlinked(moves: Floats) -> float:
    """The distance of a table of transitions from that of rows that are linked at random: its own margins, independent."""
    whole = max(moves.sum(), 1.0)
    return _tvd(moves, np.outer(moves.sum(axis=1), moves.sum(axis=0)) / whole)


def _over_time(codes: Codes, values: Floats, schema: Schema) -> tuple[float, float]:
    """The correlation of a number with itself a period before, and its mean change per period within one unit."""
    assert codes.units is not None
    period = codes[str(schema.unit.order)].astype(np.int64)
    known = np.isfinite(values)
    order = np.lexsort([values, period, codes.units])
    order = order[known[order]]
    unit, t, x = codes.units[order], period[order], values[order]
    kept = np.append(True, (np.diff(unit) != 0) | (np.diff(t) != 0))[: len(unit)]
    unit, t, x = unit[kept], t[kept].astype(np.float64), x[kept]
    follows = (np.diff(unit) == 0) & (np.diff(t) == 1)
    before, now = x[:-1][follows], x[1:][follows]
    constant = len(now) < 3 or before.std() == 0 or now.std() == 0
    memory = float("nan") if constant else float(np.corrcoef(before, now)[0, 1])
    _, at = np.unique(unit, return_inverse=True)
    size = np.maximum(np.bincount(at), 1)
    t = t - (np.bincount(at, weights=t) / size)[at]
    x = x - (np.bincount(at, weights=x) / size)[at]
    square = float(t @ t)
    return memory, float(t @ x) / square if square > 0 else float("nan")


def _find(both: SideBySide) -> dict[str, Any]:
    return {"careers": _gap(both, 0)}


def _gap(both: SideBySide, i: int) -> CareerGap | None:
    released = both.release.tables[i]
    if both.careers is None or both.schema.linked not in released.column_names:
        return None
    synthetic = released_careers(released, both.schema, both.release.schema)
    return career_gap(both.careers, synthetic, both.schema)


def _blocks(found: Sequence[Findings]) -> list[Block]:
    told = [f for f in found if f["careers"] is not None]
    if not told:
        return []
    first: CareerGap = told[0]["careers"]
    rates, spells = _rates(told, first), _spells(told, first)
    moves = table(
        "Transitions: each column with itself a period before",
        ("column", "TVD", "rows linked at random", "stay, authentic", "synthetic"),
        told,
        lambda f: sorted(_lines_of(f["careers"]), key=lambda row: -float(row[1] or 0.0)),
        "Half the sum of absolute differences of shares of (before, now); linked at random: what rows without careers have.",
    )
    numbers = table(
        "Numbers over time",
        ("column", "memory, authentic", "synthetic", "growth within a unit, authentic", "synthetic"),
        told,
        lambda f: [(n, *f["careers"].memory[n], *f["careers"].growth[n]) for n in f["careers"].memory],
        "Memory: correlation with the period before. Growth: slope on the period with an effect for every unit. Both of "
        "log(1 + x), unless values are negative.",
    )
    drawn = [] if (points := _moves_figure(told)) is None else [points]
    return [rates, spells, *drawn, moves, *([numbers] if first.memory else [])]


def _moves_figure(told: Sequence[Findings]) -> Block | None:
    """Transitions of the columns farthest off, authentic against synthetic, of the first release."""
    gap: CareerGap = told[0]["careers"]
    worst = sorted(gap.transitions, key=lambda n: -gap.transitions[n][0])[:MOST_DRAWN]
    drawn, rows = [], list[tuple[Cell, ...]]()
    for name in worst:
        a, s = (m[name] / max(m[name].sum(), 1.0) for m in (gap.authentic.moves, gap.synthetic.moves))
        cells = np.argwhere((a > 0) | (s > 0))
        labels = [f"{gap.labels[name][i]} → {gap.labels[name][j]}" for i, j in cells]
        values = a[tuple(cells.T)], s[tuple(cells.T)]
        drawn.append(figures.Against(f"{name}: TVD {gap.transitions[name][0]:.3f}", *values, labels))
        rows += [(name, label, float(x), float(y)) for label, x, y in zip(labels, *values, strict=True)]
    if not drawn:
        return None
    title = f"Moves from one {gap.authentic.order} to the next: {worst[0]} is farthest off"
    words = "share of all steps, authentic (stretched near 0)", "synthetic"
    svg = figures.against(drawn, *words, power=0.5) if figures.available() else ""
    caption = "Each point is a value before and a value now; on the line both tables have the same share."
    numbers = Table.of("Transitions", ("column", "before → now", "authentic", "synthetic"), rows)
    return figure(told[:1], title, svg, caption, f"{title}.", numbers, "careers-transitions")


def _lines_of(gap: CareerGap) -> Rows:
    return [
        (n, tvd, chance, _stay(gap.authentic.moves[n]), _stay(gap.synthetic.moves[n]))
        for n, (tvd, chance) in gap.transitions.items()
    ]


def _stay(moves: Floats) -> float:
    return float(np.trace(moves) / max(moves.sum(), 1.0))


def _rates(told: Sequence[Findings], first: CareerGap) -> Block:
    facts = first.authentic
    steps = [f"{b}" for b in facts.periods[1:]]
    drawn = [
        figures.Trend(
            words,
            figures.ChartLine("authentic", getattr(facts, key)),
            [figures.ChartLine(series(told, f), getattr(f["careers"].synthetic, key)) for f in told],
        )
        for key, words in (("departures", "leave before"), ("arrivals", "are new in"))
    ]
    rows: Rows = [
        (step, *(float(line.values[i]) for panel in drawn for line in (panel.authentic, *panel.synthetic)))
        for i, step in enumerate(steps)
    ]
    heads = [f"{panel.title}, {line.name}" for panel in drawn for line in (panel.authentic, *panel.synthetic)]
    title = f"Who leaves, who is new: off by at most {100 * max(f['careers'].rates for f in told):.1f} points"
    svg = figures.trends(steps, drawn, "share of the rows") if figures.available() and steps else ""
    caption = (
        f"Shares of the rows of the {facts.order} before that are gone, and of a {facts.order}'s rows that are new."
    )
    return figure(
        told, title, svg, caption, f"{title}.", Table.of("Rates", (facts.order, *heads), rows), "careers-rates"
    )


def _spells(told: Sequence[Findings], first: CareerGap) -> Block:
    most = max(len(first.authentic.spells), *(len(f["careers"].synthetic.spells) for f in told))
    lengths = [str(i + 1) for i in range(most)]
    sides = [("authentic", first.authentic), *((series(told, f), f["careers"].synthetic) for f in told)]
    lines = [figures.ChartLine(name, spell_shares(facts, most)) for name, facts in sides]
    apart = ", ".join(f"{100 * f['careers'].spells:.1f}" for f in told)
    title = f"How long spells last: {apart} % of them would have to change"
    svg = ""
    if figures.available():
        panel = figures.Trend(f"{first.authentic.order}s without a gap", lines[0], lines[1:])
        svg = figures.trends(lengths, [panel], "share of the spells")
    rows: Rows = [(length, *(float(line.values[i]) for line in lines)) for i, length in enumerate(lengths)]
    numbers = Table.of("Spells", ("periods", *(line.name for line in lines)), rows)
    return figure(
        told, title, svg, "Spells by their length: periods without a gap.", f"{title}.", numbers, "careers-spells"
    )


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    gap: CareerGap | None = found["careers"]
    if gap is None:
        return []
    return [
        ("transitions, mean TVD (beside: rows linked at random)", *_mean_transition(gap)),
        ("arrivals and departures, largest difference of a share", gap.rates, None),
        ("lengths of spells, TVD", gap.spells, None),
    ]


def _mean_transition(gap: CareerGap) -> tuple[float, float]:
    return mean([t for t, _ in gap.transitions.values()]), mean([u for _, u in gap.transitions.values()])


CAREERS = Chapter("Careers", _find, _blocks, _lines, 4, lambda both: both.careers is not None)


def _metric(name: str, title: str, of: str, reference: str) -> Metric:
    def measure(both: SideBySide) -> tuple[float, float]:
        gaps = [g for i in range(len(both.release.tables)) if (g := _gap(both, i)) is not None]
        if not gaps:
            raise InputError(f"metric '{name}' needs a panel (unit.order) whose release links its rows")
        if of == "transitions":
            return mean([_mean_transition(g)[0] for g in gaps]), _mean_transition(gaps[0])[1]
        if of == "memory":
            return mean([abs(a - s) for g in gaps for a, s in g.memory.values()]), 0.0
        return mean([getattr(g, of) for g in gaps]), 0.0

    return Metric(name, title, "lower", measure, reference, CAREERS)


TRANSITION_TVD = _metric(
    "transition-tvd", "mean total variation distance of transitions", "transitions", "rows linked at random"
)
SPELL_TVD = _metric("spell-tvd", "total variation distance of lengths of spells", "spells", ZERO_IS_PERFECT)
TURNOVER = _metric("turnover", "largest error of a share that arrives or leaves", "rates", ZERO_IS_PERFECT)
MEMORY = _metric("memory", "mean error of correlations with the period before", "memory", ZERO_IS_PERFECT)
