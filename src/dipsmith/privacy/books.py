"""The books: what the rows of a ledger add up to.

A pure fold: every balance is computed from the chain's rows in order, none is stored. The fold also
checks that each row was lawful when it was written (a charge within its grant, a refund only of a
run that had read nothing, a signature where grants need one), so that a row which no dipsmith would have
written is found even where its hash is right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dipsmith.errors import BudgetError, DamageError, UsageError
from dipsmith.privacy.account import Account, PaidRun, RunState, grant_from
from dipsmith.privacy.accountant import Accountant
from dipsmith.privacy.chain import Row
from dipsmith.privacy.events import event_from
from dipsmith.privacy.sealing import Key
from dipsmith.privacy.signature import Kind, Signed, check_public, signed_from

_STEPS: Mapping[str, tuple[tuple[RunState, ...], RunState]] = {
    "read": (("reserved",), "read"),
    "recorded": (("read",), "read"),
    "cancelled": (("reserved",), "cancelled"),
    "failed": (("read",), "failed"),
    "finished": (("read", "finished"), "finished"),
}
"""By the kind of row: the states that a run may be in before it, and the one it is in after it."""


@dataclass(frozen=True, slots=True)
class DeclinedRequest:
    """A request for an answer about a dataset that was declined: by whom, why and when. Nothing was read or charged."""

    name: str
    by: str
    why: str
    time: str


@dataclass(frozen=True, slots=True)
class Books:
    """All accounts and runs as of one row of the chain.

    `id` is the ledger's own, drawn when it was opened; `signatory` the public key whose signature a grant needs, None while
    none does; `nonces` those of the signed statements that were taken; `declined` the requests that were, by their ids.
    """

    last: Row | None = None
    id: str = ""
    accounts: Mapping[str, Account] = field(default_factory=dict)
    runs: Mapping[str, PaidRun] = field(default_factory=dict)
    signatory: str | None = None
    nonces: frozenset[str] = frozenset()
    declined: Mapping[str, DeclinedRequest] = field(default_factory=dict)

    def after(self, rows: Iterable[Row]) -> Books:
        """The books after more rows; raises DamageError at a row that could not lawfully follow."""
        rows = list(rows)
        if not rows:
            return self
        books = replace(self, accounts=dict(self.accounts), runs=dict(self.runs), declined=dict(self.declined))
        for row in rows:
            try:
                books = _enter(books, row, json.loads(row.payload))
            except (BudgetError, UsageError, KeyError, TypeError, ValueError, AttributeError) as error:
                which = f"ledger row {row.seq} ({row.kind})"
                raise DamageError(f"{which} could not lawfully be written: {error}") from None
        return replace(books, last=rows[-1])

    def require_grantable(self, content: Mapping[str, Any]) -> None:
        """Refuse a grant that its account does not allow."""
        account = self.accounts.get(content["name"], Account(content["name"]))
        account.after_grant(grant_from(content, time=""))

    def require_signed(self, signed: Signed) -> None:
        """Refuse a statement that is for another ledger, was taken before, or is not signed by the key in office."""
        if self.signatory is None:
            raise UsageError(
                "the ledger names no key whose signature counts: first `dipsmith ledger require-signature`"
            )
        if signed.ledger != self.id:
            raise BudgetError("the statement is for a ledger with another id: have it signed for this one")
        if signed.nonce in self.nonces:
            raise BudgetError("the signed statement was taken before: it counts once; have another signed")
        if not signed.valid(self.signatory):
            raise BudgetError(
                "the signature is not that of the key that the ledger names, or the statement was changed: have it "
                "signed again"
            )

    def others(self, name: str | None) -> Iterator[PaidRun]:
        """The standing runs of other datasets (None: of all) whose source was sealed."""
        standing = (run for run in self.runs.values() if run.name != name and run.state != "cancelled")
        return (run for run in standing if run.seals)

    def known_as(self, name: str | None, key: Key, digest: str) -> tuple[str, ...]:
        """The other datasets that were charged for a source with this digest, whichever of their tables it is."""
        return tuple(sorted({r.name for r in self.others(name) if any(key.opens(s, digest) for s in r.seals)}))


def _enter(books: Books, row: Row, content: dict[str, Any]) -> Books:
    """The books after one row; accounts and runs are this fold's own, and changed in place."""
    accounts, runs = books.accounts, books.runs
    assert isinstance(accounts, dict)
    assert isinstance(runs, dict)
    if row.kind == "opened":
        if row.seq != 1:
            raise ValueError("a ledger is opened once")
        return replace(books, id=content["id"])
    if row.kind == "granted":
        books = _check_signature(books, "granted", content)
        account = accounts.get(content["name"], Account(content["name"]))
        accounts[account.name] = account.after_grant(grant_from(content, row.time))
    elif row.kind == "withdrawn":
        accounts[content["name"]] = accounts[content["name"]].withdrawn()
    elif row.kind == "signatory":
        return replace(_check_signature(books, "signatory", content), signatory=check_public(content["public"]))
    elif row.kind == "looked":
        account = accounts.get(content["name"], Account(content["name"]))
        accounts[account.name] = replace(account, looked=(*account.looked, str(content["event"]["what"])))
    elif row.kind == "declined":
        assert isinstance(books.declined, dict)
        books.declined[content["request"]] = DeclinedRequest(content["name"], content["by"], content["why"], row.time)
    elif row.kind == "reserved":
        run = PaidRun.from_row(row, content)
        if run.id in runs and runs[run.id].state != "cancelled":
            raise ValueError(f"request '{run.id}' was reserved before")
        accounts[run.name] = accounts[run.name].after_charge(run)
        runs[run.id] = run
    else:
        run = runs[content["request"]]
        before, after = _STEPS[row.kind]
        if run.state not in before:
            raise ValueError(f"request '{run.id}' was {run.state}")
        if row.kind == "cancelled":
            accounts[run.name] = accounts[run.name].after_refund(run)
        if row.kind == "finished":
            run = replace(run, digests=(*run.digests, content["digest"]), path=run.path or content["path"])
        runs[run.id] = replace(run, state=after)
    return books


