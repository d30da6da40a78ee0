"""The syntax of a CSV file, checked block by block on its bytes.

A file passes only if all readers agree on what it says (RFC 4180, section 2): every record has as many
fields as the header, a quote opens a field or is doubled inside one, a line ends in LF or CRLF, the text
is UTF-8 without NUL bytes. Empty lines are skipped. No record is longer than `MAX_RECORD` bytes, which
bounds the memory that a hostile file can ask for. Messages name the line and repeat nothing of it.
"""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SourceError
from dipsmith.sources.retelling import retell

MAX_RECORD = 1 << 20
NUL = "NUL byte: not a text file, or UTF-16 without byte order mark; save it as UTF-8 CSV"
_TOO_LONG = "a record longer than {} bytes starts here; close its quotes or shorten it"
_LF, _CR, _QUOTE = 10, 13, 34


class Scan:
    """A streaming check of quotes, field counts, NUL bytes and UTF-8, vectorised over blocks."""

    def __init__(self, path: Path, fields: int, delimiter: int) -> None:
        self._path, self._fields, self._delimiter = path, fields, delimiter
        self._rest = b""
        self._line = 1  # of the first byte of the rest

    def feed(self, block: bytes) -> None:
        """Check all records that are complete."""
        data = self._rest + block
        if b"\0" in block:
            raise self._error(data, data.index(b"\0"), NUL)
        end = self._complete(data)
        self._line += data.count(b"\n", 0, end)
        self._rest = data[end:]
        if len(self._rest) > MAX_RECORD:
            raise self._error(self._rest, 0, _TOO_LONG.format(MAX_RECORD))

    def finish(self) -> None:
        """Check the last record, whether or not a line end follows it."""
        if self._rest and self._complete(self._rest + b"\n") <= len(self._rest):
            quotes = np.flatnonzero(np.frombuffer(self._rest, dtype=np.uint8) == _QUOTE)
            problem = "a quoted field opens here and never closes; close its quote"
            raise self._error(self._rest, _opening(quotes, len(quotes) - 1), problem)

    def _complete(self, data: bytes) -> int:
        """Check the complete records of `data`; return where they end."""
        array = np.frombuffer(data, dtype=np.uint8)
        quoted = b'"' in data
        mark = (array == _LF) | (array == self._delimiter)
        if quoted:
            mark |= array == _QUOTE
        at = np.flatnonzero(mark)
        quotes = None
        if quoted:
            is_quote = array[at] == _QUOTE
            inside = np.logical_xor.accumulate(is_quote)
            quotes = at[is_quote]
            self._check_quotes(data, array, quotes)
            at = at[~is_quote & ~inside]
        ends = np.flatnonzero(array[at] == _LF)
        if not ends.size:
            return 0
        end = int(at[ends[-1]]) + 1
        self._check_text(data[:end] if end < len(data) else data)
        self._check_returns(data, array, quotes, end)
        self._check_fields(data, at[ends], np.diff(ends, prepend=-1))
        return end

    def _check_text(self, data: bytes) -> None:
        if data.isascii():
            return
        try:
            codecs.utf_8_decode(data, "strict", True)
        except UnicodeDecodeError as bad:
            retell(not_utf8(self._path, self._line + data.count(b"\n", 0, bad.start)))

    def _check_quotes(self, data: bytes, array: NDArray[np.uint8], quotes: NDArray[np.intp]) -> None:
        closing = quotes[1::2]
        if closing.size and closing[-1] + 1 == len(array):
            closing = closing[:-1]  # what follows is in the next block; it is checked with that
        before, after = array[quotes[0::2] - 1], array[closing + 1]
        opens = (before == self._delimiter) | (before == _LF) | (before == _QUOTE)
        opens[0] |= quotes[0] == 0
        closes = (after == self._delimiter) | (after == _LF) | (after == _CR) | (after == _QUOTE)
        if opens.all() and closes.all():
            return
        stray = 2 * int(np.argmin(opens)) if not opens.all() else len(quotes)
        ends = 2 * int(np.argmin(closes)) + 1 if not closes.all() else len(quotes)
        if stray < ends:
            problem = "a quote inside a field that is not quoted; quote the whole field and double the quote"
            raise self._error(data, int(quotes[stray]), problem)
        problem = "a quoted field opens here and goes on after its closing quote; double the quotes inside it"
        raise self._error(data, _opening(quotes, ends - 1), problem)

    def _check_returns(self, data: bytes, array: NDArray[np.uint8], quotes: NDArray[np.intp] | None, end: int) -> None:
        if data.count(b"\r", 0, end) == data.count(b"\r\n", 0, end):
            return
        at = np.flatnonzero(array[:end] == _CR)
        at = at[array[at + 1] != _LF]
        if quotes is not None:
            at = at[np.searchsorted(quotes, at) % 2 == 0]
        if at.size:
            raise self._error(
                data, int(at[0]), "a carriage return that is not part of a line end; save with LF or CRLF line ends"
            )

    def _check_fields(self, data: bytes, ends: NDArray[np.intp], counts: NDArray[np.intp]) -> None:
        lengths = np.diff(ends, prepend=-1)
        if int(lengths.max()) > MAX_RECORD:
            longest = int(np.argmax(lengths > MAX_RECORD))
            raise self._error(data, 0 if longest == 0 else int(ends[longest - 1]) + 1, _TOO_LONG.format(MAX_RECORD))
        wrong = np.flatnonzero(counts != self._fields)
        for i in wrong:
            start, stop = (0 if i == 0 else int(ends[i - 1]) + 1), int(ends[i])
            if data[start:stop] in (b"", b"\r"):
                continue
            raise self._error(
                data,
                start,
                f"{counts[i]} field{'s' if counts[i] > 1 else ''} where the header has {self._fields}; "
                "repair the line, or quote fields that contain the delimiter",
            )

    def _error(self, data: bytes, position: int, problem: str) -> SourceError:
        line = self._line + data.count(b"\n", 0, position)
        return SourceError(f"{self._path}: line {line}: {problem}")


def _opening(quotes: NDArray[np.intp], place: int) -> int:
    """Return where the field opens that the quote at an even place opens or goes on with."""
    while place > 0 and quotes[place] == quotes[place - 1] + 1:
        place -= 2  # a doubled quote: the field opened before it
    return int(quotes[place])


def not_utf8(path: Path, line: int) -> SourceError:
    """Say that a line is not UTF-8."""
    return SourceError(
        f"{path}: line {line}: not UTF-8; save it as UTF-8, or say its encoding, such as encoding='latin-1'"
    )
