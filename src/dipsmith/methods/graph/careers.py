"""A model of careers: units that enter, change from one period to the next, leave, and sometimes return.

Behind it are two graphical models, of entries and of steps (`schema.steps`). Entries are drawn first: every unit's first
row, and when it will have left. Then period by period every unit that is there: one that stayed given what it was before,
one that returns given its fixed columns. Who of those with the same past leaves is drawn by the odds of steps, in the number
that entries say. How long units stay depends on how long they have been there; all else that a unit is next depends on what
it is now and on nothing earlier, except what a fixed column holds.

This is a dynamic Bayesian network in two slices (Dean and Kanazawa, Computational Intelligence 5, 1989).

Privacy: computed from noisy measurements and public facts; post-processing, free. ``docs/proofs/panel.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.estimation.answers import NoisyTable
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.presence import draw_presence, give_futures
from dipsmith.methods.graph.queries import given_others
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import (
    AGAIN,
    ARRIVAL,
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
    entering,
    entry_schema,
    fixed_columns,
    step_schema,
)

ENTRY_SHARE, TERMS_SHARE = 0.2, 0.4
"""Of the budget, for entries; and of what their columns leave, for when units come and leave.

Chosen on careers simulated with another seed and other years than those of the published study: memory, spells and pairs
hardly change between .2 and .3, transitions are best at .2.
"""

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

    kind: ClassVar[str] = "careers"

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return self.steps.rows

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """All noisy tables of entries and of steps."""
        return (*self.entries.measurements, *self.steps.measurements)

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw careers with `n` rows together, units numbered from 1 on; at most the last career is cut short."""
        random, wanted = generator(seed), self.rows if n is None else n
        length, parts, made = max(1.0, self.steps.total / max(self.entries.total, 1.0)), list[Codes](), 0
        while made < wanted or not parts:
            people = int(SPARE * (wanted - made) / length) + (wanted > 0)
            own = None if seed is None else named_seed(seed, ("entries", str(len(parts))))
            parts.append(self._careers(self.entries.sample(people, own), random))
            made += len(parts[-1])
            length = max(1.0, len(parts[-1]) / max(people, 1))
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
        present = draw_presence(entries, self.schema, *self._absence(), random)
        holds, past, here = np.arange(people), np.zeros(people, dtype=np.int64), np.zeros(people, dtype=bool)
        last: dict[str, Ints] = {n: entries[entering(n)].astype(np.int64) for n in (*fixed, *changing)}
        rows = []
        for period in range(self.schema[order].size):
            now = present[holds, period]
            new = entries[entering(order)] == period
            eager, here_now = np.zeros(people), np.zeros(people, dtype=bool)
            for arrival, who in ((FIRST, now & new), (AGAIN, now & ~new & ~here), (HERE, now & ~new & here)):
                units = np.flatnonzero(who)
                known = {order: np.full(len(units), period), ARRIVAL: np.full(len(units), arrival)}
                known |= {
                    before(n): last[n][units] if arrival == HERE else np.full(len(units), self.schema[n].size)
                    for n in changing
                }
                known |= {n: last[n][units] for n in (last if arrival == FIRST else fixed)}
                drawn, lawful = self.steps.complete(known, len(units), random)
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

    def _absence(self) -> tuple[Floats, Floats]:
        """Of the units between their first and last period, the share that is away; of these, the share that returns."""
        order = str(self.schema.unit.order)
        spans = self.entries.total * self.entries.marginal((entering(order), END))
        periods, width = self.schema[order].size, band_width(self.schema)
        begun = np.cumsum(spans.sum(axis=1))
        ended = np.cumsum(np.repeat(spans.sum(axis=0) / width, width)[:periods])
        covered = np.maximum(begun - np.append(0.0, ended[:-1]), 1.0)
        flows = self.steps.total * self.steps.marginal((order, ARRIVAL))
        away = np.clip(1 - flows.sum(axis=1) / covered, 0.0, 1.0)
        gone = np.append(0.0, (away * covered)[:-1])
        return away, np.clip(flows[:, AGAIN] / np.maximum(gone, 1.0), 0.0, 1.0)

    def _eagerness(self, steps: Codes) -> Floats:
        """The logarithm of the odds that each unit leaves after this step, by all that the step tells."""
        chance = np.clip(given_others(self.steps.tree, self.steps.beliefs, steps.columns, NEXT), TINY, 1.0)
        return np.asarray(np.log(chance[:, LEAVES] / chance[:, STAYS]))

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of columns within one period; transitions are kept too, but are no tables of rows."""
        inside = (tuple(n for n in clique if n in self.schema) for clique in self.steps.kept_tables())
        return tuple(names for names in inside if names)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The states of both models."""
        states = {"entries": self.entries.state(), "steps": self.steps.state()}
        arrays = {f"{part}/{name}": values for part, (_, held) in states.items() for name, values in held.items()}
        return {part: facts for part, (facts, _) in states.items()}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""

        def part(name: str, described: Schema) -> GraphModel:
            own = {key.removeprefix(f"{name}/"): a for key, a in arrays.items() if key.startswith(f"{name}/")}
            return GraphModel.from_state(described, facts[name], own)

        return cls(schema, part("steps", step_schema(schema)), part("entries", entry_schema(schema)))


def split_entries(budget: Budget) -> tuple[Budget, Budget]:
    """What entries may cost, and what is left for steps."""
    for_entries, for_steps = budget.split([ENTRY_SHARE, 1 - ENTRY_SHARE])
    return for_entries, for_steps


def entry_tables(schema: Schema) -> list[tuple[str, ...]]:
    """The table of entries that careers need: when units come, when they leave for good, and whether they were away."""
    return [(entering(str(schema.unit.order)), END, GAPS)]


def transitions(schema: Schema) -> list[tuple[str, ...]]:
    """The tables of steps that careers need: every column with itself before, and arrivals by period."""
    return [*((name, before(name)) for name in changing_columns(schema)), (str(schema.unit.order), ARRIVAL)]


def step_pairs(schema: Schema) -> list[tuple[str, ...]]:
    """The pairs of steps that are drawn: not those of two columns before, which are always given."""
    past = {before(name) for name in changing_columns(schema)}
    return [pair for pair in combinations(step_schema(schema).names, 2) if not set(pair) <= past]


def _units(rows: Codes) -> Ints:
    assert rows.units is not None
    return rows.units


def _people(rows: Codes) -> int:
    return int(_units(rows).max(initial=-1)) + 1
