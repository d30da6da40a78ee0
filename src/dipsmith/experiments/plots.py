"""Figures of a study: from what the file asks to be drawn, to a drawing with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import InputError
from dipsmith.experiments.anova import anova
from dipsmith.experiments.claims import select_runs
from dipsmith.experiments.design import in_words, label_of
from dipsmith.experiments.metrics import Metric, reference_of, title_of
from dipsmith.experiments.results import Response, Results
from dipsmith.experiments.study import FigureEntry, MethodEntry, StudyEntry
from dipsmith.report import figures
from dipsmith.report.content import Cell, Figure, Table
from dipsmith.report.drawing import ChartLine
from dipsmith.report.interactions import MOST_LINES, Axes, Panel, interaction, multiples, positive_numbers

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
        varied = select_runs(response, part).factors
        if len(found) == DEFAULT_FIGURES or not set(pair) <= set(varied):
            continue
        rest = [n for n in varied if n not in pair and order[n] <= 3]
        found.append(
            FigureEntry(metric=metric, x=x, lines=lines, panels=rest[0] if rest else None, where=part)
        )
    return found


def _has(entry: MethodEntry, names: Sequence[str], study: StudyEntry) -> bool:
    """Whether a method varies these parameters; to draw others would repeat one number at every place."""
    return all(n == "method" or n in study.vary or n in entry.vary for n in names)


def figure(entry: FigureEntry, results: Results, metrics: Mapping[str, Metric], file: str) -> Figure:
    """An interaction plot with its numbers."""
    varied = {*results.factors, "method"}
    for name in (entry.lines, entry.panels, None if entry.over else entry.x, *entry.where):
        if name is not None and name not in varied:
            raise _refusal(entry, f"'{name}' is not varied; there are: {', '.join(varied)}")
    if entry.over == "level":
        if entry.lines is None:
            raise _refusal(entry, "give lines, the parameter that gets a line for each level")
        return _over_levels(entry, results, metrics, file)
    if entry.x is None:
        raise _refusal(entry, "give x (a parameter), or 'over: level' for coefficients")
    response = select_runs(results.response(entry.metric), entry.where)
    positions = _levels(results, response, entry.x)
    names = _levels(results, response, entry.lines) if entry.lines else [""]
    panels: list[Panel] = []
    numbers: list[tuple[Cell, ...]] = []
    for level in _levels(results, response, entry.panels) if entry.panels else [""]:
        part = select_runs(response, {entry.panels: level}) if entry.panels else response
        lines = []
        for name in names:
            by = {entry.lines: name} if entry.lines else {}
            values = [_at(part, {entry.x: p, **by})[0] for p in positions]
            means = [mean_and_width(v) for v in values]
            lines.append(ChartLine(name, *np.array(means).T))
            drawn = zip(positions, means, values, strict=True)
            numbers += [(level, name, p, *mean, int(np.isfinite(v).sum())) for p, mean, v in drawn]
        references = [_at(part, {entry.x: p})[1] for p in positions]
        reference = np.array([np.nanmean(r) if np.isfinite(r).any() else np.nan for r in references])
        panels.append(_panel(entry, level, lines, reference if (reference > 0).any() else None))
    if len(names) > MOST_LINES and len(panels) > 1:
        raise _refusal(
            entry, f"{len(names)} lines need a panel each; leave 'panels' out, or draw fewer with 'where'"
        )
    of = title_of(entry.metric, metrics)
    values_of_x = positive_numbers(positions)
    wide = values_of_x is not None and len(values_of_x) > 2 and values_of_x.max() / values_of_x.min() >= 8
    axes = Axes(
        entry.x + (", logarithmic scale" if wide else ""),
        of,
        lines=_lines_word(entry),
        reference=reference_of(entry.metric, metrics),
        log_x=bool(wide),
        log_y=entry.log,
    )
    svg = ""
    if figures.available():
        many = len(names) > MOST_LINES
        svg = multiples(positions, panels[0], axes) if many else interaction(positions, {"": panels}, axes)
    better = metrics[entry.metric].better if entry.metric in metrics else ""
    title = entry.title or f"{of}: {f'{entry.lines} and ' if entry.lines else ''}{entry.x}"
    caption = (
        f"{of}{f' ({better} is better)' if better else ''} by {entry.x}"
        f"{f', a line for each {entry.lines}' if entry.lines else ''}{_panels_and_where(entry)}. {_sizes(results)} "
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
    chosen = np.ones(len(rows["value"]), dtype=bool)
    for name, level in entry.where.items():
        wanted = [label_of(v) for v in (level if isinstance(level, list) else [level])]
        chosen &= np.isin(rows[name].astype(str), wanted)
    if not chosen.any():
        raise _refusal(entry, f"no run has{_where(entry)}")
    positions = sorted(set(rows["level"].tolist()), key=_in_order)
    drawn: dict[str, list[Panel]] = {}
    numbers: list[tuple[Cell, ...]] = []
    for term in entry.terms or list(dict.fromkeys(rows["term"].tolist())):
        for level in results.present(entry.panels, rows[entry.panels][chosen]) if entry.panels else [""]:
            here = chosen & (rows["term"] == term)
            if entry.panels:
                here &= rows[entry.panels].astype(str) == level
            at = [here & (rows["level"] == p) for p in positions]
            authentic = np.array([float(np.mean(rows["reference"][place])) for place in at])
            lines = []
            for name in results.present(entry.lines, rows[entry.lines][chosen]):
                of = rows[entry.lines].astype(str) == name
                means = [mean_and_width(rows["value"][place & of]) for place in at]
                lines.append(ChartLine(name, *np.array(means).T))
                points = zip(positions, means, authentic.tolist(), strict=True)
                numbers += [(term, level, name, p, *mean, a) for p, mean, a in points]
            drawn.setdefault(term, []).append(_panel(entry, level, lines, authentic))
    analysis = next((a for a in results.study.analyses if a.label == entry.metric), None)
    axes = Axes(
        (analysis.by or "") if analysis else (entry.x or "level"),
        "" if analysis else title_of(entry.metric, metrics),
        lines=_lines_word(entry),
        authentic=analysis is not None,
        reference="" if analysis else metrics[entry.metric].reference,
        log_y=entry.log,
    )
    svg = interaction(positions, drawn, axes) if figures.available() else ""
    what = (
        f"{title_of(entry.metric, metrics)}; reference"
        if analysis is None
        else f"Coefficients of {entry.metric}; authentic"
    )
    title = entry.title or f"{entry.metric}: authentic and synthetic coefficients by {entry.lines}"
    caption = (
        f"{what} solid, synthetic dashed, a line for each {entry.lines}{_panels_and_where(entry)}. {_sizes(results)} "
        "Means with 95 % intervals over repeats and what is not drawn."
    )
    columns = ("term", entry.panels or "panel", entry.lines, "level", "mean", "95 % half-width", "authentic")
    return Figure(title, svg, caption, f"{title}. {caption}", Table.of(title, columns, numbers), None, file)


def mean_and_width(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean and the 95 % half-width of a mean, by Student's law."""
    from scipy.special import stdtrit

    known = values[np.isfinite(values)]
    if len(known) < 2:
        return float(known[0]) if len(known) else float("nan"), float("nan")
    spread = float(known.std(ddof=1)) / np.sqrt(len(known))
    return float(known.mean()), float(stdtrit(len(known) - 1, 0.975)) * spread


