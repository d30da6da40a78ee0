"""The same rows in every form that a file or a frame may have: nothing of the form may reach a release.

Orders, encodings, dictionaries, chunks, row groups, compression, index and metadata say something about the private table
that no budget was paid for; some of them tell its order, and so a column that it is sorted by. Where a form has room for
something besides rows, `CANARY` is put there.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from assurance.pairs import FIELDS, PRIVATE
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Schema

Form = Callable[[pa.Table, Path, Generator], Any]

CANARY: Final = "secret-canary"
"""Put where a private file may hold something besides its rows; never in a release."""

TOWNS: Final = ("Ост", "north", "Süd, west", 'the "old" one', "=1+1", "zz", "A", "aa")
MOMENTS: Final = ["2001-01-01T00:00:00", "2002-01-01T00:00:00", "2003-01-01T00:00:00"]


def form_schema(relation: str, limit: int | None = None) -> Schema:
    """Public columns of every type that all forms can hold, text that no domain names among them, and two private ones."""
    fields: dict[str, dict[str, Any]] = {
        "town": {"type": "string", "enum": ["A", "zz"], "other": "A", "role": "public"},
        "age": FIELDS["age"],
        "grade": FIELDS["grade"],
        "pay": {"type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 50}, "role": "public"},
        "born": {
            "type": "date",
            "bins": {"edges": ["1980-01-01", "1985-01-01", "1990-01-01"]},
            "role": "public",
        },
        "veteran": {"type": "boolean", "role": "public"},
        "seen": {"type": "datetime", "bins": {"edges": MOMENTS}, "role": "public"},
        "sex": FIELDS["sex"],
        "race": FIELDS["race"],
    }
    return Schema.from_dict(
        {
            "name": "formed",
            "unit": "row" if limit is None else {"column": "id", "max_rows": limit},
            "neighbours": relation,
            "fields": [{"name": name, **field} for name, field in fields.items()],
        }
    )


def form_table(random: Generator, rows: int) -> pa.Table:
    """Rows for `form_schema`, some values of public columns missing; towns name their rows where their number is odd."""
    towns = [None if t == "aa" else f"{t}{i if rows % 2 else ''}" for i, t in enumerate(random.choice(TOWNS, rows))]
    pays = [None if p < 0 else p / 4 for p in random.integers(-8, 420, rows).tolist()]
    moments = [datetime(2001, 1, 1) + timedelta(seconds=s) for s in random.integers(0, 10**8, rows).tolist()]
    ages = [None if a == 19 else int(a) for a in random.integers(19, 50, rows)]
    days = [date(1979, 6, 1) + timedelta(int(d)) for d in random.integers(0, 4000, rows)]
    return pa.table(
        {
            "id": pa.array([f"u{i}" for i in random.integers(0, max(rows // 2, 1), rows)], pa.string()),
            "town": pa.array(towns, pa.string()),
            "age": pa.array(ages, pa.int64()),
            "grade": pa.array([str(g) for g in random.choice(["a", "b", "c", "d"], rows)], pa.string()),
            "pay": pa.array(pays, pa.float64()),
            "born": pa.array(days, pa.date32()),
            "veteran": pa.array((random.integers(0, 2, rows) == 1).tolist(), pa.bool_()),
            "seen": pa.array(moments, pa.timestamp("us")),
            "sex": pa.array([str(s) for s in random.choice(["F", "M", "?"], rows)], pa.string()),
            "race": pa.array([str(r) for r in random.choice(["A", "B", "C"], rows)], pa.string()),
        }
    )


def orders(table: pa.Table, random: Generator) -> dict[str, pa.Table]:
    """The rows in other orders: reversed, sorted by each private column, drawn at random."""
    made = {"reversed": table.take(np.arange(table.num_rows)[::-1])}
    made |= {f"sorted by {n}": table.sort_by([(n, "ascending"), ("id", "descending")]) for n in PRIVATE}
    made["drawn"] = table.take(random.permutation(table.num_rows))
    return made


def _csv(name: str = "rows.csv", finish: Callable[[bytes], bytes] = bytes, **options: str) -> Form:
    """A CSV file; `finish` changes its bytes, options are Arrow's."""

    def form(table: pa.Table, folder: Path, random: Generator) -> Path:
        written = io.BytesIO()
        pa_csv.write_csv(table, written, pa_csv.WriteOptions(**options))
        (folder / name).write_bytes(finish(written.getvalue()))
        return folder / name

    return form


def _several(table: pa.Table, folder: Path, random: Generator, ending: str) -> list[Path]:
    write = pa_csv.write_csv if ending == "csv" else pq.write_table
    places = []
    for i, part in enumerate(_cut(table, random)):
        places.append(folder / f"part-{i}.{ending}")
        write(part, places[-1])
    return places


def _parquet(**options: Any) -> Form:
    def form(table: pa.Table, folder: Path, random: Generator) -> Path:
        pq.write_table(table, folder / "rows.parquet", **options)
        return folder / "rows.parquet"

    return form


