"""A formula read against the public schema: which columns it needs, which coefficients it has, what a part's numbers are.

Levels, references and bounds come from the schema, never from rows: the coefficients are the same whichever rows a part
has, and so are their names. The notation, the coding and the names are those of `ds.fit`.

The regression of one part gives a linear combination of coefficients, or None where the part cannot tell. It never
fails by a part's rows, and needs no library beyond numpy. *Least squares*: the widest fixed effect, or the intercept,
is taken out of every column by its means; further fixed effects come in by their cross-tables with it, so that nothing
as wide as their indicators is made per row (Frisch, Waugh and Lovell). *Logistic*: Newton's method, indicators for
fixed effects. Where columns say the same, the solution of least norm is taken; a combination that then depends on the
choice is not told. A logistic regression whose maximum is not found, or lies at odds beyond e¹⁵ (separation), is not
told either.
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
from dipsmith.regression.arithmetic import Category, Columns
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.matrix import INTERCEPT, build
from dipsmith.regression.model_frame import response_of
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
        levels = {n: _reference_first(n, reading.list_levels(n), reference.get(n)) for n in categories}
        for name in reference:
            if name not in levels:
                raise UsageError(f"reference names '{abridge(name)}', which is no category of the formula")
        made = cls(formula, family, reading, levels, ())  # type: ignore[arg-type]  # checked above
        none = made.columns(
            Values({n: np.zeros(0) for n in numbers}, {n: np.zeros(0, np.int64) for n in reading.levels}, 0)
        )
        response_of(formula, none, 0)
        names = build(formula.terms, none, 0)[1]
        if formula.fixed:
            names = tuple(n for n in names if n != INTERCEPT)
        if not 1 <= len(names) <= MOST_COEFFICIENTS:
            raise UsageError(
                f"'{abridge(formula.text)}' has {len(names):,} coefficients, expected 1 to {MOST_COEFFICIENTS}; put columns "
                "with many levels behind the bar: … | column"
            )
        wide = len(names) + sum(len(reading.list_levels(n)) for n in effects)
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
            place = np.array([*(listed[level] for level in self.reading.list_levels(name)), -1], np.int64)
            found[name] = Category(place[values.levels[name]], levels)
        return found

    def numbers(self, values: Values) -> PartNumbers:
        """The numbers of some rows; those in which a value is missing or not finite are left out."""
        y, X, known = self.matrix(values)
        groups = []
        for effect in self.formula.fixed:
            joint = np.zeros(values.rows, np.int64)
            for name in effect:
                joint = joint * (len(self.reading.list_levels(name)) + 1) + values.levels[name] + 1
            groups.append(joint)
        kept = known & np.isfinite(y) & np.isfinite(X).all(axis=1)
        return PartNumbers(y[kept], X[kept], tuple(np.unique(g[kept], return_inverse=True)[1] for g in groups))

    def matrix(self, values: Values) -> tuple[Floats, Floats, Bools]:
        """Response and columns of some rows, and which rows have all values."""
        columns = self.columns(values)
        y, known = response_of(self.formula, columns, values.rows)
        X, names = build(self.formula.terms, columns, values.rows)
        if self.formula.fixed:
            X = X[:, [i for i, name in enumerate(names) if name != INTERCEPT]]
        for column in columns.values():
            known = known & (column.codes >= 0 if isinstance(column, Category) else np.isfinite(column))
        return y, X, known


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


COLLINEAR: Final = 1e-9
"""Directions with less than this share of the largest eigenvalue count as zero."""
ESTIMABLE: Final = 1e-6
ITERATIONS: Final = 30
FAR: Final = 15.0


@dataclass(frozen=True, eq=False)
class Combination:
    """Weights of coefficients, by name."""

    weights: tuple[tuple[str, float], ...]

    def vector(self, names: tuple[str, ...]) -> Floats:
        """As a vector over the columns of a design."""
        found = np.zeros(len(names))
        for name, weight in self.weights:
            found[names.index(name)] += weight
        return found


def estimate(numbers: PartNumbers, names: tuple[str, ...], family: Family, wanted: Combination) -> float | None:
    """The value of a combination of coefficients in one part; None where the part's rows do not determine it."""
    at = wanted.vector(names)
    if len(numbers.y) < 2:
        return None
    found = _least_squares(numbers, names, at) if family == "ols" else _logistic(numbers, names, at)
    return found if found is not None and np.isfinite(found) else None


def _least_squares(numbers: PartNumbers, names: tuple[str, ...], wanted: Floats) -> float | None:
    y, groups = numbers.y, numbers.groups
    own = np.array([name != INTERCEPT for name in names])
    X, weights, constant = numbers.X[:, own], wanted[own], 0.0
    if not own.all():  # the intercept is what is left of the response's mean
        level, groups = float(wanted[~own][0]), (np.zeros(len(y), np.int64),)
        weights, constant = weights - level * X.mean(axis=0), level * float(y.mean())
    centred = groups != ()
    columns = np.column_stack([X - X.mean(axis=0), y - y.mean()] if centred else [X, y])
    before = np.einsum("ij,ij->j", columns, columns)
    gram, parameters = _less_groups(columns, groups)
    solution = _least_norm(gram[:-1, :-1], gram[:-1, -1], before[:-1], weights)
    if solution is None or len(y) <= parameters + solution[1]:
        return None
    return solution[0] + constant


