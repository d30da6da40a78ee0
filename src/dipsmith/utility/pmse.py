"""pMSE: the mean squared difference between propensity scores and the share of synthetic rows, and its two nulls.

Woo, Reiter, Oganian and Karr (2009) proposed it; Snoke, Raab, Nowok, Dibben and Slavković (Journal of the Royal
Statistical Society A 181, 2018, theorem 1) gave its null for a logistic model with k parameters when the
synthetic rows are drawn from the distribution fitted to the authentic rows, c = n_s / N:

    E₀ = (k − 1)(1 − c)² c / N,    SD₀ = √(2(k − 1)) (1 − c)² c / N.

Two *independent* samples of one population differ more: N·pMSE / (c(1 − c)) is then χ² with k − 1 degrees of
freedom, so E = (k − 1) c (1 − c) / N, which is 1/(1 − c) times as large (twice, for tables of one size). Which
null applies depends on the question: a release cannot be expected to know the very sample it replaces, so a
ratio of 1/(1 − c) to the first null is what an independent sample would get.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dipsmith.utility.propensity import Propensity, Scored


@dataclass(frozen=True)
class PMSE:
    """pMSE beside its nulls.

    Attributes
    ----------
    value
        pMSE.
    resampled_mean, resampled_sd
        Null of Snoke et al.: synthetic rows drawn from the authentic (fitted) distribution.
    independent_mean, independent_sd
        Null of two independent samples.
    """

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


def pmse(found: Propensity, also: Propensity | None = None) -> PMSE:
    """Compute pMSE of a pair from its propensity scores.

    For logistic models the nulls are the formulas above. For others they are simulated: `found` brings one
    null by its draws, `also` (the same classifier with the other kind of null) the other.
    """
    whole = float(found.scored.authentic.sum() + found.scored.synthetic.sum())
    share = float(found.scored.synthetic.sum()) / whole if whole else 0.0
    if found.parameters is not None and found.classifier == "logistic":
        resampled = snoke_null(found.parameters, whole, share)
        independent = independent_null(found.parameters, whole, share)
    else:
        nulls = {p.null_kind: _moments(p) for p in (found, also) if p is not None}
        missing = (float("nan"), float("nan"))
        resampled, independent = nulls.get("resampled", missing), nulls.get("relabelled", missing)
    value = mean_squared(found.scored) if found.probabilities else float("nan")
    return PMSE(found.classifier, value, *resampled, *independent)


def mean_squared(scored: Scored) -> float:
    """The mean of (score − c)² over all rows."""
    weight = scored.authentic + scored.synthetic
    whole = float(weight.sum())
    share = float(scored.synthetic.sum()) / whole
    return float((weight * (scored.scores - share) ** 2).sum() / whole)


def _moments(found: Propensity) -> tuple[float, float]:
    drawn = np.array([mean_squared(draw) for draw in found.null]) * found.null_scale**2
    return (float(drawn.mean()), float(drawn.std(ddof=1))) if len(drawn) > 1 else (float("nan"), float("nan"))
