"""Cross-products: those X′X, X′y and y′y of a regression, as sums over tables of counts.

A term's columns are functions of the term's own attributes. So the cross-products of two terms are sums over the cells of
the table of both terms' attributes, each cell's count times the product of the two functions; a response and a fixed effect
are terms like others. Numbers that are known in bins stand for the middle of their bin.

Reads a formula and the schema: public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.analyses.agreed_tables import Float, Names
from dipsmith.analyses.bin_doubt import BinnedNumber, Values
from dipsmith.errors import UsageError
from dipsmith.estimation.answers import midpoints
from dipsmith.regression.arithmetic import Category, evaluate
from dipsmith.regression.formula import Factor, RegressionFormula, category_of
from dipsmith.regression.matrix import INTERCEPT, CodedFactor, code_terms, column_names, split_factors
from dipsmith.regression.tables import columns_of
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.schema.formula.tree import Column, Node
from dipsmith.schema.formula.words import abridge

MOST_COLUMNS = 400
"""Columns of a regression from tables, fixed effects included."""

DAY = 86_400e6
"""Microseconds."""


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one term: their names, and their values in every cell of the term's own table.

    `shift` was taken off a number, and the rest divided by `scale`, so that its square can be told from a constant.
    """

    attributes: Names
    names: tuple[str, ...]
    columns: Float
    shift: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """The terms of a regression, the response last, and which table each of their cross-products is a sum over."""

    formula: RegressionFormula
    blocks: tuple[Block, ...]
    tables: Mapping[tuple[int, int], Names]
    sums: Mapping[tuple[int, int], scipy.sparse.csr_matrix]

    @classmethod
    def of(cls, formula: RegressionFormula, schema: Schema) -> CrossProducts:
        """Read a formula against the public levels of its columns."""
        return cls.terms_alone(formula, schema)._with_sums(schema, {})

    def with_values(self, schema: Schema, values: Values) -> CrossProducts:
        """The same with other numbers for the codes of some columns."""
        moved = self.placed_terms(schema, values)
        alike = [not set(values) & set(block.attributes) for block in self.blocks]
        return moved._with_sums(schema, {pair: s for pair, s in self.sums.items() if alike[pair[0]] and alike[pair[1]]})

    def placed_terms(self, schema: Schema, values: Values) -> CrossProducts:
        """The terms with other numbers for codes, shifted and scaled as these are."""
        moved = self.terms_alone(self.formula, schema, values).blocks
        alike = [
            Block(m.attributes, m.names, (m.columns * m.scale + m.shift - b.shift) / b.scale, b.shift, b.scale)
            for b, m in zip(self.blocks, moved, strict=True)
        ]
        return CrossProducts(self.formula, tuple(alike), {}, {})

    def _with_sums(self, schema: Schema, known: Mapping[tuple[int, int], scipy.sparse.csr_matrix]) -> CrossProducts:
        blocks, tables, sums = self.blocks, {}, dict(known)
        for i, j in combinations_with_replacement(range(len(blocks)), 2):
            names = tuple(n for n in schema.names if n in {*blocks[i].attributes, *blocks[j].attributes})
            tables[i, j] = names
            if (i, j) not in sums:
                sums[i, j] = _products(on_table(blocks[i], names, schema), on_table(blocks[j], names, schema))
        return CrossProducts(self.formula, blocks, tables, sums)

    @classmethod
    def terms_alone(cls, formula: RegressionFormula, schema: Schema, values: Values | None = None) -> CrossProducts:
        """The terms without their cross-products; `values` are numbers for the codes of some columns, else their middles."""
        blocks = (*_terms(formula, schema, values or {}), _response(formula, schema, values or {}))
        wide = sum(len(b.names) for b in blocks) - 1
        if wide > MOST_COLUMNS:
            raise UsageError(
                f"formula '{abridge(formula.text)}' has {wide:,} columns, fixed effects included, and at most {MOST_COLUMNS:,} "
                "are estimated from tables; collapse labels, or use coarser fixed effects"
            )
        return cls(formula, blocks, {}, {})

    def columns_on(self, names: Names, schema: Schema) -> Float:
        """All columns in every cell of one table, the response last and as it is."""
        shift, scale = self.response_scale()
        *terms, response = (on_table(block, names, schema) for block in self.blocks)
        return np.concatenate([*terms, response * scale + shift], axis=1)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns but the response."""
        return tuple(n for b in self.blocks[:-1] for n in b.names)

    def assemble(self, counts: Mapping[Names, Float]) -> Float:
        """All cross-products, from the counts of every table: draws × columns × columns, the response last."""
        starts = np.concatenate([[0], np.cumsum([len(b.names) for b in self.blocks])]).astype(int)
        draws = len(next(iter(counts.values())))
        found = np.zeros((draws, starts[-1], starts[-1]))
        for (i, j), names in self.tables.items():
            flat = counts[names].reshape(draws, -1)
            some = np.asarray((self.sums[i, j] @ flat.T).T).reshape(draws, len(self.blocks[i].names), -1)
            rows, columns = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            found[:, rows, columns] = some
            found[:, columns, rows] = some.transpose(0, 2, 1)
        return found

    def back(self) -> Float:
        """From coefficients of shifted and scaled columns to those that the formula means."""
        shifts = np.array([b.shift for b in self.blocks[:-1] for _ in b.names])
        scales = np.array([b.scale for b in self.blocks[:-1] for _ in b.names])
        found = np.diag(1 / scales)
        if INTERCEPT in self.names:
            found[self.names.index(INTERCEPT)] -= shifts / scales
        return found

    def response_scale(self) -> tuple[float, float]:
        """The shift and scale of the response."""
        return self.blocks[-1].shift, self.blocks[-1].scale


def level_values(attribute: Attribute) -> Float | Category:
    """What every code of a column stands for: a label, or a number, the middle of a bin."""
    domain = attribute.domain
    if domain.missing:
        raise UsageError(
            f"column '{attribute.name}' may be missing, and tables of pairs do not tell in which rows another column is: "
            "give missing values a label of their own in the schema"
        )
    if isinstance(domain, Bins):
        return midpoints(domain) / (DAY if domain.scale == "datetime" else 1.0)
    if attribute.type == "boolean":
        return np.array([0.0, 1.0])
    if attribute.type == "integer":
        return np.array([float(v) for v in domain.labels])
    return Category(np.arange(domain.size), domain.labels)


def _columns(
    formula: RegressionFormula, schema: Schema, names: Sequence[str], given: Values
) -> dict[str, Float | Category]:
    """Columns on the grid of all combinations of their levels, the last varying fastest."""
    grid = _grid(schema, names)
    found: dict[str, Float | Category] = {}
    for name, codes in zip(names, grid, strict=True):
        values = given[name] if name in given else level_values(schema[name])
        if name in formula.factors and not isinstance(values, Category):
            if isinstance(schema[name].domain, Bins) and BinnedNumber.of(schema[name]) is not None:
                raise UsageError(
                    f"formula '{abridge(formula.text)}': C({name}) asks for a level of every value, and '{name}' is known in "
                    "bins; use it as a number"
                )
            values = Category(np.arange(schema[name].size), schema[name].domain.labels)
        found[name] = Category(codes, values.levels) if isinstance(values, Category) else values[codes]
    return found


def _terms(formula: RegressionFormula, schema: Schema, given: Values) -> list[Block]:
    all_columns = {n: c for name in formula.columns for n, c in _columns(formula, schema, [name], given).items()}
    _, categories = split_factors(formula.terms, all_columns)
    constant = bool(formula.fixed) or any(not term.factors for term in formula.terms)
    blocks = []
    for coded in code_terms(formula.terms, categories):
        if not coded and formula.fixed:
            continue
        names = columns_of([c.factor for c in coded])
        values = _values(formula, schema, coded, names, categories, given)
        block = Block(names, tuple(column_names(coded, categories)), values)
        alone = len(coded) == 1 and coded[0].factor not in categories
        blocks.append(_centre(block) if alone and constant else block)
    for effect in formula.fixed:
        size = prod(schema[n].size for n in effect)
        label = "|" + "^".join(effect)
        blocks.append(Block(tuple(effect), tuple(f"{label}[{i}]" for i in range(size)), np.eye(size)))
    return blocks


def _values(
    formula: RegressionFormula,
    schema: Schema,
    coded: Sequence[CodedFactor],
    names: Names,
    categories: Mapping[Factor, Category],
    given: Values,
) -> Float:
    """The columns of a product on the grid of its attributes, the first factor's levels changing fastest."""
    columns = _columns(formula, schema, names, given)
    cells = prod(schema[n].size for n in names)
    each = []
    for c in coded:
        if c.factor in categories:
            name = category_of(c.factor)
            assert name is not None
            column = columns[name]
            assert isinstance(column, Category)
            each.append([column.codes == level for level in range(int(c.reduced), len(column.levels))])
        else:
            each.append([_finite(formula, c.factor, evaluate(c.factor, columns, cells))])
    found = [np.prod([np.ones(cells), *combination], axis=0) for combination in product(*reversed(each))]
    return np.array(found, np.float64).T


