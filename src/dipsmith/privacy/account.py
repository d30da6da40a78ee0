"""An account: the balance of one dataset, what its spends protect, and the runs that were charged to it.

A run's life::

    reserved ──▶ read ──▶ finished        the charge stays
       │           └────▶ failed          the charge stays
       └──▶ cancelled                     the charge is given back: nothing was read
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from dipsmith.errors import BudgetError, UsageError
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import Budget, Currency, budget_from, budget_record, check_budget, of_units
from dipsmith.privacy.chain import Row
from dipsmith.privacy.gaussian_price import Pricing
from dipsmith.privacy.protection import (
    Label,
    Protection,
    column_set,
    columns_in_words,
    protection_from,
    require_agreement,
)
from dipsmith.privacy.sealing import Seal

RunState = Literal["reserved", "read", "cancelled", "failed", "finished"]


@dataclass(frozen=True, slots=True)
class Grant:
    """An amount that somebody allowed to be spent on a dataset.

    `private` are the columns that it says are private under `label`; `signed` whether the ledger holds a signature for it.
    """

    budget: Budget
    stated: str
    by: str
    why: str
    time: str = ""
    private: tuple[str, ...] | None = None
    signed: bool = False


@dataclass(frozen=True, slots=True)
class PaidRun:
    """One paid run: its request id, what it was charged, and how far it came.

    `charge` is in the grant's currency, in units of 1e-12, by the `pricing` of its time; `delta` is spent besides
    where values were discovered. `seq` and `hash` are of the ledger row that reserved it. `source` is
    the sealed digest of the rows; None where they have none, or in a ledger of format 1; `also` those of further tables
    of the same people, such as members of households. Once finished, `digests` are
    the SHA-256 of the card of every saved copy of the release, and `path` is the folder of the first.
    """

    id: str
    name: str
    budget: Budget
    charge: int
    protects: Protection
    method: str
    by: str
    time: str
    seq: int
    hash: str
    pricing: Pricing = "zcdp"
    source: Seal | None = None
    also: tuple[Seal, ...] = ()
    another_grant: bool = False
    delta: Fraction = Fraction(0)
    state: RunState = "reserved"
    digests: tuple[str, ...] = ()
    path: str = ""

    @property
    def seals(self) -> tuple[Seal, ...]:
        """All sealed digests."""
        return self.also if self.source is None else (self.source, *self.also)

    @classmethod
    def from_row(cls, row: Row, content: Mapping[str, Any]) -> PaidRun:
        """The run that a row reserves."""
        return cls(
            id=content["request"],
            **{key: content[key] for key in ("name", "charge", "method", "by")},
            budget=budget_from(content["budget"]),
            protects=protection_from(content),
            pricing=content.get("pricing", "zcdp"),
            **{key: getattr(row, key) for key in ("time", "seq", "hash")},
            source=Seal.from_record(content["source"]) if "source" in content else None,
            also=tuple(map(Seal.from_record, content.get("also", ()))),
            another_grant=content.get("another_grant", False),
            delta=Fraction(content.get("delta", 0)),
        )


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of one dataset; amounts in units of 1e-12 of its currency.

    `protects` is fixed by the first spend that stands; `private` are the columns that a grant stated.
    """

    name: str
    currency: Currency | None = None
    granted_units: int = 0
    spent_units: int = 0
    protects: Protection | None = None
    private: tuple[str, ...] | None = None
    delta: Fraction = Fraction(0)
    charged_runs: int = 0
    looked: tuple[str, ...] = ()
    """What was looked at, look by look."""
    grants: tuple[Grant, ...] = ()

    @property
    def looks(self) -> int:
        """How many confidential looks were logged."""
        return len(self.looked)

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

    def after_grant(self, grant: Grant) -> Account:
        """The account after a grant; refuses another currency, and columns that contradict what is fixed."""
        if self.currency not in (None, grant.budget.currency):
            got = f"{'ρ' if self.currency == 'rho' else 'ε'}, got {grant.budget}"
            raise BudgetError(f"'{self.name}' is granted in {got}: one currency per dataset")
        return replace(
            self,
            currency=grant.budget.currency,
            granted_units=self.granted_units + grant.budget.units,
            grants=(*self.grants, grant),
            **({} if grant.private is None else self._private_columns_update(grant.private)),
        )

    def withdrawn(self) -> Account:
        """The account without its grants; refused once anything was spent from them."""
        if self.currency is None:
            raise BudgetError(f"'{self.name}' has no grant to withdraw")
        if self.spent_units or self.charged_runs:
            raise BudgetError(
                f"'{self.name}' has spent from its grants: what is left stays granted, and can be left unused"
            )
        return replace(self, currency=None, granted_units=0, grants=(), private=None)

    def _private_columns_update(self, private: tuple[str, ...]) -> dict[str, Any]:
        held = self.protects
        if held is not None and not isinstance(held, Label):
            raise BudgetError(
                f"'{self.name}' has spent under neighbours '{held.relation}', where every column is protected: "
                "leave the private columns out"
            )
        fixed = self.private if held is None or held.private is None else held.private
        if fixed not in (None, private):
            raise BudgetError(
                f"'{self.name}' has private {columns_in_words(fixed)} already, got {columns_in_words(private)}: what is protected "
                "is fixed for a name; use another name with a grant of its own"
            )
        # Spends of a ledger of format 1 did not say which columns they were about: the grant does.
        return {"private": private, "protects": None if held is None else replace(held, private=private)}

    def require_agreement(self, protects: Protection) -> None:
        """Refuse to protect something else than earlier spends, or than a grant stated."""
        require_agreement(self.name, self.protects, protects)
        if self.private is None or (isinstance(protects, Label) and protects.private == self.private):
            return
        asked = protects.private or () if isinstance(protects, Label) else None
        got = f"'{protects.relation}'" if asked is None else columns_in_words(asked)
        raise BudgetError(
            f"'{self.name}' was granted for neighbours 'label' with private {columns_in_words(self.private)}, got {got}: "
            "set relation and roles as granted, or use another name with a grant of its own"
        )

    def charge_for(self, budget: Budget, protects: Protection, pricing: Pricing = "gaussian") -> int:
        """What a run costs in this account's currency; refuses terms that differ from earlier spends."""
        if self.currency is None:
            raise BudgetError(f"'{self.name}' has no grant")
        self.require_agreement(protects)
        return convert(budget, self.currency, pricing)

    def after_charge(self, run: PaidRun) -> Account:
        """The account after a reservation; refuses what its terms or its balance do not allow."""
        if run.charge != self.charge_for(run.budget, run.protects, run.pricing):
            raise BudgetError("the charge is not the budget's price")
        if run.charge > self.remaining_units:
            raise BudgetError("the charge exceeds what was left")
        return replace(
            self,
            protects=run.protects,
            spent_units=self.spent_units + run.charge,
            delta=self.delta + run.delta,
            charged_runs=self.charged_runs + 1,
        )

    def after_refund(self, run: PaidRun) -> Account:
        """The account after a run was cancelled; the first spend that stands fixes what is protected."""
        left = self.charged_runs - 1
        return replace(
            self,
            spent_units=self.spent_units - run.charge,
            delta=self.delta - run.delta,
            charged_runs=left,
            protects=self.protects if left else None,
        )


