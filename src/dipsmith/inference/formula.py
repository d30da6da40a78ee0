"""A regression formula, taken apart: response, terms, fixed effects.

Formulas are written as for statsmodels, formulaic or fixest: ``log(pay) ~ sex + age + I(age**2) | agency``. One
parser reads them (`dipsmith.schema.formula.parser`); here every name in the tree is checked to be a column, every
call to be one of a few functions. What comes out is expanded (`terms`) and computed (`arithmetic`, `design`) by
walking the tree. A formula that arrives over a network, on columns that a stranger has named, can do nothing but
arithmetic.

Functions that are computed from the data (``scale``, ``poly``, splines) are not among them: they would mean
another thing in every synthetic set, and their coefficients could not be combined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dipsmith.errors import UsageError
from dipsmith.inference.terms import Term, expand
from dipsmith.schema.formula.parser import Parsed, parse
from dipsmith.schema.formula.tree import FUNCTIONS, Call, Column, Node, Operation, columns, nodes, written
from dipsmith.schema.formula.words import shown


@dataclass(frozen=True)
class Analysed:
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
    >>> a = analysed("log(pay) ~ sex + I(age^2) | agency^year", ["pay", "sex", "age", "agency", "year"])
    >>> [str(term) for term in a.terms], a.fixed
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
    def plain(self) -> str | None:
        """The response's column where the left side is nothing else."""
        return self.response.name if isinstance(self.response, Column) else None


def analysed(text: str, known: Collection[str]) -> Analysed:
    """Take a formula apart and check every name in it; `known` are the columns."""
    parsed = parse(text)
    if len(parsed.sections) > 2:
        raise UsageError(
            f"formula '{shown(text)}' has {len(parsed.sections) - 1} bars, expected at most one: terms | fixed effects"
        )
    inside = (parsed.response, parsed.sections[0])
    whole = (parsed.response, *parsed.sections)
    for node in (node for part in whole for node in nodes(part)):
        _check(parsed, node, known)
    try:
        terms = expand(parsed.sections[0])
    except UsageError as error:
        raise UsageError(f"formula '{shown(text)}': {error}") from None
    fixed = tuple(_effects(parsed, parsed.sections[1])) if len(parsed.sections) == 2 else ()
    return Analysed(
        text=" ".join(text.split()),
        response=parsed.response,
        terms=terms,
        fixed=fixed,
        columns=_named(whole),
        inside=_named(inside),
        factors=tuple(dict.fromkeys(_made_categories(inside))),
    )


def category_of(node: Node) -> str | None:
    """The column of a factor that is a column, or C() or I() of one."""
    while isinstance(node, Call) and node.function in ("C", "I"):
        node = node.arguments[0]
    return node.name if isinstance(node, Column) else None


def _named(parts: Collection[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in columns(part)))


def _made_categories(parts: Collection[Node]) -> Iterator[str]:
    for node in (node for part in parts for node in nodes(part)):
        if isinstance(node, Call) and node.function == "C":
            name = category_of(node)
            if name is None:
                raise UsageError(f"'{shown(written(node))}': C takes one column; use I(…) for a comparison")
            yield name


def _check(parsed: Parsed, node: Node, known: Collection[str]) -> None:
    if isinstance(node, Column) and node.name not in known:
        some = ", ".join(shown(name) for name in sorted(known)[:20])
        raise UsageError(
            f"formula '{shown(parsed.text)}' names '{shown(node.name)}', which is no column; there are: {some}"
        )
    if isinstance(node, Call):
        if node.function not in FUNCTIONS:
            allowed = ", ".join(FUNCTIONS)
            raise UsageError(
                f"formula '{shown(parsed.text)}' calls '{shown(node.function)}'; it may call {allowed}"
            )
        if len(node.arguments) != 1 or node.settings:
            raise UsageError(
                f"formula '{shown(parsed.text)}': '{shown(written(node))}' is not a function of one thing, as all are"
            )


def _effects(parsed: Parsed, section: Node) -> Iterator[tuple[str, ...]]:
    """Fixed effects: columns joined by +, combinations of columns by ^ or :."""
    added = isinstance(section, Operation) and set(section.signs) == {"+"}
    for part in section.parts if added and isinstance(section, Operation) else (section,):
        yield tuple(_combined(parsed, part))


def _combined(parsed: Parsed, node: Node) -> Iterator[str]:
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Operation) and node.signs[0] in (":", "**"):
        for part in node.parts:
            yield from _combined(parsed, part)
    else:
        raise UsageError(
            f"formula '{shown(parsed.text)}': fixed effects are columns, joined by + or combined by ^; "
            f"'{shown(written(node))}' is neither"
        )
