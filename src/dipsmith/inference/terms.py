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
from typing import Final

from dipsmith.errors import UsageError
from dipsmith.schema.formula.tree import Call, Column, Group, Node, Number, Operation, Signed, written

MOST_TERMS: Final = 300
MOST_FACTORS: Final = 8
MOST_POWER: Final = 9

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
    found = _added(_distinct([INTERCEPT]), node)
    return tuple(sorted(found.values(), key=lambda term: len(term.factors)))


def _expanded(node: Node) -> Terms:
    match node:
        case Column() | Call():
            return _distinct([Term((node,))])
        case Number(value) if value == 1:
            return _distinct([INTERCEPT])
        case Number() | Signed():
            raise UsageError(
                f"'{written(node)}' is no term; the only numbers are 0 and 1, for the intercept, and arithmetic stands in I(…)"
            )
        case Group(part):
            return _added({}, part)
        case Operation(signs, parts) if signs[0] == "**":
            return _raised(_expanded(parts[0]), parts[1])
        case Operation(signs, parts) if signs[0] in ("*", "/", ":"):
            found = _expanded(parts[0])
            for sign, part in zip(signs, parts[1:], strict=True):
                found = _multiplied(sign, found, _expanded(part))
            return found
    raise UsageError(
        f"'{written(node)}' is no term; after the bar stand fixed effects, and there is one bar at most"
    )


def _added(found: Terms, node: Node) -> Terms:
    """Terms with those of a sum added or removed."""
    for sign, part in _summands(node):
        zero = isinstance(part, Number) and part.value == 0
        more = _distinct([INTERCEPT]) if zero else _expanded(part)
        if (sign == "+") != zero:
            found = _distinct((*found.values(), *more.values()))
        else:
            found = {key: term for key, term in found.items() if key not in more}
    return found


def _summands(node: Node) -> Iterator[tuple[str, Node]]:
    """The parts of a sum with their signs."""
    signs, parts = ((), (node,))
    if isinstance(node, Operation) and node.signs[0] in ("+", "-"):
        signs, parts = node.signs, node.parts
    first = parts[0]
    yield (first.sign, first.part) if isinstance(first, Signed) else ("+", first)
    yield from zip(signs, parts[1:], strict=True)


def _multiplied(sign: str, left: Terms, right: Terms) -> Terms:
    if sign == "/":
        common = INTERCEPT
        for term in left.values():
            common *= term
        return _distinct((*left.values(), *(common * term for term in right.values())))
    products = (a * b for a in left.values() for b in right.values())
    return _distinct(products if sign == ":" else _chain(left.values(), right.values(), products))


def _raised(base: Terms, exponent: Node) -> Terms:
    if not (isinstance(exponent, Number) and exponent.text.isdigit() and 1 <= exponent.value <= MOST_POWER):
        raise UsageError(
            f"terms are raised to whole numbers from 1 to {MOST_POWER}: (a + b)^2; a power of numbers stands in I(…)"
        )
    found = base
    for _ in range(int(exponent.value) - 1):
        found = _multiplied(":", found, base)
    return found


def _distinct(terms: Iterable[Term]) -> Terms:
    found: Terms = {}
    for term in terms:
        found.setdefault(term.key, term)
        if len(found) > MOST_TERMS:
            raise UsageError(f"there are more than {MOST_TERMS} terms; multiply fewer columns")
    return found


def _chain(*several: Iterable[Term]) -> Iterator[Term]:
    for terms in several:
        yield from terms