def _response(formula: RegressionFormula, schema: Schema, given: Values) -> Block:
    node = formula.response
    names = columns_of([node])
    columns = _columns(formula, schema, names, given)
    column = columns[node.name] if isinstance(node, Column) else None
    if isinstance(column, Category):
        if len(column.levels) != 2:
            raise UsageError(
                f"formula '{abridge(formula.text)}': the response has {len(column.levels)} levels; a regression takes a number, "
                "a column with two levels, or a comparison"
            )
        return Block(names, ("y",), column.codes.astype(np.float64)[:, None])
    values = evaluate(node, columns, prod(schema[n].size for n in names))
    block = Block(names, ("y",), _finite(formula, node, values)[:, None])
    constant = bool(formula.fixed) or any(not term.factors for term in formula.terms)
    return _centre(block) if constant else block


def _finite(formula: RegressionFormula, node: Node, values: Float) -> Float:
    if not np.isfinite(values).all():
        raise UsageError(
            f"formula '{abridge(formula.text)}' has a term without a value in some bin, such as log(0), and rows of that bin "
            "cannot be left out of tables of pairs; add a constant, as in log(1 + x)"
        )
    return values


def _centre(block: Block) -> Block:
    shift, scale = float(block.columns.mean()), float(block.columns.std()) or 1.0
    return Block(block.attributes, block.names, (block.columns - shift) / scale, shift, scale)


