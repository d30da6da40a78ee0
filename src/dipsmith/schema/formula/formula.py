"""Which attributes an analysis uses: the names in a regression formula, and which of them are multiplied.

A formula is read as analysts write it for statsmodels, patsy, formulaic, fixest or R: a response, a
tilde, terms joined by ``+``, fixed effects after a bar. Nothing is evaluated. Functions
(``log``, ``np.log``, ``I``, ``C``, ``poly``) are seen through; a name that is not a word is written
```hours-per-week``` or ``Q("hours-per-week")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import Group, Node, Operation, SignedTerm, columns


@dataclass(frozen=True)
class Formula:
    """The attributes of an analysis.

    >>> f = Formula.parse("log(pay) ~ sex*agency + I(age**2) | occupation")
    >>> f.attributes
    ('pay', 'sex', 'agency', 'age', 'occupation')
    >>> f.terms
    (('sex', 'agency'), ('age',), ('occupation',))
    """

    response: tuple[str, ...]  # the names left of the tilde
    terms: tuple[tuple[str, ...], ...]  # for every term right of it the names that it multiplies: one for a main effect

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every name once, in order."""
        return tuple(dict.fromkeys((*self.response, *(n for term in self.terms for n in term))))

    @property
    def products(self) -> tuple[tuple[str, ...], ...]:
        """The terms that multiply several attributes."""
        return tuple(term for term in self.terms if len(term) > 1)

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read a formula; UsageError where it departs from the grammar (`dipsmith.schema.formula.parser`)."""
        parsed = parse(text)
        terms: list[tuple[str, ...]] = []
        for part in (part for section in parsed.sections for part in _summands(section)):
            names = columns(part)
            terms += [names] if isinstance(part, Operation) else [(name,) for name in names]
        return cls(columns(parsed.response), tuple(dict.fromkeys(term for term in terms if term)))


def _summands(node: Node) -> Iterator[Node]:
    """The parts of a sum, also of sums in parentheses."""
    if isinstance(node, Group | SignedTerm):
        yield from _summands(node.part)
    elif isinstance(node, Operation) and node.signs[0] in ("+", "-", "|"):
        for part in node.parts:
            yield from _summands(part)
    else:
        yield node
