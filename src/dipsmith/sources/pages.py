"""The pages of a Parquet column without their levels, for columns in which nothing is missing.

Nearly every writer declares every column optional. Arrow then decodes a level for every value, whether or
not one is missing, and that takes three times as long as the values. Where the levels of a whole column
chunk say that nothing is missing, which a single run of ones says in three bytes a page, they are left out
here and Arrow is handed the same pages as a required column, in a small Parquet file in memory. Measured by
``python benchmarks/counting.py``: the 6-way table of 10 M rows.

Guarantee: the values are those that Arrow reads from the file itself. Anything unusual (missing values,
nested columns, an unknown codec, tiny pages, headers that contradict the pages) is left to Arrow as it is.

Source: the Parquet format, its description of page headers and of the run-length/bit-packing hybrid.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.sources import compact
from dipsmith.sources.compact import BINARY, I32, I64, LIST, STRUCT, Struct

_MAGIC = b"PAR1"
_GROUP_ROWS = 1 << 16
_PAGE_ROWS = 1 << 12
"""Below these the bookkeeping costs more than the levels do."""
_GROUP_BYTES = 1 << 26
"""What one row group may take in memory."""
_DATA, _DICTIONARY = 0, 2
_REQUIRED, _OPTIONAL = 0, 1
_ODD = (LookupError, ValueError, TypeError, AttributeError, RecursionError, OSError, pa.ArrowException)
"""What comes of bytes that are no headers, or have other types in them than the format says."""
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}


@dataclass(frozen=True)
class Pages:
    """The pages of some columns of a file.

    Attributes
    ----------
    metadata
        The footer of the file.
    columns
        Place and description of every column.
    types
        The types in which Arrow reads them.
    """

    metadata: pq.FileMetaData
    columns: tuple[tuple[int, Struct], ...]
    types: pa.Schema

    @classmethod
    def of(cls, file: pq.ParquetFile, path: Path, names: Sequence[str]) -> Pages | None:
        """Find the columns; None where leaving levels out cannot pay or the file is not that simple."""
        metadata = file.metadata
        if not names or metadata.num_rows < _GROUP_ROWS * metadata.num_row_groups:
            return None
        try:
            described = _top_level(compact.read(_footer(path), until=3)[0][2][1][1])
            paths = [file.schema.column(i).path for i in range(len(file.schema))]
            columns = tuple((paths.index(name), described[name]) for name in names)
            optional = any(element[3][1] == _OPTIONAL for _, element in columns)
        except _ODD:
            return None
        # "a.b" may also be the column b within a
        if not optional or any(paths.count(name) > 1 for name in names):
            return None
        return cls(metadata, columns, pa.schema([file.schema_arrow.field(name) for name in names]))

    def group(self, file: BinaryIO, number: int) -> pa.Buffer | None:
        """Make a file of one row group's columns, without levels where nothing is missing.

        Parameters
        ----------
        file
            The file, open for reading.
        number
            Which row group.
        """
        group = self.metadata.row_group(number)
        found = [group.column(place) for place, _ in self.columns]
        if sum(chunk.total_uncompressed_size for chunk in found) > _GROUP_BYTES:
            return None
        try:
            chunks = [
                _Chunk.of(chunk, element, file)
                for chunk, (_, element) in zip(found, self.columns, strict=True)
            ]
            return None if all(chunk.verbatim for chunk in chunks) else self._file(chunks, group.num_rows)
        except _ODD:
            return None

    def _file(self, chunks: Sequence[_Chunk], rows: int) -> pa.Buffer:
        elements: list[Struct] = [{4: (BINARY, b"schema"), 5: (I32, len(chunks))}]
        placed: list[Struct] = []
        parts: list[bytes | memoryview] = [_MAGIC]
        at = len(_MAGIC)
        for chunk in chunks:
            elements.append(chunk.element)
            placed.append(chunk.placed(at))
            parts += chunk.parts
            at += chunk.size
        group: Struct = {1: (LIST, (STRUCT, placed)), 2: (I64, at), 3: (I64, rows)}
        types: Struct = {
            1: (BINARY, b"ARROW:schema"),
            2: (BINARY, base64.b64encode(self.types.serialize().to_pybytes())),
        }
        footer = compact.write(
            {
                1: (I32, 2),
                2: (LIST, (STRUCT, elements)),
                3: (I64, rows),
                4: (LIST, (STRUCT, [group])),
                5: (LIST, (STRUCT, [types])),
            }
        )
        parts += [footer, len(footer).to_bytes(4, "little"), _MAGIC]
        return _joined(parts)


@dataclass(frozen=True)
class _Chunk:
    """The pages of one column in one row group: verbatim, or without levels and uncompressed."""

    element: Struct
    parts: list[bytes | memoryview]
    size: int
    dictionary: int
    values: int
    codec: int
    verbatim: bool

    @classmethod
    def of(cls, chunk: pq.ColumnChunkMetaData, element: Struct, file: BinaryIO) -> _Chunk:
        codec, values = _CODECS[chunk.compression], chunk.num_values
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
            start = chunk.dictionary_page_offset
        file.seek(start)
        raw = file.read(chunk.total_compressed_size)
        if element[3][1] == _OPTIONAL:
            without = _without_levels(raw, values, chunk.compression, chunk.total_uncompressed_size)
            if without is not None:
                parts, dictionary = without
                size = sum(map(len, parts))
                return cls(
                    element | {3: (I32, _REQUIRED)}, parts, size, dictionary, values, 0, verbatim=False
                )
        return cls(element, [raw], len(raw), chunk.data_page_offset - start, values, codec, verbatim=True)

    def placed(self, at: int) -> Struct:
        """Describe the chunk as the footer does."""
        described: Struct = {
            1: self.element[1],
            2: (LIST, (I32, [0, 3, 8])),
            3: (LIST, (BINARY, [self.element[4][1]])),
            4: (I32, self.codec),
            5: (I64, self.values),
            6: (I64, self.size),
            7: (I64, self.size),
            9: (I64, at + self.dictionary),
        }
        if self.dictionary:
            described[11] = (I64, at)
        return {2: (I64, at), 3: (STRUCT, described)}


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        end = file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(end - size)
        return file.read(size)


def _top_level(elements: Sequence[Struct]) -> dict[str, Struct]:
    """The columns that are no part of a nested one, by name."""
    found: dict[str, Struct] = {}
    inside = 0
    for element in elements[1:]:
        children = element[5][1] if 5 in element else 0
        if inside == 0 and not children:
            found[element[4][1].decode()] = element
        inside += children - (inside > 0)
    return found


def _without_levels(
    raw: bytes, values: int, codec: str, most: int
) -> tuple[list[bytes | memoryview], int] | None:
    """The headers and contents of a chunk's pages, and the size of the dictionary page; None if levels matter."""
    pages: list[_Page] = []
    places: list[slice] = []
    sizes: list[int] = []
    rest = b""
    data = _Page(b"", b"", 0)
    seen = at = 0
    while seen < values:
        if found := _DATA_HEADER.match(raw, at):
            size, packed = _sizes(found[0])
            at = found.end()
            # from here on the header is mostly that of the page before
            if not rest or not raw.startswith(rest, at):
                told, end = compact.read(raw, at)
                rest = raw[at : end + 1]
                data = _Page.data(told)
            at += len(rest)
            seen += data.rows
            if data.rows < _PAGE_ROWS and seen < values:
                return None
            pages.append(data)
        else:
            header, at = compact.read(raw, at)
            size, packed = header[2][1], header[3][1]
            if header[1][1] != _DICTIONARY or pages:
                return None
            pages.append(_Page.dictionary(header))
        if not 0 <= packed <= len(raw) - at or not 0 <= size <= most:
            raise ValueError(at)
        places.append(slice(at, at + packed))
        sizes.append(size)
        at += packed
    if sum(sizes) > most:
        raise ValueError(most)
    contents, starts = _unpacked(raw, places, sizes, codec)
    parts: list[bytes | memoryview] = []
    known, levels = data, b""
    for page, start, size in zip(pages, starts, sizes, strict=True):
        skipped = 0
        if page.rows:
            # the levels, too, are mostly those of the page before
            if not levels or page is not known or contents[start : start + len(levels)] != levels:
                first = start + 4
                levels = bytes(contents[start : first + int.from_bytes(contents[start:first], "little")])
                if not _all_there(levels[4:], page.rows):
                    return None
                known = page
            skipped = len(levels)
        if skipped > size:
            raise ValueError(start)
        parts += (page.header(size - skipped), contents[start + skipped : start + size])
    return parts, sum(map(len, parts[:2])) if pages[0].rows == 0 else 0


