"""The columns of a regression: terms, coded, multiplied and named.

A category spans the intercept, so an indicator for every level beside an intercept would say the same twice: one
level, the reference, is left out where it has to be. The rule is that of R, patsy and formulaic: a term spans the
products of its factors with some categories left out; what earlier terms span already is taken off; what is left is
joined again, (anything) + (anything):(reduced) being (anything):(full). So columns are structurally independent, and
each term keeps as many as it adds.

Names are those of formulaic: ``race[T.B]`` for a level beside a reference, ``race[B]`` without one, factors of a
product joined by colons; among the columns of a product the first factor's levels change fastest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.regression.arithmetic import Category, Columns, evaluate
from dipsmith.regression.formula import Factor, Term, category_of, name_of
from dipsmith.schema.formula.words import abridge

INTERCEPT: Final = "Intercept"
MOST_COLUMNS: Final = 10_000

Categories = Mapping[Factor, Category]


@dataclass(frozen=True)
class CodedFactor:
    """A factor and its coding: `reduced` leaves the reference level out."""

    factor: Factor
    reduced: bool = False


Product = tuple[CodedFactor, ...]
"""Coded factors that are multiplied; none is the intercept."""


def build(terms: Sequence[Term], columns: Columns, rows: int) -> tuple[Floats, tuple[str, ...]]:
    """One column per coefficient, and their names.

    >>> from dipsmith.regression.formula import RegressionFormula
    >>> x = Category(np.array([0, 1, 1]), ("a", "b"))
    >>> X, names = build(RegressionFormula.parse("y ~ x", ["x", "y"]).terms, {"x": x}, 3)
    >>> names, X.tolist()
    (('Intercept', 'x[T.b]'), [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    """
    factors, categories = split_factors(terms, columns)
    numbers = {f: evaluate(f, columns, rows) for f in factors if f not in categories}
    products = list(code_terms(terms, categories))
    wide = sum(prod(len(_levels(c, categories)) for c in p if c.factor in categories) for p in products)
    if wide > MOST_COLUMNS:
        raise UsageError(
            f"the terms have {wide:,} coefficients, at most {MOST_COLUMNS:,} are estimated; "
            "make categories with many levels fixed effects: … | column"
        )
    names = [column_names(p, categories) for p in products]
    for name, times in Counter(n for p, some in zip(products, names, strict=True) if p for n in some).items():
        if times > 1 or name == INTERCEPT:
            raise UsageError(
                f"two coefficients would be called '{abridge(name)}'; give one of the columns another name"
            )
    X, at = np.empty((rows, wide), order="F"), 0
    for p, some in zip(products, names, strict=True):
        _fill(X[:, at : at + len(some)], p, categories, numbers)
        at += len(some)
    return X, tuple(name for some in names for name in some)


def split_factors(terms: Iterable[Term], columns: Columns) -> tuple[list[Factor], Categories]:
    """The factors of some terms, each once, and those among them that are categories."""
    factors = list(dict.fromkeys(factor for term in terms for factor in term.factors))
    named = [(factor, name) for factor in factors if (name := category_of(factor)) is not None]
    return factors, {factor: column for factor, name in named if isinstance(column := columns[name], Category)}


def code_terms(terms: Iterable[Term], categories: Collection[Factor]) -> Iterator[Product]:
    """The products whose columns make up a design, in order.

    >>> from dipsmith.regression.formula import expand
    >>> from dipsmith.schema.formula.parser import parse
    >>> terms = expand(parse("y ~ 0 + sex + race").sections[0])
    >>> [[c.reduced for c in p] for p in code_terms(terms, {f for t in terms for f in t.factors})]
    [[False], [True]]
    """
    spanned: set[frozenset[CodedFactor]] = set()
    for term in terms:
        span = [p for p in _span(term, categories) if frozenset(p) not in spanned]
        yield from _simplify(span)
        spanned.update(map(frozenset, span))


def _span(term: Term, categories: Collection[Factor]) -> Iterator[Product]:
    choices = [(CodedFactor(f, reduced=True), None) if f in categories else (CodedFactor(f),) for f in term.factors]
    for chosen in product(*choices):
        yield tuple(c for c in chosen if c is not None)


def _simplify(products: Iterable[Product]) -> list[Product]:
    """The fewest products that span the same."""
    found: list[Product] = []
    for new in sorted(products, key=len):
        at = next((i for i, old in enumerate(found) if _extends(new, old)), None)
        if at is None:
            found.append(new)
        else:
            (extra,) = set(new) - set(found[at])
            joined = tuple(CodedFactor(c.factor) if c == extra else c for c in new)
            found = _simplify([*found[:at], *found[at + 1 :], joined])
    return found


def _extends(new: Product, old: Product) -> bool:
    """Whether one product is another times a category without its reference."""
    extra = set(new) - set(old)
    return len(new) == len(old) + 1 and len(extra) == 1 and next(iter(extra)).reduced


def _levels(coded: CodedFactor, categories: Categories) -> tuple[str, ...]:
    return categories[coded.factor].levels[coded.reduced :]


def column_names(coded: Product, categories: Categories) -> list[str]:
    """The names of a product's columns, the first factor's levels changing fastest."""
    if not coded:
        return [INTERCEPT]
    each = []
    for c in coded:
        name, mark = name_of(c.factor), "T." if c.reduced else ""
        levels = [f"[{mark}{v}]" for v in _levels(c, categories)] if c.factor in categories else [""]
        each.append([name + level for level in levels])
    return [":".join(reversed(names)) for names in product(*reversed(each))]


def _fill(block: Floats, coded: Product, categories: Categories, numbers: Mapping[Factor, Floats]) -> None:
    """Write the columns of one product: each row's numbers in the column of its levels, 0 in the others."""
    place, known, stride = np.zeros(len(block), dtype=np.int64), np.ones(len(block), dtype=bool), 1
    for c in coded:
        if c.factor in categories:
            codes = categories[c.factor].codes - c.reduced
            place += stride * codes
            known &= codes >= 0
            stride *= len(_levels(c, categories))
    block[:] = 0
    block[np.flatnonzero(known), place[known]] = 1
    with np.errstate(all="ignore"):
        for c in coded:
            if c.factor in numbers:
                # A number that is missing stays missing in every column, also where the level is another.
                block *= numbers[c.factor][:, None]
