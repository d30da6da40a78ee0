"""Content to HTML, one pure function per kind of block.

The page is self-contained: styles inside, no request to anywhere, and no script except, on pages that say so, the few
lines that sort tables. It follows the reader's dark mode, prints well, and reads in order for a screen reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from math import floor, isfinite, log10

from dipsmith.report.canvas import LIGHT, ROOT
from dipsmith.report.content import Block, Cell, Facts, Figure, Heading, Link, Page, Section, Table
from dipsmith.report.moments import mark_moments


def read_file(name: str) -> str:
    """A file of this room."""
    return files("dipsmith.report").joinpath(name).read_text("utf-8")


STYLE = "\n" + ROOT + read_file("page.css").replace("LIGHT", LIGHT)
PRINTED_BAND = "\n" + read_file("confidential.css")
SORTING = "\n" + read_file("sorting.js")

LEAST_P = 0.0001
"""Smaller p-values are not told apart: they rest on the tails of an approximation."""
SHORT = 22
"""Columns of texts no longer than this are not broken into lines."""

BAND = "CONFIDENTIAL — reads authentic rows, not for release"


def number(value: Cell) -> str:
    """A number as a person reads it: three significant digits, thousands grouped.

    >>> number(1234567), number(0.04567), number(None)
    ('1,234,567', '0.0457', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value != value:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if 0 < abs(value) < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.3g}"


def column(name: str, values: Sequence[Cell]) -> list[str]:
    """A column of a table as text: numbers of one order of magnitude share their decimals, p-values have a floor.

    >>> column("KS", [0.038, 0.0286, None, 0.0071])
    ['0.0380', '0.0286', '–', '0.0071']
    >>> column("score", [0.00481, 3.9, 1.0])  # several orders of magnitude: three digits each
    ['0.00481', '3.90', '1.00']
    >>> column("p", [0.04, 1e-12])
    ['0.0400', '< 0.0001']
    """
    floats = [v for v in values if isinstance(v, float) and isfinite(v)]
    sizes = [abs(v) for v in floats if v and not (name == "p" and abs(v) < LEAST_P)]
    alike = bool(sizes) and max(sizes) < 1000 and max(sizes) <= 100 * min(sizes)
    decimals = max(0, 2 - floor(log10(max(sizes)))) if alike else 0

    def as_text(value: Cell) -> str:
        if not isinstance(value, float) or not isfinite(value) or abs(value) >= 1000:
            return number(value)
        if name == "p" and value < LEAST_P:
            return f"< {LEAST_P}"
        if value == 0:
            return "0"
        if alike:
            return f"{value:.{decimals}f}"
        return number(value) if abs(value) < 1e-4 else f"{value:#.3g}".removesuffix(".")

    return [as_text(v) if isinstance(v, str) else re.sub(r"^-", "\N{MINUS SIGN}", as_text(v)) for v in values]


def table(block: Table, *, sortable: bool = False) -> str:
    """A table with its caption; columns of numbers are right-aligned, the first column heads its row."""
    columns = range(len(block.columns))
    numeric = [all(not isinstance(r[i], str) for r in block.rows) and bool(block.rows) for i in columns]
    short = [max((len(str(r[i])) for r in block.rows), default=0) <= SHORT for i in columns]
    texts = [column(block.columns[i], [r[i] for r in block.rows]) for i in columns]
    sortable = sortable and len(block.rows) > 2

    def head(i: int) -> str:
        text = escape(block.columns[i])
        inner = f'<button type="button">{text}</button>' if sortable and text else text
        whole = "" if " " in block.columns[i] else "w"  # a name is not broken at its hyphens
        classes = " ".join(filter(None, ("n" if numeric[i] else "", whole)))
        return '<th scope="col"' + (f' class="{classes}"' if classes else "") + f">{inner}</th>"

    def cell(i: int, row: int, value: Cell) -> str:
        plain = sortable and isinstance(value, int | float) and value == value
        exact = f' data-v="{value:.9g}"' if plain else ""
        tag, scope = ("th", ' scope="row"') if i == 0 and not numeric[0] else ("td", "")
        # "pay = 15000" is one word: a line is broken between columns, not within one
        text = escape(texts[i][row]).replace(" = ", "&nbsp;=&nbsp;")
        return f"<{tag}{scope}{mark(i)}{exact}>{text}</{tag}>"

    def mark(i: int) -> str:
        return ' class="n"' if numeric[i] else ' class="w"' if short[i] else ""

    marks = [f' class="{m}"' for m in block.marks] or [""] * len(block.rows)
    body = "".join(
        f"<tr{marks[at]}>" + "".join(cell(i, at, row[i]) for i in columns) + "</tr>"
        for at, row in enumerate(block.rows)
    )
    note = f'<p class="soft">{escape(block.note)}</p>' if block.note else ""
    # A table that is wider than the window is scrolled by keyboard too; buttons in its head bring one there.
    reach = "" if sortable else f' tabindex="0" role="group" aria-label="{escape(block.caption)}"'
    return (
        f'<div class="scroll"{reach}><table><caption>{escape(block.caption)}</caption>'
        f"<thead><tr>{''.join(head(i) for i in columns)}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def facts(block: Facts) -> str:
    """Names and values."""
    return "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{mark_moments(escape(v))}</dd>" for n, v in block.rows) + "</dl>"


