"""A regression formula in parts: response, terms, fixed effects.

Formulas are written as for statsmodels, formulaic or fixest: ``log(pay) ~ sex + age + I(age**2) | agency``. One
parser reads them (`dipsmith.schema.formula.parser`); here every name in the tree is checked to be a column, every
call to be one of a few functions, and sums, products and powers are expanded to terms. What comes out is computed
(`arithmetic`, `matrix`) by walking the tree. A formula that arrives over a network, on columns that a stranger has
named, can do nothing but arithmetic.

The notation is Wilkinson and Rogers' (1973, "Symbolic description of factorial models for analysis of variance"), as
R, patsy and formulaic read it: ``a*b`` is ``a + b + a:b``, ``a/b`` is ``a + a:b``, ``(a + b)^2`` is ``a + b + a:b``;
``- x`` removes a term. An intercept is there unless ``- 1`` or ``+ 0`` removes it. Terms are sorted by their number of
factors; how many come out is bounded, and so is the work: the bound is looked at while terms are made.

Functions that are computed from the data (``scale``, ``poly``, splines) are not among them: they would mean another
thing in every synthetic set, and their coefficients could not be combined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import mul
from typing import Final

from dipsmith.errors import UsageError
from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import (
    FUNCTIONS,
    Call,
    Column,
    Group,
    Node,
    Number,
    Operation,
    SignedTerm,
    nodes,
    spell,
)
from dipsmith.schema.formula.words import abridge

MOST_TERMS: Final = 300
MOST_FACTORS: Final = 8
MOST_POWER: Final = 9
MOST_PRODUCTS: Final = 50_000

Factor = Column | Call


@dataclass(frozen=True, eq=False)
class Term:
    """A product of factors, the same in any order; of none for the intercept."""

    factors: tuple[Factor, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and set(self.factors) == set(other.factors)

    def __hash__(self) -> int:
        return hash(frozenset(self.factors))

    def __mul__(self, other: Term) -> Term:
        factors = tuple(dict.fromkeys((*self.factors, *other.factors)))
        if len(factors) > MOST_FACTORS:
            raise UsageError(f"a term multiplies {len(factors)} factors, at most {MOST_FACTORS} are possible")
        return Term(factors)

    def __str__(self) -> str:
        return ":".join(map(name_of, self.factors)) or "1"


INTERCEPT: Final = Term(())

Terms = dict[Term, None]
"""Terms, each once, in order."""


def name_of(factor: Factor) -> str:
    """What a factor is called in print."""
    return factor.name if isinstance(factor, Column) else spell(factor)


def expand(node: Node) -> tuple[Term, ...]:
    """The terms of the right side of a formula, the intercept among them.

    >>> from dipsmith.schema.formula.parser import parse
    >>> [str(term) for term in expand(parse("y ~ a*b + I(a^2)").sections[0])]
    ['1', 'a', 'b', 'I(a ** 2)', 'a:b']
    """
    found = _Expansion().add([INTERCEPT], node)
    return tuple(sorted(found, key=lambda term: len(term.factors)))


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
                return self.add([], part)
            case Operation(("**",), (base, exponent)):
                return self.power(self.expand(base), exponent)
            case Operation(("*" | "/" | ":", *_) as signs, (first, *rest)):
                found = self.expand(first)
                for sign, part in zip(signs, rest, strict=True):
                    found = self.multiply(sign, found, self.expand(part))
                return found
        raise UsageError(
            f"'{abridge(spell(node))}' is no term; the only numbers are 0 and 1, for the intercept, arithmetic stands in "
            "I(…), and there is one bar at most"
        )

    def add(self, first: Iterable[Term], node: Node) -> Terms:
        """Terms with those of a sum added or removed."""
        found = _distinct(first)
        for sign, part in _summands(node):
            zero = isinstance(part, Number) and part.value == 0
            more = _distinct([INTERCEPT]) if zero else self.expand(part)
            if (sign == "+") != zero:
                _distinct(more, found)
            else:
                for term in more:
                    found.pop(term, None)
        return found

    def multiply(self, sign: str, left: Terms, right: Terms) -> Terms:
        self.made += len(left) * len(right)
        if self.made > MOST_PRODUCTS:
            raise UsageError("its products have too many terms; multiply fewer columns")
        if sign == "/":
            common = reduce(mul, left, INTERCEPT)
            return _distinct(chain(left, (common * term for term in right)))
        products = (a * b for a in left for b in right)
        return _distinct(products if sign == ":" else chain(left, right, products))

    def power(self, base: Terms, exponent: Node) -> Terms:
        if not (isinstance(exponent, Number) and exponent.text.isdigit() and 1 <= exponent.value <= MOST_POWER):
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
        case SignedTerm(sign, part):
            yield sign, part
        case _:
            yield "+", node


def _distinct(terms: Iterable[Term], found: Terms | None = None) -> Terms:
    """Terms each once, after those that were found before."""
    found = {} if found is None else found
    for term in terms:
        found.setdefault(term)
        if len(found) > MOST_TERMS:
            raise UsageError(f"there are more than {MOST_TERMS} terms; multiply fewer columns")
    return found


@dataclass(frozen=True)
class RegressionFormula:
    """A formula in parts.

    The left side is a tree, the right side before the bar a tuple of terms; each fixed effect after the bar is the
    columns whose combinations it numbers. `columns` are all that it names, in order, `inside` those of response and
    terms, `factors` those that it asks to be taken as categories, by C().

    >>> columns = ["pay", "sex", "age", "agency", "year"]
    >>> f = RegressionFormula.parse("log(pay) ~ sex + I(age^2) | agency^year", columns)
    >>> [str(term) for term in f.terms], f.fixed
    (['1', 'sex', 'I(age ** 2)'], (('agency', 'year'),))
    """

    text: str
    response: Node
    terms: tuple[Term, ...]
    fixed: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    inside: tuple[str, ...]
    factors: tuple[str, ...]

    @property
    def response_column(self) -> str | None:
        """The response's column where the left side is nothing else."""
        return self.response.name if isinstance(self.response, Column) else None

    @classmethod
    def parse(cls, text: str, known: Collection[str]) -> RegressionFormula:
        """Read a formula and check every name in it; `known` are the columns."""
        parsed = parse(text)
        if len(parsed.sections) > 2:
            raise UsageError(
                f"formula '{abridge(text)}' has {len(parsed.sections) - 1} bars, expected at most one: terms | fixed effects"
            )
        inside = [n for part in (parsed.response, parsed.sections[0]) for n in nodes(part)]
        whole = [*inside, *(n for part in parsed.sections[1:] for n in nodes(part))]
        for node in whole:
            _check(text, node, known)
        try:
            terms = expand(parsed.sections[0])
        except UsageError as error:
            raise UsageError(f"formula '{abridge(text)}': {error}") from None
        return cls(
            text=" ".join(text.split()),
            response=parsed.response,
            terms=terms,
            fixed=tuple(e for part in parsed.sections[1:] for e in _effects(text, part)),
            columns=tuple(dict.fromkeys(n.name for n in whole if isinstance(n, Column))),
            inside=tuple(dict.fromkeys(n.name for n in inside if isinstance(n, Column))),
            factors=tuple(dict.fromkeys(_made_categories(inside))),
        )


