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


def held_units(statement: Statement) -> int:
    """What is charged for runs that have read nothing yet, and may still be given back."""
    return sum(run.charge for run in statement.runs if run.state == "reserved")


def budget_bar(statement: Statement, planned: int | None = None) -> str:
    """Granted, spent and left: every run is a piece of the bar, what is left is its open end.

    With `planned` units there is a piece for the next run, which the Plan page moves as its slider does.
    """
    whole = max(statement.granted_units, 1)
    at, pieces = 0.0, []
    sign = symbol(statement.currency)
    for run in statement.runs:
        if run.state == "cancelled":
            continue
        width = BAR * run.charge / whole
        held = run.state == "reserved"
        kind, state = ("held", "held") if held else ("spent", run.state)
        title = f"<title>{escape(f'{run.method}, {run.budget}, {state}')}</title>"
        size = f'x="{at:.2f}" y="4" width="{max(width - 1.5, 0.5):.2f}" height="22"'
        pieces.append(f'<rect class="{kind}" {size}>{title}</rect>')
        at += width
    if planned is not None:
        width = min(BAR * planned / whole, BAR - at)
        size = f'data-from="{at:.2f}" x="{at:.2f}" y="4" width="{width:.2f}" height="22"'
        pieces.append(f'<rect class="planned" {size}/>')
    back = held_units(statement)
    units = {"granted": statement.granted_units, "spent": statement.spent_units - back, "held": back}
    told = [
        f"{decimal_text(n)} {what}"
        for what, n in (units | {"left": statement.remaining_units}).items()
        if n or what != "held"
    ]
    words = f"{sign} = {', '.join(told)}"
    return (
        f'<svg class="budget" viewBox="0 0 {BAR:g} 30" preserveAspectRatio="none" role="img" aria-label="{escape(words)}">'
        f'<rect class="granted" x="0.5" y="4.5" width="{BAR - 1:g}" height="21"/>{"".join(pieces)}</svg>'
    )
