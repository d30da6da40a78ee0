"""Free tuning: settings compared on a table that needs no protection.

A public table of the same shape (an older file that was published, a census extract, simulated records, an
already released synthetic table) stands in for the private one. Every setting is fitted to it with fresh
noise at the budget that is planned, and judged by what the private run will be judged by. Nothing is
charged, because nothing private is read: never give the private rows here, which nothing can check.

What a stand-in cannot tell: whether it resembles the private table. What decides most settings — sizes of
domains, rows against noise — it usually does tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import mean, stdev
from typing import Any, Final, Literal

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.inference.combine import as_text
from dipsmith.methods.method import Labeller, Method, require_relation
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.report.content import Table
from dipsmith.report.sections import inline_table
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources import source
from dipsmith.synthesis.release import Release
from dipsmith.tuning.scores import label_chances
from dipsmith.utility.disclosure import RAREST
from dipsmith.utility.pair import authentic_codes

Metric = Literal["log loss", "tvd"]
Grid = Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]]

HELD_OUT: Final = 0.3
"""Share of the stand-in on which labellers are judged and which they are not fitted to."""


@dataclass(frozen=True)
class Trial:
    """One setting: what was changed, the method with it, and its scores in all repetitions, lower is better."""

    settings: Mapping[str, object]
    method: Method
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean score."""
        return mean(self.scores)

    @property
    def error(self) -> float | None:
        """Standard error of the mean over repetitions; a single one has none."""
        return stdev(self.scores) / len(self.scores) ** 0.5 if len(self.scores) > 1 else None

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.settings.items()) or "as given"


@dataclass(frozen=True)
class Tuning:
    """Settings ranked on a stand-in.

    Trials stand best first; `rows` is how many each run was fitted to, `floor` the score of a model that knows only
    the label marginal (log loss), or 0 (total variation distance).
    """

    trials: tuple[Trial, ...]
    metric: Metric
    budget: Budget
    rows: int
    floor: float

    @property
    def best(self) -> Method:
        """The method with the best settings."""
        return self.trials[0].method

    def to_dict(self) -> dict[str, Any]:
        """The ranking as JSON-able values."""
        trials = []
        for t in self.trials:
            plain = {k: v if isinstance(v, str | int | float) else repr(v) for k, v in t.settings.items()}
            trials.append({"settings": plain, "mean": t.mean, "error": t.error, "scores": list(t.scores)})
        budget = {self.budget.currency: float(self.budget.exact)}
        return {"metric": self.metric, "budget": budget, "rows": self.rows, "reference": self.floor, "trials": trials}

    def content(self) -> Table:
        """The ranking as a table of a report."""
        beside = f"; the label marginal alone has {self.floor:.4f}" if self.metric == "log loss" else ""
        repeats = len(self.trials[0].scores)
        caption = (
            f"{self.metric} (lower is better) on a stand-in of {self.rows:,} rows at {self.budget}, "
            f"{repeats} repetition{'' if repeats == 1 else 's'}{beside}. Nothing private was read, nothing was charged."
        )
        rows = [(str(t), f"{t.mean:.4f}", "–" if t.error is None else f"{t.error:.4f}") for t in self.trials]
        return Table.of(caption, ("settings", self.metric, "s.e."), rows)

    def __str__(self) -> str:
        return f"{self.content().caption}\n{as_text(self.content())}"

    def _repr_html_(self) -> str:
        return inline_table(self.content())


