"""Counting inside any warehouse: one expression of ibis that encodes, truncates, filters and groups.

The expression is built from the inside out, as those of `counting.postgresql` are: codes of all rows, rows
without a code left out, rows of crowded units left out, rules, and the mixed-radix keys of all sets of attributes.
Only keys and counts cross the wire.

A warehouse must first show, on values that are public and ours, that it reads values as `codec.encode` does. That
happens when the rows are opened: while nothing is charged, and without a look at a row.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from hashlib import sha256
from operator import add, and_, or_

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Ints
from dipsmith.codec.encode import coder
from dipsmith.codec.ibis import steps, unit_text
from dipsmith.codec.spelled import refuse_spellings
from dipsmith.codec.trials import HASHED, UNITS, trial, trials
from dipsmith.counting.count import View
from dipsmith.counting.pushed import FixedCodes, Keys, by_set, deciding_columns, radix_words, rules_of, runs
from dipsmith.counting.units import hashed_columns
from dipsmith.counting.units import unit_text as spelled_unit
from dipsmith.errors import SourceError
from dipsmith.schema import Schema
from dipsmith.sources.ibis import IbisTable
from dipsmith.sources.ibis_terms import (
    Column,
    Table,
    case,
    constant,
    group_by_sets,
    hash_text,
    make_row,
    number_in,
    put_fence,
    stack,
)


@dataclass(frozen=True, eq=False)
class IbisGrouping:
    """The rows of a warehouse's table, grouped by the warehouse; `key` chooses among those of a crowded unit, a fresh one when None."""

    source: IbisTable
    schema: Schema
    key: bytes | None = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a warehouse that reads values in its own way, while nothing is charged."""
        refuse_spellings(self.schema, self.source.kinds)
        self._try()

    def count_groups(
        self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View
    ) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one statement."""
        with self.source.failures():
            question, widths = self.question(sets, fixed_codes, view)
        found = self.source.answer(question)
        names = ("tag", *(f"w{j}" for j in range(max(widths))), "n")
        return by_set([_integers(found, name) for name in names], widths)

    def question(self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View) -> tuple[Table, list[int]]:
        """The expression: columns tag, words of the key, number of rows; and how many words each set has."""
        schema = self.schema
        wanted = {name for names in sets for name in names} | deciding_columns(schema, fixed_codes, view)
        units = schema.unit.column is not None
        names = [n for n in schema.names if n in wanted or units]
        rows = self._select_codes(self.source.table, names, self._units() if units else {})
        known = [rows[self._name(n)] >= 0 for n in names if not schema[n].domain.total]
        rows = rows.filter(known) if known else rows
        if units:
            rows = self._truncate_units(rows)
        held = [rows[self._name(n)] == int(c) for n, c in fixed_codes]
        for rule in rules_of(schema, view):
            parts = [_among(rows[self._name(name)], codes) for name, codes in rule.never]
            held.append(~reduce(and_, parts) if parts else constant(False))
        rows = rows.filter(held) if held else rows
        words = [self._words(rows, n) for n in sets]
        flat = [[f"k{i}_{j}" for j in range(len(w))] for i, w in enumerate(words)]
        named = {k: x for ks, xs in zip(flat, words, strict=True) for k, x in zip(ks, xs, strict=True)}
        widths = [len(w) for w in words]
        return group_by_sets(rows.select(**named), flat, max(widths), self.source.warehouse), widths

    def _name(self, attribute: str) -> str:
        return f"c{self.schema.names.index(attribute)}"

    def _select_codes(self, table: Table, names: Sequence[str], others: Mapping[str, Column]) -> Table:
        """The codes of some attributes as columns c0, c1, …, with other columns; step by step."""
        waiting = {n: steps(self.schema[n], table[n].type(), self.source.can) for n in names}
        made = {n: {"v": table[n]} for n in names}
        kept = dict(others)
        while True:
            for name, left in waiting.items():
                if left:
                    made[name] = left.pop(0)(made[name])
            done = not any(waiting.values())
            named = {
                (self._name(n) if done else f"{key}{i}"): column.cast("int64") if done else column
                for i, n in enumerate(names)
                for key, column in made[n].items()
            }
            table = put_fence(table.select(**(named | kept or {"one": constant(1)})), self.source.warehouse.name)
            if done:
                return table
            made = {n: {key: table[f"{key}{i}"] for key in made[n]} for i, n in enumerate(names)}
            kept = {name: table[name] for name in kept}

    def _units(self) -> dict[str, Column]:
        unit = self.schema.unit
        named = {"u": unit.column, "p": unit.per}
        return {short: self._unit_text(n, self.source.table[n]) for short, n in named.items() if n is not None}

    def _unit_text(self, name: str, column: Column) -> Column:
        return unit_text(name, column, self.source.can, self.source.warehouse.name)

    @cached_property
    def _key(self) -> str:
        return (self.key or secrets.token_bytes(32)).hex()

    def _truncate_units(self, rows: Table) -> Table:
        """At most `max_rows` rows of every unit, by the keyed hash; none of those without a unit."""
        limit = self.schema.unit.max_rows
        rows = rows.filter(_has_unit(rows.u))
        units = [n for n in ("u", "p") if n in rows.columns]
        columns = [self._name(n) for n in hashed_columns(self.schema)]
        ties = [self._name(n) for n in self.schema.names if self._name(n) not in columns]
        rows = rows.mutate(
            same=number_in([rows[n] for n in [*units, *columns]], [rows[n] for n in ties or units]),
            crowd=rows.count().over(group_by=[rows[n] for n in units]),
        )
        codes = constant(",").join([rows[c].cast("string") for c in columns] or [constant("")])
        spelled = [constant(self._key), *(rows[n] for n in units), codes, rows.same.cast("string")]
        digest = self._digest(constant("|").join(spelled))
        blank = constant(None, digest.type())
        rows = rows.mutate(rank=case((rows.crowd > limit, digest), other=blank))
        rows = rows.mutate(place=number_in([rows[n] for n in units], [rows["rank"]]))
        return rows.filter((rows.crowd <= limit) | (rows.place < limit))

    def _digest(self, text: Column) -> Column:
        found = hash_text(text, self.source.warehouse.name)
        if found is None:
            raise self._no_hash_error()
        return found

    def _no_hash_error(self) -> SourceError:
        return SourceError(
            f"{self.source.describe()}: this warehouse has no SHA-256, by which the rows of a unit with more than max_rows are "
            "chosen; give table.to_pyarrow(), which brings the rows here"
        )

    def _words(self, rows: Table, names: tuple[str, ...]) -> list[Column]:
        """The words of the mixed-radix key of some attributes."""
        words = []
        for word in radix_words(self.schema, names):
            terms = [rows[self._name(n)] * constant(factor, "int64") for n, factor in word]
            words.append(reduce(add, terms) if terms else constant(0, "int64"))
        return words

    # Trials ----------------------------------------------------------------------------------------------

    def _try(self) -> None:
        """Have the warehouse encode public values: all columns at once, one by one to find the one that fails."""
        passed = self.source.passed_trials
        names = [name for name in self.schema.names if self.schema[name] not in passed]
        try:
            wrong = self._misread(names) if names else []
        except SourceError:
            wrong = [name for name in names if self._fails(name)]
            if len(wrong) == len(names):
                raise
        if wrong:
            kind = self.source.table[wrong[0]].type()
            raise SourceError(
                f"{self.source.describe()}: this warehouse does not read column '{wrong[0]}' ({kind}) as a file of the same "
                f"values is read; give a view in which it has the type {self.schema[wrong[0]].type}, or is text that is "
                "compared byte by byte; or give table.to_pyarrow(), which brings the rows here"
            )
        passed.update(self.schema[name] for name in names)
        if self.schema.unit.column is not None:
            self._try_units()

    def _fails(self, name: str) -> bool:
        try:
            return bool(self._misread([name]))
        except SourceError:
            return True

    def _misread(self, names: Sequence[str]) -> list[str]:
        """Those of some columns whose values the warehouse reads in another way than `codec.encode`."""
        parts, expected = [], []
        for place, name in enumerate(names):
            column, attribute = self.source.table[name], self.schema[name]
            values = trials(attribute, column.type(), self.source.can)
            expected.append(np.asarray(coder(attribute)(values), dtype=np.int64))
            with self.source.failures():
                given = _trial_rows(self.source.table, name, values)
                tried = self._select_codes(given, [name], {"i": given[f"{name}_i"]})
                made = tried[self._name(name)]
                parts.append(tried.select(i=tried.i, a=constant(place, "int64"), made=made))
        found = self.source.answer(stack(parts))
        i, a, made = (_integers(found, n) for n in ("i", "a", "made"))
        wrong = []
        for place, name in enumerate(names):
            order = np.argsort(i[a == place])
            if not np.array_equal(made[a == place][order], expected[place]):
                wrong.append(name)
        return wrong

    def _try_units(self) -> None:
        """The same for hashes, and for the texts of units, which must also stay apart when rows are grouped by them."""
        tried = stack([make_row({"i": constant(i, "int64"), "v": constant(v)}) for i, v in enumerate(HASHED)])
        order = number_in([constant(0)], [self._digest(tried.v)])
        found = self.source.answer(tried.select(i=tried.i, made=order.cast("int64")))
        places = dict(zip(found["i"].to_pylist(), found["made"].to_pylist(), strict=True))
        ranked = sorted(HASHED, key=lambda text: sha256(text.encode()).digest())
        if [places[i] for i in range(len(HASHED))] != [ranked.index(text) for text in HASHED]:
            raise self._no_hash_error()
        for name in (n for n in (self.schema.unit.column, self.schema.unit.per) if n is not None):
            if self.source.kinds[name] != "text":
                self._unit_text(name, self.source.table[name])
                continue
            given = _trial_rows(self.source.table, name, UNITS)
            texts = given.select(u=self._unit_text(name, given[name]))
            expected = Counter(spelled_unit(UNITS).to_pylist())
            if name == self.schema.unit.column:
                texts = texts.filter(_has_unit(texts.u))
                del expected[""]
            found = self.source.answer(texts.group_by("u").agg(n=texts.count()))
            groups = dict(zip(found["u"].to_pylist(), found["n"].to_pylist(), strict=True))
            if groups != expected:
                raise SourceError(
                    f"{self.source.describe()}: this warehouse does not read unit column '{name}' as a file of the same values "
                    "is read; give a view in which it is text without white space around it, or a whole number"
                )


def _has_unit(text: Column) -> Column:
    """Whether a row has a unit; by length, since some engines take empty text for null, which is unequal to nothing."""
    return text.length() > 0


def _trial_rows(table: Table, name: str, values: pa.Array) -> Table:
    """Public values as a column of the type, and the collation, that a column of the table has."""
    dtype = table[name].type()
    none = table.select(**{f"{name}_i": constant(0, "int64"), name: table[name]}).filter(constant(False))
    rows = [
        make_row({f"{name}_i": constant(i, "int64"), name: trial(value, dtype)})
        for i, value in enumerate(values.to_pylist())
    ]
    return stack([none, *rows])


def _integers(found: pa.Table, name: str) -> Ints:
    column = found[name].cast(pa.int64())
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _among(column: Column, codes: Sequence[int]) -> Column:
    """Whether a code is one of some, by the runs that they form."""
    parts = [column.between(a, b) for a, b in runs(codes)]
    return reduce(or_, parts) if parts else constant(False)