def _refusal(entry: FigureEntry, why: str) -> InputError:
    return InputError(f"figure of '{entry.metric}': {why}")


def _panel(
    entry: FigureEntry, level: str, lines: list[ChartLine], reference: NDArray[np.float64] | None
) -> Panel:
    return Panel(f"{entry.panels} = {level}" if entry.panels else "", lines, reference)


def _lines_word(entry: FigureEntry) -> str:
    """What the key writes before the name of a line; methods need no such word."""
    return "" if entry.lines in (None, "method") else entry.lines


def _in_order(level: str) -> tuple[float, str]:
    """Numbers by size, then words."""
    try:
        return float(level), level
    except ValueError:
        return float("inf"), level


def _at(part: Response, levels: dict[str, str]) -> tuple[Any, Any]:
    chosen = np.ones(len(part.values), dtype=bool)
    for name, level in levels.items():
        if name in part.factors:
            chosen &= part.factors[name] == level
    return part.values[chosen], part.references[chosen]


def _levels(results: Results, response: Response, factor: str) -> list[str]:
    if factor not in response.factors:
        raise InputError(f"figure: '{factor}' has one level only among the runs that are drawn")
    return results.present(factor, response.factors[factor])


def _panels_and_where(entry: FigureEntry) -> str:
    return (f", a panel for each {entry.panels}" if entry.panels else "") + _where(entry)


def _where(entry: FigureEntry) -> str:
    return "".join(f", {k} = {in_words(v)}" for k, v in entry.where.items())


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
