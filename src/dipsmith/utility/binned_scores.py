"""The χ² of binned propensity scores: whether authentic and synthetic rows are equally frequent at every score.

Sakshaug and Raghunathan (2010), "Synthetic data for small area estimation", Privacy in Statistical Databases:
scores are cut at the quantiles of the pooled scores, and the number of synthetic rows in each group is compared
with its expectation by Pearson's statistic. With scores from cross-fitting its null is χ² with (groups − 1)
degrees of freedom; scores fitted to the same rows inflate it, so the mean of the null draws stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dipsmith.utility.propensity import Propensity, Scored


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
    from scipy.special import chdtrc

    table = _groups(found.scored, groups)
    value = statistic(found.scored, groups)
    chance = [statistic(draw, groups) for draw in found.null]
    freedom = max(0, len(table) - 1)
    p = float(chdtrc(freedom, value)) if freedom else 1.0
    return BinnedScores(
        found.classifier, value, freedom, p, float(np.mean(chance)) if chance else float("nan"), tuple(table)
    )


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
    found = []
    for g in np.unique(group):
        at = group == g
        rows = float(weight[at].sum())
        if rows:
            found.append(
                (float((scores[at] * weight[at]).sum() / rows), float(a[at].sum()), float(s[at].sum()))
            )
    return found