def _less_groups(columns: Floats, groups: tuple[Ints, ...]) -> tuple[Floats, int]:
    """The cross-products of columns less their projection on groups, and how many parameters the groups have."""
    if not groups:
        return columns.T @ columns, 0
    widest = max(groups, key=lambda g: int(g.max()))
    size = np.bincount(widest).astype(np.float64)
    means = np.stack([np.bincount(widest, column) for column in columns.T], axis=1) / size[:, None]
    columns = columns - means[widest]
    gram, parameters = columns.T @ columns, len(size)
    others = [g for g in groups if g is not widest]
    if not others:
        return gram, parameters
    starts = np.cumsum([0, *(int(g.max()) + 1 for g in others)])
    together = np.zeros((len(size), starts[-1]))
    inner = np.zeros((starts[-1], starts[-1]))
    for g, start in zip(others, starts, strict=False):
        np.add.at(together, (widest, g + start), 1.0)
        for h, other in zip(others, starts, strict=False):
            np.add.at(inner, (g + start, h + other), 1.0)
    by_level = np.concatenate([np.stack([np.bincount(g, c) for c in columns.T], axis=1) for g in others])
    inner -= together.T @ (together / size[:, None])
    scale = np.sqrt(np.maximum(np.diag(inner), 0.0))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(inner / np.outer(scale, scale))
    kept = values > COLLINEAR * max(float(values[-1]), 1e-300)
    rotated = vectors[:, kept].T @ (by_level / scale[:, None])
    return gram - rotated.T @ (rotated / values[kept][:, None]), parameters + int(kept.sum())


def _least_norm(gram: Floats, cross: Floats, before: Floats, weights: Floats) -> tuple[float, int] | None:
    """The value of weights · b for the solution b of least norm, and the rank; None where b is not determined there.

    `before` are the squares of each column before anything was taken out: what is left of a column that others say is noise.
    """
    if not len(weights):
        return 0.0, 0
    left = np.diag(gram) > 1e-12 * before
    scale = np.where(left, np.sqrt(np.maximum(before, 1e-300)), 1.0)
    scaled = np.where(np.outer(left, left), gram / np.outer(scale, scale), 0.0)
    values, vectors = np.linalg.eigh(scaled)
    kept = values > COLLINEAR * max(float(values[-1]), 1e-300)
    basis, asked = vectors[:, kept], weights / scale
    told = basis.T @ asked
    if np.linalg.norm(asked - basis @ told) > ESTIMABLE * np.linalg.norm(asked):
        return None
    return float(told @ (basis.T @ np.where(left, cross / scale, 0.0) / values[kept])), int(kept.sum())


def _logistic(numbers: PartNumbers, names: tuple[str, ...], wanted: Floats) -> float | None:
    y, X = numbers.y, numbers.X
    if not (((y == 0) | (y == 1)).all() and 0 < y.sum() < len(y)):
        return None
    indicators = [np.eye(int(g.max()) + 1)[g] for g in numbers.groups]
    X = np.column_stack([X, *indicators])
    weights = np.append(wanted, np.zeros(X.shape[1] - len(wanted)))
    has_constant = INTERCEPT in names or bool(indicators)
    constant = np.array([name == INTERCEPT for name in names] + [False] * (X.shape[1] - len(names)))
    centre = np.where(constant, 0.0, X.mean(axis=0)) if has_constant else np.zeros(X.shape[1])
    scale = np.where(constant, 1.0, (X - centre).std(axis=0) if has_constant else np.sqrt((X * X).mean(axis=0)))
    scale[scale <= 1e-12 * np.abs(X).max(axis=0)] = np.inf
    if INTERCEPT in names:  # centred columns move the intercept
        weights = weights - weights[names.index(INTERCEPT)] * centre
    else:
        centre = np.zeros(X.shape[1])
    Z, asked = (X - centre) / scale, np.where(np.isinf(scale), 0.0, weights / scale)
    if (np.isinf(scale) & (weights != 0)).any():
        return None
    b = np.zeros(X.shape[1])
    for _ in range(ITERATIONS):
        p = 1 / (1 + np.exp(-np.clip(Z @ b, -50, 50)))
        w = p * (1 - p)
        values, vectors = np.linalg.eigh(Z.T @ (Z * w[:, None]))
        kept = values > COLLINEAR * max(float(values[-1]), 1e-300)
        basis = vectors[:, kept]
        step = basis @ ((basis.T @ (Z.T @ (y - p))) / values[kept])
        b = b + step
        if float(np.abs(Z @ step).max()) < 1e-8:
            break
    else:
        return None
    told = basis @ (basis.T @ asked)
    if float(np.abs(Z @ b).max()) > FAR or np.linalg.norm(asked - told) > ESTIMABLE * np.linalg.norm(asked):
        return None
    return float(asked @ b) if len(y) > int(kept.sum()) else None
