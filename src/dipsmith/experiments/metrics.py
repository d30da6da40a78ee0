"""The numbers of a study in words: its metrics, and what is said of its analyses."""

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
"""What is said of a regression besides its coefficients: title, which way is better, reference."""


def metrics_named(names: Sequence[str], extra: Mapping[str, Metric] | None = None) -> dict[str, Metric]:
    """The metrics that a study names: its own (`extra`) and registered ones."""
    own = extra or {}
    return {**own, **{name: metric(name) for name in names if name not in own}}


def registered_metric(name: str) -> Metric | None:
    """A registered metric; None for an analysis, or a metric of a study's own."""
    return metric(name) if name in registry.registered("metrics") else None


def title_of(name: str, metrics: Mapping[str, Metric]) -> str:
    """A number of a study in words."""
    if name in metrics:
        return metrics[name].title
    analysis, colon, kind = name.rpartition(": ")
    return f"{ANALYSIS_MEASURES[kind][0]}, {analysis}" if colon and kind in ANALYSIS_MEASURES else name


def reference_of(name: str, metrics: Mapping[str, Metric]) -> str:
    """What a number is held against, in words.

    >>> reference_of("pay model: coverage", {})
    '95 %, as asked'
    """
    return metrics[name].reference if name in metrics else _of_analysis(name)[2]


def cost(name: str, value: float, reference: float, metrics: Mapping[str, Metric]) -> float:
    """A number turned so that lower is better.

    >>> cost("pay model: overlap", 0.9, 1.0, {}), cost("pay model: error", 0.9, 0.0, {})
    (-0.9, 0.9)
    """
    better = metrics[name].better if name in metrics else _of_analysis(name)[1]
    return abs(value - reference) if better == "target" else -value if better == "higher" else value


def _of_analysis(name: str) -> tuple[str, str, str]:
    _, colon, kind = name.rpartition(": ")
    return ANALYSIS_MEASURES[kind if colon and kind in ANALYSIS_MEASURES else "error"]
