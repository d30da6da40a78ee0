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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dipsmith.errors import DipsmithError, HopelessNoise, InputError, UsageError
from dipsmith.experiments.datasets import Dataset, dataset
from dipsmith.experiments.design import Setting, settings
from dipsmith.experiments.entries import AnalysisEntry, StudyEntry
from dipsmith.experiments.metrics import METRICS, Measured, Metric, compared, measure, require_known
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import Method
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.synthesize import synthesize
from dipsmith.utility.authentic import authentic_table
from dipsmith.utility.regression import Regression, compare_regression
from dipsmith.version import VERSION

HELD = 3
"""Datasets that a process keeps for its next runs."""


@dataclass(frozen=True)
class Run:
    """One setting in one repeat. The id changes with anything that could change its numbers."""

    id: str
    setting: Setting
    repeat: int


@dataclass(frozen=True)
class Outcome:
    """What a run gave, or why it gave nothing."""

    id: str
    measured: tuple[Measured, ...]
    spent: float
    seconds: float
    failed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """A line of the journal."""
        rows = [[m.metric, m.term, m.level, m.value, m.reference] for m in self.measured]
        return {
            "id": self.id,
            "spent": self.spent,
            "seconds": self.seconds,
            "failed": self.failed,
            "rows": rows,
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Outcome:
        """The outcome back from its line."""
        rows = tuple(Measured(m, v, r, term, level) for m, term, level, v, r in said["rows"])
        return cls(said["id"], rows, said["spent"], said["seconds"], said["failed"])


class Laboratory:
    """Runs the trials of a study; what its file names is checked when it is made.

    Parameters
    ----------
    study
        The study.
    base
        Where the paths in the file start from.
    out
        Where releases of private rows are kept.
    extra
        Metrics of the study's own, by name.
    """

    def __init__(
        self,
        study: StudyEntry,
        base: Path | None = None,
        out: Path | None = None,
        extra: Mapping[str, Metric] | None = None,
    ) -> None:
        self.study = study
        self.base = base or Path()
        self.out = out
        self.metrics = {**METRICS, **(extra or {})}
        require_known(study.metrics, self.metrics)
        self.settings = settings(study)
        for setting in self.settings:
            _method(setting, None)
            budget(setting)
        self._held: dict[str, Dataset] = {}

    @cached_property
    def runs(self) -> list[Run]:
        """All runs: every setting of the first repeat, then of the second, and so on."""
        return [
            Run(self._digest(setting, repeat), setting, repeat)
            for repeat in range(self.study.repeats)
            for setting in self.settings
        ]

    def request_of(self, run: Run) -> str:
        """The id under which the ledger knows a run."""
        return f"study {self.study.name} {run.id}"

    @property
    def cost(self) -> Budget | None:
        """What all runs cost together; None where the rows need no protection."""
        if not self.study.data.private:
            return None
        each = [budget(run.setting) for run in self.runs]
        kinds = {type(b) for b in each}
        if len(kinds) > 1:
            raise UsageError("runs in ε and runs in ρ cannot be added up; use one currency in a study")
        return type(each[0]).of_units(sum(b.units for b in each))

    def run(self, run: Run) -> Outcome:
        """Do one run. What the package refuses is an outcome too; anything else is a bug and is raised."""
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                # A study visits hopeless settings on purpose.
                warnings.simplefilter("ignore", HopelessNoise)
                rows, spent = self._measured(run)
            return Outcome(run.id, tuple(rows), spent, self._seconds_since(started))
        except DipsmithError as error:
            return Outcome(run.id, (), 0.0, self._seconds_since(started), " ".join(str(error).split()))

    def _seconds_since(self, started: float) -> float:
        """Processor time since then; 0 where rows are private, because how long a run takes depends on them."""
        return 0.0 if self.study.data.private else time.process_time() - started

    def _measured(self, run: Run) -> tuple[list[Measured], float]:
        data = self._dataset(run)
        spend = budget(run.setting)
        values = run.setting.values
        method = _method(run.setting, data.schema)
        sets = int(values.get("sets") or 1)
        each = values.get("each") if sets > 1 else None
        private = self.study.data.private
        if private:
            release = self._paid(run, data, method, spend, sets, each)
        else:
            release = synthesize(
                data.rows,
                data.schema,
                method,
                budget=spend,
                sets=sets,
                each=each,
                rows=_row_count(data) if data.schema.neighbours == "add-remove" else None,
                seed=run.repeat,
                testing=True,
                noise_seed=int(run.id[:12], 16),
            )
        beside = compared(data.rows, release, data.schema, data.fresh)
        found = measure(self.study.metrics, beside, self.metrics)
        for analysis in self.study.analyses:
            found += _analysed(analysis, data, release)
        return found, float(spend.exact)

    def _paid(self, run: Run, data: Dataset, method: Method, spend: Budget, sets: int, each: Any) -> Release:
        assert self.study.data.ledger is not None
        assert self.out is not None
        ledger = Ledger(self.base / self.study.data.ledger)
        kept = self.out / "releases"
        kept.mkdir(parents=True, exist_ok=True)  # before the charge: nothing may fail after it
        release = synthesize(
            data.rows,
            data.schema,
            method,
            budget=spend,
            sets=sets,
            each=each,
            ledger=ledger,
            request=self.request_of(run),
        )
        if release.folder is None:
            release.save(kept / run.id)
        ledger.look(data.schema.name, f"study {self.study.name}, run {run.id}")
        return release

    def _dataset(self, run: Run) -> Dataset:
        values = run.setting.values
        key = json.dumps([run.repeat, values.get("rows"), values.get("schema")], default=str)
        if key not in self._held:
            while len(self._held) >= HELD:
                self._held.pop(next(iter(self._held)))
            self._held[key] = dataset(
                self.study.data,
                self.study.seed + run.repeat,
                rows=values.get("rows"),
                change=values.get("schema"),
                base=self.base,
            )
        return self._held[key]

    def _identity(self) -> dict[str, Any]:
        """What rows these are, wherever they lie; a file is known by its name and size."""
        said = self.study.data.model_dump(exclude={"ledger"})
        if said["file"] is not None:
            path = self.base / said["file"]
            said["file"] = [path.name, path.stat().st_size if path.is_file() else None]
        return said

    def _digest(self, setting: Setting, repeat: int) -> str:
        said = {
            "data": self._identity(),
            "seed": self.study.seed + repeat,
            "method": [setting.method, setting.name],
            "values": setting.values,
            "metrics": self.study.metrics,
            "analyses": [a.model_dump() for a in self.study.analyses],
            "version": VERSION,
        }
        text = json.dumps(said, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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


def _method(setting: Setting, schema: Schema | None) -> Method:
    from dataclasses import MISSING, fields

    made = METHODS[setting.method]
    known = {f.name: f for f in fields(made)}  # type: ignore[arg-type]
    chosen = {k: v for k, v in setting.values.items() if k in known}
    needs = "targets" in known and known["targets"].default is MISSING
    if "targets" not in chosen and (needs or (schema is not None and schema.neighbours == "label")):
        chosen["targets"] = list(schema.private) if schema is not None else ["any"]
    try:
        return made(**chosen)
    except TypeError as error:
        raise InputError(f"method '{setting.name}': {error}") from None


def _row_count(data: Dataset) -> int | None:
    return getattr(data.rows, "num_rows", None)


def _analysed(analysis: AnalysisEntry, data: Dataset, release: Release) -> list[Measured]:
    regression = Regression(analysis.formula, analysis.by, analysis.reference, analysis.family)
    names = [n for n in data.schema.names if n in regression.columns]
    table = authentic_table(source(data.rows), data.schema, names)
    found = compare_regression(regression, table, {"": release}, data.schema)
    shown = [
        (c, a.level)
        for a in found.agreements
        for c in a.coefficients
        if not analysis.terms or c.name.startswith(tuple(analysis.terms))
    ]
    if not shown:
        raise InputError(
            f"analysis '{analysis.label}' gave no coefficient"
            + (f": {found.notes[0]}" if found.notes else "; check 'terms'")
        )
    rows = [Measured(analysis.label, c.synthetic, c.authentic, c.name, level) for c, level in shown]
    gaps = [abs(c.synthetic - c.authentic) for c, _ in shown]
    overlaps = [c.overlap for c, _ in shown]
    covers = [c.synthetic_interval[0] <= c.authentic <= c.synthetic_interval[1] for c, _ in shown]
    return [
        *rows,
        Measured(f"{analysis.label}: error", sum(gaps) / len(gaps), 0.0),
        Measured(f"{analysis.label}: overlap", sum(overlaps) / len(overlaps), 1.0),
        Measured(f"{analysis.label}: coverage", sum(covers) / len(covers), 0.95),
        Measured(f"{analysis.label}: width", sum(c.width_ratio for c, _ in shown) / len(shown), 1.0),
    ]
