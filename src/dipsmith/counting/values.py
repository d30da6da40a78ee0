"""The values of rows that count, for questions that need more than codes: numbers as they stand, categories as places in a list.

A regression on the confidential rows is computed from values, not from bins. What may be read is said by a `ValueReading`, made
of the schema alone: a number is clipped to its public bounds, a category is a place in its public list, and nothing else of
a row is looked at. No list, bound or type comes from the rows.

Rows come in the order of the source, block by block; those beyond `max_rows` of their units, and those that break a rule,
are left out as everywhere (`docs/proofs/counting.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import numbers, texts, values_of
from dipsmith.counting.encoded import EncodedRows
from dipsmith.counting.units import unit_text
from dipsmith.errors import UsageError
from dipsmith.schema import Attribute, Bins, Codes, Schema
from dipsmith.schema.attribute import is_whole
from dipsmith.schema.domain import MAX_LEVELS

DAY = 86_400e6
"""Microseconds: a moment is read as a number of days."""


@dataclass(frozen=True)
class ValueReading:
    """Which columns of a schema are read: `numbers` by their values, `levels` as places in their public lists.

    `codes` are read as the schema codes them, and stand among the levels.
    """

    schema: Schema
    numbers: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.numbers:
            attribute = self.schema[name]
            if not is_number(attribute):
                raise UsageError(f"column '{name}' is text, which has no number; use it as a category")
        for name in self.levels:
            self.list_levels(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that are read, in the order of the schema."""
        return tuple(n for n in self.schema.names if n in {*self.numbers, *self.levels, *self.codes})

    def list_levels(self, name: str) -> tuple[str, ...]:
        """The public levels of a column, as an analyst of the release names them."""
        return public_levels(self.schema[name], verbatim=name in self.verbatim)

    @cached_property
    def verbatim(self) -> frozenset[str]:
        """The columns that a release holds as they stand: the public ones under `label`."""
        return frozenset(self.schema.public if self.schema.neighbours == "label" else ())


@dataclass(frozen=True, eq=False)
class Values:
    """The values of some rows: numbers, NaN where there is none; places in the public lists, −1 where there is none.

    Private, and exact.
    """

    numbers: Mapping[str, Floats]
    levels: Mapping[str, Ints]
    rows: int

    def take(self, rows: NDArray[np.intp] | Bools | slice) -> Values:
        """Some of the rows."""
        count = len(np.arange(self.rows)[rows])
        return Values(
            {n: v[rows] for n, v in self.numbers.items()}, {n: v[rows] for n, v in self.levels.items()}, count
        )

    def matrix(self, reading: ValueReading) -> Ints:
        """What a reading sees of each row as a row of 64-bit words, public columns first: rows are alike where all words are."""
        words = [
            (n, (np.where(np.isnan(self.numbers[n]), np.nan, self.numbers[n]) + 0.0).view(np.int64))
            for n in reading.numbers
        ]
        words += [(n, self.levels[n].astype(np.int64, copy=False)) for n in (*reading.levels, *reading.codes)]
        words.sort(key=lambda column: reading.schema[column[0]].role != "public")
        return np.column_stack([np.zeros((self.rows, 0), np.int64), *(word for _, word in words)])

    @classmethod
    def join_blocks(cls, parts: list[Values], reading: ValueReading) -> Values:
        """All the rows of some blocks."""
        numbers_of = {n: np.concatenate([np.zeros(0), *(p.numbers[n] for p in parts)]) for n in reading.numbers}
        empty = np.zeros(0, np.int64)
        both = (*reading.levels, *reading.codes)
        levels = {n: np.concatenate([empty, *(p.levels[n] for p in parts)]) for n in both}
        return cls(numbers_of, levels, sum(p.rows for p in parts))


def is_number(attribute: Attribute) -> bool:
    """Whether a column has a number in every row that has a value."""
    domain = attribute.domain
    return isinstance(domain, Bins) or attribute.type == "boolean" or all(map(is_whole, domain.labels))


def public_levels(attribute: Attribute, *, verbatim: bool) -> tuple[str, ...]:
    """The levels of a column as a category: listed labels (verbatim: listed values), each whole number between its bounds.

    A range of numbers too wide to be listed, and numbers that are not whole, are categories by their bins.
    """
    domain = attribute.domain
    if not isinstance(domain, Bins):
        return domain.values if verbatim else domain.labels
    if domain.scale == "integer" and domain.maximum - domain.minimum < MAX_LEVELS:
        return tuple(str(v) for v in range(int(domain.minimum), int(domain.maximum) + 1))
    return domain.labels


