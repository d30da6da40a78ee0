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
from html import escape
from itertools import combinations, product
from math import sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.errors import UsageError
from dipsmith.methods.method import Labeller, Method, require_relation
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources import source
from dipsmith.synthesis.release import Release

Metric = Literal["log loss", "tvd"]

HELD_OUT: Final = 0.3
"""Share of the stand-in on which labellers are judged and which they are not fitted to."""

RAREST: Final = 1e-9
"""Probabilities below this count as it: a label that was called impossible costs 21 nats, not infinity."""


@dataclass(frozen=True)
class Trial:
    """One setting: its scores in all repetitions, lower is better.

    Attributes
    ----------
    settings
        What was changed.
    method
        The method with these settings.
    scores
        One per repetition.
    """

    settings: Mapping[str, object]
    method: Method
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean score."""
        return sum(self.scores) / len(self.scores)

    @property
    def error(self) -> float:
        """Standard error of the mean over repetitions; 0 for a single one."""
        m = len(self.scores)
        if m < 2:
            return 0.0
        return sqrt(sum((s - self.mean) ** 2 for s in self.scores) / (m - 1) / m)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.settings.items()) or "as given"


@dataclass(frozen=True)
class Tuning:
    """Settings ranked on a stand-in, best first.

    Attributes
    ----------
    trials
        Best first.
    metric
        What the scores are; lower is better.
    budget, rows
        The budget of every run, and the rows it was fitted to.
    floor
        The score of a model that knows only the label marginal (log loss), or 0 (total variation distance).
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
        return {
            "metric": self.metric,
            "budget": {self.budget.currency: float(self.budget.exact)},
            "rows": self.rows,
            "reference": self.floor,
            "trials": [
                {
                    "settings": {
                        k: v if isinstance(v, str | int | float | bool) else repr(v)
                        for k, v in t.settings.items()
                    },
                    "mean": t.mean,
                    "error": t.error,
                    "scores": list(t.scores),
                }
                for t in self.trials
            ],
        }

    def __str__(self) -> str:
        wide = max(len(str(t)) for t in self.trials)
        lines = [self._told()]
        lines += [f"  {t!s:<{wide}}  {t.mean:.4f} ± {t.error:.4f}" for t in self.trials]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(t))}</td><td style='text-align:right'>{t.mean:.4f}</td>"
            f"<td style='text-align:right'>{t.error:.4f}</td></tr>"
            for t in self.trials
        )
        head = f"<tr><th>settings</th><th>{escape(self.metric)}</th><th>s.e.</th></tr>"
        return f"<p>{escape(self._told())}</p><table>{head}{rows}</table>"

    def _told(self) -> str:
        beside = f"; the label marginal alone has {self.floor:.4f}" if self.metric == "log loss" else ""
        return (
            f"{self.metric} (lower is better) on a stand-in of {self.rows:,} rows at {self.budget}, "
            f"{len(self.trials[0].scores)} repetitions{beside}. Nothing private was read, nothing was charged."
        )


