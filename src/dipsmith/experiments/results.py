"""Results as a tidy table: one row for each number of each run, with the levels of all factors beside it.

Columns: run, method, one for each factor, repeat, spent (ε or ρ in all), metric, term, level, value, reference. Factors
whose levels are numbers are numbers. Written as Parquet, with the study file in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dipsmith.errors import InputError
from dipsmith.experiments.design import Factor, shown
from dipsmith.experiments.entries import StudyEntry
from dipsmith.experiments.ranges import Numbers, Range, RangeEntry
from dipsmith.experiments.study import parse
from dipsmith.experiments.trial import Outcome, Run
from dipsmith.synthesis.writing import replaced_file

TABLE = "results.parquet"
SECONDS = "cpu-seconds"
ANALYSED = ("error", "overlap", "coverage", "width")
"""What is said of a regression besides its coefficients."""

Labels = NDArray[np.str_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Response:
    """One number per run: what an analysis of variance explains.

    Attributes
    ----------
    metric, term
        What it is.
    factors
        For every factor the level of each run, as a label.
    repeat
        The repeat of each run.
    values, references
        The number, and what to hold it against.
    numbers
        Of factors that are ranges also the numbers themselves; their labels are parts of the range.
    """

    metric: str
    term: str
    factors: dict[str, Labels]
    repeat: NDArray[np.int64]
    values: Floats
    references: Floats
    numbers: Mapping[str, Numbers] = field(default_factory=dict)

    def where(self, kept: NDArray[np.bool_]) -> Response:
        """Some of the runs; factors that no longer vary are dropped."""
        factors = {n: v[kept] for n, v in self.factors.items() if len(set(v[kept])) > 1}
        return Response(
            self.metric,
            self.term,
            factors,
            self.repeat[kept],
            self.values[kept],
            self.references[kept],
            {n: v.where(kept) for n, v in self.numbers.items() if n in factors},
        )


@dataclass(frozen=True, eq=False)
class Results:
    """The numbers of a study.

    Attributes
    ----------
    study
        What was asked.
    table
        The numbers.
    failed
        Settings that gave nothing, and why.
    complete
        Whether every run was done (or refused).
    """

    study: StudyEntry
    table: pa.Table
    failed: tuple[str, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, study: StudyEntry, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> Results:
        """Lay the outcomes of runs out as a table."""
        known = {o.id: o for o in outcomes}
        done = [(r, known[r.id]) for r in runs if r.id in known]
        names = list(dict.fromkeys(n for r in runs for n in r.setting.levels))
        columns: dict[str, list[Any]] = {
            n: [] for n in ("run", "method", *names, "repeat", "spent", "metric", "term", "level")
        }
        values: list[float] = []
        references: list[float] = []
        for run, outcome in done:
            untimed = outcome.failed or study.data.private
            timed = [] if untimed else [(SECONDS, "", "", outcome.seconds, float("nan"))]
            rows = [(m.metric, m.term, m.level, m.value, m.reference) for m in outcome.measured] + timed
            for metric, term, level, value, reference in rows:
                columns["run"].append(run.id)
                columns["method"].append(run.setting.name)
                for n in names:
                    columns[n].append(run.setting.levels.get(n))
                columns["repeat"].append(run.repeat)
                columns["spent"].append(outcome.spent)
                columns["metric"].append(metric)
                columns["term"].append(term)
                columns["level"].append(level)
                values.append(value)
                references.append(reference)
        made = {n: _typed(v) if n in names else pa.array(v) for n, v in columns.items()}
        table = pa.table(made | {"value": pa.array(values), "reference": pa.array(references)})
        failed = dict.fromkeys(f"{_words(r)}: {o.failed}" for r, o in done if o.failed)
        return cls(study, table, tuple(failed), len(done) == len(runs))

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
        fixed = ("run", "method", "repeat", "spent", "metric", "term", "level", "value", "reference")
        return [n for n in self.table.column_names if n not in fixed]

    @property
    def metrics(self) -> list[str]:
        """The single numbers of a run, in the order of the file; coefficients are not among them."""
        own = [*self.study.metrics]
        for a in self.study.analyses:
            own += [f"{a.label}: {kind}" for kind in ANALYSED]
        return [m for m in own if m in self._present]

    @cached_property
    def _present(self) -> set[str]:
        return set(self.table.column("metric").unique().to_pylist())

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Columns as arrays; factors as labels."""
        found: dict[str, Any] = {}
        for name in self.table.column_names:
            column = self.table.column(name)
            if name in self.ranges:
                span = self.ranges[name]
                found[name] = np.array(["" if v is None else span.label(v) for v in column.to_pylist()])
            elif name in self.factors:
                found[name] = np.array([_label(v) for v in column.to_pylist()])
            else:
                found[name] = column.to_numpy()
        return found

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Of the factors those that are ranges."""
        found: dict[str, Range] = {}
        for entry in self.study.methods:
            for name, levels in (self.study.vary | entry.vary).items():
                if isinstance(levels, RangeEntry) and name in self.factors:
                    span = entry.range_of(name, levels)
                    found[name] = found[name].joined(span) if name in found else span
        return found

    def response(self, metric: str, term: str | None = None) -> Response:
        """The number of every run; of an analysis' coefficient the mean absolute error over its levels."""
        c = self.columns
        kept = c["metric"] == metric
        if term is not None:
            kept = kept & (c["term"] == term)
        values = c["value"][kept] if term is None else np.abs(c["value"][kept] - c["reference"][kept])
        _, first, run = np.unique(c["run"][kept].astype(str), return_index=True, return_inverse=True)
        sizes = np.bincount(run)
        factors = {
            n: c[n][kept][first].astype(str)
            for n in ("method", *self.factors)
            if len(set(c[n][kept][first])) > 1
        }
        return Response(
            metric,
            term or "",
            factors,
            c["repeat"][kept][first],
            np.bincount(run, values) / sizes,
            np.bincount(run, c["reference"][kept]) / sizes,
            {
                n: Numbers(span, self.table.column(n).to_numpy().astype(float)[kept][first])
                for n, span in self.ranges.items()
                if n in factors
            },
        )

    def rows(self, metric: str) -> dict[str, Any]:
        """All rows of a metric as arrays, for figures over levels."""
        kept = self.columns["metric"] == metric
        return {n: v[kept] for n, v in self.columns.items()}

    def order(self, factor: str) -> list[str]:
        """The levels of a factor in the order of the file."""
        if factor == "method":
            return [m.label for m in self.study.methods]
        if factor in self.ranges:
            return list(self.ranges[factor].labels)
        found: list[str] = []
        for varied in (self.study.vary, *(m.vary for m in self.study.methods)):
            if factor in varied:
                found += [v for v in Factor.of(factor, varied[factor]).labels if v not in found]
        return found


def _typed(labels: list[str | None]) -> pa.Array:
    try:
        return pa.array([None if v is None else float(v) for v in labels], pa.float64())
    except ValueError:
        return pa.array(labels, pa.string())


def _label(value: Any) -> str:
    return "" if value is None else shown(value)


def _words(run: Run) -> str:
    levels = ", ".join(f"{k} = {v}" for k, v in run.setting.levels.items())
    return run.setting.name + (f" ({levels})" if levels else "")
