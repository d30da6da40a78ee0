"""The terms of a formula: each a product of factors, expanded from sums, products and powers.

Wilkinson and Rogers' notation (1973, "Symbolic description of factorial models for analysis of variance"), as R,
patsy and formulaic read it: ``a*b`` is ``a + b + a:b``, ``a/b`` is ``a + a:b``, ``(a + b)^2`` is
``a + b + a:b``; ``- x`` removes a term. An intercept is there unless ``- 1`` or ``+ 0`` removes it. Terms are
sorted by their number of factors.

How many terms come out is bounded, and so is the work: the bound is looked at while terms are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from dipsmith.errors import UsageError
from dipsmith.schema.formula.tree import Call, Column, Group, Node, Number, Operation, Signed, written
from dipsmith.schema.formula.words import shown

MOST_TERMS: Final = 300
MOST_FACTORS: Final = 8
MOST_POWER: Final = 9
MOST_PRODUCTS: Final = 50_000

Factor = Column | Call


@dataclass(frozen=True)
class Term:
    """A product of factors; of none for the intercept."""

    factors: tuple[Factor, ...]

    @property
    def key(self) -> frozenset[Factor]:
        """What it has in common with the same product in another order."""
        return frozenset(self.factors)

    def __mul__(self, other: Term) -> Term:
        factors = tuple(dict.fromkeys((*self.factors, *other.factors)))
        if len(factors) > MOST_FACTORS:
            raise UsageError(f"a term multiplies {len(factors)} factors, at most {MOST_FACTORS} are possible")
        return Term(factors)

    def __str__(self) -> str:
        return ":".join(map(name_of, self.factors)) or "1"


INTERCEPT: Final = Term(())

Terms = dict[frozenset[Factor], Term]


def name_of(factor: Factor) -> str:
    """What a factor is called in print."""
    return factor.name if isinstance(factor, Column) else written(factor)


def expand(node: Node) -> tuple[Term, ...]:
    """The terms of the right side of a formula, the intercept among them.

    >>> from dipsmith.schema.formula.parser import parse
    >>> [str(term) for term in expand(parse("y ~ a*b + I(a^2)").sections[0])]
    ['1', 'a', 'b', 'I(a ** 2)', 'a:b']
    """
    found = _Expansion().add(_distinct([INTERCEPT]), node)
    return tuple(sorted(found.values(), key=lambda term: len(term.factors)))


@dataclass
class _Expansion:
    """The expansion of one formula, which counts the products that it makes."""

    made: int = 0

    def expand(self, node: Node) -> Terms:
        match node:
            case Column() | Call():
                return _distinct([Term((node,))])
            case Number(value) if value == 1:
                return _distinct([INTERCEPT])
            case Group(part):
                return self.add({}, part)
            case Operation(("**",), (base, exponent)):
                return self.power(self.expand(base), exponent)
            case Operation(("*" | "/" | ":", *_) as signs, (first, *rest)):
                found = self.expand(first)
                for sign, part in zip(signs, rest, strict=True):
                    found = self.multiply(sign, found, self.expand(part))
                return found
        raise UsageError(
            f"'{shown(written(node))}' is no term; the only numbers are 0 and 1, for the intercept, arithmetic stands in "
            "I(…), and there is one bar at most"
        )

    def add(self, found: Terms, node: Node) -> Terms:
        """Terms with those of a sum added or removed."""
        found = dict(found)
        for sign, part in _summands(node):
            zero = isinstance(part, Number) and part.value == 0
            more = _distinct([INTERCEPT]) if zero else self.expand(part)
            if (sign == "+") != zero:
                _include(found, more.values())
            else:
                for key in more:
                    found.pop(key, None)
        return found

    def multiply(self, sign: str, left: Terms, right: Terms) -> Terms:
        self.made += len(left) * len(right)
        if self.made > MOST_PRODUCTS:
            raise UsageError("its products have too many terms; multiply fewer columns")
        if sign == "/":
            common = INTERCEPT
            for term in left.values():
                common *= term
            return _distinct((*left.values(), *(common * term for term in right.values())))
        products = (a * b for a in left.values() for b in right.values())
        return _distinct(products if sign == ":" else chain(left.values(), right.values(), products))

    def power(self, base: Terms, exponent: Node) -> Terms:
        if not (
            isinstance(exponent, Number) and exponent.text.isdigit() and 1 <= exponent.value <= MOST_POWER
        ):
            raise UsageError(
                f"terms are raised to whole numbers from 1 to {MOST_POWER}, as in (a + b)^2; a power of numbers stands in I(…)"
            )
        found = base
        for _ in range(int(exponent.value) - 1):
            found = self.multiply(":", found, base)
        return found


def _summands(node: Node) -> Iterator[tuple[str, Node]]:
    """The parts of a sum with their signs."""
    match node:
        case Operation(("+" | "-", *_) as signs, (first, *rest)):
            yield from (*_summands(first), *zip(signs, rest, strict=True))
        case Signed(sign, part):
            yield sign, part
        case _:
            yield "+", node


def _distinct(terms: Iterable[Term]) -> Terms:
    found: Terms = {}
    _include(found, terms)
    return found


def _include(found: Terms, terms: Iterable[Term]) -> None:
    for term in terms:
        found.setdefault(term.key, term)
        if len(found) > MOST_TERMS:
            raise UsageError(f"there are more than {MOST_TERMS} terms; multiply fewer columns")
