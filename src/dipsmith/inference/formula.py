"""A regression formula, taken apart: response, terms, fixed effects.

Formulas are written as for statsmodels, formulaic or fixest: ``log(pay) ~ sex + age + I(age**2) | agency``.
Terms are evaluated by formulaic, and formulaic evaluates Python; so a formula is read word by word first,
and refused unless every word is a column, a number, a text or one of a few functions. A formula that
arrives over a network can then do nothing but arithmetic.

Functions that are computed from the data (``scale``, ``poly``, splines) are not among them: they would mean
another thing in every synthetic set, and their coefficients could not be combined.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Final

from dipsmith.errors import UsageError
from dipsmith.schema.formula import Formula

FUNCTIONS: Final = ("C", "I", "Q", "abs", "exp", "log", "log10", "log1p", "log2", "sqrt")
"""What a formula may call."""

_WORD = re.compile(
    r"""\s*(?:
        (?P<ticked>`[^`]+`)
      | (?P<text>"[^"\\]*"|'[^'\\]*')
      | (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<sign>\*\*|==|!=|<=|>=|[-+*/:|~^%(),<>&])
    )""",
    re.VERBOSE,
)

Word = tuple[str, str]


@dataclass(frozen=True)
class Analysed:
    """A formula in parts, ready for formulaic.

    Attributes
    ----------
    text
        The formula as it was written.
    response, terms
        Left side and right side before the bar.
    fixed
        The fixed effects after the bar: for each the columns whose combinations it numbers.
    columns
        Every column that it names, in order.
    factors
        Columns that it asks to be taken as categories, by C().
    plain
        The response's column where the left side is nothing else.

    Examples
    --------
    >>> a = analysed("log(pay) ~ sex + I(age^2) | agency^year", ["pay", "sex", "age", "agency", "year"])
    >>> a.response, a.terms, a.fixed
    ('log(pay)', 'sex + I(age ** 2)', (('agency', 'year'),))
    """

    text: str
    response: str
    terms: str
    fixed: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    factors: tuple[str, ...]
    plain: str | None


def analysed(text: str, known: Collection[str]) -> Analysed:
    """Take a formula apart and check every word of it; `known` are the columns."""
    Formula.parse(text)
    words = _resolved(text, known)
    tilde = words.index(("sign", "~"))
    left, right = words[:tilde], words[tilde + 1 :]
    bars = [i for i, word in enumerate(right) if word == ("sign", "|")]
    if len(bars) > 1:
        raise UsageError(
            f"formula '{text}' has {len(bars)} bars, expected at most one: terms | fixed effects"
        )
    terms, fixed = (right[: bars[0]], right[bars[0] + 1 :]) if bars else (right, [])
    if not left or not terms or (bars and not fixed):
        raise UsageError(
            f"formula '{text}' lacks a part; expected: response ~ terms, or response ~ terms | fixed effects"
        )
    if ("sign", "|") in left:
        raise UsageError(
            f"formula '{text}' has a bar left of the tilde; expected: response ~ terms | fixed effects"
        )
    factors = [
        words[i + 2][1]
        for i in range(len(words) - 2)
        if words[i] == ("name", "C") and words[i + 1] == ("sign", "(") and words[i + 2][0] == "column"
    ]
    return Analysed(
        text=" ".join(text.split()),
        response=_joined(left),
        terms=_joined(terms),
        fixed=tuple(_fixed(text, fixed)),
        columns=tuple(dict.fromkeys(value for kind, value in words if kind == "column")),
        factors=tuple(dict.fromkeys(factors)),
        plain=left[0][1] if len(left) == 1 and left[0][0] == "column" else None,
    )


def _resolved(text: str, known: Collection[str]) -> list[Word]:
    """The words of a formula, with every name known to be a column or an allowed function."""
    words = list(_words(text))
    found: list[Word] = []
    i = 0
    while i < len(words):
        kind, value = words[i]
        called = i + 1 < len(words) and words[i + 1] == ("sign", "(")
        quoted = [w[0] for w in words[i + 1 : i + 4]]
        if (kind, value) == ("name", "Q") and called and quoted == ["sign", "text", "sign"]:
            found.append(("column", _column(text, words[i + 2][1][1:-1], known)))
            i += 4
            continue
        if kind == "ticked":
            found.append(("column", _column(text, value[1:-1], known)))
        elif kind == "name" and called:
            bare = value.removeprefix("np.")
            if bare not in FUNCTIONS or bare == "Q":
                allowed = ", ".join(FUNCTIONS)
                raise UsageError(f"formula '{text}' calls '{value}'; it may call {allowed}")
            found.append(("name", bare))
        elif kind == "name" and value in ("True", "False"):
            found.append(("number", value))
        elif kind == "name":
            found.append(("column", _column(text, value, known)))
        else:
            found.append((kind, "**" if value == "^" else value))
        i += 1
    return found


def _words(text: str) -> Iterator[Word]:
    at, whole = 0, text.rstrip()
    while at < len(whole):
        word = _WORD.match(whole, at)
        if word is None or word.lastgroup is None:
            odd = whole[at:].strip()[:1]
            raise UsageError(f"formula '{text}': '{odd}' is not part of a formula")
        yield word.lastgroup, word[word.lastgroup]
        at = word.end()


def _column(text: str, name: str, known: Collection[str]) -> str:
    if name not in known:
        some = ", ".join(sorted(known)[:20])
        raise UsageError(f"formula '{text}' names '{name}', which is no column; there are: {some}")
    return name


def _fixed(text: str, words: list[Word]) -> Iterator[tuple[str, ...]]:
    """Fixed effects: columns joined by +, combinations of columns by ^ or :."""
    if not words:
        return
    part: list[str] = []
    for kind, value in [*words, ("sign", "+")]:
        if kind == "column":
            part.append(value)
        elif kind == "sign" and value == "+":
            if not part:
                raise UsageError(f"formula '{text}': a fixed effect is empty; write … | agency + occupation")
            yield tuple(part)
            part = []
        elif (kind, value) not in (("sign", "**"), ("sign", ":")) or not part:
            raise UsageError(
                f"formula '{text}': fixed effects are columns, joined by + or combined by ^; '{value}' is neither"
            )


def _joined(words: list[Word]) -> str:
    parts = []
    for i, (kind, value) in enumerate(words):
        if kind == "column":
            plain = value.isidentifier() and not iskeyword(value) and value not in FUNCTIONS
            parts.append(value if plain else f"`{value}`")
        else:
            parts.append(value)
        follows = words[i + 1][1] if i + 1 < len(words) and words[i + 1][0] == "sign" else ""
        tight = (kind == "name" and follows == "(") or (kind, value) == ("sign", "(") or follows in (")", ",")
        if not tight:
            parts.append(" ")
    return "".join(parts).strip()
