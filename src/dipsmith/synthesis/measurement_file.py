"""The file of noisy measurements: one row per noisy number, for whoever reads Parquet.

`measurements.parquet` repeats on every row what is known of its table, so that nothing but a reader of Parquet is
needed; `measurements.md` says what the columns mean. Tables stand in the order in which the run asked for them, a
function of public facts and of answers that were paid for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import resources
from math import prod
from pathlib import Path
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dipsmith.estimation.measured_table import Kind, MeasuredTable, labels_within
from dipsmith.privacy.budget import budget_in, decimal_text
from dipsmith.schema import Condition, Conditions, Schema
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.writing import damage

FILE: Final = "measurements.parquet"
PAGE: Final = "measurements.md"
BY: Final = "by_"
"""How the columns of labels begin: no other column does."""
TIMES: Final = " × "
MOST_CELLS: Final = 1 << 62
MOST_GROUPS: Final = 1 << 28
"""A file that promises more groups than this is damaged."""

_OF_TABLE: Final = {
    "table": pa.int64(),
    "name": pa.string(),
    "kind": pa.string(),
    "attributes": pa.string(),
    "shape": pa.string(),
    "block": pa.string(),
    "law": pa.string(),
    "currency": pa.string(),
    "budget": pa.string(),
    "weight": pa.string(),
    "threshold": pa.int64(),
    "in_group": pa.int64(),
    "single": pa.bool_(),
    "table_variance": pa.float64(),
}
_OF_NUMBER: Final = {
    "cell": pa.int64(),
    "value": pa.int64(),
    "variance": pa.float64(),
    "derived": pa.bool_(),
    "group": pa.int64(),
    "group_total": pa.int64(),
}


TOGETHER = 1 << 16
"""Rows of the file that are made and written together."""


def arrow_table(measured: Sequence[MeasuredTable]) -> pa.Table:
    """All noisy numbers as one table."""
    columns = _schema(measured)
    return pa.concat_tables([columns.empty_table(), *_pieces(measured, columns)])


def write_measurements(out: Exit, measured: Sequence[MeasuredTable]) -> None:
    """Write the file and its page; neither where nothing was measured or it is not known."""
    if measured:
        columns = _schema(measured)
        out.rows(FILE, _pieces(measured, columns), columns)
        out.text(PAGE, resources.files("dipsmith.synthesis").joinpath(PAGE).read_text("utf-8"))


def read_measurements(folder: Path, schema: Schema) -> tuple[MeasuredTable, ...]:
    """The measurements of a release folder; none in one of a version that did not write them."""
    file = folder / FILE
    if not file.is_file():
        return ()
    try:
        held = pq.read_table(file, memory_map=True)
        number = held.column("table").to_numpy()
        ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)] if len(number) else []
        starts = [0, *ends[:-1]]
        return tuple(_read(held.slice(a, b - a), schema) for a, b in zip(starts, ends, strict=True))
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError):
        raise damage(f"'{FILE}' is not a file of measurements that this version can read") from None


def _schema(measured: Sequence[MeasuredTable]) -> pa.Schema:
    """Facts of the table, labels of the cell, the number."""
    used = dict.fromkeys(n for table in measured for n in (*dict(table.within), *table.attributes))
    labels = {f"{BY}{name}": pa.string() for name in used}
    return pa.schema([pa.field(n, kind) for n, kind in (*_OF_TABLE.items(), *labels.items(), *_OF_NUMBER.items())])


def _pieces(measured: Sequence[MeasuredTable], columns: pa.Schema) -> Iterator[pa.Table]:
    """The rows of every table, a few at a time: the facts of a table are repeated in each of its rows."""
    for i, table in enumerate(measured, start=1):
        n, facts, conditions = len(table.values), _facts(table, i), table.conditions
        numbers = _numbers(table) if n else {name: pa.nulls(1, kind) for name, kind in _OF_NUMBER.items()}
        # A table of which nothing was kept has one row that says so.
        for start in range(0, max(n, 1), TOGETHER):
            rows = min(TOGETHER, max(n, 1) - start)
            made = {name: pa.repeat(pa.scalar(value, _OF_TABLE[name]), rows) for name, value in facts.items()}
            made |= {name: column.slice(start, rows) for name, column in numbers.items()}
            for name in (c for c in columns.names if c.startswith(BY)):
                condition = conditions.get(name.removeprefix(BY))
                silent = condition is None or not n
                made[name] = (
                    pa.nulls(rows, pa.string()) if silent else _texts(conditions[name.removeprefix(BY)], start, rows)
                )
            yield pa.table([made[name] for name in columns.names], schema=columns)


def _facts(table: MeasuredTable, number: int) -> dict[str, object]:
    return {
        "table": number,
        "name": table.name,
        "kind": table.kind,
        "attributes": json.dumps(table.attributes, ensure_ascii=False),
        "shape": TIMES.join(map(str, table.shape)),
        "block": table.block,
        "law": table.law,
        "currency": table.budget.currency,
        "budget": decimal_text(table.budget.units),
        "weight": table.weight or None,
        "threshold": table.threshold,
        "in_group": table.in_group or None,
        "single": table.single,
        "table_variance": table.variance,
    }


def _numbers(table: MeasuredTable) -> dict[str, pa.Array]:
    groups = table.groups
    nothing = pa.nulls(len(table.values), pa.int64())
    return {
        "cell": pa.array(table.cells),
        "value": pa.array(table.values),
        "variance": pa.array(np.where(table.noisy, table.variance, 0.0)),
        "derived": pa.array(table.derived),
        "group": nothing if groups is None else pa.array(groups),
        "group_total": nothing if groups is None or table.totals is None else pa.array(table.totals[groups]),
    }


def _texts(condition: Condition, start: int, rows: int) -> pa.Array:
    """The words of a condition for some cells, nothing where any value will do."""
    some = condition.places[start : start + rows]
    return pa.array(condition.words, pa.string()).take(pa.array(some.astype(np.int32), mask=some < 0))


def _read(held: pa.Table, schema: Schema) -> MeasuredTable:
    """One table back from its rows."""
    facts = {name: held.column(name)[0].as_py() for name in _OF_TABLE}
    empty = held.column("value").null_count > 0
    held = held.slice(0, 0) if empty else held
    cells, values = (held.column(name).to_numpy().astype(np.int64) for name in ("cell", "value"))
    shape = tuple(int(n) for n in facts["shape"].split(TIMES)) if facts["shape"] else ()
    in_group = facts["in_group"] or 0
    attributes = tuple(json.loads(facts["attributes"]))
    size = prod(shape)
    if len(cells) and not 0 <= cells[0] <= cells[-1] < size <= MOST_CELLS:
        raise ValueError
    return MeasuredTable(
        name=facts["name"],
        attributes=attributes,
        kind=cast("Kind", facts["kind"]),
        shape=shape,
        block=facts["block"],
        cells=cells,
        values=values,
        noisy=held.column("variance").to_numpy() > 0 if facts["table_variance"] > 0 else np.ones(len(values), bool),
        variance=facts["table_variance"],
        law=facts["law"],
        budget=budget_in(facts["currency"], facts["budget"]),
        demands=partial(_conditions, held, attributes, schema),
        in_group=in_group,
        totals=_totals(held, size // in_group) if in_group else None,
        single=facts["single"],
        threshold=facts["threshold"],
        weight=facts["weight"] or "",
        within=labels_within(facts["block"], schema),
    )


def _totals(held: pa.Table, groups: int) -> NDArray[np.int64]:
    """The public totals of all groups: 0 where no number is told."""
    if groups > MOST_GROUPS:
        raise ValueError
    totals = np.zeros(groups, dtype=np.int64)
    totals[held.column("group").to_numpy()] = held.column("group_total").to_numpy()
    return totals


def _conditions(
    held: pa.Table, attributes: Sequence[str], schema: Schema, places: NDArray[np.int64] | None
) -> Conditions:
    """Labels as places among those of the schema, or among those that occur."""
    found = {}
    held = held.select([f"{BY}{name}" for name in attributes])
    held = held if places is None else held.take(pa.array(places))
    for name in attributes:
        texts = held.column(f"{BY}{name}").combine_chunks()
        words = schema[name].labels if name in schema else ()
        seen = pc.unique(texts.drop_null()).to_pylist()
        words = words if set(seen) <= set(words) else tuple(seen)
        places = pc.fill_null(pc.index_in(texts, pa.array(words, pa.string())), -1).to_numpy(zero_copy_only=False)
        found[name] = Condition(words, places.astype(np.int32))
    return found
