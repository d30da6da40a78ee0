"""Public facts: what a plan may read of the file, and public tables given beside the private one.

A public table to grow on or to start from, a code list, public counts or totals cost nothing and are used exactly. If one of
them were the confidential file, exact facts of single persons would be released for free.

*Privacy.* Compares fingerprints, before anything is charged, and quotes no value. Whoever holds the whole table already
learns from the refusal that it is this one, and nobody else learns anything. A copy that was changed is another file: that it
is public is the steward's word.

Values that a schema does not list count as the schema says (`other`), and nothing fails: but a code list whose leading
zeros a spreadsheet has eaten turns a whole column into `other`, and every label drawn from it is worth less. Public
files are looked at, and it is said.

*Privacy.* Reads a file that is taken for public, after it was held against the confidential one; never confidential
rows. Should it be given some nevertheless, it quotes no value and tells no number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import texts
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SourceError, UnlistedValues, UsageError
from dipsmith.methods.catalogue import given_public
from dipsmith.methods.method import Method, PublicFacts
from dipsmith.methods.public_table import PublicTable
from dipsmith.planning.plan import Plan
from dipsmith.planning.plan import plan as plan_order
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Codes, Schema, Unit
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.domain import Categories
from dipsmith.schema.formula.tree import quote
from dipsmith.sources import Source, source
from dipsmith.sources.fingerprint import fingerprints
from dipsmith.sources.source import companion
from dipsmith.synthesis.column_map import MappedRows, map_columns, require_factors
from dipsmith.synthesis.natural_inputs import (
    MethodLike,
    SchemaLike,
    understand_budget,
    understand_method,
    understand_schema,
)
from dipsmith.synthesis.planned import forecast_labels, ready_method


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
    analyses: Sequence[PlannedAnalysis | str] = (),
) -> Plan:
    """What `synthesize` would ask and spend, and what can be expected of it; free, and reads no private value.

    `rows` is how many rows the table has, where that is public; under `label`, `data` is the file, whose public columns are
    read. `analyses` are planned beside those of the schema; `Plan.analyses` says how precise each coefficient will be.

    >>> from dipsmith.examples import voters
    >>> from dipsmith.privacy.budget import PureDP
    >>> plan(voters.schema(), "mst", PureDP(1), rows=10_000).method
    'mst'
    >>> found = plan(voters.schema(), "mst", PureDP(1), rows=10_000, analyses=["voted ~ college_degree"])
    >>> print(str(found.analyses).splitlines()[0])
    voted ~ college_degree: college_degree ± 0.12
    """
    declared, amount = understand_schema(schema), understand_budget(budget)
    chosen, given = understand_method(method, declared), None if data is None else source(data)
    require_apart(declared, [given], None, chosen)
    facts = public_facts(declared, given, rows)
    asked = tuple(PlannedAnalysis.of(a) for a in (*declared.analyses, *analyses))
    chosen = ready_method(chosen, asked, declared, amount)
    by_labels = asked and given is not None and declared.neighbours == "label"
    forecast = forecast_labels(asked, declared, given, amount) if by_labels else None
    return plan_order(declared, chosen, amount, public=facts, sets=sets, each=each, analyses=asked, forecast=forecast)


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


@dataclass(frozen=True)
class PublicInput:
    """Something that is used as public: its name, what tells it from others, and whether its cost is charged."""

    what: str
    marks: frozenset[str]
    is_charged: bool = False


def require_apart(
    schema: Schema, private: Sequence[Source | None], ledger: Ledger | None, method: Method | None = None
) -> None:
    """Refuse a schema that was read from confidential files, or a method that was given some as its public table."""
    tried = getattr(method, "candidates", None)
    methods = [] if method is None else [method, *(tried if isinstance(tried, tuple) else ())]
    tables = [table for table in map(given_public, methods) if table is not None]
    named = [PublicInput(name, frozenset([digest])) for name, digest in schema.named_files]
    given = [PublicInput(table.what, table.source, table.cost is not None) for table in tables]
    require_public([*named, *given], private, ledger)


def require_public(given: Iterable[PublicInput], private: Sequence[Source | None], ledger: Ledger | None) -> None:
    """Refuse what is the confidential table or one of its files, or what the ledger was charged for as confidential."""
    marked = [one for one in given if one.marks]
    own = frozenset[str]().union(*(fingerprints(rows) for rows in private if rows is not None and marked))
    for one in marked:
        if one.marks & own:
            raise UsageError(
                f"{one.what} is taken for public, but is the confidential one itself, or a file of it; give a public one, or "
                "leave it out"
            )
        known = () if ledger is None or one.is_charged else ledger.charged_for(one.marks)
        if known:
            raise UsageError(
                f"{one.what} is taken for public, but the ledger was charged for it as the confidential table '{known[0]}'; "
                "give a public one, or for a table beside the confidential one its cost (--public-epsilon, cost=)"
            )


FIRST = 100_000
"""Rows that are looked at: enough to see what happened to a column."""
MANY = 0.5
"""Shares above this are said: a list need not be complete."""


def warn_of_unlisted_values(rows: Source, schema: Schema) -> None:
    """Say of which columns most values of a public file are not on the schema's list."""
    listed = {a.name: a.domain for a in schema if a.name in rows.columns and a.type == "string"}
    domains = {name: domain for name, domain in listed.items() if isinstance(domain, Categories)}
    # An engine gives its rows in another order each time: it is not asked for some of them first.
    given = rows.rows if isinstance(rows, MappedRows) else rows
    if not domains or companion(given, "counter") is not None:
        return
    unlisted, told, seen = dict.fromkeys(domains, 0), dict.fromkeys(domains, 0), 0
    for batch in rows.batches(list(domains)):
        for name, domain in domains.items():
            column = batch.column(name)
            plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            found = texts(plain).drop_null().to_numpy(zero_copy_only=False)
            told[name] += len(found)
            unlisted[name] += int(np.count_nonzero(~np.isin(found.astype(str), domain.values)))
        seen += batch.num_rows
        if seen >= FIRST:
            break
    for name, count in unlisted.items():
        if count > MANY * told[name]:
            warnings.warn(
                f"{rows.describe()}: most values of '{name}' are not on the schema's list and count as values "
                "outside it; are they spelt otherwise there, such as codes that lost their leading zeros?",
                UnlistedValues,
                stacklevel=3,
            )