def tune(
    method: Method,
    grid: Grid,
    *,
    tune_on: Any,
    schema: Schema,
    budget: Budget,
    metric: Metric | None = None,
    repeats: int = 3,
    rows: int | None = None,
    seed: int = 0,
) -> Tuning:
    """Compare settings on a table that needs no protection.

    Parameters
    ----------
    method, grid
        The method whose settings are varied, and for each parameter the values to try (all combinations), or a list of
        settings.
    tune_on
        The stand-in: a file, frame or source with the schema's columns, codes, or a `Release`. Public, simulated
        or already released; **never the private rows**.
    schema, budget
        The private table's schema, and the budget of the planned run.
    metric
        "log loss" (held-out, labellers) or "tvd" (mean total variation distance of all 1- and 2-way
        marginals); default: by the relation.
    repeats, seed
        How often each setting is fitted, each time with other noise and other rows held out, the same for all settings;
        and what makes that repeatable: the noise protects nobody here.
    rows
        The private table's number of rows, if the stand-in has another: it is drawn up or thinned to it, because
        what is best depends on rows against noise.

    Privacy
    -------
    Reads `tune_on` without any protection and charges nothing.
    """
    require_relation(method, schema.neighbours)
    labels = schema.neighbours == "label"
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}, expected 1 or more")
    wanted: Metric = metric or ("log loss" if labels else "tvd")
    if wanted not in ("log loss", "tvd"):
        raise UsageError(f"metric is '{metric}', expected 'log loss' or 'tvd'")
    settings = _settings(grid)
    made = [_with(method, s) for s in settings]
    standing = _codes(tune_on, schema)
    if not len(standing):
        raise UsageError("the stand-in has no rows; give one with at least some hundred")
    scores: list[list[float]] = [[] for _ in made]
    floors = []
    for repeat in range(repeats):
        rng = generator(seed * 1_000_003 + repeat)
        train, judged = _split_rows(standing, wanted, rows, rng)
        floors.append(_marginal_loss(train, judged, made[0]) if wanted == "log loss" else 0.0)
        for i, candidate in enumerate(made):
            given_rows = len(train) if schema.neighbours == "add-remove" else None
            curator = Curator.rehearse(train, budget, seed=int(rng.integers(1 << 62)), given_rows=given_rows)
            model = candidate.fit(curator)
            if wanted == "log loss":
                if not isinstance(model, Labeller):
                    raise UsageError(f"{candidate.name} does not label rows; use metric='tvd'")
                chances = np.maximum(label_chances(model, judged), RAREST)
                scores[i].append(float(-np.log(chances).mean()))
            elif labels and isinstance(model, Labeller):
                scores[i].append(_distance(model.label(judged.project(schema.public), repeat), judged))
            else:
                scores[i].append(_distance(model.sample(len(judged), repeat), judged))
    trials = [Trial(s, m, tuple(x)) for s, m, x in zip(settings, made, scores, strict=True)]
    trials.sort(key=lambda t: t.mean)
    return Tuning(tuple(trials), wanted, budget, len(train), sum(floors) / repeats)


def _settings(grid: Grid) -> list[dict[str, object]]:
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise UsageError(f"grid: give the values of '{name}' as a list")
        found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    else:
        found = [dict(s) for s in grid]
    if not found:
        raise UsageError("grid: no settings to compare; give at least one")
    return found


def _with(method: Any, settings: Mapping[str, object]) -> Any:
    try:
        return replace(method, **settings)
    except TypeError as error:
        raise UsageError(f"{method.name}: {error}") from None


def _codes(tune_on: Any, schema: Schema) -> Codes:
    """The stand-in as codes of the private schema."""
    if isinstance(tune_on, Codes):
        return Codes(schema, {n: tune_on[n] for n in schema.names}, len(tune_on))
    written = schema
    if isinstance(tune_on, Release):
        # A release holds collapsed labels, in the same order as the codes of the schema it was made by.
        written, tune_on = tune_on.schema, tune_on.tables[0]
        differ = [n for n in schema.names if n not in written or written[n].size != schema[n].size]
        if differ:
            raise UsageError(
                f"column '{differ[0]}' of the release has other labels than the schema; tune on another table"
            )
    found = source(tune_on)
    found.check(schema.names)
    read, _ = authentic_codes(found, written, schema.names)
    codes = Codes.of(schema, dict(read.columns), len(read))
    return codes.take(codes.lawful())


def _split_rows(codes: Codes, metric: Metric, rows: int | None, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """What is fitted to, brought to the private number of rows, and what is judged on."""
    order = rng.permutation(len(codes))
    held = max(1, round(HELD_OUT * len(codes))) if metric == "log loss" else 0
    if held >= len(codes):
        raise UsageError(f"the stand-in has {len(codes)} rows, too few to hold some out")
    train, judged = codes.take(order[held:]), codes.take(order[:held]) if held else codes
    if rows is None or rows == len(train):
        return train, judged
    if rows < 1:
        raise UsageError(f"rows is {rows}, expected 1 or more")
    picked = order[held:][:rows] if rows < len(train) else order[held:][rng.integers(0, len(train), rows)]
    return codes.take(picked), judged


def _marginal_loss(train: Codes, judged: Codes, method: Method) -> float:
    """The log loss of the label marginal, without noise: what any model should beat."""
    schema = train.schema
    named: Sequence[str] = getattr(method, "targets", None) or schema.private
    labels = Marginal.of(schema, [n for n in schema.names if n in set(named)])
    counts = np.bincount(labels.index(train), minlength=labels.size) + 0.5
    return float(-np.log((counts / counts.sum())[labels.index(judged)]).mean())


def _distance(made: Codes, rows: Codes) -> float:
    """The mean total variation distance of all 1- and 2-way marginals."""
    found = []
    for group in (g for k in (1, 2) for g in combinations(rows.schema.names, k)):
        marginal = Marginal.of(rows.schema, group)
        one, other = (np.bincount(marginal.index(c), minlength=marginal.size) / max(len(c), 1) for c in (made, rows))
        found.append(float(np.abs(one - other).sum()) / 2)
    return mean(found)
