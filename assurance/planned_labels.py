"""A labeller with planned analyses as one method, so that both can be attacked together.

It does what a run under `label` does: sums are bought for the analyses, a labeller is fitted with the rest of the budget,
and its labels are adjusted until they carry the results. Public rows are the same in both worlds, and read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.analyses.measure import Agenda
from dipsmith.audit.worlds import worst_worlds
from dipsmith.codec.decode import decode
from dipsmith.codec.encode import Encoder
from dipsmith.estimation.measured_table import measured_tables
from dipsmith.methods.method import Labeller, Model, Planned, PublicFacts
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.sources import source
from dipsmith.synthesis.planned import Calibration, PreparedAnalyses, PublicReading


@dataclass(frozen=True)
class PlannedLabels:
    """The method: a labeller, and formulas over the columns of the worlds."""

    labeller: Any
    analyses: tuple[str, ...]
    name: ClassVar[str] = "planned"
    summary: ClassVar[str] = "Labels that carry planned analyses."
    relations: ClassVar[tuple[str, ...]] = ("label",)
    models: ClassVar[tuple[type[Model], ...]] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The labels that are made."""
        return tuple(self.labeller.targets)

    def fit(self, curator: Curator) -> CalibratedLabels:
        """Buy the sums, then the labeller."""
        prepared = _prepared(self.analyses, self.targets, curator.budget)
        ours, rest = prepared.split(curator.budget)
        bought = prepared.measure(curator, ours)
        inner = self.labeller.fit(curator.nested(rest, "labels"))
        return CalibratedLabels(inner, bought.estimate(measured_tables(curator.answers, curator.schema)))

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Nothing: it is only attacked."""
        return []


@dataclass(frozen=True, eq=False)
class CalibratedLabels:
    """A labeller whose labels carry the results."""

    inner: Labeller
    calibration: Calibration
    kind: str = field(default="planned", init=False)
    rows: None = field(default=None, init=False)

    @property
    def schema(self) -> Schema:
        """That of the labeller."""
        return self.inner.schema

    @property
    def targets(self) -> tuple[str, ...]:
        """Those of the labeller."""
        return self.inner.targets

    def label(self, rows: Codes, seed: int | None = None) -> Codes:
        """The public rows of the worlds with labels."""
        table, _ = self.calibration.table(self.inner, np.arange(len(rows)), seed)
        return Encoder(self.schema).encode(table)[0]

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        """Those of the labeller, before they are adjusted."""
        return self.inner.probabilities(rows)

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """It only labels."""
        raise NotImplementedError

    def state(self) -> tuple[dict[str, Any], Mapping[str, NDArray[Any]]]:
        """It is never saved."""
        raise NotImplementedError

    @classmethod
    def from_state(
        cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> CalibratedLabels:
        """It is never loaded."""
        raise NotImplementedError


@cache
def _prepared(analyses: tuple[str, ...], targets: tuple[str, ...], budget: Budget) -> PreparedAnalyses:
    """What is bought, decided by the public columns of the worlds, which are the same in both."""
    world = worst_worlds("label", targets)[0]
    table: pa.Table = decode(world, generator(0)).select(list(world.schema.public))
    reading = PublicReading.of([PlannedAnalysis.of(a) for a in analyses], world.schema, source(table))
    agenda = Agenda.of_designs(world.schema, reading.designs, reading.kind_counts)
    return PreparedAnalyses(agenda, reading, reading.kind_counts, agenda.share(budget))
