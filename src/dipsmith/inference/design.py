"""A regression's numbers: response, columns, fixed effects, made from an Arrow table by a formula.

Categories become indicator columns by treatment contrasts, the reference level first. Their levels are those
of the release's schema (and what else occurs), the same in every set, so that coefficients of different sets
mean the same. Rows in which a value is missing, or a logarithm infinite, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.errors import MissingExtraError, UsageError
from dipsmith.inference.arithmetic import Category, Columns, evaluate
from dipsmith.inference.estimates import Float
from dipsmith.inference.formula import Analysed
from dipsmith.inference.matrix import INTERCEPT, build
from dipsmith.schema import Categories, Schema
from dipsmith.schema.formula.tree import quoted
from dipsmith.schema.formula.words import shown

FAR = 1e4
"""A column whose squared mean is this many times its variance is reckoned from its mean."""

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Design:
    """What a regression is computed from.

    Attributes
    ----------
    y
        The response.
    X
        One column per coefficient, the intercept among them where there is one.
    names
        The coefficients' names.
    fixed
        For every fixed effect the group of each row, numbered from 0.
    clusters
        The cluster of each row, if errors are clustered.
    left_out
        How many rows were left out.
    """

    y: Float
    X: Float
    names: tuple[str, ...]
    fixed: tuple[NDArray[np.int64], ...]
    clusters: NDArray[np.int64] | None
    left_out: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def binary(self) -> bool:
        """Whether the response is 0 or 1 in every row."""
        return bool(((self.y == 0) | (self.y == 1)).all())


def levels_of(
    formula: Analysed, tables: Sequence[pa.Table], schema: Schema | None, reference: Mapping[str, object]
) -> Levels:
    """The levels of every category in a formula, the reference first."""
    found: dict[str, tuple[str, ...]] = {}
    for name in formula.columns:
        kind = tables[0].schema.field(name).type
        if name in formula.factors or name in reference or _is_text(kind):
            found[name] = _levels(name, tables, schema)
    for name, level in reference.items():
        if name not in formula.columns:
            raise UsageError(f"reference names '{name}', which the formula does not use")
        if str(level) not in found[name]:
            raise UsageError(
                f"column '{name}' has no level '{level}' to refer to; codebook.csv lists its levels"
            )
        found[name] = (str(level), *(v for v in found[name] if v != str(level)))
    return found


def design(formula: Analysed, table: pa.Table, levels: Levels, cluster: str | None = None) -> Design:
    """Evaluate a formula on a table."""
    columns, known = _held(formula, table, levels)
    y, response_known = _response(formula, columns, table.num_rows)
    X, names = build(formula.terms, columns, table.num_rows)
    kept = known & response_known & np.isfinite(y) & np.isfinite(X).all(axis=1)
    if formula.fixed:
        inside = [i for i, name in enumerate(names) if name != INTERCEPT]
        X, names = X[:, inside], tuple(names[i] for i in inside)
    left_out = int(len(kept) - kept.sum())
    if left_out:
        y, X = y[kept], X[kept]
    if not len(y):
        raise UsageError(
            f"no row is left for '{shown(formula.text)}': in every row some value is missing or not finite"
        )
    codes = {name: _numbered(table, name) for group in formula.fixed for name in group}
    clusters = None if cluster is None else renumbered(_numbered(table, cluster)[kept])
    fixed = tuple(_combined([codes[name][kept] for name in group]) for group in formula.fixed)
    return Design(y, np.ascontiguousarray(X), names, fixed, clusters, left_out)


def _held(formula: Analysed, table: pa.Table, levels: Levels) -> tuple[Columns, NDArray[np.bool_]]:
    """The formula's columns as numbers and categories, and the rows in which none is missing."""
    columns: dict[str, Float | Category] = {}
    known = np.ones(table.num_rows, dtype=bool)
    for name in formula.columns:
        column = table.column(name)
        if column.null_count:
            known &= ~column.is_null().to_numpy(zero_copy_only=False)
        if name in levels:
            columns[name] = Category(_coded(column, levels[name]), levels[name])
        else:
            columns[name] = _numbers(name, column)
    return columns, known


def binary(formula: Analysed, table: pa.Table, levels: Levels) -> bool:
    """Whether a formula's response is 0 or 1, or one of two levels, in every row that has one."""
    y, known = _response(formula, _held(formula, table, levels)[0], table.num_rows)
    y = y[known & np.isfinite(y)]
    return bool(((y == 0) | (y == 1)).all())


