"""The ledger: who granted how much, and what every run spent.

Spend before release: a run's whole budget is reserved, durably, before the first private value is
read. A reservation that fails before reading is given back; once data was read the charge stays, and
its request id never draws again. The ledger refuses to exceed a grant, to add up different
neighbouring relations or units, and to mix currencies. It holds nothing private.

Guarantee: the sum of the charges of all runs that read data, under one dataset's name, never exceeds
its grants — with any number of processes, and whichever of them is killed at whatever moment. By
composition (``docs/proofs/accounting.md``) everything ever released about the dataset then satisfies
its grant.

The rows are kept by `dipsmith.privacy.chain`, their meaning by `dipsmith.privacy.books`.
"""

from __future__ import annotations

import getpass
import json
import os
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from dipsmith.errors import BudgetError, DamageError, UsageError
from dipsmith.privacy.accountant import Accountant
from dipsmith.privacy.books import Account, Books, Grant, budget_record
from dipsmith.privacy.budget import Budget, decimal_text, of_units
from dipsmith.privacy.chain import Chain, Row
from dipsmith.privacy.events import Looked, from_dict, to_dict
from dipsmith.privacy.neighbours import check_relation
from dipsmith.privacy.reservation import (
    AlreadyReleased,
    Decision,
    Entry,
    Reservation,
    refund,
    require_resumable,
    require_same,
)
from dipsmith.privacy.statement import Statement, Statements
from dipsmith.schema.schema import Unit

__all__ = ["AlreadyReleased", "Ledger", "Reservation", "Statement", "Statements", "Verified"]


@dataclass(frozen=True, slots=True)
class Verified:
    """A ledger that passed every check: how many rows, its head, how many card heads it contains."""

    rows: int
    head: str
    cards: int

    def __str__(self) -> str:
        cards = f", {self.cards} card{'s' if self.cards > 1 else ''} found in it" if self.cards else ""
        return f"ledger intact: {self.rows} rows{cards}, head {self.head}"


