"""Careers: rows that belong to one unit, where the schema says that everybody may know which rows do (`link: public`).

A label that does not change in time (`fixed: true`) is then drawn once for each unit, by a law that keeps the tables of
labels (`dipsmith.estimation.unit_law`); other labels are drawn row by row, given the fixed ones. A release has a column of
new numbers in place of the unit's, by which rows of one unit can be found and nothing else.

Everything is computed from rows in an order that their public columns and links alone decide: the rows of a unit together,
units by what their rows say. What units were called, and where their rows lay, is lost before anything is drawn.

Privacy
-------
Reads public columns, the link of rows, a model and noisy sums: post-processing. Proof: ``docs/proofs/careers.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.counting.units import has_unit, unit_text
from dipsmith.errors import UnlinkedRows
from dipsmith.estimation.unit_law import Float, Ints, draw_labels, even_numbers, unit_law
from dipsmith.methods.method import Labeller
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.schema import Codes, Schema
from dipsmith.sources import Source
from dipsmith.synthesis.canonical import BLOCK, PublicColumn, PublicRows
from dipsmith.synthesis.fitted import drawn_table, labelled_table, predictors


class Carrier(Protocol):
    """What makes labels carry results of planned analyses."""

    def draw(
        self, p: Float, names: Sequence[str], rows: Ints, random: Generator, starts: Ints | None = None
    ) -> NDArray[np.int64]:
        """Joint labels `names` of some rows, or, where their rows' `starts` are given, of units."""


