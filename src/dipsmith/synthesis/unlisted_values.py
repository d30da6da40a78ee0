"""Values of a public file that its schema does not list.

They count as the schema says (`other`), and nothing fails: but a code list whose leading zeros a spreadsheet has eaten
turns a whole column into `other`, and every label drawn from it is worth less. Public files are looked at, and it is said.

*Privacy.* Reads a file that is taken for public, after it was held against the confidential one; never confidential rows. Should
it be given some nevertheless, it quotes no value and tells no number.
"""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa

from dipsmith.codec.parse import texts
from dipsmith.errors import UnlistedValues
from dipsmith.schema import Schema
from dipsmith.schema.domain import Categories
from dipsmith.sources import Source
from dipsmith.sources.source import companion
from dipsmith.synthesis.column_map import MappedRows

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
