"""The books: what the rows of a ledger add up to.

A pure fold: every balance is computed from the chain's rows in order, none is stored. The fold also
checks that each row was lawful when it was written (a charge within its grant, a refund only of a
run that had read nothing), so that a row which no dipsmith would have written is found even where
its hash is right.

A run's life::

    reserved ──▶ read ──▶ finished        the charge stays
       │           └────▶ failed          the charge stays
       └──▶ cancelled                     the charge is given back: nothing was read
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dipsmith.errors import BudgetError, DamageError
from dipsmith.privacy.accountant import converted
from dipsmith.privacy.budget import Budget, Currency, of_units
from dipsmith.privacy.chain import Row
from dipsmith.privacy.neighbours import RELATIONS
from dipsmith.schema.schema import Unit

RunState = Literal["reserved", "read", "cancelled", "failed", "finished"]

_BEFORE: Mapping[str, tuple[RunState, ...]] = {
    "read": ("reserved",),
    "recorded": ("read",),
    "cancelled": ("reserved",),
    "failed": ("read",),
    "finished": ("read", "finished"),
}

_STATES: Mapping[str, RunState] = {
    "read": "read",
    "cancelled": "cancelled",
    "failed": "failed",
    "finished": "finished",
}


@dataclass(frozen=True, slots=True)
class Grant:
    """An amount that somebody allowed to be spent on a dataset."""

    budget: Budget
    stated: str
    by: str
    why: str
    time: str


@dataclass(frozen=True, slots=True)
class Run:
    """One paid run: its request id, what it was charged, and how far it came.

    Attributes
    ----------
    charge
        What it costs in the grant's currency, in units of 1e-12.
    seq, hash
        The ledger row that reserved it.
    digests, path
        Once finished: the SHA-256 of the card of every saved copy of the release, and the folder of
        the first.
    """

    id: str
    name: str
    budget: Budget
    charge: int
    relation: str
    unit: Unit
    method: str
    by: str
    time: str
    seq: int
    hash: str
    state: RunState = "reserved"
    digests: tuple[str, ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of one dataset; amounts in units of 1e-12 of its currency."""

    name: str
    currency: Currency | None = None
    granted_units: int = 0
    spent_units: int = 0
    relation: str | None = None
    unit: Unit | None = None
    charged_runs: int = 0
    looks: int = 0
    grants: tuple[Grant, ...] = ()

    @property
    def remaining_units(self) -> int:
        """What may still be spent."""
        return self.granted_units - self.spent_units

    @property
    def remaining(self) -> Budget | None:
        """What may still be spent, None when nothing may."""
        if self.currency is None or self.remaining_units == 0:
            return None
        return of_units(self.currency, self.remaining_units)

    def granted(self, grant: Grant) -> Account:
        """The account after a grant; refuses another currency."""
        if self.currency not in (None, grant.budget.currency):
            held = "ρ" if self.currency == "rho" else "ε"
            raise BudgetError(
                f"'{self.name}' is granted in {held}, got {grant.budget}: one currency per dataset"
            )
        return replace(
            self,
            currency=grant.budget.currency,
            granted_units=self.granted_units + grant.budget.units,
            grants=(*self.grants, grant),
        )

    def charge_for(self, budget: Budget, relation: str, unit: Unit) -> int:
        """What a run costs in this account's currency; refuses terms that differ from earlier spends."""
        if self.currency is None:
            raise BudgetError(f"'{self.name}' has no grant")
        for what, held, got in (("neighbours", self.relation, relation), ("unit", self.unit, unit)):
            if held not in (None, got):
                raise BudgetError(
                    f"'{self.name}' has spent under {what} '{held}', got '{got}': "
                    "their budgets mean different things and cannot be added up"
                )
        return converted(budget, self.currency)

    def charged(self, run: Run) -> Account:
        """The account after a reservation; refuses what its terms or its balance do not allow."""
        if run.charge != self.charge_for(run.budget, run.relation, run.unit):
            raise BudgetError("the charge is not the budget's price")
        if run.charge > self.remaining_units:
            raise BudgetError("the charge exceeds what was left")
        return replace(
            self,
            relation=run.relation,
            unit=run.unit,
            spent_units=self.spent_units + run.charge,
            charged_runs=self.charged_runs + 1,
        )

    def refunded(self, run: Run) -> Account:
        """The account after a run was cancelled; the first spend that stands fixes relation and unit."""
        left = self.charged_runs - 1
        return replace(
            self,
            spent_units=self.spent_units - run.charge,
            charged_runs=left,
            relation=self.relation if left else None,
            unit=self.unit if left else None,
        )


@dataclass(frozen=True, slots=True)
class Books:
    """All accounts and runs as of one row of the chain."""

    last: Row | None = None
    accounts: Mapping[str, Account] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)

    def after(self, rows: Iterable[Row]) -> Books:
        """The books after more rows; raises DamageError at a row that could not lawfully follow."""
        rows = list(rows)
        if not rows:
            return self
        accounts, runs, last = dict(self.accounts), dict(self.runs), self.last
        for row in rows:
            try:
                _enter(row, json.loads(row.payload), accounts, runs)
            except (BudgetError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise DamageError(
                    f"ledger row {row.seq} ({row.kind}) could not lawfully be written: {error}"
                ) from None
            last = row
        return Books(last, accounts, runs)


def _enter(row: Row, content: dict[str, Any], accounts: dict[str, Account], runs: dict[str, Run]) -> None:
    if row.kind == "opened":
        if row.seq != 1:
            raise ValueError("a ledger is opened once")
    elif row.kind == "granted":
        account = accounts.get(content["name"], Account(content["name"]))
        grant = Grant(
            budget_from(content["budget"]), content["stated"], content["by"], content["why"], row.time
        )
        accounts[account.name] = account.granted(grant)
    elif row.kind == "looked":
        account = accounts.get(content["name"], Account(content["name"]))
        accounts[account.name] = replace(account, looks=account.looks + 1)
    elif row.kind == "reserved":
        run = _reserved(row, content)
        if run.id in runs and runs[run.id].state != "cancelled":
            raise ValueError(f"request '{run.id}' was reserved before")
        accounts[run.name] = accounts[run.name].charged(run)
        runs[run.id] = run
    else:
        run = runs[content["request"]]
        if run.state not in _BEFORE[row.kind]:
            raise ValueError(f"request '{run.id}' was {run.state}")
        if row.kind == "cancelled":
            accounts[run.name] = accounts[run.name].refunded(run)
        if row.kind == "finished":
            run = replace(run, digests=(*run.digests, content["digest"]), path=run.path or content["path"])
        if row.kind != "recorded":
            runs[run.id] = replace(run, state=_STATES[row.kind])


def _reserved(row: Row, content: dict[str, Any]) -> Run:
    if content["relation"] not in RELATIONS:
        raise ValueError("the relation is unknown")
    return Run(
        id=content["request"],
        name=content["name"],
        budget=budget_from(content["budget"]),
        charge=content["charge"],
        relation=content["relation"],
        unit=Unit(**content["unit"]),
        method=content["method"],
        by=content["by"],
        time=row.time,
        seq=row.seq,
        hash=row.hash,
    )


def budget_record(budget: Budget) -> dict[str, int]:
    """The budget as it is written in the ledger: its currency and units."""
    return {budget.currency: budget.units}


def budget_from(record: Mapping[str, int]) -> Budget:
    """The budget back from `budget_record`."""
    ((currency, units),) = record.items()
    return of_units(currency, units)
