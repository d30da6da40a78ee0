"""A regression formula in parts: response, terms, fixed effects.

Formulas are written as for statsmodels, formulaic or fixest: ``log(pay) ~ sex + age + I(age**2) | agency``. One
parser reads them (`dipsmith.schema.formula.parser`); here every name in the tree is checked to be a column, every
call to be one of a few functions. What comes out is expanded (`terms`) and computed (`arithmetic`, `matrix`) by
walking the tree. A formula that arrives over a network, on columns that a stranger has named, can do nothing but
arithmetic.

Functions that are computed from the data (``scale``, ``poly``, splines) are not among them: they would mean
another thing in every synthetic set, and their coefficients could not be combined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from dipsmith.errors import UsageError
from dipsmith.inference.terms import Term, expand
from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import FUNCTIONS, Call, Column, Node, Operation, nodes, written
from dipsmith.schema.formula.words import shown


@dataclass(frozen=True)
class RegressionFormula:
    """A formula in parts.

    Attributes
    ----------
    text
        The formula as it was written.
    response
        Left side, as a tree.
    terms
        Right side before the bar, expanded.
    fixed
        The fixed effects after the bar: for each the columns whose combinations it numbers.
    columns
        Every column that it names, in order.
    inside
        Those of response and terms.
    factors
        Columns that it asks to be taken as categories, by C().

    Examples
    --------
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
                f"formula '{shown(text)}' has {len(parsed.sections) - 1} bars, expected at most one: terms | fixed effects"
            )
        inside = [n for part in (parsed.response, parsed.sections[0]) for n in nodes(part)]
        whole = [*inside, *(n for part in parsed.sections[1:] for n in nodes(part))]
        for node in whole:
            _check(text, node, known)
        try:
            terms = expand(parsed.sections[0])
        except UsageError as error:
            raise UsageError(f"formula '{shown(text)}': {error}") from None
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
                raise UsageError(f"'{shown(written(node))}': C takes one column; use I(…) for a comparison")
            yield name


def _check(text: str, node: Node, known: Collection[str]) -> None:
    if isinstance(node, Column) and node.name not in known:
        some = ", ".join(shown(name) for name in sorted(known)[:20])
        raise UsageError(
            f"formula '{shown(text)}' names '{shown(node.name)}', which is no column; there are: {some}"
        )
    if isinstance(node, Call):
        if node.function not in FUNCTIONS:
            allowed = ", ".join(FUNCTIONS)
            raise UsageError(f"formula '{shown(text)}' calls '{shown(node.function)}'; it may call {allowed}")
        if len(node.arguments) != 1 or node.settings:
            raise UsageError(
                f"formula '{shown(text)}': '{shown(written(node))}' is not a function of one thing, as all are"
            )


def _effects(text: str, section: Node) -> Iterator[tuple[str, ...]]:
    """Fixed effects: columns joined by +, combinations of columns by ^ or :."""
    match section:
        case Operation(signs, parts) if set(signs) == {"+"}:
            yield from (tuple(_combined(text, part)) for part in parts)
        case _:
            yield tuple(_combined(text, section))


def _combined(text: str, node: Node) -> Iterator[str]:
    match node:
        case Column(name):
            yield name
        case Operation((":" | "**", *_), parts):
            for part in parts:
                yield from _combined(text, part)
        case _:
            raise UsageError(
                f"formula '{shown(text)}': fixed effects are columns, joined by + or combined by ^; "
                f"'{shown(written(node))}' is neither"
            )
