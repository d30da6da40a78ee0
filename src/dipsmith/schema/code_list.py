"""Code lists: public lists of values that are too long for a schema file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from dipsmith.errors import SchemaError
from dipsmith.schema.domain import MAX_VALUES
from dipsmith.schema.markup import read_text

LONGEST_LIST = 200_000_000
"""Bytes of a code list at most."""


@dataclass(frozen=True)
class CodeList:
    """A public list of values that is too long for a schema file: values in order, and the label of each if there is one.

    A csv file (UTF-8; comma, semicolon or tab) with a header. Column ``code`` holds the values; column ``collapse``, or
    ``label`` when there is no ``collapse``, the label under which each is released when the schema says
    ``collapse: {file: …}``. Other columns are read where a schema asks for them (`columns`): larger places, totals. Spaces around values are dropped, as everywhere.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...] | None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, columns: Sequence[str] = ()) -> CodeList:
        """Read a code list; every problem is one line that names the file and the line."""
        text = read_text(path, "code list", LONGEST_LIST)
        delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
        rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            header = [name.strip().lower() for name in next(rows, [])]
            if "code" not in header:
                # Not quoted: it may be a private table, given in the code list's place.
                others = f"{len(header)} other column{'' if len(header) == 1 else 's'}"
                raise SchemaError(
                    f"{path}: the first line must name a column 'code', as a code list does; it has {others}"
                )
            at = header.index("code")
            label = next((header.index(name) for name in ("collapse", "label") if name in header), None)
            for name in (c for c in columns if c.strip().lower() not in header):
                raise SchemaError(f"{path} has no column '{name}' beside 'code'; add it")
            places = {name: header.index(name.strip().lower()) for name in columns}
            codes, labels, found = list[str](), list[str](), {name: list[str]() for name in columns}
            for row in filter(None, rows):
                if len(row) != len(header):
                    raise SchemaError(f"{path}, line {rows.line_num}: {len(row)} fields, the header has {len(header)}")
                codes.append(row[at].strip(" "))
                labels.append(row[label].strip(" ") if label is not None else "")
                for name, place in places.items():
                    found[name].append(row[place].strip(" "))
                if len(codes) > MAX_VALUES:
                    raise SchemaError(f"{path}: more than {MAX_VALUES:,} values; list groups instead")
        except csv.Error as error:
            where = f"{path}, line {rows.line_num}"
            raise SchemaError(f"{where}: not readable as csv ({error}); check the quotes") from None
        if not codes:
            raise SchemaError(f"{path}: the code list has no values below its header")
        return cls(tuple(codes), tuple(labels) if label is not None else None, {n: tuple(f) for n, f in found.items()})
