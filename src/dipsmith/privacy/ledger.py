"""The ledger: who granted how much, and what every run spent.

Spend before release: a run's whole budget is reserved, durably, before the first private value is
read. A reservation that fails before reading is given back; once data was read the charge stays, and
its request id never draws again. The ledger refuses to exceed a grant, to add up charges that protect
different things (relation, unit, private columns), and to mix currencies. It holds nothing private:
sources are sealed (`dipsmith.privacy.sealing`), and no row tells how long a run took.

Guarantee: the sum of the charges of all runs that read data, under one dataset's name, never exceeds
its grants — with any number of processes, and whichever of them is killed at whatever moment. By
composition (``docs/proofs/accounting.md``) everything ever released about the dataset then satisfies
its grant.

The rows are kept by `dipsmith.privacy.chain`, their meaning by `dipsmith.privacy.books`.
"""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, overload

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dipsmith.errors import BudgetError, DamageError, SameSourceError
from dipsmith.privacy.account import PaidRun, actor, grant_record, line
from dipsmith.privacy.books import Anchor, Books, DeclinedRequest, IntactLedger, require_heads, require_paid_events
from dipsmith.privacy.budget import Budget, budget_record, check_budget, decimal_text, of_units, option_of
from dipsmith.privacy.chain import RESTORE, Chain, Row
from dipsmith.privacy.events import Looked, event_record
from dipsmith.privacy.protection import Protection, protection_record, require_whole
from dipsmith.privacy.reservation import (
    AlreadyReleased,
    Decision,
    Entry,
    Reservation,
    refund,
    require_resumable,
    require_same,
)
from dipsmith.privacy.sealing import KeyFile
from dipsmith.privacy.signature import AnswerKey, Signed, check_public
from dipsmith.privacy.statement import Statement, Statements

__all__ = ["AlreadyReleased", "Anchor", "IntactLedger", "Ledger", "Reservation", "Statement", "Statements"]


