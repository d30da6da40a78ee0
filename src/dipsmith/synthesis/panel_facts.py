"""What a panel's rows say of careers: who arrives and leaves, how long spells last, and what changes from period to period.

A function of rows that are linked by their unit: of a release (free), or of authentic rows (confidential). A spell is a run
of periods without a gap. Arrivals are shares of a period's rows that were not there the period before, departures of those
that are not there in the next; the first period has no arrivals and the last no departures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Figure, Table
from dipsmith.report.interactions import Axes, Panel, interaction
from dipsmith.report.transitions import Moves, transitions
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import ARRIVAL, HERE, LEAVES, NEXT, before, changing_columns, steps_of

MOST_LEVELS = 40
"""A column with more has its transitions counted, and not drawn."""
MOST_DRAWN = 6
RARE = 500
"""Of so many rows one has to have a value for its moves to be drawn."""


@dataclass(frozen=True, eq=False)
class PanelFacts:
    """Careers in numbers: by period, by length of spell, and for every column that may change its moves (before × now)."""

    order: str
    unit: str
    lengths: NDArray[np.int64]
    """How many units have 0, 1, 2, … rows."""
    periods: tuple[str, ...]
    arrivals: Floats
    departures: Floats
    spells: Floats
    moves: Mapping[str, Floats]

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.lengths.sum())

    def share_of_steps(self, most: int) -> float:
        """The share of the rows that count where at most so many of a unit do."""
        rows = np.arange(len(self.lengths))
        return float(np.minimum(rows, most) @ self.lengths) / max(float(rows @ self.lengths), 1.0)

    @classmethod
    def of(cls, codes: Codes, schema: Schema) -> PanelFacts:
        """From rows whose units are numbered, in any order; of several rows of a unit in one period one counts."""
        assert codes.units is not None
        codes = sort_careers(codes, schema)
        assert codes.units is not None
        order = str(schema.unit.order)
        steps = steps_of(codes, codes.units, schema)
        period, size = codes[order].astype(np.int64), schema[order].size
        rows = np.bincount(period, minlength=size)
        new = steps[ARRIVAL] != HERE
        last = np.append(new[1:], True)[: len(new)]
        starts = np.flatnonzero(new)
        lengths = np.diff(np.append(starts, len(new)))
        spells = np.bincount(lengths, minlength=2)[1:].astype(np.float64)
        moves = {}
        for name in changing_columns(schema):
            levels = schema[name].size
            cell = steps[before(name)][~new].astype(np.int64) * levels + codes[name][~new]
            moves[name] = np.bincount(cell, minlength=levels**2).reshape(levels, levels).astype(np.float64)
        assert ((steps[NEXT] == LEAVES) == last).all()
        return cls(
            order=order,
            unit=str(schema.unit.column),
            lengths=np.bincount(np.unique(codes.units, return_counts=True)[1]),
            periods=schema[order].labels,
            arrivals=_rates(np.bincount(period[new], minlength=size), rows, slice(1, None)),
            departures=_rates(np.bincount(period[last], minlength=size), rows, slice(None, -1)),
            spells=spells / max(spells.sum(), 1.0),
            moves=moves,
        )


def sort_careers(codes: Codes, schema: Schema) -> Codes:
    """Rows sorted by unit and period, one row of a unit in a period."""
    order = str(schema.unit.order)
    assert codes.units is not None
    codes = codes.take(np.lexsort([codes[order], codes.units]))
    assert codes.units is not None
    kept = np.ones(len(codes), dtype=bool)
    kept[1:] = (np.diff(codes.units) != 0) | (np.diff(codes[order].astype(np.int64)) != 0)
    return codes.take(kept)


def _rates(counts: NDArray[np.int64], rows: NDArray[np.int64], periods: slice) -> Floats:
    return np.asarray((counts / np.maximum(rows, 1))[periods], np.float64)


def spell_shares(facts: PanelFacts, most: int) -> Floats:
    """The shares of spells of 1, 2, … periods, up to `most`."""
    return np.pad(facts.spells, (0, max(0, most - len(facts.spells))))[:most]


def career_blocks(facts: PanelFacts, schema: Schema, price: str) -> tuple[Block, ...]:
    """Pictures of a release's careers, with their numbers."""
    unit, order = facts.unit, facts.order
    told = f"n = {facts.units:,} synthetic units ({unit}), {price}."
    lengths = tuple(str(i + 1) for i in range(len(facts.spells)))
    drawn = {"share of the spells": [Panel("", [figures.ChartLine("synthetic", facts.spells)])]}
    axes = Axes(f"{order}s without a gap", "share of the spells", authentic=True)  # with a line at 0
    mean = float(facts.spells @ np.arange(1, len(facts.spells) + 1))
    longest = Figure(
        f"How long do spells last? {mean:.1f} periods on average",
        interaction(lengths, drawn, axes) if figures.available() else "",
        f"Share of the spells by their length: periods of one {unit} without a gap. {told}",
        f"Shares of spells by length: {', '.join(f'{n}: {s:.0%}' for n, s in zip(lengths, facts.spells, strict=True))}.",
        Table.of("Spells", ("periods", "share"), list(zip(lengths, facts.spells.tolist(), strict=True))),
    )
    return (longest, *_rate_figure(facts, told), *_move_figure(facts, schema, told))


