"""What `explore.html` knows: every noisy table that fits one small file, and which columns a release can speak about.

A researcher picks columns; the page adds up a noisy table over the other columns, which leaves its estimate unbiased and
its noise known, and draws the interval. What no noisy table holds is told from the synthetic rows without an interval, if
they carry it, and not at all if they do not.

The page stays below `MOST_BYTES` whatever the schema: long ordered columns have their neighbouring levels joined, small
tables come first, and what is left out is said.

Privacy: reads the noisy answers, the released schema, the card and the synthetic rows; post-processing, free.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.counting.tally import count
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.report.explorer import explorer_page
from dipsmith.schema import Attribute, Marginal, Schema
from dipsmith.synthesis.answers import public_rows
from dipsmith.synthesis.holdings import label_columns
from dipsmith.synthesis.supports import LEVELS, Support

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.report import Glance

MOST_BYTES: Final = 3_000_000
LABEL_BYTES: Final = 600_000
TABLE_BYTES: Final = 1_500_000
ROW_BYTES: Final = 500_000
MOST_LEVELS: Final = 200
"""An ordered column with more levels has neighbours joined; an unordered one is left out."""
MOST_CELLS: Final = 40_000
"""A larger table is kept as the tables of its columns and their pairs."""
MOST_TEXT: Final = 60
MOST_NAMED: Final = 20
"""Tables that are named of those left out."""
MOST_PAIRED: Final = 400
"""Columns of which all pairs are told: more would not fit."""

LAPLACE_95: Final = 2.1183
"""The interval of one Laplace noise is so many standard deviations; that of a sum of several is no longer."""
NORMAL_95: Final = 1.96

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Axis:
    """The levels of a column as the page has them: `levels_each` neighbours in one, none of them where it is left out."""

    labels: Names
    levels_each: int = 1

    @classmethod
    def of(cls, attribute: Attribute) -> Axis:
        """The axis of a column."""
        labels = attribute.labels
        if len(labels) <= MOST_LEVELS:
            return cls(tuple(map(_short, labels)))
        if not attribute.domain.ordered:
            return cls(())
        joined = -(-len(labels) // MOST_LEVELS)
        starts = range(0, len(labels), joined)
        ends = (min(a + joined, len(labels)) - 1 for a in starts)
        return cls(
            tuple(f"{_short(labels[a])} … {_short(labels[b])}" for a, b in zip(starts, ends, strict=True)), joined
        )


@dataclass(frozen=True, eq=False)
class PageTable:
    """Noisy counts over some columns, on the axes of the page: flat, with the variance of every cell's noise.

    `tables` are the numbers in measurements.parquet of the tables that were added up, `answer_count` how many answers were
    averaged, `quantile` how many standard deviations hold 95 % of the noise. With `complementary` the two labels of the last
    column add up to what is public, because only one of them was drawn.
    """

    columns: Names
    values: Floats
    variance: Floats
    tables: tuple[int, ...] = ()
    answer_count: int = 1
    quantile: float = NORMAL_95
    complementary: bool = False

    @property
    def noise(self) -> float:
        """The variance of the sum of all cells."""
        return float(self.variance.sum())

    def to_dict(self, places: Mapping[str, int]) -> dict[str, Any]:
        """As the page reads it: whole numbers where they are whole, one variance where all are alike."""
        whole = bool(np.all(self.values == np.round(self.values)))
        alike = len(self.variance) > 0 and bool(np.all(self.variance == self.variance[0]))
        told = {
            "c": [places[n] for n in self.columns],
            "v": self.values.astype(np.int64).tolist() if whole else np.round(self.values, 2).tolist(),
            "e": float(self.variance[0]) if alike else [float(f"{e:.5g}") for e in self.variance.tolist()],
            "t": list(self.tables),
            "m": self.answer_count,
            "z": self.quantile,
        }
        return told | ({"x": 1} if self.complementary else {})


@dataclass(frozen=True, eq=False)
class Answers:
    """All noisy answers about the same columns, one for each set and each part of the rows; the last where it was asked again.

    `labels` is the number of combinations of labels where the answers are leaves of trees, which are added up; else 0.
    """

    parts: Names
    columns: Names
    found: Mapping[tuple[str, tuple[tuple[str, str], ...]], Sequence[tuple[int, MeasuredTable]]]
    labels: int = 0

    @property
    def names(self) -> Names:
        """Parts and columns."""
        return (*self.parts, *self.columns)

    def over(self, wanted: Iterable[str], schema: Schema, axes: Mapping[str, Axis]) -> PageTable | None:
        """The table of some of the columns, averaged over the sets; None where some part of the rows was never asked."""
        kept = tuple(n for n in self.names if n in set(wanted))
        shape = tuple(len(axes[n].labels) for n in kept)
        whole = prod(schema[n].size for n in self.parts)
        sets: dict[str, list[tuple[tuple[tuple[str, str], ...], Sequence[tuple[int, MeasuredTable]]]]] = defaultdict(
            list
        )
        for (sanitised, within), tables in self.found.items():
            sets[sanitised].append((within, tables))
        complete = [parts for parts in sets.values() if len(parts) == whole]
        used = [table for parts in complete for _, tables in parts for _, table in tables]
        trees = {len(tables) for parts in complete for _, tables in parts}
        if len(trees) != 1:
            return None
        values, variance = np.zeros(prod(shape)), np.zeros(prod(shape))
        numbers = []
        for within, tables in (part for parts in complete for part in parts):
            fixed = {n: schema[n].labels.index(label) for n, label in within}
            for number, table in tables:
                cells = table.cells % self.labels if self.labels else table.cells
                sizes = tuple(schema[n].size for n in self.columns)
                codes = dict(zip(self.columns, np.unravel_index(cells, sizes), strict=True)) if self.columns else {}
                place = np.zeros(len(cells), np.int64)
                for name in kept:
                    code = codes[name] if name in codes else fixed[name]
                    place = place * len(axes[name].labels) + code // axes[name].levels_each
                values += np.bincount(place, table.values / len(tables), prod(shape))
                noise = np.where(table.noisy, table.variance / len(tables) ** 2, 0.0)
                variance += np.bincount(place, noise, prod(shape))
                numbers.append(number)
        m = len(complete)
        quantile = NORMAL_95 if all(t.law == "discrete Gaussian" for t in used) else LAPLACE_95
        single = all(t.single for t in used) and self.columns[-1] in kept
        return PageTable(kept, values / m, variance / m**2, tuple(numbers), m * trees.pop(), quantile, single)


def explorer(release: Release, glance: Glance, format: str) -> str:  # noqa: A002
    """`explore.html` of a release."""
    return explorer_page(release.card.dataset, explorer_content(release, glance, format))


def explorer_content(release: Release, glance: Glance, format: str) -> dict[str, Any]:  # noqa: A002
    """All that the page knows, as plain data."""
    card, schema, index = release.card, release.schema, release.support_index
    axes = _axes(schema)
    names = [n for n in schema.names if axes[n].labels]
    places = {n: i for i, n in enumerate(names)}
    alone = {n: index.columns(n) for n in schema.names}
    paired = {two: index.columns(*two) for two in combinations(names[:MOST_PAIRED], 2)}
    measured, left = _within(_noisy_tables(release, axes, index.public), places, TABLE_BYTES)
    shown = [set(t["c"]) for t in measured]
    from_rows = [two for two, found in paired.items() if _is_told_by_rows(found, {places[n] for n in two}, shown)]
    rows, unseen = _within(_of_rows(glance, axes, names, from_rows), places, ROW_BYTES)
    counted_once = card.unit.get("column") is None
    return {
        "dataset": card.dataset,
        "price": card.price,
        "guarantee": card.guarantee,
        "method": card.method,
        "version": card.version,
        "testing": card.testing,
        "rows": card.rows,
        "people": public_rows(release) if counted_once else None,
        "set": f"synthetic-1.{format}{'/' if glance.several_files else ''}",
        "some": len(glance.some),
        "columns": [
            {
                "name": name,
                "labels": list(axes[name].labels),
                "joined": axes[name].levels_each,
                "ordered": bool(schema[name].domain.ordered),
                "level": _level(alone[name]),
            }
            for name in names
        ],
        "pairs": "".join(str(_level(found)) for found in paired.values()),
        "paired": min(len(names), MOST_PAIRED),
        "tables": measured,
        "row_tables": [{"c": t["c"], "v": t["v"]} for t in rows],
        "left": {
            "columns": [n for n in schema.names if not axes[n].labels],
            "tables": [" × ".join(t) for t in left[:MOST_NAMED]],
            "more": max(0, len(left) - MOST_NAMED),
            "rows": len(unseen),
        },
    }


def _level(found: Support) -> int:
    """Measured, carried, not carried or public, as a number from 0."""
    return len(LEVELS) if found.public else LEVELS.index(found.level)


def _is_told_by_rows(found: Support, columns: set[int], shown: Sequence[set[int]]) -> bool:
    """Whether the rows speak of a pair that no table of the page does."""
    told = found.public or (found.level != "not carried" and found.in_rows)
    return told and not any(columns <= table for table in shown)


def _axes(schema: Schema) -> dict[str, Axis]:
    """The axis of every column; of the longest ones none, where their labels would fill the page."""
    axes = {a.name: Axis.of(a) for a in schema}
    left = LABEL_BYTES
    for name in sorted(axes, key=lambda n: (_size(axes[n].labels), schema.names.index(n))):
        left -= _size(axes[name].labels) + _size(name)
        if left < 0:
            axes[name] = Axis(())
    return axes


def _noisy_tables(release: Release, axes: Mapping[str, Axis], public: frozenset[str]) -> Iterator[PageTable | Names]:
    """Noisy tables, each private column by itself first, then the smaller ones; of those that are left out the columns."""
    schema = release.schema
    answers = [a for a in _answers(release.measurements, schema) if all(axes[n].labels for n in a.names)]
    alone: dict[str, PageTable] = {}
    tables: list[tuple[int, Answers, Names]] = []
    for found in answers:
        for name in (n for n in found.names if n not in public):
            one = found.over([name], schema, axes)
            if one is not None and (name not in alone or one.noise < alone[name].noise):
                alone[name] = one
        cells = prod(len(axes[n].labels) for n in found.names)
        if cells <= MOST_CELLS:
            tables.append((cells, found, found.names))
        else:
            tables += [
                (prod(len(axes[n].labels) for n in two), found, two)
                for two in combinations(found.names, 2)
                if len(found.names) > 2 and not public >= set(two)
            ]
            yield found.names
    yield from (alone[n] for n in schema.names if n in alone)
    for cells, found, wanted in sorted(tables, key=lambda t: t[0]):
        if len(wanted) == 1:
            continue  # told already, from the table with the least noise
        made = found.over(wanted, schema, axes) if cells <= MOST_CELLS else None
        if made is not None:
            yield made


def _answers(measured: Sequence[MeasuredTable], schema: Schema) -> list[Answers]:
    """Answers about the same columns together; what is no whole table of released columns is left out."""
    same: dict[tuple[Names, Names, int], dict[Any, list[tuple[int, MeasuredTable]]]] = defaultdict(dict)
    for number, table in enumerate(measured, start=1):
        columns, labels = _columns(table, schema)
        if columns is None or table.counts_some_rows or table.threshold is not None:
            continue
        sanitised = table.block.split("/")[0] if table.block.startswith("set ") else ""
        found = same[tuple(dict(table.within)), columns, labels]
        # Trees are different questions, whose answers are averaged; a table is asked again where its first answer was odd.
        before = found.get((sanitised, table.within), []) if labels else []
        found[sanitised, table.within] = [*before, (number, table)]
    return [Answers(parts, columns, found, labels) for (parts, columns, labels), found in same.items()]


def _columns(table: MeasuredTable, schema: Schema) -> tuple[Names | None, int]:
    """The columns that a table counts by: all of a cross-table, the labels of trees, whose leaves are added up."""
    if table.kind == "cross-table":
        sizes = tuple(schema[n].size for n in table.attributes)
        return (table.attributes, 0) if sizes == table.shape and sizes else (None, 0)
    if table.kind == "regions" and len(table.shape) == 2 and len(table.cells):
        names = label_columns(table)
        columns = tuple(n for n in table.attributes if n in names)
        labels = prod(schema[n].size for n in columns)
        if columns and labels == table.shape[1]:
            return columns, labels
    return None, 0


def _of_rows(
    glance: Glance, axes: Mapping[str, Axis], names: Sequence[str], pairs: Sequence[Names]
) -> Iterator[PageTable]:
    """What the synthetic rows have: every column by itself, and the pairs that only they tell, the smaller tables first."""
    schema = glance.some.schema
    for name in names:
        held = np.bincount(np.arange(schema[name].size) // axes[name].levels_each, glance.counts[name])
        yield PageTable((name,), held.astype(np.float64), np.zeros(1))
    small = sorted((two for two in pairs if _cells(two, axes) <= MOST_CELLS), key=lambda two: _cells(two, axes))
    for two in small:
        counts = count([glance.some], [Marginal.of(schema, two)])[0].reshape([schema[n].size for n in two])
        for axis, name in enumerate(two):
            counts = np.add.reduceat(counts, np.arange(0, schema[name].size, axes[name].levels_each), axis=axis)
        yield PageTable(two, counts.ravel().astype(np.float64), np.zeros(1))


def _cells(columns: Sequence[str], axes: Mapping[str, Axis]) -> int:
    return prod(len(axes[n].labels) for n in columns)


def _within(
    tables: Iterable[PageTable | Names], places: Mapping[str, int], most: int
) -> tuple[list[dict[str, Any]], list[Names]]:
    """The first tables that fit into so many bytes, and the columns of the others."""
    kept, left = [], []
    for table in tables:
        if not isinstance(table, PageTable):
            left.append(table)
            continue
        told = table.to_dict(places)
        size = _size(told)
        if size <= most:
            most -= size
            kept.append(told)
        else:
            left.append(table.columns)
    return kept, left


def _size(told: Any) -> int:
    return len(json.dumps(told, separators=(",", ":")))


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