class Ledger:
    """The record of grants and spends; safe for many processes and threads at once.

    Nothing is touched before it is used; the first grant (or look) creates the file. The path ":memory:" (a text, not a
    `Path` of that name) keeps it in this object, for tests. `patience` is how many seconds other processes'
    transactions (milliseconds each) are waited for.

    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.privacy.protection import Replace
    >>> from dipsmith.schema import Unit
    >>> ledger = Ledger(":memory:")
    >>> ledger.grant("people", PureDP(2), by="data office", why="pilot")
    >>> with ledger.reserve("people", PureDP("0.75"), protects=Replace(Unit()), source=None, request_id="r1",
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
        self._key_file = KeyFile(self._chain.path)
        self.answer_key = AnswerKey(self._chain.path)

    def __repr__(self) -> str:
        return f"Ledger({self.path!r})"

    # --- grants and spends ------------------------------------------------------------------------

    def grant(
        self, name: str, budget: Budget, by: str | None = None, why: str = "", private: Sequence[str] | None = None
    ) -> None:
        """Allow so much to be spent on a dataset, in addition to earlier grants of the same currency.

        `name` is its schema's name, `by` the OS user when omitted. `private` states the private columns under `label`, before
        the first spend fixes them, or for a dataset that spent under a ledger which did not note them.
        """
        content = grant_record(name, budget, by, why, private)

        def decide(books: Books) -> list[Entry]:
            if books.signatory is not None:
                raise BudgetError(
                    f"ledger '{self.path}' takes signed grants only; where the key is: dipsmith ledger sign "
                    f"{shlex.quote(name)} {option_of(budget)} --ledger-id {books.id} --key KEY --out grant.json"
                )
            books.require_grantable(content)
            return [("granted", content)]

        self._write(decide, create=True)

    def withdraw(self, name: str, by: str | None = None, why: str = "") -> None:
        """Take back the grants of a dataset from which nothing was spent, such as one in the wrong currency; both stay on record."""
        content = {"name": line(name, "the dataset's name"), "by": actor(by), "why": line(why, "why", empty=True)}

        def decide(books: Books) -> list[Entry]:
            if books.signatory is not None:
                raise BudgetError(
                    f"ledger '{self.path}' takes signed grants only, which nobody withdraws without the key"
                )
            if name not in books.accounts:
                raise BudgetError(f"'{name}' has no grant to withdraw")
            books.accounts[name].withdrawn()
            return [("withdrawn", content)]

        self._write(decide)

    def grant_signed(self, signed: Signed) -> str:
        """Take a grant that was signed elsewhere, once; gives the dataset's name.

        Refuses one for another ledger, one that was taken before, and any other key than the one the ledger names.
        """

        def decide(books: Books) -> list[Entry]:
            books.require_signed(signed)
            if signed.kind != "granted":
                raise BudgetError("the statement is no grant; it is for `dipsmith ledger require-signature`")
            books.require_grantable(signed.content)
            return [("granted", signed.row)]

        self._write(decide)
        return str(signed.content["name"])

    def require_signature(self, public: str | Signed) -> None:
        """From now on grants need the signature of this key; another key needs a signature of the one before.

        Give a public key as `read_public` does, or what `sign_successor` made with the key in office.
        """
        if not isinstance(public, Signed):
            check_public(public)

        def decide(books: Books) -> list[Entry]:
            if isinstance(public, Signed):
                books.require_signed(public)
                if public.kind != "signatory":
                    raise BudgetError("the statement is a grant; it is for `dipsmith ledger grant --signed`")
                check_public(public.content["public"])
                return [("signatory", public.row)]
            if books.signatory is not None:
                raise BudgetError(
                    f"ledger '{self.path}' names a key already; another takes over by the signature of that one: "
                    f"dipsmith ledger sign --successor NEW.pub --ledger-id {books.id} --key KEY --out change.json"
                )
            return [("signatory", {"public": public})]

        self._write(decide, create=True)

    def reserve(
        self,
        name: str,
        budget: Budget,
        *,
        protects: Protection,
        source: str | None,
        also: Sequence[str] = (),
        request_id: str | None = None,
        method: str,
        by: str | None = None,
        another_grant: bool = False,
        delta: Fraction = Fraction(0),
    ) -> Reservation:
        """Charge a run's whole budget, durably, before it reads anything; pure ε costs πε²/4 where the grant is in ρ.

        `protects` is what the budget means (`protection_of` a schema), fixed for a name by its first spend; `source` the digest
        of the rows (`dipsmith.sources.fingerprint`), kept sealed, None where they have none, `also` those of members. A request id, drawn at random when
        omitted, buys one run: again, it continues a reservation that never read data, and is refused once data was read.
        `another_grant` confirms that the same source may be spent under this name too, beside another one's grant; `delta` is
        spent besides where values are discovered, and adds up.

        Raises `AlreadyReleased`, which says where the release is, if the request id was finished before.
        """
        check_budget(budget)
        require_whole(protects)
        request: dict[str, Any] = {
            "name": line(name, "the dataset's name"),
            "request": line(uuid.uuid4().hex if request_id is None else request_id, "the request id"),
            "budget": budget_record(budget),
            **protection_record(protects),
            "method": line(method, "the method"),
            "by": actor(by),
            **({"another_grant": True} if another_grant else {}),
            **({"delta": str(delta)} if delta else {}),
        }
        if not self._chain.exists():
            raise self._no_grant(name, budget)
        digests = [digest for digest in (source, *also) if digest is not None]

        def decide(books: Books) -> list[Entry]:
            known = books.runs.get(request["request"])
            if known is not None and known.state != "cancelled":
                require_same(known, name, budget, protects, method, delta)
                self._require_same_source(known, digests)
                require_resumable(known)
                return []
            charge = self._affordable(books, name, budget, protects)
            sealed = self._seal_sources(books, name, digests, another_grant)
            priced = {"pricing": "gaussian"} if books.accounts[name].currency == "rho" else {}
            return [("reserved", {**request, **sealed, **priced, "charge": charge})]

        _, books = self._write(decide)
        return Reservation(books.runs[request["request"]], self._write)

    def cancel(self, request_id: str) -> None:
        """Give back a reservation that never read data, such as one of a process that was killed.

        Safe at any moment: a process that still holds it is refused when it tries to read.
        """
        self._write(lambda books: refund(books, request_id))

    def signing_key(self) -> Ed25519PrivateKey:
        """The key beside the ledger that signs answers, made when it is first needed."""
        found: list[Ed25519PrivateKey] = []

        def decide(_: Books) -> list[Entry]:
            found.append(self.answer_key.key())
            return []

        self._write(decide)
        return found[0]

    def look(self, name: str, what: str, by: str | None = None) -> int:
        """Log that a person looked at exact figures of private rows; gives the number of looks so far."""
        event = Looked(what=line(what, "what was looked at"), by=actor(by))
        content = {"name": line(name, "the dataset's name"), "event": event_record(event)}
        _, books = self._write(lambda books: [("looked", content)], create=True)
        return books.accounts[name].looks

    def decline(self, name: str, request_id: str, why: str, by: str | None = None) -> None:
        """Note that a request for an answer was declined, and why; refuses one that was charged already."""
        content = {
            "name": line(name, "the dataset's name"),
            "request": line(request_id, "the request id"),
            "why": line(why, "the reason"),
            "by": actor(by),
        }

        def decide(books: Books) -> list[Entry]:
            run = books.runs.get(request_id)
            if run is not None and run.state != "cancelled":
                raise BudgetError(f"request '{request_id}' was charged already ({run.state}); it cannot be declined")
            return [("declined", content)]

        self._write(decide, create=True)

    # --- reading ----------------------------------------------------------------------------------

    def declined(self, request_id: str) -> DeclinedRequest | None:
        """Who declined a request and why; None where nobody did."""
        return self._read().declined.get(request_id) if self._chain.exists() else None

    def run(self, request_id: str) -> PaidRun | None:
        """What a request was charged and how far it came; None where it never was."""
        return self._read().runs.get(request_id) if self._chain.exists() else None

    @property
    def head(self) -> str:
        """The hash that stands for the whole history."""
        return self.anchor.head

    @property
    def anchor(self) -> Anchor:
        """The last row's number, time and hash, to be written down outside the machine."""
        if (last := self._read().last) is None:
            raise DamageError(f"ledger '{self.path}' has no rows: {RESTORE}")
        return Anchor(last.seq, last.time, last.hash)

    @property
    def id(self) -> str:
        """The ledger's own id, which signed grants are bound to."""
        return self._read().id

    def looks(self, name: str) -> int:
        """How many confidential looks were logged for a dataset."""
        return len(self.looked(name))

    def looked(self, name: str) -> tuple[str, ...]:
        """What was looked at, look by look."""
        account = self._read().accounts.get(name) if self._chain.exists() else None
        return () if account is None else account.looked

    def charged_for(self, digests: Iterable[str]) -> tuple[str, ...]:
        """The datasets that were charged for a source with one of these digests."""
        key = self._key_file.present() if self._chain.exists() else None
        return () if key is None else tuple(n for d in digests for n in self._read().known_as(None, key, d))

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

    def verify(self, cards: Sequence[str] = (), heads: Sequence[str] = ()) -> IntactLedger:
        """Check every page, guard, link, signature and balance, and that known heads are in the chain.

        `cards` are heads that stand on cards, `heads` those that were written down elsewhere (`anchor`). Raises `DamageError`
        if rows were edited, deleted, reordered or could not lawfully be written, or if a head is missing, which
        means that the ledger was rolled back or is another one.
        """
        with self._chain.reading() as transaction:
            rows = transaction.check()
        books = Books().after(rows)
        require_paid_events(rows, books)
        self._books = books
        require_heads(self.path, rows, cards, heads)
        return IntactLedger(len(rows), rows[-1].hash, len(cards), len(heads), len(books.nonces))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger into a new file, whole or not at all; the key beside it is not copied."""
        self._chain.backup(path)

    # --- inside -----------------------------------------------------------------------------------

    def _read(self) -> Books:
        with self._chain.reading() as transaction:
            books = self._books.after(transaction.rows(self._books.last))
        self._books = books
        return books

    def _write(self, decide: Decision, time: str | None = None, create: bool = False) -> tuple[list[Row], Books]:
        """Append what `decide` makes of the books, alone in doing so, and keep the books up to date."""
        with self._chain.writing(create) as transaction:
            books = self._books.after(transaction.rows(self._books.last))
            entries = decide(books)
            if entries and books.last is None:
                entries = [("opened", {"id": uuid.uuid4().hex}), *entries]
            rows = transaction.append(books.last, entries, time)
            books = books.after(rows)
        self._books = books
        return rows, books

    def _require_same_source(self, run: PaidRun, digests: Sequence[str]) -> None:
        if not digests or not run.seals:
            return
        key = self._key_file.key(run.seals)
        if key and any(s.key == key.id and not any(key.opens(s, digest) for digest in digests) for s in run.seals):
            raise BudgetError(f"request '{run.id}' was reserved for other rows: use a new request id")

    def _seal_sources(self, books: Books, name: str, digests: Sequence[str], confirmed: bool) -> dict[str, Any]:
        """What a reservation says of its sources; refuses one that another dataset was charged for."""
        key = self._key_file.key(seal for run in books.others(name) for seal in run.seals) if digests else None
        if key is None:
            return {}
        known = [other for digest in digests for other in books.known_as(name, key, digest)]
        if known and not confirmed:
            raise SameSourceError(
                f"'{name}' has the same source as '{known[0]}', whose grant was charged for it: two grants for the same "
                "people add up; use that name, or confirm with --another-grant (another_grant=True)"
            )
        source, *also = (asdict(key.seal(digest)) for digest in digests)
        return {"source": source, **({"also": also} if also else {})}

    def _affordable(self, books: Books, name: str, budget: Budget, protects: Protection) -> int:
        account = books.accounts.get(name)
        if account is None or account.currency is None:
            raise self._no_grant(name, budget)
        charge = account.charge_for(budget, protects)
        if charge > account.remaining_units:
            missing = of_units(account.currency, charge - account.remaining_units)
            granted = of_units(account.currency, account.granted_units)
            price = "" if budget.currency == account.currency else f", which costs ρ = {decimal_text(charge)},"
            raise BudgetError(
                f"'{name}' was asked for {budget}{price} but {account.remaining or 'nothing'} of {granted} "
                f"is left; to grant more: {self._command(name, missing)}"
            )
        return charge

    def _no_grant(self, name: str, budget: Budget) -> BudgetError:
        return BudgetError(
            f"'{name}' has no grant in ledger '{self.path}', asked for {budget}; to grant it: {self._command(name, budget)}"
        )

    def _command(self, name: str, budget: Budget) -> str:
        return f"dipsmith ledger grant {shlex.quote(name)} --ledger {shlex.quote(self.path)} {option_of(budget)}"
