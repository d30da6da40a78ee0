"""Thrift's compact encoding, as far as the metadata of Parquet files needs it.

A struct is a mapping from field numbers to pairs of a kind and a value, so that what was read can be written
again without knowing what it means. A list's value is the pair of its elements' kind and the elements.

Source: the compact protocol of Apache Thrift, which the Parquet format prescribes for its headers.
"""

from __future__ import annotations

from typing import Any

Struct = dict[int, tuple[int, Any]]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
_INTEGERS = (I16, I32, I64)


def read(data: bytes, at: int = 0, until: int | None = None) -> tuple[Struct, int]:
    """Read a struct and say where it ends; or stop where the value of the field `until` begins.

    Raises
    ------
    IndexError, ValueError
        If the bytes end too early or are no struct.
    """
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        if number == until:
            return fields, at
        if kind in _INTEGERS:
            value, at = _zigzag(data, at)
            fields[number] = kind, value
        else:
            fields[number], at = _read(data, at, kind)
    return fields, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[tuple[int, Any], int]:
    if kind in (TRUE, FALSE):
        return (kind, kind == TRUE), at
    if kind == STRUCT:
        inner, at = read(data, at)
        return (kind, inner), at
    if kind == BINARY:
        size, at = varint(data, at)
    elif kind in (BYTE, DOUBLE):
        size = 1 if kind == BYTE else 8
    elif kind in (LIST, SET):
        return _read_list(data, at, kind)
    else:
        raise ValueError(kind)
    if at + size > len(data):
        raise IndexError(at)
    return (kind, data[at : at + size]), at + size


def _read_list(data: bytes, at: int, kind: int) -> tuple[tuple[int, Any], int]:
    head = data[at]
    size, of = head >> 4, head & 15
    at += 1
    if size == 15:
        size, at = varint(data, at)
    found = []
    for _item in range(size):
        if of in _INTEGERS:
            value, at = _zigzag(data, at)
        else:
            # in a list a truth value takes a byte of its own
            (_kind, value), at = _read(data, at, BYTE if of in (TRUE, FALSE) else of)
        found.append(value)
    return (kind, (of, found)), at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the lowest first, and say where it ends."""
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value > 127:
        value, at = varint(data, at)
        return value >> 1 ^ -(value & 1), at
    return value >> 1 ^ -(value & 1), at + 1


def write(fields: Struct, after: int = 0) -> bytes:
    """Write a struct, or what of it comes after the field `after`.

    Examples
    --------
    >>> read(write({1: (I32, -7), 20: (LIST, (BINARY, [b"a", b""])), 21: (TRUE, True)}))[0]
    {1: (5, -7), 20: (9, (8, [b'a', b''])), 21: (1, True)}
    """
    parts = []
    before = after
    for number in sorted(fields):
        kind, value = fields[number]
        step = number - before
        parts.append(bytes((step << 4 | kind,)) if step < 16 else bytes((kind,)) + integer(number))
        before = number
        if kind not in (TRUE, FALSE):
            parts.append(_write(kind, value))
    return b"".join(parts) + b"\0"


def _write(kind: int, value: Any) -> bytes:
    if kind in _INTEGERS:
        return integer(value)
    if kind == STRUCT:
        return write(value)
    if kind == BINARY:
        return unsigned(len(value)) + bytes(value)
    if kind in (LIST, SET):
        of, items = value
        head = (
            bytes((len(items) << 4 | of,))
            if len(items) < 15
            else bytes((15 << 4 | of,)) + unsigned(len(items))
        )
        return head + b"".join(_write(BYTE if of in (TRUE, FALSE) else of, item) for item in items)
    return bytes(value)


def integer(value: int) -> bytes:
    """Write a number whose sign is its lowest bit."""
    return unsigned(value << 1 if value >= 0 else ~(value << 1))


def unsigned(value: int) -> bytes:
    """Write a number of seven bits a byte, the lowest first."""
    if value < 128:
        return bytes((value,))
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
