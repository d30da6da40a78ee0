"""The numbers of a study in words: its metrics, and the measures of its analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dipsmith import registry
from dipsmith.utility.metric import ONE_IS_PERFECT, ZERO_IS_PERFECT, metric
from dipsmith.utility.metric import Metric as Metric

ANALYSIS_MEASURES = {
    "error": ("mean absolute error of the coefficients", "lower", ZERO_IS_PERFECT),
    "overlap": ("mean interval overlap", "higher", ONE_IS_PERFECT),
    "coverage": ("share of intervals that contain the authentic estimate", "higher", "95 %, as asked"),
    "width": ("mean width of the intervals, in authentic ones", "lower", "the authentic width"),
}
"""The measures of a regression besides its coefficients: title, which way is better, reference."""


def find_metrics(names: Sequence[str], extra: Mapping[str, Metric] | None = None) -> dict[str, Metric]:
    """The metrics that a study names: its own (`extra`) and registered ones."""
    own = extra or {}
    return {**own, **{name: metric(name) for name in names if name not in own}}


def registered_metric(name: str) -> Metric | None:
    """A registered metric; None for an analysis, or a metric of a study's own."""
    return metric(name) if name in registry.entry_points_of("metrics") else None


def title_of(name: str, metrics: Mapping[str, Metric]) -> str:
    """A number of a study in words."""
    return _describe(name, metrics)[0]


def reference_of(name: str, metrics: Mapping[str, Metric]) -> str:
    """What a number is held against, in words.

    >>> reference_of("pay model: coverage", {})
    '95 %, as asked'
    """
    return _describe(name, metrics)[2]


def cost(name: str, value: float, reference: float, metrics: Mapping[str, Metric]) -> float:
    """A number turned so that lower is better.

    >>> cost("pay model: overlap", 0.9, 1.0, {}), cost("pay model: error", 0.9, 0.0, {})
    (-0.9, 0.9)
    """
    better = _describe(name, metrics)[1]
    return abs(value - reference) if better == "target" else -value if better == "higher" else value


def _describe(name: str, metrics: Mapping[str, Metric]) -> tuple[str, str, str]:
    """Title, which way is better, and reference; what is no metric and no measure of an analysis is called an error."""
    if name in metrics:
        return metrics[name].title, metrics[name].better, metrics[name].reference
    analysis, _, kind = name.rpartition(": ")
    if not analysis or kind not in ANALYSIS_MEASURES:
        return name, *ANALYSIS_MEASURES["error"][1:]
    title, better, reference = ANALYSIS_MEASURES[kind]
    return f"{title}, {analysis}", better, reference