def tune(
    method: Method,
    grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]],
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
    method
        The method whose settings are varied.
    grid
        For each parameter the values to try (all combinations), or a list of settings.
    tune_on
        The stand-in: a file, frame or source with the schema's columns, codes, or a `Release`. Public, simulated
        or already released; **never the private rows**.
    schema
        The private table's schema.
    budget
        The budget of the planned run.
    metric
        "log loss" (held-out, labellers) or "tvd" (mean total variation distance of all 1- and 2-way
        marginals); default: by the relation.
    repeats
        How often each setting is fitted, each time with other noise and another half held out; the same for
        all settings.
    rows
        The private table's number of rows, if the stand-in has another: it is drawn up or thinned to it, because
        what is best depends on rows against noise.
    seed
        Makes the comparison repeatable; the noise protects nobody here.

    Privacy
    -------
    Reads `tune_on` without any protection and charges nothing.
    """
    require_relation(method, schema.neighbours)
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}, expected 1 or more")
    wanted: Metric = metric or ("log loss" if schema.neighbours == "label" else "tvd")
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
        train, judged = _divided(standing, wanted, rows, rng)
        floors.append(_marginal_loss(train, judged, made[0]) if wanted == "log loss" else 0.0)
        for i, candidate in enumerate(made):
            curator = Curator.rehearse(
                train, budget, seed=int(rng.integers(1 << 62)), given_rows=_given(schema, train)
            )
            model = candidate.fit(curator)
            if wanted == "log loss":
                if not isinstance(model, Labeller):
                    raise UsageError(f"{candidate.name} does not label rows; use metric='tvd'")
                scores[i].append(_log_loss(model, judged))
            else:
                made_rows = (
                    model.label(judged.project(schema.public), repeat)
                    if isinstance(model, Labeller) and schema.neighbours == "label"
                    else model.sample(len(judged), repeat)
                )
                scores[i].append(_distance(made_rows, judged))
    trials = [Trial(s, m, tuple(x)) for s, m, x in zip(settings, made, scores, strict=True)]
    trials.sort(key=lambda t: t.mean)
    return Tuning(tuple(trials), wanted, budget, len(train), sum(floors) / repeats)


def _settings(
    grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]],
) -> list[dict[str, object]]:
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


def _with(method: Method, settings: Mapping[str, object]) -> Method:
    try:
        made: Method = replace(method, **settings)  # type: ignore[type-var]
    except TypeError as error:
        raise UsageError(f"{method.name}: {error}") from None
    return made


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
    encoder = Encoder(written, schema.names)
    parts = []
    for batch in found.batches(schema.names):
        codes, kept = encoder.encode(batch)
        parts.append(codes.take(kept))
    if not parts:
        return Codes.of(schema, {a.name: np.zeros(0, dtype=np.int64) for a in schema}, 0)
    joined = Codes.concatenate(parts)
    codes = Codes.of(schema, dict(joined.columns), len(joined))
    return codes.take(codes.lawful())


def _divided(codes: Codes, metric: Metric, rows: int | None, rng: np.random.Generator) -> tuple[Codes, Codes]:
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


def _given(schema: Schema, codes: Codes) -> int | None:
    return len(codes) if schema.neighbours == "add-remove" else None


def _log_loss(model: Labeller, rows: Codes) -> float:
    """The mean log loss of the joint label."""
    given = [n for n in rows.names if n not in model.targets]
    if model.schema.neighbours == "label":
        given = [n for n in model.schema.public if n not in model.targets]
    p = model.probabilities(rows.project(given))
    label = Marginal.of(rows.schema, model.targets).index(rows)
    return float(-np.log(np.maximum(p[np.arange(len(rows)), label], RAREST)).mean())


def _marginal_loss(train: Codes, judged: Codes, method: Method) -> float:
    """The log loss of the label marginal, without noise: what any model should beat."""
    schema = train.schema
    named: Sequence[str] = getattr(method, "targets", None) or schema.private
    labels = Marginal.of(schema, [n for n in schema.names if n in set(named)])
    counts = np.bincount(labels.index(train), minlength=labels.size) + 0.5
    p: NDArray[np.float64] = counts / counts.sum()
    return float(-np.log(p[labels.index(judged)]).mean())


def _distance(made: Codes, rows: Codes) -> float:
    """The mean total variation distance of all 1- and 2-way marginals."""
    names = rows.schema.names
    wanted = [(n,) for n in names] + list(combinations(names, 2))
    found = []
    for group in wanted:
        marginal = Marginal.of(rows.schema, group)
        one, other = (
            np.bincount(marginal.index(c), minlength=marginal.size) / max(len(c), 1) for c in (made, rows)
        )
        found.append(float(np.abs(one - other).sum()) / 2)
    return sum(found) / len(found)
