"""Planned analyses of a run under `label`: bought before the labeller is fitted, carried by its labels afterwards."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.calibrate import Tilt, joint_codes, order_of, plain_coefficients, targets_of
from dipsmith.analyses.design import design_of
from dipsmith.analyses.direct import KnownSums
from dipsmith.analyses.features import Target
from dipsmith.analyses.measure import Agenda, PartDesign, name_hidden, read_designs
from dipsmith.analyses.noisy_sums import NoisySums
from dipsmith.analyses.results import Result
from dipsmith.errors import HopelessNoise, SourceError, UnsupportedError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.methods.method import Labeller, Method, PlansAnalyses
from dipsmith.planning.analysis_plan import AnalysisPlan
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.regression.analysis import read_formula
from dipsmith.schema import Bins, Categories, Codes, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.households import require_own_columns
from dipsmith.sources import Source, source
from dipsmith.sources.fetched_rows import FetchedRows
from dipsmith.synthesis.canonical import PublicRows
from dipsmith.synthesis.careers import Careers, read_careers, row_law
from dipsmith.synthesis.fitted import FittedModel, drawn_table
from dipsmith.synthesis.label_tables import LabelTables, measured_columns
from dipsmith.synthesis.order import Order

MOST_LISTED = 2000
"""Listed values of a column that a formula is read against before rows are."""

FEWEST_TENTHS, MOST_TENTHS = -60, 48
"""Budgets that are looked through: from 0.003 to 97, in steps of a tenth."""


@dataclass(frozen=True, eq=False)
class PublicReading:
    """The public columns of the confidential table, and planned analyses read against them: public facts, which are free.

    `kinds` has a row of each kind, `place` the kind of every row of `private`, as it gives its rows.
    """

    private: Source
    public: PublicRows
    careers: Careers | None
    kinds: PublicRows
    place: NDArray[np.int64]
    designs: tuple[tuple[PartDesign, ...], ...]

    @classmethod
    def of(cls, analyses: Sequence[PlannedAnalysis], schema: Schema, private: Source) -> PublicReading:
        """Read the public columns; what cannot be planned is refused here, before anything is reserved.

        Privacy
        -------
        `label`. Reads public columns only, and the link of rows where it is public.
        """
        public, careers = read_careers(private, schema, schema.public, schema.linked)
        first, place = public.distinct()
        kinds = public.only(first)
        designs = read_designs(analyses, schema, kinds.short_table([n for a in analyses for n in a.columns]))
        return cls(private, public, careers, kinds, place, designs)

    def reread_to_count(self, schema: Schema) -> PublicReading:
        """Read an engine's rows again, in the order in which it hands them over to be counted.

        Kinds are numbered by what their rows say, so that nothing else changes.
        """
        if not isinstance(self.private, FetchedRows):
            return self
        self.private.fetch()
        public, careers = read_careers(self.private, schema, schema.public, schema.linked)
        if not public.has_the_rows_of(self.public):
            raise SourceError(
                f"{self.private.describe()}: the rows changed between two passes; try again when they do not"
            )
        first, place = public.distinct()
        return replace(self, public=public, careers=careers, kinds=public.only(first), place=place)

    @cached_property
    def sorted_place(self) -> NDArray[np.int64]:
        """The kind of every row when rows are in the order of their values."""
        return self.public.sorted_kinds()

    @property
    def kind_counts(self) -> NDArray[np.int64]:
        """How many rows there are of each kind."""
        return np.bincount(self.place, minlength=self.kinds.rows).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PreparedAnalyses:
    """Planned analyses and how many rows of each kind count; nothing private is known yet."""

    agenda: Agenda
    reading: PublicReading
    kind_counts: NDArray[np.int64]
    share: float

    @classmethod
    def of(cls, reading: PublicReading, curator: Curator) -> PreparedAnalyses:
        """Find out which rows count.

        Privacy
        -------
        Reads public columns only, and how many rows of each kind count by them (`Curator.count_kinds`). An engine hands all
        columns over here, after they were paid for.
        """
        reading = reading.reread_to_count(curator.schema)
        kind_counts = curator.count_kinds(reading.place, reading.kinds.rows)
        agenda = Agenda.of_designs(curator.schema, reading.designs, kind_counts)
        share = agenda.share(curator.budget)
        for warning in name_hidden(agenda.expectations(curator.budget.split([share, 1 - share])[0])):
            warnings.warn(warning, HopelessNoise, stacklevel=4)
        return cls(agenda, reading, kind_counts, share)

    @property
    def every_row(self) -> bool:
        """Whether every row counts."""
        return int(self.kind_counts.sum()) == self.reading.public.rows

    def split(self, budget: Budget) -> tuple[Budget, Budget]:
        """What the analyses take of a budget, and what is left for the labeller."""
        ours, rest = budget.split([self.share, 1 - self.share])
        return ours, rest

    def measure(self, curator: Curator, budget: Budget) -> PlannedSums:
        """Buy the sums.

        Privacy
        -------
        See `Agenda.measure`.
        """
        return PlannedSums(self, self.agenda.measure(curator, budget, self.reading.place))


@dataclass(frozen=True, eq=False)
class PlannedSums:
    """The sums that were bought; no labeller is fitted yet."""

    prepared: PreparedAnalyses
    sums: dict[str, NoisySums]

    def estimate(self, measured: Sequence[MeasuredTable]) -> Calibration:
        """Estimate from them, and from what all measured tables, the labeller's own among them, tell of the same sums.

        Privacy
        -------
        Reads public columns and noisy tables.
        """
        agenda, reading = self.prepared.agenda, self.prepared.reading
        known: tuple[KnownSums, ...] = agenda.by_part(self.sums)
        if measured:
            names = measured_columns(agenda.schema, measured, reading.public.names)
            codes = reading.kinds.codes(agenda.schema, names)
            tables = LabelTables.read(agenda.schema, codes, self.prepared.kind_counts, measured, agenda.purchases)
            known = tuple(tables.pool(p.layout) or own for p, own in zip(agenda.all_parts, known, strict=True))
        return Calibration(self.prepared, known, agenda.results(known))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The results of planned analyses, and labels that carry them."""

    prepared: PreparedAnalyses
    known: tuple[KnownSums, ...]
    results: tuple[Result, ...]

    def table(
        self, labeller: Labeller, among: NDArray[np.int64], seed: int | None
    ) -> tuple[pa.Table, tuple[Result, ...]]:
        """The confidential table's public columns beside labels that carry the results; and results with what rows give.

        Row i is the one that stands at `among[i]` when rows are in the order that their values decide. Labels are drawn in
        that order.

        Privacy
        -------
        Reads public columns, the model and noisy sums.
        """
        schema, reading, names = labeller.schema, self.prepared.reading, labeller.targets
        public, order = reading.public, reading.public.order()
        random = generator(None if seed is None else named_seed(seed, ("calibrated labels",)))
        drawn = self.draw(row_law(labeller, reading.kinds, reading.sorted_place), names, order, random)
        shape = [schema[name].size for name in names]
        codes = Codes.of(schema, dict(zip(names, joint_codes(drawn[among], shape), strict=True)), len(order))
        labels = drawn_table(codes, seed)
        table = public.table(order[among])
        for name in names:
            table = table.append_column(name, labels.column(name))
        return table, self._in_rows(drawn, names, order)

    def draw(
        self,
        p: NDArray[np.floating],
        names: Sequence[str],
        rows: NDArray[np.int64],
        random: Generator,
        starts: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Joint labels of some rows that carry the results; of units, whose rows stand from `starts` on."""
        found, place = self._targets(names, rows)
        order = order_of(found, place, len(p), random, starts)
        return Tilt(p, found, place, self.prepared.agenda.schema, names, starts).draw(random, order)

    def _targets(self, names: Sequence[str], rows: NDArray[np.int64]) -> tuple[list[Target], NDArray[np.int64] | None]:
        """What labels reach, and the distinct public row of each of these rows; None where they are those themselves."""
        agenda, reading = self.prepared.agenda, self.prepared.reading
        found, _ = targets_of(agenda, self.results, self.known, agenda.schema, names)
        # Where no two rows are alike, rows in the order of their values are the distinct rows.
        if rows is not reading.public.order():
            return found, reading.place[rows]
        return found, None if reading.kinds.rows == len(rows) else reading.sorted_place

    def _in_rows(self, drawn: NDArray[np.int64], names: Sequence[str], rows: NDArray[np.int64]) -> tuple[Result, ...]:
        """Results with what a plain regression of all rows gives, where the sums of their labels say it."""
        agenda = self.prepared.agenda
        if not self.prepared.every_row:
            return self.results
        targets, place = self._targets(names, rows)
        sizes = {n: agenda.schema[n].size for n in names}
        plain = {
            id(t.part): plain_coefficients(t, place, drawn, names, sizes)
            for t in targets
            # Of a number in bins the rows have a value within its bin.
            if not any(isinstance(agenda.schema[n].domain, Bins) for n in t.part.layout.design.labels)
        }
        pairs = zip(agenda.all_parts, self.results, strict=True)
        return tuple(r if (found := plain.get(id(p))) is None else r.with_rows(found.tolist()) for p, r in pairs)


def forecast_labels(analyses: Sequence[PlannedAnalysis], schema: Schema, data: Any, budget: Budget) -> AnalysisPlan:
    """Forecast planned analyses under `label`, and the least budget that gives the widths that are wanted.

    Privacy
    -------
    Reads the public columns of `data` only; rows beyond `max_rows` are not left out.
    """
    found = source(data)
    found.check(schema.public)
    reading = PublicReading.of(analyses, schema, found)
    agenda = Agenda.of_designs(schema, reading.designs, reading.kind_counts)
    share = agenda.share(budget)
    expectations = agenda.expectations(budget.split([share, 1 - share])[0])
    wanted = any(a.width is not None for a in analyses)
    return AnalysisPlan(share, expectations, _enough(agenda, budget) if wanted else None, agenda.assumptions)


def _enough(agenda: Agenda, like: Budget) -> Budget | None:
    """The least whole budget at which every width is as wanted, to a tenth; None where the rows themselves are too few."""

    def suffices(step: int) -> bool:
        budget = _tenths(like, step)
        share = agenda.share(budget)
        found = agenda.expectations(budget.split([share, 1 - share])[0])
        return all(e.wanted is None or e.width <= e.wanted for e in found)

    steps = range(FEWEST_TENTHS, MOST_TENTHS + 1)
    least = bisect_left(steps, True, key=suffices)
    return _tenths(like, steps[least]) if least < len(steps) else None


def _tenths(like: Budget, step: int) -> Budget:
    """A budget of so many steps of a tenth from 1."""
    return type(like)(float(f"{1.1**step:.3g}"))


def ready_method(method: Method, analyses: Sequence[PlannedAnalysis], schema: Schema, budget: Budget) -> Method:
    """A method as a run with these analyses would use it; raises what such a run would refuse. Reads the schema only."""
    found = prepare_method(method, analyses, schema)
    Order(schema, found, budget, analyses=tuple(analyses))
    require_designs(analyses, schema)
    return found


def prepare_method(method: Method, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Method:
    """A method of whole rows that measures what planned analyses need before everything else."""
    if not analyses or schema.neighbours == "label":
        return method
    require_own_columns(analyses, schema)
    if not isinstance(method, PlansAnalyses):
        name, instead = getattr(method, "name", method), "use a method of measured tables, or leave the analyses out"
        raise UnsupportedError(f"{name} cannot be told which analyses are planned; {instead}")
    return method.for_analyses(analyses, schema)


def calibration_notes(calibration: Calibration | None, order: Order, models: Sequence[FittedModel]) -> tuple[str, ...]:
    """What the card says of labels that were adjusted to planned results."""
    if calibration is None:
        return ()
    if order.labels_another:
        return ("Planned analyses are of the confidential table; labels of another file are not adjusted to them.",)
    agenda, names = calibration.prepared.agenda, models[0].labeller().targets
    _, left = targets_of(agenda, calibration.results, calibration.known, agenda.schema, names)
    carried = (
        "Labels are adjusted so that planned analyses come out of the synthetic rows as they were estimated, as far as noise "
        "leaves labels that meet them all; where the rows differ, the estimates in results.json count."
    )
    return (carried, *(f"Not carried by the labels: {what}." for what in left))


def require_designs(analyses: Sequence[PlannedAnalysis], schema: Schema) -> None:
    """Refuse, while nothing is spent, formulas that cannot be planned: read against listed values alone."""
    if schema.neighbours != "label":
        nobody = drawn_table(Codes.of(schema, {n: np.zeros(0, np.int64) for n in schema.names}, 0), 0)
        for analysis in analyses:
            read_formula(analysis.formula, [nobody], schema, dict(analysis.reference))
        return
    listed = {a.name: a.domain.values if isinstance(a.domain, Categories) else (a.domain.minimum,) for a in schema}
    rows = np.arange(min(max((len(v) for v in listed.values()), default=1), MOST_LISTED))
    public = {n: pa.array(listed[n]).take(pa.array(rows % len(listed[n]))) for n in schema.public}
    for analysis in analyses:
        design_of(analysis, schema, pa.table(public), np.ones(len(rows), np.int64))
