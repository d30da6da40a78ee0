"""Results as a tidy table: one row for each number of each run, with the levels of all factors beside it.

Columns: run, method, one for each factor, repeat, spent (ε or ρ in all), metric, term, level, value, reference. Factors
whose levels are numbers are numbers. Written as Parquet, with the study file in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import InputError
from dipsmith.experiments.design import Factor, label_of
from dipsmith.experiments.metrics import ANALYSIS_MEASURES
from dipsmith.experiments.ranges import Numbers, Range
from dipsmith.experiments.study import RangeEntry, StudyEntry, parse
from dipsmith.experiments.trial import Outcome, StudyRun
from dipsmith.synthesis.writing import replaced_file
from dipsmith.utility.metric import MetricValue

TABLE = "results.parquet"
SECONDS = "cpu-seconds"
BEFORE, AFTER = ("run", "method"), ("repeat", "spent", "metric", "term", "level", "value", "reference")
"""The columns of the table before and after those of the factors."""

Labels = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Response:
    """One number per run: what an analysis of variance explains.

    Factors are labels, one for each run; of those that are ranges `numbers` has the numbers themselves, and the labels are
    parts of the range. `references` are what to hold the values against.
    """

    metric: str
    term: str
    factors: dict[str, Labels]
    repeat: Ints
    values: Floats
    references: Floats
    numbers: Mapping[str, Numbers] = field(default_factory=dict)

    def where(self, kept: Bools) -> Response:
        """Some of the runs; factors that no longer vary are dropped."""
        arrays = {n: getattr(self, n)[kept] for n in ("repeat", "values", "references")}
        factors = {n: v[kept] for n, v in self.factors.items() if len(set(v[kept])) > 1}
        numbers = {n: v.where(kept) for n, v in self.numbers.items() if n in factors}
        return replace(self, factors=factors, numbers=numbers, **arrays)

    def without(self, names: Sequence[str]) -> Response:
        """The same runs, some factors left out."""
        factors = {n: v for n, v in self.factors.items() if n not in names}
        return replace(self, factors=factors, numbers={n: v for n, v in self.numbers.items() if n in factors})


@dataclass(frozen=True, eq=False)
class Results:
    """The numbers of a study; `failed` says which settings gave nothing, and `complete` whether every run was done."""

    study: StudyEntry
    table: pa.Table
    failed: tuple[str, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, study: StudyEntry, runs: Sequence[StudyRun], outcomes: Sequence[Outcome]) -> Results:
        """Lay the outcomes of runs out as a table."""
        known = {o.id: o for o in outcomes}
        done = [(r, known[r.id]) for r in runs if r.id in known]
        factors = list(dict.fromkeys(n for r in runs for n in r.setting.levels))
        rows = []
        for run, outcome in done:
            values = list(outcome.values)
            if not outcome.failed and not study.data.private:
                values.append(MetricValue(SECONDS, outcome.seconds))
            levels = [run.setting.levels.get(n) for n in factors]
            for v in values:
                number = (v.metric, v.term, v.level, v.value, v.reference)
                rows.append((run.id, run.setting.name, *levels, run.repeat, outcome.spent, *number))
        names = [*BEFORE, *factors, *AFTER]
        columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(names)
        arrays = [_typed_array(v) if n in factors else pa.array(v) for n, v in zip(names, columns, strict=True)]
        failed = dict.fromkeys(f"{r.setting}: {o.failed}" for r, o in done if o.failed)
        return cls(study, pa.table(arrays, names=names), tuple(failed), len(done) == len(runs))

    def save(self, folder: Path, text: str) -> Path:
        """Write the table, whole or not at all."""
        path = folder / TABLE
        with replaced_file(path) as work:
            pq.write_table(self.table.replace_schema_metadata({"study": text}), work)
        return path

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read a table that `save` wrote."""
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            raise InputError(f"'{path}' cannot be read; run the study again") from None
        text = (table.schema.metadata or {}).get(b"study")
        if text is None:
            raise InputError(f"'{path}' holds no study; expected {TABLE} of a study's folder")
        return cls(parse(text.decode()), table)

    @property
    def factors(self) -> list[str]:
        """What was varied, in the order of the file."""
        return [n for n in self.table.column_names if n not in (*BEFORE, *AFTER)]

    @cached_property
    def metrics(self) -> list[str]:
        """The single numbers of a run, in the order of the file; coefficients are not among them."""
        present = set(self.table.column("metric").unique().to_pylist())
        own = [*self.study.metrics, *(f"{a.label}: {kind}" for a in self.study.analyses for kind in ANALYSIS_MEASURES)]
        return [m for m in own if m in present]

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns as arrays; factors as labels."""
        found: dict[str, Any] = {name: self.table.column(name).to_numpy() for name in (*BEFORE, *AFTER)}
        for name in self.factors:
            label = self.ranges[name].label if name in self.ranges else label_of
            values = self.table.column(name).to_pylist()
            found[name] = np.array(["" if v is None else label(v) for v in values])
        return found

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Of the factors those that are ranges."""
        found: dict[str, Range] = {}
        for entry in self.study.methods:
            for name, levels in (self.study.vary | entry.vary).items():
                if isinstance(levels, RangeEntry) and name in self.factors:
                    span = entry.range_of(name, levels)
                    found[name] = found[name].union(span) if name in found else span
        return found

    def response(self, metric: str, term: str | None = None) -> Response:
        """The number of every run; of an analysis' coefficient the mean absolute error over its levels."""
        kept = self.columns["metric"] == metric
        if term is not None:
            kept = kept & (self.columns["term"] == term)
        c = {n: v[kept] for n, v in self.columns.items()}
        values = c["value"] if term is None else np.abs(c["value"] - c["reference"])
        _, first, run = np.unique(c["run"].astype(str), return_index=True, return_inverse=True)
        sizes = np.bincount(run)
        labels = {n: c[n][first].astype(str) for n in ("method", *self.factors)}
        factors = {n: v for n, v in labels.items() if len(set(v)) > 1}
        numbers = {
            n: Numbers(span, self.table.column(n).to_numpy().astype(float)[kept][first])
            for n, span in self.ranges.items()
            if n in factors
        }
        means = [np.bincount(run, v) / sizes for v in (values, c["reference"])]
        return Response(metric, term or "", factors, c["repeat"][first], means[0], means[1], numbers)

    def rows(self, metric: str) -> dict[str, Any]:
        """All rows of a metric as arrays, for figures over levels."""
        return {n: v[self.columns["metric"] == metric] for n, v in self.columns.items()}

    def present(self, factor: str, labels: NDArray[Any]) -> list[str]:
        """The levels of a factor that some labels have, in the order of the file."""
        return [level for level in self.order(factor) if level in set(labels.astype(str).tolist())]

    def order(self, factor: str) -> list[str]:
        """The levels of a factor in the order of the file."""
        if factor == "method":
            return [m.label for m in self.study.methods]
        if factor in self.ranges:
            return list(self.ranges[factor].labels)
        varied = [v[factor] for v in (self.study.vary, *(m.vary for m in self.study.methods)) if factor in v]
        return list(dict.fromkeys(label for levels in varied for label in Factor.of(factor, levels).labels))


def _typed_array(labels: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array([None if v is None else float(v) for v in labels], pa.float64())
    except ValueError:
        return pa.array(labels, pa.string())