@dataclass(frozen=True, eq=False)
class Careers:
    """The rows of a table by unit: `order` has the rows of a unit together, from `starts` on."""

    order: Ints
    starts: Ints

    @classmethod
    def of(cls, units: Sequence[pa.Array], kinds: Ints) -> Careers:
        """From the units' names and the kind of every row (a number that its public values decide).

        A row without a unit belongs to nobody, and is a unit of its own here.

        >>> some = Careers.of([pa.array(["b", "a", "b", None])], np.array([3, 1, 0, 2]))
        >>> some.order.tolist(), some.starts.tolist()
        ([1, 3, 2, 0], [0, 1, 2])
        """
        named = pa.concat_arrays([pa.array([], pa.large_string()), *map(unit_text, units)])
        unit = named.dictionary_encode().indices.to_numpy().astype(np.int64)
        nobody = np.flatnonzero(~has_unit(named))
        unit[nobody] = len(named) + np.arange(len(nobody))
        order = np.lexsort([kinds, unit])
        starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
        many = np.diff(np.append(starts, len(order)))
        # Units by how many rows they have, then by what these say; those that tie say the same.
        placed = []
        for size in np.unique(many):
            these = np.flatnonzero(many == size)
            rows = order[starts[these][:, None] + np.arange(size)]
            placed.append(rows[np.lexsort(kinds[rows].T[::-1])].ravel())
        sizes = np.sort(many)
        return cls(np.concatenate([order[:0], *placed]), np.cumsum(sizes) - sizes)

    @property
    def units(self) -> int:
        """How many there are."""
        return len(self.starts)

    @property
    def owner(self) -> Ints:
        """Which unit each row of the order belongs to."""
        return np.repeat(np.arange(self.units), np.diff(np.append(self.starts, len(self.order))))

    def label(self, labeller: Labeller, public: PublicRows, seed: int | None, carrier: Carrier | None) -> pa.Table:
        """Labels of all rows, in the order of this."""
        schema, targets, owner = labeller.schema, labeller.targets, self.owner
        fixed = tuple(n for n in targets if schema[n].fixed)
        free = tuple(n for n in targets if n not in fixed)
        random = generator(None if seed is None else named_seed(seed, ("careers",)))
        p = _split(row_law(labeller, public, self.order), schema, targets, fixed)
        found: dict[str, pa.ChunkedArray] = {}
        shared = np.zeros(len(owner), np.int64)
        if fixed:
            law = unit_law(
                p.sum(axis=2),
                self.starts,
                self._cells(schema, public),
                _find_forbidden(schema, public, self.order, fixed),
            )
            of_unit = (
                draw_labels(law, even_numbers(random, len(law)))
                if carrier is None
                else carrier.draw(law, fixed, self.order, random, self.starts)
            )
            labels = drawn_table(_codes(schema, fixed, of_unit), seed)
            shared = of_unit[owner]
            found |= {n: labels.column(n).take(pa.array(owner)) for n in fixed}
        if free:
            given = p[np.arange(len(owner)), shared]
            # Labels that do not go together in some year, by the model: then what it says without the shared one.
            lost = given.sum(axis=1) <= 0
            given[lost] = p[lost].sum(axis=1)
            given /= given.sum(axis=1, keepdims=True)
            drawn = (
                draw_labels(given, np.asarray(random.random(len(given))))
                if carrier is None
                else self._draw_carrying(carrier, given, shared, schema, fixed, free, random)
            )
            labels = drawn_table(_codes(schema, free, drawn), seed)
            found |= {n: labels.column(n) for n in free}
        return pa.table({n: found[n] for n in targets})

    def table(
        self, labeller: Labeller, public: PublicRows, rows: Ints, seed: int | None, carrier: Carrier | None = None
    ) -> pa.Table:
        """Some rows of the file, or all, in an order of their own: public columns and labels."""
        labels = self.label(labeller, public, seed, carrier).take(pa.array(self.places[rows]))
        table = public.table(rows)
        for name in labels.column_names:
            table = table.append_column(name, labels.column(name))
        return table

    @cached_property
    def places(self) -> Ints:
        """Where each row of the file stands in the order."""
        found = np.empty_like(self.order)
        found[self.order] = np.arange(len(self.order))
        return found

    def _draw_carrying(
        self,
        carrier: Carrier,
        given: Float,
        shared: Ints,
        schema: Schema,
        fixed: tuple[str, ...],
        free: tuple[str, ...],
        random: Generator,
    ) -> NDArray[np.int64]:
        """Free labels beside shared ones that stay, such that both together carry what was planned."""
        many = given.shape[1]
        whole = np.zeros((len(given), schema.size(fixed), many), np.float32)
        whole[np.arange(len(given)), shared] = given
        joint = carrier.draw(whole.reshape(len(given), -1), (*fixed, *free), self.order, random)
        return np.asarray(joint % many, np.int64)

    def _cells(self, schema: Schema, public: PublicRows) -> list[Ints]:
        """The tables that labels keep: every public column in every year, or whatever tells a unit's rows apart."""
        codes = public.codes(schema, public.names, self.order)
        time = self._time(schema, codes)
        by = np.zeros(len(codes), np.int64) if time is None else codes[time].astype(np.int64)
        found = [np.unique(codes[n] + by * schema[n].size, return_inverse=True)[1] for n in codes.names if n != time]
        return [by, *found] if time is not None else found

    def _time(self, schema: Schema, codes: Codes) -> str | None:
        """The column that tells the rows of a unit apart: the one that `per` names, else the one that does so best."""
        if schema.unit.per in codes.names:
            return schema.unit.per
        owner, best, found = self.owner, 0.0, None
        for name in sorted(codes.names, key=lambda n: schema[n].size):
            apart = len(np.unique(owner * schema[name].size + codes[name])) / max(len(owner), 1)
            if apart > best + 1e-12:
                best, found = apart, name
        return found if best > self.units / max(len(owner), 1) else None

    def numbers(self, drawn: Ints) -> Ints:
        """New numbers for all rows, where units were put in a drawn order."""
        return np.asarray(drawn[self.owner] + 1, np.int64)


def read_careers(
    target: Source, schema: Schema, names: Sequence[str], link: str | None
) -> tuple[PublicRows, Careers | None]:
    """Public columns, and which rows belong together where `link` is the column that says so.

    Privacy
    -------
    Reads public columns, and the unit's column only where the link of rows is public: of its values nothing is kept.
    """
    columns = [*names, *([] if link is None else [link])]
    batches = list(target.batches(columns))
    public = PublicRows.of(batches, schema, names)
    return public, None if link is None else Careers.of([b.column(link) for b in batches], public.distinct()[1])


