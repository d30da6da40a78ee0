"""One run of a study: synthesise, compare, and nothing else; the same run gives the same numbers.

On simulated or public rows a run is free, uses a noise seed (so that it can be repeated) and keeps no release. On
private rows it goes through the ledger like any other: charged before a value is read, with a request id that never
draws noise twice, its release kept, and the comparison logged as a look.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.errors import DipsmithError, HopelessNoise, InputError, UsageError
from dipsmith.experiments.datasets import Dataset, dataset
from dipsmith.experiments.design import Setting, settings
from dipsmith.experiments.metrics import find_metrics
from dipsmith.experiments.study import AnalysisEntry, StudyEntry
from dipsmith.methods.catalogue import METHODS, public_setting
from dipsmith.methods.method import Method
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.synthesis.public import public_table
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.synthesize import synthesize
from dipsmith.utility.authentic import authentic_table
from dipsmith.utility.metric import Metric, MetricValue, SideBySide
from dipsmith.utility.pair import authentic_codes
from dipsmith.utility.regression import Regression, compare_regression
from dipsmith.version import VERSION

MOST_DATASETS = 3
"""Datasets that a process keeps for its next runs."""


@dataclass(frozen=True)
class StudyRun:
    """One setting in one repeat. The id changes with anything that could change its numbers."""

    id: str
    setting: Setting
    repeat: int


@dataclass(frozen=True)
class Outcome:
    """What a run gave, or why it gave nothing."""

    id: str
    values: tuple[MetricValue, ...]
    spent: float
    seconds: float
    failed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """A line of the journal."""
        rows = [[v.metric, v.term, v.level, v.value, v.reference] for v in self.values]
        own = ("id", "spent", "seconds", "failed")
        return {name: getattr(self, name) for name in own} | {"rows": rows}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Outcome:
        """The outcome back from its line."""
        rows = tuple(MetricValue(m, v, r, term, level) for m, term, level, v, r in line["rows"])
        return cls(line["id"], rows, line["spent"], line["seconds"], line["failed"])


class Laboratory:
    """Runs the trials of a study; what its file names is checked when it is made.

    Paths in the file start from `base`. Results go to `out`, and releases of private rows too. The functions of `extra`
    metrics (the study's own, by name) must be importable by other processes.
    """

    def __init__(
        self, study: StudyEntry, base: Path = Path(), out: Path = Path(), extra: Mapping[str, Metric] | None = None
    ) -> None:
        self.study, self.base, self.out, self.extra = study, base, out, extra
        self.metrics = find_metrics(study.metrics, extra)
        self.settings = settings(study)
        for setting in self.settings:
            _method(setting, None)
            budget(setting)
        self._datasets: dict[str, Dataset] = {}

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Another process makes its own from the same study."""
        return Laboratory, (self.study, self.base, self.out, self.extra)

    @cached_property
    def runs(self) -> list[StudyRun]:
        """All runs: every setting of the first repeat, then of the second, and so on."""
        return [
            StudyRun(self._digest(setting, repeat), setting, repeat)
            for repeat in range(self.study.repeats)
            for setting in self.settings
        ]

    def request_of(self, run: StudyRun) -> str:
        """The id under which the ledger knows a run."""
        return f"study {self.study.name} {run.id}"

    @property
    def cost(self) -> Budget | None:
        """What all runs cost together; None where the rows need no protection."""
        if not self.study.data.private:
            return None
        each = [budget(run.setting) for run in self.runs]
        if len({type(b) for b in each}) > 1:
            raise UsageError("runs in ε and runs in ρ cannot be added up; use one currency in a study")
        return type(each[0]).of_units(sum(b.units for b in each))

    def run(self, run: StudyRun) -> Outcome:
        """Do one run. What the package refuses is an outcome too; anything else is a bug and is raised."""
        started = time.process_time()
        values: list[MetricValue] = []
        spent, failed = 0.0, ""
        try:
            with warnings.catch_warnings():
                # A study visits hopeless settings on purpose.
                warnings.simplefilter("ignore", HopelessNoise)
                values, spent = self._measure(run), float(budget(run.setting).exact)
        except DipsmithError as error:
            failed = " ".join(str(error).split())
        # On private rows no time is told: how long a run takes depends on them.
        seconds = 0.0 if self.study.data.private else time.process_time() - started
        return Outcome(run.id, tuple(values), spent, seconds, failed)

    def _measure(self, run: StudyRun) -> list[MetricValue]:
        data = self._dataset(run)
        release = self._release(run, data)
        schema = data.schema
        names = [n for n in schema.names if n in release.tables[0].column_names]
        codes = authentic_codes(source(data.rows), schema, names)[0]
        both = SideBySide(codes, release, schema, data.fresh)
        found = [v for name in self.study.metrics for v in self.metrics[name].values(both)]
        for analysis in self.study.analyses:
            found += _analyse(analysis, data, release)
        return found

    def _release(self, run: StudyRun, data: Dataset) -> Release:
        schema, values = data.schema, run.setting.values
        sets = int(values.get("sets") or 1)
        asked: dict[str, Any] = {
            "budget": budget(run.setting),
            "sets": sets,
            "each": values.get("each") if sets > 1 else None,
        }
        method = _method(run.setting, schema, self.base)
        if not self.study.data.private:
            rows = getattr(data.rows, "num_rows", None) if schema.neighbours == "add-remove" else None
            noise = int(run.id[:12], 16)
            return synthesize(
                data.rows, schema, method, **asked, known_rows=rows, seed=run.repeat, testing=True, noise_seed=noise
            )
        assert self.study.data.ledger is not None
        ledger = Ledger(self.base / self.study.data.ledger)
        folder = self.out / "releases"
        folder.mkdir(parents=True, exist_ok=True)  # before the charge: nothing may fail after it
        release = synthesize(data.rows, schema, method, **asked, ledger=ledger, request=self.request_of(run))
        if release.folder is None:
            release.save(folder / run.id)
        ledger.look(schema.name, f"study {self.study.name}, run {run.id}")
        return release

    def _dataset(self, run: StudyRun) -> Dataset:
        rows, change = (run.setting.values.get(name) for name in ("rows", "schema"))
        key = json.dumps([run.repeat, rows, change], default=str)
        if key not in self._datasets:
            while len(self._datasets) >= MOST_DATASETS:
                self._datasets.pop(next(iter(self._datasets)))
            seed = self.study.seed + run.repeat
            self._datasets[key] = dataset(self.study.data, seed, rows=rows, change=change, base=self.base)
        return self._datasets[key]

    def _digest(self, setting: Setting, repeat: int) -> str:
        rows = self.study.data.model_dump(exclude={"ledger"})
        if rows["file"] is not None:
            # Which rows these are, wherever they lie: a file is known by its name and size.
            path = self.base / rows["file"]
            rows["file"] = [path.name, path.stat().st_size if path.is_file() else None]
        asked = {
            "data": rows,
            "seed": self.study.seed + repeat,
            "method": [setting.method, setting.name],
            "values": setting.values,
            "metrics": self.study.metrics,
            "analyses": [a.model_dump() for a in self.study.analyses],
            "version": VERSION,
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]


def budget(setting: Setting) -> Budget:
    """The budget of a run; `epsilon_times` multiplies it by parameters such as the number of trees."""
    values = setting.values
    times = values.get("epsilon_times") or []
    factor = 1.0
    for by in times if isinstance(times, list) else [times]:
        given = values.get(by) if isinstance(by, str) else by
        if not isinstance(given, int | float) or given <= 0:
            raise InputError(
                f"method '{setting.name}': epsilon_times names '{by}', which is no positive number of this method; "
                "fix or vary it"
            )
        factor *= given
    if values.get("rho") is not None:
        return ZCDP(f"{float(values['rho']) * factor:.12g}")
    epsilon = values.get("epsilon")
    if not isinstance(epsilon, int | float) or epsilon <= 0:
        raise InputError(f"method '{setting.name}': epsilon is '{epsilon}', expected a number above 0")
    total = f"{float(epsilon) * factor:.12g}"
    return PureDP(total) if values.get("delta") is None else ZCDP.from_approx(total, values["delta"])


PUBLIC_KEYS = ("file", "columns", "factors", "epsilon")
"""What a study says of a public table to grow on, or to start from."""


def _public_table(given: Mapping[str, Any], schema: Schema, base: Path) -> PublicTable:
    """The public table that a study names: its file, a column map, a table of factors, and the ε that it cost."""
    factors, epsilon = given.get("factors"), given.get("epsilon")
    return public_table(
        base / given["file"],
        schema,
        columns=given.get("columns"),
        factors=None if factors is None else base / factors,
        cost=None if epsilon is None else PureDP(str(epsilon)),
    )


def _method(setting: Setting, schema: Schema | None, base: Path = Path()) -> Method:
    made = METHODS[setting.method]
    known = {f.name: f for f in fields(made)}  # type: ignore[arg-type]
    chosen = {k: v for k, v in setting.values.items() if k in known}
    given = public_setting(made)
    if given is not None and (public := chosen.pop(given, None)) is not None:
        if not isinstance(public, Mapping) or "file" not in public or not set(public) <= set(PUBLIC_KEYS):
            raise InputError(
                f"method '{setting.name}': {given} needs 'file', and may have columns, factors and epsilon"
            )
        if schema is None:
            chosen.pop("growth", None)  # which goes with the table, and that is read when rows are
        else:
            chosen[given] = _public_table(public, schema, base)
    needs = "targets" in known and known["targets"].default is MISSING
    if "targets" not in chosen and (needs or (schema is not None and schema.neighbours == "label")):
        chosen["targets"] = list(schema.private) if schema is not None else ["any"]
    try:
        return made(**chosen)
    except TypeError as error:
        raise InputError(f"method '{setting.name}': {error}") from None


def _analyse(analysis: AnalysisEntry, data: Dataset, release: Release) -> list[MetricValue]:
    """The coefficients of a regression beside the authentic ones, and how well they agree."""
    regression = Regression(
        analysis.formula, analysis.by, analysis.reference, analysis.family, separate=analysis.separate
    )
    names = [n for n in data.schema.names if n in regression.columns]
    table = authentic_table(source(data.rows), data.schema, names)
    found = compare_regression(regression, table, {"": release}, data.schema)
    kept = [
        (c, a.level)
        for a in found.agreements
        for c in a.coefficients
        if not analysis.terms or c.name.startswith(tuple(analysis.terms))
    ]
    if not kept:
        why = f": {found.notes[0]}" if found.notes else "; check 'terms'"
        raise InputError(f"analysis '{analysis.label}' gave no coefficient{why}")
    label, each = analysis.label, [c for c, _ in kept]
    covers = [c.synthetic_interval[0] <= c.authentic <= c.synthetic_interval[1] for c in each]
    return [
        *(MetricValue(label, c.synthetic, c.authentic, c.name, level) for c, level in kept),
        MetricValue(f"{label}: error", float(np.mean([abs(c.synthetic - c.authentic) for c in each])), 0.0),
        MetricValue(f"{label}: overlap", float(np.mean([c.overlap for c in each])), 1.0),
        MetricValue(f"{label}: coverage", float(np.mean(covers)), 0.95),
        MetricValue(f"{label}: width", float(np.mean([c.width_ratio for c in each])), 1.0),
    ]
