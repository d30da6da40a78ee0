"""A model of careers: units that enter, change from one period to the next, leave, and sometimes return.

Behind it are two graphical models, of entries and of steps (`schema.steps`). Entries are drawn first: every unit's first
row, and when it will have left. Then period by period every unit that is there: one that stayed given what it was before,
one that returns given its fixed columns. Who of those with the same past leaves is drawn by the odds of steps, in the number
that entries say. How long units stay depends on how long they have been there; all else that a unit is next depends on what
it is now and on nothing earlier, except what a fixed column holds.

Noise grows with how often a unit may be counted. So of long careers not all steps count, but some of each unit (`most_steps`):
what a unit is next, given what it is, is asked of the short careers and of the long ones alike. So is who is away: of as many
periods between a unit's first and last one, whether it is there (`presence_table`).

This is a dynamic Bayesian network in two slices (Dean and Kanazawa, Computational Intelligence 5, 1989).

Privacy: computed from noisy measurements and public facts; post-processing, free. ``docs/proofs/panel.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil, inf
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable
from dipsmith.methods.graph.drift import Drift, Growth, find_drift, tilt
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.planned import carried_sets
from dipsmith.methods.graph.presence import draw_presence, give_futures, shrunk_shares
from dipsmith.methods.graph.queries import given_others
from dipsmith.methods.method import Planned
from dipsmith.privacy.budget import Budget, PureDP, rho_to_approx
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.privacy.value_question import GrowthQuestion
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.growth import GrowthSpread, GrowthSums, growing_columns
from dipsmith.schema.steps import (
    AGAIN,
    ARRIVAL,
    AWAY,
    END,
    FIRST,
    GAPS,
    HERE,
    LEAVES,
    NEXT,
    STAYS,
    band_width,
    before,
    changing_columns,
    entry_name,
    entry_schema,
    fixed_columns,
    presence_schema,
    step_schema,
)

ENTRY_SHARE, PRESENCE_SHARE, TERMS_SHARE = 0.2, 0.1, 0.6
"""Of the budget, for entries and for who is away; and of what the columns of entries leave, for when units come and leave and what
they then are."""

STEP_COLUMNS, MOVES_SHARE = 0.2, 0.7
"""Of what steps may cost, for their columns; and of the rest, for the tables of moves, which tell of columns as well."""

LEAST_STEPS, ALL_STEPS = Fraction(1, 3), 6
"""Of `max_rows`, the share of steps of a unit that counts at least; and ε from which on all count.

