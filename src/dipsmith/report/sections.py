"""Content to HTML, one pure function per kind of block.

The page is self-contained: styles inside, no request to anywhere, and no script except, on pages that say so, the few
lines that sort tables. It follows the reader's dark mode, prints well, and reads in order for a screen reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from math import floor, isfinite, log10

from dipsmith.report.canvas import LIGHT, ROOT
from dipsmith.report.content import Block, Cell, Code, Facts, Figure, Heading, Page, Section, Table

STYLE = f"""
{ROOT}""" + """* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.55 Charter, 'Bitstream Charter', Georgia, 'DejaVu Serif', serif; }
main { max-width: 50rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; font-weight: 600; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; font-weight: 600; }
h3 { font-size: 1rem; margin: 1.8rem 0 .4rem; font-weight: 600; }
p { margin: 0 0 .8rem; max-width: 68ch; }
a { color: var(--accent); }
.lead { font-size: 1.05rem; }
.soft, figcaption, caption, footer, nav { color: var(--soft); font-size: .86rem; }
nav ol { padding: 0; margin: 1.2rem 0 0; list-style: none; columns: 2; } nav li { padding: .1rem 0; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 1.4rem; font-variant-numeric: tabular-nums lining-nums; font-size: .92rem; }
caption { text-align: left; padding-bottom: .4rem; caption-side: top; }
th, td { text-align: left; padding: .28rem 0 .28rem 1.1rem; vertical-align: top; border-bottom: 1px solid var(--rule); font-weight: 400; }
th:first-child, td:first-child { padding-left: 0; }
thead th { border-bottom: 1.5px solid var(--ink); font-size: .84rem; line-height: 1.3; color: var(--soft); vertical-align: bottom; }
.n { text-align: right; } td.n, .w { white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: ' ↑'; } th[aria-sort=descending] button::after { content: ' ↓'; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .25rem 1.4rem; margin: 1rem 0 1.4rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .8rem 1rem; border-left: 3px solid var(--accent); font: .84rem/1.45 ui-monospace, 'DejaVu Sans Mono', monospace; }
figure { margin: 2rem 0; } figure svg { display: block; width: 100%; height: auto; margin: .4rem 0; } figure p { margin: 0; font-weight: 600; }
figure dl { font-size: .86rem; margin: .6rem 0 0; gap: .1rem 1.4rem; }
.scroll { overflow-x: auto; }
.band { background: var(--alarm); color: #fff; text-align: center; padding: .35rem; font-weight: 600; font-size: .95rem; line-height: 1.3; letter-spacing: .08em; position: sticky; top: 0; z-index: 1; }
.stamp { border: 2px solid var(--alarm); color: var(--alarm); padding: .5rem .8rem; margin: 0 0 1.4rem; font-weight: 600; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .8rem; }
@media print {
  :root { LIGHT --paper: #fff; --ink: #000; --soft: #444; --rule: #bbb; }
  main { padding: 0; max-width: none; } body { font-size: 10.5pt; } nav { display: none; }
  th button { display: contents; } .scroll, pre { overflow: visible; } pre { white-space: pre-wrap; }
  figure, tr, pre, dl, h2, h3 { break-inside: avoid; } h2, h3, caption, figure p { break-after: avoid; } figure svg { max-height: 190mm; }
}
@page { margin: 18mm 16mm; }
""".replace("LIGHT", LIGHT)

PRINTED_BAND = """
@page { margin: 20mm 16mm 18mm; @top-center { content: 'CONFIDENTIAL — reads authentic rows, not for release'; color: #b3261e; font: 600 10pt serif; border-bottom: 1.5pt solid #b3261e; margin-bottom: 4mm; } }
@media print {
  main { padding-left: 9mm; }
  .band { position: fixed; top: 0; bottom: 0; left: 0; width: 5mm; padding: 0; writing-mode: vertical-rl; line-height: 5mm; font-size: 8pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
"""On paper the band is part of every page: in the margin at the top, where the browser can print there, and along the
left edge, where every browser repeats what has a fixed place. No text can run under either."""

SORTING = """
document.querySelectorAll('th button').forEach(function (b) { b.addEventListener('click', function () {
  var th = b.parentNode, table = th.closest('table'), body = table.tBodies[0], i = th.cellIndex;
  var up = th.getAttribute('aria-sort') !== 'ascending';
  table.querySelectorAll('th').forEach(function (h) { h.removeAttribute('aria-sort'); });
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  var key = function (r) { var c = r.cells[i], v = c.getAttribute('data-v'); return v === null ? c.textContent : parseFloat(v); };
  Array.from(body.rows).sort(function (a, b) { var x = key(a), y = key(b);
    var d = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), undefined, {numeric: true});
    return up ? d : -d; }).forEach(function (r) { body.appendChild(r); });
}); });
"""

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

    def shown(value: Cell) -> str:
        if not isinstance(value, float) or not isfinite(value) or abs(value) >= 1000:
            return number(value)
        if name == "p" and value < LEAST_P:
            return f"< {LEAST_P}"
        if value == 0:
            return "0"
        if alike:
            return f"{value:.{decimals}f}"
        return number(value) if abs(value) < 1e-4 else f"{value:#.3g}".removesuffix(".")

    return [shown(v) if isinstance(v, str) else re.sub(r"^-", "\N{MINUS SIGN}", shown(v)) for v in values]


def table(block: Table, *, sortable: bool = False) -> str:
    """A table with its caption; columns of numbers are right-aligned, the first column heads its row."""
    columns = range(len(block.columns))
    numeric = [all(not isinstance(r[i], str) for r in block.rows) and bool(block.rows) for i in columns]
    short = [max((len(str(r[i])) for r in block.rows), default=0) <= SHORT for i in columns]
    texts = [column(block.columns[i], [r[i] for r in block.rows]) for i in columns]
    sortable = sortable and len(block.rows) > 2

    def head(i: int) -> str:
        text = escape(block.columns[i])
        inner = f'<button type="button">{text}</button>' if sortable else text
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

    body = "".join(
        "<tr>" + "".join(cell(i, at, row[i]) for i in columns) + "</tr>" for at, row in enumerate(block.rows)
    )
    note = f'<p class="soft">{escape(block.note)}</p>' if block.note else ""
    return (
        f'<div class="scroll"><table><caption>{escape(block.caption)}</caption>'
        f"<thead><tr>{''.join(head(i) for i in columns)}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def facts(block: Facts) -> str:
    """Names and values."""
    return "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in block.rows) + "</dl>"


def figure(block: Figure, *, sortable: bool = False) -> str:
    """A drawing with its title, caption, text alternative and parameters; its table where it is not drawn."""
    drawing = block.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(block.alternative)}" ', 1)
    if not drawing and block.numbers is not None:
        drawing = table(block.numbers, sortable=sortable)
    numbers = (
        f' Numbers: <a href="{escape(block.file)}.csv">{escape(block.file)}.csv</a>.' if block.file else ""
    )
    under = facts(block.parameters) if block.parameters is not None else ""
    return (
        f"<figure><p>{escape(block.title)}</p>{drawing}"
        f"<figcaption>{escape(block.caption)}{numbers}</figcaption>{under}</figure>"
    )


def code(block: Code) -> str:
    """Lines to copy."""
    return f"<pre>{escape(block.text)}</pre>"


def heading(block: Heading) -> str:
    """A heading within a section."""
    return f"<h3>{escape(block.text)}</h3>"


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
        return heading(content)
    return code(content)


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
    items = "".join(
        f'<li><a href="#{anchor(s.heading)}">{escape(s.heading)}</a></li>' for s in content.sections
    )
    return f'<nav aria-label="Contents"><ol>{items}</ol></nav>'


def page(content: Page) -> str:
    """The whole page."""
    band = f'<div class="band" role="alert">{BAND}</div>' if content.confidential else ""
    stamp = f'<p class="stamp">{escape(content.stamp)}</p>' if content.stamp else ""
    lead = "".join(f'<p class="lead">{escape(p)}</p>' for p in content.lead)
    style = STYLE + (PRINTED_BAND if content.confidential else "")
    script = f"<script>{SORTING}</script>" if content.sortable else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{'CONFIDENTIAL: ' if content.confidential else ''}{escape(content.title)}</title>"
        f"<style>{style}</style></head><body>"
        f"{band}<main><h1>{escape(content.title)}</h1>{stamp}{lead}"
        f"{contents(content) if content.contents else ''}"
        f"{''.join(section(s, sortable=content.sortable) for s in content.sections)}"
        f"<footer>{escape(content.footer)}</footer></main>{script}</body></html>\n"
    )


def framed(html: str) -> str:
    """A whole page inside another one, as notebooks show it: neither sees the other's styles.

    >>> framed('<p title="a">b</p>').count('"')
    6
    """
    title = re.search(r"<title>(.*?)</title>", html)
    name = title[1] if title else "report"
    return f'<iframe title="{name}" style="width: 100%; height: 44rem; border: 0" srcdoc="{escape(html)}"></iframe>'


def loose(block: Table) -> str:
    """A table of numbers by itself, as notebooks show it: what the page's styles would say stands in the cells."""
    left, right = (f' style="text-align: {side}; white-space: nowrap"' for side in ("left", "right"))
    made = re.sub(r'(<t[hd](?=[ >])(?: scope="\w+")?)(?: class="[\w ]*")?', rf"\1{right}", table(block))
    made = re.sub(rf"(<tr><t[hd][^>]*?){right}", rf"\1{left}", made)
    made = made.replace(
        "<caption>", '<caption style="text-align: left; caption-side: top; padding-bottom: .4em">'
    )
    return made.replace(' class="soft"', ' style="max-width: 68ch; opacity: .75"')
