"""Planned analyses, from public rows to results: what is bought, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.design import Ints, design_of
from dipsmith.analyses.direct import estimate, is_logistic
from dipsmith.analyses.forecast import Forecast, Split, choose_share, split
from dipsmith.analyses.noisy_sums import NoisySums
from dipsmith.analyses.purchase import Purchase, purchases_of
from dipsmith.analyses.results import Result
from dipsmith.analyses.sums import Layout
from dipsmith.errors import UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.regression.model_frame import by_number, number_groups, text_of
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.codes import code_dtype

MOST_PARTS = 60
"""Values of `by` at most."""


@dataclass(frozen=True, eq=False)
class Part:
    """A planned analysis, or its part for one value of `by`."""

    analysis: PlannedAnalysis
    layout: Layout
    value: str | None = None


@dataclass(frozen=True)
class Expectation:
    """What to expect of one coefficient before anything is spent, were its labels as a forecast takes them to be.

    `sampling` and `noise` are standard errors, `width` that of the 95 % interval, `wanted` what was asked for. It is
    hopeless where noise alone is wider than the whole response varies.
    """

    analysis: str
    name: str
    sampling: float
    noise: float
    width: float
    wanted: float | None
    hopeless: bool


@dataclass(frozen=True, eq=False)
class Agenda:
    """Planned analyses on the distinct public rows of a table: everything that is known before the labels are asked."""

    schema: Schema
    parts: tuple[tuple[Part, ...], ...]

    @classmethod
    def of(cls, analyses: Sequence[PlannedAnalysis], schema: Schema, table: pa.Table, often: Ints) -> Agenda:
        """Read every formula against the distinct public rows, of which each counts `often` times."""
        return cls(schema, tuple(tuple(_parts(analysis, schema, table, often)) for analysis in analyses))

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
        sds = self.split(budget).sds
        found = []
        for part, forecast in zip(self.all_parts, self.forecasts, strict=True):
            noise = np.sqrt(forecast.noise(sds))
            lines = zip(
                forecast.names, np.sqrt(forecast.sampling), noise, forecast.width(sds), forecast.reach, strict=True
            )
            for name, sampling, sd, width, reach in lines:
                title = part.analysis.text if part.value is None else f"{part.analysis.text}, {part.value}"
                hopeless = bool(1.96 * sd > reach)
                found.append(
                    Expectation(title, name, float(sampling), float(sd), float(width), part.analysis.width, hopeless)
                )
        return tuple(found)

    def measure(self, curator: Curator, budget: Budget, place: NDArray[np.integer]) -> dict[str, NoisySums]:
        """Buy the sums; `place` has the distinct public row of every row.

        Privacy
        -------
        `label`. Groups and weights are functions of public columns; every table is charged (`Curator.add_up`).
        """
        # Tables of the same groups and weights, by different labels, share their columns.
        alike = {one.table.public_key: one for one in self.purchases}
        made = {a: codes for one in alike.values() for a, codes in one.columns().items()}
        columns = {a.name: codes.astype(code_dtype(a.size))[place] for a, codes in made.items()}
        child = curator.widened(budget, "analyses", list(made), columns)
        questions = [one.question(child.schema, i) for i, one in enumerate(self.purchases)]
        answers = child.add_up(questions, self.split(budget).budgets)
        found: dict[str, NoisySums] = {}
        for one, answer in zip(self.purchases, answers, strict=True):
            found |= one.answers(answer)
        return found

    def results(self, sums: dict[str, NoisySums]) -> tuple[Result, ...]:
        """The estimate of every part."""
        found = []
        for part in self.all_parts:
            model = "logistic" if is_logistic(part.layout) else "least squares"
            direct = estimate(part.layout, {t.key: sums[t.key] for t in part.layout.tables})
            found.append(Result.of(part.analysis.text, model, part.value, direct))
        return tuple(found)


def _parts(analysis: PlannedAnalysis, schema: Schema, table: pa.Table, often: Ints) -> list[Part]:
    if analysis.by is None:
        return [Part(analysis, Layout.of(design_of(analysis, schema, table, often)))]
    by = number_groups(table, analysis.by)
    values = text_of(table.column(analysis.by)).to_pylist()
    parts = []
    for code in range(int(by.max(initial=-1)) + 1):
        inside = by == code
        if often[inside].sum() > 0 and (value := values[int(np.flatnonzero(inside)[0])]) is not None:
            layout = Layout.of(design_of(analysis, schema, table, np.where(inside, often, 0)))
            parts.append(Part(analysis, layout, f"{analysis.by} {value}"))
    if len(parts) > MOST_PARTS:
        raise UsageError(
            f"analysis '{analysis}' has {len(parts)} parts, at most {MOST_PARTS} are planned; use a coarser column"
        )
    return sorted(parts, key=lambda part: by_number(str(part.value).removeprefix(f"{analysis.by} ")))
