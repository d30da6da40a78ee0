"""Inspection: that a ledger is whole, and that it is the one whose heads were written down elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dipsmith.errors import BudgetError, DamageError, UsageError
from dipsmith.privacy.accountant import Accountant
from dipsmith.privacy.books import Books
from dipsmith.privacy.chain import Row
from dipsmith.privacy.events import event_from


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last row of a ledger: what to write down elsewhere, so that going back behind it is noticed."""

    seq: int
    time: str
    head: str

    def __str__(self) -> str:
        return f"{self.seq} {self.time} {self.head}"


@dataclass(frozen=True, slots=True)
class IntactLedger:
    """A ledger that passed every check, and how many heads of cards, anchored heads and signatures were found in it."""

    rows: int
    head: str
    cards: int
    heads: int = 0
    signed: int = 0

    def __str__(self) -> str:
        parts = [f"{self.rows} rows"]
        for n, what in ((self.cards, "card"), (self.heads, "anchored head")):
            parts += [f"{n} {what}{'s' if n > 1 else ''} found in it"] if n else []
        parts += [f"{self.signed} signature{'s' if self.signed > 1 else ''} checked"] if self.signed else []
        return f"ledger intact: {', '.join(parts)}, head {self.head}"


def require_heads(ledger: str, rows: Sequence[Row], cards: Sequence[str], heads: Sequence[str]) -> None:
    """Refuse a chain that lacks a head which a card, or somebody who wrote it down, has seen in it."""
    known = {row.hash for row in rows}
    for head in cards:
        if head not in known:
            raise DamageError(
                f"ledger '{ledger}' does not contain head {head[:16]}… of a card: it was rolled "
                "back, or the release was made under another ledger; restore the newest copy"
            )
    for head in heads:
        if len(head) != 64 or not set(head) <= set("0123456789abcdef"):
            raise UsageError("a head is 64 hexadecimal digits, as `dipsmith ledger head` prints them")
        if head not in known:
            raise DamageError(
                f"ledger '{ledger}' does not contain the anchored head {head[:16]}…: it was rolled back or "
                "rewritten, or is another ledger; restore the newest copy"
            )


def require_paid_events(rows: Sequence[Row], books: Books) -> None:
    """Refuse recorded events that exceed the reservation they were recorded in."""
    accountants: dict[str, Accountant] = {}
    for row in rows:
        if row.kind != "recorded":
            continue
        content = json.loads(row.payload)
        run = books.runs[content["request"]]
        accountant = accountants.setdefault(run.id, Accountant(run.budget, run.protects.relation))
        try:
            accountant.record(*(event_from(event) for event in content["events"]))
        except BudgetError as error:
            raise DamageError(f"ledger row {row.seq}: events exceed their reservation: {error}") from None
