"""Accounts: what the ledger says of each dataset, as dated entries, as a picture that burns down, and as CSV.

Every grant and every run is an entry with what was left after it. Amounts are exact decimals; a run that was cancelled
took nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Literal

from dipsmith.confirm.confirm import METHOD as ANSWER
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement
from dipsmith.report.moments import short_moment
from dipsmith.studio.budget_bar import symbol
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.learn import METHOD as LEARNING
from dipsmith.synthesis.noisy_count import METHOD as COUNT

WIDTH, HEIGHT = 760.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 14.0, 30.0
"""Margins of the picture."""
NOT_RUNS = {ANSWER: "answer", LEARNING: "learning", COUNT: "count"}
"""Charges that make no release, by what the ledger calls their method."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula: such a text gets an apostrophe before it."""


@dataclass(frozen=True)
class DatedEntry:
    """A grant or a run: when, by whom and why, its amount and what was left after it, in units of 1e-12."""

    kind: Literal["grant", "run"]
    time: str
    units: int
    left: int
    by: str
    what: str
    state: str
    request: str = ""

    @property
    def taken(self) -> bool:
        """Whether the amount stands: a cancelled run gave it back."""
        return self.state != "cancelled"

    @property
    def shown_kind(self) -> str:
        """What it is in words: a grant, a run, an answer to a question, a schema that was learned, or a count."""
        return NOT_RUNS.get(self.what, self.kind) if self.kind == "run" else self.kind

    @property
    def shown_state(self) -> str:
        """How far it came, in words."""
        back = f"cancelled, {decimal_text(self.units)} given back"
        return {"cancelled": back, "reserved": "held", "read": "rows read"}.get(self.state, self.state)

    @property
    def shown_time(self) -> str:
        """The time to the minute."""
        return short_moment(self.time)


def accounts(workspace: Workspace) -> list[Statement]:
    """Every account of the ledger; none when there is no ledger yet."""
    return list(workspace.ledger.show()) if workspace.ledger_file.exists() else []


def account_of(workspace: Workspace, name: str) -> Statement:
    """The account of a dataset, empty if it has none."""
    found = next((s for s in accounts(workspace) if s.name == name), None)
    return found or Statement(name, None, 0, 0, None, None, 0, (), ())


def entries(statement: Statement) -> list[DatedEntry]:
    """Grants and runs in the order of their time, each with what was left after it."""
    grants = [
        ("grant", g.time, g.budget.units, g.by, g.why, "signed" if g.signed else "", "") for g in statement.grants
    ]
    runs = [("run", r.time, r.charge, r.by, r.method, r.state, r.id) for r in statement.runs]
    left, found = 0, []
    for kind, time, units, by, what, state, request in sorted([*grants, *runs], key=lambda e: (e[1], e[0])):
        if state != "cancelled":
            left += units if kind == "grant" else -units
        found.append(DatedEntry(kind, time, units, left, by, what, state, request))  # type: ignore[arg-type]
    return found


def burn_down(statement: Statement, found: Sequence[DatedEntry]) -> str:
    """What was left, over time: up with every grant, down with every run. Nothing to draw gives nothing."""
    drawn = [e for e in found if e.taken]
    if not drawn:
        return ""
    times = [datetime.fromisoformat(e.time).timestamp() for e in drawn]
    first, span = times[0], max(times[-1] - times[0], 60.0)
    most = max(e.left for e in drawn) or 1
    # A little room after the last entry, where what is left now is written.
    xs = [LEFT + (WIDTH - LEFT - RIGHT - 90) * (t - first) / span for t in times]
    ys = [TOP + (HEIGHT - TOP - BOTTOM) * (1 - e.left / most) for e in drawn]
    base = HEIGHT - BOTTOM
    path = f"M{xs[0]:.1f} {base:.1f}V{ys[0]:.1f}" + "".join(
        f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:], ys[1:], strict=True)
    )
    path += f"H{WIDTH - RIGHT - 60:.1f}"
    marks = "".join(_mark(e, x, y) for e, x, y in zip(drawn, xs, ys, strict=True))
    sign, now = symbol(statement.currency), decimal_text(drawn[-1].left)
    ticks = "".join(
        f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 12:g}" y="{y + 4:.1f}" text-anchor="end">{decimal_text(int(most * share))[:6]}</text>'
        for share in (0.0, 0.5, 1.0)
        for y in (TOP + (base - TOP) * (1 - share),)
    )
    dates = f'<text x="{LEFT:g}" y="{HEIGHT - 8:g}">{drawn[0].shown_time} UTC</text>'
    if len(drawn) > 1 and xs[-1] - xs[0] > 260:
        dates += f'<text x="{xs[-1]:.1f}" y="{HEIGHT - 8:g}" text-anchor="middle">{drawn[-1].shown_time}</text>'
    told = f"{sign} left over time: " + "; ".join(
        f"{e.shown_time} {'granted' if e.kind == 'grant' else 'spent'} {decimal_text(e.units)}, left {decimal_text(e.left)}"
        for e in drawn[-12:]
    )
    return (
        f'<svg class="burn" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(told)}">{ticks}{dates}'
        f'<path d="{path}"/>{marks}<text class="now" x="{WIDTH - RIGHT - 54:.1f}" y="{ys[-1] + 4:.1f}">{sign} = {now[:6]}</text></svg>'
    )


def _mark(entry: DatedEntry, x: float, y: float) -> str:
    """A filled mark for what was spent, an open one for a grant, a grey one for what is held."""
    if entry.kind == "grant":
        return f'<path class="granted" d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>'
    return f'<circle class="{"held" if entry.state == "reserved" else "spent"}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def as_csv(statements: Iterable[Statement]) -> str:
    """Every entry of some accounts, for a spreadsheet or an auditor."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(("dataset", "time", "entry", "currency", "amount", "left", "state", "by", "what", "request"))
    for statement in statements:
        for e in entries(statement):
            texts = (statement.name, e.time, e.kind, statement.currency or "")
            amounts = decimal_text(e.units if e.taken else 0), decimal_text(e.left)
            row = (*texts, *amounts, e.state, e.by, e.what, e.request)
            writer.writerow([f"'{cell}" if cell.startswith(FORMULAS) else cell for cell in row])
    return made.getvalue()
