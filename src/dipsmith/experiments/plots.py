"""Figures of a study: from what the file asks to be drawn, to a drawing with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import InputError
from dipsmith.experiments import figures as drawing
from dipsmith.experiments.anova import anova
from dipsmith.experiments.claims import selected
from dipsmith.experiments.design import said, shown
from dipsmith.experiments.entries import FigureEntry, MethodEntry, StudyEntry
from dipsmith.experiments.figures import Axes, Line, Panel, mean_and_width
from dipsmith.experiments.metrics import Metric, reference_of, title_of
from dipsmith.experiments.results import Response, Results
from dipsmith.report import figures as available
from dipsmith.report.content import Cell, Figure, Table

DEFAULT_FIGURES = 3


def default_figures(results: Results) -> list[FigureEntry]:
    """The pairs of parameters that interact most, for the first metric."""
    if not results.metrics:
        return []
    metric = results.metrics[0]
    response = results.response(metric)
    order = {n: len(set(v)) for n, v in response.factors.items()}
    pairs = [
        t.factors
        for t in anova(response).terms
        if len(t.factors) == 2 and any(_has(m, t.factors, results.study) for m in results.study.methods)
    ]
    if not pairs:
        return [FigureEntry(metric=metric, x=n) for n in order]
    found: list[FigureEntry] = []
    for pair in pairs:
        x, lines = sorted(pair, key=lambda n: -order[n])
        has = [m.label for m in results.study.methods if _has(m, pair, results.study)]
        apart = "method" in order and len(has) < len(results.study.methods)
        part = {"method": has} if apart else {}
        kept = selected(response, part).factors
        if len(found) == DEFAULT_FIGURES or not set(pair) <= set(kept):
            continue
        rest = [n for n in kept if n not in pair and order[n] <= 3]
        found.append(
            FigureEntry(metric=metric, x=x, lines=lines, panels=rest[0] if rest else None, where=part)
        )
    return found


def _has(entry: MethodEntry, names: Sequence[str], study: StudyEntry) -> bool:
    """Whether a method varies these parameters; to draw others would repeat one number at every place."""
    return all(n == "method" or n in study.vary or n in entry.vary for n in names)


def figure(entry: FigureEntry, results: Results, metrics: Mapping[str, Metric], file: str) -> Figure:
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
    described = reference_of(entry.metric, metrics)
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
        f"Means with 95 % intervals over repeats and what is not drawn{_parts(entry, results)}."
    )
    columns = (entry.panels or "panel", entry.lines or "line", entry.x, "mean", "95 % half-width", "runs")
    return Figure(title, svg, caption, f"{title}. {caption}", Table.of(title, columns, numbers), None, file)


def _over_levels(entry: FigureEntry, results: Results, metrics: Mapping[str, Metric], file: str) -> Figure:
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


def _parts(entry: FigureEntry, results: Results) -> str:
    """Which of what is drawn is a range, of which parts are shown."""
    ranged = [n for n in (entry.x, entry.lines, entry.panels) if n in results.ranges]
    return f"; parts of the range of {' and '.join(ranged)}" if ranged else ""


def _sizes(results: Results) -> str:
    """Rows and ε, which belong under every figure."""
    data = results.study.data
    rows = f"n = {data.rows:,}" + (" a year" if data.example == "personnel" else "") if data.rows else ""
    spent = results.columns["spent"]
    low, high = float(np.min(spent)), float(np.max(spent))
    epsilon = f"ε in all {low:g}" + ("" if low == high else f" to {high:g}")
    return f"{rows}, {epsilon}." if rows else f"{epsilon}."