def category_of(node: Node) -> str | None:
    """The column of a factor that is a column, or C() or I() of one."""
    while isinstance(node, Call) and node.function in ("C", "I"):
        node = node.arguments[0]
    return node.name if isinstance(node, Column) else None


def _made_categories(inside: Iterable[Node]) -> Iterator[str]:
    for node in inside:
        if isinstance(node, Call) and node.function == "C":
            name = category_of(node)
            if name is None:
                raise UsageError(f"'{abridge(spell(node))}': C takes one column; use I(…) for a comparison")
            yield name


def _check(text: str, node: Node, known: Collection[str]) -> None:
    if isinstance(node, Column) and node.name not in known:
        some = ", ".join(abridge(name) for name in sorted(known)[:20])
        # education-num reads as education minus num
        whole = next((name for name in sorted(known) if "-" in name and node.name in name.split("-")), None)
        hint = "" if whole is None else f"; a name with a hyphen is written in backticks: `{abridge(whole)}`"
        raise UsageError(
            f"formula '{abridge(text)}' names '{abridge(node.name)}', which is no column; there are: {some}{hint}"
        )
    if isinstance(node, Call):
        if node.function not in FUNCTIONS:
            allowed = ", ".join(FUNCTIONS)
            raise UsageError(f"formula '{abridge(text)}' calls '{abridge(node.function)}'; it may call {allowed}")
        if len(node.arguments) != 1 or node.settings:
            raise UsageError(
                f"formula '{abridge(text)}': '{abridge(spell(node))}' is not a function of one thing, as all are"
            )


def _effects(text: str, section: Node) -> Iterator[tuple[str, ...]]:
    """Fixed effects: columns joined by +, combinations of columns by ^ or :."""
    match section:
        case Operation(signs, parts) if set(signs) == {"+"}:
            yield from (tuple(_columns_joined(text, part)) for part in parts)
        case _:
            yield tuple(_columns_joined(text, section))


def _columns_joined(text: str, node: Node) -> Iterator[str]:
    match node:
        case Column(name):
            yield name
        case Operation((":" | "**", *_), parts):
            for part in parts:
                yield from _columns_joined(text, part)
        case _:
            raise UsageError(
                f"formula '{abridge(text)}': fixed effects are columns, joined by + or combined by ^; "
                f"'{abridge(spell(node))}' is neither"
            )
