"""The report of a study: its question, the design, figures, main effects, analysis of variance, claims.

Pure functions from results to the content of a page. On private rows the page is confidential; on simulated rows it
says that it is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.experiments.anova import Anova, anova
from dipsmith.experiments.claims import check
from dipsmith.experiments.design import describe_values, fraction_of
from dipsmith.experiments.metrics import cost, title_of
from dipsmith.experiments.plots import default_figures, figure
from dipsmith.experiments.results import SECONDS, Response, Results
from dipsmith.experiments.study import StudyEntry
from dipsmith.experiments.trial import Laboratory
from dipsmith.report.content import Block, Cell, Facts, Heading, Page, Section, Table
from dipsmith.utility.association import spearman
from dipsmith.utility.metric import Metric
from dipsmith.version import VERSION

SHOWN_TERMS = 12
SHOWN_BEST = 5
LEAST_RUNS = 12
"""With fewer, a method by itself gets no analysis of variance."""

Metrics = Mapping[str, Metric]


def report(results: Results, laboratory: Laboratory) -> Page:
    """The page of a study."""
    study, metrics = results.study, laboratory.metrics
    figures = list(study.figures) or default_figures(results)
    claims = [(c.says, c.finding, "holds" if c.holds else "does not hold") for c in check(results)]
    reasons = [(text,) for text in results.failed]
    sections: list[tuple[str, list[Block]]] = [
        ("Claims", [Table.of("Claims and what was found", ("claim", "found", ""), claims)] if claims else []),
        ("The design", [_design(results, laboratory)]),
        ("Figures", [figure(entry, results, metrics, f"figure-{i}") for i, entry in enumerate(figures, 1)]),
        ("The best settings", _best(results, laboratory)),
        ("Main effects", _main_effects(results, metrics)),
        ("What explains the variation", _variation(results, metrics)),
        ("Whether the measures agree", _agreement(results, metrics)),
        ("Runs that gave nothing", [Table.of("Settings and reasons", ("why",), reasons)] if reasons else []),
    ]
    return Page(
        title=study.title or f"Study: {study.name}",
        lead=(study.question, protection(study, laboratory)),
        sections=tuple(Section(heading, tuple(blocks)) for heading, blocks in sections if blocks),
        confidential=study.data.private,
        footer=f"dipsmith {VERSION} · dipsmith experiment run",
        sortable=True,
        contents=False,
    )


def protection(study: StudyEntry, laboratory: Laboratory) -> str:
    """What the study cost in privacy."""
    if study.data.private:
        return (
            f"The rows are private. The {len(laboratory.runs)} runs were charged to the ledger, {laboratory.cost} together, "
            "and each comparison is a logged look. Everything below reads authentic rows and is CONFIDENTIAL."
        )
    why = "simulated" if study.data.example else f"public ({study.data.public})"
    return f"The rows are {why}: no privacy was spent, and everything below may be shown."


def _design(results: Results, laboratory: Laboratory) -> Facts:
    study, data = results.study, results.study.data
    rows = f", {data.rows:,} rows" + (" a year" if data.example == "personnel" else "") if data.rows else ""
    facts = [("Rows", (f"example {data.example}" if data.example else Path(str(data.file)).name) + rows)]
    for entry in study.methods:
        fixed = f" with {describe_values(entry.set)}" if entry.set else ""
        facts.append((f"Method '{entry.label}'", entry.method + fixed))
    for name in results.factors:
        ranged = results.ranges.get(name)
        facts.append((f"Varied: {name}", str(ranged) if ranged else ", ".join(results.order(name))))
    if study.set:
        facts.append(("Fixed for all", describe_values(study.set)))
    kind = "full factorial" if study.design == "full" else "fraction" if study.design.fractional else "random"
    if results.ranges:
        kind = "random, Latin hypercube"
    for entry in study.methods:
        if (part := fraction_of(study, entry)) is not None:
            facts.append((f"Fraction for '{entry.label}'", str(part)))
    often = f"{study.repeats} repeat{'' if study.repeats == 1 else 's'}"
    runs = f"{len(laboratory.settings)} settings ({kind}) × {often} = {len(laboratory.runs)} runs"
    facts.append(("Runs", runs))
    if not data.private:
        minutes = float(np.sum(results.rows(SECONDS)["value"])) / 60
        facts.append(("Processor time of the runs", f"{minutes:.1f} minutes"))
    return Facts(tuple(facts))


def _best(results: Results, laboratory: Laboratory) -> list[Block]:
    """What a search looks for: of settings drawn at random, those with the best mean of the first metric."""
    design = results.study.design
    if design == "full" or design.random is None or not results.metrics:
        return []
    metric, metrics = results.metrics[0], laboratory.metrics
    rows = results.rows(metric)
    settings = {run.id: run.setting for run in laboratory.runs}
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for run, *pair in zip(rows["run"].tolist(), rows["value"].tolist(), rows["reference"].tolist(), strict=True):
        setting = settings[run]
        found.setdefault((setting.name, describe_values(setting.levels)), []).append((pair[0], pair[1]))
    means = {key: np.mean(pairs, axis=0) for key, pairs in found.items()}
    order = sorted(means, key=lambda key: cost(metric, float(means[key][0]), float(means[key][1]), metrics))
    best = [(key, [value for value, _ in found[key]]) for key in order[:SHOWN_BEST]]
    table: list[tuple[Cell, ...]] = [
        (*key, float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)
        for key, values in best
    ]
    note = "The best of many is flattered by chance: run the first few again, with another seed, before choosing."
    title = f"{title_of(metric, metrics)}: best of {len(order)} settings"
    return [Table.of(title, ("method", "setting", "mean", "standard deviation"), table, note)]


def _main_effects(results: Results, metrics: Metrics) -> list[Block]:
    responses = {m: results.response(m) for m in results.metrics}
    if not responses:
        return []
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(n for r in responses.values() for n in r.factors):
        for level in results.order(name):
            varied = [(r, r.factors.get(name)) for r in responses.values()]
            at = [None if levels is None else r.values[levels == level] for r, levels in varied]
            rows.append((name, level, *map(_mean, at)))
    rows.append(("", "reference", *(_mean(r.references) for r in responses.values())))
    parts = []
    for m in responses:
        better, against = (metrics[m].better, metrics[m].reference) if m in metrics else ("", "")
        goal = "the reference is the target" if better == "target" else f"{better} is better; reference"
        parts.append(f"{m}: {title_of(m, metrics)}" + (f" ({goal}: {against})" if better else ""))
    note = "; ".join(parts)
    columns = ("parameter", "level", *responses)
    return [Table.of("Means by level of each parameter, over all others", columns, rows, note)]


def _mean(values: Any) -> float | None:
    return float(np.nanmean(values)) if values is not None and np.isfinite(values).any() else None


def _variation(results: Results, metrics: Metrics) -> list[Block]:
    found: list[Block] = []
    for metric in results.metrics:
        if metric.endswith((": overlap", ": coverage", ": width")):
            continue  # they follow from the error; the table of means has them
        parts = _comparable(results, metric)
        for name, response in parts:
            if not response.factors or (len(response.values) < LEAST_RUNS and len(parts) > 1):
                continue
            table = anova(response)
            title = title_of(metric, metrics) + (f", {name}" if name else "")
            found += [Heading(title), variation_table(title, table)]
            if (cells := _interaction(response, table, results)) is not None:
                found.append(cells)
    return found


def _agreement(results: Results, metrics: Metrics) -> list[Block]:
    """Rank correlations of the measures over all runs; 1 where two measures order the runs alike, better with better."""
    names = [m for m in results.metrics if not m.endswith(": width")]
    if len(names) < 3:
        return []
    runs = np.unique(results.columns["run"].astype(str))
    costs = {}
    for name in names:
        rows = results.rows(name)
        each = zip(rows["run"].tolist(), rows["value"].tolist(), rows["reference"].tolist(), strict=True)
        found = {run: cost(name, value, reference, metrics) for run, value, reference in each}
        costs[name] = np.array([found.get(r, np.nan) for r in runs])

    def rank_correlation(a: str, b: str) -> float:
        both = np.stack([costs[a], costs[b]])[:, np.isfinite(costs[a]) & np.isfinite(costs[b])]
        return 1.0 if a == b else spearman(*both.tolist())

    table: list[tuple[Cell, ...]] = [(a, *(rank_correlation(a, b) for b in names)) for a in names]
    return [Table.of("Rank correlation over all runs", ("", *names), table)]


def _comparable(results: Results, metric: str) -> list[tuple[str, Response]]:
    """All methods together over what they share, and each method over its own parameters."""
    response = results.response(metric)
    if "method" not in response.factors:
        return [("", response)]
    parts = [("all methods", response.without([n for m in results.study.methods for n in m.vary]))]
    for entry in results.study.methods:
        part = response.where(response.factors["method"] == entry.label)
        if entry.vary and part.factors:
            parts.append((entry.label, part))
    return parts


def variation_table(title: str, table: Anova) -> Table:
    """The analysis of variance, largest share first."""
    rows: list[tuple[Cell, ...]] = [
        (t.name, t.freedom, t.share if t.freedom else None, t.f, t.p) for t in table.terms[:SHOWN_TERMS]
    ]
    rest = (table.residual_freedom, table.residual_share, None, None)
    rows.append(("the rest (triples, repeats, noise)", *rest))
    aliased = [t.name for t in table.terms if not t.freedom]
    note = f"Confounded with other terms by this design: {', '.join(aliased)}." if aliased else ""
    title = f"{title}: analysis of variance, {table.runs} runs"
    return Table.of(title, ("term", "df", "share", "F", "p"), rows, note)


def _interaction(response: Response, table: Anova, results: Results) -> Table | None:
    """Means by both levels of the pair of parameters that interacts most."""
    pair = next((t.factors for t in table.terms if len(t.factors) == 2 and t.freedom), None)
    if pair is None:
        return None
    a, b = pair
    levels = {n: results.present(n, response.factors[n]) for n in pair}
    rows = []
    for level in levels[a]:
        at = response.factors[a] == level
        rows.append((level, *(_mean(response.values[at & (response.factors[b] == v)]) for v in levels[b])))
    return Table.of(f"Means by {a} (rows) and {b} (columns)", (a, *levels[b]), rows)
