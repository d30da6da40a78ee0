"""A budget as a bar: what every run took, and what is left.

SVG text without styles inside, so that the strictest content policy shows it: colours come from the style sheet.
"""

from __future__ import annotations

from html import escape

from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement

BAR = 1000.0
"""Width of a budget bar in its own units."""


def symbol(currency: str | None) -> str:
    """ε or ρ."""
    return "ρ" if currency == "rho" else "ε"


def budget_bar(statement: Statement, planned: bool = False) -> str:
    """Granted, spent and left: every run is a piece of the bar, what is left is its open end.

    With `planned` there is an empty piece that the Plan page moves as its slider does.
    """
    whole = max(statement.granted_units, 1)
    at, pieces = 0.0, []
    sign = symbol(statement.currency)
    for run in statement.runs:
        if run.state == "cancelled":
            continue
        width = BAR * run.charge / whole
        kind = "held" if run.state == "reserved" else "spent"
        told = f"{run.method}, {run.budget}, {run.state}"
        pieces.append(
            f'<rect class="{kind}" x="{at:.2f}" y="4" width="{max(width - 1.5, 0.5):.2f}" height="22"><title>{escape(told)}</title></rect>'
        )
        at += width
    left = decimal_text(statement.remaining_units)
    move = (
        f'<rect class="planned" data-from="{at:.2f}" x="{at:.2f}" y="4" width="0" height="22"/>'
        if planned
        else ""
    )
    words = f"{sign} = {decimal_text(statement.granted_units)} granted, {decimal_text(statement.spent_units)} spent, {left} left"
    return (
        f'<svg class="budget" viewBox="0 0 {BAR:g} 30" preserveAspectRatio="none" role="img" aria-label="{escape(words)}">'
        f'<rect class="granted" x="0.5" y="4.5" width="{BAR - 1:g}" height="21"/>{"".join(pieces)}{move}</svg>'
    )
