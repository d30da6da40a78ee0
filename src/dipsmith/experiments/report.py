"""The report of a study: its question, the design, figures, main effects, analysis of variance, claims.

Pure functions from results to the content of a page. On private rows the page is confidential; on simulated rows it
says that it is free.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import InputError
from dipsmith.experiments import figures as drawing
from dipsmith.experiments.anova import Anova, anova
from dipsmith.experiments.claims import check, selected
from dipsmith.experiments.design import shown
from dipsmith.experiments.figures import Axes, Line, Panel, mean_and_width
from dipsmith.experiments.metrics import METRICS, Metric
from dipsmith.experiments.results import SECONDS, Response, Results
from dipsmith.experiments.study import FigureEntry, StudyEntry
from dipsmith.experiments.trial import Laboratory
from dipsmith.report import figures as available
from dipsmith.report.content import Block, Cell, Facts, Figure, Heading, Page, Section, Table
from dipsmith.utility.association import spearman
from dipsmith.version import VERSION

SHOWN_TERMS = 12
DEFAULT_FIGURES = 3


def report(results: Results, laboratory: Laboratory) -> Page:
    """The page of a study."""
    study = results.study
    private = study.data.private
    sections = [
        Section("The design", (_design(results, laboratory),)),
        Section("Figures", tuple(_figures(results, laboratory))),
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


def title_of(metric: str, metrics: Any) -> str:
    """A metric in words."""
    if metric in metrics:
        return str(metrics[metric].title)
    name, _, kind = metric.rpartition(": ")
    words = {
        "error": "mean absolute error of the coefficients",
        "overlap": "mean interval overlap",
        "coverage": "share of intervals that contain the authentic estimate",
        "width": "mean width of the intervals, in authentic ones",
    }
    return f"{words[kind]}, {name}" if kind in words else metric


def said(value: Any) -> str:
    """A value of the file in words.

    >>> said({"race": {"role": "public"}}), said([["age", "sex"]]), said(None)
    ('race: (role: public)', 'age × sex', 'none')
    """
    if isinstance(value, dict):
        inner = (f"{k}: ({said(v)})" if isinstance(v, dict) else f"{k}: {said(v)}" for k, v in value.items())
        return ", ".join(inner) or "none"
    if isinstance(value, list):
        return ", ".join(" × ".join(map(said, v)) if isinstance(v, list) else said(v) for v in value)
    return shown(value)


def _design(results: Results, laboratory: Laboratory) -> Facts:
    study = results.study
    data = study.data
    rows = f", {data.rows:,} rows" + (" a year" if data.example == "personnel" else "") if data.rows else ""
    facts = [("Rows", (f"example {data.example}" if data.example else Path(str(data.file)).name) + rows)]
    for entry in study.methods:
        fixed = ", ".join(f"{k} = {said(v)}" for k, v in entry.set.items())
        facts.append((f"Method '{entry.label}'", entry.method + (f" with {fixed}" if fixed else "")))
    for name in results.factors:
        facts.append((f"Varied: {name}", ", ".join(results.order(name))))
    if study.set:
        facts.append(("Fixed for all", ", ".join(f"{k} = {said(v)}" for k, v in study.set.items())))
    kind = "full factorial" if study.design == "full" else "fraction" if study.design.fractional else "random"
    runs = f"{len(laboratory.settings)} settings ({kind}) × {study.repeats} repeats = {len(laboratory.runs)} runs"
    seconds = results.rows(SECONDS)["value"]
    facts += [
        ("Runs", runs),
        ("Processor time of the runs", f"{float(np.sum(seconds)) / 60:.1f} minutes"),
    ]
    return Facts(tuple(facts))


# Figures ----------------------------------------------------------------------------------------------------------


def _figures(results: Results, laboratory: Laboratory) -> list[Block]:
    wanted = list(results.study.figures) or default_figures(results)
    return [figure(entry, results, laboratory.metrics, f"figure-{i}") for i, entry in enumerate(wanted, 1)]


def default_figures(results: Results) -> list[FigureEntry]:
    """The pairs of parameters that interact most, for the first metric."""
    if not results.metrics:
        return []
    metric = results.metrics[0]
    response = results.response(metric)
    order = {n: len(set(v)) for n, v in response.factors.items()}
    pairs = [t.factors for t in anova(response).terms if len(t.factors) == 2]
    if not pairs:
        return [FigureEntry(metric=metric, x=n) for n in order]
    found = []
    for pair in pairs[:DEFAULT_FIGURES]:
        x, lines = sorted(pair, key=lambda n: -order[n])
        rest = [n for n in order if n not in pair and order[n] <= 3]
        found.append(FigureEntry(metric=metric, x=x, lines=lines, panels=rest[0] if rest else None))
    return found


def figure(entry: FigureEntry, results: Results, metrics: Any, file: str) -> Figure:
    """An interaction plot with its numbers."""
    known = {*results.factors, "method"}
    for name in (entry.lines, entry.panels, None if entry.over else entry.x, *entry.where):
        if name is not None and name not in known:
            raise InputError(
                f"figure of '{entry.metric}': '{name}' is not varied; there are: {', '.join(known)}"
            )
    if entry.over == "level":
        if entry.lines is None:
            raise InputError(
                f"figure of '{entry.metric}': give lines, the parameter that gets a line for each level"
            )
        return _over_levels(entry, results, metrics, file)
    if entry.x is None:
        raise InputError(
            f"figure of '{entry.metric}': give x (a parameter), or 'over: level' for coefficients"
        )
    response = selected(results.response(entry.metric), entry.where)
    positions = _levels(results, response, entry.x)
    names = _levels(results, response, entry.lines) if entry.lines else [""]
    panels: list[Panel] = []
    numbers: list[tuple[Cell, ...]] = []
    for level in _levels(results, response, entry.panels) if entry.panels else [""]:
        part = selected(response, {entry.panels: level}) if entry.panels else response
        lines = []
        for name in names:
            by = {entry.lines: name} if entry.lines else {}
            points = [_at(part, {entry.x: p, **by}) for p in positions]
            means = [mean_and_width(v) for v, _ in points]
            lines.append(Line(name, np.array([m for m, _ in means]), np.array([w for _, w in means])))
            numbers += [
                (level, name, p, m, w, int(np.isfinite(v).sum()))
                for p, (m, w), (v, _) in zip(positions, means, points, strict=True)
            ]
        held = [_at(part, {entry.x: p})[1] for p in positions]
        reference = np.array([float(np.nanmean(r)) if np.isfinite(r).any() else np.nan for r in held])
        known_reference = np.isfinite(reference).any() and (reference > 0).any()
        panels.append(
            Panel(
                f"{entry.panels} = {level}" if entry.panels else "",
                lines,
                reference if known_reference else None,
            )
        )
    title = (
        entry.title
        or f"{title_of(entry.metric, metrics)}: {f'{entry.lines} and ' if entry.lines else ''}{entry.x}"
    )
    described = metrics[entry.metric].reference if entry.metric in metrics else "1 is perfect"
    numeric = drawing._numbers(positions)
    wide = numeric is not None and len(numeric) > 2 and numeric.max() / numeric.min() >= 8
    axes = Axes(
        entry.x + (", logarithmic scale" if wide else ""),
        title_of(entry.metric, metrics),
        lines="" if entry.lines in (None, "method") else entry.lines,
        reference=described,
        log_x=bool(wide),
        log_y=entry.log,
    )
    many = len(names) > drawing.MOST_LINES
    if many and len(panels) > 1:
        raise InputError(
            f"figure of '{entry.metric}': {len(names)} lines need a panel each; leave 'panels' out, or draw fewer with 'where'"
        )
    svg = ""
    if available.available():
        svg = (
            drawing.multiples(positions, panels[0], axes)
            if many
            else drawing.interaction(positions, {"": panels}, axes)
        )
    better = metrics[entry.metric].better if entry.metric in metrics else ""
    caption = (
        f"{title_of(entry.metric, metrics)}{f' ({better} is better)' if better else ''} by {entry.x}"
        f"{f', a line for each {entry.lines}' if entry.lines else ''}{f', a panel for each {entry.panels}' if entry.panels else ''}{_where(entry)}. {_sizes(results)} "
        "Means with 95 % intervals over repeats and what is not drawn."
    )
    columns = (entry.panels or "panel", entry.lines or "line", entry.x, "mean", "95 % half-width", "runs")
    return Figure(title, svg, caption, f"{title}. {caption}", Table.of(title, columns, numbers), None, file)


def _over_levels(entry: FigureEntry, results: Results, metrics: Any, file: str) -> Figure:
    """Coefficients over the levels of an analysis (years): authentic solid, a dashed line per level of a parameter."""
    rows = results.rows(entry.metric)
    assert entry.lines is not None
    if not len(rows["value"]):
        raise InputError(f"figure: '{entry.metric}' is no analysis of this study")
    kept = np.ones(len(rows["value"]), dtype=bool)
    for name, level in entry.where.items():
        wanted = [shown(v) for v in (level if isinstance(level, list) else [level])]
        kept &= np.isin(rows[name].astype(str), wanted)
    if not kept.any():
        raise InputError(f"figure of '{entry.metric}': no run has{_where(entry)}")
    terms = entry.terms or list(dict.fromkeys(rows["term"].tolist()))
    positions = sorted(set(rows["level"].tolist()), key=_in_order)
    panel_levels = _present(results, rows, kept, entry.panels) if entry.panels else [""]
    names = _present(results, rows, kept, entry.lines)
    analysis = next((a for a in results.study.analyses if a.label == entry.metric), None)
    drawn: dict[str, list[Panel]] = {}
    numbers: list[tuple[Cell, ...]] = []
    for term in terms:
        for level in panel_levels:
            here = kept & (rows["term"] == term)
            if entry.panels:
                here &= rows[entry.panels].astype(str) == level
            authentic = np.array(
                [float(np.mean(rows["reference"][here & (rows["level"] == p)])) for p in positions]
            )
            lines = []
            for name in names:
                of = here & (rows[entry.lines].astype(str) == name)
                means = [mean_and_width(rows["value"][of & (rows["level"] == p)]) for p in positions]
                lines.append(Line(name, np.array([m for m, _ in means]), np.array([w for _, w in means])))
                numbers += [
                    (term, level, name, p, m, w, float(a))
                    for p, (m, w), a in zip(positions, means, authentic, strict=True)
                ]
            panel = Panel(f"{entry.panels} = {level}" if entry.panels else "", lines, authentic)
            drawn.setdefault(term, []).append(panel)
    title = entry.title or f"{entry.metric}: authentic and synthetic coefficients by {entry.lines}"
    axes = Axes(
        (analysis.by or "") if analysis else (entry.x or "level"),
        "" if analysis else title_of(entry.metric, metrics),
        lines="" if entry.lines in (None, "method") else entry.lines,
        authentic=analysis is not None,
        reference="" if analysis else metrics[entry.metric].reference,
        log_y=entry.log,
    )
    svg = drawing.interaction(positions, drawn, axes) if available.available() else ""
    what = (
        f"Coefficients of {entry.metric}; authentic solid"
        if analysis
        else f"{title_of(entry.metric, metrics)}; reference solid"
    )
    caption = (
        f"{what}, synthetic dashed, a line for each {entry.lines}"
        f"{f', a panel for each {entry.panels}' if entry.panels else ''}{_where(entry)}. {_sizes(results)} Means with 95 % "
        "intervals over repeats and what is not drawn."
    )
    columns = ("term", entry.panels or "panel", entry.lines, "level", "mean", "95 % half-width", "authentic")
    return Figure(title, svg, caption, f"{title}. {caption}", Table.of(title, columns, numbers), None, file)


def _in_order(level: str) -> tuple[float, str]:
    """Numbers by size, then words."""
    try:
        return float(level), level
    except ValueError:
        return float("inf"), level


def _present(results: Results, rows: dict[str, Any], kept: NDArray[np.bool_], factor: str) -> list[str]:
    present = set(rows[factor][kept].astype(str).tolist())
    return [v for v in results.order(factor) if v in present]


def _at(part: Response, levels: dict[str, str]) -> tuple[Any, Any]:
    kept = np.ones(len(part.values), dtype=bool)
    for name, level in levels.items():
        if name in part.factors:
            kept &= part.factors[name] == level
    return part.values[kept], part.references[kept]


def _levels(results: Results, response: Response, factor: str) -> list[str]:
    if factor not in response.factors:
        raise InputError(f"figure: '{factor}' has one level only among the runs that are drawn")
    present = set(response.factors[factor].tolist())
    return [v for v in results.order(factor) if v in present]


def _where(entry: FigureEntry) -> str:
    return "".join(f", {k} = {said(v)}" for k, v in entry.where.items())


def _sizes(results: Results) -> str:
    """Rows and ε, which belong under every figure."""
    data = results.study.data
    rows = f"n = {data.rows:,}" + (" a year" if data.example == "personnel" else "") if data.rows else ""
    spent = results.columns["spent"]
    low, high = float(np.min(spent)), float(np.max(spent))
    epsilon = f"ε in all {low:g}" + ("" if low == high else f" to {high:g}")
    return f"{rows}, {epsilon}." if rows else f"{epsilon}."


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
        parts = _comparable(results, metric)
        for name, response in parts:
            if len(response.values) < 4 or not response.factors:
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
            Response(metric, "", shared, response.repeat, response.values, response.references),
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
