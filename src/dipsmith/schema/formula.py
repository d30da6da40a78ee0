"""Which attributes an analysis uses: the names in a regression formula, and which of them are multiplied.

A formula is read as analysts write it for statsmodels, patsy, formulaic, fixest or R: a response, a
tilde, terms joined by ``+``, fixed effects after a bar. Nothing is evaluated. Functions
(``log``, ``np.log``, ``I``, ``C``, ``poly``) are seen through; a name that is not a word is written
```hours-per-week``` or ``Q("hours-per-week")``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dipsmith.errors import UsageError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<ticked>`[^`]+`)
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<sign>\*\*|==|!=|<=|>=|[-+*/:|~^%(),=<>\[\]{}&!])
    )""",
    re.VERBOSE,
)

_CONSTANTS = frozenset({"True", "False", "None", "np.pi", "np.nan"})


@dataclass(frozen=True)
class Formula:
    """The attributes of an analysis.

    Attributes
    ----------
    response
        The names left of the tilde.
    terms
        For every term right of it the names that it multiplies (one name for a main effect).

    Examples
    --------
    >>> f = Formula.parse("log(pay) ~ sex*agency + I(age**2) | occupation")
    >>> f.attributes
    ('pay', 'sex', 'agency', 'age', 'occupation')
    >>> f.terms
    (('sex', 'agency'), ('age',), ('occupation',))
    """

    response: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]

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
        """Read a formula; UsageError when it has not exactly one tilde or an odd character."""
        tokens = list(_tokens(text))
        tildes = [i for i, (kind, value) in enumerate(tokens) if (kind, value) == ("sign", "~")]
        if len(tildes) != 1:
            raise UsageError(f"analysis '{text}' has {len(tildes)} tildes, expected one: response ~ terms")
        left, right = tokens[: tildes[0]], tokens[tildes[0] + 1 :]
        terms: list[tuple[str, ...]] = []
        for part in _split(right):
            names = tuple(dict.fromkeys(_names(part)))
            multiplied = any(value in ("*", ":", "/", "^", "**") for value in _outer_signs(part))
            terms += [names] if multiplied else [(name,) for name in names]
        kept = tuple(dict.fromkeys(term for term in terms if term))
        return cls(tuple(dict.fromkeys(_names(left))), kept)


Token = tuple[str, str]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None or found.lastgroup is None:
            raise UsageError(f"analysis '{text}': '{stripped[at:].strip()[:1]}' is not part of a formula")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _names(tokens: list[Token]) -> Iterator[str]:
    for i, (kind, value) in enumerate(tokens):
        following = tokens[i + 1][1] if i + 1 < len(tokens) else ""
        quoted = kind == "text" and [v for _, v in tokens[max(0, i - 2) : i]] == ["Q", "("]
        if kind == "ticked" or quoted:
            yield value[1:-1]
        elif kind == "name" and following not in ("(", "=") and value not in _CONSTANTS:
            yield value


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Cut at +, − and | outside parentheses."""
    depth = 0
    part: list[Token] = []
    for kind, value in tokens:
        depth += value in "([{" if kind == "sign" else 0
        depth -= value in ")]}" if kind == "sign" else 0
        if depth == 0 and kind == "sign" and value in "+-|":
            yield part
            part = []
        else:
            part.append((kind, value))
    yield part


def _outer_signs(tokens: list[Token]) -> Iterator[str]:
    """The signs of a term that stand in no function call (plain parentheses are looked into)."""
    calls: list[bool] = []
    for i, (kind, value) in enumerate(tokens):
        if kind != "sign":
            continue
        if value == "(":
            calls.append(i > 0 and tokens[i - 1][0] == "name")
        elif value == ")":
            if calls:
                calls.pop()
        elif not any(calls):
            yield value
