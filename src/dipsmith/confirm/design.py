"""A formula read against the public schema: which columns it needs, which coefficients it has, what a part's numbers are.

Levels, references and bounds come from the schema, never from rows: the coefficients are the same whichever rows a part
has, and so are their names. The notation, the coding and the names are those of `ds.fit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.codec.decode import released_type
from dipsmith.counting.values import ValueReading, Values, is_number
from dipsmith.errors import UsageError
from dipsmith.regression.arithmetic import Category, Columns, evaluate
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.matrix import INTERCEPT, build
from dipsmith.schema import Bins, Schema
from dipsmith.schema.formula.words import abridge

Family = Literal["ols", "logistic"]
FAMILIES: Final = ("ols", "logistic")
MOST_COEFFICIENTS: Final = 500
"""Of the terms: what is not of interest itself belongs behind the bar."""
MOST_INDICATORS: Final = 300
"""Of a logistic regression, fixed effects included, which it cannot take out beforehand."""


@dataclass(frozen=True, eq=False)
class PartNumbers:
    """What a regression of one part is computed from: response, columns, the groups of each fixed effect."""

    y: Floats
    X: Floats
    groups: tuple[Ints, ...]


@dataclass(frozen=True, eq=False)
class VoteDesign:
    """A formula that is ready to be fitted to any part of the rows."""

    formula: RegressionFormula
    family: Family
    reading: ValueReading
    levels: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str, schema: Schema, family: str, reference: Mapping[str, str]) -> VoteDesign:
        """Read a formula; refuses what cannot be fitted to parts, before anything is spent."""
        formula = RegressionFormula.parse(text, schema.names)
        if family not in FAMILIES:
            raise UsageError(f"family is '{abridge(family)}', expected ols or logistic")
        inside = [n for n in formula.columns if n in formula.inside]
        categories = [n for n in inside if n in reference or n in formula.factors or is_category(schema, n)]
        effects = dict.fromkeys(n for effect in formula.fixed for n in effect)
        numbers = tuple(n for n in inside if n not in categories)
        reading = ValueReading(schema, numbers, tuple(dict.fromkeys((*categories, *effects))))
        levels = {n: _reference_first(n, reading.listed(n), reference.get(n)) for n in categories}
        for name in reference:
            if name not in levels:
                raise UsageError(f"reference names '{abridge(name)}', which is no category of the formula")
        made = cls(formula, family, reading, levels, ())  # type: ignore[arg-type]  # checked above
        none = made.columns(
            Values({n: np.zeros(0) for n in numbers}, {n: np.zeros(0, np.int64) for n in reading.levels}, 0)
        )
        made.response(none, 0)
        names = build(formula.terms, none, 0)[1]
        if formula.fixed:
            names = tuple(n for n in names if n != INTERCEPT)
        if not 1 <= len(names) <= MOST_COEFFICIENTS:
            raise UsageError(
                f"'{abridge(formula.text)}' has {len(names):,} coefficients, expected 1 to {MOST_COEFFICIENTS}; put columns "
                "with many levels behind the bar: … | column"
            )
        wide = len(names) + sum(len(reading.listed(n)) for n in effects)
        if family == "logistic" and wide > MOST_INDICATORS:
            raise UsageError(
                f"a logistic regression with {wide:,} indicators is too wide for parts of a table, at most "
                f"{MOST_INDICATORS} are possible; leave the widest fixed effect out"
            )
        return cls(formula, made.family, reading, levels, names)

    def columns(self, values: Values) -> Columns:
        """The formula's columns as numbers and categories, references first."""
        found: dict[str, Floats | Category] = {n: values.numbers[n] for n in self.reading.numbers}
        for name, levels in self.levels.items():
            listed = {level: i for i, level in enumerate(levels)}
            place = np.array([*(listed[level] for level in self.reading.listed(name)), -1], np.int64)
            found[name] = Category(place[values.levels[name]], levels)
        return found

    def numbers(self, values: Values) -> PartNumbers:
        """The numbers of some rows; those in which a value is missing or not finite are left out."""
        y, X, known = self.matrix(values)
        groups = []
        for effect in self.formula.fixed:
            joint = np.zeros(values.rows, np.int64)
            for name in effect:
                joint = joint * (len(self.reading.listed(name)) + 1) + values.levels[name] + 1
            groups.append(joint)
        kept = known & np.isfinite(y) & np.isfinite(X).all(axis=1)
        return PartNumbers(y[kept], X[kept], tuple(np.unique(g[kept], return_inverse=True)[1] for g in groups))

    def matrix(self, values: Values) -> tuple[Floats, Floats, Bools]:
        """Response and columns of some rows, and which rows have all values."""
        columns = self.columns(values)
        y, known = self.response(columns, values.rows)
        X, names = build(self.formula.terms, columns, values.rows)
        if self.formula.fixed:
            X = X[:, [i for i, name in enumerate(names) if name != INTERCEPT]]
        for column in columns.values():
            known = known & (column.codes >= 0 if isinstance(column, Category) else np.isfinite(column))
        return y, X, known

    def response(self, columns: Columns, rows: int) -> tuple[Floats, Bools]:
        """The response, and the rows that have one."""
        name = self.formula.response_column
        column = None if name is None else columns[name]
        if not isinstance(column, Category):
            return evaluate(self.formula.response, columns, rows), np.ones(rows, bool)
        if len(column.levels) != 2:
            raise UsageError(
                f"response '{abridge(str(name))}' has {len(column.levels)} levels; a regression takes a number, a column with "
                'two levels, or a comparison such as column == "…"'
            )
        return column.codes.astype(np.float64), column.codes >= 0


def is_category(schema: Schema, name: str) -> bool:
    """Whether a column is text in a release, so that a formula takes it as a category."""
    attribute = schema[name]
    verbatim = schema.neighbours == "label" and attribute.role == "public"
    if isinstance(attribute.domain, Bins):
        return False
    return (attribute.type if verbatim else released_type(attribute)) == "string" or not is_number(attribute)


def _reference_first(name: str, levels: tuple[str, ...], reference: str | None) -> tuple[str, ...]:
    if reference is None:
        return levels
    if reference not in levels:
        raise UsageError(f"column '{abridge(name)}' has no level '{abridge(reference)}' to refer to")
    return (reference, *(v for v in levels if v != reference))
