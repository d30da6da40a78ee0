"""What is taken for public: it is not the confidential table, and its values are on the schema's lists.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dipsmith.codec.parse import texts
from dipsmith.errors import UnlistedValues, UsageError
from dipsmith.methods.catalogue import given_public
from dipsmith.methods.method import Method
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.schema.domain import Categories
from dipsmith.sources import Source
from dipsmith.sources.fingerprint import fingerprints
from dipsmith.sources.source import companion
from dipsmith.synthesis.column_map import MappedRows


@dataclass(frozen=True)
class PublicInput:
    """Something that is used as public: its name, what tells it from others, and whether its cost is charged."""

    what: str
    marks: frozenset[str]
    paid: bool = False


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
        known = () if ledger is None or one.paid else ledger.charged_for(one.marks)
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
