"""The card: one page, for machines and people, that says what a release is and what it costs.

It repeats only public facts: the guarantee (unit, neighbours, ε or ρ, δ), what was asked and what each
question cost, where the domains come from, what is disclosed as it is, how the sets were made, the
ledger's head at the time, and the SHA-256 of every file. `dipsmith verify` checks all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from dipsmith.analyses.results import Result
from dipsmith.errors import DipsmithError
from dipsmith.methods.method import Method
from dipsmith.methods.public_table import supply_statement
from dipsmith.privacy.budget import Budget, PureDP, of_units, rho_to_approx
from dipsmith.privacy.events import Chosen, Event, Measured, Repeated, Supplied
from dipsmith.privacy.gaussian_profile import concentrated_to_approx
from dipsmith.privacy.ledger import Reservation
from dipsmith.privacy.person_total import PersonTotal
from dipsmith.privacy.protection import unit_record
from dipsmith.report.content import Facts, Page, Section, Table
from dipsmith.report.explorer import FILE as EXPLORER
from dipsmith.report.explorer import LINK
from dipsmith.report.sections import frame, page
from dipsmith.schema import Schema
from dipsmith.schema.domain import DATA_DERIVED
from dipsmith.synthesis.order import Order
from dipsmith.synthesis.settings_in_words import chosen_settings
from dipsmith.synthesis.writing import damage
from dipsmith.version import VERSION

FORMAT = 1

DELTA = 1e-9
"""The δ at which a ρ is also shown as (ε, δ) when none was stated."""

GAUSSIAN = "; every step is Gaussian, so that ρ and (ε, δ) go over into each other exactly"

STATED = "The guarantee takes these statements on trust; whoever signs for the release answers for them."
GIVEN, ASKED, KNOWN = "given by the steward", "as many as were asked for", "publicly known, as the steward states"
"""How a number of rows is known that was stated: GIVEN, in versions that did not tell what is made from what is known."""

_NEIGHBOURS = {
    "add-remove": "whether the table has the rows of any one unit at all",
    "replace": "what the rows of any one unit say, the number of units being public",
    "label": "the private columns of any one unit; its public columns and its presence are disclosed",
}


Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Card:
    """Everything that may be said about a release.

    Attributes mirror card.json; see ``docs/reference/card.md``.
    """

    dataset: str
    created: str
    request: str
    neighbours: str
    unit: Mapping[str, Any]
    currency: Literal["epsilon", "rho"]
    units: Count
    stated: tuple[float, float] | None
    spending: tuple[Mapping[str, Any], ...]
    accountant: str
    schema_digest: str
    provenance: str
    method: str
    parameters: Mapping[str, Any]
    disclosed: tuple[str, ...]
    sets: Annotated[int, Field(ge=1)]
    each: str | None
    rows: Count
    rows_known: str
    version: str
    ledger_head: str | None
    reservation: str | None
    looks: Count
    testing: bool
    notes: tuple[str, ...]
    files: Mapping[str, str]
    format: Annotated[int, Field(ge=0, le=FORMAT)] = FORMAT
    steward_says: tuple[str, ...] = ()
    analyses: tuple[Any, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()
    known_rows: Count | None = None
    account: Mapping[Literal["granted", "spent"], Count] | None = None
    """Of these rows, when this budget was reserved: agreed on and spent in all, this release included, in units."""
    person_total: Mapping[str, Any] | None = None
    """Where the unit is a person in one period: what a person in all periods pays, in units (`PersonTotal`)."""

    @classmethod
    def of(
        cls,
        order: Order,
        events: Sequence[Event],
        reservation: Reservation | None,
        *,
        used_methods: Sequence[Method],
        request: str,
        start: datetime,
        rows: int,
        rows_known: str,
        looks: int,
        notes: Sequence[str] = (),
        results: Sequence[Result] = (),
        account: Mapping[Literal["granted", "spent"], int] | None = None,
    ) -> Card:
        """The card of a run that followed an order."""
        schema, budget = order.schema, order.budget
        total = PersonTotal.of_events(schema, budget, events)
        return cls(
            dataset=schema.name,
            created=start.isoformat(timespec="seconds"),
            request=request,
            neighbours=schema.neighbours,
            unit={**unit_record(schema.unit), "text": str(schema.unit)},
            currency=budget.currency,
            units=budget.units,
            stated=getattr(budget, "stated", None),
            spending=tuple(line for event in events if (line := _spending_line(event)) is not None),
            accountant="sequential composition" + ("" if budget.currency == "epsilon" else GAUSSIAN),
            schema_digest=schema.digest,
            provenance=schema.provenance,
            method=order.method.name,
            parameters=order.parameters(used_methods),
            disclosed=disclosures(schema),
            sets=order.sets,
            each=order.each,
            rows=rows,
            rows_known=rows_known,
            version=VERSION,
            ledger_head=None if reservation is None else reservation.head,
            reservation=None if reservation is None else str(reservation.id),
            looks=looks,
            testing=order.testing,
            notes=(*schema.notes, *(() if total is None else (total.sentence,)), *notes),
            analyses=tuple(a.to_dict() for a in order.analyses),
            results=tuple(_result(r) for r in results),
            files={},
            steward_says=steward_says(order, events),
            known_rows=order.stated_rows,
            account=account,
            person_total=None if total is None else total.to_dict(),
        )

    @property
    def budget(self) -> Budget:
        """What the release cost."""
        return of_units("epsilon" if self.currency == "epsilon" else "rho", self.units)

    @property
    def gaussian(self) -> bool:
        """Whether its ρ is Gaussian: until version 0.1 it was zero-concentrated."""
        return self.accountant.endswith(GAUSSIAN)

    @property
    def guarantee(self) -> str:
        """The guarantee in one line: ε or ρ with δ, unit and neighbours together."""
        return f"{self.price}, unit {self.unit['text']}, neighbours {self.neighbours}"

    @property
    def price(self) -> str:
        """ε, or ρ with the (ε, δ) that it implies."""
        budget = self.budget
        if isinstance(budget, PureDP):
            return str(budget)
        epsilon, delta = self.loss
        return f"ρ = {budget.rho:.6g} (ε = {epsilon:.4g} at δ = {delta:g})"

    @property
    def loss(self) -> tuple[float, float]:
        """ε and δ; for ρ those that it implies."""
        budget = self.budget
        if isinstance(budget, PureDP):
            return float(budget.exact), 0.0
        convert = rho_to_approx if self.gaussian else concentrated_to_approx
        return self.stated or (convert(budget.rho, DELTA), DELTA)

    @property
    def meaning(self) -> str:
        """What the guarantee means, for people."""
        return (
            f"It limits what anyone can learn from this release about {_NEIGHBOURS[self.neighbours]}. "
            "The limit adds up with every other release of the same table."
        )

    @property
    def sets_text(self) -> str:
        """How the sets were made and which rule combines them."""
        if self.sets == 1:
            return "1 set"
        if self.each == "split":
            return (
                f"{self.sets} sets, sanitised separately with 1/{self.sets} of the budget each: T = ū + B/m applies, up to a "
                "bias that all sets share"
            )
        return f"{self.sets} sets drawn from one sanitised model: T = ū + B/m does not apply, use noise-aware intervals"

    def to_json(self) -> str:
        """card.json."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Card:
        """A card from card.json."""
        try:
            card = _CARD.validate_json(text, strict=True)
            if not all(isinstance(name, str) for line in card.spending for name in line.get("attributes") or ()):
                raise ValueError
            if card.rows_known == GIVEN and card.known_rows is None:
                card = replace(card, known_rows=card.rows)
            # A card that cannot be shown is damaged: better said here than where it is shown.
            card.page(), str(card), card.budget
            return card
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, DipsmithError):
            raise damage("card.json is not a card that this version can read") from None

    def page(self) -> Page:
        """The card as a page."""
        made_by = f"made by {self.method} under differential privacy: {self.guarantee}"
        lead = [f"Synthetic data in place of '{self.dataset}', {made_by}.", self.meaning]
        if self.disclosed:
            lead.append(f"Disclosed as they are: {', '.join(self.disclosed)}.")
        guarantee = Facts(
            (
                ("Budget", self.price),
                *self._person_line,
                ("Unit of protection", str(self.unit["text"])),
                ("Neighbours", self.neighbours),
                ("Accountant", self.accountant),
                ("Rows", f"{self.rows:,} ({self.rows_known})"),
                ("Sets", self.sets_text),
                ("Domains", self.provenance),
                ("Confidential looks", f"{self.looks} so far, logged and not charged"),
            )
        )
        made = Facts(
            (
                ("Method", self.method),
                *((f"  {name}", words) for name, words in chosen_settings(self.parameters).items()),
                ("Made", self.created),
                ("Request", self.request),
                ("dipsmith", self.version),
                ("Ledger head", self.ledger_head or "none: testing"),
                ("Schema", self.schema_digest),
            )
        )
        spending = Table.of(
            "What was asked of the private rows, and what each question cost",
            ("question", "mechanism", "cells", "sensitivity", self.budget.symbol),
            [(s["what"], s["mechanism"], s["cells"], s["sensitivity"], s["cost"]) for s in self.spending],
        )
        files = Table.of("SHA-256 of every file", ("file", "digest"), sorted(self.files.items()))
        sections = (
            Section("Guarantee", (guarantee, *((LINK,) if EXPLORER in self.files else ()))),
            Section("Stated by the steward", (STATED, *self.steward_says) if self.steward_says else ()),
            self.result_section,
            Section("Spending", (spending,)),
            Section("How it was made", (made,)),
            Section("Notes", self.notes),
            Section("Files", (files,)),
        )
        return Page(
            title=f"Release card: {self.dataset}",
            lead=tuple(lead),
            sections=tuple(section for section in sections if section.blocks),
            stamp="NOT PRIVATE: made with a fixed noise seed, for tests only" if self.testing else "",
            footer="Check this release with: dipsmith verify FOLDER",
        )

    @property
    def _person_line(self) -> tuple[tuple[str, str], ...]:
        if self.person_total is None:
            return ()
        kind: Literal["epsilon", "rho"] = "epsilon" if self.currency == "epsilon" else "rho"
        most = self.person_total
        whole = of_units(kind, most["units"])
        return (("Total per person", f"{whole} for one with rows in all {most['periods']} ({most['per']})"),)

    @property
    def result_section(self) -> Section:
        """A table for every planned analysis."""
        return Section("Results of planned analyses", tuple(_result_table(r) for r in self.results))

    def to_html(self) -> str:
        """card.html."""
        return page(self.page())

    def _repr_html_(self) -> str:
        return frame(self.to_html())

    def __str__(self) -> str:
        made = f"{self.rows:,} rows by {self.method}; {self.guarantee}; {self.sets_text}"
        stamp = "NOT PRIVATE (testing seed)\n" if self.testing else ""
        return f"{stamp}{self.dataset}: {made}"