def grant_record(name: str, budget: Budget, by: str | None, why: str, private: Sequence[str] | None) -> dict[str, Any]:
    """A grant as it is written in the ledger and signed; refuses what cannot be one."""
    check_budget(budget)
    record: dict[str, Any] = {
        "name": line(name, "the dataset's name"),
        "budget": budget_record(budget),
        "stated": str(budget),
        "by": actor(by),
        "why": line(why, "why", empty=True),
    }
    if private is not None:
        record["private"] = [line(column, "a private column's name") for column in column_set(private)]
    return record


def grant_from(record: Mapping[str, Any], time: str) -> Grant:
    """The grant back from `grant_record`."""
    return Grant(
        budget_from(record["budget"]),
        record["stated"],
        record["by"],
        record["why"],
        time,
        column_set(record["private"]) if "private" in record else None,
        "signed" in record,
    )


def line(text: str, what: str, empty: bool = False) -> str:
    """A text itself, if it is one printable line."""
    if not (text or empty) or not (text.isprintable() and len(text) <= 1000):
        raise UsageError(f"{what} must be one line of at most 1000 printable characters")
    return text


def actor(by: str | None) -> str:
    """Who acts: as stated, or the OS user."""
    if by is not None:
        return line(by, "by")
    try:
        return line(getpass.getuser(), "the user's name")
    except (KeyError, OSError, ImportError, UsageError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
