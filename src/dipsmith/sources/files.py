"""Files and folders of files as one source.

A path may be a file, a glob, or a folder whose CSV or Parquet files (in subfolders too) make one table.
All files have the same columns. What a file is, its first bytes decide, not its name. Files whose name
starts with a dot or an underscore are left out, as Spark and Hive do; folders called ``year=2011`` add a
column ``year``.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from dipsmith.errors import SourceError
from dipsmith.sources.delimited import DelimitedFile
from dipsmith.sources.fingerprint import Stamp, of_file, of_files, unreadable
from dipsmith.sources.header import check_header
from dipsmith.sources.parquet import MAGIC, ParquetFile
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress

_PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", *_PARQUET_SUFFIXES)
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; save the sheet as CSV, or unpack the archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"BZh": "packed with bzip2; unpack it or pack it with gzip",
    b"\xfd7zXZ": "packed with xz; unpack it or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed with zstd; unpack it or pack it with gzip",
    b"ARROW1": "an Arrow (Feather) file; write it as Parquet",
    b"ORC": "an ORC file; write it as Parquet",
    b"$FL2": "an SPSS file; export it as CSV",
    b"$FL3": "an SPSS file; export it as CSV",
    b"<stata_dta>": "a Stata file; export it as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF document; give a CSV or Parquet file",
}

Part = DelimitedFile | ParquetFile
Labels = tuple[tuple[str, str | None], ...]
"""The columns that the names of a file's folders give."""


@dataclass(frozen=True)
class Files:
    """One or more CSV or Parquet files (or globs, or folders) that make one table."""

    paths: tuple[str, ...]
    encoding: str | None = None
    delimiter: str | None = None

    @cached_property
    def _parts(self) -> list[tuple[Part, Labels]]:
        """Every file, with the columns that its folders' names give."""
        found = [file for spec in self.paths for file in _find_files(Path(spec).expanduser())]
        return [(self._part(path), labels) for path, labels in found]

    @property
    def columns(self) -> tuple[str, ...]:
        """The header of the first file, then the columns that folder names give."""
        part, labels = self._parts[0]
        return _header(part, labels)

    def check_columns(self, required: Sequence[str]) -> None:
        """Check that every file has the required columns, of readable types, and all files the same columns."""
        first = self.columns
        for part, labels in self._parts:
            names = _header(part, labels)
            check_header(str(part.path), names, required)
            if set(names) != set(first):
                raise SourceError(
                    f"{part.path}: its columns are not those of {self._parts[0][0].path}; "
                    "all files of one table need the same header"
                )
        for part, labels in self._parts:
            part.check_types(_without(required, labels))

    def check(self, required: Sequence[str]) -> None:
        """Check every file, and that all have the same columns."""
        self.check_columns(required)
        for part, labels in self._parts:
            part.check(_without(required, labels))

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows of all files, in the order of the sorted names."""
        sizes = [part.stamp.size for part, _ in self._parts]
        whole, done = max(sum(sizes), 1), 0
        for (part, labels), size in zip(self._parts, sizes, strict=True):
            check_header(str(part.path), _header(part, labels), columns)
            told = progress and _scale_progress(progress, done / whole, size / whole)
            inside = _without(columns, labels) or part.columns[:1]
            for batch in part.batches(inside, told):
                yield _add_labels(batch, columns, labels) if labels else batch
            done += size
            if progress is not None:
                progress(done / whole)

    def types(self) -> dict[str, pa.DataType]:
        """The types that the first file states; CSV states none."""
        part, _ = self._parts[0]
        return part.types() if isinstance(part, ParquetFile) else {}

    def describe(self) -> str:
        """Repeat the paths as given."""
        return ", ".join(self.paths)

    def fingerprint(self) -> str:
        """What tells the bytes of these files from others, whatever the files are called."""
        return of_files(self._digests)

    def fingerprints(self) -> frozenset[str]:
        """What tells the table, and each file of it, from others."""
        return frozenset([self.fingerprint(), *self._digests])

    @cached_property
    def _digests(self) -> list[str]:
        return [of_file(part.path, part.stamp) for part, _ in self._parts]

    def _part(self, path: Path) -> Part:
        stamp = Stamp.of(path)
        try:
            with path.open("rb") as file:
                start = file.read(16)
        except OSError as error:
            retell(unreadable(path, error))
        if start.startswith(MAGIC):
            return ParquetFile(path, stamp)
        if not start:
            raise SourceError(f"{path}: the file is empty; it needs at least a header")
        if path.suffix.lower() in _PARQUET_SUFFIXES:
            raise SourceError(f"{path}: not a Parquet file, whatever its name says; write it again, or rename it")
        for what in (what for magic, what in _FOREIGN.items() if start.startswith(magic)):
            raise SourceError(f"{path}: looks like {what}")
        return DelimitedFile(path, stamp, self.encoding, self.delimiter)


def _find_files(path: Path) -> list[tuple[Path, Labels]]:
    """Find the files that a path, a glob or a folder stands for."""
    if path.is_dir():
        return _in_folder(path)
    if not path.exists() and glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
        root = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))
        chosen = [(file, _labels(file, root)) for file in found if file.is_file()]
        if not chosen:
            raise SourceError(f"{path}: no file matches; check the pattern")
        return chosen
    return [(path, ())]


def _in_folder(folder: Path) -> list[tuple[Path, Labels]]:
    def refuse(error: OSError) -> None:
        retell(unreadable(folder, error))

    found: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [
            Path(root, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith((".", "_"))
        ]
    if not found:
        raise SourceError(f"{folder}: a folder without CSV or Parquet files; give the folder that holds them")
    return [(file, _labels(file, folder)) for file in sorted(found)]


def _labels(file: Path, folder: Path) -> Labels:
    """Columns from folder names such as ``year=2011``; Hive writes a missing value in its own way."""
    pairs = [name.partition("=") for name in file.relative_to(folder).parent.parts if "=" in name]
    return tuple((name, None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)) for name, _, value in pairs)


def _header(part: Part, labels: Labels) -> tuple[str, ...]:
    return (*part.columns, *(name for name, _ in labels))


def _without(columns: Sequence[str], labels: Labels) -> list[str]:
    return [name for name in columns if name not in dict(labels)]


def _add_labels(batch: pa.RecordBatch, columns: Sequence[str], labels: Labels) -> pa.RecordBatch:
    def constant(value: str | None) -> pa.Array:
        index = pa.scalar(None if value is None else 0, pa.int32())
        return pa.DictionaryArray.from_arrays(pa.repeat(index, batch.num_rows), pa.array([value or ""], pa.string()))

    given = dict(labels)
    arrays = [constant(given[name]) if name in given else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _scale_progress(progress: Progress, offset: float, share: float) -> Progress:
    return lambda fraction: progress(offset + share * fraction)
