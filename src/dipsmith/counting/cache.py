"""Codes kept in memory between passes, as far as there is room.

Columns of few values share a byte, bit by bit: to touch fresh memory costs more than to shift bits. Such a
group of columns is kept whole or not at all. Blocks are copied into large arrays: the operating system hands
those out in huge pages, which costs a hundredth of what the same memory costs in small ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.unsignedinteger]

_ARRAY = 1 << 24
_BITS = 8


class Cache:
    """Blocks of columns, up to a number of bytes.

    Parameters
    ----------
    room
        How many bytes may be kept.
    sizes
        How many codes every column has that is going to be kept.

    Examples
    --------
    >>> cache = Cache(1 << 10, {"sex": 2, "grade": 15})
    >>> cache.add({"sex": np.array([0, 1], np.uint8), "grade": np.array([14, 3], np.uint8)})
    >>> cache.nbytes, [cache.block(name, 0).tolist() for name in cache]
    (2, [[14, 3], [0, 1]])
    """

    def __init__(self, room: int, sizes: Mapping[str, int]) -> None:
        self._room = room
        self._groups = _grouped(sizes)

    def __contains__(self, name: str) -> bool:
        return any(name in group.places for group in self._groups)

    def __iter__(self) -> Iterator[str]:
        return (name for group in self._groups for name in group.places)

    @property
    def nbytes(self) -> int:
        """How many bytes the blocks take."""
        return sum(block.nbytes for group in self._groups for block in group.blocks)

    def add(self, columns: Mapping[str, Column]) -> None:
        """Keep one more block of every column; drop columns, the last ones first, when there is no room."""
        self._room -= sum(group.need(columns) for group in self._groups)
        while self._room < 0 and self._groups:
            dropped = self._groups.pop()
            self._room += sum(block.nbytes for block in dropped.blocks) + dropped.need(columns)
        for group in self._groups:
            group.append(columns, min(_ARRAY, self._room // len(self._groups)))

    def block(self, name: str, i: int) -> Column:
        """The codes of a column in the block number `i`."""
        return next(group for group in self._groups if name in group.places).block(name, i)


@dataclass
class _Group:
    """Columns that share a byte, or one column of any width; the blocks of a small table by themselves.

    Attributes
    ----------
    places
        The lowest bit and the number of bits of every column; no bits for a column by itself.
    """

    places: dict[str, tuple[int, int]]
    blocks: list[Column] = field(default_factory=list)
    array: Column = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    used: int = 0

    def need(self, columns: Mapping[str, Column]) -> int:
        return columns[next(iter(self.places))].nbytes

    def append(self, columns: Mapping[str, Column], size: int) -> None:
        first, *others = self.places
        block = columns[first]
        if not self.blocks or self.used + len(block) > len(self.array):
            rows = max(len(block), size // block.itemsize) if self.blocks else len(block)
            self.array, self.used = np.empty(rows, dtype=block.dtype), 0
        place = self.array[self.used : self.used + len(block)]
        place[:] = block
        for name in others:
            # as fast as a shift is slow
            place *= 1 << self.places[name][1]
            place += columns[name]
        self.used += len(block)
        self.blocks.append(place)

    def block(self, name: str, i: int) -> Column:
        lowest, bits = self.places[name]
        block = self.blocks[i]
        if not bits:
            return block
        high: Column = block >> np.uint8(lowest) if lowest else block
        return high if lowest + bits == self.bits else high & np.uint8((1 << bits) - 1)

    @property
    def bits(self) -> int:
        return sum(bits for _, bits in self.places.values())


def _grouped(sizes: Mapping[str, int]) -> list[_Group]:
    """Put columns into bytes: the widest first, each into the first byte that has room."""
    bytes_: list[dict[str, int]] = []
    alone: list[str] = []
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        bits = max(1, (size - 1).bit_length())
        if bits >= _BITS:
            alone.append(name)
            continue
        shared = next((held for held in bytes_ if sum(held.values()) + bits <= _BITS), None)
        if shared is None:
            bytes_.append({name: bits})
        else:
            shared[name] = bits
    groups = []
    for held in bytes_:
        lowest, places = sum(held.values()), {}
        for name, bits in held.items():
            lowest -= bits
            places[name] = (lowest, bits)
        groups.append(_Group(places if len(places) > 1 else dict.fromkeys(places, (0, 0))))
    return groups + [_Group({name: (0, 0)}) for name in alone]