class Ledger:
    """The record of grants and spends; safe for many processes and threads at once.

    Parameters
    ----------
    path
        The ledger's file. Nothing is touched before it is used; the first grant (or look) creates
        it. The text ":memory:" (not a `Path` of that name) keeps it in this object, for tests.
    patience
        Seconds to wait for other processes' transactions (milliseconds each) before giving up.

    Examples
    --------
    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.schema import Unit
    >>> ledger = Ledger(":memory:")
    >>> ledger.grant("people", PureDP(2), by="data office", why="pilot")
    >>> with ledger.reserve("people", PureDP("0.75"), neighbours="replace", unit=Unit(), request_id="r1",
    ...                     method="flat") as run:
    ...     run.read()
    ...     run.finish("0" * 64, "/releases/people")
    >>> ledger.show("people").remaining
    1.25
    """

    def __init__(self, path: str | os.PathLike[str], patience: float = 60.0) -> None:
        self.path = os.fspath(path)
        self._chain = Chain(path, patience)
        self._books = Books()

    def __repr__(self) -> str:
        return f"Ledger({self.path!r})"

    # --- grants and spends ------------------------------------------------------------------------

    def grant(self, name: str, budget: Budget, by: str | None = None, why: str = "") -> None:
        """Allow so much to be spent on a dataset, in addition to earlier grants of the same currency."""
        _check_budget(budget)
        content: dict[str, Any] = {
            "name": _line(name, "the dataset's name"),
            "budget": budget_record(budget),
            "stated": str(budget),
            "by": _who(by),
            "why": _line(why, "why", empty=True),
        }

        def decide(books: Books) -> list[Entry]:
            grant = Grant(budget, content["stated"], content["by"], content["why"], time="")
            books.accounts.get(name, Account(name)).granted(grant)
            return [("granted", content)]

        self._write(decide, create=True)

    def reserve(
        self,
        name: str,
        budget: Budget,
        *,
        neighbours: str,
        unit: Unit,
        request_id: str | None = None,
        method: str,
        by: str | None = None,
    ) -> Reservation:
        """Charge a run's whole budget, durably, before it reads anything.

        Parameters
        ----------
        name
            The dataset: its schema's name, which is its grant's.
        budget
            All that the run may spend. Pure ε is converted where the grant is in ρ (ε²/2).
        neighbours, unit
            What the budget means; fixed for a name by its first spend.
        request_id
            Buys one run. The same id again continues a reservation that never read data; it is
            refused once data was read. Drawn at random when omitted.
        method
            What is going to be run, for the record.
        by
            Who asks; the OS user when omitted.

        Raises
        ------
        AlreadyReleased
            If the request id was finished before; it says where the release is.
        BudgetError
            If there is no grant or not enough left, or currency, relation, unit or request do not fit.
        """
        _check_budget(budget)
        check_relation(neighbours)
        request: dict[str, Any] = {
            "name": _line(name, "the dataset's name"),
            "request": _line(uuid.uuid4().hex if request_id is None else request_id, "the request id"),
            "budget": budget_record(budget),
            "relation": neighbours,
            "unit": asdict(unit),
            "method": _line(method, "the method"),
            "by": _who(by),
        }
        if not self._chain.exists():
            raise self._no_grant(name, budget)

        def decide(books: Books) -> list[Entry]:
            known = books.runs.get(request["request"])
            if known is not None and known.state != "cancelled":
                require_same(known, name, budget, neighbours, unit, method)
                require_resumable(known)
                return []
            charge = self._affordable(books, name, budget, neighbours, unit)
            return [("reserved", {**request, "charge": charge})]

        _, books = self._write(decide)
        return Reservation(books.runs[request["request"]], self._write)

    def cancel(self, request_id: str) -> None:
        """Give back a reservation that never read data, such as one of a process that was killed.

        Safe at any moment: a process that still holds it is refused when it tries to read.
        """
        self._write(lambda books: refund(books, request_id))

    def look(self, name: str, what: str, by: str | None = None) -> int:
        """Log that a person looked at exact figures of private rows; gives the number of looks so far."""
        event = Looked(what=_line(what, "what was looked at"), by=_who(by))
        content = {"name": _line(name, "the dataset's name"), "event": to_dict(event)}
        _, books = self._write(lambda books: [("looked", content)], create=True)
        return books.accounts[name].looks

    # --- reading ----------------------------------------------------------------------------------

    @property
    def head(self) -> str:
        """The hash that stands for the whole history."""
        last = self._read().last
        if last is None:
            raise DamageError(
                f"ledger '{self.path}' has no rows: restore a backup, then verify it with cards"
            )
        return last.hash

    def looks(self, name: str) -> int:
        """How many confidential looks were logged for a dataset."""
        if not self._chain.exists():
            return 0
        account = self._read().accounts.get(name)
        return 0 if account is None else account.looks

    def released(self, request_id: str) -> str | None:
        """The SHA-256 of the card that a request was first released with, None if it was not."""
        return next(iter(self.issued(request_id)), None)

    def issued(self, request_id: str) -> tuple[str, ...]:
        """The SHA-256 of the card of every saved copy of a request's release."""
        run = self._read().runs.get(request_id)
        return () if run is None else run.digests

    @overload
    def show(self, name: None = None) -> Statements: ...

    @overload
    def show(self, name: str) -> Statement: ...

    def show(self, name: str | None = None) -> Statement | Statements:
        """What was granted, spent and left: for one dataset, or for all of them."""
        statements = Statements.from_books(self._read())
        return statements if name is None else statements[name]

    def verify(self, cards: Sequence[str] = ()) -> Verified:
        """Check every page, guard, link and balance, and that the heads written on cards are in the chain.

        Raises
        ------
        DamageError
            If rows were edited, deleted, reordered or could not lawfully be written, or if a card's
            head is missing, which means that the ledger was rolled back or is another one.
        """
        with self._chain.reading() as transaction:
            rows = transaction.check()
        books = Books().after(rows)
        _check_events(rows, books)
        self._books = books
        known = {row.hash for row in rows}
        missing = [head for head in cards if head not in known]
        if missing:
            raise DamageError(
                f"ledger '{self.path}' does not contain head {missing[0][:16]}… of a card: it was rolled "
                "back, or the release was made under another ledger; restore the newest copy"
            )
        return Verified(len(rows), rows[-1].hash, len(cards))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger into a new file, whole or not at all."""
        self._chain.backup(path)

    # --- inside -----------------------------------------------------------------------------------

    def _read(self) -> Books:
        with self._chain.reading() as transaction:
            books = self._books.after(transaction.rows(self._books.last))
        self._books = books
        return books

    def _write(self, decide: Decision, create: bool = False) -> tuple[list[Row], Books]:
        """Append what `decide` makes of the books, alone in doing so, and keep the books up to date."""
        with self._chain.writing(create) as transaction:
            books = self._books.after(transaction.rows(self._books.last))
            entries = decide(books)
            if entries and books.last is None:
                entries = [("opened", {"id": uuid.uuid4().hex}), *entries]
            rows = transaction.append(books.last, entries)
            books = books.after(rows)
        self._books = books
        return rows, books

    def _affordable(self, books: Books, name: str, budget: Budget, relation: str, unit: Unit) -> int:
        account = books.accounts.get(name)
        if account is None or account.currency is None:
            raise self._no_grant(name, budget)
        charge = account.charge_for(budget, relation, unit)
        if charge > account.remaining_units:
            missing = of_units(account.currency, charge - account.remaining_units)
            granted = of_units(account.currency, account.granted_units)
            price = (
                "" if budget.currency == account.currency else f", which costs ρ = {decimal_text(charge)},"
            )
            raise BudgetError(
                f"'{name}' was asked for {budget}{price} but {account.remaining or 'nothing'} of {granted} "
                f"is left; to grant more: {self._command(name, missing)}"
            )
        return charge

    def _no_grant(self, name: str, budget: Budget) -> BudgetError:
        return BudgetError(
            f"'{name}' has no grant in ledger '{self.path}', asked for {budget}; "
            f"to grant it: {self._command(name, budget)}"
        )

    def _command(self, name: str, budget: Budget) -> str:
        option = "--epsilon" if budget.currency == "epsilon" else "--rho"
        ledger, amount = shlex.quote(self.path), decimal_text(budget.units)
        return f"dipsmith ledger grant {shlex.quote(name)} --ledger {ledger} {option} {amount}"


def _check_budget(budget: object) -> None:
    if not isinstance(budget, Budget):
        raise BudgetError(f"a budget is PureDP(ε) or ZCDP(ρ), got {type(budget).__name__}")


def _line(text: str, what: str, empty: bool = False) -> str:
    if not (text or empty) or not (text.isprintable() and len(text) <= 1000):
        raise UsageError(f"{what} must be one line of at most 1000 printable characters")
    return text


def _who(by: str | None) -> str:
    if by is not None:
        return _line(by, "by")
    try:
        return _line(getpass.getuser(), "the user's name")
    except (KeyError, OSError, ImportError, UsageError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _check_events(rows: Sequence[Row], books: Books) -> None:
    """Refuse recorded events that exceed the reservation they were recorded in."""
    accountants: dict[str, Accountant] = {}
    for row in rows:
        if row.kind != "recorded":
            continue
        content = json.loads(row.payload)
        run = books.runs[content["request"]]
        accountant = accountants.setdefault(run.id, Accountant(run.budget, run.relation))
        try:
            accountant.record(*(from_dict(event) for event in content["events"]))
        except BudgetError as error:
            raise DamageError(f"ledger row {row.seq}: events exceed their reservation: {error}") from None
