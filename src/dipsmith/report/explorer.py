"""The page of `explore.html`: one file that asks nothing of any network, whose script reads the data inside it.

What the page may load is nothing, and it says so to the browser itself. All words of the data reach the screen as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from dipsmith.report.content import Link
from dipsmith.report.sections import STYLE, read_file

FILE: Final = "explore.html"
LINK: Final = Link(
    FILE, "pick columns and see what the noisy measurements say of them, with intervals, and the code for it."
)
"""For pages that stand beside it."""

CLOSED: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'"
"""No picture, font, frame, form or request: what is here is all there is."""


def explorer_page(dataset: str, content: Mapping[str, Any]) -> str:
    """The whole page."""
    title = escape(f"Explore: {dataset}")
    # A label cannot end the script that it stands in.
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}\n{read_file('explorer.css')}</style></head><body><main><h1>{title}</h1>"
        f"{read_file('explorer.html')}</main>"
        f'<script type="application/json" id="data">{data}</script><script>{read_file("explorer.js")}</script></body></html>\n'
    )