def label_source(labeller: Labeller, target: Source, seed: int | None) -> pa.Table:
    """The rows of a public table with labels, in its order; fixed ones shared by the rows of one unit, which is told too."""
    schema, names = labeller.schema, predictors(labeller)
    fixed = [n for n in labeller.targets if schema[n].fixed]
    link = schema.linked if fixed and schema.linked in target.columns else None
    if fixed and link is None:
        warnings.warn(
            f"there is no column '{schema.linked}', so that nobody knows which rows belong together: every row gets a "
            f"{_join_names(fixed)} of its own; name it in a column map if it is called otherwise",
            UnlinkedRows,
            stacklevel=4,
        )
    if link is None:
        public = PublicRows.of(target.batches(names), schema, names)
        return labelled_table(labeller, public.table(np.arange(public.rows)), seed)
    public, careers = read_careers(target, schema, names, link)
    assert careers is not None
    table = careers.table(labeller, public, np.arange(public.rows), seed)
    # Whole numbers stay numbers, also those that a CSV file spells; names that are none stay text.
    own = PublicColumn.of([b.column(link) for b in target.batches([link])], "integer")
    return table.add_column(0, link, own.take(np.arange(public.rows)))


def career_notes(schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """What the card says of rows that belong together, by the columns that are released."""
    unit = schema.unit
    if schema.linked is None:
        return ()
    if schema.linked not in columns:
        return (f"Rows of one {unit.column} are not linked: this method draws every row by itself.",)
    notes = [
        f"{unit.column} is a new number, drawn for this set: rows that have the same belong together. It says nothing else."
    ]
    fixed = [n for n in columns if n in schema and schema[n].fixed]
    if unit.order is not None:
        notes.append(
            f"What one {unit.column} is in a {unit.order} depends on the {unit.order} before and on what never changes: longer "
            "memory is not kept."
        )
    if fixed:
        notes.append(
            f"{_join_names(fixed)} {'is' if len(fixed) == 1 else 'are'} drawn once for each {unit.column}, and the same in all of "
            "its rows."
        )
    if fixed and unit.per is not None:
        notes.append(
            f"What is protected is one {unit.column} in one {unit.per}. A label that is the same in all of them is told by "
            f"each: for somebody with rows in k of them, the guarantee is k times as weak."
        )
    return tuple(notes)


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def row_law(labeller: Labeller, public: PublicRows, order: Ints) -> NDArray[np.float32]:
    """The probability of every joint label of the rows in an order."""
    p = np.empty((len(order), labeller.schema.size(labeller.targets)), np.float32)
    codes = public.codes(labeller.schema, predictors(labeller))
    for here in _blocks(len(order)):
        p[here] = labeller.probabilities(codes.take(order[here]))
    return p


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK):
        yield slice(start, start + BLOCK)


def _split(p: Float, schema: Schema, targets: Sequence[str], fixed: Sequence[str]) -> Float:
    """Joint probabilities as rows × fixed labels × others."""
    axes = [1 + targets.index(n) for n in fixed] + [1 + i for i, n in enumerate(targets) if n not in fixed]
    apart = p.reshape(len(p), *(schema[n].size for n in targets)).transpose(0, *axes)
    return np.ascontiguousarray(apart).reshape(len(p), schema.size(fixed), p.shape[1] // schema.size(fixed))


def _codes(schema: Schema, names: Sequence[str], joint: Ints) -> Codes:
    columns = np.unravel_index(joint, [schema[n].size for n in names])
    return Codes.of(schema, dict(zip(names, columns, strict=True)), len(joint))


def _find_forbidden(schema: Schema, public: PublicRows, order: Ints, fixed: Sequence[str]) -> NDArray[np.bool_] | None:
    """Which fixed labels a rule forbids in which row; None where no rule speaks of them."""
    grid = np.indices([schema[n].size for n in fixed]).reshape(len(fixed), -1)
    found: NDArray[np.bool_] | None = None
    for rule in schema.rules:
        known = [name for name, _ in rule.never if name in public.names]
        if not set(rule.attributes) & set(fixed) or not set(rule.attributes) <= {*known, *fixed}:
            continue
        codes = public.codes(schema, known, order)
        met = np.ones((len(order), grid.shape[1]), dtype=bool)
        for name, never in rule.never:
            met &= (
                np.isin(grid[list(fixed).index(name)], never)[None, :]
                if name in fixed
                else np.isin(codes[name], never)[:, None]
            )
        found = met if found is None else found | met
    return found