_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_DATA_HEADER = re.compile(rb"\x15\x00\x15%b\x15%b(?:\x15%b)?[\x1c\x2c]" % ((_VARINT,) * 3))
"""The header of a data page up to the field 5: kind, size, packed size and, it may be, a checksum."""


@lru_cache(1024)
def _sizes(written: bytes) -> tuple[int, int]:
    """The size and the packed size that the header of a data page tells."""
    size, at = compact.varint(written, 3)
    packed, _ = compact.varint(written, at + 1)
    return size >> 1, packed >> 1


@dataclass(frozen=True)
class _Page:
    """What the header of a page says before and after the sizes of its contents."""

    before: bytes
    after: bytes
    rows: int
    headers: dict[int, bytes] = field(default_factory=dict, compare=False)

    @classmethod
    def data(cls, told: Struct) -> _Page:
        wanted: Struct = {5: (STRUCT, {number: told[number] for number in (1, 2, 3, 4)})}
        return cls(compact.write({1: (I32, _DATA)})[:-1], compact.write(wanted, after=3), told[1][1])

    @classmethod
    def dictionary(cls, header: Struct) -> _Page:
        return cls(compact.write({1: (I32, _DICTIONARY)})[:-1], compact.write({7: header[7]}, after=3), 0)

    def header(self, size: int) -> bytes:
        """The header of a page with contents of this size, not packed."""
        if size not in self.headers:
            length = b"\x15" + compact.integer(size)
            self.headers[size] = self.before + length + length + self.after
        return self.headers[size]


