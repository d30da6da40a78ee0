"""Merging rare labels, by the frequencies of a *public* table.

Which labels are rare in the private rows is itself private: a label that is merged, or not, because
of one person tells of that person with certainty. (Merging by the private frequencies of the year at
hand is common practice and has no finite ε.) So the frequencies come from a table that is public
anyway: last decade's census, a published code list with counts, an earlier release.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Categories
from dipsmith.schema.markup import read_text
from dipsmith.schema.rules import Rule, in_words

if TYPE_CHECKING:
    from dipsmith.schema.schema import Schema


RARE = "(rare)"
"""The label of all that is rare."""

LONGEST_TABLE = 200_000_000
"""Bytes of a table of public counts at most."""


def merge_rare(schema: Schema, public: object, thresholds: Mapping[str, int], label: str = RARE) -> Schema:
    """Merge the labels that have fewer rows than a threshold in a **public** table into one label.

    The table is anything with an Arrow stream (pandas, polars, pyarrow), or a mapping of arrays.

    Privacy
    -------
    Never give the private rows here. Whether a label reaches the threshold would then depend on single persons, and
    the shape of every release would tell it: no ε covers that. Nothing in this method can check it, so the steward
    states where the frequencies come from; the result carries a note that every card repeats.

    Examples
    --------
    >>> from dipsmith.schema import Schema, Unit
    >>> s = Schema("t", (Attribute("job", "string", Categories.of("abcd", other="d")),), Unit(), "replace")
    >>> s.collapse({"job": ["a"] * 9 + ["b", "c"]}, {"job": 5})["job"].labels
    ('a', '(rare)')
    """
    table, merged = _table(public), dict[str, Attribute]()
    notes = list(schema.notes)
    for name, threshold in thresholds.items():
        attribute = schema[name]
        if not isinstance(attribute.domain, Categories) or attribute.type == "boolean":
            raise SchemaError(f"column '{name}' is not a list of categories; choose wider bins instead of collapsing")
        if threshold < 1:
            raise UsageError(f"column '{name}': the threshold must be at least 1, got {threshold}")
        rare = set(np.flatnonzero(_frequencies(attribute.domain, _column(table, name)) < threshold).tolist())
        if len(rare) > 1:
            merged[name] = _merge(attribute, rare, label)
            notes.append(
                f"{len(rare)} labels of {name} with fewer than {threshold} rows in a public table are merged into {label}"
            )
    if not merged:
        return schema
    attributes = tuple(merged.get(a.name, a) for a in schema.attributes)
    new = replace(schema, attributes=attributes, rules=(), notes=tuple(notes))
    rules = (_translate(rule, schema, new) for rule in schema.rules)
    return replace(new, rules=tuple(rule for rule in rules if rule is not None))


def rare_values(column: str, values: Sequence[str], other: str | None, counts: Path, threshold: int) -> dict[str, str]:
    """Which values of a column are released as `RARE`: those with fewer rows than a threshold in a **public** file.

    The file is csv with a header: columns `code` and `count`, or any public table with a column of this name, whose rows are
    counted. One rare value alone stays what it is.
    """
    if threshold < 1:
        raise SchemaError(f"collapse.rare must be at least 1, got {threshold}")
    found = _public_counts(counts, column)
    listed = set(values)
    often = Counter({value: found[value] for value in values})
    if other is not None:
        often[other] += sum(n for value, n in found.items() if value and value not in listed)
    rare = [value for value in values if often[value] < threshold]
    if len(rare) > 1 and RARE in listed:
        raise SchemaError(f"enum has '{RARE}', the label of merged values; rename it")
    return dict.fromkeys(rare, RARE) if len(rare) > 1 else {}


def _public_counts(path: Path, column: str) -> Counter[str]:
    text = read_text(path, "table of public counts", LONGEST_TABLE)
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found = Counter[str]()
    try:
        header = [name.strip() for name in next(rows, [])]
        listed = "code" in header and "count" in header
        if not listed and column not in header:
            raise SchemaError(
                f"{path}: expected columns 'code' and 'count', or a column '{column}' to count; it has neither"
            )
        at = header.index("code" if listed else column)
        for row in filter(None, rows):
            if len(row) != len(header):
                raise SchemaError(f"{path}, line {rows.line_num}: {len(row)} fields, the header has {len(header)}")
            number = row[header.index("count")].strip() if listed else "1"
            if not (number.isascii() and number.isdigit() and len(number) < 19):
                raise SchemaError(f"{path}, line {rows.line_num}: column 'count' must hold whole numbers")
            found[row[at].strip(" ")] += int(number)
    except csv.Error as error:
        raise SchemaError(f"{path}, line {rows.line_num}: not readable as csv ({error}); check the quotes") from None
    return found


def _table(public: object) -> Any:
    """A public table in memory as a `pyarrow.Table`."""
    import pyarrow as pa

    if hasattr(public, "__arrow_c_stream__"):
        return pa.table(public)
    if isinstance(public, Mapping):
        return pa.table(dict(public))
    raise UsageError(f"expected a table (pandas, polars, pyarrow, or a dict of arrays), got {type(public).__name__}")


def _column(table: Any, name: str) -> Any:
    """One column of a table as Arrow text."""
    import pyarrow as pa

    if name not in table.column_names:
        raise SchemaError(f"column '{name}' is not in the public table; it has: {', '.join(table.column_names)}")
    column = table.column(name)
    return column.cast(pa.string()) if not pa.types.is_dictionary(column.type) else column


def _frequencies(domain: Categories, column: Any) -> NDArray[np.int64]:
    """Rows of the public table per label; values outside the list count for `other`."""
    import pyarrow.compute as pc

    code = dict(zip(domain.values, domain.codes, strict=True))
    counts = np.zeros(len(domain.labels), dtype=np.int64)
    for entry in pc.value_counts(column).to_pylist():
        value = "" if entry["values"] is None else str(entry["values"]).strip(" ")
        at = code.get(value, domain.other if value else None)
        if at is not None:
            counts[at] += entry["counts"]
    return counts


def _merge(attribute: Attribute, rare: set[int], label: str) -> Attribute:
    domain = attribute.domain
    assert isinstance(domain, Categories)
    if label in domain.labels:
        raise SchemaError(f"column '{attribute.name}' has a label '{label}' already; give another with label=")
    labels = [label if code in rare else old for code, old in enumerate(domain.labels)]
    new = {value: labels[code] for value, code in zip(domain.values, domain.codes, strict=True)}
    made = Categories.of(domain.values, new, missing=domain.missing)
    other = None if domain.other is None else made.labels.index(labels[domain.other])
    return replace(attribute, domain=replace(made, other=other))


def _translate(rule: Rule, old: Schema, new: Schema) -> Rule | None:
    """Restate a rule in new codes; a merged label is ruled out only if all that it stands for was."""
    never = []
    for name, codes in rule.never:
        before, after = old[name].domain, new[name].domain
        if before is not after and isinstance(before, Categories) and isinstance(after, Categories):
            numbers = np.full(before.size, after.size - 1)  # the new code of every old code; missing is the last
            numbers[list(before.codes)] = after.codes
            allowed = set(np.delete(numbers, list(codes)).tolist())
            codes = tuple(sorted(set(numbers[list(codes)].tolist()) - allowed))
        never.append((name, codes))
    if not all(codes for _, codes in never):
        return None
    return Rule(tuple(never), " and ".join(in_words(new[name], codes) for name, codes in never))
