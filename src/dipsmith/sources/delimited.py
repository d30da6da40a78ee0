"""CSV files: RFC 4180, plain or gzipped, read as text in blocks of bounded size.

Nothing is inferred from rows. The delimiter comes from the caller or from the header line; the encoding
is UTF-8, or UTF-16 with a byte order mark, or what the caller says; every field is text; only an empty
field is missing. So what one row encodes to cannot depend on another row.

The syntax pass accepts a file only if all readers agree on what it says: every record has as many
fields as the header, a quote opens a field or is doubled inside one, a line ends in LF or CRLF. Empty
lines are skipped. Memory is bounded also for hostile files: a record may be `MAX_RECORD` bytes long, and
a gzipped file may expand `MAX_EXPANSION`-fold once it is past `FREE_EXPANSION` bytes.

Source: RFC 4180, section 2.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dipsmith.errors import SourceError
from dipsmith.sources.header import check_header
from dipsmith.sources.readahead import Ahead
from dipsmith.sources.source import Progress
from dipsmith.sources.stamp import Stamp, reading

MAX_RECORD = 1 << 20
MAX_EXPANSION = 200
FREE_EXPANSION = 1 << 28
_BLOCK = 1 << 21
_LF, _CR, _QUOTE = 10, 13, 34
_DELIMITERS = (",", ";", "\t", "|")
_TOO_LONG = "a record longer than {} bytes starts here; close its quotes or shorten it"
_NUL = "NUL byte: not a text file, or UTF-16 without byte order mark; save it as UTF-8 CSV"


@dataclass(frozen=True)
class DelimitedFile:
    """One CSV file.

    Attributes
    ----------
    path
        Where it is.
    encoding
        Its encoding when it is neither UTF-8 nor UTF-16 with a byte order mark.
    delimiter
        What separates fields; when None, whichever of comma, semicolon, tab and bar the header has most.
    """

    path: Path
    encoding: str | None = None
    delimiter: str | None = None

    @cached_property
    def stamp(self) -> Stamp:
        """The file as it was when first looked at."""
        return Stamp.of(self.path)

    @cached_property
    def _header(self) -> _Header:
        with reading(self.path, self.stamp):
            return _Header.read(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the first record."""
        return self._header.names

    def check(self, required: Sequence[str]) -> None:
        """Scan the whole file for syntax."""
        header = self._header
        check_header(str(self.path), header.names, required)
        scan = _Scan(self.path, len(header.names), ord(header.delimiter))
        with reading(self.path, self.stamp):
            for block in self._blocks():
                scan.feed(block)
            scan.finish()

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All records as text; an empty field is null."""
        header = self._header
        check_header(str(self.path), header.names, columns)
        text = pa.dictionary(pa.int32(), pa.string())
        with reading(self.path, self.stamp):
            stream = _Stream(self, skip=header.length)
            if stream.ended:
                return
            try:
                reader = pyarrow.csv.open_csv(
                    stream,
                    read_options=pyarrow.csv.ReadOptions(column_names=list(header.names), block_size=_BLOCK),
                    parse_options=pyarrow.csv.ParseOptions(
                        delimiter=header.delimiter, newlines_in_values=True
                    ),
                    convert_options=pyarrow.csv.ConvertOptions(
                        include_columns=list(columns),
                        column_types=dict.fromkeys(columns, text),
                        null_values=[""],
                        strings_can_be_null=True,
                    ),
                )
                with Ahead(iter(reader)) as batches:
                    for batch in batches:
                        yield batch
                        if progress is not None:
                            progress(stream.fraction)
            except pa.ArrowException:
                # Arrow's message repeats the record; the scan finds the line and says it in our words.
                self.check(columns)
                raise SourceError(
                    f"{self.path}: cannot be parsed as CSV; save it again as UTF-8 CSV"
                ) from None

    def _blocks(self, told: list[float] | None = None) -> Iterator[bytes]:
        """Yield the file as UTF-8, unpacked, without byte order mark; `told` receives the fraction read."""
        size = max(self.stamp.size, 1)
        with self.path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: BinaryIO = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw  # type: ignore[assignment]
            first = stream.read(_BLOCK)
            decoder, first = _decoder(self.path, first, self.encoding)
            unpacked, line = len(first), 1
            block = first
            while block:
                if packed and unpacked > FREE_EXPANSION and unpacked > MAX_EXPANSION * size:
                    raise SourceError(
                        f"{self.path}: unpacks to more than {MAX_EXPANSION} times its size; "
                        "unpack it and give the plain file if that is meant"
                    )
                if told is not None:
                    told[0] = min(raw.tell() / size, 1.0)
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
            raise SourceError(
                f"{self.path}: line {line}: not {wanted}; save it as UTF-8, or say its encoding"
            ) from None


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
            if b"\n" in block or len(head) > MAX_RECORD:
                break
        where = f"{file.path}: line 1"
        if not head.strip():
            raise SourceError(f"{file.path}: the file is empty; it needs at least a header line")
        end = _record_end(head)
        if end is None and len(head) > MAX_RECORD:
            raise SourceError(f"{where}: the header is longer than {MAX_RECORD} bytes; is this a CSV file?")
        record = head if end is None else head[:end]
        if b"\0" in record:
            raise SourceError(f"{where}: {_NUL}")
        try:
            text = record.decode()
        except UnicodeDecodeError:
            raise _not_utf8(file.path, 1) from None
        delimiter = file.delimiter or _most_frequent(text)
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration):
            raise SourceError(f"{where}: the header's quotes do not match; close every quoted name") from None
        if not names:
            raise SourceError(f"{where}: empty line where the header should be; remove it")
        return cls(tuple(names), delimiter, len(record))


def _most_frequent(header: str) -> str:
    """Return the delimiter that the header line has most, outside quotes; a comma when it has none."""
    bare = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=bare.count)


def _record_end(data: bytes) -> int | None:
    """Where the first record ends (after its LF), or None."""
    start, quotes = 0, 0
    while (end := data.find(b"\n", start)) >= 0:
        quotes += data.count(b'"', start, end)
        start = end + 1
        if quotes % 2 == 0:
            return start
    return None


class _Stream:
    """The records after the header as a readable object, for Arrow's reader."""

    def __init__(self, file: DelimitedFile, skip: int) -> None:
        self._told = [0.0]
        self._blocks = file._blocks(self._told)
        self._rest = memoryview(b"")
        self.closed = False
        while skip > 0 and not self._fill():
            used = min(skip, len(self._rest))
            self._rest = self._rest[used:]
            skip -= used

    def _fill(self) -> bool:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return True
            self._rest = memoryview(block)
        return False

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._fill()

    @property
    def fraction(self) -> float:
        """How much of the file was read."""
        return self._told[0]

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size
        while wanted != 0 and not self._fill():
            part = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(part) :]
            parts.append(bytes(part))
            wanted = wanted if wanted < 0 else wanted - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self.closed = True