def _marked(table: pa.Table) -> pa.Table:
    fields = [f.with_metadata({"comment": CANARY, CANARY: "1"}) for f in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, {"author": CANARY, CANARY: "2"}))


def _cut(table: pa.Table, random: Generator) -> list[pa.Table]:
    n = table.num_rows
    at = [0, *sorted(int(i) for i in random.integers(0, n + 1, 3)), n]
    return [table.slice(a, b - a) for a, b in pairwise(at)]


def _coded(table: pa.Table, random: Generator) -> pa.Table:
    """Text as dictionaries in an order of their own, with an entry that no row uses."""
    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        values = [*dict.fromkeys(v for v in table.column(i).to_pylist() if v is not None), CANARY]
        values = [values[j] for j in random.permutation(len(values))]
        at = {value: j for j, value in enumerate(values)}
        codes = pa.array([at.get(v) for v in table.column(i).to_pylist()], pa.int32())
        table = table.set_column(i, field.name, pa.DictionaryArray.from_arrays(codes, pa.array(values, pa.string())))
    return table


def _cast(kind: pa.DataType) -> Form:
    def form(table: pa.Table, folder: Path, random: Generator) -> pa.Table:
        fields = [f.with_type(kind) if pa.types.is_string(f.type) else f for f in table.schema]
        return table.cast(pa.schema(fields))

    return form


def _sliced(table: pa.Table, folder: Path, random: Generator) -> pa.Table:
    around = table.slice(0, min(1, table.num_rows))
    return pa.concat_tables([around, table, around]).combine_chunks().slice(around.num_rows, table.num_rows)


def _pandas(kind: str) -> Form:
    def form(table: pa.Table, folder: Path, random: Generator) -> Any:
        frame = table.to_pandas(integer_object_nulls=True)
        text = [f.name for f in table.schema if pa.types.is_string(f.type)]
        frame[text] = frame[text].astype(kind)
        frame.index = frame.index[::-1]
        frame.index.name = CANARY
        frame.attrs["note"] = CANARY
        return frame

    return form


FORMS: Final[dict[str, Form]] = {
    "CSV": _csv(),
    "CSV, all quoted": _csv(quoting_style="all_valid"),
    "CSV with semicolons": _csv(delimiter=";"),
    "CSV with tabs and CRLF": _csv("rows.tsv", lambda b: b.replace(b"\n", b"\r\n"), delimiter="\t"),
    "CSV, gzipped": _csv(f"{CANARY}.csv.gz", gzip.compress),
    "CSV in several files": lambda t, f, r: _several(t, f, r, "csv"),
    "CSV, other order of columns": lambda t, f, r: _csv()(t.select(t.column_names[::-1]), f, r),
    "Parquet": _parquet(),
    "Parquet without dictionaries": _parquet(use_dictionary=False, compression="none"),
    "Parquet in small row groups": _parquet(row_group_size=3, data_page_size=1),
    "Parquet, pages of version 2": _parquet(data_page_version="2.0", version="2.6", compression="zstd"),
    "Parquet without statistics": _parquet(write_statistics=False, store_schema=False),
    "Parquet in other encodings": _parquet(
        use_dictionary=False,
        column_encoding={
            "town": "DELTA_BYTE_ARRAY",
            "grade": "DELTA_LENGTH_BYTE_ARRAY",
            "age": "DELTA_BINARY_PACKED",
        },
    ),
    "Parquet with metadata": lambda t, f, r: _parquet()(_marked(t), f, r),
    "Parquet from dictionaries": lambda t, f, r: _parquet(row_group_size=5)(_coded(t, r), f, r),
    "Parquet in several files": lambda t, f, r: _several(t, f, r, "parquet"),
    "Arrow": lambda t, f, r: t,
    "Arrow in chunks": lambda t, f, r: pa.concat_tables(_cut(t, r)),
    "Arrow, sliced": _sliced,
    "Arrow with dictionaries": lambda t, f, r: _coded(t, r),
    "Arrow with a dictionary per chunk": lambda t, f, r: pa.concat_tables([_coded(p, r) for p in _cut(t, r)]),
    "Arrow with metadata": lambda t, f, r: _marked(t),
    "Arrow, large text": _cast(pa.large_string()),
    "Arrow, text by views": _cast(pa.string_view()),
    "pandas, objects": _pandas("object"),
    "pandas, strings": _pandas("string"),
    "pandas, categories": _pandas("category"),
}
"""Every form by its name; given a table, an empty folder and randomness for where to cut."""


def make_forms(table: pa.Table, folder: Path, seed: int, names: Sequence[str] = tuple(FORMS)) -> dict[str, Any]:
    """The table in some forms, each in a folder of its own."""
    made = {}
    for i, name in enumerate(names):
        place = folder / f"{i}"
        place.mkdir(parents=True)
        made[name] = FORMS[name](table, place, generator(seed + i))
    return made
