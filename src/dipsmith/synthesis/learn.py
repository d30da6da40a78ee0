"""A schema learned privately from the rows, charged to the ledger: a draft that the steward edits.

Four questions to the curator, each of all columns that it concerns, in one pass each: which forms values have (types,
missing values), where numbers and dates lie (bounds, spikes), how they are spread between the bounds (bins), which texts
are frequent (levels; they need a δ). The whole budget is reserved before the first value is read. Nothing is known of the
table but its header; relation and unit, which say what ε means, are asked for. Proof: ``docs/proofs/learn.md``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dipsmith.codec.forms import Forms
from dipsmith.counting.count import BatchRows
from dipsmith.errors import BudgetError, SchemaError, UnsupportedError, UsageError
from dipsmith.privacy.budget import ZCDP, Amount, Budget, PureDP, exact_delta
from dipsmith.privacy.curator import Curator, Progress
from dipsmith.privacy.discovery import ColumnCells, FrequentValues, Survey, delta_parts
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.reservation import Reservation, require_accountability
from dipsmith.schema import Attribute, Categories, Schema, Unit
from dipsmith.schema.drafts import commented_draft
from dipsmith.schema.naming import check_name, plain_name
from dipsmith.schema.proposals import CellCounts
from dipsmith.schema.schema import Neighbours
from dipsmith.sources import Source, source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.sources.header import declared_types
from dipsmith.synthesis.learned_fields import (
    FALSE_ALARM,
    DraftField,
    FoundType,
    ValueExtent,
    coarse_cells,
    count_beyond_noise,
    find_extent,
    find_type,
    number_field,
    plain_field,
    text_field,
    unknown_field,
)
from dipsmith.synthesis.one_file import answer_once, read_answer, require_target

METHOD = "schema learn"
"""What the ledger calls a run that learns a schema."""
FORMS_SHARE = Fraction(1, 10)
WORTH_SAYING = 2
"""So many times less noise is worth another kind of grant."""
LEVELS_WEIGHT = 2
"""A text column's share of the rest, against a number's."""


@dataclass(frozen=True)
class LearnedSchema:
    """A draft that was learned privately: its text, the schema it makes, and what the steward must still say."""

    text: str
    schema: Schema | None
    unsaid: tuple[str, ...]
    guarantee: str
    request: str
    ledger_head: str | None
    testing: bool = False

    def __str__(self) -> str:
        left = f"; left to you: {', '.join(self.unsaid)}" if self.unsaid else ""
        known = 0 if self.schema is None else len(self.schema.attributes)
        return f"{known} columns learned ({self.guarantee}){left}"


def learn_schema(
    data: Any,
    *,
    budget: Budget,
    neighbours: Neighbours,
    unit: Unit | str,
    delta: Amount | None = None,
    name: str | None = None,
    private: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    ledger: Ledger | str | Path | None = None,
    out: str | Path | None = None,
    request: str | None = None,
    another_grant: bool = False,
    testing: bool = False,
    noise_seed: int | None = None,
    progress: Progress | None = None,
) -> LearnedSchema:
    """Learn types, bounds, bins and levels of a table with noise, and charge the ledger.

    Parameters
    ----------
    data
        The confidential rows: a file, a folder, a frame.
    budget, delta
        What it costs; `delta` is the probability with which a rare text may be told, and without it texts are left alone.
    neighbours, unit
        What ε means: as in a schema, without a default. ``unit="row"``, or ``Unit("person_id", 3)``.
    name
        The dataset's name, whose grant is charged; by default the file's stem.
    private
        Under `label`, the columns that are protected.
    skip
        Columns to leave out: identifiers, names, free text. They cost nothing.
    out
        The file to write.
    request
        An id for this run: the same id never draws noise twice, and finds the draft again.

    Privacy
    -------
    Reads `data` only after the whole budget is reserved. The draft satisfies `budget`, but with probability `delta`, for
    the unit and neighbours given (``docs/proofs/learn.md``).
    """
    require_accountability(ledger, noise_seed, testing=testing)
    rows = source(data)
    chance = Fraction(0) if delta is None else _delta_of(delta)
    blank = blank_schema(rows, name_of(rows, name), unit, neighbours, private, skip)
    rows.check(blank.columns)
    request = str(uuid.uuid4()) if request is None else request
    stream = Stream.of(noise_seed)
    counted = BatchRows(rows, blank, stream.child("key").new_seed("key"))
    terms = _Terms(blank, budget, chance, declared_types(rows), request, testing)
    terms.require_payable()
    if ledger is None:
        curator = Curator(counted, budget, stream=stream, journal=Rehearsal(), progress=progress)
        return terms.learn(curator, None)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    target = Path(f"{blank.name}.yaml" if out is None else out)
    require_target(book, request, target)

    def learn(reservation: Reservation) -> LearnedSchema:
        curator = Curator(counted, budget, stream=stream, journal=reservation, progress=progress)
        return terms.learn(curator, reservation.head)

    found, head = answer_once(
        lambda: book.reserve(
            blank.name,
            budget,
            protects=protection_of(blank),
            source=fingerprint(rows),
            request_id=request,
            method=METHOD,
            another_grant=another_grant,
            delta=chance,
        ),
        learn,
        lambda found: found.text,
        terms.learned_before,
        target,
    )
    return found if head is None else replace(found, ledger_head=head)


def divide_delta(book: Ledger, name: str, epsilon: Amount, delta: Amount | None) -> tuple[Budget, Fraction | None]:
    """What (ε, δ) buys in the currency of a grant: ε and a δ for rare texts; or a ρ for half of δ, and a share of the rest."""
    account = next((s for s in book.show() if s.name == name), None) if Path(book.path).exists() else None
    if account is None or account.currency != "rho" or delta is None:
        return PureDP(epsilon), None if delta is None else _delta_of(delta)
    half = _delta_of(delta) / 2
    return ZCDP.from_approx(epsilon, half), half / delta_parts(PureDP(epsilon))


def advise_rho(columns: int, budget: Budget, delta: Amount | None) -> str:
    """One sentence where the same ε and δ, paid from a grant in ρ, would buy much less noise; empty where not.

    >>> advise_rho(42, PureDP("0.1"), "1e-9")
    'Noise hides about 10 times more than the same ε and δ would from a grant of both (ε and δ)'
    >>> advise_rho(42, PureDP("0.1"), None), advise_rho(1, PureDP(1), "1e-9")
    ('', '')
    """
    if delta is None or not isinstance(budget, PureDP):
        return ""
    chances = log(columns * Forms("").size / FALSE_ALARM)
    try:
        share, rho = float(FORMS_SHARE), ZCDP.from_approx(budget.exact, _delta_of(delta) / 2).rho
    except BudgetError:  # they buy no ρ that could be counted
        return ""
    gain = columns / (share * budget.epsilon) * chances / sqrt(columns / (share * rho) * chances)
    if gain < WORTH_SAYING:
        return ""
    return f"Noise hides about {gain:.0f} times more than the same ε and δ would from a grant of both (ε and δ)"


def _delta_of(delta: Amount) -> Fraction:
    try:
        return exact_delta(delta)
    except BudgetError:
        raise UsageError(f"δ must lie between 0 and 1, for example 1e-9, got {str(delta)[:40]}") from None


def name_of(rows: Source, name: str | None) -> str:
    """The dataset's name: as given, or the file's stem."""
    called = plain_name(Path(rows.describe()).stem.split(".")[0]) if name is None else name
    check_name(called)
    return called


def blank_schema(
    rows: Source,
    name: str,
    unit: Unit | str,
    neighbours: Neighbours,
    private: Sequence[str] | None,
    skip: Sequence[str],
) -> Schema:
    """What is public before anything is learned: the header, the unit and the relation. Values have no codes in it."""
    who = unit if isinstance(unit, Unit) else Unit()
    if isinstance(unit, str) and unit != "row":
        raise UsageError(f"unit is '{unit}'; say 'row', or Unit('person_id', max_rows=3)")
    if who.per is not None:
        raise UnsupportedError(
            "a unit per column cannot be learned under: what its values are is part of the unit; declare that column "
            "in a schema by hand"
        )
    header = rows.columns
    for what, names in (("unit", [who.column] if who.column else []), ("private", private or ()), ("skip", skip)):
        for unknown in (n for n in names if n not in header):
            raise SchemaError(f"{what} names '{unknown}', which is no column of the header's {len(header)}")
    if (neighbours == "label") != bool(private):
        raise UsageError("neighbours 'label' and the private columns go together: give both, or neither")
    protected = set(private or ())
    named = [n for n in header if n != who.column and n not in set(skip)]
    if not named:
        raise SchemaError("no column is left to learn; the header has nothing but the unit and what is skipped")
    if not protected <= set(named):
        raise UsageError("a private column is skipped, or is the unit's; under label its values are what is protected")
    anything = Categories.of(["anything"], other="anything")  # one code: rows that are told apart by nothing private
    attributes = tuple(
        Attribute(n, "string", anything, "private" if not protected or n in protected else "public") for n in named
    )
    return Schema(name, attributes, who, neighbours)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What is agreed before a value is read."""

    blank: Schema
    budget: Budget
    delta: Fraction
    declared: dict[str, str]
    request: str
    testing: bool

    @property
    def price(self) -> str:
        """The budget in words; a ρ that was derived from (ε, δ) by these, its δ and that of rare texts added up."""
        stated = None if isinstance(self.budget, PureDP) else self.budget.stated
        if stated is not None:
            return f"ε = {stated[0]:g}, δ = {stated[1] + float(self.delta) * delta_parts(PureDP(stated[0])):g}"
        return f"{self.budget}, δ = {float(self.delta):g}" if self.delta else str(self.budget)

    @property
    def shares(self) -> tuple[Budget, Budget]:
        """What the first question costs, and all others together."""
        first, rest = self.budget.split([FORMS_SHARE, 1 - FORMS_SHARE])
        return first, rest

    def require_payable(self) -> None:
        """Refuse, while nothing is spent, a budget that one of the questions could not be asked for, whatever columns hold."""
        columns, terms = self.blank.names, (str(self.blank.priced_as), self.blank.unit.max_rows)
        first, rest = self.shares
        rest.split([1, 2 * (LEVELS_WEIGHT * len(columns))])
        # No question gets noise as wide as one of all columns for so much of the rest.
        least = rest.split(2 * LEVELS_WEIGHT)[0]
        for budget in (first, least):
            Survey("forms", self.blank, tuple(map(Forms, columns))).price(*terms, budget, "")
        for budget in (rest, least) if self.delta else ():
            FrequentValues(columns, self.delta).price(*terms, budget, "")

    def learn(self, curator: Curator, head: str | None) -> LearnedSchema:
        """Ask the four questions and write the draft."""
        columns = self.blank.names
        curator.report("forms", 0.0)
        first, rest = self.shares
        forms = self._survey(curator, "forms", [Forms(n) for n in columns], first)
        types = {
            n: find_type(n, counts, doubt, self.declared.get(n))
            for n, (counts, doubt) in zip(columns, forms, strict=True)
        }
        known = [t for t in types.values() if t is not None]
        numeric = [t for t in known if t.type in ("integer", "number", "date", "datetime")]
        texts = [t for t in known if t.type == "string"] if self.delta else []
        weights = [w for w in (len(numeric), LEVELS_WEIGHT * len(texts)) if w]
        shares: Iterator[Budget] = iter(rest.split(weights) if weights else ())
        fields = self._numbers(curator, numeric, next(shares)) if numeric else {}
        levels = {}
        if texts:
            question = FrequentValues(tuple(t.column for t in texts), self.delta)
            levels = dict(curator.discover(question, next(shares)))
            curator.report("levels", 1.0)
        for found in known:
            if found.type == "string":
                fields[found.column] = text_field(found, levels.get(found.column))
            elif found.type == "boolean":
                fields[found.column] = plain_field(found)
        return self._write_draft([fields.get(n) or unknown_field(n, types[n]) for n in columns], head)

    def _numbers(self, curator: Curator, found: Sequence[FoundType], budget: Budget) -> dict[str, DraftField]:
        """Bounds by coarse cells, then bins by finer ones between them."""
        coarse, fine = budget.split(2)
        answers = self._survey(curator, "magnitudes", [coarse_cells(t) for t in found], coarse)
        extents: list[ValueExtent] = []
        for one, (counts, doubt) in zip(found, answers, strict=True):
            extent = find_extent(one, counts, doubt)
            if extent is not None:
                extents.append(extent)
        narrow = [e for e in extents if e.grid is not None]
        spread: dict[str, CellCounts] = {}
        if narrow:
            grids = [e.grid for e in narrow if e.grid is not None]
            for grid, (counts, doubt) in zip(grids, self._survey(curator, "grids", grids, fine), strict=True):
                spread[grid.column] = CellCounts(np.asarray(grid.edges), counts.astype(np.float64), doubt)
        return {e.found.column: number_field(e, spread.get(e.found.column), len(self.blank.names)) for e in extents}

    def _survey(
        self, curator: Curator, what: str, tables: Sequence[ColumnCells], budget: Budget
    ) -> list[tuple[np.ndarray[Any, np.dtype[np.int64]], float]]:
        """Noisy histograms, each with the count that its noise hardly reaches."""
        survey = Survey(what, self.blank, tuple(tables))
        answer = curator.ask(survey, budget)
        curator.report(what, 1.0)
        doubt = count_beyond_noise(answer, survey.cells.size)
        return [(counts, doubt) for counts in survey.apart(answer.values)]

    def _write_draft(self, fields: Sequence[DraftField], head: str | None) -> LearnedSchema:
        """The draft as text, and as a schema where it makes one."""
        roles = {a.name: a.role for a in self.blank.attributes}
        lines = [(f.column, None if f.keys is None else {**f.keys, "role": roles[f.column]}, f.reason) for f in fields]
        said = f"Learned privately from the rows, {self.price}; edit it, then: dipsmith schema check"
        if any("open" in (f.keys or {}) for f in fields):
            said += (
                "\n# open: noise hides what lies beyond these bounds, and it counts as the nearest. State the bounds that you know"
                "\n# (minimum, maximum) and take open out: with it regressions of raw numbers may be refused."
            )
        stamp = "NOT PRIVATE (testing seed). " if self.testing else ""
        text = commented_draft(
            self.blank.name,
            lines,
            what=stamp + said,
            unit=self.blank.unit,
            neighbours=self.blank.neighbours,
            provenance=f"learned, {self.price}",
        )
        unsaid = tuple(f.column for f in fields if f.keys is None)
        guarantee = f"{self.price}, unit {self.blank.unit}, neighbours {self.blank.neighbours}"
        try:
            schema = _schema_of(text)
        except SchemaError:  # it was paid for: the steward gets it, and `schema check` says what to mend
            schema = None
        return LearnedSchema(text, schema, unsaid, guarantee, self.request, head, self.testing)

    def learned_before(self, earlier: AlreadyReleased) -> LearnedSchema:
        """The draft that this request made."""
        gone = "this request made '{path}', which is gone; learn under a new --request, for a new charge"
        text = read_answer(earlier, gone, "'{path}' is not the draft that the ledger noted (it was edited?)")
        return LearnedSchema(text, _schema_of(text), (), self.price, self.request, None, self.testing)


def _schema_of(text: str) -> Schema | None:
    data = yaml.safe_load(text)
    return Schema.from_dict(data) if data.get("fields") else None