def _rate_figure(facts: PanelFacts, told: str) -> tuple[Block, ...]:
    if len(facts.periods) < 2:
        return ()
    came, went = (figures.ChartLine("synthetic", v) for v in (facts.arrivals, facts.departures))
    rows: list[tuple[Cell, ...]] = [
        (
            p,
            None if i == 0 else float(facts.arrivals[i - 1]),
            None if i == len(facts.departures) else float(facts.departures[i]),
        )
        for i, p in enumerate(facts.periods)
    ]
    gaps = tuple(f"{a} to {b}" for a, b in zip(facts.periods[:-1], facts.periods[1:], strict=True))
    drawn = {
        "share of the rows": [Panel("leave after the first of the two", [went]), Panel("are new in the second", [came])]
    }
    few = tuple(p if len(gaps) <= 12 or i % -(-len(gaps) // 12) == 0 else "" for i, p in enumerate(facts.periods[1:]))
    svg = interaction(few, drawn, Axes(facts.order, "share of the rows", authentic=True)) if figures.available() else ""
    numbers = Table.of("Arrivals and departures", (facts.order, "new", "leave"), rows)
    title = f"Who leaves and who is new: {facts.departures.mean():.0%} leave and {facts.arrivals.mean():.0%} are new on average"
    caption = f"Shares of the rows of a {facts.order}; each place is the step to the {facts.order} named. {told}"
    return (Figure(title, svg, caption, f"{title}.", numbers),)


def _frequent(moves: Floats) -> Floats:
    """Moves of values that are not rare."""
    often = moves.sum(axis=1, keepdims=True)
    return np.where(often * RARE >= moves.sum(), moves, 0.0)


def _move_figure(facts: PanelFacts, schema: Schema, told: str) -> tuple[Block, ...]:
    """Transitions of the columns that may change, those that change most first."""
    stay = {n: float(np.trace(m) / max(m.sum(), 1.0)) for n, m in facts.moves.items() if m.sum() > 0}
    names = sorted((n for n in stay if schema[n].size <= MOST_LEVELS), key=stay.__getitem__)[:MOST_DRAWN]
    if not names:
        return ()
    drawn = [Moves(f"{n}: {stay[n]:.0%} stay", schema[n].labels, _frequent(facts.moves[n])) for n in names]
    svg = transitions(drawn, facts.order) if figures.available() else ""
    rows = [(n, share, 1 - share) for n, share in sorted(stay.items(), key=lambda pair: pair[1])]
    numbers = Table.of("Who keeps a value", ("column", "stay", "move"), rows)
    title = f"What changes from one {facts.order} to the next: {names[0]} most"
    caption = (
        f"Each line is a value before, each mark a value now; the area of a mark is the share of those who had the value "
        f"before. On the diagonal are those who stay. Values of fewer than one row in {RARE:,} are not drawn. {told}"
    )
    words = "; ".join(f"{n}: {stay[n]:.0%} stay" for n in names)
    return (Figure(title, svg, caption, f"{title}. {words}.", numbers),)
