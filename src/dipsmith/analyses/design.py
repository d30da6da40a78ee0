"""The design of a planned analysis: a formula taken apart into what is public and what the private labels decide.

Every column of the regression is a public number times a function of the row's private labels. Columns in which no
label occurs are public altogether; of the others, rows meet the private labels only through sums of public weights
(Frisch, Waugh and Lovell; ``docs/proofs/weighted-sums.md``). This module names the parts:

* a `PublicBlock`: columns w·1[group], one for each group: an intercept, a number, a category, a fixed effect;
* a `PrivateTerm`: columns w·1[group]·h(labels).

Rows are the distinct public rows of the table, each with how often it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.bin_doubt import Values
from dipsmith.errors import UsageError
from dipsmith.estimation.answers import midpoints
from dipsmith.regression.arithmetic import Category, Columns, evaluate
from dipsmith.regression.formula import Factor, RegressionFormula, category_of
from dipsmith.regression.matrix import INTERCEPT, CodedFactor, code_terms, column_names, split_factors
from dipsmith.regression.model_frame import Levels, levels_of, number_combinations, number_groups, read_columns
from dipsmith.schema import Attribute, Bins, Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.bins import DAY
from dipsmith.schema.formula.tree import Column, Node, nodes, spell
from dipsmith.schema.formula.words import abridge

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_PUBLIC = 3000
"""Public columns of one analysis beside its largest fixed effect: their cross-products are inverted."""
MOST_GROUPS = 100_000
"""Groups of a fixed effect: a sum is bought for each of them and every label."""
MOST_SUMS = 1 << 27
"""Cells by group, weight and label in which the rows of one table are counted."""
WEIGHTS = 8191
"""Different weights of rows at most."""

MOST_LABELS = 200
"""Combinations of private labels that one analysis may tell apart."""


@dataclass(frozen=True, eq=False)
class PublicBlock:
    """Public columns weight·1[group], one for each of `levels`; `name` tells two blocks apart."""

    name: str
    groups: NDArray[np.signedinteger]
    size: int
    weight: Float | None
    levels: Ints
    names: tuple[str, ...]

    @property
    def is_table(self) -> bool:
        """Whether every row weighs 1 and lies in one of the columns."""
        return self.weight is None and len(self.levels) == self.size


@dataclass(frozen=True, eq=False)
class PrivateTerm:
    """Columns weight·1[group]·h(labels): for every column its name, its group and h over the joint labels."""

    name: str
    labels: tuple[str, ...]
    groups: Ints
    size: int
    weight: Float | None
    names: tuple[str, ...]
    level: Ints
    on_label: Float


@dataclass(frozen=True, eq=False)
class Design:
    """A planned analysis on distinct public rows, each of which counts `often` times.

    The response is `y`, a public number, or `response`, a private term of one column.
    """

    analysis: PlannedAnalysis
    formula: RegressionFormula
    levels: Levels
    often: Float
    blocks: tuple[PublicBlock, ...]
    terms: tuple[PrivateTerm, ...]
    y: Float | None
    response: PrivateTerm | None
    names: tuple[str, ...]
    sizes: Mapping[str, int]
    maker: _Maker

    def with_values(self, values: Values) -> Design:
        """The same with other numbers for the labels of some private columns."""
        maker = replace(self.maker, given=values)
        return replace(self, terms=tuple(maker.split()[1]), response=maker.response()[1])

    @property
    def private(self) -> tuple[PrivateTerm, ...]:
        """The terms that labels decide, the response last where it is one."""
        return self.terms if self.response is None else (*self.terms, self.response)

    @property
    def rows(self) -> float:
        """How many rows count."""
        return float(self.often.sum())

    @property
    def labels(self) -> tuple[str, ...]:
        """The private columns."""
        return tuple(dict.fromkeys(name for term in self.private for name in term.labels))


def design_of(analysis: PlannedAnalysis, schema: Schema, table: pa.Table, often: Ints) -> Design:
    """Read a formula against the distinct public rows of a table; private columns are known by their labels alone."""
    private = [n for n in schema.private if n in analysis.columns]
    for name in private:
        table = table.append_column(name, _constant(schema[name], table.num_rows))
    formula = RegressionFormula.parse(analysis.formula, table.column_names)
    levels = levels_of(formula, [table], schema, dict(analysis.reference))
    public = replace(formula, columns=tuple(n for n in formula.columns if n not in private))
    columns, known = read_columns(public, table, levels)
    # Of a private column only its type and levels are known: one row tells them.
    hidden, _ = read_columns(replace(formula, columns=tuple(private)), table.slice(0, 1), levels)
    maker = _Maker(schema, formula, {**columns, **hidden}, table.num_rows)
    y, response = maker.response()
    blocks, terms = maker.split()
    if not (terms or response):
        raise UsageError(
            f"analysis '{abridge(analysis.formula)}' names no private column, so that it needs no privacy: fit it to the "
            "released table, whose public columns are the authentic ones"
        )
    blocks += [_fixed_effect(table, effect) for effect in formula.fixed]
    if formula.fixed:
        blocks = [b for b in blocks if b.name != INTERCEPT]
    numbers = [b.weight for b in blocks if b.weight is not None] + [t.weight for t in terms if t.weight is not None]
    for number in (*numbers, *(() if y is None else (y,))):
        known = known & np.isfinite(number)
    fixed = max((len(b.levels) for b in blocks if b.name[0] == "|"), default=0)
    wide = sum(len(b.levels) for b in blocks)
    odds = response is not None and not terms and analysis.model != "ols"
    if wide - (0 if odds else fixed) > MOST_PUBLIC or fixed > MOST_GROUPS:
        raise UsageError(
            f"analysis '{abridge(analysis.formula)}' has {wide:,} public columns, of which {fixed:,} are one fixed effect; at "
            f"most {MOST_PUBLIC:,} are planned beside one fixed effect of {MOST_GROUPS:,} groups"
            f"{', and for odds in all' if odds else ''}: use coarser ones"
        )
    _require_room(analysis, schema, table.num_rows, blocks, [*terms, *([] if response is None else [response])], y)
    names = tuple(n for b in blocks if b.name[0] != "|" for n in b.names) + tuple(n for t in terms for n in t.names)
    counted = np.multiply(known, often, dtype=np.float64)
    return Design(
        analysis,
        formula,
        levels,
        counted,
        tuple(blocks),
        tuple(terms),
        y,
        response,
        names,
        {n: schema[n].size for n in private},
        maker,
    )


def _require_room(
    analysis: PlannedAnalysis,
    schema: Schema,
    rows: int,
    blocks: Sequence[PublicBlock],
    terms: Sequence[PrivateTerm],
    y: Float | None,
) -> None:
    """Refuse tables of sums that are too large to count: groups × weights × labels."""
    for i, term in enumerate(terms):
        beside = [(b.size, b.weight is not None, term.labels) for b in blocks]
        beside += [(t.size, t.weight is not None, (*term.labels, *t.labels)) for t in terms[i:]]
        beside += [] if y is None else [(1, True, term.labels)]
        for size, weighted, labels in beside:
            weights = WEIGHTS if weighted or term.weight is not None else 1
            cells = min(size * term.size, rows) * weights * schema.size(tuple(dict.fromkeys(labels)))
            if cells > MOST_SUMS:
                raise UsageError(
                    f"analysis '{abridge(analysis.formula)}': '{abridge(term.name)}' needs {cells:,} counts of rows, at most "
                    f"{MOST_SUMS:,} are made; use coarser groups or fewer labels"
                )


@dataclass(frozen=True, eq=False)
class _Maker:
    """Takes the terms of one formula apart; `given` are other numbers than the middles of bins."""

    schema: Schema
    formula: RegressionFormula
    columns: Columns
    rows: int
    given: Values = field(default_factory=dict)

    def private_columns(self, node: Node) -> tuple[str, ...]:
        """The private columns of a part of the formula; refuses parts that mix private and public ones."""
        names = dict.fromkeys(n.name for n in nodes(node) if isinstance(n, Column))
        private = tuple(n for n in names if self.schema[n].role == "private")
        if private and len(private) < len(names):
            raise UsageError(
                f"analysis '{abridge(self.formula.text)}': '{abridge(spell(node))}' mixes private and public columns; write "
                "the product of two terms instead, as in sex:agency"
            )
        return private

    def on_labels(self, node: Node, names: Sequence[str]) -> Float:
        """A number of every combination of the labels of private columns."""
        grid = _grid(self.schema, names)
        known: dict[str, Float | Category] = {}
        for name, codes in zip(names, grid, strict=True):
            column = self.columns[name]
            if isinstance(column, Category):
                known[name] = Category(self.positions(name)[codes], column.levels)
            else:
                known[name] = self.label_values(self.schema[name])[codes]
        return evaluate(node, known, len(grid[0]))

    def positions(self, name: str) -> Ints:
        """The place of each label of a private column among the levels of its category, the reference first."""
        column = self.columns[name]
        assert isinstance(column, Category)
        return np.array([column.levels.index(label) for label in self.schema[name].domain.labels], np.int64)

    def label_values(self, attribute: Attribute) -> Float:
        """The number that each label of a private column stands for."""
        domain = attribute.domain
        if isinstance(domain, Bins):
            middle = midpoints(domain) / (DAY if domain.scale == "datetime" else 1)
            return self.given.get(attribute.name, middle)
        if attribute.type == "boolean":
            return np.array([0.0, 1.0])
        return np.array([float(v) for v in domain.labels])

    def response(self) -> tuple[Float | None, PrivateTerm | None]:
        """The response: a public number, or a private term."""
        node = self.formula.response
        private = self.private_columns(node)
        column = self.columns[node.name] if isinstance(node, Column) else None
        labels = column if isinstance(column, Category) else None
        if labels is not None and len(labels.levels) != 2:
            raise UsageError(
                f"analysis '{abridge(self.formula.text)}': '{abridge(spell(node))}' has {len(labels.levels)} labels; a regression "
                'takes a number or two labels: compare it with one of them, as in I(race == "A")'
            )
        if not private:
            if labels is None:
                return evaluate(node, self.columns, self.rows), None
            return np.where(labels.codes < 0, np.nan, labels.codes.astype(np.float64)), None
        values = self.on_labels(node, private) if labels is None else self.positions(private[0]).astype(np.float64)
        none = np.broadcast_to(np.int64(0), self.rows)
        name = spell(node)
        return None, PrivateTerm(name, private, none, 1, None, (name,), np.zeros(1, np.int64), values[None, :])

    def split(self) -> tuple[list[PublicBlock], list[PrivateTerm]]:
        """The public blocks and the private terms of the right side."""
        _, categories = split_factors(self.formula.terms, self.columns)
        blocks, terms = [], []
        for coded in code_terms(self.formula.terms, categories):
            named = {c: self.private_columns(c.factor) for c in coded}
            public = [c for c in coded if not named[c]]
            groups, size, chosen = self._groups([c for c in public if c.factor in categories], categories)
            weight = self._weight([c.factor for c in public if c.factor not in categories])
            names = column_names(coded, categories)
            if len(public) == len(coded):
                name = ":".join(spell(c.factor) for c in coded) or INTERCEPT
                blocks.append(PublicBlock(name, groups, size, weight, chosen, tuple(names)))
                continue
            labels = tuple(dict.fromkeys(n for c in coded for n in named[c]))
            terms.append(self._term(coded, labels, named, categories, groups, size, weight, names))
        return blocks, terms

    def _term(
        self,
        coded: Sequence[CodedFactor],
        labels: tuple[str, ...],
        named: Mapping[CodedFactor, tuple[str, ...]],
        categories: Mapping[Factor, Category],
        groups: Ints,
        size: int,
        weight: Float | None,
        names: Sequence[str],
    ) -> PrivateTerm:
        grid = dict(zip(labels, _grid(self.schema, labels), strict=True))
        cells = len(next(iter(grid.values())))
        if cells > MOST_LABELS:
            raise UsageError(
                f"analysis '{abridge(self.formula.text)}' tells {cells} combinations of private labels apart, at most "
                f"{MOST_LABELS} are planned; collapse labels"
            )
        each = []
        for c in coded:
            if c.factor in categories:
                each.append([(c, level) for level in range(int(c.reduced), len(categories[c.factor].levels))])
            else:
                each.append([(c, -1)])
        level, values = [], []
        for combination in product(*reversed(each)):
            h, place = np.ones(cells), []
            for c, at in combination:
                private = named[c]
                if not private:
                    place += [at] if at >= 0 else []
                elif at >= 0:
                    column = category_of(c.factor)
                    assert column is not None
                    h = h * (self.positions(column)[grid[column]] == at)
                else:
                    index = Marginal.of(self.schema, private)
                    on = self.on_labels(c.factor, private)
                    codes = np.zeros(cells, np.int64)
                    for name, length in zip(private, index.shape, strict=True):
                        codes = codes * length + grid[name]
                    h = h * on[codes]
            level.append(_place([*reversed(place)], coded, named, categories))
            values.append(h)
        name = ":".join(spell(c.factor) for c in coded)
        return PrivateTerm(
            name, labels, groups, size, weight, tuple(names), np.array(level, np.int64), np.array(values)
        )

    def _groups(self, coded: Sequence[CodedFactor], categories: Mapping[Factor, Category]) -> tuple[Ints, int, Ints]:
        """The combination of public categories of each row, how many there are, and which have a column."""
        groups: Ints = np.broadcast_to(np.int64(0), self.rows)
        size = 1
        chosen = np.zeros(1, np.int64)
        for c in coded:
            levels = len(categories[c.factor].levels)
            codes = np.maximum(categories[c.factor].codes, 0)
            groups = groups * levels + codes if size > 1 else codes
            kept = np.arange(int(c.reduced), levels)
            chosen = (chosen[None, :] * levels + kept[:, None]).ravel()
            size *= levels
        return groups, size, chosen

    def _weight(self, factors: Sequence[Factor]) -> Float | None:
        return reduce(np.multiply, [evaluate(f, self.columns, self.rows) for f in factors]) if factors else None


def _place(
    at: Sequence[int],
    coded: Sequence[CodedFactor],
    named: Mapping[CodedFactor, tuple[str, ...]],
    categories: Mapping[Factor, Category],
) -> int:
    """The group of a column, as `_groups` numbers combinations of public categories."""
    number = 0
    public = [c for c in coded if not named[c] and c.factor in categories]
    for c, level in zip(public, at, strict=True):
        number = number * len(categories[c.factor].levels) + level
    return number


def _fixed_effect(table: pa.Table, effect: Sequence[str]) -> PublicBlock:
    groups = number_combinations([number_groups(table, name) for name in effect])
    size = int(groups.max(initial=-1)) + 1
    name = "|" + "^".join(effect)
    return PublicBlock(name, groups.astype(small_type(size)), size, None, np.arange(size), ())


def small_type(largest: int) -> type[np.signedinteger]:
    """The smallest type of whole numbers up to this one that is in use."""
    return np.int16 if largest < 1 << 15 else np.int32 if largest < 1 << 31 else np.int64


def _grid(schema: Schema, names: Sequence[str]) -> list[Ints]:
    """The code of every private column in every combination of their labels, the last varying fastest."""
    shape = [schema[name].size for name in names]
    return [g.ravel() for g in np.indices(shape)]


def _constant(attribute: Attribute, rows: int) -> pa.Array:
    """A column in a private one's place: its type is what matters."""
    if attribute.domain.missing:
        raise UsageError(
            f"column '{attribute.name}' may be missing, and a planned analysis needs every label: give missing values a "
            "label of their own in the schema"
        )
    if attribute.type == "string":
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), [attribute.domain.labels[0]])
    return pa.array(np.zeros(rows)) if attribute.type != "boolean" else pa.array(np.zeros(rows, dtype=bool))
