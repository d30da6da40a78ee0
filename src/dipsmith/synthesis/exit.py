"""The one exit: every byte of a release is written here, from canonical values.

`privacy/curator.py` is the only door in; this is the only door out. What is written is a function of the released
values and of nothing else: tables hold six plain types, no dictionary that was built elsewhere, no metadata, and are cut
into row groups by the number of rows alone; archives have no clock and no user in them; files carry the time on
the card. A dictionary page, a statistic or a compressed block therefore follows from the released rows in their
released order.

Guarantee: two releases with the same values are the same bytes, whatever file the values came from, wherever and
whenever it was read (``docs/proofs/exit.md``).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.schema import Schema
from dipsmith.synthesis.labelled_file import ENDINGS, LabelledTable, require_writer
from dipsmith.synthesis.writing import require_absent, whole_file

GROUP_ROWS: Final = 1 << 17
"""Rows of a row group."""
TYPES: Final = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"))
"""What a column of a release may hold."""
RATIO: Final = 100
"""Arrays that would shrink further than this are not packed: they would look like a bomb to whoever reads them."""

FORMULA: Final = r"^([=+\-@\t\r])"
"""Text that a spreadsheet reads as a formula begins like this."""

_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
"""The time in an archive: the earliest that the format has."""

FORMATS: Final = ("parquet", "csv", *ENDINGS)
"""The forms that a synthetic table is written in, by the endings of their names."""

_STATA_MARK: Final = b"</label><timestamp>\x11"
_STATA_CLOCK: Final = b"01 Jan 1980 00:00"
_SPSS_PLACE: Final = 92
_SPSS_CLOCK: Final = b"01 Jan 8000:00:00"
HEAD_BYTES: Final = 4096
"""Of a file for Stata: where the time of writing stands."""


@dataclass(frozen=True)
class Exit:
    """The folder of a release that is being written."""

    folder: Path

    def text(self, name: str, text: str, moment: str | None = None) -> None:
        """Write a text; where it leaves by itself, with the time of its reservation."""
        (self.folder / name).write_bytes(text.encode("utf-8"))
        if moment is not None:
            _stamp([self.folder / name], moment)

    def folder_of(self, name: str) -> None:
        """Make a folder for more files."""
        (self.folder / name).mkdir()

    def data(self, name: str, data: bytes) -> None:
        """Write bytes that `pack` made."""
        (self.folder / name).write_bytes(data)

    def table(self, name: str, table: pa.Table, schema: Schema | None = None, *, escape: bool = False) -> None:
        """Write a table by the ending of its name: Parquet, CSV, or with the labels of a schema for Stata or SPSS."""
        _write_table(self.folder / name, table, schema, name.rpartition(".")[2], escape=escape)

    def rows(self, name: str, pieces: Iterable[pa.Table], schema: pa.Schema) -> None:
        """Write rows that come in pieces as Parquet."""
        with (self.folder / name).open("xb") as file:
            write_rows(file, pieces, schema)

    def seal(self, moment: str) -> None:
        """Give every file the time on the card: when it was written depends on how long the rows took."""
        _stamp((*sorted(self.folder.rglob("*")), self.folder), moment)


def _stamp(paths: Iterable[Path], moment: str) -> None:
    seconds = datetime.fromisoformat(moment).timestamp()
    for path in paths:
        os.utime(path, (seconds, seconds))


def require_table_file(target: Path) -> None:
    """Refuse a file that exists, cannot be written, or whose name does not say which kind of table it is."""
    if target.suffix[1:] not in FORMATS:
        raise UsageError(f"--out is '{target}', expected a name that ends in {', '.join(f'.{f}' for f in FORMATS)}")
    require_format(target.suffix[1:])
    require_absent(target)


def require_format(format: str) -> None:  # noqa: A002
    """Refuse a format that is not known, or whose library is not installed, before anything is spent."""
    if format not in FORMATS:
        raise UsageError(f"format is '{format}', expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if format in ENDINGS:
        require_writer()


def write_table_file(target: Path, table: pa.Table, schema: Schema, *, escape: bool = False) -> None:
    """Write one table by itself, in the form that the ending of its name says; whole or not at all."""
    require_table_file(target)
    with whole_file(target) as work:
        _write_table(work, table, schema, target.suffix[1:], escape=escape)


def write_rows(
    file: Any, pieces: Iterable[pa.Table], schema: pa.Schema, *, as_csv: bool = False, escape: bool = False
) -> int:
    """Write rows that come in pieces of any size, each with the columns of `schema`; return how many there were.

    The schema's metadata is left behind. `escape`, in CSV, puts a quote before text that a spreadsheet would read as a formula.
    """
    columns = plain_schema(schema)
    rows = 0
    with pa_csv.CSVWriter(file, columns) if as_csv else _parquet_writer(file, columns) as writer:
        for group in _groups(pieces, columns):
            writer.write_table(escape_formulas(group) if escape else group)
            rows += group.num_rows
    return rows


def _write_table(path: Path, table: pa.Table, schema: Schema | None, ending: str, *, escape: bool) -> None:
    if ending in ENDINGS:
        assert schema is not None
        _write_labelled(path, table, schema, ending)
        return
    with path.open("wb") as file:
        write_rows(file, [table], table.schema, as_csv=ending == "csv", escape=escape)


def _write_labelled(path: Path, table: pa.Table, schema: Schema, ending: str) -> None:
    """Write a file for Stata or SPSS, and put the beginning of time where the library put the time of writing."""
    import pandas as pd
    import pyreadstat

    plain = plain_schema(table.schema)
    held = LabelledTable.of(_plain(table, plain), schema, ending)
    frame = pd.DataFrame(held.columns, columns=list(held.columns))
    about = {
        "file_label": f"synthetic data in place of {schema.name}"[:60],
        "column_labels": held.titles,
        "variable_value_labels": held.values,
        "variable_format": held.formats,
    }
    if ending == "dta":
        pyreadstat.write_dta(frame, path, version=14, **about)
    else:
        pyreadstat.write_sav(frame, path, **about)
    with path.open("r+b") as file:
        head = file.read(HEAD_BYTES)
        clock = _STATA_CLOCK if ending == "dta" else _SPSS_CLOCK
        file.seek(head.index(_STATA_MARK) + len(_STATA_MARK) if ending == "dta" else _SPSS_PLACE)
        file.write(clock)


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Named arrays as the bytes of an .npz archive, in the order of their names, without a clock."""
    held = io.BytesIO()
    _archive(held, arrays, ZIP_DEFLATED)
    if sum(a.nbytes for a in arrays.values()) > RATIO * held.tell():
        held = io.BytesIO()
        _archive(held, arrays, ZIP_STORED)
    return held.getvalue()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Names and types alone: no metadata, and no word on whether something is missing.

    >>> plain_schema(pa.schema([pa.field("a", pa.int64(), metadata={"from": "payroll.xlsx"})], {"pandas": "…"}))
    a: int64
    """
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    for field, kind in zip(schema, kinds, strict=True):
        if kind not in TYPES:
            raise UsageError(f"column '{field.name}' is of type {kind}, which a release does not hold")
    return pa.schema([pa.field(f.name, kind) for f, kind in zip(schema, kinds, strict=True)])


def escape_formulas(table: pa.Table) -> pa.Table:
    """Text that begins like a formula with a quote before it."""
    return _replace_text(table, FORMULA, r"'\1")


def unescape_formulas(table: pa.Table) -> pa.Table:
    """What `escape_formulas` made, as it was."""
    return _replace_text(table, "^'" + FORMULA[1:], r"\1")


def _groups(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in groups of `GROUP_ROWS`, the last of which may have fewer; at least one group."""
    held, some = schema.empty_table(), False
    for piece in pieces:
        held = pa.concat_tables([held, _plain(piece, schema)])
        while held.num_rows >= GROUP_ROWS:
            yield held.slice(0, GROUP_ROWS).combine_chunks()
            held, some = held.slice(GROUP_ROWS), True
    if held.num_rows or not some:
        yield held.combine_chunks()


def _plain(piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the plain schema: dictionaries decoded, metadata gone."""
    columns = [piece.column(f.name) for f in schema]
    return pa.table(
        [c.cast(f.type) if c.type != f.type else c for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def _parquet_writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        schema,
        version="2.6",
        compression="snappy",
        use_dictionary=True,
        write_statistics=True,
        data_page_version="1.0",
        store_schema=False,
        coerce_timestamps="us",
    )


def _archive(held: io.BytesIO, arrays: Mapping[str, NDArray[Any]], compression: int) -> None:
    with ZipFile(held, "w") as archive:
        for name in sorted(arrays):
            entry = ZipInfo(f"{name}.npy", _BEGINNING)
            entry.create_system, entry.external_attr, entry.compress_type = 3, 0o600 << 16, compression
            with archive.open(entry, "w", force_zip64=True) as file:
                array = np.asarray(arrays[name], order="C")
                np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)


def _replace_text(table: pa.Table, pattern: str, replacement: str) -> pa.Table:
    for i, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            changed = pc.replace_substring_regex(column, pattern, replacement, max_replacements=1)
            table = table.set_column(i, table.column_names[i], changed)
    return table
