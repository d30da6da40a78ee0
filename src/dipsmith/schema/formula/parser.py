"""The grammar of formulas: words to a tree, and the attributes that a formula uses.

::

    formula     response "~" right
    response    arithmetic
    right       sum { "|" sum }                      terms, then fixed effects
    sum         [ sign ] product { sign product }    a run of signs counts as one
    product     interaction { ("*" | "/") interaction }
    interaction power { ":" power }
    power       term [ "^" power ]                   "**" is the same as "^"
    term        column | number | call | "(" right ")"
    call        function "(" [ argument { "," argument } ] ")"
    argument    [ name "=" ] arithmetic
    arithmetic  both [ comparison both ]
    both        total { "&" total }
    total       multiple { ("+" | "-") multiple }
    multiple    signed { ("*" | "/" | "%") signed }
    signed      ("+" | "-") signed | raised
    raised      atom [ "^" signed ]
    atom        column | number | text | call | "(" arithmetic ")"
    column      name | "`" any name "`" | Q("any name")

A formula is as long as `MOST_CHARACTERS` and nested as deep as `MOST_NESTED` at most, and is read in one pass.

A formula is read as analysts write it for statsmodels, patsy, formulaic, fixest or R: a response, a
tilde, terms joined by ``+``, fixed effects after a bar. Nothing is evaluated. Functions
(``log``, ``np.log``, ``I``, ``C``, ``poly``) are seen through; a name that is not a word is written
```hours-per-week``` or ``Q("hours-per-week")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn

from dipsmith.errors import UsageError
from dipsmith.schema.formula.tree import (
    COMPARISONS,
    Call,
    Column,
    Group,
    Node,
    Number,
    Operation,
    SignedTerm,
    Text,
    columns,
)
from dipsmith.schema.formula.words import END, Word, abridge, split

MOST_NESTED: Final = 20

_CONSTANTS: Final = {"True": 1.0, "False": 0.0, "None": math.nan, "np.nan": math.nan, "np.pi": math.pi}

_ALLOWED: Final = (
    "terms are columns and functions joined by + - : * / ^ and parentheses; "
    "arithmetic and comparisons stand inside I(…) or another function"
)


@dataclass(frozen=True)
class Parsed:
    """A formula as a tree."""

    text: str  # as it was written
    response: Node  # arithmetic left of the tilde
    sections: tuple[Node, ...]  # what is right of it, cut at the bars: terms, then fixed effects


@lru_cache(maxsize=256)
def parse(text: str) -> Parsed:
    """Read a formula; UsageError, in one line, where it departs from the grammar.

    >>> parse("y ~ a | f").sections
    (Column(name='a'), Column(name='f'))
    """
    words = split(text)
    tildes = [i for i, word in enumerate(words) if word.is_sign("~")]
    if len(tildes) != 1:
        raise UsageError(f"analysis '{abridge(text)}' has {len(tildes)} tildes, expected one: response ~ terms")
    left, right = words[: tildes[0]], words[tildes[0] + 1 :]
    if not left or not right or right[0].is_sign("|") or right[-1].is_sign("|"):
        raise UsageError(
            f"analysis '{abridge(text)}' lacks a part; expected: response ~ terms, or response ~ terms | fixed effects"
        )
    response = _Reader(text, left).whole(_Reader.arithmetic)
    found = _Reader(text, right).whole(_Reader.right)
    return Parsed(text, response, found.parts if isinstance(found, Operation) and found.signs[0] == "|" else (found,))


@dataclass
class _Reader:
    """A place in a row of words; each verb reads one rule of the grammar from there."""

    text: str
    words: tuple[Word, ...]
    at: int = field(default=0, init=False)
    depth: int = field(default=0, init=False)

    def whole(self, rule: Callable[[_Reader], Node]) -> Node:
        found = rule(self)
        if self.next != END:
            self._refuse()
        return found

    @property
    def next(self) -> Word:
        return self.words[self.at] if self.at < len(self.words) else END

    def right(self) -> Node:
        return self._row(_Reader.sum, ("|",))

    def sum(self) -> Node:
        sign, signs = self._signs(), list[str]()
        first = self.product()
        found = [first if sign is None else SignedTerm(sign, first)]
        while (sign := self._signs()) is not None:
            signs.append(sign)
            found.append(self.product())
        return _join(signs, found)

    def product(self) -> Node:
        return self._row(_Reader.power, ("*", "/"), (":",))

    def power(self) -> Node:
        return self._raise_power(self.term(), _Reader.power)

    def term(self) -> Node:
        return Group(self._inside(_Reader.right)) if self._take("(") else self._value(texts=False)

    def arithmetic(self) -> Node:
        left = self.both()
        if not self.next.is_sign(*COMPARISONS):
            return left
        sign = self._step().value
        found = Operation((sign,), (left, self.both()))
        if self.next.is_sign(*COMPARISONS):
            self._refuse("compare two at a time: (a < b) & (b < c)")
        return found

    def both(self) -> Node:
        return self._row(_Reader.signed, ("&",), ("+", "-"), ("*", "/", "%"))

    def signed(self) -> Node:
        if self.next.is_sign("+", "-"):
            sign = self._step().value
            with self._deeper():
                return SignedTerm(sign, self.signed())
        return self._raise_power(self.atom(), _Reader.signed)

    def atom(self) -> Node:
        return self._inside(_Reader.arithmetic) if self._take("(") else self._value(texts=True)

    def _value(self, *, texts: bool) -> Node:
        word = self.next
        if word.kind == "text" and not texts:
            self._refuse("a text in quotes stands in a comparison; a column's name in Q(…)")
        if word.kind in ("sign", "end"):
            self._refuse()
        self._step()
        if word.kind == "text":
            return Text(word.value)
        if word.kind == "number":
            return _number(word.value)
        if word.kind == "name" and self._take("("):
            with self._deeper():
                return self._call(word.value.removeprefix("np."))
        if word.kind == "name" and word.value in _CONSTANTS:
            return Number(_CONSTANTS[word.value], word.value)
        return Column(word.value)

    def _call(self, function: str) -> Node:
        arguments: list[Node] = []
        settings: list[tuple[str, Node]] = []
        while not self.next.is_sign(")"):
            named = self.at + 1 < len(self.words) and self.words[self.at + 1].is_sign("=")
            if named and self.next.kind == "name":
                setting = self._step().value
                self._step()
                settings.append((setting, self.arithmetic()))
            else:
                arguments.append(self.arithmetic())
            if not self._take(","):
                break
        self._close()
        if function != "Q":
            return Call(function, tuple(arguments), tuple(settings))
        name = arguments[0] if len(arguments) == 1 and not settings else None
        if not isinstance(name, Text):
            self._refuse('Q takes a column\'s name in quotes: Q("pay rate")')
        return Column(name.value)

    def _row(self, rule: Callable[[_Reader], Node], *levels: tuple[str, ...]) -> Node:
        """What a rule reads, joined by signs; those of the first level bind most loosely."""
        if not levels:
            return rule(self)
        signs, found = list[str](), [self._row(rule, *levels[1:])]
        while self.next.is_sign(*levels[0]):
            signs.append(self._step().value)
            found.append(self._row(rule, *levels[1:]))
        return _join(signs, found)

    def _inside(self, rule: Callable[[_Reader], Node]) -> Node:
        with self._deeper():
            inner = rule(self)
        self._close()
        return inner

    def _raise_power(self, base: Node, rule: Callable[[_Reader], Node]) -> Node:
        if not self._take("**"):
            return base
        with self._deeper():
            return Operation(("**",), (base, rule(self)))

    def _signs(self) -> str | None:
        """A run of pluses and minuses, as one sign."""
        run = ""
        while self.next.is_sign("+", "-"):
            run += self._step().value
        return ("-" if run.count("-") % 2 else "+") if run else None

    def _step(self) -> Word:
        word = self.next
        self.at += 1
        return word

    def _take(self, sign: str) -> bool:
        taken = self.next.is_sign(sign)
        self.at += taken
        return taken

    def _close(self) -> None:
        if not self._take(")"):
            self._refuse()

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > MOST_NESTED:
            name = abridge(self.text)
            raise UsageError(f"analysis '{name}' is nested more than {MOST_NESTED} deep; write it more simply")
        yield
        self.depth -= 1

    def _refuse(self, why: str = _ALLOWED) -> NoReturn:
        where = f"at '{abridge(self.next.value)}'" if self.next != END else "at its end"
        raise UsageError(f"analysis '{abridge(self.text)}' cannot be read {where}: {why}")


def _join(signs: list[str], found: list[Node]) -> Node:
    return Operation(tuple(signs), tuple(found)) if signs else found[0]


def _number(text: str) -> Number:
    """A number, written in one way.

    >>> _number("02.50").text, _number("007").text
    ('2.5', '7')
    """
    value = float(text)
    if text.isdigit():
        return Number(value, text.lstrip("0") or "0")
    return Number(value, repr(value) if math.isfinite(value) else "1e309")


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
