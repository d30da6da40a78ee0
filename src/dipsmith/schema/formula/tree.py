"""A formula as a tree: columns, numbers, texts, calls and signs, as they were written.

A tree is only ever walked. Column names are values in it, whatever characters they have; nothing here or above
turns a tree, or a part of one, back into a program. `spell` is for people.

Operations of one rank stand side by side (``a + b - c`` is one node), so that a tree is as deep as a formula is
nested, and that is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Final

MATHEMATICS: Final = ("abs", "exp", "log", "log10", "log1p", "log2", "sqrt")
"""Functions of numbers."""

FUNCTIONS: Final = ("C", "I", "Q", *MATHEMATICS)
"""What a formula that is fitted may call."""

COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")

_RANKS: Final = {**dict.fromkeys(COMPARISONS, 1), "&": 2, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4, "**": 6}
_SIGNED, _ATOM = 5, 7


@dataclass(frozen=True)
class Column:
    """A column, by its name."""

    name: str


@dataclass(frozen=True)
class Number:
    """A number or constant, and how it is written."""

    value: float
    text: str


@dataclass(frozen=True)
class Text:
    """A text in quotes."""

    value: str


@dataclass(frozen=True)
class Call:
    """A function of some arguments; `settings` are given by name."""

    function: str
    arguments: tuple[Node, ...]
    settings: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True)
class SignedTerm:
    """Plus or minus something."""

    sign: str
    part: Node


@dataclass(frozen=True)
class Operation:
    """Parts joined by signs of one rank, from left to right: one sign less than parts."""

    signs: tuple[str, ...]
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Group:
    """Terms in parentheses."""

    part: Node


Node = Column | Number | Text | Call | SignedTerm | Operation | Group


def nodes(root: Node) -> Iterator[Node]:
    """Every node, in the order in which they are written; settings of calls are left out."""
    yield root
    match root:
        case Call(arguments=parts) | Operation(parts=parts):
            for part in parts:
                yield from nodes(part)
        case SignedTerm(part=part) | Group(part=part):
            yield from nodes(part)


def columns(root: Node) -> tuple[str, ...]:
    """Every column once, in order."""
    return tuple(dict.fromkeys(node.name for node in nodes(root) if isinstance(node, Column)))


def spell(node: Node, rank: int = 0) -> str:
    """Arithmetic as text, with single spaces; in parentheses when it binds more loosely than its place's `rank` demands.

    >>> age = Column("age")
    >>> spell(Call("I", (Operation(("**",), (age, Number(2, "2"))),)))
    'I(age ** 2)'
    """
    own, text = _ATOM, ""
    match node:
        case Column(name):
            text = quote(name)
        case Number():
            text = node.text
        case Text(value):
            text = f'"{value}"' if "'" in value else f"'{value}'"
        case Group(part):
            text = f"({spell(part)})"
        case Call():
            given = [spell(a) for a in node.arguments] + [f"{n}={spell(v)}" for n, v in node.settings]
            text = f"{node.function}({', '.join(given)})"
        case SignedTerm(sign, part):
            own, text = _SIGNED, f"{sign}{spell(part, _SIGNED)}"
        case Operation(signs, pieces):
            own = _RANKS.get(signs[0], 0)
            alone = signs[0] in COMPARISONS or signs[0] == "**"
            text = spell(pieces[0], own + alone)
            for sign, piece in zip(signs, pieces[1:], strict=True):
                text += f" {sign} {spell(piece, own if sign == '**' else own + 1)}"
    return f"({text})" if own < rank else text


def quote(name: str) -> str:
    """A column's name as it can be written in a formula.

    >>> quote("age"), quote("pay rate"), quote("a`b")
    ('age', '`pay rate`', 'Q("a`b")')
    """
    word = name.isidentifier() and re.fullmatch(r"\w+", name)
    if word and not iskeyword(name) and name not in FUNCTIONS:
        return name
    if "`" not in name:
        return f"`{name}`"
    return f"Q('{name}')" if '"' in name else f'Q("{name}")'
