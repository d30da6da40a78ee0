"""A table as Stata and SPSS hold it: numbers and texts, names that they allow, labels of columns and of values.

Columns of listed labels become the numbers 1, 2, … in the schema's order with the labels beside them; dates become days
and times milliseconds or seconds in the program's own calendar. The label of a column is its title, else its name as
the schema has it. All of it follows from the schema and the released values; `dipsmith.synthesis.exit` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import MissingExtraError
from dipsmith.schema import Attribute, Categories, Schema
from dipsmith.synthesis.writing import damage

ENDINGS: Final = ("dta", "sav")
LARGEST: Final = 2.0**1022
"""Beyond it Stata has no numbers, and neither program has an infinite one: they are missing there."""
_UNIX: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class Dialect:
    """What differs between the two programs."""

    name_length: int
    text_length: int
    label_length: int
    day: str
    moment: str
    ticks: int
    """Of a moment, in a second."""
    ticks_of_a_day: int
    first_day: int
    """The first day of its calendar, in days since 1970."""


DIALECTS: Final = {
    "dta": Dialect(32, 32_000, 80, "%td", "%tc", 1000, 1, (date(1960, 1, 1) - _UNIX).days),
    # A calendar of seconds in which a date is midnight.
    "sav": Dialect(64, 120, 255, "DATE11", "DATETIME23.3", 1, 86_400, (date(1582, 10, 14) - _UNIX).days),
}


@dataclass(frozen=True)
class LabelledTable:
    """What the writer of a statistical program takes."""

    columns: dict[str, Any]
    titles: dict[str, str]
    values: dict[str, dict[int, str]]
    formats: dict[str, str]

    @classmethod
    def of(cls, table: pa.Table, schema: Schema, ending: str) -> LabelledTable:
        """The same rows in the program's terms."""
        dialect = DIALECTS[ending]
        names = program_names(table.column_names, dialect.name_length)
        made = cls({}, {}, {}, {})
        for name, column in zip(table.column_names, table.columns, strict=True):
            short = names[name]
            attribute = schema[name] if name in schema.names else None  # the new numbers of units have none
            made.titles[short] = _shorten((attribute and attribute.title) or name, dialect.label_length)
            plain = column.combine_chunks()
            if pa.types.is_dictionary(plain.type):
                plain = plain.cast(plain.type.value_type)
            if attribute is not None and (labels := _labels(attribute, plain.type, schema)):
                made.values[short] = {i: _shorten(text, dialect.text_length) for i, text in enumerate(labels, start=1)}
                numbers = pc.add(pc.index_in(plain.cast(pa.string()), pa.array(labels, pa.string())), 1)
                made.columns[short] = _doubles(numbers)
            elif pa.types.is_string(plain.type):
                made.columns[short] = np.array(plain.fill_null("").to_pylist(), dtype=object)
            elif pa.types.is_date32(plain.type):
                days = _doubles(plain.cast(pa.int32()))
                made.columns[short] = (days - dialect.first_day) * dialect.ticks_of_a_day
                made.formats[short] = dialect.day
            elif pa.types.is_timestamp(plain.type):
                made.columns[short] = _moments(plain, dialect)
                made.formats[short] = dialect.moment
            else:
                numbers = _doubles(plain)
                made.columns[short] = np.where(np.abs(numbers) <= LARGEST, numbers, np.nan)
        return made


def require_writer() -> None:
    """Refuse where the library that writes these files is not installed."""
    if find_spec("pyreadstat") is None or find_spec("pandas") is None:
        raise MissingExtraError.of("A file for Stata or SPSS", "formats")


def read_labelled(path: Path, schema: Schema) -> pa.Table:
    """One set as a table with the schema's names and labels, from a file that the exit wrote."""
    require_writer()
    import pyreadstat

    ending = path.suffix[1:]
    read = pyreadstat.read_dta if ending == "dta" else pyreadstat.read_sav
    try:
        columns, about = read(path, output_format="dict", disable_datetime_conversion=True)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OSError):
        raise damage(f"'{path.name}' cannot be read") from None
    dialect = DIALECTS[ending]
    known = schema.names if schema.linked is None else (schema.linked, *schema.names)
    full = {short: name for name, short in program_names(known, dialect.name_length).items()}
    found = {}
    for short, values in columns.items():
        name = full.get(short, short)
        attribute = schema[name] if name in schema.names else None
        texts = about.readstat_variable_types[short] == "string"
        found[name] = _read_column(
            values, attribute, schema, dialect, about.original_variable_types[short], texts=texts
        )
    return pa.table(found)


