"""The columns of a regression: terms, coded, multiplied and named.

Names are those of formulaic: ``race[T.B]`` for a level beside a reference, ``race[B]`` without one, factors of a
product joined by colons; among the columns of a product the first factor's levels change fastest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.inference.arithmetic import Category, Columns, evaluate
from dipsmith.inference.coding import Coded, Product, code
from dipsmith.inference.estimates import Float
from dipsmith.inference.formula import category_of
from dipsmith.inference.terms import Factor, Term, name_of
from dipsmith.schema.formula.words import shown

INTERCEPT: Final = "Intercept"

MOST_COLUMNS: Final = 10_000

Categories = Mapping[Factor, Category]


def build(terms: Sequence[Term], columns: Columns, rows: int) -> tuple[Float, tuple[str, ...]]:
    """One column per coefficient, and their names.

    >>> from dipsmith.inference.formula import analysed
    >>> x = Category(np.array([0, 1, 1]), ("a", "b"))
    >>> X, names = build(analysed("y ~ x", ["x", "y"]).terms, {"x": x}, 3)
    >>> names, X.tolist()
    (('Intercept', 'x[T.b]'), [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    """
    factors = dict.fromkeys(factor for term in terms for factor in term.factors)
    categories = _categories(factors, columns)
    numbers = {f: evaluate(f, columns, rows) for f in factors if f not in categories}
    products = list(code(terms, categories))
    wide = sum(prod(len(_levels(c, categories)) for c in p if c.factor in categories) for p in products)
    if wide > MOST_COLUMNS:
        raise UsageError(
            f"the terms have {wide:,} coefficients, at most {MOST_COLUMNS:,} are estimated; "
            "make categories with many levels fixed effects: … | column"
        )
    names = [_names(p, categories) for p in products]
    _refuse_same(name for p, some in zip(products, names, strict=True) if p for name in some)
    X = np.empty((rows, wide), order="F")
    at = 0
    for p, some in zip(products, names, strict=True):
        _fill(X[:, at : at + len(some)], p, categories, numbers)
        at += len(some)
    return X, tuple(name for some in names for name in some)


def _categories(factors: Iterable[Factor], columns: Columns) -> Categories:
    found: dict[Factor, Category] = {}
    for factor in factors:
        name = category_of(factor)
        held = None if name is None else columns[name]
        if isinstance(held, Category):
            found[factor] = held
    return found


def _levels(coded: Coded, categories: Categories) -> tuple[str, ...]:
    return categories[coded.factor].levels[coded.reduced :]


def _names(coded: Product, categories: Categories) -> list[str]:
    if not coded:
        return [INTERCEPT]
    each = []
    for c in coded:
        name = name_of(c.factor)
        mark = "T." if c.reduced else ""
        numeric = c.factor not in categories
        each.append([name] if numeric else [f"{name}[{mark}{v}]" for v in _levels(c, categories)])
    return [":".join(reversed(names)) for names in product(*reversed(each))]


def _fill(block: Float, coded: Product, categories: Categories, numbers: Mapping[Factor, Float]) -> None:
    """Write the columns of one product."""
    labelled = [c for c in coded if c.factor in categories]
    if labelled:
        place, known = _places(labelled, categories)
        block[:] = 0
        block[np.flatnonzero(known), place[known]] = 1
    else:
        block[:] = 1
    numeric = [numbers[c.factor] for c in coded if c.factor not in categories]
    if numeric:
        # A number that is missing stays missing in every column, also where the level is another.
        with np.errstate(all="ignore"):
            block *= prod(numeric[1:], start=numeric[0])[:, None]


def _places(labelled: Sequence[Coded], categories: Categories) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Each row's column among those of a product of categories, and whether it has one."""
    rows = len(categories[labelled[0].factor].codes)
    place, known, stride = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool), 1
    for c in labelled:
        codes = categories[c.factor].codes - c.reduced
        place += stride * codes
        known &= codes >= 0
        stride *= len(_levels(c, categories))
    return place, known


def _refuse_same(names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1 or name == INTERCEPT:
            raise UsageError(
                f"two coefficients would be called '{shown(name)}'; give one of the columns another name"
            )
