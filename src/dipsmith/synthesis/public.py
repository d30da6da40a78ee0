"""Public facts: what a plan may read of the file, and public tables given beside the private one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dipsmith.codec.encode import Encoder
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SourceError, UsageError
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.public_table import PublicTable
from dipsmith.planning.plan import Plan
from dipsmith.planning.plan import plan as plan_order
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Codes, Schema, Unit
from dipsmith.schema.formula.tree import quote
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprints
from dipsmith.synthesis.column_map import map_columns, require_factors
from dipsmith.synthesis.natural_inputs import (
    MethodLike,
    SchemaLike,
    understand_budget,
    understand_method,
    understand_schema,
)
from dipsmith.synthesis.public_inputs import require_apart, warn_of_unlisted_values


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


def plan(
    schema: SchemaLike,
    method: MethodLike,
    budget: Budget,
    *,
    data: Any = None,
    rows: int | None = None,
    sets: int = 1,
    each: str | None = None,
) -> Plan:
    """What `synthesize` would ask and spend, and what can be expected of it; free, and reads no private value.

    `rows` is how many rows the table has, where that is public; under `label`, `data` is the file, whose public columns are
    read.

    >>> from dipsmith.examples import voters
    >>> from dipsmith.privacy.budget import PureDP
    >>> plan(voters.schema(), "mst", PureDP(1), rows=10_000).method
    'mst'
    """
    declared = understand_schema(schema)
    chosen, given = understand_method(method, declared), None if data is None else source(data)
    require_apart(declared, [given], None, chosen)
    facts = public_facts(declared, given, rows)
    return plan_order(declared, chosen, understand_budget(budget), public=facts, sets=sets, each=each)


def public_table(
    data: Any,
    schema: Schema,
    *,
    columns: Mapping[str, str] | None = None,
    scale: Mapping[str, float] | None = None,
    factors: Any = None,
    cost: Budget | None = None,
) -> PublicTable:
    """A public table (file, folder, glob or frame) to grow on or to start from, encoded by the private table's schema.

    `columns` says where its columns are named or scaled differently: the schema's name → its name, or arithmetic
    ({"pay": "basic_pay * 1.08"}); `scale` multiplies what is there ({"pay": 1.12}); `factors` is another public table of
    numbers by group, which arithmetic may use ({"pay": "basic_pay * ratio"}, `dipsmith.synthesis.column_map`); `cost` what
    the table cost in privacy, if it was made from the private rows: charged to every run. A ρ must be Gaussian; for a table
    that others made with ρ-zCDP alone there is none, for one with pure ε it is the smaller of πε²/4 and 4ε.

    ``Forest(targets=["sex"], public=public_table("dibbs.csv", schema, columns={"pay": "basic_pay"}))``,
    ``AIM(prior=public_table("last-year.csv", schema))``. Rows with a value that has no code are left out.
    """
    meanings = dict(columns or {})
    for name in (*meanings, *(scale or {})):
        schema[name]
    found = map_columns(data, meanings, factors)
    require_factors(found)
    if scale:
        found = map_columns(found, {name: f"{quote(name)} * {by!r}" for name, by in scale.items()})
    wanted = tuple(name for name in schema.names if name in found.columns)
    if not wanted:
        raise SourceError(f"{found.describe()}: it has no column of schema '{schema.name}'; say columns=")
    found.check(wanted)
    warn_of_unlisted_values(found, schema)
    encoder = Encoder(schema, wanted)
    parts = [codes.take(keep) for codes, keep in map(encoder.encode, found.batches(wanted))]
    if not sum(map(len, parts)):
        raise SourceError(f"{found.describe()}: it has no rows with values of the schema; check columns=")
    return PublicTable(Codes.concatenate(parts), cost, found.describe(), fingerprints(found))
