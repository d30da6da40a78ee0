"""What an analyst would conclude: 105 tests of association and the difference-in-differences model.

The paper's measures (arXiv 1803.06763, section 4.3): do chi-squared tests of all pairs of columns, combined over
the sets by D2 (Li, Meng, Raghunathan and Rubin, Statistica Sinica 1, 1991), come to the authentic conclusion; and
how much do the intervals of a logistic regression of voting overlap the authentic ones (Karr et al. 2006), combined
by T = ū + B/m (Liu 2016). Beside them what tells more:

- agreement beyond chance (Cohen's κ) and the rank correlation of Cramér's V: almost all pairs are associated,
  so that "everything is significant" agrees with the authentic tests in nine of ten;
- the regression among the registered. Nobody votes without being registered, so that the paper's model has no
  finite maximum: the coefficient of registration grows with every iteration, its standard error faster, and
  such intervals overlap whatever the data say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dipsmith.inference.combine import combine, quantile
from dipsmith.inference.tests import d2
from dipsmith.schema import Codes
from dipsmith.utility.association import chi_squared, consistency, p_table, spearman
from dipsmith.utility.regression import overlap, width_ratio

Float = NDArray[np.float64]

LEVELS = (0.01, 0.05, 0.1)
PRIMARY = ("preregistration_state", "registered", "preregistration_state × registered")
_STEPS, _CLOSE = 25, 1e-8
"""Iterations and relative change of the deviance at which R's `glm` stops."""


@dataclass(frozen=True, eq=False)
class Tests:
    """Chi-squared statistic, degrees of freedom and Cramér's V of every pair of columns."""

    statistics: Float
    freedom: Float
    v: Float

    @property
    def p(self) -> Float:
        """One p-value per pair; a pair with an empty column is not significant."""
        return np.where(self.freedom > 0, chi2.sf(self.statistics, np.maximum(self.freedom, 1)), 1.0)


@dataclass(frozen=True, eq=False)
class Regression:
    """Estimates and variances of a logistic regression."""

    names: tuple[str, ...]
    estimate: Float
    variance: Float


@dataclass(frozen=True)
class Agreement:
    """How far the conclusions from several sets agree with the authentic ones.

    Attributes
    ----------
    consistent
        Share of the pairs with the same conclusion at 1, 5 and 10 %, combined by D2.
    single
        The same at 5 % from one set at a time, on average.
    kappa
        Cohen's κ at 5 %, one set at a time.
    ranks
        Spearman's correlation of Cramér's V (average over the sets) with the authentic ones.
    p_classes
        Pairs by class of the authentic (line) and the combined p-value, 4 × 4 numbers.
    overlap_all, overlap_primary
        Mean overlap of the paper's model over all coefficients, and of the three that it is about.
    registered_all, registered_state, registered_width
        Mean overlap among the registered, that of the preregistration effect, and how many times as wide its
        interval is.
    """

    consistent: tuple[float, ...]
    single: float
    kappa: float
    ranks: float
    p_classes: tuple[int, ...]
    overlap_all: float
    overlap_primary: tuple[float, ...]
    registered_all: float
    registered_state: float
    registered_width: float


@dataclass(frozen=True, eq=False)
class Conclusions:
    """What one table says."""

    tests: Tests
    paper: Regression
    registered: Regression

    @classmethod
    def of(cls, codes: Codes, start: Conclusions | None = None) -> Conclusions:
        """Test and fit."""
        return cls(tests(codes), regression(codes, among_registered=False), regression(codes, among_registered=True))


def agreement(authentic: Conclusions, sets: Sequence[Conclusions]) -> Agreement:
    """Compare combined conclusions with the authentic ones."""
    p = authentic.tests.p
    combined = [_combined_p([(s.tests.statistics[i], s.tests.freedom[i]) for s in sets]) for i in range(len(p))]
    alone = [consistency(p, s.tests.p, 0.05) for s in sets]
    paper = _overlaps(authentic.paper, [s.paper for s in sets])
    among = _overlaps(authentic.registered, [s.registered for s in sets])
    state = authentic.registered.names.index(PRIMARY[0])
    at = [authentic.paper.names.index(name) for name in PRIMARY]
    return Agreement(
        consistent=tuple(consistency(p, combined, level).agreement for level in LEVELS),
        single=float(np.mean([c.agreement for c in alone])),
        kappa=float(np.mean([0.0 if np.isnan(c.kappa) else c.kappa for c in alone])),
        ranks=spearman(authentic.tests.v, np.mean([s.tests.v for s in sets], axis=0)),
        p_classes=tuple(int(k) for k in p_table(p, combined).ravel()),
        overlap_all=float(np.mean([o for o, _ in paper])),
        overlap_primary=tuple(paper[i][0] for i in at),
        registered_all=float(np.mean([o for o, _ in among])),
        registered_state=among[state][0],
        registered_width=among[state][1],
    )