def _check_signature(books: Books, kind: Kind, content: dict[str, Any]) -> Books:
    """The books after the signature of a row was checked, where rows of its kind need one."""
    if books.signatory is None:
        if "signed" in content:
            raise ValueError("a signature where nobody's was asked for")
        return books
    signed = signed_from(kind, books.id, content)
    books.require_signed(signed)
    return replace(books, nonces=books.nonces | {signed.nonce})


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
    if any(len(head) != 64 or not set(head) <= set("0123456789abcdef") for head in heads):
        raise UsageError("a head is 64 hexadecimal digits, as `dipsmith ledger head` prints them")
    known = {row.hash for row in rows}
    for what, seen in (("head {}… of a card", cards), ("the anchored head {}…", heads)):
        if missing := next((head for head in seen if head not in known), None):
            raise DamageError(
                f"ledger '{ledger}' does not contain {what.format(missing[:16])}: it was rolled back or rewritten, or "
                "is another ledger than that one; restore the newest copy"
            )


def require_paid_events(rows: Sequence[Row], books: Books) -> None:
    """Refuse recorded events that exceed the reservation they were recorded in."""
    accountants: dict[str, Accountant] = {}
    for row in rows:
        if row.kind != "recorded":
            continue
        content = json.loads(row.payload)
        run = books.runs[content["request"]]
        accountant = accountants.setdefault(
            run.id, Accountant(run.budget, run.protects.relation, run.pricing, run.delta)
        )
        try:
            accountant.record(*(event_from(event) for event in content["events"]))
        except BudgetError as error:
            raise DamageError(f"ledger row {row.seq}: events exceed their reservation: {error}") from None