def _unpacked(
    raw: bytes, places: Sequence[slice], sizes: Sequence[int], codec: str
) -> tuple[memoryview, list[int]]:
    """The contents of pages, and where in them each page starts.

    Pages packed by Snappy or Zstandard are unpacked together, as one block or as frames that follow one
    another: a call for every page would have threads wait for Python's lock thousands of times.
    """
    whole = memoryview(raw)
    if codec == "UNCOMPRESSED":
        return whole, [place.start for place in places]
    starts = list(itertools.accumulate(sizes[:-1], initial=0))
    unpack = pa.Codec(codec.lower()).decompress
    if codec not in ("SNAPPY", "ZSTD"):
        pages = zip(places, sizes, strict=True)
        return memoryview(b"".join([unpack(whole[place], size) for place, size in pages])), starts
    blocks: list[bytes | memoryview] = [whole[place] for place in places]
    if codec == "SNAPPY":
        # a block is the length of its contents and then what makes them, which refers to nothing before the block
        lengths = [(size.bit_length() + 6) // 7 or 1 for size in sizes]
        blocks = [block[length:] for block, length in zip(blocks, lengths, strict=True)]
        blocks.insert(0, compact.unsigned(sum(sizes)))
    return memoryview(unpack(b"".join(blocks), sum(sizes))).cast("B"), starts


@lru_cache(4)
def _all_there(levels: bytes, rows: int) -> bool:
    """Whether the levels of a page are ones: so many that every row has one."""
    at = seen = 0
    while at < len(levels):
        run, at = compact.varint(levels, at)
        packed = run & 1
        size = run >> 1 if packed else 1
        if levels[at : at + size] != (b"\xff" if packed else b"\x01") * size:
            return False
        seen += 8 * size if packed else run >> 1
        at += size
    return seen >= rows


def _joined(parts: Sequence[bytes | memoryview]) -> pa.Buffer:
    """One buffer of Arrow's own, whose allocator keeps its memory warm."""
    made = pa.allocate_buffer(sum(map(len, parts)))
    place = memoryview(made).cast("B")
    at = 0
    for part in parts:
        place[at : at + len(part)] = part
        at += len(part)
    return made