_CARD = TypeAdapter(Card)


def steward_says(order: Order, events: Sequence[Event]) -> tuple[str, ...]:
    """What the guarantee takes on trust: nothing in the rows was asked whether it is so."""
    name = order.schema.name
    says = [
        f"'{name}' is another name of rows that were charged before: what was spent under all their names adds up"
        if order.another_grant
        else f"'{name}' is the one name of this table: its budget is kept under it",
        "the values and bounds of the columns were read from the rows, and are told as they are: nothing protects them"
        if order.schema.provenance == DATA_DERIVED
        else f"the domains are public ({order.schema.provenance})",
    ]
    if order.stated_rows is not None:
        says.append(f"the number of rows is publicly known: {order.stated_rows:,}")
    if order.labels_another:
        says.append("the file whose rows were labelled is public, and so is the order of its rows")
    says += [supply_statement(event.what, event.budget) for event in events if isinstance(event, Supplied)]
    return tuple(dict.fromkeys([*says, *getattr(order.method, "assumptions", ())]))


def disclosures(schema: Schema) -> tuple[str, ...]:
    """What a release tells as it is, by the neighbouring relation."""
    if schema.neighbours == "label":
        link = () if schema.linked is None else (f"which rows belong to one {schema.linked}",)
        return (*schema.public, "the number of rows", *link)
    if schema.neighbours == "replace":
        return ("the number of rows" if schema.unit.max_rows == 1 else "the number of units",)
    return ()


