"""A report as Markdown with its figures as SVG files beside it, for documentation that is kept under version control."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from dipsmith.errors import InputError
from dipsmith.report.canvas import standalone
from dipsmith.report.content import Block, Code, Facts, Heading, Link, Page, Table
from dipsmith.report.sections import number


def write(page: Page, path: Path, *, title: str, command: str, text: str | None) -> None:
    """Write (or overwrite) PATH and, in the folder of the same name, its figures and their numbers.

    The page names the command that makes it; `text` is what a person wrote about the study, put before the tables.
    """
    require_markdown(path)
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for figure in page.figures():
        if figure.svg:
            (folder / f"{figure.file}.svg").write_text(standalone(figure.svg), "utf-8")
        if figure.numbers is not None:
            (folder / f"{figure.file}.csv").write_text(figure.numbers.to_csv(), "utf-8")
    parts = [f"# {escape(title)}", *map(_paragraph, page.lead), _wrap(f"Made by {_code(command)}.")]
    parts += [text.strip()] if text else []
    for section in page.sections:
        parts += [f"## {escape(section.heading)}", *(_block(b, folder.name) for b in section.blocks)]
    path.write_text("\n\n".join(parts) + "\n", "utf-8")


def require_markdown(path: Path) -> None:
    """Refuse a page of another kind."""
    if path.suffix != ".md":
        raise InputError(f"a page is written as Markdown, got '{path.name}'; name it …md")


def _block(block: Block, folder: str) -> str:
    if isinstance(block, str):
        return _paragraph(block)
    if isinstance(block, Heading):
        return f"### {escape(block.text)}"
    if isinstance(block, Link):
        return _paragraph(f"[{escape(block.file)}]({block.file}): {escape(block.text)}")
    if isinstance(block, Code):
        fence = _fence(block.text, 3)
        return f"{fence}\n{block.text}\n{fence}"
    if isinstance(block, Facts):
        return "\n".join(["| | |", "|---|---|", *(f"| {escape(n)} | {escape(v)} |" for n, v in block.rows)])
    if isinstance(block, Table):
        texts = [any(isinstance(r[i], str) for r in block.rows) for i in range(len(block.columns))]
        lines = [block.columns, *([number(c) for c in row] for row in block.rows)]
        head, *rows = ("| " + " | ".join(map(escape, line)) + " |" for line in lines)
        rule = "|" + "|".join("---" if text else "---:" for text in texts) + "|"
        note = f"\n\n{_paragraph(block.note)}" if block.note else ""
        return f"{_paragraph(block.caption)}\n\n" + "\n".join([head, rule, *rows]) + note
    drawing = f"![{escape(block.alternative)}]({folder}/{block.file}.svg)\n\n" if block.svg else ""
    numbers = f" [Numbers]({folder}/{block.file}.csv)." if block.numbers is not None else ""
    return f"{_wrap(f'**{escape(block.title)}**')}\n\n{drawing}" + _wrap(escape(block.caption) + numbers)


def _paragraph(text: str) -> str:
    return _wrap(escape(text))


def _wrap(text: str) -> str:
    return fill(text, 119, break_long_words=False, break_on_hyphens=False)


def escape(text: str) -> str:
    r"""One line of text that Markdown shows as it is: it ends no cell, and begins no markup, link or HTML.

    >>> print(escape("a|b [c](d) <i> `x` *y*"))
    a\|b \[c\](d) \<i> \`x\` \*y\*
    """
    return re.sub(r"([\\`*|\[\]<])", r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> str:
    """Text as code within a sentence, whatever backticks it has."""
    fence = _fence(text, 1)
    return f"`{text}`" if fence == "`" else f"{fence} {text} {fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
