"""Codes kept in memory between passes, column by column, as far as there is room.

A column is kept whole or not at all. Blocks are copied into large arrays: the operating system hands those
out in huge pages, which costs a hundredth of what the same memory costs in small ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.unsignedinteger]

_ARRAY = 1 << 24


class Cache:
    """Blocks of columns, up to a number of bytes.

    Parameters
    ----------
    room
        How many bytes may be kept.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: dict[str, _Blocks] | None = None

    @property
    def columns(self) -> dict[str, list[Column]]:
        """The blocks of every column that fitted."""
        return {name: kept.blocks for name, kept in (self._kept or {}).items()}

    def add(self, columns: Mapping[str, Column]) -> None:
        """Keep one more block of every column; drop columns, the last ones first, when there is no room."""
        if self._kept is None:
            self._kept = {name: _Blocks() for name in columns}
        self._room -= sum(columns[name].nbytes for name in self._kept)
        while self._room < 0 and self._kept:
            name, dropped = self._kept.popitem()
            self._room += dropped.nbytes + columns[name].nbytes
        for name, kept in self._kept.items():
            kept.append(columns[name], min(_ARRAY, self._room // len(self._kept)))


class _Blocks:
    """The blocks of one column: the first by itself, as a small table has no other, then in large arrays."""

    def __init__(self) -> None:
        self.blocks: list[Column] = []
        self._array: Column = np.empty(0, dtype=np.uint8)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def append(self, block: Column, size: int) -> None:
        if self._used + len(block) > len(self._array):
            rows = max(len(block), size // block.itemsize) if self.blocks else len(block)
            self._array, self._used = np.empty(rows, dtype=block.dtype), 0
        place = self._array[self._used : self._used + len(block)]
        place[:] = block
        self._used += len(block)
        self.blocks.append(place)
