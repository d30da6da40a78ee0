"""How categories become columns: treatment contrasts where a reference is needed, every level where not.

A category spans the intercept, so an indicator for every level beside an intercept would say the same twice. The
rule is that of R, patsy and formulaic: a term spans the products of its factors with some categories left out;
what earlier terms span already is taken off; what is left is joined again, (anything) + (anything):(reduced) being
(anything):(full). So columns are structurally independent, and each term keeps as many as it adds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from dipsmith.inference.terms import Factor, Term


@dataclass(frozen=True)
class Coded:
    """A factor and its coding: `reduced` leaves the reference level out."""

    factor: Factor
    reduced: bool = False


Product = tuple[Coded, ...]
"""Coded factors that are multiplied; none is the intercept."""


def code(terms: Iterable[Term], categories: Collection[Factor]) -> Iterator[Product]:
    """The products whose columns make up a design, in order.

    >>> from dipsmith.inference.terms import expand
    >>> from dipsmith.schema.formula.parser import parse
    >>> terms = expand(parse("y ~ 0 + sex + race").sections[0])
    >>> [[c.reduced for c in p] for p in code(terms, {f for t in terms for f in t.factors})]
    [[False], [True]]
    """
    spanned: set[frozenset[Coded]] = set()
    for term in terms:
        span = [p for p in _span(term, categories) if frozenset(p) not in spanned]
        yield from _simplify(span)
        spanned.update(map(frozenset, span))


def _span(term: Term, categories: Collection[Factor]) -> Iterator[Product]:
    choices = [(Coded(f, reduced=True), None) if f in categories else (Coded(f),) for f in term.factors]
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
            joined = tuple(Coded(c.factor) if c == extra else c for c in new)
            found = _simplify([*found[:at], *found[at + 1 :], joined])
    return found


def _extends(new: Product, old: Product) -> bool:
    """Whether one product is another times a category without its reference."""
    extra = set(new) - set(old)
    return len(new) == len(old) + 1 and len(extra) == 1 and next(iter(extra)).reduced
