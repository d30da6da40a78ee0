"""The whole path on one screen: source → codec → counting → curator → method → model → rows → release.

`synthesize` takes five steps, numbered below: refuse what cannot work, reserve the budget, ask the curator, draw rows, write
the card. Before the second step nothing is read but the header, the syntax of the file and what the relation makes public.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dipsmith.analyses.measure import require_payable
from dipsmith.codec.decode import released_schema
from dipsmith.counting.count import Rows
from dipsmith.counting.households import HouseholdRows
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import ContradictedRows, UsageError
from dipsmith.estimation.measured_table import measured_tables
from dipsmith.methods.method import Method, Selection
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator, Progress
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.reservation import Reservation, require_accountability
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.sources import Source, source
from dipsmith.sources.fetched_rows import FetchedRows
from dipsmith.sources.fingerprint import fingerprint, fingerprints
from dipsmith.synthesis.card import ASKED, KNOWN, Card
from dipsmith.synthesis.careers import career_notes
from dipsmith.synthesis.column_map import require_factors
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.households import household_notes
from dipsmith.synthesis.known_rows import contradicted_totals, contradiction
from dipsmith.synthesis.natural_inputs import (
    MethodLike,
    SchemaLike,
    understand_budget,
    understand_method,
    understand_schema,
)
from dipsmith.synthesis.order import Each, Order
from dipsmith.synthesis.planned import (
    PlannedSums,
    PreparedAnalyses,
    PublicReading,
    calibration_notes,
    prepare_method,
    require_designs,
)
from dipsmith.synthesis.public import PublicInput, require_apart, require_public, warn_of_unlisted_values
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.row_estimates import add_row_estimates, estimate_whole_rows, row_notes
from dipsmith.synthesis.sets import Recipe, RowMaker, Sets, maker_of
from dipsmith.synthesis.trees import path_notes
from dipsmith.synthesis.verify import reopen_release
from dipsmith.synthesis.weights import measure_totals, require_weighing, totals_among, weigh_sets, weight_notes


def synthesize(
    data: Any,
    schema: SchemaLike,
    method: MethodLike,
    *,
    budget: Budget,
    ledger: Ledger | str | Path | None = None,
    sets: int = 1,
    each: Each | None = None,
    rows: int | None = None,
    known_rows: int | None = None,
    onto: Any = None,
    members: Any = None,
    analyses: Sequence[PlannedAnalysis | str] = (),
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
        What is public (a schema or its file), how to synthesise (``ds.MST()``, or a name such as "mst" for the default
        settings), and what it may cost (``ds.PureDP(1)``).
    ledger
        Where the cost is charged; required unless `testing`.
    sets, each
        How many synthetic sets; with more than one, "split" sanitises m times with budget/m each,
        "draw" draws m times from one model.
    rows
        How many rows to make; it changes nothing else. Default: as many as the table has, if that is public or stated, else
        as many as noisy counts say.
    known_rows
        Under add-remove: how many rows the table has, where that is publicly known (default: `rows` of the schema). It then
        costs nothing, and counts are made to add up to it. If noisy counts contradict it, a warning and the card say so.
    onto
        Under `label`: another, public file to label instead. It must have every public column, and the unit's column where
        links are public. Its rows keep their order, unless they are the private table's own.
    members
        Where rows are households: the table of their members.
    analyses
        Planned analyses, beside those of the schema: formulas whose results are measured directly. They stand on the card
        with their intervals, and the synthetic rows carry them.
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
    The release satisfies `budget` for the schema's unit and neighbours. Private values are read only after the whole
    budget is durably reserved. Before that: the header, the syntax of the file, a digest of its bytes (which the ledger
    keeps sealed), and where analyses are planned under `label`, the public columns.
    """
    # 1. Refuse what cannot work: first without the file, then by its header and syntax.
    schema = understand_schema(schema)
    method, budget = understand_method(method, schema), understand_budget(budget)
    planned = tuple(PlannedAnalysis.of(a) for a in (*schema.analyses, *analyses))
    method = prepare_method(method, planned, schema)
    order = Order(
        schema,
        method,
        budget,
        sets,
        each,
        rows=rows,
        labels_another=onto is not None,
        testing=testing,
        analyses=planned,
        known_rows=known_rows,
        another_grant=another_grant,
    )
    require_accountability(ledger, noise_seed, testing=testing)
    if not testing:
        order.dry_run()
    require_designs(planned, schema)
    inputs = _open_inputs(order, data, onto, members, ledger)
    if order.labels_another:
        warn_of_unlisted_values(inputs.target, schema.project(schema.public))
    stream = Stream.of(noise_seed)
    private_rows = _open_rows(inputs, schema, stream, progress)
    public_reading: PublicReading | None = None
    if planned and schema.neighbours == "label":
        public_reading = PublicReading.of(planned, schema, inputs.private)
        require_payable(schema, public_reading.designs, public_reading.kind_counts, budget)
    # 2. Reserve the whole budget. (The ledger refuses an empty id: a script that repeats it would be charged each time.)
    request = str(uuid.uuid4()) if request is None else request
    with ExitStack() as unsettled:  # a failure before `pop_all` below is noted in the ledger
        reservation, account = None, None
        if inputs.ledger is not None:
            try:
                reservation = _reserve(inputs.ledger, order, inputs, request)
            except AlreadyReleased as earlier:
                return reopen_release(earlier)
            unsettled.enter_context(reservation)
            # Looked up before a row is read: what others reserve meanwhile would reveal how long reading takes.
            account = inputs.ledger.show(schema.name)
            reservation.read()
        # The card states when the budget was reserved, not when the run ended: how long a run takes depends on the rows.
        start = datetime.now(UTC) if reservation is None else datetime.fromisoformat(reservation.time)
        # 3. Ask the curator: planned analyses first, then the method with the rest of the budget.
        journal = Rehearsal() if reservation is None else reservation
        curator = Curator(
            private_rows, budget, stream=stream, journal=journal, given_rows=order.stated_rows, progress=progress
        )
        planned_sums, remainder = _measure_planned(curator, order, public_reading)
        for_models = measure_totals(curator, order, remainder)
        used_methods, models = _fit_models(curator, order, for_models)
        noisy_tables = measured_tables(curator.answers, schema)
        calibration = None if planned_sums is None else planned_sums.estimate(noisy_tables)
        results = estimate_whole_rows(order, curator) if calibration is None else calibration.results
        contradictions = _find_contradictions(curator, order)
        # 4. Draw rows from the models; under `label`, label the public columns of the table (or of `onto`).
        recipe = Recipe(schema, models, inputs.private, sets, stream, seed, progress, calibration)
        if schema.neighbours == "label":
            tables, rows_known = inputs.row_maker.label(recipe), "public"
        else:
            n, rows_known = _row_count(curator, models, order)
            tables = weigh_sets(
                inputs.row_maker.draw(recipe, n), totals_among(curator.answers), released_schema(schema)
            )
        if calibration is not None and tables.in_memory and not order.labels_another:
            results = add_row_estimates(tables.results or results, planned, tables[0], schema)
        # 5. Write on the card what was done.
        card = Card.of(
            order,
            journal.events,
            reservation,
            used_methods=used_methods,
            request=request,
            start=start,
            rows=tables.rows,
            rows_known=rows_known,
            looks=0 if inputs.ledger is None else inputs.ledger.looks(schema.name),
            notes=(
                *calibration_notes(calibration, order, models),
                *row_notes(results),
                *path_notes(models, planned=calibration is not None),
                *career_notes(schema, tables.columns),
                *household_notes(schema),
                *weight_notes(schema),
                *contradictions,
            ),
            results=results,
            account=None if account is None else {"granted": account.granted_units, "spent": account.spent_units},
        )
        unsettled.pop_all()  # from here on, saving the release settles the run
    finish = None if reservation is None else reservation.finish
    return Release(tables, models, _schema_of(tables, schema), card, None, finish, results, noisy_tables)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The tables of a run and its ledger, opened and checked by their headers; no row has been read."""

    private: Source
    members: Source | None  # of households
    target: Source  # what is labelled under `label`: the private table, or another file
    row_maker: RowMaker  # what will make rows: this machine in its memory, or the workers of a cluster
    ledger: Ledger | None


def _open_inputs(order: Order, data: Any, onto: Any, members: Any, ledger: Ledger | str | Path | None) -> _Inputs:
    """Open every table, and refuse those whose columns, size or role do not fit the order."""
    schema = order.schema
    private = _open_private(data, order)
    target = private if onto is None else source(onto)
    persons = _open_members(members, schema)
    row_maker = maker_of(target)
    row_maker.require_room(schema, order.sets, order.rows)
    require_weighing(order)
    private.check(schema.columns)
    opened = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    require_apart(schema, [private, persons], opened, order.method)
    if onto is not None:
        _refuse_the_private_file(private, target)
        require_public([PublicInput("onto", fingerprints(target))], [], opened)
        target.check((*schema.public, *([] if schema.linked is None else [schema.linked])))
        require_factors(target)
    return _Inputs(private, persons, target, row_maker, opened)


def _open_private(data: Any, order: Order) -> Source:
    """Open the confidential table; an engine hands its rows over where they are weighed or joined on this machine."""
    private, schema = source(data), order.schema
    if order.analyses and schema.neighbours == "label":
        # The sums of planned analyses have a weight for each row.
        free = schema.public if schema.linked is None else (*schema.public, schema.linked)
        return FetchedRows.of(private, schema.columns, free)
    if schema.weight is not None or schema.unit.order is not None or schema.members is not None:
        return FetchedRows.of(private, schema.columns)
    return private


def _open_members(given: Any, schema: Schema) -> Source | None:
    """Open the table of members, if the schema has members; refuse one without the other."""
    if (given is None) != (schema.members is None):
        raise UsageError(
            f"the schema has members ('{schema.members.schema.name}'): give their table, members= or --members FILE"
            if schema.members is not None
            else "a table of members is given, but the schema has none; write members:, key: and max_members: in it"
        )
    if schema.members is None:
        return None
    members = FetchedRows.of(source(given), schema.members.schema.columns)
    members.check(schema.members.schema.columns)
    return members


def _refuse_the_private_file(private: Source, target: Source) -> None:
    """Refuse to label the private rows in their own order: it may depend on private values."""
    if private is target or fingerprints(private) & fingerprints(target):
        raise UsageError(
            "onto is the confidential table itself, whose order of rows is not public; leave onto out to label it"
        )


def _open_rows(inputs: _Inputs, schema: Schema, stream: Stream, progress: Progress | None) -> Rows:
    """Open the rows to be counted. None is read yet: a database is asked for its columns only, and may refuse."""
    reading = None if progress is None else partial(progress, "reading")
    key = stream.child("key").new_seed("key")
    if inputs.members is None:
        return rows_of(inputs.private, schema, reading, key=key)
    return HouseholdRows(inputs.private, inputs.members, schema, key, reading)


def _reserve(ledger: Ledger, order: Order, inputs: _Inputs, request: str) -> Reservation:
    """Reserve the whole budget for these tables."""
    of_members = None if inputs.members is None else fingerprint(inputs.members)
    return ledger.reserve(
        order.schema.name,
        order.budget,
        protects=protection_of(order.schema),
        source=fingerprint(inputs.private),
        also=[] if of_members is None else [of_members],
        request_id=request,
        method=order.method.name,
        another_grant=order.another_grant,
    )


def _measure_planned(
    curator: Curator, order: Order, reading: PublicReading | None
) -> tuple[PlannedSums | None, Budget]:
    """Under `label`: measure what planned analyses need; return it with the budget that is left for the models."""
    if reading is None:
        return None, order.budget
    curator.report("planned analyses", 0.0)
    prepared = PreparedAnalyses.of(reading, curator)
    if not prepared.agenda.parts:  # rows without a unit count nowhere
        return None, order.budget
    for_analyses, for_models = prepared.split(order.budget)
    sums = prepared.measure(curator, for_analyses)
    curator.report("planned analyses", 1.0)
    return sums, for_models


def _fit_models(curator: Curator, order: Order, budget: Budget) -> tuple[list[Method], tuple[FittedModel, ...]]:
    """Fit one model for all sets, or one for each set (`each="split"`); return the methods that made them, and the models."""
    shares = order.shares(budget)
    if len(shares) > 1:
        curators = [curator.nested(share, f"set {i}") for i, share in enumerate(shares, start=1)]
    elif budget == order.budget:
        curators = [curator]
    else:  # planned analyses or weighted totals took a part
        curators = [curator.nested(budget, "labels" if order.schema.neighbours == "label" else "")]
    used_methods, models = [], []
    for own in curators:
        if isinstance(order.method, Selection):  # private selection among candidates: the winner made the model
            winner, model = order.method.choose(own)
            method = order.method.candidates[winner]
        else:
            method, model = order.method, order.method.fit(own)
        used_methods.append(method)
        models.append(FittedModel(method.name, model))
    return used_methods, tuple(models)


def _find_contradictions(curator: Curator, order: Order) -> tuple[str, ...]:
    """Warn where noisy counts contradict the stated number of rows or public totals; return notes for the card."""
    known, answers, schema = order.stated_rows, curator.answers, order.schema
    found = ["" if known is None else contradiction(answers, known, schema), contradicted_totals(answers, schema)]
    for message in filter(None, found):
        warnings.warn(message, ContradictedRows, stacklevel=3)
    return tuple(f"{message[:1].upper()}{message[1:]}." for message in found if message)


def _row_count(curator: Curator, models: Sequence[FittedModel], order: Order) -> tuple[int, str]:
    """How many rows to make, and how that number is known."""
    if order.rows is not None:
        return order.rows, ASKED
    if order.stated_rows is not None:
        return order.stated_rows, KNOWN
    if curator.rows is not None:
        return curator.rows, "public"
    # Models that were sanitised separately count differently; their sets have one size, the card's.
    return round(sum(model.rows for model in models) / len(models)), "noisy estimate"


def _schema_of(tables: Sets, schema: Schema) -> Schema:
    """The schema of what is released: under `label`, without private columns that no method labels."""
    described = schema.project([n for n in schema.names if n in tables.columns])
    return released_schema(described if schema.linked in tables.columns else described.without_link())
