"""Figures of a study: from what the file asks to be drawn, to a drawing with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats
from dipsmith.errors import InputError
from dipsmith.experiments.anova import anova
from dipsmith.experiments.claims import select_runs
from dipsmith.experiments.design import in_words, label_of
from dipsmith.experiments.metrics import Metric, reference_of, title_of
from dipsmith.experiments.results import Results
from dipsmith.experiments.study import FigureEntry, MethodEntry, StudyEntry
from dipsmith.regression.model_frame import by_number
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
        found.append(FigureEntry(metric=metric, x=x, lines=lines, panels=rest[0] if rest else None, where=part))
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
    of = title_of(entry.metric, metrics)
    grid = _level_grid(entry, results) if entry.over else _run_grid(entry, results)
    drawn: dict[str, list[Panel]] = {}
    numbers: list[tuple[Cell, ...]] = []
    for term in grid.terms:
        drawn[term], rows = grid.panels_of(term, entry)
        numbers += rows
    many = len(grid.lines) > MOST_LINES and not entry.over
    if many and len(grid.panels) > 1:
        raise _refusal(
            entry, f"{len(grid.lines)} lines need a panel each; leave 'panels' out, or draw fewer with 'where'"
        )
    # What the key writes before the name of a line; methods need no such word.
    key = "" if entry.lines in (None, "method") else entry.lines or ""
    panels = f", a panel for each {entry.panels}" if entry.panels else ""
    end = f"{panels}{_where(entry)}. {_sizes(results)} Means with 95 % intervals over repeats and what is not drawn"
    if entry.over:
        analysis = next((a for a in results.study.analyses if a.label == entry.metric), None)
        if analysis is None:
            axes = Axes(entry.x or "level", of, key, metrics[entry.metric].reference, log_y=entry.log)
        else:
            axes = Axes(analysis.by or "", "", key, authentic=True, log_y=entry.log)
        title = entry.title or f"{entry.metric}: authentic and synthetic coefficients by {entry.lines}"
        what = f"Coefficients of {entry.metric}; authentic" if analysis else f"{of}; reference"
        caption = f"{what} solid, synthetic dashed, a line for each {entry.lines}{end}."
    else:
        wide = (n := positive_numbers(grid.positions)) is not None and len(n) > 2 and bool(n.max() / n.min() >= 8)
        x = f"{entry.x}, logarithmic scale" if wide else f"{entry.x}"
        ends = _ends(entry.metric, grid.values)
        axes = Axes(x, of, key, reference_of(entry.metric, metrics), log_x=wide, log_y=entry.log, ends=ends)
        title = entry.title or f"{of}: {f'{entry.lines} and ' if entry.lines else ''}{entry.x}"
        better = f" ({metrics[entry.metric].better} is better)" if entry.metric in metrics else ""
        each = f", a line for each {entry.lines}" if entry.lines else ""
        caption = f"{of}{better} by {entry.x}{each}{end}{_parts(entry, results)}."
    svg = ""
    if figures.available():
        svg = multiples(grid.positions, drawn[""][0], axes) if many else interaction(grid.positions, drawn, axes)
    names = ("term", entry.panels or "panel", entry.lines or "line", grid.x)
    columns = (*names, "mean", "95 % half-width", "runs", "authentic")
    wanted = itemgetter(*(i for i in range(8) if i not in ((6,) if entry.over else (0, 7))))
    table = Table.of(title, wanted(columns), [wanted(row) for row in numbers])
    return Figure(title, svg, caption, f"{title}. {caption}", table, None, file)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Values (and references) with the label of every factor; which places along x, lines, panels and terms to draw."""

    labels: Mapping[str, NDArray[Any]]
    values: Floats
    references: Floats
    x: str
    positions: list[str]
    lines: list[str]
    panels: list[str]
    terms: list[str]

    def panels_of(self, term: str, entry: FigureEntry) -> tuple[list[Panel], list[tuple[Cell, ...]]]:
        """The panels of a term; and for each of their points term, panel, line, place, mean, half-width, runs, reference."""
        panels: list[Panel] = []
        numbers: list[tuple[Cell, ...]] = []
        for level in self.panels:
            at = [self._rows_with({"term": term, entry.panels: level, self.x: p}) for p in self.positions]
            found = [self.references[place] for place in at]
            reference = np.array([np.nanmean(r) if np.isfinite(r).any() else np.nan for r in found])
            lines = []
            for name in self.lines:
                values = [self.values[place & self._rows_with({entry.lines: name})] for place in at]
                means = [mean_and_width(v) for v in values]
                lines.append(ChartLine(name, *np.array(means).T))
                runs = [int(np.isfinite(v).sum()) for v in values]
                points = zip(self.positions, means, runs, reference.tolist(), strict=True)
                numbers += [(term, level, name, p, *mean, n, r) for p, mean, n, r in points]
            title = f"{entry.panels} = {level}" if entry.panels else ""
            drawn = reference if entry.over or (reference > 0).any() else None
            panels.append(Panel(title, lines, drawn))
        return panels, numbers

    def _rows_with(self, wanted: Mapping[str | None, str]) -> Bools:
        """Where the factors have these labels; a factor that there is not is not asked."""
        found = np.ones(len(self.values), dtype=bool)
        for name, label in wanted.items():
            if name is not None and name in self.labels:
                found &= self.labels[name] == label
        return found


