"""Markdown whose lines fit a screen: paragraphs and items are wrapped, everything else stays as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 119

_ITEM = re.compile(r"^(\s*)(?:[-*+]|\d+\.)\s+")
_FIXED = re.compile(r"^\s*(?:\||#|<|>|!\[|\[[^\]]+\]:|---|===|\*\*\*$|```)")


def wrap(text: str) -> str:
    r"""Wrap paragraphs and list items that have a long line; tables, code, headings and front matter are left alone.

    >>> print(wrap("- " + "word " * 30 + "\n| a | table |"))
    - word word word word word word word word word word word word word word word word word word word word word word word
      word word word word word word word
    | a | table |
    """
    return "\n".join(line for block in _blocks(text) for line in block)


def _blocks(text: str) -> Iterator[list[str]]:
    """Paragraphs and items, wrapped, and between them the lines that must stay as they are."""
    block: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        code = fence or fenced or (not block and line.startswith("    ") and not _ITEM.match(line))
        fixed = code or not line.strip() or _FIXED.match(line) is not None
        if fixed or _ITEM.match(line):
            yield _wrapped(block)
            block = []
        if fixed:
            yield [line]
        else:
            block.append(line)
        fenced ^= fence
    yield _wrapped(block)


def _wrapped(block: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in block) or any(line.endswith("  ") for line in block):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else re.match(r"\s*", block[0])[0]  # type: ignore[index]
    words = " ".join([block[0][len(first) :], *(line.strip() for line in block[1:])])
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
