"""A model of careers: units that enter, change from one period to the next, leave, and sometimes return.

Behind it is a graphical model of a panel's steps (`schema.steps`). Careers are drawn from it period by period: so many
new units as the model has first arrivals in the period; every unit that stayed, given what it was before; some of those
that had left, as many as return. A unit's fixed columns are drawn once, when it arrives, and given ever after. What a
unit is next depends on what it is now and on nothing earlier: memory beyond one period is not kept, except what a
fixed column holds.

This is a dynamic Bayesian network in two slices (Dean and Kanazawa, Computational Intelligence 5, 1989).

Privacy: computed from noisy measurements and public facts; post-processing, free. ``docs/proofs/panel.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.answers import NoisyTable
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.model import GraphModel
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import (
    AGAIN,
    ARRIVAL,
    FIRST,
    HERE,
    NEXT,
    STAYS,
    before,
    changing_columns,
    fixed_columns,
    step_schema,
)

Ints = NDArray[np.int64]

NEAR, LEVELS = 2, 8
"""Moves of an ordered column by so many levels are known one by one, of columns with so many levels at least."""

LEAST, REACH = 0.05, 5
"""Moves fade by this factor at least; how fast is seen in so many levels beyond those that are near."""

FEWEST = 1e-9
"""People who arrive in a period, at least."""

SPARE = 1.02
"""More careers than wanted rows need are drawn at once, and the last ones dropped."""


@dataclass(frozen=True, eq=False)
class CareerModel:
    """Careers over the rows of a panel's schema, drawn from a graphical model of its steps."""

    schema: Schema
    steps: GraphModel

    kind: ClassVar[str] = "careers"

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return self.steps.rows

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """All noisy tables of steps."""
        return self.steps.measurements

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw careers with `n` rows together, units numbered from 1 on; at most the last career is cut short."""
        random, wanted = generator(seed), self.rows if n is None else n
        parts = [self._careers(0.0, random)]
        periods, first = self.schema[str(self.schema.unit.order)].size, float(self._arrivals()[:, FIRST].sum())
        while (made := sum(map(len, parts))) < wanted:
            # Noise may leave next to nobody who arrives: then the population is taken to be larger, until there are enough.
            share = max((wanted - made) * SPARE / max(self.rows, 1), (wanted - made) / periods / first)
            more = self._careers(share, random)
            parts.append(more if len(more) else self._careers(2.0 / first, random))
        drawn = Codes.concatenate(parts)
        firsts = np.cumsum([0, *(_people(part) for part in parts)])
        units = np.concatenate([_units(part) + first for part, first in zip(parts, firsts[:-1], strict=True)])
        # Numbers say nothing: units were drawn by period of arrival, and are numbered in a random order.
        units = random.permutation(int(firsts[-1]))[units]
        by = np.lexsort([drawn[str(self.schema.unit.order)], units])[:wanted]
        _, numbers = np.unique(units[by], return_inverse=True)
        return replace(drawn.take(by), units=numbers.astype(np.int64) + 1)

    def _arrivals(self) -> NDArray[np.float64]:
        """How many arrive in each period, for the first time and again; somebody does, whatever noise says."""
        found = self.steps.total * self.steps.marginal((str(self.schema.unit.order), ARRIVAL))
        found[:, FIRST] = np.maximum(found[:, FIRST], FEWEST)
        return found

    def _careers(self, share: float, random: Generator) -> Codes:
        """All careers of a population of this share of the measured one; units are numbered from 0 on."""
        order, fixed, changing = str(self.schema.unit.order), fixed_columns(self.schema), changing_columns(self.schema)
        arrivals = share * self._arrivals()
        last: dict[str, Ints] = {name: np.zeros(0, dtype=np.int64) for name in (*fixed, *changing)}
        present, gone, people = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), 0
        rows: list[Codes] = []
        for period in range(self.schema[order].size):
            new = people + np.arange(_rounded(arrivals[period, FIRST], random))
            people += len(new)
            last = {name: np.append(column, np.zeros(len(new), dtype=np.int64)) for name, column in last.items()}
            wanted = min(_rounded(arrivals[period, AGAIN], random), len(gone))
            back = random.permutation(gone)[:wanted]
            came = []
            for arrival, units in ((FIRST, new), (AGAIN, back), (HERE, present)):
                known = {order: np.full(len(units), period), ARRIVAL: np.full(len(units), arrival)}
                known |= {
                    before(n): last[n][units] if arrival == HERE else np.full(len(units), self.schema[n].size)
                    for n in changing
                }
                if arrival != FIRST:
                    known |= {n: last[n][units] for n in fixed}
                drawn, lawful = self.steps.complete(known, len(units), random)
                drawn, units = drawn.take(lawful), units[lawful]  # for whom no row is lawful has left
                for name in last:
                    last[name][units] = drawn[name]
                rows.append(replace(drawn.project(self.schema.names), schema=self.schema, units=units))
                came.append((units, units[drawn[NEXT] == STAYS]))
            gone = np.concatenate([gone, present, *(units for units, _ in came)])
            present = np.concatenate([staying for _, staying in came])
            gone = np.setdiff1d(gone, present)
        return Codes.concatenate(rows)

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of columns within one period; transitions are kept too, but are no tables of rows."""
        inside = (tuple(n for n in clique if n in self.schema) for clique in self.steps.kept_tables())
        return tuple(names for names in inside if names)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state of the model of steps."""
        return self.steps.state()

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        return cls(schema, GraphModel.from_state(step_schema(schema), facts, arrays))


def transitions(schema: Schema) -> list[tuple[str, ...]]:
    """The tables of steps that careers need: every column with itself before, arrivals and departures by period."""
    order = str(schema.unit.order)
    return [*((name, before(name)) for name in changing_columns(schema)), (order, ARRIVAL), (order, NEXT)]


def step_pairs(schema: Schema) -> list[tuple[str, ...]]:
    """The pairs of steps that are drawn: not those of two columns before, which are always given."""
    past = {before(name) for name in changing_columns(schema)}
    return [pair for pair in combinations(step_schema(schema).names, 2) if not set(pair) <= past]


def pool_far_moves(evidence: Sequence[Evidence], schema: Schema) -> list[Evidence]:
    """Transitions of ordered columns, in which moves of many levels are known by their sum.

    Nearly everybody stays or moves by a level or two. The other cells hold hardly anything but noise, of which only sums can
    tell something: of each level before, how many move further up, or further down. They are spread over the levels so that
    one level more is so many times as rare as all levels before together say (`_fading`).
    """
    pooled = []
    for table in evidence:
        name, *rest = table.attributes
        size = table.values.shape[0]
        if rest != [before(name)] or size < LEVELS or not schema[name].domain.ordered:
            pooled.append(table)
            continue
        values, (now, was) = table.values.copy(), np.indices(table.values.shape)
        up = np.subtract(now, was)
        for far in (np.greater(up, NEAR), np.less(up, -NEAR) & np.less(was, size)):
            some = far.any(axis=0)
            weights = np.where(far, _fading(values, far, up) ** (np.abs(up) - NEAR - 1), 0.0)[:, some]
            sums = (values * far).sum(axis=0)[some] / weights.sum(axis=0)
            values[:, some] = np.where(far[:, some], weights * sums, values[:, some])
        pooled.append(replace(table, values=values))
    return pooled


def _fading(values: NDArray[np.float64], far: NDArray[np.bool_], up: NDArray[np.int64]) -> float:
    """How many times as many move by one level more, beyond those that are near: between `LEAST` and 1.

    For numbers that fade by the factor r, those of the 2nd to 6th level are r times those of the 1st to 5th together. Seen in
    the levels before that have so many beyond.
    """
    beyond = np.where(far, np.abs(up) - NEAR - 1, -1)
    reach = min(REACH, (len(values) - NEAR - 1) // 2)
    whole = np.where(beyond.max(axis=0) >= reach, beyond, -1)
    first = float(values[(whole >= 0) & (whole < reach)].sum())
    later = float(values[(whole >= 1) & (whole <= reach)].sum())
    return min(1.0, max(LEAST, later / first)) if first > 0 else 1.0


def _units(rows: Codes) -> Ints:
    assert rows.units is not None
    return rows.units


def _people(rows: Codes) -> int:
    return int(_units(rows).max(initial=-1)) + 1


def _rounded(expected: float, random: Generator) -> int:
    """A whole number that is `expected` on average."""
    return int(expected + random.random())
