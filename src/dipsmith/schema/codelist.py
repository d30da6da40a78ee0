"""Code lists: the public lists of values that are too long to write into a schema file.

A code list is a csv file (UTF-8; comma, semicolon or tab) with a header. Column ``code`` holds the values; column
``collapse``, or ``label`` when there is no ``collapse``, the label under which each is released when the schema says
``collapse: {file: …}``. Other columns are not read. Spaces around values are dropped, as everywhere.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dipsmith.errors import SchemaError
from dipsmith.schema.domain import MAX_VALUES
from dipsmith.schema.markup import read_text

MAX_BYTES = 200_000_000


@dataclass(frozen=True)
class CodeList:
    """Values in the order of the file, and the label of each where the file gives one."""

    codes: tuple[str, ...]
    labels: tuple[str, ...] | None

    @classmethod
    def read(cls, path: Path) -> CodeList:
        """Read a code list; every problem is one line that names the file and the line."""
        text = read_text(path, "code list", MAX_BYTES)
        delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
        rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            header = [name.strip().lower() for name in next(rows, [])]
            if "code" not in header:
                # Not quoted: it may be a private table, given in the code list's place.
                raise SchemaError(
                    f"{path}: the first line must name a column 'code', as a code list does; it has "
                    f"{len(header)} other column{'' if len(header) == 1 else 's'}"
                )
            at = header.index("code")
            label = next((header.index(name) for name in ("collapse", "label") if name in header), None)
            codes: list[str] = []
            labels: list[str] = []
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise SchemaError(
                        f"{path}, line {rows.line_num}: {len(row)} fields, the header has {len(header)}"
                    )
                codes.append(row[at].strip(" "))
                labels.append(row[label].strip(" ") if label is not None else "")
                if len(codes) > MAX_VALUES:
                    raise SchemaError(f"{path}: more than {MAX_VALUES:,} values; list groups instead")
        except csv.Error as error:
            raise SchemaError(
                f"{path}, line {rows.line_num}: not readable as csv ({error}); check the quotes"
            ) from None
        if not codes:
            raise SchemaError(f"{path}: the code list has no values below its header")
        return cls(tuple(codes), tuple(labels) if label is not None else None)
