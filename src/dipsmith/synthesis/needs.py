"""What a regression needs to know of a table: groups of columns, and how finely it uses each column.

Least squares adds up products of the response with each term, and of terms with each other; it is a function of the
tables of those groups of columns and of nothing larger.

A column may have been seen too coarsely: labels may stand for several values, bins for a range of numbers. Under
`label` public columns are released as they stand, while private labels were made from what the schema collapses them
to: within one label or bin they say nothing of one another. Otherwise values within a bin are drawn evenly, and the
columns of a release are no finer than the schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.regression.arithmetic import evaluate
from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Attribute, Bins
from dipsmith.schema.formula.tree import Column as Named
from dipsmith.schema.formula.tree import Node
from dipsmith.schema.formula.tree import columns as columns_in

Uses = Mapping[str, tuple[Node, ...]]
"""The numbers that are made of each column by itself; a column that is not there is taken as categories."""


@dataclass(frozen=True)
class Need:
    """The groups of columns that a formula needs together: response with each term first, then terms with terms."""

    main: tuple[tuple[str, ...], ...]
    rest: tuple[tuple[str, ...], ...]
    uses: Uses

    @classmethod
    def of(cls, formula: RegressionFormula, by: str | None) -> Need:
        """What least squares adds up: products of response and terms, and of terms with each other."""
        response = _columns_of([formula.response])
        own = [_columns_of(term.factors) for term in formula.terms]
        terms = list(dict.fromkeys([*own, *formula.fixed]))
        part = () if by is None else (by,)

        def joined(*groups: Sequence[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(n for group in (*groups, part) for n in group))

        main = [joined(response, term) for term in terms] or [joined(response)]
        rest = [joined(a, b) for a, b in combinations([t for t in terms if t], 2)]
        return cls(tuple(dict.fromkeys(main)), tuple(dict.fromkeys(rest)), dict(_uses(formula)))


def _columns_of(factors: Collection[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for factor in factors for name in columns_in(factor)))


def _uses(formula: RegressionFormula) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """The numbers that a formula makes of each column by itself; what is not named is a category."""
    trees = [formula.response, *(f for term in formula.terms for f in term.factors)]
    for name in formula.inside:
        if name not in formula.factors and not any(name in group for group in formula.fixed):
            alone = tuple(dict.fromkeys(t for t in trees if columns_in(t) == (name,)))
            yield name, alone or (Named(name),)


MOST_LOST = 0.02
"""A number is used at the schema's resolution if its bins leave at most this share of its variance within them."""

LOOKED_AT = 20_000
"""Rows that are looked at: the first ones, in the release's own (random) order."""


def coarseness(attribute: Attribute, uses: Sequence[Node], column: pa.ChunkedArray | None) -> str:
    """In words, how much coarser the schema is than the values that a formula uses; empty where it is fine enough.

    `uses` are the numbers that are made of the column alone; none where its values are taken as categories. `column` has the
    values that were released, if they are at hand.
    """
    domain = attribute.domain
    if not isinstance(domain, Bins):
        listed, labels = len(domain.values), len(domain.labels)
        return f"the schema collapses its {listed:,} values to {labels:,} labels" if labels < listed else ""
    if domain.whole and np.all(np.diff(domain.cuts) == 1):
        return ""
    bins = len(domain.labels)
    if not uses:
        return f"the schema puts its values into {bins} bins, and the formula takes each value by itself"
    values = None if column is None else _numbers(domain, column)
    # Of an even spread where the values are not at hand.
    lost = 1 / bins**2 if values is None else max(_lost_share(domain, values, attribute.name, use) for use in uses)
    return f"{lost:.0%} of its variance lies within the schema's {bins} bins" if lost > MOST_LOST else ""


def _lost_share(domain: Bins, values: Floats, name: str, use: Node) -> float:
    """The share of a number's variance that lies within the bins of the column that it is made of."""
    try:
        made = evaluate(use, {name: values}, len(values))
    except UsageError:
        # A comparison with a label: as much is lost as of an even spread.
        return float(1 / len(domain.labels) ** 2)
    known = np.isfinite(made)
    made, code = made[known], np.searchsorted(domain.cuts[1:-1], values[known], side="right")
    if len(made) < 2 or made.var() == 0:
        return 0.0
    means = np.bincount(code, weights=made) / np.maximum(np.bincount(code), 1)
    return float(np.mean((made - means[code]) ** 2) / made.var())


def _numbers(domain: Bins, column: pa.ChunkedArray) -> Floats | None:
    some = column.slice(0, LOOKED_AT).drop_null()
    try:
        if domain.scale == "date":
            some = some.cast(pa.date32()).cast(pa.int32())
        elif domain.scale == "datetime":
            some = some.cast(pa.timestamp("us")).cast(pa.int64())
        values = some.cast(pa.float64()).to_numpy().astype(np.float64)
    except (pa.ArrowException, ValueError):
        return None
    clipped: Floats = np.clip(values[np.isfinite(values)], domain.minimum, domain.maximum)
    return clipped
