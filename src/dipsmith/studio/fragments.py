"""Report content as part of a page that allows no inline style, no script and no data address.

Drawings carry their styles as attributes of the same meaning, and images inside drawings become files of their
own, which the page's script fetches. The numbers and words are those of `dipsmith.report`: there is one report, shown in two places.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from dipsmith.report.content import Block, Figure, Page, Table
from dipsmith.report.sections import contents, section
from dipsmith.studio.workspace import write_whole

_STYLE = re.compile(r' style="([^"]*)"')
_IMAGE = re.compile(r'href="data:image/png;base64,\s*([^"]+)"')
_LINK = re.compile(r'<a href="(?!#)([^"]+)"')
_SHORTHAND = re.compile(r"^(?:(bold|[1-9]00) )?([\d.]+px)")
_ATTRIBUTE = re.compile(
    r"(?:fill|stroke)(?:-opacity)?|stroke-(?:width|line(?:join|cap)|dash(?:array|offset))|opacity|font-(?:size|weight|style)|text-anchor"
)
"""The declarations that SVG knows as attributes."""
_WIDEST = re.compile(r"([\d.]+)(px|rem)")
"""How wide a drawing is where there is room."""


@dataclass(frozen=True)
class Fragment:
    """The inside of a page, and the images that it shows."""

    html: str
    images: tuple[bytes, ...]

    def write(self, folder: Path) -> None:
        """Keep it: fragment.html, and the images as image-N.png."""
        for i, image in enumerate(self.images, start=1):
            write_whole(folder / f"image-{i}.png", image)
        write_whole(folder / "fragment.html", self.html.encode())


def without_parameters(page: Page) -> Page:
    """The page without the table of settings under every figure, for a page that prints them once."""

    def bare(block: Block) -> Block:
        return replace(block, parameters=None) if isinstance(block, Figure) else block

    sections = tuple(replace(s, blocks=tuple(map(bare, s.blocks))) for s in page.sections)
    return replace(page, sections=sections)


def fragment(page: Page, address: str) -> Fragment:
    """A report's content; images are looked for under `address`/image-N.png, linked files under `address`/."""
    lead = "".join(f'<p class="lead">{escape(p)}</p>' for p in page.lead)
    sections = (replace(s, blocks=tuple(map(_without_search, s.blocks))) for s in page.sections)
    inner = "".join(section(s, sortable=True) for s in sections)
    html = lead + (contents(page) if page.contents else "") + inner
    images: list[bytes] = []

    def take_out(found: re.Match[str]) -> str:
        images.append(base64.b64decode(found[1]))
        return f'data-src="{address}/image-{len(images)}.png"'

    html = re.sub(r"<style[^>]*>.*?</style>", "", html, flags=re.DOTALL)
    html = _IMAGE.sub(take_out, html)
    html = _STYLE.sub(lambda found: attributes(found[1]), html)
    html = _LINK.sub(rf'<a download href="{address}/\1"', html)
    return Fragment(html, tuple(images))


def _without_search(block: Block) -> Block:
    """What is shown where styles of the page cannot find anything."""
    if isinstance(block, Table) and block.marks:
        rows = tuple(row for row, mark in zip(block.rows, block.marks, strict=True) if "more" not in mark.split())
        return replace(block, rows=rows, marks=())
    return replace(block, searched=()) if isinstance(block, Figure) else block


def attributes(style: str) -> str:
    """The declarations of a style as attributes of an SVG element.

    >>> attributes("fill: none; stroke: var(--ink); font: 600 8px serif")
    ' fill="none" stroke="var(--ink)" font-size="8px" font-weight="600"'
    >>> attributes("max-width: 36rem")
    ' width="576"'
    """
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font" and (short := _SHORTHAND.match(value)):
            found["font-size"] = short[2]
            if short[1]:
                found["font-weight"] = short[1]
        elif name == "max-width" and (widest := _WIDEST.fullmatch(value)):
            found["width"] = f"{float(widest[1]) * (16 if widest[2] == 'rem' else 1):g}"
        elif _ATTRIBUTE.fullmatch(name) and value:
            found[name] = value
    return "".join(f' {name}="{value}"' for name, value in found.items())
