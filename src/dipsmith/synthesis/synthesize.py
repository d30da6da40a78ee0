"""The whole path on one screen: source → codec → counting → curator → method → model → rows → release."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dipsmith.codec.decode import released_schema
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import HopelessNoise, UnsupportedError, UsageError
from dipsmith.methods.method import Method, Model, PublicFacts, require_relation
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator, Journal, Progress, Rehearsal
from dipsmith.privacy.events import Event
from dipsmith.privacy.ledger import AlreadyReleased, Ledger, Reservation
from dipsmith.privacy.observer import observed_rows
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Schema
from dipsmith.sources import Source, source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.card import Card, spending, steward_says, sums, unit_facts
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.replay import released_before
from dipsmith.synthesis.sets import Recipe, place_of
from dipsmith.version import VERSION

MOST_SETS = 10_000
"""More sets than any rule for combining them has a use for."""
GIVEN = "given by the steward"
"""How a number of rows is known that was stated."""

Each = Literal["split", "draw"]


def synthesize(
    data: Any,
    schema: Schema,
    method: Method,
    *,
    budget: Budget,
    ledger: Ledger | str | Path | None = None,
    sets: int = 1,
    each: Each | None = None,
    rows: int | None = None,
    onto: Any = None,
    request: str | None = None,
    another_grant: bool = False,
    seed: int | None = None,
    testing: bool = False,
    noise_seed: int | Stream | None = None,
    progress: Progress | None = None,
) -> Release:
    """Make synthetic tables in place of a confidential one.

    Parameters
    ----------
    data
        A file, folder, glob or database address, or any frame with ``__arrow_c_stream__``.
    schema, method, budget
        What is public, how to synthesise, and what it may cost.
    ledger
        Where the cost is charged; required unless `testing`.
    sets, each
        How many synthetic sets; with more than one, "split" sanitises m times with budget/m each,
        "draw" draws m times from one model.
    rows
        The number of rows to make, stated by the steward; without it, under add-remove, the noisy
        row count. Under add-remove it is taken for the table's own number of rows, which then costs
        nothing, and counts are made to add up to it: state the true number, or one near it, and draw
        more or fewer rows from the released model. Intervals take the rows of a set for people asked.
    onto
        Under `label`: another, public file with every public column, to be labelled instead, in its own order, which is
        public as the rest of it. (Rows that are the private table's own are released in a drawn order all the same.)
    request
        An id for this run: the same id never draws noise twice.
    another_grant
        Confirms that these rows may be spent under this schema's name although the ledger was charged for
        them under another one: two grants for the same people add up.
    seed
        Repeats the drawing of rows from the noisy model (free, not the noise).
    testing, noise_seed
        A noise seed, or a testing stream (which may have an observer), is accepted only with ``testing=True``, and the
        card says NOT PRIVATE.

    Privacy
    -------
    Reads `data` only after the whole budget is durably reserved, except for the syntax pass, the header
    and a digest of its bytes, which the ledger keeps sealed. The release satisfies `budget` for the schema's unit and neighbours.
    """
    _refuse_contradictions(schema, method, sets, each, rows, onto, ledger, testing, noise_seed)
    private = source(data)
    private.check(schema.columns)
    if not testing:
        _forewarn(schema, method, budget, sets if each == "split" else 1, rows)
    target = private if onto is None else source(onto)
    if onto is not None:
        _refuse_the_private_file(private, target)
        target.check(schema.public)
    place = place_of(target)
    place.require_room(schema, sets, rows)
    # Reads no row: an engine is only asked for its columns, so that it is refused before anything is charged.
    stream = Stream.of(noise_seed)
    counted = rows_of(private, schema, _staged(progress, "reading"), key=stream.secret("key"))
    counted = observed_rows(counted, stream.observer)
    # An empty id is refused by the ledger: whoever repeats it by a script would be charged again each time.
    request = str(uuid.uuid4()) if request is None else request
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    with ExitStack() as settling:
        reservation = None
        if book is not None:
            try:
                reservation = book.reserve(
                    schema.name,
                    budget,
                    protects=protection_of(schema),
                    source=fingerprint(private),
                    request_id=request,
                    method=method.name,
                    another_grant=another_grant,
                )
            except AlreadyReleased as earlier:
                return released_before(earlier)
            settling.enter_context(reservation)
            reservation.read()
        # The time of the reservation, not that of the end: how long reading takes depends on the rows.
        begun = datetime.now(UTC) if reservation is None else datetime.fromisoformat(reservation.time)
        journal = _Journal(reservation)
        curator = Curator(counted, budget, stream=stream, journal=journal, given_rows=rows, progress=progress)
        fitted = tuple(
            FittedModel(method.name, m) for m in _fit(curator, method, sets if each == "split" else 1)
        )
        recipe = Recipe(schema, fitted, private, sets, stream, seed, progress)
        if schema.neighbours == "label":
            tables, known = place.label(recipe), "public"
        else:
            n, known = _row_count(curator, rows)
            if n is None:
                # Models that were sanitised separately count differently; their sets have one size, the card's.
                n = round(sum(m.rows for m in fitted) / len(fitted))
            tables = place.draw(recipe, n)
        card = _card(
            schema,
            method,
            budget,
            begun,
            request,
            sets,
            each,
            tables.rows,
            known,
            journal.events,
            book,
            reservation,
            testing,
            labels_another=onto is not None,
        )
        # From here on the run is settled by saving the release; a failure until now was noted as one.
        settling.pop_all()
    finish = None if reservation is None else reservation.finish
    # Under `label` private columns that are no target are not released, and so not described.
    released = released_schema(schema.project([n for n in schema.names if n in tables.columns]))
    return Release(tables, fitted, released, card, None, finish)


def _forewarn(schema: Schema, method: Method, budget: Budget, sanitisations: int, rows: int | None) -> None:
    """Refuse what the plan refuses, and say what it calls hopeless, from public facts alone, while nothing is spent yet."""
    share: Budget = budget.split(sanitisations)[0]
    try:
        steps = method.plan(schema, share, PublicFacts(rows))
    except UnsupportedError:
        # Some plans need a row count, which under `replace` becomes known only by reading: any will do to see.
        if rows is not None or schema.neighbours != "replace" or schema.unit.max_rows > 1:
            raise
        method.plan(schema, share, PublicFacts(1))
        return
    for step in steps:
        if step.note.startswith("hopeless") and schema.neighbours != "label":
            warnings.warn(f"{method.name}, {step.stage}: {step.note}", HopelessNoise, stacklevel=3)


def _fit(curator: Curator, method: Method, sanitisations: int) -> list[Model]:
    if sanitisations == 1:
        return [method.fit(curator)]
    shares: list[Budget] = list(curator.budget.split(sanitisations))
    return [method.fit(curator.nested(share, f"set {i}")) for i, share in enumerate(shares, start=1)]


def _row_count(curator: Curator, rows: int | None) -> tuple[int | None, str]:
    if rows is not None:
        return rows, GIVEN
    if curator.rows is not None:
        return curator.rows, "public"
    return None, "noisy estimate"


class _Journal:
    """Passes events to the reservation and remembers them for the card."""

    def __init__(self, reservation: Reservation | None) -> None:
        self._durable: Journal = Rehearsal() if reservation is None else reservation
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        """Record durably, then remember."""
        self._durable.record(*events)
        self.events.extend(events)


def _staged(progress: Progress | None, stage: str) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress(stage, share)


def _card(
    schema: Schema,
    method: Method,
    budget: Budget,
    begun: datetime,
    request: str,
    sets: int,
    each: Each | None,
    rows: int,
    known: str,
    events: list[Event],
    ledger: Ledger | None,
    reservation: Reservation | None,
    testing: bool,
    *,
    labels_another: bool,
) -> Card:
    disclosed: tuple[str, ...] = ()
    if schema.neighbours == "label":
        disclosed = (*schema.public, "the number of rows")
    elif schema.neighbours == "replace":
        disclosed = ("the number of rows" if schema.unit.max_rows == 1 else "the number of units",)
    return Card(
        dataset=schema.name,
        created=begun.isoformat(timespec="seconds"),
        request=request,
        neighbours=schema.neighbours,
        unit=unit_facts(schema),
        currency=budget.currency,
        units=budget.units,
        stated=getattr(budget, "stated", None),
        spending=spending(events),
        accountant="sequential composition"
        + ("" if budget.currency == "epsilon" else "; ρ to (ε, δ) by Canonne, Kamath and Steinke 2020"),
        schema_digest=schema.digest,
        provenance=schema.provenance,
        method=method.name,
        parameters=_parameters(method),
        disclosed=disclosed,
        sets=sets,
        each=each,
        rows=rows,
        rows_known=known,
        version=VERSION,
        ledger_head=None if reservation is None else reservation.head,
        reservation=None if reservation is None else str(reservation.id),
        looks=0 if ledger is None else ledger.looks(schema.name),
        testing=testing,
        notes=(*schema.notes, *sums(schema, events)),
        files={},
        steward_says=steward_says(
            schema, method, events, rows if known == GIVEN else None, labels_another=labels_another
        ),
    )


def _parameters(method: Method) -> dict[str, Any]:
    assert is_dataclass(method)
    assert not isinstance(method, type)
    return {
        k: v
        for k, v in asdict(method).items()
        if isinstance(v, str | int | float | bool | list | tuple | dict) or v is None
    }


def _refuse_contradictions(
    schema: Schema,
    method: Method,
    sets: int,
    each: Each | None,
    rows: int | None,
    onto: Any,
    ledger: object,
    testing: bool,
    noise_seed: int | Stream | None,
) -> None:
    require_relation(method, schema.neighbours)
    if sets < 1:
        raise UsageError(f"sets is {sets}, expected 1 or more")
    if sets > MOST_SETS:
        raise UsageError(f"sets is {sets}, expected at most {MOST_SETS:,}")
    if sets > 1 and each not in ("split", "draw"):
        raise UsageError(
            "more than one set needs each='split' (sanitise m times, budget/m each) or each='draw' (m draws from one model)"
        )
    if sets == 1 and each is not None:
        raise UsageError(
            f"each='{each}' says how several sets are made; give sets=2 or more, or leave it out"
        )
    if rows is not None and rows < 0:
        raise UsageError(f"rows is {rows}, expected 0 or more")
    if rows is not None and schema.neighbours == "label":
        raise UsageError("under neighbours 'label' every row of the file is labelled; leave rows out")
    if onto is not None and schema.neighbours != "label":
        raise UsageError(
            f"onto labels another file's rows, which needs neighbours 'label'; the schema says '{schema.neighbours}'"
        )
    if noise_seed is not None and not testing:
        raise UsageError("a noise seed voids the guarantee and is accepted only with testing=True")
    if ledger is None and not testing:
        raise UsageError("a ledger is required: ledger=Ledger('budget.db'), with a grant for the dataset")


def _refuse_the_private_file(private: Source, target: Source) -> None:
    """Refuse to label the private rows in their own order, which may tell what they say."""
    mark = fingerprint(private)
    if private is target or (mark is not None and mark == fingerprint(target)):
        raise UsageError(
            "onto is the confidential table itself, whose order of rows is not public; leave onto out to label it"
        )
