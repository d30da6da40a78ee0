"""Planned analyses, from public rows to results: what is bought, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.design import Design, Float, Ints, design_of
from dipsmith.analyses.direct import KnownSums, estimate_from, is_logistic
from dipsmith.analyses.forecast import Forecast, Split, assumed_shares, choose_share, split
from dipsmith.analyses.noisy_sums import Bought, NoisySums
from dipsmith.analyses.public_columns import pieces
from dipsmith.analyses.purchase import Purchase, purchases_of
from dipsmith.analyses.results import Result
from dipsmith.analyses.sum_table import STEPS
from dipsmith.analyses.sums import Layout
from dipsmith.errors import BudgetError, DipsmithError, UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.curator import Curator
from dipsmith.regression.model_frame import by_number, number_groups, text_of
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.codes import code_dtype

MOST_PARTS, MOST_NAMED = 60, 6
"""The most values of `by`, and of coefficients that a sentence names."""

SPARE = 10**6
"""Where noise could be drawn for so small a part of a budget, nobody need look closer: no table gets less."""

LARGEST = 1e60
"""The largest number in public rows and labels: squares of sums of their squares do not overflow."""


@dataclass(frozen=True, eq=False)
class Part:
    """A planned analysis, or its part for one value of `by`."""

    analysis: PlannedAnalysis
    layout: Layout
    value: str | None = None


@dataclass(frozen=True, eq=False)
class PartDesign:
    """The design of an analysis, or of its part for one value of `by`, before it is known how often each row counts."""

    analysis: PlannedAnalysis
    design: Design
    inside: NDArray[np.bool_] | None = None
    value: str | None = None

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which distinct public rows have all that the design needs."""
        known = self.design.often > 0
        return known if self.inside is None else known & self.inside

    def counts(self, often: Ints) -> bool:
        """Whether any row counts."""
        return bool(often[self.complete].sum() > 0)

    def part(self, often: Ints, *, as_given: bool = False) -> Part:
        """With how often each distinct public row counts; `as_given`: see `Layout.of`."""
        design = replace(self.design, often=np.multiply(self.complete, often, dtype=np.float64))
        return Part(self.analysis, Layout.of(design, as_given=as_given), self.value)


@dataclass(frozen=True)
class Expectation:
    """What to expect of one coefficient before anything is spent, were its labels as a forecast takes them to be.

    `sampling` and `noise` are standard errors, `width` that of the 95 % interval, `wanted` what was asked for. It is
    hopeless where noise alone is wider than the whole response varies, or where it would be refused for another `reason`.
    """

    analysis: str
    name: str
    sampling: float
    noise: float
    width: float
    wanted: float | None
    hopeless: bool
    reason: str = ""


