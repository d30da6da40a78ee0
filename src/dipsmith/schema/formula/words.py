"""The words of a formula: columns, numbers, texts, names and signs.

This is the only place where a formula's characters are looked at. A quoted text and a name in backticks are taken
as they stand, without escapes; what is in them is a value from here on, never syntax again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dipsmith.errors import UsageError

MOST_CHARACTERS: Final = 10_000

_SHOWN: Final = 200

_WORD: Final = re.compile(
    r"""\s*(?:
        (?P<column>`[^`]+`)
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<sign>\*\*|==|!=|<=|>=|[-+*/:|~^%(),=<>&])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Word:
    """One word."""

    kind: str  # column (a name in backticks), text, number, name, sign; "end" after the last word
    value: str  # without quotes

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of some signs."""
        return self.kind == "sign" and self.value in signs


END: Final = Word("end", "")


def split(text: str) -> tuple[Word, ...]:
    """Cut a formula into words; UsageError for a character that no formula has.

    >>> [word.value for word in split("log(`pay rate`) ~ age^2")]
    ['log', '(', 'pay rate', ')', '~', 'age', '**', '2']
    """
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"analysis '{abridge(text)}' has {len(text):,} characters, at most {MOST_CHARACTERS:,} are read; "
            "use fewer terms"
        )
    text, at = text.rstrip(), 0
    words: list[Word] = []
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None or found.lastgroup is None:
            raise UsageError(
                f"analysis '{abridge(text)}': '{text[at:].strip()[:1]}' is not part of a formula; "
                'write other names as `name` or Q("name")'
            )
        kind, value, at = found.lastgroup, found[found.lastgroup], found.end()
        if kind in ("column", "text"):
            value = value[1:-1]
        words.append(Word(kind, "**" if (kind, value) == ("sign", "^") else value))
    return tuple(words)


def abridge(text: str) -> str:
    """A formula, or a name, for a message: one line, and not too long.

    >>> abridge("pay ~ age")
    'pay ~ age'
    """
    start = text[: 2 * _SHOWN]
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= _SHOWN and start == text else f"{line[:_SHOWN]}…"