def _grid(schema: Schema, names: Sequence[str]) -> list[NDArray[np.int64]]:
    """The code of every column in every combination, the last varying fastest."""
    return [g.ravel() for g in np.indices([schema[n].size for n in names])] if names else []


def on_table(block: Block, names: Names, schema: Schema) -> Float:
    """The columns of a block in every cell of a larger table."""
    grid = dict(zip(names, _grid(schema, names), strict=True))
    at = np.zeros(schema.size(names), np.int64)
    for name in block.attributes:
        at = at * schema[name].size + grid[name]
    return block.columns[at]


def _products(left: Float, right: Float) -> scipy.sparse.csr_matrix:
    """The products of every two columns, as a matrix of products × cells; most indicators are 0."""
    a, b = scipy.sparse.csr_matrix(left), scipy.sparse.csr_matrix(right)
    first, second = np.diff(a.indptr), np.diff(b.indptr)
    pairs = first * second
    cell = np.repeat(np.arange(len(left)), pairs)
    within = np.arange(int(pairs.sum())) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    i = a.indptr[cell] + within // np.maximum(second[cell], 1)
    j = b.indptr[cell] + within % np.maximum(second[cell], 1)
    at = a.indices[i].astype(np.int64) * right.shape[1] + b.indices[j]
    shape = (left.shape[1] * right.shape[1], len(left))
    return scipy.sparse.csr_matrix((a.data[i] * b.data[j], (at, cell)), shape=shape)
