"""Fingerprints: whether two sources hold the same rows, byte by byte.

A guard against granting one table under two names by mistake, not against those who want to: any other
spelling or order of the rows is another source.

*Privacy.* Reads bytes and interprets none, before any charge; it never fails on account of a value. The
result depends on every private value and would tell a row to whoever knows all the others: it is handed to
the ledger, which keeps it sealed under a secret key, and to nobody else.

A *stamp* is what a file looked like when it was first opened, so that a later pass notices that it changed. Counting
may read a file several times, after the syntax pass and after the budget was reserved. A file that changes in between
gives an error, and the charge stays. The stamp is size, time of change and inode: it catches rewriting and replacing,
not an adversary who restores the times.
"""

from __future__ import annotations

import hashlib
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import BadGzipFile
from pathlib import Path

import numpy as np
import pyarrow as pa

from dipsmith.errors import SourceError
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Source


def fingerprint(rows: Source) -> str | None:
    """SHA-256, in hexadecimal, of what a source holds; None where nothing tells it from another.

    Files are known by their bytes, whatever they are called; tables in memory by their columns; tables of
    databases by address and name, without credentials. A source may have a verb `fingerprint` of its own.

    >>> from dipsmith.sources import source
    >>> one, two = pa.table({"age": [30, 41]}), pa.table({"age": [30, 42]})
    >>> fingerprint(source(one)) == fingerprint(source(one)), fingerprint(source(one)) == fingerprint(source(two))
    (True, False)
    """
    own = getattr(rows, "fingerprint", None)
    return of_address(rows.describe()) if own is None else own()


def fingerprints(rows: Source) -> frozenset[str]:
    """The fingerprint of a source, and that of each of its files: whoever shares one has rows of it."""
    own = getattr(rows, "fingerprints", None)
    return frozenset(filter(None, [fingerprint(rows)])) if own is None else own()


def of_address(address: str) -> str:
    """Of a table in a database: what names it."""
    return hashlib.sha256(b"address\0" + address.encode("utf-8", "replace")).hexdigest()


def of_file(path: Path, stamp: Stamp) -> str:
    """Of a file with what it looked like when it was opened: its bytes."""
    with reading(path, stamp), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_files(digests: Sequence[str]) -> str:
    """Of files that make one table: their bytes, in any order."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(b"files\0" + "".join(sorted(digests)).encode()).hexdigest()


def of_columns(table: Source) -> str:
    """Of a table in memory: column by column, however the rows are cut into batches."""
    whole = hashlib.sha256(b"columns\0")
    for name in sorted(set(table.columns)):
        parts = [hashlib.sha256() for _ in range(3)]
        try:
            for batch in table.batches([name]):
                _feed(batch.column(0), parts)
        except Exception:  # noqa: BLE001  # a value that cannot be read fails where it is paid for, not here
            parts[0].update(b"unreadable")
        whole.update(repr(name).encode("ascii", "backslashreplace"))
        for part in parts:
            whole.update(part.digest())
    return whole.hexdigest()


def _feed(column: pa.Array, parts: Sequence[hashlib._Hash]) -> None:
    """Add which values are there, how long each is, and what they are, each to its own digest."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    known, lengths, values = parts
    known.update(np.asarray(column.is_valid()).tobytes())
    column = column.drop_null()
    kind = column.type
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values.update(np.asarray(column).tobytes())
        return
    texts = column.cast(pa.large_string() if pa.types.is_decimal(kind) else pa.large_binary())
    _, starts, data = texts.buffers()
    ends = np.frombuffer(starts, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths.update(np.diff(ends).tobytes())
    if data is not None and len(texts):
        values.update(memoryview(data)[ends[0] : ends[-1]])


@dataclass(frozen=True)
class Stamp:
    """Size, modification time and inode of a file."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file; refuse what is not one."""
        try:
            status = path.stat()
        except OSError as error:
            retell(unreadable(path, error))
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise SourceError(f"{path}: not a regular file, it cannot be read twice; save it to a file first")
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@contextmanager
def reading(path: Path, stamp: Stamp) -> Iterator[None]:
    """Turn failures to read into one-line errors, and notice a file that is not the one stamped."""
    _same(path, stamp)
    try:
        yield
    except EOFError:
        _same(path, stamp)
        retell(SourceError(f"{path}: the gzip file ends too early; copy or pack it again"))
    except (OSError, zlib.error) as error:
        retell(unreadable(path, error))
    _same(path, stamp)


def unreadable(path: Path, error: OSError | zlib.error) -> SourceError:
    """Why a file cannot be opened or read, without a traceback."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path}: no such file; check the path")
    if isinstance(error, PermissionError):
        return SourceError(f"{path}: permission denied; ask for the right to read it")
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{path}: is a folder; give a file, or a folder that holds CSV or Parquet files")
    if isinstance(error, BadGzipFile | zlib.error):
        return SourceError(f"{path}: the gzip file is damaged; copy or pack it again")
    return SourceError(f"{path}: cannot be read ({error.strerror or 'input/output error'}); check the file")


def _same(path: Path, stamp: Stamp) -> None:
    if Stamp.of(path) != stamp:
        raise SourceError(f"{path}: the file changed while it was being read; try again when it stays as it is")