def _run_grid(entry: FigureEntry, results: Results) -> _Grid:
    """The runs by the levels of a parameter."""
    if entry.x is None:
        raise _refusal(entry, "give x (a parameter), or 'over: level' for coefficients")
    response = select_runs(results.response(entry.metric), entry.where)

    def levels(factor: str | None) -> list[str]:
        if factor is None:
            return [""]
        if factor not in response.factors:
            raise InputError(f"figure: '{factor}' has one level only among the runs that are drawn")
        return results.present(factor, response.factors[factor])

    places = levels(entry.x), levels(entry.lines), levels(entry.panels)
    return _Grid(response.factors, response.values, response.references, entry.x, *places, [""])


def _level_grid(entry: FigureEntry, results: Results) -> _Grid:
    """Coefficients over the levels of an analysis (years): authentic solid, a dashed line per level of a parameter."""
    if entry.lines is None:
        raise _refusal(entry, "give lines, the parameter that gets a line for each level")
    rows = results.rows(entry.metric)
    if not len(rows["value"]):
        raise InputError(f"figure: '{entry.metric}' is no analysis of this study")
    chosen = np.ones(len(rows["value"]), dtype=bool)
    for name, level in entry.where.items():
        wanted = [label_of(v) for v in (level if isinstance(level, list) else [level])]
        chosen &= np.isin(rows[name].astype(str), wanted)
    if not chosen.any():
        raise _refusal(entry, f"no run has{_where(entry)}")
    positions = sorted(set(rows["level"].tolist()), key=by_number)
    terms = entry.terms or list(dict.fromkeys(rows["term"].tolist()))
    labels = {n: rows[n][chosen].astype(str) for n in ("term", "level", "method", *results.factors)}
    lines = results.present(entry.lines, labels[entry.lines])
    panels = results.present(entry.panels, labels[entry.panels]) if entry.panels else [""]
    values, references = rows["value"][chosen], rows["reference"][chosen]
    return _Grid(labels, values, references, "level", positions, lines, panels, terms)


def mean_and_width(values: Floats) -> tuple[float, float]:
    """The mean and the 95 % half-width of a mean, by Student's law."""
    from scipy.special import stdtrit

    known = values[np.isfinite(values)]
    if len(known) < 2:
        return float(known[0]) if len(known) else float("nan"), float("nan")
    spread = float(known.std(ddof=1)) / np.sqrt(len(known))
    return float(known.mean()), float(stdtrit(len(known) - 1, 0.975)) * spread


def _ends(metric: str, values: Floats) -> tuple[float, float]:
    """What a mean cannot pass, as far as is known: no error is below 0, no share of intervals above 1."""
    share = metric.endswith((": coverage", ": overlap"))
    return (0.0 if (values[np.isfinite(values)] >= 0).all() else -np.inf), (1.0 if share else np.inf)


def _refusal(entry: FigureEntry, why: str) -> InputError:
    return InputError(f"figure of '{entry.metric}': {why}")


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