These and the shares above were chosen on simulated panels that no page shows: 20,000 careers over 8 years and 4,000 with many
gaps over 12, at ε = 1; TERMS_SHARE later, among four, on one of 50,000 careers over 4 and 10 years. A sixth, a third and half of the steps are much alike, and better than all of them.
"""

GROWTH_SHARE, SPREAD_SHARE = 0.06, 1 / 6
"""Of the budget, for how fast numbers grow within a unit; and of that, for how far units differ in it."""

LEAST_TRIED, MOST_TRIED = 500, 30_000
"""Careers that are drawn to see how fast they grow: twice as many as there are, within these."""

BARREN = 1 << 16
"""After so many careers without a lawful row no more are drawn."""

SPARE = 1.02
"""More careers than wanted rows need are drawn at once, and the last ones dropped."""

TINY = 1e-12
"""Nobody is quite sure to leave or to stay, as far as odds go."""


@dataclass(frozen=True, eq=False)
class CareerModel:
    """Careers over the rows of a panel's schema, drawn from a graphical model of its steps."""

    schema: Schema
    steps: GraphModel
    entries: GraphModel
    presence: NoisyTable
    drift: Drift = field(default_factory=dict)

    kind: ClassVar[str] = "careers"

    @cached_property
    def moves(self) -> GraphModel:
        """The law of units that were there before: numbers drift as far as careers grow."""
        return tilt(self.steps, self.drift)

    @property
    def rows(self) -> int:
        """How many rows there are, where that is not public: of the periods between first and last ones, all but those away."""
        if self.presence.total_variance == 0:
            return max(1, round(self.presence.total))
        covered, away, _ = self._absence()
        return max(1, round(float((covered * (1 - away)).sum())))

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """All noisy tables of entries, presence and steps."""
        return (*self.entries.measurements, self.presence, *self.steps.measurements)

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw careers with `n` rows together, units numbered from 1 on; at most the last career is cut short."""
        random, wanted = generator(seed), self.rows if n is None else n
        length, parts, made, barren = max(1.0, self.rows / max(self.entries.total, 1.0)), list[Codes](), 0, 0
        while made < wanted or not parts:
            people = max(int(SPARE * (wanted - made) / length) + (wanted > 0), barren)
            own = None if seed is None else named_seed(seed, ("entries", str(len(parts))))
            parts.append(self._careers(self.entries.sample(people, own), random))
            made += len(parts[-1])
            length = max(1.0, len(parts[-1]) / max(people, 1))
            barren = 0 if len(parts[-1]) else barren + people
            if barren > BARREN:
                raise UsageError(
                    f"of {barren:,} careers that were drawn none has a row that the rules allow; check the rules of the schema, or "
                    "give AIM a larger max_cells, so that its model can hold them"
                )
        drawn = Codes.concatenate(parts)
        firsts = np.cumsum([0, *(_people(part) for part in parts)])
        units = np.concatenate([_units(part) + first for part, first in zip(parts, firsts[:-1], strict=True)])
        # Numbers say nothing: units were drawn by period of arrival, and are numbered in a random order.
        units = random.permutation(int(firsts[-1]))[units]
        by = np.lexsort([drawn[str(self.schema.unit.order)], units])[:wanted]
        _, numbers = np.unique(units[by], return_inverse=True)
        return replace(drawn.take(by), units=numbers.astype(np.int64) + 1)

    def _careers(self, entries: Codes, random: Generator) -> Codes:
        """The careers of units that enter, numbered from 0 on."""
        order, fixed, changing = str(self.schema.unit.order), fixed_columns(self.schema), changing_columns(self.schema)
        people = len(entries)
        present = draw_presence(entries, self.schema, *self._absence()[1:], random)
        holds, past, here = np.arange(people), np.zeros(people, dtype=np.int64), np.zeros(people, dtype=bool)
        last: dict[str, Ints] = {n: entries[entry_name(n)].astype(np.int64) for n in (*fixed, *changing)}
        rows = []
        for period in range(self.schema[order].size):
            now = present[holds, period]
            new = entries[entry_name(order)] == period
            eager, here_now = np.zeros(people), np.zeros(people, dtype=bool)
            for arrival, who in ((FIRST, now & new), (AGAIN, now & ~new & ~here), (HERE, now & ~new & here)):
                units = np.flatnonzero(who)
                known = {order: np.full(len(units), period), ARRIVAL: np.full(len(units), arrival)}
                known |= {
                    before(n): last[n][units] if arrival == HERE else np.full(len(units), self.schema[n].size)
                    for n in changing
                }
                known |= {n: last[n][units] for n in (last if arrival == FIRST else fixed)}
                law = self.moves if arrival == HERE else self.steps
                drawn, lawful = law.complete(known, len(units), random)
                drawn, units = drawn.take(lawful), units[lawful]  # for whom no row is lawful is away
                for name in last:
                    last[name][units] = drawn[name]
                rows.append(replace(drawn.project(self.schema.names), schema=self.schema, units=units))
                eager[units], here_now[units] = self._eagerness(drawn), True
            here = here_now
            if period + 1 < self.schema[order].size:
                give_futures(present, holds, np.flatnonzero(here), past, eager[here], period, random)
                _, past = np.unique(2 * past + present[holds, period + 1], return_inverse=True)
        return Codes.concatenate(rows)

    def _absence(self) -> tuple[Floats, Floats, Floats]:
        """How many units are between their first and last period, the share of these that is away, and of those that returns."""
        order = str(self.schema.unit.order)
        spans = self.entries.total * self.entries.marginal((entry_name(order), END))
        periods, width = self.schema[order].size, band_width(self.schema)
        spans = np.repeat(spans / width, width, axis=1)[:, :periods]
        begin, end = np.indices(spans.shape)
        long = end - begin
        # Of a unit some periods between its first and last one are asked. If more lie between than rows may count, it is away.
        asked = np.minimum(1.0, self.presence.marginal.schema.unit.max_rows / np.maximum(long, 1)) * spans
        cut = np.clip(1 - (self.schema.unit.max_rows - 1) / np.maximum(long, 1), 0.0, 1.0)
        expected, covered = _between(asked), np.maximum(_between(spans) + spans.sum(axis=1), 1.0)
        told, variance = self.presence.values.reshape(periods, -1).astype(np.float64), self.presence.variance
        # How many are asked is known better from entries: what the three together differ by is noise of each.
        told, variance = told + (expected - told.sum(axis=1))[:, None] / 3, variance * 2 / 3
        sure, rest = _between(asked * cut), _between(asked * (1 - cut))
        away = shrunk_shares(told[:, AWAY] - sure, rest, variance)
        gone = np.append(0.0, (sure + away * rest)[:-1])
        share = (_between(spans * cut) + away * _between(spans * (1 - cut))) / covered
        return covered, share, shrunk_shares(told[:, AGAIN], gone, variance)

    def _eagerness(self, steps: Codes) -> Floats:
        """The logarithm of the odds that each unit leaves after this step, by all that the step tells."""
        chance = np.clip(given_others(self.steps.tree, self.steps.beliefs, steps.columns, NEXT), TINY, 1.0)
        return np.asarray(np.log(chance[:, LEAVES] / chance[:, STAYS]))

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of columns within one period; transitions are kept too, but are no tables of rows."""
        inside = (tuple(n for n in clique if n in self.schema) for clique in self.steps.kept_tables())
        return tuple(names for names in inside if names)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The states of both models and of who is away."""
        states = {"entries": self.entries.state(), "steps": self.steps.state(), "presence": self.presence.state()}
        arrays = {f"{part}/{name}": values for part, (_, held) in states.items() for name, values in held.items()}
        facts = {part: facts for part, (facts, _) in states.items()}
        return facts | {"drift": dict(self.drift), "asked": self.presence.marginal.schema.unit.max_rows}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""

        def part(name: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(f"{name}/"): a for key, a in arrays.items() if key.startswith(f"{name}/")}

        return cls(
            schema,
            GraphModel.from_state(step_schema(schema), facts["steps"], part("steps")),
            GraphModel.from_state(entry_schema(schema), facts["entries"], part("entries")),
            NoisyTable.from_state(presence_schema(schema, facts["asked"]), facts["presence"], part("presence")),
            facts.get("drift", {}),
        )

    def with_growth(self, growth: Sequence[Growth]) -> Self:
        """The same model with careers that grow as measured."""
        if not growth:
            return self

        def draw(drift: Drift) -> Codes:
            return replace(self, drift=drift)._careers(entries, generator(0))

        entries = self.entries.sample(min(MOST_TRIED, max(LEAST_TRIED, round(2 * self.entries.total))), 0)

        return replace(self, drift=find_drift(growth, self.schema, draw))


def split_career(schema: Schema, budget: Budget) -> tuple[Budget, Budget, Budget, list[Budget]]:
    """What entries, presence and steps may cost, and the growth of each number."""
    numbers = len(growing_columns(schema))
    for_growth = [GROWTH_SHARE / numbers for _ in range(numbers)]
    rest = 1 - ENTRY_SHARE - PRESENCE_SHARE - sum(for_growth)
    for_entries, for_presence, for_steps, *each = budget.split([ENTRY_SHARE, PRESENCE_SHARE, rest, *for_growth])
    return for_entries, for_presence, for_steps, [*each]


def measure_growth(curator: Curator, schema: Schema, budgets: Sequence[Budget]) -> list[Growth]:
    """Measure how fast numbers grow and how far units differ in it, of all steps; without those that noise hides."""
    found = []
    for name, budget in zip(growing_columns(schema), budgets, strict=True):
        sums, (for_sums, for_spread) = GrowthSums(schema, name), _split_growth(budget)
        growth = Growth.of(sums, curator.ask(GrowthQuestion(sums), for_sums))
        curator.ask(GrowthQuestion(GrowthSpread(schema, name, growth.slope if growth else 0.0)), for_spread)
        found += [growth] if growth else []
    return found


def plan_growth(schema: Schema, budgets: Sequence[Budget]) -> list[Planned]:
    """Two lines for the growth of each number."""
    lines = []
    notes = "two sums over units: how fast it changes within one of them", "how far units differ in that"
    for name, budget in zip(growing_columns(schema), budgets, strict=True):
        asked = GrowthSums(schema, name), GrowthSpread(schema, name)
        for sums, cost, note in zip(asked, _split_growth(budget), notes, strict=True):
            law, _ = GrowthQuestion(sums).price(str(schema.neighbours), schema.unit.max_rows, cost, "")
            lines.append(Planned("growth", sums.key, cost, sums.size, sums.steps[-1] * law.variance**0.5, note))
    return lines


def _split_growth(budget: Budget) -> Sequence[Budget]:
    return budget.split([1 - SPREAD_SHARE, SPREAD_SHARE])


def most_steps(schema: Schema, budget: Budget) -> int:
    """How many steps of a unit count, by public facts: the less can be spent on a long career, the fewer.

    With m steps of each unit counted, noise grows with m, and what is counted only as far as careers are that long.
    """
    spend = Fraction(budget.epsilon if isinstance(budget, PureDP) else rho_to_approx(budget.rho, 1e-9))
    share = min(Fraction(1), max(LEAST_STEPS, spend / ALL_STEPS))
    return max(1, ceil(share * step_schema(schema).unit.max_rows))


def thinned_schema(schema: Schema, budget: Budget) -> Schema:
    """The schema of the steps of a panel that count."""
    steps = step_schema(schema)
    return replace(steps, unit=replace(steps.unit, max_rows=most_steps(schema, budget)))


def presence_table(schema: Schema, most: int) -> Marginal:
    """The table that says who is away: whether units are there, by period, in at most so many periods of each."""
    presence = presence_schema(schema, most)
    return Marginal.of(presence, presence.names)


def measure_presence(steps: Curator, schema: Schema, budget: Budget, most: int) -> NoisyTable:
    """Measure it; its total is the number of rows where that is public."""
    table = presence_table(schema, most)
    (found,) = steps.with_presence(budget, most).measure([table], [budget])
    rows, variance = (float(found.values.sum()), inf) if steps.rows is None else (float(steps.rows), 0.0)
    return NoisyTable(table, found.values, found.variance, rows, variance, mechanism=found.mechanism)


def entry_tables(schema: Schema) -> list[tuple[str, ...]]:
    """The tables of entries that careers need: when units come, leave for good, are away; what they are then, by period."""
    begin = entry_name(str(schema.unit.order))
    return [(begin, END, GAPS), *((begin, entry_name(name)) for name in changing_columns(schema))]


def transitions(schema: Schema) -> list[tuple[str, ...]]:
    """The tables of steps that careers need: every column with itself before."""
    return [(name, before(name)) for name in changing_columns(schema)]


def covered_columns(schema: Schema, max_cells: int) -> set[str]:
    """The columns of steps that need no table of their own: those before, where moves are part of the model."""
    return {was for _, was in carried_sets(step_schema(schema), transitions(schema), max_cells)}


def step_pairs(schema: Schema) -> list[tuple[str, ...]]:
    """The pairs of steps that are drawn: not those of two columns before, which are always given."""
    past = {before(name) for name in changing_columns(schema)}
    return [pair for pair in combinations(step_schema(schema).names, 2) if not set(pair) <= past]


def _between(spans: Floats) -> Floats:
    """How many units, by first and last period, are after their first one and not after their last one, in each period."""
    return np.array([spans[:t, t:].sum() for t in range(len(spans))])


def _units(rows: Codes) -> Ints:
    assert rows.units is not None
    return rows.units


def _people(rows: Codes) -> int:
    return int(_units(rows).max(initial=-1)) + 1