def figure(block: Figure, *, sortable: bool = False) -> str:
    """A drawing with its title, caption, text alternative and parameters; its table where it is not drawn."""
    drawing = block.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(block.alternative)}" ', 1)
    if not drawing and block.numbers is not None:
        drawing = table(block.numbers, sortable=sortable)
    file = escape(f"{block.file}.csv")
    numbers = f' Numbers: <a href="{file}">{file}</a>.' if block.file else ""
    under = facts(block.parameters) if block.parameters is not None else ""
    reach = ' tabindex="0"' if block.svg else ""  # a wide drawing is scrolled, by keys too
    return (
        f"<figure{reach}><p>{escape(block.title)}</p>{search(block.searched)}{drawing}"
        f"<figcaption>{escape(block.caption)}{numbers}</figcaption>{under}</figure>"
    )


def search(names: Sequence[str]) -> str:
    """A field to look for one of some names: who types its first letters, or chooses it, sees what has its mark (`found`)."""
    if not names:
        return ""
    listed = sorted(enumerate(names), key=lambda pair: pair[1].casefold())
    options = "".join(f'<option value="c{i}">{escape(name)}</option>' for i, name in listed)
    return (
        f'<label class="find">Look for a column <select><option value="">all columns</option>{options}</select></label>'
    )


def search_styles(names: int) -> str:
    """The styles by which a field finds, without a script: what has another mark is faint on the map, and not in the tables."""
    rules = []
    for mark in (f"c{i}" for i in range(names)):
        here = f"section:has([value={mark}]:checked)"
        rules.append(f"{here} .map g:not(.{mark}) {{ opacity: .15; }} {here} .map .{mark} {{ font-weight: 700; }}")
        rules.append(
            f"{here} tr[class]:not(.{mark}) {{ display: none; }} {here} .more.{mark} {{ display: table-row; }}"
        )
    return "\n@media screen { " + "\n".join(rules) + " }\n" if rules else ""


def block(content: Block, *, sortable: bool = False) -> str:
    """Any block."""
    if isinstance(content, str):
        return f"<p>{escape(content)}</p>"
    if isinstance(content, Table):
        return table(content, sortable=sortable)
    if isinstance(content, Facts):
        return facts(content)
    if isinstance(content, Figure):
        return figure(content, sortable=sortable)
    if isinstance(content, Heading):
        return f"<h3>{escape(content.text)}</h3>"
    if isinstance(content, Link):
        return f'<p><a href="{escape(content.file)}">{escape(content.file)}</a>: {escape(content.text)}</p>'
    return f"<pre>{escape(content.text)}</pre>"


def section(content: Section, *, sortable: bool = False) -> str:
    """A heading and its blocks."""
    inner = "".join(block(b, sortable=sortable) for b in content.blocks)
    return f'<section id="{anchor(content.heading)}"><h2>{escape(content.heading)}</h2>{inner}</section>'


def anchor(text: str) -> str:
    """A heading as an address within the page.

    >>> anchor("Who is served worst?")
    'who-is-served-worst'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def contents(content: Page) -> str:
    """The list of sections."""
    items = "".join(f'<li><a href="#{anchor(s.heading)}">{escape(s.heading)}</a></li>' for s in content.sections)
    return f'<nav aria-label="Contents"><ol>{items}</ol></nav>'


def page(content: Page) -> str:
    """The whole page."""
    band = f'<div class="band" role="alert">{BAND}</div>' if content.confidential else ""
    stamp = f'<p class="stamp">{escape(content.stamp)}</p>' if content.stamp else ""
    lead = "".join(f'<p class="lead">{escape(p)}</p>' for p in content.lead)
    style = STYLE + (PRINTED_BAND if content.confidential else "")
    style += search_styles(max((len(f.searched) for f in content.figures()), default=0))
    script = f"<script>{SORTING}</script>" if content.sortable else ""
    # The first picture stands on the first screen, beside the sentences: the list of sections waits for it.
    first, *rest = [section(s, sortable=content.sortable) for s in content.sections] or [""]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{'CONFIDENTIAL: ' if content.confidential else ''}{escape(content.title)}</title>"
        f"<style>{style}</style></head><body>"
        f"{band}<main><h1>{escape(content.title)}</h1>{stamp}{lead}"
        f"{first}{contents(content) if content.contents else ''}{''.join(rest)}"
        f"<footer>{escape(content.footer)}</footer></main>{script}</body></html>\n"
    )


def frame(html: str) -> str:
    """A whole page inside another one, as notebooks show it: neither sees the other's styles.

    >>> frame('<p title="a">b</p>').count('"')
    6
    """
    title = re.search(r"<title>(.*?)</title>", html)
    name = title[1] if title else "report"
    return f'<iframe title="{name}" style="width: 100%; height: 44rem; border: 0" srcdoc="{escape(html)}"></iframe>'


def inline_table(block: Table) -> str:
    """A table of numbers by itself, as notebooks show it: what the page's styles would say stands in the cells."""
    left, right = (f' style="text-align: {side}; white-space: nowrap"' for side in ("left", "right"))
    made = re.sub(r'(<t[hd](?=[ >])(?: scope="\w+")?)(?: class="[\w ]*")?', rf"\1{right}", table(block))
    made = re.sub(rf"(<tr><t[hd][^>]*?){right}", rf"\1{left}", made)
    made = made.replace("<caption>", '<caption style="text-align: left; caption-side: top; padding-bottom: .4em">')
    return made.replace(' class="soft"', ' style="max-width: 68ch; opacity: .75"')