def read_values(encoded: EncodedRows, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
    """The values of the lawful rows, block by block, and the text of each row's unit; None where a row is the unit.

    Privacy
    -------
    Reads private rows; the result is private. A row's values depend on that row alone.
    """
    unit = reading.schema.unit.column
    lawful, start = encoded.mask("lawful"), 0
    encoder = Encoder(reading.schema, reading.names)
    for batch in encoded.raw([*dict.fromkeys((*reading.names, *([] if unit is None else [unit])))]):
        kept = lawful[start : start + batch.num_rows]
        start += batch.num_rows
        batch = batch.filter(pa.array(kept))
        codes, _ = encoder.encode(batch)
        names = batch.schema.names
        columns = {name: plain_column(batch.column(names.index(name))) for name in names}
        yield (
            Values(
                {n: _numbers(reading.schema[n], columns[n], codes[n], n in reading.verbatim) for n in reading.numbers},
                {n: _places(reading.schema[n], columns[n], codes[n], n in reading.verbatim) for n in reading.levels}
                | {n: codes[n].astype(np.int64) for n in reading.codes},
                batch.num_rows,
            ),
            None if unit is None else unit_text(columns[unit]),
        )


def values_of_codes(codes: Codes, reading: ValueReading) -> Values:
    """Values that stand for codes, where there are no others: the middle of a bin, the label of a category."""
    found: dict[str, Floats] = {}
    places: dict[str, Ints] = {}
    for name in reading.names:
        attribute, own = reading.schema[name], codes[name].astype(np.int64)
        domain = attribute.domain
        known = own != (-1 if domain.missing_code is None else domain.missing_code)
        if isinstance(domain, Bins):
            high = domain.cuts[1:] - domain.whole
            middle = (domain.cuts[:-1] + high) / 2
            point = np.append(np.floor(middle) if domain.whole else middle, np.nan)[np.where(known, own, -1)]
            width = DAY if domain.scale == "datetime" else 1.0
            listed = len(public_levels(attribute, verbatim=name in reading.verbatim))
            by_value = listed != len(domain.labels)
            at = np.where(known, np.nan_to_num(point) - domain.minimum, -1.0).astype(np.int64) if by_value else own
            value: Floats = point / width
        else:
            first = np.zeros(domain.size, np.int64)
            first[list(reversed(domain.codes))] = np.arange(len(domain.codes) - 1, -1, -1)
            at = first[own] if name in reading.verbatim else own
            value = np.append(_label_numbers(attribute), np.nan)[own] if is_number(attribute) else np.zeros(len(own))
        if name in reading.numbers:
            found[name] = np.where(known, value, np.nan)
        if name in reading.levels:
            places[name] = np.where(known, at, -1)
        if name in reading.codes:
            places[name] = own
    return Values(found, places, len(codes))


def plain_column(column: pa.Array) -> pa.Array:
    """A column without its dictionary and without what an extension type adds."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbers(attribute: Attribute, column: pa.Array, codes: NDArray[np.integer], verbatim: bool) -> Floats:
    domain = attribute.domain
    if not isinstance(domain, Bins):
        if attribute.type == "boolean" or not verbatim:
            return np.asarray(np.append(_label_numbers(attribute), np.nan)[codes], np.float64)
        values, known = numbers(column)
        listed = _numbers_of(domain.values)
        return np.asarray(np.clip(_fill_unknown(values, known, np.nan), listed.min(), listed.max()))
    values, known = values_of(column, domain)
    found = np.clip(
        _fill_unknown(values, known, np.nan if domain.missing else domain.minimum), domain.minimum, domain.maximum
    )
    return found / DAY if domain.scale == "datetime" else found


def _places(attribute: Attribute, column: pa.Array, codes: NDArray[np.integer], verbatim: bool) -> Ints:
    domain = attribute.domain
    own = codes.astype(np.int64)
    if isinstance(domain, Bins):
        if len(public_levels(attribute, verbatim=verbatim)) != len(domain.labels):
            value = _numbers(attribute, column, codes, verbatim)
            return np.where(np.isnan(value), -1.0, np.nan_to_num(value) - domain.minimum).astype(np.int64)
    elif verbatim and attribute.type != "boolean":
        text = texts(column)
        found = pc.index_in(text, value_set=pa.array(domain.values, text.type)).fill_null(-1)
        return np.asarray(found.to_numpy(), np.int64)
    return own if domain.missing_code is None else np.where(own == domain.missing_code, -1, own)


def _fill_unknown(values: NDArray[np.generic], known: Bools | None, otherwise: float) -> Floats:
    found = values.astype(np.float64)
    return found if known is None else np.where(known, found, otherwise)


def _label_numbers(attribute: Attribute) -> Floats:
    return np.array([0.0, 1.0]) if attribute.type == "boolean" else _numbers_of(attribute.domain.labels)


def _numbers_of(labels: tuple[str, ...]) -> Floats:
    return np.array([float(label) for label in labels])