class _Scan:
    """A streaming check of quotes, field counts, NUL bytes and UTF-8, vectorised over blocks."""

    def __init__(self, path: Path, fields: int, delimiter: int) -> None:
        self.path, self.fields, self.delimiter = path, fields, delimiter
        self.rest = b""
        self.line = 1  # of the first byte of `rest`

    def feed(self, block: bytes) -> None:
        """Check all records that are complete."""
        data = self.rest + block
        if b"\0" in block:
            raise self.error(data, data.index(b"\0"), _NUL)
        end = self.check(data)
        self.line += data.count(b"\n", 0, end)
        self.rest = data[end:]
        if len(self.rest) > MAX_RECORD:
            raise self.error(self.rest, 0, _TOO_LONG.format(MAX_RECORD))

    def finish(self) -> None:
        """Check the last record, whether or not a line end follows it."""
        if self.rest and self.check(self.rest + b"\n") <= len(self.rest):
            self.raise_open(self.rest)

    def check(self, data: bytes) -> int:
        """Check the complete records of `data`; return where they end."""
        array = np.frombuffer(data, dtype=np.uint8)
        quoted = b'"' in data
        mark = (array == _LF) | (array == self.delimiter)
        if quoted:
            mark |= array == _QUOTE
        at = np.flatnonzero(mark)
        quotes = None
        if quoted:
            is_quote = array[at] == _QUOTE
            inside = np.logical_xor.accumulate(is_quote)
            quotes = at[is_quote]
            self.check_quotes(data, array, quotes)
            at = at[~is_quote & ~inside]
        ends = np.flatnonzero(array[at] == _LF)
        if not ends.size:
            return 0
        end = int(at[ends[-1]]) + 1
        self.check_text(data[:end] if end < len(data) else data)
        self.check_returns(data, array, quotes, end)
        self.check_fields(data, at[ends], np.diff(ends, prepend=-1))
        return end

    def check_text(self, data: bytes) -> None:
        if data.isascii():
            return
        try:
            codecs.utf_8_decode(data, "strict", True)
        except UnicodeDecodeError as bad:
            raise _not_utf8(self.path, self.line + data.count(b"\n", 0, bad.start)) from None

    def check_quotes(self, data: bytes, array: NDArray[np.uint8], quotes: NDArray[np.intp]) -> None:
        closing = quotes[1::2]
        if closing.size and closing[-1] + 1 == len(array):
            closing = closing[:-1]  # what follows is in the next block; it is checked with that
        before, after = array[quotes[0::2] - 1], array[closing + 1]
        opens = (before == self.delimiter) | (before == _LF) | (before == _QUOTE)
        opens[0] |= quotes[0] == 0
        closes = (after == self.delimiter) | (after == _LF) | (after == _CR) | (after == _QUOTE)
        if opens.all() and closes.all():
            return
        stray = 2 * int(np.argmin(opens)) if not opens.all() else len(quotes)
        ends = 2 * int(np.argmin(closes)) + 1 if not closes.all() else len(quotes)
        if stray < ends:
            problem = "a quote inside a field that is not quoted; quote the whole field and double the quote"
            raise self.error(data, int(quotes[stray]), problem)
        start = ends - 1
        while start > 0 and quotes[start] == quotes[start - 1] + 1:
            start -= 2  # a doubled quote: the field opened before it
        problem = "a quoted field opens here and goes on after its closing quote; double the quotes inside it"
        raise self.error(data, int(quotes[start]), problem)

    def check_returns(
        self, data: bytes, array: NDArray[np.uint8], quotes: NDArray[np.intp] | None, end: int
    ) -> None:
        if data.count(b"\r", 0, end) == data.count(b"\r\n", 0, end):
            return
        at = np.flatnonzero(array[:end] == _CR)
        at = at[array[at + 1] != _LF]
        if quotes is not None:
            at = at[np.searchsorted(quotes, at) % 2 == 0]
        if at.size:
            raise self.error(
                data,
                int(at[0]),
                "a carriage return that is not part of a line end; save with LF or CRLF line ends",
            )

    def check_fields(self, data: bytes, ends: NDArray[np.intp], counts: NDArray[np.intp]) -> None:
        lengths = np.diff(ends, prepend=-1)
        if int(lengths.max()) > MAX_RECORD:
            longest = int(np.argmax(lengths > MAX_RECORD))
            raise self.error(
                data, 0 if longest == 0 else int(ends[longest - 1]) + 1, _TOO_LONG.format(MAX_RECORD)
            )
        wrong = np.flatnonzero(counts != self.fields)
        for i in wrong:
            start, stop = (0 if i == 0 else int(ends[i - 1]) + 1), int(ends[i])
            if data[start:stop] in (b"", b"\r"):
                continue
            raise self.error(
                data,
                start,
                f"{counts[i]} field{'s' if counts[i] > 1 else ''} where the header has {self.fields}; "
                "repair the line, or quote fields that contain the delimiter",
            )

    def raise_open(self, data: bytes) -> None:
        """Say where the quoted field opens in which the file ends."""
        array = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(array == _QUOTE)
        raise self.error(data, int(quotes[-1]), "a quoted field opens here and never closes; close its quote")

    def error(self, data: bytes, position: int, problem: str) -> SourceError:
        line = self.line + data.count(b"\n", 0, position)
        return SourceError(f"{self.path}: line {line}: {problem}")


def _decoder(
    path: Path, first: bytes, encoding: str | None
) -> tuple[codecs.IncrementalDecoder | None, bytes]:
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
        raise SourceError(
            f"{path}: unknown encoding '{encoding}'; use a name such as utf-8 or latin-1"
        ) from None


def _not_utf8(path: Path, line: int) -> SourceError:
    return SourceError(
        f"{path}: line {line}: not UTF-8; save it as UTF-8, or say its encoding, such as encoding='latin-1'"
    )
