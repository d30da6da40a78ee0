"""Codes → rows: labels for categories, draws within bins for numbers and times, null for missing.

Decoding reads codes that a model produced, never private rows; its randomness is a matter of
convenience, not of privacy, so any numpy generator will do. Every decoded row encodes back to the
same codes under `released_schema`, exactly, for every code: both ends of every bin are right.

Values within bins are drawn by a stated law, in steps that the schema states or implies. A released number has no more
digits than its column has: the step that the schema states (`precision: 0.01`), else the largest power of ten that
leaves a thousand values in the narrowest bin and every edge on the grid. Moments come in whole seconds unless the
schema is finer. By `law: log` a value is drawn evenly in the logarithm, as suits money and sizes; bins that reach 0 are
drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, log10

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.schema import Attribute, Bins, Categories, Codes, Schema, Unit
from dipsmith.schema.attribute import Type, is_whole
from dipsmith.schema.bins import PRECISIONS, show

_BLOCK = 1 << 15


def decode(codes: Codes, rng: np.random.Generator) -> pa.Table:
    """Turn codes into a table of released values; those within bins are drawn by the law of the bins (`within`).

    Strings become dictionaries of the collapsed labels, integers int64, numbers float64, booleans, dates date32,
    datetimes timestamps in microseconds (UTC, without a zone).

    >>> from dipsmith.schema.bins import by_width
    >>> s = Schema("t", (Attribute("age", "integer", by_width("integer", 17, 90, 5)),), Unit(), "replace")
    >>> table = decode(Codes.of(s, {"age": np.array([0, 14])}), np.random.default_rng(0))
    >>> 17 <= table["age"][0].as_py() <= 21, 87 <= table["age"][1].as_py() <= 90
    (True, True)
    """
    units = codes.units if codes.schema.unit.order is not None else None  # members of a household are not alike
    arrays = [decode_column(codes.schema[name], codes[name], rng, units) for name in codes.names]
    return pa.table(arrays, names=list(codes.names))


def decode_column(
    attribute: Attribute, codes: NDArray[np.unsignedinteger], rng: np.random.Generator, units: Ints | None = None
) -> pa.Array:
    """Turn the codes of one column into released values.

    Rows of one unit lie at the same place of their bins: whoever stays in a bin keeps the value.
    """
    domain = attribute.domain
    absent = None if domain.missing_code is None else codes == domain.missing_code
    if isinstance(domain, Bins):
        places = None if units is None else rng.random(int(units.max(initial=0)) + 1)[units]
        return _points(domain, codes, absent, rng, places)
    at = codes if absent is None else np.where(absent, 0, codes)
    if attribute.type == "boolean":
        return pa.array(at.astype(bool), mask=absent)
    if released_type(attribute) == "integer":
        return pa.array(np.array([int(label) for label in domain.labels], dtype=np.int64)[at], mask=absent)
    indices = pa.array(at.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(indices, pa.array(domain.labels, pa.string()))


def _points(
    domain: Bins,
    codes: NDArray[np.unsignedinteger],
    absent: Bools | None,
    rng: np.random.Generator,
    places: Floats | None,
) -> pa.Array:
    drawn = np.empty(len(codes), dtype=np.int64 if domain.whole else np.float64)
    points = BinPoints.of(domain)
    for start in range(0, len(codes), _BLOCK):
        block = slice(start, start + _BLOCK)
        at = codes[block] if absent is None else np.where(absent[block], 0, codes[block])
        drawn[block] = points.draw(at, rng.random(len(at)) if places is None else places[block])
    if domain.scale == "date":
        return pa.array(drawn.astype(np.int32), mask=absent).cast(pa.date32())
    values = pa.array(drawn, mask=absent)
    return values.cast(pa.timestamp("us")) if domain.scale == "datetime" else values


def released_type(attribute: Attribute) -> Type:
    """Tell the type of a released column: an integer list collapsed to words is released as text."""
    domain = attribute.domain
    if attribute.type == "integer" and isinstance(domain, Categories) and not all(map(is_whole, domain.labels)):
        return "string"
    return attribute.type


def released_schema(schema: Schema) -> Schema:
    """Describe what is released: labels as values, the same codes, no unit column.

    Under `label` the public columns are released as they stand, and keep their description; where it is public which rows
    belong together, the unit's column has new numbers that say so.
    """
    verbatim = schema.public if schema.neighbours == "label" else ()
    attributes = tuple(a if a.name in verbatim else _describe_released(a) for a in schema.attributes)
    notes = schema.notes
    if schema.unit.column is not None:
        notes = (*notes, f"unit of protection: {schema.unit}")
    unit = Unit() if schema.linked is None else schema.unit
    members = schema.members
    if members is not None:
        members = replace(members, schema=replace(released_schema(members.schema), notes=members.schema.notes))
    return replace(schema, attributes=attributes, unit=unit, notes=notes, members=members)


def _describe_released(attribute: Attribute) -> Attribute:
    domain = attribute.domain
    if isinstance(domain, Bins):
        return replace(attribute, domain=replace(domain, spelling=None))
    if domain.values == domain.labels:
        return attribute
    listed = replace(domain, values=domain.labels, codes=tuple(range(len(domain.labels))))
    return replace(attribute, domain=listed, type=released_type(attribute))


def codebook(schema: Schema) -> pa.Table:
    """List every code of every column, for people who read the release in another program."""
    names = ("column", "code", "label", "lower", "upper", "type", "role", "note", "title")
    entries = [entry for one in schema.tables for attribute in one.attributes for entry in _entries(attribute, one)]
    kinds = [(name, pa.int64() if name == "code" else pa.string()) for name in names]
    return pa.Table.from_pylist(entries, pa.schema(kinds))


def _entries(attribute: Attribute, schema: Schema) -> Iterator[dict[str, object]]:
    domain = attribute.domain
    verbatim = schema.neighbours == "label" and attribute.role == "public"
    shared = {
        "column": attribute.name,
        "type": attribute.type if verbatim else released_type(attribute),
        "role": attribute.role,
        "title": attribute.title or None,
    }
    for code, label in enumerate(domain.names):
        ends: dict[str, object] = {}
        if code == domain.missing_code:
            note = "missing"
        elif isinstance(domain, Bins):
            first, beyond = domain.edges[code : code + 2]
            ends = {"lower": show(domain.scale, first), "upper": show(domain.scale, beyond - domain.whole)}
            note = _bin_note(domain, code)
        else:
            note = _label_note(domain, code)
        if verbatim:
            note = "; ".join(filter(None, [note, "released as it stands"]))
        yield {**shared, "code": code, "label": label, **ends, "note": note}


def _bin_note(domain: Bins, code: int) -> str:
    last = len(domain.labels) - 1
    notes = ["upper end excluded"] if code < last and not domain.whole else []
    notes += ["and anything below"] if code == 0 else []
    notes += ["and anything above"] if code == last else []
    notes += ["and unreadable values"] if code == 0 and not domain.missing else []
    return "; ".join(notes)


def _label_note(domain: Categories, code: int) -> str:
    raw = [v for v, c in zip(domain.values, domain.codes, strict=True) if c == code]
    shown = ", ".join(raw[:5]) + (f" and {len(raw) - 5} more" if len(raw) > 5 else "")
    notes = [f"stands for {shown}"] if raw != [domain.labels[code]] else []
    notes += ["and values outside the list"] if code == domain.other else []
    return "; ".join(notes)


VALUES_PER_BIN = 1000
"""A number without a stated precision has at least so many different values in every bin."""
_FINEST = 12


@dataclass(frozen=True, eq=False)
class BinPoints:
    """For each bin the first and the last multiple of 1/`per` · `unit` that it holds; `per` is 0 where floats have no grid."""

    bins: Bins
    first: Floats
    last: Floats
    unit: float
    per: float

    @classmethod
    def of(cls, bins: Bins) -> BinPoints:
        """The values that may be released within bins."""
        unit, per = _step(bins)
        edges = -(-bins.cuts // unit) if bins.whole else _ceil(bins.cuts * per)
        first, last = edges[:-1].copy(), edges[1:] - 1
        if (last < first).any() or np.abs(last).max() > 2.0**52:
            return cls(bins, first, last, unit, 0.0)
        if not bins.whole:
            last[-1] = max(first[-1], np.floor(bins.cuts[-1] * per * (1 + 1e-15)))
        return cls(bins, first, last, unit, per)

    def draw(self, at: NDArray[np.integer], share: Floats) -> Floats:
        """A value within the bin of each code, at a place that is drawn between 0 and 1."""
        first, last = self.first[at], self.last[at]
        if not self.per:
            low, high = self.bins.cuts[:-1][at], self.bins.cuts[1:][at]
            return self._inside(low + share * (high - low), at)
        # the product can round up to the width itself, which is the first value of the next bin
        place = first + np.minimum(np.floor(share * (last - first + 1)), last - first)
        if self.bins.law == "log":
            positive, negative = first > 0, last < 0
            near, far = np.where(negative, -last, first), np.where(negative, -first, last) + 1
            size = np.floor(np.exp(np.log(np.maximum(near, 1)) * (1 - share) + np.log(np.maximum(far, 1)) * share))
            size = np.clip(size, near, far - 1)
            place = np.where(positive | negative, np.where(negative, -size, size), place)
        value = place / self.per * self.unit
        return value if self.bins.whole else self._inside(value, at)

    def _inside(self, value: Floats, at: NDArray[np.integer]) -> Floats:
        """What rounding put beyond an edge, back into its bin: the last value of a half-open one is just below its end."""
        top = np.append(np.nextafter(self.bins.cuts[1:-1], -np.inf), self.bins.cuts[-1])
        return np.asarray(np.clip(value, self.bins.cuts[:-1][at], top[at]))


def _step(bins: Bins) -> tuple[float, float]:
    """The distance of released values as a whole number of units, or one of so many parts of 1."""
    if bins.scale == "datetime":
        second = PRECISIONS["second"]
        ends = bins.cuts[:-1]
        return bins.step or (
            second if bool((ends % second == 0).all() and np.diff(bins.cuts).min() >= second) else 1.0
        ), 1.0
    if bins.scale != "number":
        return 1.0, 1.0
    if bins.step is not None:
        return 1.0, float(round(1 / bins.step))
    narrowest = float(np.diff(bins.cuts).min())
    places = max(0, ceil(log10(VALUES_PER_BIN / narrowest) - 1e-9)) if narrowest < VALUES_PER_BIN else 0
    while places < _FINEST and not np.allclose(
        bins.cuts * 10.0**places, np.rint(bins.cuts * 10.0**places), rtol=0, atol=1e-6
    ):
        places += 1
    return 1.0, 10.0**places


def _ceil(values: Floats) -> Floats:
    """Round up, but for what binary arithmetic added to a whole number."""
    near = np.rint(values)
    return np.where(np.abs(values - near) <= 1e-9 * np.maximum(1.0, np.abs(near)), near, np.ceil(values))
