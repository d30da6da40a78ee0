"""What a regression needs to know of a table: groups of columns, and how finely it uses each column.

Least squares adds up products of the response with each term, and of terms with each other; it is a function of the
tables of those groups of columns and of nothing larger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dipsmith.regression.formula import RegressionFormula
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
