"""A regression's numbers: response, columns, fixed effects, made from an Arrow table by a formula.

Categories become indicator columns by treatment contrasts, the reference level first. Their levels are those of the
release's schema (and what else occurs), the same in every set, so that coefficients of different sets mean the same.
Rows in which a value is missing, or a logarithm infinite, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import MissingExtraError, UsageError
from dipsmith.regression.arithmetic import Category, Columns, evaluate
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.matrix import INTERCEPT, build
from dipsmith.schema import Categories, Schema
from dipsmith.schema.formula.tree import quote
from dipsmith.schema.formula.words import abridge

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class ModelFrame:
    """What a regression is computed from.

    The response y, and one column of X per coefficient, the intercept among them where there is one; for every fixed
    effect, and for clustered errors, the group of each row, numbered from 0; how many rows were left out; and what each row
    weighs, where rows are weighted, 1 on average.
    """

    y: Floats
    X: Floats
    names: tuple[str, ...]
    fixed: tuple[Ints, ...]
    clusters: Ints | None
    left_out: int
    weights: Floats | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def is_intercept(self) -> Bools:
        """Which columns are the intercept: one or none."""
        return np.array([name == INTERCEPT for name in self.names], dtype=bool)


def model_frame(
    formula: RegressionFormula, table: pa.Table, levels: Levels, cluster: str | None = None, weights: str | None = None
) -> ModelFrame:
    """Evaluate a formula on a table."""
    columns, known = read_columns(formula, table, levels)
    y, response_known = response_of(formula, columns, table.num_rows)
    X, names = build(formula.terms, columns, table.num_rows)
    kept = known & response_known & np.isfinite(y) & np.isfinite(X).all(axis=1)
    weight = None if weights is None else read_weights(table, weights)
    if weight is not None:
        kept &= weight > 0
    if formula.fixed:
        inside = [i for i, name in enumerate(names) if name != INTERCEPT]
        X, names = X[:, inside], tuple(names[i] for i in inside)
    left_out = int(len(kept) - kept.sum())
    if left_out:
        y, X = y[kept], X[kept]
    if not len(y):
        raise UsageError(
            f"no row is left for '{abridge(formula.text)}': in every row some value is missing or not finite"
        )

    def groups(names: Sequence[str]) -> Ints:
        found = number_combinations([number_groups(table, name)[kept] for name in names])
        return found.astype(np.int64, copy=False)

    clusters = None if cluster is None else groups([cluster])
    fixed = tuple(groups(names) for names in formula.fixed)
    weight = None if weight is None else weight[kept] / weight[kept].mean()
    return ModelFrame(y, np.ascontiguousarray(X), names, fixed, clusters, left_out, weight)


def read_weights(table: pa.Table, name: str) -> Floats:
    """What each row weighs; 0 where that is missing."""
    if name not in table.column_names:
        raise UsageError(
            f"there is no column '{name}' to weigh rows by; there are: {', '.join(table.column_names[:20])}"
        )
    found = np.nan_to_num(_numbers(name, table.column(name)), nan=0.0)
    if (found < 0).any() or not np.isfinite(found).all():
        raise UsageError(f"column '{name}' has negative or infinite values, which are no weights")
    return found


def has_binary_response(formula: RegressionFormula, table: pa.Table, levels: Levels) -> bool:
    """Whether a formula's response is 0 or 1, or one of two levels, in every row that has one."""
    y, known = response_of(formula, read_columns(formula, table, levels)[0], table.num_rows)
    return bool(is_binary(y[known & np.isfinite(y)]))


def is_binary(columns: Floats) -> Bools:
    """Whether every number of a column is 0 or 1."""
    return np.asarray(((columns == 0) | (columns == 1)).all(axis=0))


def extra(name: str) -> Any:
    """A library of the `analysis` extra, imported where it is used."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError.of("Fitting a formula", "analysis") from None


def levels_of(
    formula: RegressionFormula, tables: Sequence[pa.Table], schema: Schema | None, reference: Mapping[str, object]
) -> Levels:
    """The levels of every category in a formula, the reference first."""
    found: dict[str, tuple[str, ...]] = {}
    texts = (pa.string(), pa.large_string(), pa.string_view())
    for name in formula.columns:
        kind = tables[0].schema.field(name).type
        is_text = (kind.value_type if pa.types.is_dictionary(kind) else kind) in texts
        if is_text or name in formula.factors or name in reference:
            found[name] = _levels(name, tables, schema)
    for name, level in reference.items():
        if name not in formula.columns:
            raise UsageError(f"reference names '{name}', which the formula does not use")
        if str(level) not in found[name]:
            raise UsageError(f"column '{name}' has no level '{level}' to refer to; codebook.csv lists its levels")
        found[name] = (str(level), *(v for v in found[name] if v != str(level)))
    return found


def distinct_values(tables: Sequence[pa.Table], name: str) -> list[str]:
    """The values that a column has in some tables, as text: numbers in their order, then words."""
    distinct = [pc.unique(t.column(name).unify_dictionaries()) for t in tables]
    seen = {v for values in distinct for v in text_of(pa.chunked_array([values])).to_pylist() if v is not None}
    return sorted(seen, key=by_number)


def text_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column's values as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string())


def _levels(name: str, tables: Sequence[pa.Table], schema: Schema | None) -> tuple[str, ...]:
    """The schema's labels, where they are what was released, and what else occurs, sorted."""
    listed: tuple[str, ...] = ()
    if schema is not None and name in schema.names:
        attribute = schema[name]
        verbatim = schema.neighbours == "label" and attribute.role == "public"
        if isinstance(attribute.domain, Categories) and not verbatim:
            listed = attribute.domain.labels
    return (*listed, *(v for v in distinct_values(tables, name) if v not in set(listed)))


