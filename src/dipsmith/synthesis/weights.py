"""Survey weights of a run: totals measured first, weights of drawn rows made to agree with them, and what the card says.

Proof: ``docs/proofs/weight-totals.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.errors import UsageError
from dipsmith.estimation.weights import SHARE, NoisyTotals, rake, split_budget, weighted_tables
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import NoisyAnswer
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Schema, WeightTotals
from dipsmith.synthesis.order import Order
from dipsmith.synthesis.sets import Sets, TableSets


def require_weighing(order: Order) -> None:
    """Refuse, while nothing is spent, runs whose weights could not be made to agree with their totals."""
    weight = next((one.weight for one in order.schema.tables if one.weight is not None), None)
    if weight is None:
        return
    if order.rows is not None:
        raise UsageError(
            f"column '{weight}' is a survey weight, whose totals are those of a population: leave rows out, and draw fewer "
            "rows from the saved model where weights do not matter"
        )
    if order.each == "split":
        raise UsageError(
            f"column '{weight}' is a survey weight, whose totals are measured once for all sets; use each='draw'"
        )
    tables = weighted_tables(order.schema, order.analyses)
    for table, cost in zip(tables, split_budget(order.budget, tables)[0], strict=True):
        WeightQuestion(table).price(str(order.schema.priced_as), order.schema.unit.max_rows, cost, "")


def measure_totals(curator: Curator, order: Order, budget: Budget) -> Budget:
    """Measure the weighted totals of a run; returns the budget that is left for the rows.

    Privacy
    -------
    Each table of totals costs its share: Δ₁ = kW or 2kW, with W the largest weight that the schema allows.
    """
    tables = weighted_tables(order.schema, order.analyses)
    if not tables:
        return budget
    each, rest = split_budget(budget, tables)
    curator.report("weighted totals", 0.0)
    own = curator.nested(budget.split([SHARE, 1 - SHARE])[0], "weights")
    for table, cost in zip(tables, each, strict=True):
        own.ask(WeightQuestion(table), cost)
    curator.report("weighted totals", 1.0)
    return rest


def totals_among(answers: Sequence[NoisyAnswer]) -> tuple[NoisyTotals, ...]:
    """The weighted totals among the answers of a run."""
    found = [a.measurement for a in answers if isinstance(a.measurement.cells, WeightTotals)]
    return tuple(noisy_totals(m.cells, m.values, m.variance) for m in found if isinstance(m.cells, WeightTotals))


def noisy_totals(cells: WeightTotals, steps: NDArray[np.int64], variance: float) -> NoisyTotals:
    """Totals that were drawn in whole steps, in the unit of the weight."""
    return NoisyTotals(cells, np.asarray(steps * cells.step, np.float64), variance * cells.step**2)


def weigh_sets(made: Sets, totals: Sequence[NoisyTotals], schema: Schema) -> Sets:
    """The sets of a run with weights that agree with its totals."""
    if not totals:
        return made
    assert isinstance(made, TableSets)
    members = tuple(weigh(table, totals, schema.tables[-1]) for table in made.members)
    return TableSets(tuple(weigh(table, totals, schema) for table in made.tables), members, made.names)


def weigh(table: pa.Table, totals: Sequence[NoisyTotals], schema: Schema) -> pa.Table:
    """One set with weights that agree with totals; its other columns stay. `schema` reads the set's own values."""
    totals = [t for t in totals if t.cells.schema.name == schema.name]
    if not totals:
        return table
    name = str(schema.weight)
    codes, _ = Encoder(schema, [n for n in schema.names if n != name]).encode(table)
    at = table.column_names.index(name)
    kind = table.schema.field(at).type
    raked = rake(codes, table.column(at).to_numpy().astype(np.float64), totals)
    return table.set_column(at, name, pa.array(raked).cast(kind))


def weight_notes(schema: Schema) -> tuple[str, ...]:
    """What the card says of survey weights."""
    weights = [one.weight for one in schema.tables if one.weight is not None]
    fit = "" if schema.members is not None else f"ds.fit(…, weights='{schema.weight}'), "
    return tuple(
        f"{weight} is a survey weight, drawn as a column like any other and then made to agree with noisy weighted "
        "totals, as far as their noise allows. Counts and figures of this release are of rows: nothing is weighted unless it "
        f"says so. To weigh, use the column: {fit}ds.weighted_totals(…)."
        for weight in weights
    )
