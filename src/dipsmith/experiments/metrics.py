"""What a study measures, by name: scores of `dipsmith.utility` as single numbers beside what chance would give.

Every metric is a function of one release beside the authentic rows; with several sets it is the mean over the sets. A
number without its reference means little, so each row carries one: the value by chance alone (marginals, SPECKS, pMSE),
that of the label marginal (log loss), or 1 where perfect agreement is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from dipsmith.errors import InputError
from dipsmith.methods.method import Labeller
from dipsmith.schema import Codes, Schema
from dipsmith.sources import source
from dipsmith.synthesis.release import Release
from dipsmith.utility.association import associations
from dipsmith.utility.binned_scores import binned_scores
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.marginal_error import marginal_error
from dipsmith.utility.pair import Pair, authentic_codes, released_codes
from dipsmith.utility.panels import correlations, joint_proportions, logistic_panel, p_slopes
from dipsmith.utility.pmse import pmse
from dipsmith.utility.propensity import Propensity, propensity
from dipsmith.utility.range_error import range_error
from dipsmith.utility.specks import specks

NULL_DRAWS = 20
RAREST = 1e-9
"""Probabilities below this count as it, in log losses."""


@dataclass(frozen=True)
class Measured:
    """One number of one run: what it is, of which coefficient and level, and what to hold it against."""

    metric: str
    value: float
    reference: float = float("nan")
    term: str = ""
    level: str = ""


@dataclass(frozen=True, eq=False)
class Compared:
    """A release beside the authentic rows, and what several metrics need of them, computed once.

    Privacy
    -------
    Exact functions of the rows: confidential where those are private.
    """

    authentic: Codes
    release: Release
    schema: Schema
    fresh: pa.Table | None = None
    _scored: dict[tuple[str, int], Propensity] = field(default_factory=dict, repr=False)

    @cached_property
    def pairs(self) -> list[Pair]:
        """One pair for each set."""
        public = self.schema.public if self.schema.neighbours == "label" else ()
        names = [n for n in self.authentic.names if n in self.release.tables[0].column_names]
        return [
            Pair.of(self.authentic.project(names), released_codes(t, self.schema, names), public)
            for t in self.release.tables
        ]

    @cached_property
    def tables(self) -> list[Crosstabs]:
        """The cross-tables of each set."""
        return [Crosstabs(pair) for pair in self.pairs]

    def scored(self, classifier: str, i: int = 0) -> Propensity:
        """Propensity scores of a set; the first set's come with a null."""
        key = (classifier, i)
        if key not in self._scored:
            self._scored[key] = propensity(self.pairs[i], classifier, draws=0 if i else NULL_DRAWS)
        return self._scored[key]


Measure = Callable[[Compared], "tuple[float, float] | Sequence[Measured]"]
"""Value and reference; or several, each with its level."""


@dataclass(frozen=True)
class Metric:
    """A measure with words for a reader."""

    title: str
    better: Literal["lower", "higher"]
    measure: Measure
    reference: str


def measure(names: Sequence[str], compared: Compared, metrics: Mapping[str, Metric]) -> list[Measured]:
    """All the metrics of a study for one run."""
    found = []
    for name in names:
        measured = metrics[name].measure(compared)
        if isinstance(measured, tuple):
            found.append(Measured(name, float(measured[0]), float(measured[1])))
        else:
            found += [replace(m, metric=name) for m in measured]
    return found


def require_known(names: Sequence[str], metrics: Mapping[str, Metric]) -> None:
    """Refuse unknown names before anything is run."""
    from difflib import get_close_matches

    for name in names:
        if name not in metrics:
            close = get_close_matches(name, list(metrics), 1, 0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(metrics)}"
            raise InputError(f"metric '{name}' is unknown; {hint}")


def compared(rows: object, release: Release, schema: Schema, fresh: pa.Table | None) -> Compared:
    """Encode the authentic rows and set the release beside them.

    Privacy
    -------
    Reads the rows exactly; log a look first where they are private.
    """
    names = [n for n in schema.names if n in release.tables[0].column_names]
    return Compared(authentic_codes(source(rows), schema, names)[0], release, schema, fresh)


def _marginals(ways: int) -> Measure:
    def found(c: Compared) -> tuple[float, float]:
        errors = [marginal_error(t, ways) for t in c.tables]
        return float(np.mean([e.mean for e in errors])), errors[0].floor

    return found


def _specks(classifier: str) -> Measure:
    def found(c: Compared) -> tuple[float, float]:
        sets = [specks(c.scored(classifier, i)) for i in range(len(c.pairs))]
        return float(np.mean([s.value for s in sets])), sets[0].null_mean

    return found


def _pmse_ratio(c: Compared) -> tuple[float, float]:
    found = pmse(c.scored("logistic"))
    return found.independent_ratio, 1.0


def _pmse(c: Compared) -> tuple[float, float]:
    found = pmse(c.scored("logistic"))
    return found.value, found.independent_mean


def _s_pmse(c: Compared) -> tuple[float, float]:
    found = pmse(c.scored("logistic"))
    expected = (found.independent_mean - found.resampled_mean) / found.resampled_sd
    return found.standardised, expected if found.resampled_sd else float("nan")


def _binned(c: Compared) -> tuple[float, float]:
    found = binned_scores(c.scored("logistic"))
    return found.statistic, found.null_mean


def _kappa(c: Compared) -> tuple[float, float]:
    return float(np.mean([associations(t).consistency()[1].kappa for t in c.tables])), 1.0


