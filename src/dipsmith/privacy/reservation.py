"""A reservation: the budget of one run, charged before it reads, and the record of how it was used.

It passes through one gate, `read`: before it nothing private was seen and the charge can be given
back, after it the charge stays. The gate opens once per request id, whoever holds the reservation, so
that no id ever draws twice.

Whatever a run notes after its reservation carries the reservation's time: how long reading takes depends on
the rows, and the ledger does not tell it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dipsmith.errors import BudgetError, DipsmithError, UsageError
from dipsmith.privacy.account import PaidRun, RunState
from dipsmith.privacy.accountant import Accountant
from dipsmith.privacy.books import Books
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.chain import Row
from dipsmith.privacy.events import Event, event_record
from dipsmith.privacy.protection import Protection, as_format_1_noted

Entry = tuple[str, dict[str, Any]]
Decision = Callable[[Books], list[Entry]]
Write = Callable[[Decision, str | None], tuple[list[Row], Books]]
"""Append what a decision makes of the books, alone in doing so, durably; with a time of its own, or the present."""


def require_accountability(ledger: object, noise_seed: object, *, testing: bool) -> None:
    """Refuse a run without a ledger, or with noise that can be repeated, unless it is a test."""
    if noise_seed is not None and not testing:
        raise UsageError("a noise seed voids the guarantee and is accepted only with testing=True")
    if ledger is None and not testing:
        raise UsageError("a ledger is required: ledger=Ledger('budget.db'), with a grant for the dataset")


class AlreadyReleased(BudgetError):  # noqa: N818 - it tells what happened, and where the release is
    """The request id bought a run that was released: return that release, never draw again."""

    def __init__(self, request_id: str, path: str, digest: str) -> None:
        super().__init__(f"request '{request_id}' was released to '{path}': use it, or a new request id")
        self.request_id = request_id
        self.path = path
        self.digest = digest


class Reservation:
    """A budget that was charged for one run, and the record of how it was used.

    As a context manager it settles the run when the block ends without `finish`: given back if
    nothing was read, kept as failed otherwise. It belongs to one process: a forked child could spend
    the same budget a second time.
    """

    def __init__(self, run: PaidRun, write: Write) -> None:
        self.id = run.id
        self.name = run.name
        self.budget = run.budget
        self.head = run.hash
        """The hash of the last ledger row of this run: what a card keeps to prove the charge."""
        self.time = run.time
        """When it was reserved: the time of all its rows."""
        self.accountant = Accountant(run.budget, run.protects.relation, run.pricing, run.delta)
        self.events: list[Event] = []
        self._write = write
        self._seq = run.seq
        self._state: RunState = run.state
        self._process = os.getpid()

    def read(self) -> None:
        """Note, durably, that data is about to be read: from here on the charge stays.

        Only one holder of a reservation passes this point.
        """
        if self._state != "read":
            self._append("read", [])

    def record(self, *events: Event) -> None:
        """Note, durably, what is about to be measured; refuses to exceed the reservation."""
        self.accountant.record(*events)
        content = {"request": self.id, "events": [event_record(event) for event in events]}
        self._append("read", [("recorded", content)])
        self.events.extend(events)

    def finish(self, digest: str, path: str | os.PathLike[str]) -> None:
        """Note that the release was written: its card's SHA-256 and its folder; again for a further copy."""
        content = {"request": self.id, "digest": digest, "path": os.fspath(Path(path).absolute())}
        self._append("finished", [("finished", content)])

    def cancel(self) -> None:
        """Give the budget back; refused once data was read."""
        if self._state != "reserved":
            raise BudgetError(f"request '{self.id}' has read data ({self._state}): its charge stays")
        self._write(lambda books: refund(books, self.id, self._seq), None)
        self._state = "cancelled"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            return
        try:
            if self._state == "read":
                self._append("failed", [("failed", {"request": self.id})])
            elif self._state == "reserved":
                self.cancel()
        except DipsmithError as unsettled:
            # The charge stands either way; what went wrong first is what the caller must see.
            if error is None:
                raise
            error.add_note(f"The ledger could not note how the run ended: {unsettled}")

    def _append(self, state: RunState, entries: list[Entry]) -> None:
        """Append entries that leave the run in a state, passing the gate first where it is closed yet."""
        if os.getpid() != self._process:
            raise UsageError(f"request '{self.id}' belongs to the process that reserved it, not its children")
        if self._state in ("cancelled", "failed") or (self._state == "finished" and state != "finished"):
            raise BudgetError(f"request '{self.id}' has ended ({self._state}): use a new request id")

        def decide(books: Books) -> list[Entry]:
            run = books.runs.get(self.id)
            if run is None or run.seq != self._seq or run.state != self._state:
                raise BudgetError(f"request '{self.id}' was taken over or given back: use a new request id")
            return [("read", {"request": self.id}), *entries] if self._state == "reserved" else entries

        rows, _ = self._write(decide, self.time)
        self.head = rows[-1].hash
        self._state = state


def refund(books: Books, request_id: str, seq: int | None = None) -> list[Entry]:
    """The entry that gives a reservation back; refused once data was read, or if it is another's by now."""
    run = books.runs.get(request_id)
    if run is None or run.state == "cancelled" or seq not in (None, run.seq):
        raise BudgetError(f"request '{request_id}' holds no reservation")
    if run.state != "reserved":
        raise BudgetError(f"request '{request_id}' has read data ({run.state}): its charge stays")
    return [("cancelled", {"request": request_id})]


def require_same(
    run: PaidRun, name: str, budget: Budget, protects: Protection, method: str, delta: Fraction = Fraction(0)
) -> None:
    """Refuse a request id that comes back with another request."""
    # What was released under a ledger of format 1 is returned: nothing is drawn or charged for it.
    noted = protects if run.state == "reserved" else as_format_1_noted(protects)
    if run.protects != protects and run.protects == noted:
        protects = noted
    asked = {"dataset": name, "budget": budget, **_terms(protects), "method": method, "δ": str(float(delta))}
    first = {
        "dataset": run.name,
        "budget": run.budget,
        **_terms(run.protects),
        "method": run.method,
        "δ": str(float(run.delta)),
    }
    for what, value in asked.items():
        if value != first[what]:
            raise BudgetError(f"request '{run.id}' had {what} '{first[what]}', got '{value}': use a new request id")


def _terms(protects: Protection) -> dict[str, object]:
    private = getattr(protects, "private", None)
    return {
        "neighbours": protects.relation,
        "unit": protects.unit,
        "private columns": "unknown" if private is None else ", ".join(private),
        f"bins of {protects.unit.per}": protects.per_domain,
    }


def require_resumable(run: PaidRun) -> None:
    """Refuse a request id whose run has read data."""
    if run.state == "finished":
        raise AlreadyReleased(run.id, run.path, run.digests[0])
    if run.state != "reserved":
        raise BudgetError(
            f"request '{run.id}' has read data without a release and never draws again: "
            "use a new request id, which is a new charge"
        )