def _spending_line(event: Event) -> dict[str, Any] | None:
    """An event of a run as a line of the card: public facts only; None for what costs nothing by itself."""
    match event:
        case Measured():
            what, mechanism = f"{'sums' if event.weighted else 'counts'} of {event.cells}", event.mechanism
        case Chosen():
            what, mechanism = f"choice by {event.score} among {event.candidates}", event.mechanism
        case Repeated():
            what = f"the best by {event.score} of a secret number of runs among {event.candidates} settings"
            mechanism = f"private selection, η = {event.eta}, γ = {event.gamma}"
        case Supplied():
            what, mechanism = event.what, "given"
        case _:
            return None
    attributes = getattr(event, "attributes", None)
    sensitivity = getattr(event, "sensitivity", None)
    return {
        "what": f"{event.block}: {what}" if event.block else what,
        "mechanism": mechanism,
        "cells": getattr(event, "size", None),
        "attributes": None if attributes is None else list(attributes),
        "sensitivity": None if sensitivity is None else float(sensitivity),
        "cost": 0.0 if event.budget is None else float(event.budget.exact),
        **({"weighted": True} if getattr(event, "weighted", False) else {}),
    }


def _result(result: Result) -> dict[str, Any]:
    """A result as the card tells it: without the covariance, which results.json has."""
    told = result.to_dict()
    del told["covariance"]
    return told


def _result_table(result: Mapping[str, Any]) -> Table:
    title = result["formula"] if result["part"] is None else f"{result['formula']}, {result['part']}"
    rows: list[tuple[Any, ...]] = [
        (c["name"], c["estimate"], c["low"], c["high"], c["noise_share"]) for c in result["coefficients"]
    ]
    plain = [c.get("in_rows") for c in result["coefficients"]]
    dash = ["A dash: not told."] if any(row[1] is None for row in rows) else []
    columns: tuple[str, ...] = ("coefficient", "estimate", "95 % from", "to", "share due to noise")
    if any(b is not None for b in plain):
        columns = (*columns, "a plain regression of the rows gives")
        rows = [(*row, b) for row, b in zip(rows, plain, strict=True)]
    note = " ".join(
        [f"Direct estimate ({result['model']}) from noisy sums of {result['rows']:,} rows.", *dash, *result["notes"]]
    )
    return Table.of(title, columns, rows, note)