def name_hidden(expectations: Sequence[Expectation]) -> tuple[str, ...]:
    """One sentence for every analysis of which noise is likely to hide something."""
    found = []
    for analysis in dict.fromkeys(e.analysis for e in expectations):
        names = [e.name for e in expectations if e.analysis == analysis]
        hidden = [e.name for e in expectations if e.analysis == analysis and e.hopeless]
        some = ", ".join(hidden[:MOST_NAMED]) + (f" and {len(hidden) - MOST_NAMED} more" if hidden[MOST_NAMED:] else "")
        if hidden:
            what = "all of it" if len(hidden) == len(names) > 1 else some
            reason = next((e.reason for e in expectations if e.analysis == analysis and e.reason), "")
            found.append(
                f"{analysis}: {reason or f'noise is likely to hide {what}; raise the budget, or ask for less'}"
            )
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Agenda:
    """Planned analyses on the distinct public rows of a table: everything that is known before the labels are asked."""

    schema: Schema
    parts: tuple[tuple[Part, ...], ...]

    @classmethod
    def of(cls, analyses: Sequence[PlannedAnalysis], schema: Schema, table: pa.Table, often: Ints) -> Agenda:
        """Read every formula against the distinct public rows, of which each counts `often` times."""
        return cls.of_designs(schema, read_designs(analyses, schema, table), often)

    @classmethod
    def of_designs(cls, schema: Schema, designs: Sequence[Sequence[PartDesign]], often: Ints) -> Agenda:
        """Of designs that were read before; parts in which no row counts are left out."""
        made = [[d.part(often) for d in parts if d.counts(often)] for parts in designs]
        return cls(schema, tuple(tuple(parts) for parts in made if parts))

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """All parts of all analyses."""
        return tuple(part for parts in self.parts for part in parts)

    @cached_property
    def purchases(self) -> tuple[Purchase, ...]:
        """What is bought."""
        return tuple(purchases_of([[part.layout for part in parts] for parts in self.parts]))

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        """What to expect of each part."""
        return tuple(Forecast.of(part.layout) for part in self.all_parts)

    def share(self, budget: Budget) -> float:
        """The share of a whole budget that the analyses need."""
        return choose_share(self.forecasts, self.purchases, budget, self.schema.unit.max_rows)

    @cached_property
    def _splits(self) -> dict[Budget, Split]:
        return {}

    def split(self, budget: Budget) -> Split:
        """How the analyses' budget is shared among their tables."""
        if budget not in self._splits:
            self._splits[budget] = split(self.forecasts, self.purchases, budget, self.schema.unit.max_rows)
        return self._splits[budget]

    def expectations(self, budget: Budget) -> tuple[Expectation, ...]:
        """How precise every coefficient of a private column can be, if the analyses have this budget; from public facts."""
        sds = self.split(budget).sds if self.purchases else {}
        found = []
        for part, forecast in zip(self.all_parts, self.forecasts, strict=True):
            noise, hidden = forecast.rehearse(sds, isinstance(budget, PureDP))
            width = 2 * 1.96 * np.sqrt(forecast.sampling + noise**2)
            title = part.analysis.text if part.value is None else f"{part.analysis.text}, {part.value}"
            lines = [column.tolist() for column in (np.sqrt(forecast.sampling), noise, width)]
            for name, sampling, sd, wide, hopeless in zip(forecast.names, *lines, hidden.tolist(), strict=True):
                found.append(Expectation(title, name, sampling, sd, wide, part.analysis.width, hopeless))
        return tuple(found)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What expectations take to be so, in words."""
        return tuple(dict.fromkeys(text for part in self.all_parts for text in assumed_shares(part.layout.design)))

    def measure(self, curator: Curator, budget: Budget, place: NDArray[np.integer]) -> dict[str, NoisySums]:
        """Buy the sums; `place` has the distinct public row of every row.

        Privacy
        -------
        `label`. Groups and weights are functions of public columns; every table is charged (`Curator.add_up`).
        """
        # Tables of the same groups and weights, by different labels, share their columns.
        alike = {one.table.public_key: one for one in self.purchases}
        made = {a: codes for one in alike.values() for a, codes in one.columns().items()}
        columns = {a.name: np.empty(len(place), code_dtype(a.size)) for a in made}
        for a, codes in made.items():
            for here in pieces(len(place)):
                columns[a.name][here] = codes[place[here]]
        child = curator.with_public_columns(budget, "analyses", list(made), columns)
        questions = [one.question(child.schema, i) for i, one in enumerate(self.purchases)]
        answers = child.add_up(questions, self.split(budget).budgets)
        found: dict[str, NoisySums] = {}
        for one, answer in zip(self.purchases, answers, strict=True):
            found |= one.answers(answer)
        return found

    def by_part(self, sums: Mapping[str, NoisySums]) -> tuple[Bought, ...]:
        """What was bought for every part."""
        return tuple(Bought.of(part.layout, sums) for part in self.all_parts)

    def results(self, known: Sequence[KnownSums]) -> tuple[Result, ...]:
        """The estimate of every part, from its sums."""
        found = []
        for part, sums in zip(self.all_parts, known, strict=True):
            model = "logistic" if is_logistic(part.layout) else "least squares"
            direct = estimate_from(part.layout, sums)
            found.append(Result.of(part.analysis.text, model, part.value, direct))
        return tuple(found)


def purchases_as_given(
    analyses: Sequence[PlannedAnalysis], schema: Schema, table: pa.Table, often: Ints
) -> tuple[Purchase, ...]:
    """Of what is bought for analyses, the sums of groups and numbers as they are given: all that tells of other sums.

    Numbers that were made orthogonal and residuals are bought in rounded steps, which no other sum asks for.
    """
    designs = read_designs(analyses, schema, table)
    parts = [[d.part(often, as_given=True) for d in some if d.counts(often)] for some in designs]
    return tuple(purchases_of([[part.layout for part in some] for some in parts if some]))


def require_payable(
    schema: Schema, designs: Sequence[Sequence[PartDesign]], often: Ints, budget: Budget, *, all_of_it: bool = False
) -> None:
    """Refuse, while nothing is spent, a budget for which some sum would need more noise than can be drawn.

    By all public rows. Which of them count is known later, and moves the shares a little: twice the weight is allowed for.
    """
    rows = schema.unit.max_rows
    try:
        noise_for("label", rows, budget.split([1, SPARE])[0], heaviest=2 * STEPS)
    except DipsmithError:
        agenda = Agenda.of_designs(schema, designs, often)
        try:
            share = 1.0 if all_of_it or not agenda.parts else agenda.share(budget)
            ours = budget if share == 1 else budget.split([share, 1 - share])[0]
            for one, cost in zip(agenda.purchases, agenda.split(ours).budgets if agenda.parts else (), strict=True):
                noise_for("label", rows, cost, heaviest=2 * one.table.heaviest)
        except DipsmithError:
            raise BudgetError(
                f"{budget} is too small for the sums of planned analyses with {rows:,} rows of a unit: the noise would be "
                "larger than can be drawn; raise it, plan less, or lower max_rows"
            ) from None


def _largest(numbers: Float) -> float:
    """The largest of all finite numbers, whatever its sign."""
    finite = np.isfinite(numbers)
    return float(max(numbers.max(where=finite, initial=0.0), -numbers.min(where=finite, initial=0.0)))


def read_designs(
    analyses: Sequence[PlannedAnalysis], schema: Schema, table: pa.Table
) -> tuple[tuple[PartDesign, ...], ...]:
    """Read every formula against distinct public rows; what cannot be planned is refused here, by public facts alone."""
    return tuple(tuple(_designs(analysis, schema, table)) for analysis in analyses)


def _designs(analysis: PlannedAnalysis, schema: Schema, table: pa.Table) -> list[PartDesign]:
    design = design_of(analysis, schema, table, np.broadcast_to(np.int64(1), table.num_rows))
    if not design.rows:
        raise UsageError(f"analysis '{analysis}': no row has all of its public values; leave the analysis out")
    of_labels = [x for term in design.private for x in (term.weight, term.on_label)]
    numbers = [x for x in (design.y, *(b.weight for b in design.blocks), *of_labels) if x is not None]
    if any(_largest(x) > LARGEST for x in numbers):
        raise UsageError(
            f"analysis '{analysis}' has numbers beyond {LARGEST:g}, whose squares cannot be added up; leave it out, or take "
            "logarithms or smaller units"
        )
    if analysis.by is None:
        return [PartDesign(analysis, design)]
    by = number_groups(table, analysis.by)
    values, first = np.unique(by, return_index=True)
    texts = text_of(table.column(analysis.by).take(pa.array(first))).to_pylist()
    parts = [(code, text) for code, text in zip(values, texts, strict=True) if text is not None]
    if len(parts) > MOST_PARTS:
        raise UsageError(
            f"analysis '{analysis}' has {len(parts)} parts, at most {MOST_PARTS} are planned; use a coarser column"
        )
    parts.sort(key=lambda pair: by_number(pair[1]))
    return [PartDesign(analysis, design, by == code, f"{analysis.by} {text}") for code, text in parts]
