"""Chi-squared tests from a release: Li's D2, and a test that looks at where the sets disagree.

**D2** (Li, Meng, Raghunathan and Rubin, Statistica Sinica 1, 1991) knows the m statistics and nothing else. With d̄
their mean, k their degrees of freedom and r = (1 + 1/m)·Var(√d),

    D2 = [d̄/k − r(m + 1)/(m − 1)]/(1 + r),   F with k and ν = k^(−3/m)·(m − 1)(1 + 1/r)² degrees of freedom.

It was made for missing data. Where sets disagree it subtracts more than there is, and returns p = 1 however
strong the evidence: the statistics (500, 1, 1, 1, 1) give p = 1.

**The noise-corrected test** (`independence`) looks at the tables. Let z be the Pearson residuals of the average
table: independent in the population, they have covariance I from sampling and V from noise and drawing, so that
X² = |z|² is a weighted sum of chi-squared variables with weights 1 + eigenvalues of V. V is estimated between
the sets (sanitised separately) or from runs of the mechanism on the synthetic rows, and X² is referred to an F
distribution with matching first two moments: what Rao and Scott (JASA 76, 1981; Annals of Statistics 12, 1984) do
for the design effects of surveys, and Reiter (Journal of Statistical Planning and Inference 131, 2005) does to
first order for multiply imputed data. Directions matter: noise that points another way in every set averages
out, an association that all sets share does not.

Size and power, simulated: ``docs/tutorials/inference.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import ArrayLike

from dipsmith.arrays import Floats
from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried, UsageError
from dipsmith.inference.combine import Rule, choose_rule, show_p
from dipsmith.inference.direct import measured_pair
from dipsmith.inference.noise_aware import REPLICATES, Progress, Replication, rerun
from dipsmith.methods.method import Method
from dipsmith.regression.estimates import Estimates
from dipsmith.schema import Schema
from dipsmith.synthesis.gaps import missing_for
from dipsmith.synthesis.release import Release


@dataclass(frozen=True)
class Significance:
    """The result of a chi-squared test.

    The statistic is an F (chi-squared over its degrees of freedom, corrected for noise) whose denominator is infinite
    in the chi-squared limit; `inflation` says by how much noise and drawing raise it where there is no association
    (1: not at all), `chi_squared` what it was before the correction (of the average table), where there is one.
    """

    name: str
    statistic: float
    df: float
    denominator: float
    p_value: float
    inflation: float
    chi_squared: float = float("nan")

    def __str__(self) -> str:
        chi = "" if np.isnan(self.chi_squared) else f"X² = {self.chi_squared:,.4g}, "
        denominator = "∞" if self.denominator == inf else f"{self.denominator:,.4g}"
        if np.isnan(self.p_value):
            return f"{self.name}: {chi}F({self.df:.3g}, {denominator}) = {self.statistic:.4g}, no p-value: not carried"
        return (
            f"{self.name}: {chi}noise inflates by {self.inflation:.3g}, F({self.df:.3g}, {denominator}) = "
            f"{self.statistic:.4g}, p {show_p(self.p_value) if self.p_value < 0.001 else f'= {self.p_value:.3f}'}"
        )


def d2(statistics: ArrayLike, df: float) -> Significance:
    """Combine m chi-squared statistics, one per set, by Li's D2.

    >>> found = d2([20, 22, 18, 25, 21], df=4)
    >>> round(found.statistic, 3), round(found.p_value, 5)
    (4.717, 0.00111)
    >>> d2([500, 1, 1, 1, 1], df=4).p_value
    1.0
    """
    d = np.asarray(statistics, dtype=np.float64).ravel()
    m = len(d)
    if m < 2 or not np.isfinite(d).all() or (d < 0).any():
        raise UsageError("D2 needs two chi-squared statistics or more, finite and not negative")
    if not df > 0:
        raise UsageError(f"D2: df is {df}, expected a positive number of degrees of freedom")
    r = (1 + 1 / m) * float(np.sqrt(d).var(ddof=1))
    if r < 1e-12 * max(float(d.mean()), 1.0):
        statistic, denominator = float(d.mean()) / df, inf
    else:
        statistic = (float(d.mean()) / df - (m + 1) / (m - 1) * r) / (1 + r)
        denominator = df ** (-3 / m) * (m - 1) * (1 + 1 / r) ** 2
    return Significance("D2", statistic, float(df), denominator, upper_tail(statistic, df, denominator), 1 + r)


def independence(
    release: Release,
    first: str,
    second: str,
    *,
    rule: Rule = "auto",
    replicates: int = REPLICATES,
    method: Method | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    allow_unsupported: bool = False,
) -> Significance:
    """Test whether two categories are independent, from a release; refused where it does not carry the two together.

    Where noisy tables hold the two, they are tested themselves, with their known noise.

    Parameters
    ----------
    first, second
        Two columns; numbers are taken in the bins of the schema.
    rule
        "auto" takes the rule that the card calls for; "combine" estimates the noise between separately
        sanitised sets, "noise-aware" by running the mechanism again (`replicates`, `method`, `seed`), "sampling"
        leaves it out.
    allow_unsupported
        Where the release does not carry the two together, give the statistic of the synthetic rows, without a p-value.
    """
    chosen = choose_rule(release, rule, unbiased=True)
    if first == second:
        raise UsageError(f"'{first}' is not independent of itself; name two columns")
    name = f"{first} and {second} independent"
    if rule == "auto" and (noisy := measured_pair(release, first, second)) is not None:
        average = _Average.of([noisy.counts])
        return average.test(np.array([average.residuals(noisy.counts + e) for e in noisy.noise]), 1.0, name)
    tables = [cross_table(t, release.schema, first, second) for t in release.tables]
    average = _Average.of(tables)
    if chosen != "sampling" and (gap := missing_for(release, first, second)) is not None:
        if not allow_unsupported:
            raise NotCarried(gap.sentence)
        ordinary = average.test(np.zeros((2, average.table.size)), 1.0, name)
        return replace(ordinary, p_value=float("nan"), inflation=float("nan"))
    if chosen == "combine":
        return independence_on_average(tables, name=name)
    if chosen == "sampling":
        return average.test(np.zeros((2, average.table.size)), 1.0, name)

    def residuals(table: pa.Table) -> Estimates:
        z = average.residuals(cross_table(table, release.schema, first, second))
        return Estimates(tuple(map(str, range(len(z)))), z, np.zeros((len(z), len(z))), table.num_rows)

    separate = release.card.each == "split"
    draws, share = (1, 1 / len(tables)) if separate else (len(tables), 1.0)
    each = tuple(residuals(t) for t in release.tables)
    how = Replication(replicates, method=method, seed=seed, progress=progress)
    return average.test(rerun(release, residuals, each, how, draws).moved, share, name)


def independence_on_average(tables: Sequence[ArrayLike], *, name: str = "independence") -> Significance:
    """Test independence in the average of cross-tables, one from each separately sanitised set.

    >>> sets = [[[30, 20], [18, 32]], [[33, 17], [20, 30]], [[28, 22], [19, 31]]]
    >>> print(independence_on_average(sets))
    independence: X² = 5.139, noise inflates by 1.06, F(1, 670.1) = 4.858, p = 0.028
    """
    counts = [np.asarray(t, dtype=np.float64) for t in tables]
    if len(counts) < 2:
        raise UsageError("one table cannot show its noise; give a table for each separately sanitised set")
    if any(t.ndim != 2 or t.shape != counts[0].shape or (t < 0).any() for t in counts):
        raise UsageError("cross-tables must have one shape, two ways, and no negative counts")
    average = _Average.of(counts)
    return average.test(np.array([average.residuals(t) for t in counts]), 1 / len(counts), name)


def cross_table(table: pa.Table, schema: Schema, first: str, second: str) -> Floats:
    """The counts of two columns, in the labels of the schema."""
    for name in (first, second):
        if name not in table.column_names:
            raise UsageError(f"there is no column '{name}'; there are: {', '.join(table.column_names[:20])}")
    codes, _ = Encoder(schema, [first, second]).encode(table.select([first, second]))
    shape = schema[first].size, schema[second].size
    cell = codes[first].astype(np.int64) * shape[1] + codes[second]
    return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Average:
    """The average table, and what it expects under independence; empty rows and columns are left out."""

    table: Floats
    expected: Floats
    occupied: tuple[Floats, Floats]

    @classmethod
    def of(cls, tables: Sequence[Floats]) -> _Average:
        whole = np.mean(tables, axis=0)
        rows, columns = whole.sum(axis=1) > 0, whole.sum(axis=0) > 0
        kept = whole[np.ix_(rows, columns)]
        if min(kept.shape) < 2:
            raise UsageError("a test of independence needs two columns with two values each, or more")
        expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / kept.sum()
        return cls(kept, expected, (rows, columns))

    def residuals(self, table: Floats) -> Floats:
        """Observed less expected in one table, in standard deviations of the average table's cells."""
        kept = table[np.ix_(*self.occupied)]
        own = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / max(float(kept.sum()), 1.0)
        return np.asarray((kept - own) / np.sqrt(self.expected)).ravel()

    def test(self, scattered: Floats, share: float, name: str) -> Significance:
        """Test the average table, given residuals of tables that noise has scattered."""
        chi = float((((self.table - self.expected) ** 2) / self.expected).sum())
        df = (self.table.shape[0] - 1) * (self.table.shape[1] - 1)
        return refer(chi, df, scattered, share, name)


