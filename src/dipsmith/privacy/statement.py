"""A statement: what was granted, spent and left for a dataset, for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from html import escape
from typing import Any

from dipsmith.errors import BudgetError
from dipsmith.privacy.account import Account, Grant, PaidRun
from dipsmith.privacy.books import Books
from dipsmith.privacy.budget import UNITS, ZCDP, Currency, decimal_text, rho_to_approx
from dipsmith.privacy.gaussian_profile import concentrated_to_approx
from dipsmith.privacy.protection import Label, Protection, columns_in_words
from dipsmith.schema.schema import Unit

USUAL_DELTA = 1e-9
"""The δ at which balances in ρ are also shown as an ε."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One dataset's grants, runs and balance; amounts in units of 1e-12 of its currency.

    `protects` is None before the first spend. `private` are its private columns under `label`, by its spends or as a grant
    stated them; None where nobody said.
    """

    name: str
    currency: Currency | None
    granted_units: int
    spent_units: int
    protects: Protection | None
    private: tuple[str, ...] | None
    looks: int
    grants: tuple[Grant, ...]
    runs: tuple[PaidRun, ...]
    delta: Fraction = Fraction(0)

    @property
    def relation(self) -> str | None:
        """The neighbouring relation of its spends; None before the first."""
        return None if self.protects is None else self.protects.relation

    @property
    def unit(self) -> Unit | None:
        """The unit of its spends; None before the first."""
        return None if self.protects is None else self.protects.unit

    @property
    def remaining_units(self) -> int:
        """What may still be spent."""
        return self.granted_units - self.spent_units

    @property
    def granted(self) -> float:
        """What was granted, as a number."""
        return self.granted_units / UNITS

    @property
    def spent(self) -> float:
        """What was spent, as a number."""
        return self.spent_units / UNITS

    @property
    def remaining(self) -> float:
        """What may still be spent, as a number."""
        return self.remaining_units / UNITS

    def as_dict(self) -> dict[str, Any]:
        """The statement as plain JSON values; exact amounts are in units of 1e-12."""
        balance = ("name", "currency", "granted", "spent", "remaining")
        units = ("granted_units", "spent_units", "remaining_units")
        run = ("method", "state", "by", "time", "path", "another_grant")
        return {
            **{name: getattr(self, name) for name in (*balance, *units)},
            "neighbours": self.relation,
            "unit": None if self.unit is None else str(self.unit),
            "private": None if self.private is None else list(self.private),
            **({"delta": float(self.delta)} if self.delta else {}),
            "looks": self.looks,
            "grants": [
                {"budget": g.stated, "by": g.by, "why": g.why, "time": g.time, "signed": g.signed} for g in self.grants
            ],
            "runs": [
                {"request": r.id, "budget": str(r.budget)}
                | {"charge": r.charge / UNITS, "charge_units": r.charge}
                | {name: getattr(r, name) for name in run}
                for r in self.runs
            ],
        }

    def epsilon_of(self, units: int) -> float:
        """The ε of an amount; of a ρ at the usual δ, the larger one of concentrated DP where a run of its time stands."""
        if self.currency != "rho":
            return units / UNITS
        if any(run.pricing == "zcdp" and run.state != "cancelled" for run in self.runs):
            return concentrated_to_approx(units / UNITS, USUAL_DELTA)
        return rho_to_approx(ZCDP.of_units(units), USUAL_DELTA)

    def __str__(self) -> str:
        symbol = "ρ" if self.currency == "rho" else "ε"
        left, granted = decimal_text(self.remaining_units), decimal_text(self.granted_units)
        balance = f"{symbol} = {left} left of {granted}" if self.currency else "no grant"
        if self.currency == "rho" and self.remaining_units:
            # what people know ρ by: the ε of an (ε, δ) at a δ that is usual
            epsilons = [self.epsilon_of(units) for units in (self.remaining_units, self.granted_units)]
            balance += f" (ε = {epsilons[0]:.3g} of {epsilons[1]:.3g} at δ = {USUAL_DELTA:g})"
        balance += f", and δ = {float(self.delta):g} spent" if self.delta else ""
        under = f", neighbours {self.relation}, unit {self.unit}" if self.relation else ""
        under += "" if self.private is None else f", private {columns_in_words(self.private)}"
        lines = [f"{self.name}: {balance}{under}, {self.looks} confidential look{'s' * (self.looks != 1)}"]
        lines += [
            f"  + {g.stated}  {g.time[:19]}  {'signed ' * g.signed}by {g.by}{': ' + g.why if g.why else ''}"
            for g in self.grants
        ]
        lines += [
            f"  − {r.budget}{f', δ = {float(r.delta):g}' if r.delta else ''}  {r.time[:19]}  {r.method}  {r.state}  request {r.id}"
            f"{'  (another grant for its source was confirmed)' * r.another_grant}"
            for r in self.runs
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        runs = "".join(
            f"<tr><td>{escape(r.time[:19])}</td><td>{escape(str(r.budget))}</td><td>{escape(r.method)}</td>"
            f"<td>{escape(r.state)}</td><td>{escape(r.id)}</td></tr>"
            for r in self.runs
        )
        head = escape(str(self).splitlines()[0])
        columns = "".join(f"<th>{c}</th>" for c in ("time (UTC)", "budget", "method", "state", "request"))
        return f"<table><caption>{head}</caption><tr>{columns}</tr>{runs}</table>"


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of all datasets under a ledger."""

    of: tuple[Statement, ...]

    @classmethod
    def from_books(cls, books: Books) -> Statements:
        """One statement per account, in the order of the names."""
        return cls(tuple(_statement(a, books) for _, a in sorted(books.accounts.items())))

    def __getitem__(self, name: str) -> Statement:
        for statement in self.of:
            if statement.name == name:
                return statement
        has = ", ".join(s.name for s in self.of) or "nothing"
        raise BudgetError(f"'{name}' is not in the ledger; it has: {has}")

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)

    def __str__(self) -> str:
        return "\n".join(str(s) for s in self.of) or "the ledger is empty"

    def _repr_html_(self) -> str:
        return "".join(s._repr_html_() for s in self.of) or "<p>the ledger is empty</p>"


def _statement(account: Account, books: Books) -> Statement:
    named = {f.name: getattr(account, f.name) for f in fields(Statement) if f.name != "runs"}
    if isinstance(account.protects, Label):
        named["private"] = account.protects.private
    return Statement(**named, runs=tuple(r for r in books.runs.values() if r.name == account.name))