def _response(formula: Analysed, columns: Columns, rows: int) -> tuple[Float, NDArray[np.bool_]]:
    held = None if formula.plain is None else columns[formula.plain]
    if formula.plain is not None and isinstance(held, Category):
        if len(held.levels) != 2:
            raise UsageError(
                f"response '{shown(formula.plain)}' has {len(held.levels)} levels; a regression takes a number, a column "
                f'with two levels, or a comparison such as {shown(quoted(formula.plain))} == "…"'
            )
        return held.codes.astype(np.float64), held.codes >= 0
    return evaluate(formula.response, columns, rows), np.ones(rows, dtype=bool)


def centres(X: Float, weights: Float) -> Float:
    """The means of the columns that lie far from 0, 0 for others.

    Years and their squares, or amounts in the millions, differ so little against their size that products of whole
    columns would lose what they have to say. With an intercept, or fixed effects, their means may be taken off.

    >>> centres(np.array([[1.0, 2019.0, 3.0], [1.0, 2020.0, -3.0]]), np.ones(2)).tolist()
    [0.0, 2019.5, 0.0]
    """
    found = np.zeros(X.shape[1])
    for j, column in enumerate(X.T):
        if not ((column == 0) | (column == 1)).all():
            mean = float(np.average(column, weights=weights))
            spread = float(np.average((column - mean) ** 2, weights=weights))
            found[j] = mean if mean**2 > FAR * spread else 0.0
    return found


def extra(name: str) -> Any:
    """A library of the `analysis` extra, imported where it is used."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError.of("Fitting a formula", "analysis") from None


# --- columns ------------------------------------------------------------------------------------------


def _is_text(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
    )


def _levels(name: str, tables: Sequence[pa.Table], schema: Schema | None) -> tuple[str, ...]:
    """The schema's labels, where they are what was released, and what else occurs, sorted."""
    listed: tuple[str, ...] = ()
    if schema is not None and name in schema.names:
        attribute = schema[name]
        verbatim = schema.neighbours == "label" and attribute.role == "public"
        if isinstance(attribute.domain, Categories) and not verbatim:
            listed = attribute.domain.labels
    seen = {v for t in tables for v in pc.unique(_words_of(t.column(name))).to_pylist() if v is not None}
    return (*listed, *sorted(seen - set(listed), key=_by_number))


def _by_number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


def _words_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string())


def _coded(column: pa.ChunkedArray, levels: Sequence[str]) -> NDArray[np.int64]:
    """The place of every value among the levels, −1 where it is missing."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    place = {level: i for i, level in enumerate(levels)}
    words = whole.dictionary.cast(pa.string()).to_pylist()
    to_level = np.array([*(place.get(w, -1) for w in words), -1], dtype=np.int64)
    at = whole.indices.cast(pa.int64()).fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.asarray(to_level[at])


def _numbers(name: str, column: pa.ChunkedArray) -> Float:
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        seconds = column.cast(pa.timestamp("us")).cast(pa.int64())
        return np.asarray(seconds.to_numpy().astype(np.float64) / 86_400e6)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise UsageError(
            f"column '{name}' is {kind}, which a regression cannot use; give a number or a category"
        )
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)


def _numbered(table: pa.Table, name: str) -> NDArray[np.int64]:
    """The values of a column, numbered; missing ones are a group of their own."""
    if name not in table.column_names:
        raise UsageError(f"there is no column '{name}'; there are: {', '.join(table.column_names[:20])}")
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    indices = pa.chunked_array([c.indices.cast(pa.int64()) for c in column.chunks], type=pa.int64())
    return np.asarray(indices.fill_null(-1).to_numpy() + 1)


def _combined(codes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number the combinations that occur."""
    joint = codes[0]
    for more in codes[1:]:
        joint = renumbered(joint) * (int(more.max(initial=0)) + 1) + more
    return renumbered(joint)


def renumbered(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the codes that occur, in their order, without gaps."""
    if codes.size and int(codes.max()) <= 4 * codes.size:
        present = np.zeros(int(codes.max()) + 1, dtype=bool)
        present[codes] = True
        return (np.cumsum(present) - 1)[codes]
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