def refer(chi: float, k: int, scattered: Floats, share: float, name: str, residual: float = inf) -> Significance:
    """Refer a chi-squared statistic to its first two moments under noise.

    `chi` is |z|² of `k` standardised estimates z, by so many `residual` degrees of freedom; `scattered` has z of several
    tables that differ by noise and drawing, of whose variance the average has a `share`: 1/m for m of them, 1 where each
    stands for it.
    """
    nu = len(scattered) - 1
    centred = scattered - scattered.mean(axis=0)
    inner = centred @ centred.T / nu
    trace = float(np.trace(inner))
    square = _unbiased_square(float((inner**2).sum()), trace, nu, k)
    first, second = share * trace / k, share**2 * square
    inflation = 1 + first
    # Σλ² against (Σλ)²/k: how unequal the weights of the chi-squared variables are.
    unequal = max(k * (k + 2 * k * first + second) / (k * inflation) ** 2, 1.0)
    statistic, df, denominator = chi / (k * inflation), k / unequal, inf
    if first > 0:
        denominator = nu * (share * trace) ** 2 / second * (inflation / first) ** 2
    denominator = min(denominator, residual)
    return Significance(name, statistic, df, denominator, upper_tail(statistic, df, denominator), inflation, chi)


def _unbiased_square(square: float, trace: float, nu: int, k: int) -> float:
    """tr(Σ²) from the same of a sample covariance with ν degrees of freedom, within what is possible in k dimensions.

    E tr(S²) = tr(Σ²)(1 + 1/ν) + tr(Σ)²/ν for normal samples (Himeno and Yamada 2014).
    """
    least, most = trace**2 / k, trace**2
    if nu < 2:
        return least
    return min(max(nu**2 / ((nu - 1) * (nu + 2)) * (square - trace**2 / nu), least), most)


def upper_tail(statistic: float, df: float, denominator: float) -> float:
    """P(F > statistic), in the chi-squared limit where the denominator is infinite; 1 at or below 0."""
    if not statistic > 0:
        return 1.0
    if denominator == inf:
        return float(scipy.special.chdtrc(df, df * statistic))
    return float(scipy.special.fdtrc(df, denominator, statistic))
