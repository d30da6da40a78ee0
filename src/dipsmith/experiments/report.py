"""The report of a study: its question, the design, figures, main effects, analysis of variance, claims.

Pure functions from results to the content of a page. On private rows the page is confidential; on simulated rows it
says that it is free.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.experiments.anova import Anova, anova
from dipsmith.experiments.claims import check
from dipsmith.experiments.design import fraction_of, said
from dipsmith.experiments.entries import StudyEntry
from dipsmith.experiments.metrics import METRICS, Metric, title_of
from dipsmith.experiments.plots import default_figures, figure
from dipsmith.experiments.results import SECONDS, Response, Results
from dipsmith.experiments.trial import Laboratory
from dipsmith.report.content import Block, Cell, Facts, Heading, Page, Section, Table
from dipsmith.utility.association import spearman
from dipsmith.version import VERSION

SHOWN_TERMS = 12
SHOWN_BEST = 5
LEAST_RUNS = 12
"""With fewer, a method by itself gets no analysis of variance."""


def report(results: Results, laboratory: Laboratory) -> Page:
    """The page of a study."""
    study = results.study
    private = study.data.private
    sections = [
        Section("The design", (_design(results, laboratory),)),
        Section("Figures", tuple(_figures(results, laboratory))),
        Section("The best settings", tuple(_best(results, laboratory))),
        Section("Main effects", tuple(_main_effects(results, laboratory))),
        Section("What explains the variation", tuple(_variation(results, laboratory))),
        Section("Whether the measures agree", tuple(_agreement(results))),
    ]
    if study.claims:
        sections.insert(0, Section("Claims", (claims_table(results),)))
    if results.failed:
        rows = [(text,) for text in results.failed]
        sections.append(
            Section("Runs that gave nothing", (Table.of("Settings and reasons", ("why",), rows),))
        )
    return Page(
        title=study.title or f"Study: {study.name}",
        lead=(study.question, protection(study, laboratory)),
        sections=tuple(s for s in sections if s.blocks),
        confidential=private,
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


def claims_table(results: Results) -> Table:
    """Every claim, what was found, and whether it holds."""
    rows = [(c.says, c.found, "holds" if c.holds else "does not hold") for c in check(results)]
    return Table.of("Claims and what was found", ("claim", "found", ""), rows)


def _design(results: Results, laboratory: Laboratory) -> Facts:
    study = results.study
    data = study.data
    rows = f", {data.rows:,} rows" + (" a year" if data.example == "personnel" else "") if data.rows else ""
    facts = [("Rows", (f"example {data.example}" if data.example else Path(str(data.file)).name) + rows)]
    for entry in study.methods:
        fixed = ", ".join(f"{k} = {said(v)}" for k, v in entry.set.items())
        facts.append((f"Method '{entry.label}'", entry.method + (f" with {fixed}" if fixed else "")))
    for name in results.factors:
        ranged = results.ranges.get(name)
        facts.append((f"Varied: {name}", str(ranged) if ranged else ", ".join(results.order(name))))
    if study.set:
        facts.append(("Fixed for all", ", ".join(f"{k} = {said(v)}" for k, v in study.set.items())))
    kind = "full factorial" if study.design == "full" else "fraction" if study.design.fractional else "random"
    if results.ranges:
        kind = "random, Latin hypercube"
    for entry in study.methods:
        if (part := fraction_of(study, entry)) is not None:
            facts.append((f"Fraction for '{entry.label}'", str(part)))
    often = f"{study.repeats} repeat{'' if study.repeats == 1 else 's'}"
    runs = f"{len(laboratory.settings)} settings ({kind}) × {often} = {len(laboratory.runs)} runs"
    facts.append(("Runs", runs))
    if not study.data.private:
        seconds = results.rows(SECONDS)["value"]
        facts.append(("Processor time of the runs", f"{float(np.sum(seconds)) / 60:.1f} minutes"))
    return Facts(tuple(facts))


def _figures(results: Results, laboratory: Laboratory) -> list[Block]:
    wanted = list(results.study.figures) or default_figures(results)
    return [figure(entry, results, laboratory.metrics, f"figure-{i}") for i, entry in enumerate(wanted, 1)]


def _best(results: Results, laboratory: Laboratory) -> list[Block]:
    """What a search looks for: of settings drawn at random, those with the best mean of the first metric."""
    design = results.study.design
    if design == "full" or design.random is None or not results.metrics:
        return []
    metric = results.metrics[0]
    rows = results.rows(metric)
    found: dict[str, list[float]] = {}
    settings = {run.id: run.setting for run in laboratory.runs}
    named = {}
    for run, value in zip(rows["run"].tolist(), rows["value"].tolist(), strict=True):
        setting = settings[run]
        text = ", ".join(f"{k} = {v}" for k, v in setting.levels.items())
        named[f"{setting.name}\x1f{text}"] = (setting.name, text)
        found.setdefault(f"{setting.name}\x1f{text}", []).append(value)
    higher = metric in laboratory.metrics and laboratory.metrics[metric].better == "higher"
    order = sorted(found, key=lambda k: float(np.mean(found[k])) * (-1 if higher else 1))
    table: list[tuple[Cell, ...]] = [
        (*named[k], float(np.mean(found[k])), float(np.std(found[k], ddof=1)) if len(found[k]) > 1 else None)
        for k in order[:SHOWN_BEST]
    ]
    note = "The best of many is flattered by chance: run the first few again, with another seed, before choosing."
    title = f"{title_of(metric, laboratory.metrics)}: best of {len(order)} settings"
    return [Table.of(title, ("method", "setting", "mean", "standard deviation"), table, note)]


# Tables -----------------------------------------------------------------------------------------------------------


def _main_effects(results: Results, laboratory: Laboratory) -> list[Block]:
    metrics = results.metrics
    if not metrics:
        return []
    responses = {m: results.response(m) for m in metrics}
    rows: list[tuple[Cell, ...]] = []
    factors = list(dict.fromkeys(n for r in responses.values() for n in r.factors))
    for name in factors:
        for level in results.order(name):
            means = [_mean_at(responses[m], name, level) for m in metrics]
            rows.append((name, level, *means))
    held = [
        float(np.nanmean(r.references)) if np.isfinite(r.references).any() else None
        for r in responses.values()
    ]
    rows.append(("", "reference", *held))
    note = "; ".join(
        f"{m}: {title_of(m, laboratory.metrics)}{_reference(m, laboratory.metrics)}" for m in metrics
    )
    return [
        Table.of(
            "Means by level of each parameter, over all others", ("parameter", "level", *metrics), rows, note
        )
    ]


def _reference(metric: str, metrics: Any) -> str:
    if metric not in metrics:
        return ""
    described: Metric = metrics[metric]
    return f" ({described.better} is better; reference: {described.reference})"


def _mean_at(response: Response, factor: str, level: str) -> float | None:
    if factor not in response.factors:
        return None
    values = response.values[response.factors[factor] == level]
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _variation(results: Results, laboratory: Laboratory) -> list[Block]:
    found: list[Block] = []
    for metric in results.metrics:
        if metric.endswith((": overlap", ": coverage", ": width")):
            continue  # they follow from the error; the table of means has them
        parts = _comparable(results, metric)
        for name, response in parts:
            if not response.factors or (len(response.values) < LEAST_RUNS and len(parts) > 1):
                continue
            table = anova(response)
            title = title_of(metric, laboratory.metrics) + (f", {name}" if name else "")
            found += [Heading(title), variation_table(title, table)]
            if (cells := interaction_table(response, table, results)) is not None:
                found.append(cells)
    return found


def _agreement(results: Results) -> list[Block]:
    """Rank correlations of the measures over all runs; 1 where two measures order the runs alike, better with better."""
    metrics = [m for m in results.metrics if not m.endswith(": width")]
    if len(metrics) < 3:
        return []
    columns = results.columns
    runs = np.unique(columns["run"].astype(str))
    values = {}
    for metric in metrics:
        kept = columns["metric"] == metric
        found = dict(zip(columns["run"][kept].tolist(), columns["value"][kept].tolist(), strict=True))
        higher = metric in METRICS and METRICS[metric].better == "higher"
        sign = -1.0 if higher or metric.endswith((": overlap", ": coverage")) else 1.0
        values[metric] = sign * np.array([found.get(r, np.nan) for r in runs])
    rows: list[tuple[Cell, ...]] = []
    for a in metrics:
        cells: list[Cell] = []
        for b in metrics:
            known = np.isfinite(values[a]) & np.isfinite(values[b])
            cells.append(1.0 if a == b else spearman(values[a][known].tolist(), values[b][known].tolist()))
        rows.append((a, *cells))
    return [Table.of("Rank correlation over all runs", ("", *metrics), rows)]


def _comparable(results: Results, metric: str) -> list[tuple[str, Response]]:
    """All methods together over what they share, and each method over its own parameters."""
    response = results.response(metric)
    if "method" not in response.factors:
        return [("", response)]
    own = [n for m in results.study.methods for n in m.vary]
    shared = {n: v for n, v in response.factors.items() if n == "method" or n not in own}
    parts = [
        (
            "all methods",
            Response(
                metric,
                "",
                shared,
                response.repeat,
                response.values,
                response.references,
                {n: v for n, v in response.numbers.items() if n in shared},
            ),
        )
    ]
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
    rows.append(
        ("the rest (triples, repeats, noise)", table.residual_freedom, table.residual_share, None, None)
    )
    aliased = [t.name for t in table.terms if not t.freedom]
    note = f"Not told apart from other terms by this design: {', '.join(aliased)}." if aliased else ""
    return Table.of(
        f"{title}: analysis of variance, {table.runs} runs", ("term", "df", "share", "F", "p"), rows, note
    )


def interaction_table(response: Response, table: Anova, results: Results) -> Table | None:
    """Means by both levels of the pair of parameters that interacts most."""
    pairs = [t for t in table.terms if len(t.factors) == 2 and t.freedom]
    if not pairs:
        return None
    a, b = pairs[0].factors
    rows = []
    across = [v for v in results.order(b) if v in set(response.factors[b].tolist())]
    for level in results.order(a):
        at = response.factors[a] == level
        if at.any():
            cells = [response.values[at & (response.factors[b] == v)] for v in across]
            rows.append(
                (level, *(float(np.nanmean(v)) if len(v) and np.isfinite(v).any() else None for v in cells))
            )
    return Table.of(f"Means by {a} (rows) and {b} (columns)", (a, *across), rows)