def by_number(text: str) -> tuple[float, str]:
    """A key that sorts numbers by size, then words."""
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


def response_of(formula: RegressionFormula, columns: Columns, rows: int) -> tuple[Floats, Bools]:
    """The response, and the rows that have one."""
    name = formula.response_column
    column = None if name is None else columns[name]
    if name is None or not isinstance(column, Category):
        return evaluate(formula.response, columns, rows), np.ones(rows, dtype=bool)
    if len(column.levels) != 2:
        raise UsageError(
            f"response '{abridge(name)}' has {len(column.levels)} levels; a regression takes a number, a column "
            f'with two levels, or a comparison such as {abridge(quote(name))} == "…"'
        )
    return column.codes.astype(np.float64), column.codes >= 0


def read_columns(formula: RegressionFormula, table: pa.Table, levels: Levels) -> tuple[Columns, Bools]:
    """The columns of response and terms as numbers and categories, and the rows in which none of the formula's is missing."""
    columns: dict[str, Floats | Category] = {}
    known = np.ones(table.num_rows, dtype=bool)
    for name in formula.columns:
        column = table.column(name)
        if column.null_count:
            known &= ~column.is_null().to_numpy(zero_copy_only=False)
        if name not in formula.inside:
            continue
        if name in levels:
            index, values = _index_values(column)
            place = {level: i for i, level in enumerate(levels[name])}
            to_level = [*(place.get(w, -1) for w in values.cast(pa.string()).to_pylist()), -1]
            columns[name] = Category(np.array(to_level, dtype=np.int64)[index], levels[name])
        else:
            columns[name] = _numbers(name, column)
    return columns, known


def _index_values(column: pa.ChunkedArray) -> tuple[NDArray[np.signedinteger], pa.Array]:
    """A column's distinct values, and the place of each row's value among them, −1 where it is missing."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return np.zeros(0, dtype=np.int64), pa.array([], column.type.value_type)
    indices = [chunk.indices for chunk in column.chunks]
    if column.null_count and pa.types.is_unsigned_integer(column.type.index_type):  # these have no −1
        indices = [part.cast(pa.int64()) for part in indices]
    parts = [(part.fill_null(-1) if part.null_count else part).to_numpy() for part in indices]
    return parts[0] if len(parts) == 1 else np.concatenate(parts), column.chunk(0).dictionary


def _numbers(name: str, column: pa.ChunkedArray) -> Floats:
    kind = column.type
    if pa.types.is_dictionary(kind):
        index, values = _index_values(column)
        return np.asarray(np.append(_numbers(name, pa.chunked_array([values])), np.nan)[index], np.float64)
    if pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        seconds = column.cast(pa.timestamp("us")).cast(pa.int64())
        return np.asarray(seconds.to_numpy().astype(np.float64) / 86_400e6)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise UsageError(f"column '{name}' is {kind}, which a regression cannot use; give a number or a category")
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)


def number_groups(table: pa.Table, name: str) -> NDArray[np.signedinteger]:
    """The values of a column, numbered; missing ones are a group of their own."""
    if name not in table.column_names:
        raise UsageError(f"there is no column '{name}'; there are: {', '.join(table.column_names[:20])}")
    column = table.column(name)
    index = _index_values(column)[0]
    return np.asarray(index + np.int64(1), np.int64) if column.null_count else index


def number_combinations(codes: Sequence[NDArray[np.signedinteger]]) -> NDArray[np.signedinteger]:
    """Number the combinations of codes that occur, in their order, without gaps.

    >>> number_combinations([np.array([5, 5, 2]), np.array([0, 1, 0])]).tolist()
    [1, 2, 0]
    """
    joint = _renumber(codes[0])
    for more in codes[1:]:
        joint = _renumber(np.multiply(joint, int(more.max(initial=0)) + 1, dtype=np.int64) + more)
    return joint


def _renumber(codes: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    if codes.size and int(codes.max()) <= 4 * codes.size:
        present = np.zeros(int(codes.max()) + 1, dtype=bool)
        present[codes] = True
        return codes if present.all() else np.asarray((np.cumsum(present) - 1)[codes], np.int64)
    return np.asarray(np.unique(codes, return_inverse=True)[1], np.int64)
