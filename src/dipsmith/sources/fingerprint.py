"""Fingerprints: whether two sources hold the same rows, byte by byte.

A guard against granting one table under two names by mistake, not against those who want to: any other
spelling or order of the rows is another source.

*Privacy.* Reads bytes and interprets none, before any charge; it never fails on account of a value. The
result depends on every private value and would tell a row to whoever knows all the others: it is handed to
the ledger, which keeps it sealed under a secret key, and to nobody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dipsmith.sources.source import Source
from dipsmith.sources.stamp import Stamp, reading


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
