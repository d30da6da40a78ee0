"""Public facts: what a plan may read of the file, and public tables given beside the private one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import numbers
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SourceError, UsageError
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Codes, Schema, Unit
from dipsmith.sources import source


def public_facts(schema: Schema, data: Any = None, rows: int | None = None) -> PublicFacts:
    """The public facts that a plan is made from.

    Privacy
    -------
    Under `label`, reads the public columns of `data`; its private columns and unit column are never
    read (rows beyond `max_rows` are therefore not left out: the plan is for at least as many rows as will
    count). Under other relations nothing of `data` is public, and giving it is refused.
    """
    if data is None:
        return PublicFacts(rows=schema.known_rows if rows is None else rows)
    if schema.neighbours != "label":
        raise UsageError(
            f"under neighbours '{schema.neighbours}' a plan reads no file: leave it out, and give --rows if n is public"
        )
    visible = replace(schema.project(schema.public), unit=Unit())
    found = source(data)
    found.check(visible.names)
    codes, multiplicities = rows_of(found, visible).distinct_public(visible.names)
    return PublicFacts(rows=int(multiplicities.sum()), public_rows=(codes, multiplicities))


def public_table(
    data: Any,
    schema: Schema,
    *,
    columns: Mapping[str, str] | None = None,
    scale: Mapping[str, float] | None = None,
    cost: Budget | None = None,
) -> PublicTable:
    """A public table (file, folder, glob or frame) for a forest to grow on, encoded by the private table's schema.

    `columns` says where its columns are named differently: the schema's name → its name ({"pay": "basic_pay"}); `scale`
    where its numbers are scaled differently: what to multiply them with ({"pay": 1.12}); `cost` what the table cost in
    privacy, if it was made from the private rows: charged to every run.

    ``Forest(targets=["sex"], public=public_table("dibbs.csv", schema, columns={"pay": "basic_pay"}))``
    """
    found = source(data)
    named = {name: (columns or {}).get(name, name) for name in schema.names}
    for name in (*(columns or {}), *(scale or {})):
        schema[name]
    wanted = {name: there for name, there in named.items() if there in found.columns}
    if columns and (absent := [there for name, there in named.items() if name in columns and name not in wanted]):
        has = ", ".join(found.columns[:12])
        raise SourceError(f"{found.describe()}: there is no column '{absent[0]}'; it has: {has}")
    if not wanted:
        raise SourceError(f"{found.describe()}: it has no column of schema '{schema.name}'; say columns=")
    found.check(tuple(wanted.values()))
    encoder = Encoder(schema, tuple(wanted))
    parts = [encoder.encode(_renamed(batch, wanted, scale or {}))[0] for batch in found.batches(tuple(wanted.values()))]
    if not parts:
        raise SourceError(f"{found.describe()}: it has no rows to grow on")
    return PublicTable(Codes.concatenate(parts), cost, found.describe())


def _renamed(batch: pa.RecordBatch, wanted: Mapping[str, str], scale: Mapping[str, float]) -> pa.Table:
    made = {}
    for name, there in wanted.items():
        column = batch.column(there)
        if name in scale:
            plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            values, known = numbers(plain)
            column = pa.array(values * scale[name], mask=None if known is None else ~known)
        made[name] = column
    return pa.table(made)