def program_names(names: Sequence[str], length: int) -> dict[str, str]:
    """A name for each column that the program allows: letters, digits and underscores, not too long, no two alike.

    >>> program_names(["pay (gross)", "pay gross", "2020"], 32)
    {'pay (gross)': 'pay_gross', 'pay gross': 'pay_gross_2', '2020': 'v2020'}
    """
    taken: dict[str, str] = {}
    for name in names:
        plain = (
            re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) else name
        )
        plain = (plain if plain[:1].isalpha() else f"v{plain}")[:length]
        short, n = plain, 1
        while short.lower() in (t.lower() for t in taken.values()):
            n += 1
            short = f"{plain[: length - len(str(n)) - 1]}_{n}"
        taken[name] = short
    return taken


def _labels(attribute: Attribute, stored: pa.DataType, schema: Schema) -> tuple[str, ...]:
    """The labels of a column that is told by numbers; none where its values are released as they stand."""
    if pa.types.is_boolean(stored):
        return ("false", "true")
    verbatim = schema.neighbours == "label" and attribute.role == "public"
    listed = pa.types.is_string(stored) and isinstance(attribute.domain, Categories) and not verbatim
    return attribute.domain.labels if listed else ()


def _doubles(column: pa.Array) -> Any:
    return pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)


def _moments(column: pa.Array, dialect: Dialect) -> Any:
    """Moments on the program's clock, of whole milliseconds: SPSS's numbers hold no finer ones exactly."""
    milliseconds = np.floor(_doubles(column.cast(pa.timestamp("us")).cast(pa.int64())) / 1000)
    return (milliseconds - dialect.first_day * 86_400_000) * dialect.ticks / 1000


def _read_column(
    values: Any,
    attribute: Attribute | None,
    schema: Schema,
    dialect: Dialect,
    format: str,  # noqa: A002
    *,
    texts: bool,
) -> pa.Array:
    if texts:
        return pa.array([v or None for v in values], pa.string())
    numbers = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    absent = np.isnan(numbers)
    if format in (dialect.day, "%d", "DATE11"):
        days = np.where(absent, 0, numbers / dialect.ticks_of_a_day + dialect.first_day)
        return pa.array(days.astype(np.int32), mask=absent).cast(pa.date32())
    if format.startswith((dialect.moment, "DATETIME")):
        since = np.where(absent, 0, np.rint(numbers * 1000 / dialect.ticks) + dialect.first_day * 86_400_000)
        return pa.array(since.astype(np.int64) * 1000, mask=absent).cast(pa.timestamp("us"))
    if attribute is None and not absent.any() and np.all(numbers == np.rint(numbers)):
        return pa.array(numbers.astype(np.int64))
    if attribute is None:
        return pa.array(numbers, mask=absent)
    if attribute.type == "boolean":
        return pa.array(np.where(absent, 0, numbers) == 2, mask=absent)
    if labels := _labels(attribute, pa.string() if attribute.type == "string" else pa.float64(), schema):
        lawful = absent | ((numbers >= 1) & (numbers <= len(labels)) & (numbers == np.rint(numbers)))
        if not lawful.all():
            raise damage(f"column '{attribute.name}' has a value outside its list")
        at = np.where(absent, 1, numbers).astype(np.int64) - 1
        return pc.take(pa.array(labels, pa.string()), pa.array(at, mask=absent))
    if attribute.type == "integer" and np.all(absent | (numbers == np.rint(numbers))):
        return pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)
    return pa.array(numbers, mask=absent)


def _shorten(text: str, length: int) -> str:
    """A text of at most so many bytes."""
    return text.encode("utf-8")[:length].decode("utf-8", "ignore")