def tests(codes: Codes) -> Tests:
    """Pearson's test of every pair of columns."""
    found = []
    for a, b in combinations(codes.schema.names, 2):
        shape = (codes.schema[a].size, codes.schema[b].size)
        cells = codes[a].astype(np.int32) * shape[1] + codes[b]
        found.append(chi_squared(np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)))
    statistics, freedom, v = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    return Tests(statistics, freedom, v)


def regression(codes: Codes, *, among_registered: bool) -> Regression:
    """Voting on everything else: 32 coefficients as in the paper, or among the registered only."""
    kept = codes["registered"] == 1 if among_registered else slice(None)
    names, columns = ["constant"], [np.ones(len(codes))[kept]]
    for attribute in codes.schema:
        values = codes[attribute.name][kept]
        if attribute.name == "voted" or (among_registered and attribute.name == "registered"):
            continue
        if attribute.name == "age":
            names.append("age")
            columns.append(values.astype(float))
            continue
        for level in range(1, attribute.size):
            names.append(attribute.name if attribute.size == 2 else f"{attribute.name} {level}")
            columns.append((values == level).astype(float))
    if not among_registered:
        names.append(PRIMARY[2])
        columns.append(columns[names.index(PRIMARY[0])] * columns[names.index(PRIMARY[1])])
    return _logistic(tuple(names), np.stack(columns, axis=1), codes["voted"][kept].astype(float))


def _logistic(names: tuple[str, ...], x: Float, y: Float) -> Regression:
    """Iterated weighted least squares as R's `glm` does it, with its stopping rule."""
    mu = (y + 0.5) / 2
    eta = np.log(mu / (1 - mu))
    deviance, information = np.inf, np.eye(x.shape[1])
    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        weight = np.maximum(mu * (1 - mu), 1e-14)
        weighted = x * weight[:, None]
        # A column of nothing but zeros would make the matrix singular; its coefficient is then 0 ± a lot.
        information = weighted.T @ x + 1e-8 * np.eye(x.shape[1])
        beta = np.linalg.solve(information, weighted.T @ (eta + (y - mu) / weight))
        eta = np.clip(x @ beta, -30, 30)
        mu = 1 / (1 + np.exp(-eta))
        before, deviance = deviance, float(2 * (np.logaddexp(0, eta) - y * eta).sum())
        if abs(deviance - before) < _CLOSE * (abs(deviance) + 0.1):
            break
    return Regression(names, beta, np.maximum(np.diag(np.linalg.inv(information)), 0.0))


def _combined_p(found: Sequence[tuple[float, float]]) -> float:
    """D2 of one pair; sets in which a column is constant do not count."""
    kept = [(s, k) for s, k in found if k > 0]
    if len(kept) < 2:
        return 1.0
    return d2([s for s, _ in kept], float(np.median([k for _, k in kept]))).p_value


def _overlaps(authentic: Regression, sets: Sequence[Regression]) -> list[tuple[float, float]]:
    """Overlap and ratio of the widths of every coefficient's 95 % interval."""
    found = combine([s.estimate for s in sets], [s.variance for s in sets])
    half = quantile(0.975, found.df) * np.sqrt(found.variance)
    own = 1.959964 * np.sqrt(authentic.variance)
    made = []
    for i in range(len(authentic.names)):
        real = (authentic.estimate[i] - own[i], authentic.estimate[i] + own[i])
        synthetic = (found.estimate[i] - half[i], found.estimate[i] + half[i])
        made.append((overlap(real, synthetic), width_ratio(real, synthetic)))
    return made
