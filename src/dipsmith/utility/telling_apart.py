"""Can a classifier tell the tables apart? Three scores of its propensity scores, each beside what chance gives.

**SPECKS**, the Kolmogorov–Smirnov distance between the scores of authentic and synthetic rows (Bowen, Liu and Su 2021,
"Differentially private data release via statistical election to partition sequentially", Metron 79, section 2.4): 0
would be indistinguishable, 1 perfectly separable. A value means nothing without what chance gives: with nine covariates
and 2,000 + 2,000 rows of one population, .05 on average.

**pMSE**, the mean squared difference between scores and the share of synthetic rows. Woo, Reiter, Oganian and Karr (2009)
proposed it; Snoke, Raab, Nowok, Dibben and Slavković (Journal of the Royal
Statistical Society A 181, 2018, theorem 1) gave its null for a logistic model with k parameters when the
synthetic rows are drawn from the distribution fitted to the authentic rows, c = n_s / N:

    E₀ = (k − 1)(1 − c)² c / N,    SD₀ = √(2(k − 1)) (1 − c)² c / N.

Two *independent* samples of one population differ more: N·pMSE / (c(1 − c)) is then χ² with k − 1 degrees of
freedom, so E = (k − 1) c (1 − c) / N, which is 1/(1 − c) times as large (twice, for tables of one size). Which
null applies depends on the question: a release cannot be expected to know the very sample it replaces, so a
ratio of 1/(1 − c) to the first null is what an independent sample would get.

**Binned scores** (Sakshaug and Raghunathan 2010, "Synthetic data for small area estimation", Privacy in Statistical
Databases): scores are cut at the quantiles of the pooled scores, and the number of synthetic rows in each group is
compared with its expectation by Pearson's statistic. With scores from cross-fitting its null is χ² with (groups − 1)
degrees of freedom. Scores fitted to the same rows inflate it fourfold and more (referred to χ², .99 of equal tables of
nine columns are rejected), so these are referred to a multiple of χ² with the mean and variance of the null draws, which
were scored in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from operator import attrgetter
from typing import Any

import numpy as np

from dipsmith.report.content import Block, Cell
from dipsmith.utility.findings import Findings, each, mean, table
from dipsmith.utility.metric import Chapter, Metric, SideBySide
from dipsmith.utility.propensity import Propensity, Scored, propensity


@dataclass(frozen=True)
class Specks:
    """The distance, the mean and 95 % point of the distances that chance gives, and the rows of both tables scored."""

    classifier: str
    value: float
    null_mean: float
    null_95: float
    crossfitted: bool
    rows: int

    @property
    def beyond_chance(self) -> bool:
        """Whether the distance is larger than nineteen of twenty chance distances."""
        return self.value > self.null_95


def specks(found: Propensity) -> Specks:
    """SPECKS of a pair from its propensity scores."""
    chance = np.array([distance(draw) for draw in found.null]) * found.null_scale
    most = float(np.quantile(chance, 0.95)) if len(chance) else float("nan")
    rows = int(found.scored.authentic.sum() + found.scored.synthetic.sum())
    return Specks(found.classifier, distance(found.scored), mean(chance), most, found.crossfitted, rows)


def mean_specks(sets: Sequence[Specks]) -> Specks:
    """The mean over several synthetic sets, as the paper reports it; the null is that of the first set."""
    return replace(sets[0], value=float(np.mean([s.value for s in sets])))


def distance(scored: Scored) -> float:
    """The largest difference between the two empirical distribution functions; tied scores count together.

    >>> distance(Scored(np.array([.1, .2, .2, .9]), np.array([1., 1, 0, 0]), np.array([0., 0, 1, 1])))
    0.5
    """
    ordered = scored.scores[scored.order]
    last = np.append(ordered[1:] > ordered[:-1], True)[: len(ordered)]
    sides = (scored.authentic, scored.synthetic)
    a, s = (np.cumsum(rows[scored.order]) / max(1.0, float(rows.sum())) for rows in sides)
    return float(np.abs(a - s)[last].max(initial=0.0))


@dataclass(frozen=True)
class Pmse:
    """pMSE beside its nulls: synthetic rows drawn from the authentic ones, and two independent samples."""

    classifier: str
    value: float
    resampled_mean: float
    resampled_sd: float
    independent_mean: float
    independent_sd: float

    @property
    def standardised(self) -> float:
        """S-pMSE = (pMSE − E₀) / SD₀, by the null of Snoke et al."""
        return (self.value - self.resampled_mean) / self.resampled_sd if self.resampled_sd else float("nan")

    @property
    def ratio(self) -> float:
        """The ratio pMSE / E₀."""
        return self.value / self.resampled_mean if self.resampled_mean else float("nan")

    @property
    def independent_ratio(self) -> float:
        """The ratio of pMSE to its expectation for two independent samples."""
        return self.value / self.independent_mean if self.independent_mean else float("nan")


def snoke_null(parameters: int, rows: float, share: float) -> tuple[float, float]:
    """E₀ and SD₀ for synthetic rows drawn from the authentic distribution.

    >>> mean, sd = snoke_null(10, 4000, 0.5)
    >>> f"{mean:.4g} {sd:.4g}"
    '0.0002813 0.0001326'
    """
    unit = (1 - share) ** 2 * share / rows
    return (parameters - 1) * unit, sqrt(2 * (parameters - 1)) * unit


def independent_null(parameters: int, rows: float, share: float) -> tuple[float, float]:
    """Mean and standard deviation of pMSE for two independent samples.

    >>> mean, sd = independent_null(10, 4000, 0.5)
    >>> f"{mean:.4g}"
    '0.0005625'
    """
    unit = share * (1 - share) / rows
    return (parameters - 1) * unit, sqrt(2 * (parameters - 1)) * unit


def pmse(found: Propensity) -> Pmse:
    """PMSE of logistic main effects, whose nulls are the formulas above."""
    assert found.parameters is not None
    synthetic = float(found.scored.synthetic.sum())
    whole = float(found.scored.authentic.sum()) + synthetic
    nulls = [null(found.parameters, whole, synthetic / whole) for null in (snoke_null, independent_null)]
    return Pmse(found.classifier, mean_squared(found.scored), *nulls[0], *nulls[1])


def mean_squared(scored: Scored) -> float:
    """The mean of (score − c)² over all rows."""
    weight = scored.authentic + scored.synthetic
    share = scored.synthetic.sum() / weight.sum()
    return float(np.average((scored.scores - share) ** 2, weights=weight))


@dataclass(frozen=True)
class BinnedScores:
    """Pearson's statistic, its degrees of freedom and p-value, and its mean under the simulated null.

    `groups` lists for each group of scores its mean score and the numbers of authentic and synthetic rows.
    """

    classifier: str
    statistic: float
    freedom: int
    p: float
    null_mean: float
    groups: tuple[tuple[float, float, float], ...]


def binned_scores(found: Propensity, groups: int = 10) -> BinnedScores:
    """Bin the scores of a pair and compare the groups."""
    bins = _groups(found.scored, groups)
    value = statistic(found.scored, groups)
    chance = [statistic(draw, groups) for draw in found.null]
    freedom, null_mean = max(0, len(bins) - 1), mean(chance)
    p = _tail(value, freedom, freedom) if found.crossfitted else _tail(value, null_mean, _moment_freedom(chance))
    return BinnedScores(found.classifier, value, freedom, p, null_mean, tuple(bins))


def _moment_freedom(chance: Sequence[float]) -> float:
    """Degrees of freedom of the multiple of χ² with the mean and variance of null draws; NaN of fewer than two."""
    if len(chance) < 2:
        return float("nan")
    return 2 * float(np.mean(chance)) ** 2 / max(float(np.var(chance, ddof=1)), 1e-300)


def _tail(value: float, expected: float, freedom: float) -> float:
    """The chance of as much, by a multiple of χ² with this mean."""
    from scipy.special import chdtrc

    return float(chdtrc(freedom, value * freedom / expected)) if expected else 1.0


def statistic(scored: Scored, groups: int = 10) -> float:
    """Σ (synthetic − c·rows)² / (c(1 − c)·rows) over the groups."""
    whole = float((scored.authentic + scored.synthetic).sum())
    c = float(scored.synthetic.sum()) / whole if whole else 0.0
    if not 0 < c < 1:
        return 0.0
    return float(sum((s - c * (a + s)) ** 2 / (c * (1 - c) * (a + s)) for _, a, s in _groups(scored, groups)))


def _groups(scored: Scored, groups: int) -> list[tuple[float, float, float]]:
    """(mean score, authentic, synthetic) of each group; equal scores stay together."""
    order = scored.order
    scores, a, s = scored.scores[order], scored.authentic[order], scored.synthetic[order]
    weight = a + s
    below = np.cumsum(weight) - weight
    group = np.minimum((below / max(1.0, float(weight.sum())) * groups).astype(np.int64), groups - 1)
    if len(group):
        starts = np.append(True, scores[1:] > scores[:-1])
        group = group[np.maximum.accumulate(np.where(starts, np.arange(len(group)), 0))]
    sums = [np.bincount(group, v, minlength=groups) for v in (weight, scores * weight, a, s)]
    return [(total / rows, a, s) for rows, total, a, s in zip(*(v.tolist() for v in sums), strict=True) if rows]


def _find(both: SideBySide) -> dict[str, Any]:
    scores, binned, squared = [], [], None
    for done, classifier in enumerate(both.classifiers):
        both.progress(done / len(both.classifiers))
        first, *others = (both.propensity(classifier, i) for i in range(len(both.pairs)))
        scores.append(mean_specks([specks(scored) for scored in (first, *others)]))
        binned.append(binned_scores(first))
        squared = pmse(first) if classifier == "logistic" else squared
    squared = squared or pmse(propensity(both.pairs[0], draws=0))
    return {"specks": tuple(scores), "pmse": squared, "binned": tuple(binned)}


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    squared = found["pmse"]
    expected = squared.resampled_mean
    independent = squared.independent_mean / expected if expected else float("nan")
    return [
        *((f"SPECKS, {s.classifier}", s.value, s.null_95) for s in found["specks"]),
        ("pMSE ratio, logistic", squared.ratio, independent),
    ]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    how = {True: "by the other half", False: "in sample"}
    squared = ["value", "standardised", "resampled_mean", "ratio", "independent_mean", "independent_ratio"]
    return [
        table(
            "SPECKS: the Kolmogorov–Smirnov distance of the propensity scores",
            ("classifier", "KS", "null mean", "null 95 %", "rows", "scored"),
            found,
            lambda f: [
                (s.classifier, s.value, s.null_mean, s.null_95, s.rows, how[s.crossfitted])
                for s in sorted(f["specks"], key=lambda s: -s.value)
            ],
            "0 would be indistinguishable, 1 perfectly separable. Only what exceeds the null's 95 % point is a difference. "
            "Rows: how many of both tables together were scored.",
        ),
        table(
            "pMSE of the logistic model with main effects, against both nulls",
            ("pMSE", "S-pMSE", "null: resampled", "ratio", "null: independent", "ratio to it"),
            found,
            lambda f: [attrgetter(*squared)(f["pmse"])],
            "Resampled: synthetic rows drawn from the authentic ones (Snoke et al. 2018). Independent: another sample of the "
            "same population, which no release can be asked to beat.",
        ),
        table(
            "χ² of binned scores: are both tables equally frequent in every tenth of the scores?",
            ("classifier", "χ²", "degrees of freedom", "null mean", "p"),
            found,
            each("binned", "classifier", "statistic", "freedom", "null_mean", "p"),
            "Sakshaug and Raghunathan 2010. With many rows p is 0 for any difference; compare χ² with its null mean.",
        ),
    ]


TELLING_APART = Chapter("Can a classifier tell them apart?", _find, _blocks, _lines, place=1, effort=15.0)

Measure = Callable[[SideBySide], tuple[float, float]]


def _specks(classifier: str) -> Measure:
    def measure(both: SideBySide) -> tuple[float, float]:
        sets = [specks(both.cached_propensity(classifier, i)) for i in range(len(both.pairs))]
        return mean_specks(sets).value, sets[0].null_mean

    return measure


def _pmse(score: Callable[[Pmse], tuple[float, float]]) -> Measure:
    """A score of the first set's pMSE by logistic main effects, and its reference."""
    return lambda both: score(pmse(both.cached_propensity("logistic")))


