"""CSV files: RFC 4180, plain or gzipped, read as text in blocks of bounded size.

Nothing is inferred from rows. The delimiter comes from the caller or from the header line; the encoding
is UTF-8, or UTF-16 with a byte order mark, or what the caller says; every field is text; only an empty
field is missing. So what one row encodes to cannot depend on another row.

The syntax pass is a scan of the bytes (`scan.py`). Memory is bounded also for hostile files: a record may
be a megabyte long, and a gzipped file may expand `MAX_EXPANSION`-fold once it is past `FREE_EXPANSION`
bytes.

Source: RFC 4180, section 2.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from dipsmith.errors import SourceError
from dipsmith.sources import scan
from dipsmith.sources.fingerprint import Stamp, reading
from dipsmith.sources.readahead import read_ahead
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress

MAX_EXPANSION = 200
FREE_EXPANSION = 1 << 28
_BLOCK = 1 << 21
_DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class DelimitedFile:
    """One CSV file: UTF-8, UTF-16 with a byte order mark, or of the `encoding` given.

    Without a `delimiter`, it is whichever of comma, semicolon, tab and bar the header has most.
    """

    path: Path
    stamp: Stamp
    encoding: str | None = None
    delimiter: str | None = None

    @cached_property
    def _header(self) -> _Header:
        with reading(self.path, self.stamp):
            return _Header.read(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the first record."""
        return self._header.names

    def check_types(self, required: Sequence[str]) -> None:
        """Every field is text."""

    def check(self, required: Sequence[str]) -> None:
        """Scan the whole file for syntax; its columns were checked before (`Files`)."""
        header = self._header
        syntax = scan.Scan(self.path, len(header.names), ord(header.delimiter))
        with reading(self.path, self.stamp):
            for block in self._blocks():
                syntax.feed(block)
            syntax.finish()

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All records as text; an empty field is null."""
        header = self._header
        text = pa.dictionary(pa.int32(), pa.string())
        with reading(self.path, self.stamp):
            fraction = [0.0]
            blocks = _after(self._blocks(fraction), header.length)
            parse = pyarrow.csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True)
            convert = pyarrow.csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, text),
                null_values=[""],
                strings_can_be_null=True,
            )
            try:
                with closing(read_ahead(parse_csv(blocks, header.names, parse, convert))) as batches:
                    for batch in batches:
                        yield batch
                        if progress is not None:
                            progress(fraction[0])
                return
            except pa.ArrowException:
                pass
            # Not above: Arrow's message repeats the record, and goes along with whatever is raised in its presence.
            # The scan finds the line and says it in our words.
            self.check(columns)
            raise SourceError(f"{self.path}: cannot be parsed as CSV; save it again as UTF-8 CSV")

    def _blocks(self, fraction: list[float] | None = None) -> Iterator[bytes]:
        """Yield the file as UTF-8, unpacked, without byte order mark; `fraction` receives the share read."""
        size = max(self.stamp.size, 1)
        with self.path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: BinaryIO = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw  # type: ignore[assignment]
            decoder, block = _decoder(self.path, stream.read(_BLOCK), self.encoding)
            unpacked, line = len(block), 1
            while block:
                if packed and unpacked > FREE_EXPANSION and unpacked > MAX_EXPANSION * size:
                    remedy = "unpack it and give the plain file if that is meant"
                    raise SourceError(f"{self.path}: unpacks to more than {MAX_EXPANSION} times its size; {remedy}")
                if fraction is not None:
                    fraction[0] = min(raw.tell() / size, 1.0)
                following = stream.read(_BLOCK)
                if decoder is not None:
                    block = self._as_utf8(decoder, block, line, final=not following)
                    line += block.count(b"\n")
                yield block
                block = following
                unpacked += len(block)

    def _as_utf8(self, decoder: codecs.IncrementalDecoder, block: bytes, line: int, *, final: bool) -> bytes:
        try:
            return decoder.decode(block, final).encode()
        except UnicodeError as bad:
            if isinstance(bad, UnicodeDecodeError):
                whole = bad.start - bad.start % 2  # UTF-16 counts in pairs; other encodings do not mind
                line += codecs.decode(block[:whole], bad.encoding, "replace").count("\n")
            wanted = self.encoding or "UTF-16"
            retell(SourceError(f"{self.path}: line {line}: not {wanted}; save it as UTF-8, or say its encoding"))


@dataclass(frozen=True)
class _Header:
    """The first record: its names, the delimiter, and how many bytes it takes."""

    names: tuple[str, ...]
    delimiter: str
    length: int

    @classmethod
    def read(cls, file: DelimitedFile) -> _Header:
        head = b""
        for block in file._blocks():
            head += block
            if b"\n" in block or len(head) > scan.MAX_RECORD:
                break
        where = f"{file.path}: line 1"
        if not head.strip():
            raise SourceError(f"{file.path}: the file is empty; it needs at least a header line")
        end = _record_end(head)
        if end is None and len(head) > scan.MAX_RECORD:
            raise SourceError(f"{where}: the header is longer than {scan.MAX_RECORD} bytes; is this a CSV file?")
        record = head if end is None else head[:end]
        if b"\0" in record:
            raise SourceError(f"{where}: {scan.NUL}")
        try:
            text = record.decode()
        except UnicodeDecodeError:
            retell(scan.not_utf8(file.path, 1))
        bare = "".join(text.split('"')[::2])  # outside quotes
        delimiter = file.delimiter or max(_DELIMITERS, key=bare.count)
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration):
            retell(SourceError(f"{where}: the header's quotes do not match; close every quoted name"))
        if not names:
            raise SourceError(f"{where}: empty line where the header should be; remove it")
        return cls(tuple(names), delimiter, len(record))


def _record_end(data: bytes) -> int | None:
    """Where the first record ends (after its LF), or None."""
    start, quotes = 0, 0
    while (end := data.find(b"\n", start)) >= 0:
        quotes += data.count(b'"', start, end)
        start = end + 1
        if quotes % 2 == 0:
            return start
    return None


def _after(blocks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """What follows the first bytes; no block is empty."""
    for block in blocks:
        if len(block) > skip:
            yield block[skip:]
        skip = max(skip - len(block), 0)


def parse_csv(
    blocks: Iterator[bytes],
    names: Sequence[str],
    parse: pyarrow.csv.ParseOptions,
    convert: pyarrow.csv.ConvertOptions,
    longest: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Parse the records of a CSV text that has no header, of which none is longer than a block or than `longest` bytes."""
    first = next(blocks, None)
    if first is None:
        return
    # An empty line comes first and is skipped: the reader would take a byte order mark off the first record.
    block = max(_BLOCK, longest)
    stream = io.BufferedReader(_Stream(itertools.chain([b"\n", first], blocks)), block)
    read = pyarrow.csv.ReadOptions(column_names=list(names), block_size=block, skip_rows=1)
    yield from pyarrow.csv.open_csv(stream, read, parse, convert)


class _Stream(io.RawIOBase):
    """Blocks of bytes as a readable object, for Arrow's reader."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        self._rest = self._rest or memoryview(next(self._blocks, b""))
        size = min(len(room), len(self._rest))
        room[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _decoder(path: Path, first: bytes, encoding: str | None) -> tuple[codecs.IncrementalDecoder | None, bytes]:
    """How to turn the file into UTF-8 (None: it is), and its first block without byte order mark."""
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise SourceError(f"{path}: encoded as UTF-32; save it as UTF-8")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.getincrementaldecoder("utf-16")(), first
    if first.startswith(codecs.BOM_UTF8):
        return None, first[len(codecs.BOM_UTF8) :]
    if encoding is None:
        return None, first
    try:
        "a".encode(encoding)  # refuses what is not an encoding of text, such as hex
        name = codecs.lookup(encoding).name
        if name == "utf-8":
            return None, first
        return codecs.getincrementaldecoder(name)(), first
    except LookupError:
        retell(SourceError(f"{path}: unknown encoding '{encoding}'; use a name such as utf-8 or latin-1"))