def _agreement(c: Compared) -> tuple[float, float]:
    found = [associations(t).consistency()[1] for t in c.tables]
    return float(np.mean([f.agreement for f in found])), max(found[0].nothing, found[0].everything)


def _rank(c: Compared) -> tuple[float, float]:
    return float(np.mean([associations(t).rank_correlation for t in c.tables])), 1.0


def _ranges(c: Compared) -> tuple[float, float]:
    errors = [e.mean for t in c.tables for e in range_error(t)]
    return (float(np.mean(errors)) if errors else float("nan")), 0.0


def _joint(c: Compared) -> tuple[float, float]:
    return joint_proportions(c.tables[0]).correlation, 1.0


def _slopes(c: Compared) -> tuple[float, float]:
    return p_slopes(c.tables[0]).rmse, 0.0


def _correlations(c: Compared) -> tuple[float, float]:
    return correlations(c.tables[0]).rmse, 0.0


def _logistic(c: Compared) -> tuple[float, float]:
    panel = logistic_panel(c.pairs[0])
    return (float("nan") if panel is None else panel.points.rmse), 0.0


def _log_loss(c: Compared) -> tuple[float, float]:
    """Loss of the labels of rows that the run did not see, where there are such rows, else of its own."""
    model = c.release.model.inner
    if not isinstance(model, Labeller):
        raise InputError("metric 'log-loss' is for methods that label rows (forest, loglinear)")
    names = [n for n in c.schema.names if n in c.authentic.names]
    rows = c.authentic if c.fresh is None else authentic_codes(source(c.fresh), c.schema, names)[0]
    p = model.probabilities(rows)
    joint = np.zeros(len(rows), dtype=np.int64)
    for name in model.targets:
        joint = joint * c.schema[name].size + rows[name]
    seen = np.bincount(joint, minlength=p.shape[1]) / max(1, len(rows))
    marginal = -float((seen[seen > 0] * np.log(seen[seen > 0])).sum())
    return -float(np.log(np.maximum(p[np.arange(len(rows)), joint], RAREST)).mean()), marginal


_BY_CHANCE = "what chance alone gives"
_PERFECT = "1 is perfect"
METRICS: Mapping[str, Metric] = {
    "tvd-1": Metric("mean total variation distance of 1-way tables", "lower", _marginals(1), _BY_CHANCE),
    "tvd-2": Metric("mean total variation distance of 2-way tables", "lower", _marginals(2), _BY_CHANCE),
    "tvd-3": Metric("mean total variation distance of 3-way tables", "lower", _marginals(3), _BY_CHANCE),
    "specks": Metric("SPECKS, logistic main effects", "lower", _specks("logistic"), _BY_CHANCE),
    "specks-interactions": Metric("SPECKS, interactions", "lower", _specks("interactions"), _BY_CHANCE),
    "specks-cart": Metric("SPECKS, classification tree", "lower", _specks("cart"), _BY_CHANCE),
    "specks-forest": Metric("SPECKS, random forest", "lower", _specks("forest"), _BY_CHANCE),
    "specks-boosting": Metric("SPECKS, boosting", "lower", _specks("boosting"), _BY_CHANCE),
    "pmse": Metric("pMSE, logistic main effects", "lower", _pmse, _BY_CHANCE),
    "pmse-ratio": Metric("pMSE against two independent samples", "lower", _pmse_ratio, "1 is chance"),
    "s-pmse": Metric("standardised pMSE", "lower", _s_pmse, _BY_CHANCE),
    "binned-scores": Metric("binned propensity scores", "lower", _binned, _BY_CHANCE),
    "association-agreement": Metric(
        "agreement of χ² tests at 5 %", "higher", _agreement, "the better constant answer"
    ),
    "association-kappa": Metric("Cohen's κ of χ² tests at 5 %", "higher", _kappa, _PERFECT),
    "association-rank": Metric("rank correlation of Cramér's V", "higher", _rank, _PERFECT),
    "range-error": Metric("mean error of range queries", "lower", _ranges, "0 is perfect"),
    "joint-correlation": Metric("correlation of joint proportions", "higher", _joint, _PERFECT),
    "slope-rmse": Metric("error of p-slopes, root mean square", "lower", _slopes, "0 is perfect"),
    "correlation-rmse": Metric(
        "error of level correlations, root mean square", "lower", _correlations, "0 is perfect"
    ),
    "logistic-rmse": Metric(
        "error of logistic coefficients, root mean square", "lower", _logistic, "0 is perfect"
    ),
    "log-loss": Metric("log loss of labels of unseen rows", "lower", _log_loss, "the label marginal alone"),
}


def title_of(metric: str, metrics: Mapping[str, Metric] = METRICS) -> str:
    """A metric in words."""
    if metric in metrics:
        return metrics[metric].title
    name, _, kind = metric.rpartition(": ")
    words = {
        "error": "mean absolute error of the coefficients",
        "overlap": "mean interval overlap",
        "coverage": "share of intervals that contain the authentic estimate",
        "width": "mean width of the intervals, in authentic ones",
    }
    return f"{words[kind]}, {name}" if kind in words else metric


def reference_of(metric: str, metrics: Mapping[str, Metric] = METRICS) -> str:
    """What a metric is held against, in words.

    >>> reference_of("pay model: coverage"), reference_of("tvd-1")
    ('95 %, as asked', 'what chance alone gives')
    """
    if metric in metrics:
        return metrics[metric].reference
    words = {"coverage": "95 %, as asked", "width": "the authentic width", "overlap": _PERFECT}
    return words.get(metric.rpartition(": ")[2], "0 is perfect")