_lower = partial(Metric, better="lower", chapter=TELLING_APART)
SPECKS = _lower("specks", "SPECKS, logistic main effects", measure=_specks("logistic"))
SPECKS_INTERACTIONS = _lower("specks-interactions", "SPECKS, interactions", measure=_specks("interactions"))
SPECKS_CART = _lower("specks-cart", "SPECKS, classification tree", measure=_specks("cart"))
SPECKS_FOREST = _lower("specks-forest", "SPECKS, random forest", measure=_specks("forest"))
SPECKS_BOOSTING = _lower("specks-boosting", "SPECKS, boosting", measure=_specks("boosting"))
PMSE = _lower("pmse", "pMSE, logistic main effects", measure=_pmse(lambda s: (s.value, s.independent_mean)))
_ratio = _pmse(lambda s: (s.independent_ratio, 1.0))
PMSE_RATIO = _lower("pmse-ratio", "pMSE against two independent samples", measure=_ratio, reference="1 is chance")
_standardised = _pmse(lambda s: (s.standardised, replace(s, value=s.independent_mean).standardised))
S_PMSE = _lower("s-pmse", "standardised pMSE", measure=_standardised)
BINNED_SCORES = _lower(
    "binned-scores",
    "binned propensity scores",
    measure=lambda both: attrgetter("statistic", "null_mean")(binned_scores(both.cached_propensity("logistic"))),
)
