"""Content to HTML, one pure function per kind of block.

The page is self-contained: styles inside, no script, no request to anywhere. It follows the reader's
dark mode, prints well, and reads in order for a screen reader.
"""

from __future__ import annotations

from html import escape

from dipsmith.report.content import Block, Code, Facts, Figure, Page, Section, Table

STYLE = """
:root { --paper: #fffdf9; --ink: #1b1b1b; --soft: #5c5a55; --rule: #cfcabf; --accent: #0072b2; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16171a; --ink: #e9e6df; --soft: #a7a39a; --rule: #44423d; --accent: #6bb7e8; --alarm: #e0685f; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.55 Charter, 'Bitstream Charter', Georgia, serif; }
main { max-width: 44rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; font-weight: 600; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; font-weight: 600; }
p { margin: 0 0 .8rem; max-width: 68ch; }
.lead { font-size: 1.05rem; }
.soft, figcaption, caption, footer { color: var(--soft); font-size: .86rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 1.4rem; font-variant-numeric: tabular-nums lining-nums; font-size: .92rem; }
caption { text-align: left; padding-bottom: .4rem; caption-side: top; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; vertical-align: top; border-bottom: 1px solid var(--rule); font-weight: 400; }
thead th { border-bottom: 1.5px solid var(--ink); font-size: .84rem; color: var(--soft); vertical-align: bottom; }
td.n, th.n { text-align: right; padding-right: 0; padding-left: .9rem; white-space: nowrap; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .25rem 1.4rem; margin: 1rem 0 1.4rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .8rem 1rem; border-left: 3px solid var(--accent); font: .84rem/1.45 ui-monospace, 'DejaVu Sans Mono', monospace; }
figure { margin: 1.4rem 0; } figure svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
.band { background: var(--alarm); color: #fff; text-align: center; padding: .35rem; font: 600 .95rem/1.3 system-ui, sans-serif; letter-spacing: .08em; position: sticky; top: 0; }
.stamp { border: 2px solid var(--alarm); color: var(--alarm); padding: .5rem .8rem; margin: 0 0 1.4rem; font-weight: 600; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .8rem; }
@media print { .band { position: fixed; left: 0; right: 0; } main { padding-top: 1.5rem; max-width: none; } body { font-size: 11pt; } }
"""


def number(value: str | float | None) -> str:
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
    return f"{value:.3g}"


def table(block: Table) -> str:
    """A table with its caption; columns of numbers are right-aligned."""
    columns = range(len(block.columns))
    numeric = [all(not isinstance(r[i], str) for r in block.rows) and bool(block.rows) for i in columns]

    def cell(tag: str, i: int, text: str) -> str:
        marks = (' scope="col"' if tag == "th" else "") + (' class="n"' if numeric[i] else "")
        return f"<{tag}{marks}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, block.columns[i]) for i in columns)
    body = "".join(
        "<tr>" + "".join(cell("td", i, number(row[i])) for i in columns) + "</tr>" for row in block.rows
    )
    note = f'<p class="soft">{escape(block.note)}</p>' if block.note else ""
    return (
        f'<div class="scroll"><table><caption>{escape(block.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def facts(block: Facts) -> str:
    """Names and values."""
    return "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in block.rows) + "</dl>"


def figure(block: Figure) -> str:
    """A drawing with its title, caption and text alternative."""
    return (
        f'<figure role="group" aria-label="{escape(block.alternative)}"><p><strong>{escape(block.title)}</strong></p>'
        f"{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
    )


def code(block: Code) -> str:
    """Lines to copy."""
    return f"<pre>{escape(block.text)}</pre>"


def block(content: Block) -> str:
    """Any block."""
    if isinstance(content, str):
        return f"<p>{escape(content)}</p>"
    if isinstance(content, Table):
        return table(content)
    if isinstance(content, Facts):
        return facts(content)
    if isinstance(content, Figure):
        return figure(content)
    return code(content)


def section(content: Section) -> str:
    """A heading and its blocks."""
    return f"<section><h2>{escape(content.heading)}</h2>{''.join(block(b) for b in content.blocks)}</section>"


def page(content: Page) -> str:
    """The whole page."""
    band = '<div class="band" role="alert">CONFIDENTIAL — reads authentic rows, not for release</div>'
    stamp = f'<p class="stamp">{escape(content.stamp)}</p>' if content.stamp else ""
    lead = "".join(f'<p class="lead">{escape(p)}</p>' for p in content.lead)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(content.title)}</title><style>{STYLE}</style></head><body>"
        f"{band if content.confidential else ''}<main><h1>{escape(content.title)}</h1>{stamp}{lead}"
        f"{''.join(section(s) for s in content.sections)}"
        f"<footer>{escape(content.footer)}</footer></main></body></html>\n"
    )
