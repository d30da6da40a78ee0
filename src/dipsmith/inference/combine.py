"""Combining rules: one honest estimate from several synthetic sets.

For m sets that were **sanitised separately** (each with 1/m of the budget) an analysis is done m times;
with estimates qᵢ and ordinary variances uᵢ,

    q̄ = Σqᵢ/m,   ū = Σuᵢ/m,   B = Σ(qᵢ − q̄)²/(m − 1),
    T = ū + B/m,   (q̄ − Q)/√T ~ t,   T²/ν = ū²/ν₀ + (B/m)²/(m − 1) degrees of freedom,

where ν₀ are the residual ones of one set (four clusters: 3): Satterthwaite's, as Barnard and Rubin (Biometrika 86, 1999)
have them for missing data. With ν₀ = ∞ it is the ν = (m − 1)(1 + mū/B)² of the papers.

ū is what sampling people did; B/m is what noise and drawing did, because the sets differ by nothing else.
The rule is that of partially synthetic data (Reiter, Survey Methodology 29, 2003) and was shown to hold for
differentially private sets by Liu ("Model-based differentially private data synthesis and statistical
inference in multiple synthetic datasets", arXiv 1606.08052). With B = 0 the reference is normal.

**It does not hold for m draws from one sanitised model.** These share one draw of noise, so that B sees
none of it: 95 % intervals for a proportion of .3 then cover 86 times in 100 (1000 rows, ε = 0.1). The
card of a release says how its sets were made, and `combine` refuses the second kind;
`dipsmith.inference.noise_aware` is for them, and gives shorter intervals at the same ε besides.

No rule of this kind sees a bias that all sets share, such as that of clipping negative counts or of shrinking, and with
1/m of the budget there is more of it: five sets lost 20 to 60 % of a coefficient. `dipsmith.fit` therefore runs the
mechanism again for such sets too, with the budget that each had, and takes it off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import ArrayLike

from dipsmith.arrays import Floats
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.regression.estimates import names_of
from dipsmith.report.content import Table
from dipsmith.report.sections import inline_table
from dipsmith.synthesis.release import Release

Rule = Literal["auto", "combine", "noise-aware", "sampling"]

DRAWN = (
    "these sets were drawn from one sanitised model and share its noise, so that T = ū + B/m would leave it out "
    "(95 % intervals may cover 86 times in 100 or less); use noise_aware(release, …), or ask the steward for sets "
    "made with each='split'"
)

SHARED = "A bias that all sets share (shrinkage, clipped counts) is not seen by it."


@dataclass(frozen=True)
class Estimate:
    """One combined estimate: a line of the table."""

    name: str
    value: float
    std_error: float
    df: float
    low: float
    high: float
    p_value: float

    def __float__(self) -> float:
        return self.value

    @property
    def estimate(self) -> float:
        """The value, by the name that its column has in tables."""
        return self.value

    def __str__(self) -> str:
        return f"{self.name} {self.value:.6g} ± {self.std_error:.3g} ({self.low:.6g} to {self.high:.6g})"


@dataclass(frozen=True, eq=False)
class Combined:
    """Combined estimates with intervals and p-values; iterate, index by name, or take `to_arrow()`.

    Attributes
    ----------
    estimate
        q̄, less the `bias` that was corrected.
    within, between, variance, df, sets
        ū (the average sampling variance), B (the variance between sets), T, ν and m.
    noise
        Var_noise, where it was found by running the mechanism again (0 under T = ū + B/m).
    rule
        How T was found, in one sentence.
    bias, runs
        Where the mechanism was run again: what was taken off q̄, and how each run scattered the estimates.
    """

    names: tuple[str, ...]
    estimate: Floats
    within: Floats
    between: Floats
    noise: Floats
    variance: Floats
    df: Floats
    sets: int
    rule: str
    level: float = 0.95
    bias: Floats | None = None
    notes: tuple[str, ...] = ()
    runs: Floats | None = None

    @property
    def std_error(self) -> Floats:
        """√T."""
        return np.asarray(np.sqrt(self.variance))

    @property
    def raw(self) -> Floats:
        """q̄ as it stands, before any correction of bias."""
        return self.estimate if self.bias is None else self.estimate + self.bias

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """Lower and upper ends."""
        half = quantile(0.5 + self.level / 2, self.df) * self.std_error
        return self.estimate - half, self.estimate + half

    @property
    def p_value(self) -> Floats:
        """Two-sided p-values of "the true value is 0", by Student's t, normal where ν is infinite."""
        empty = np.full(len(self.names), np.nan)
        size = np.divide(-np.abs(self.estimate), self.std_error, out=empty, where=self.std_error > 0)
        finite = np.isfinite(self.df)
        tail = np.where(finite, scipy.special.stdtr(np.where(finite, self.df, 1.0), size), scipy.special.ndtr(size))
        return np.asarray(2 * tail)

    @property
    def variance_is_sampling(self) -> bool:
        """Whether T is nothing but sampling variance."""
        return bool(np.array_equal(self.variance, self.within, equal_nan=True))

    def at(self, level: float) -> Combined:
        """The same with intervals of another level."""
        return replace(self, level=check_level(level))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Estimate]:
        low, high = self.interval
        columns = (self.estimate, self.std_error, self.df, low, high, self.p_value)
        for i, name in enumerate(self.names):
            yield Estimate(name, *(float(c[i]) for c in columns))

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.names:
            raise UsageError(f"there is no estimate '{name}'; there are: {', '.join(self.names[:20])}")
        return list(self)[self.names.index(name)]

    def to_arrow(self) -> Any:
        """The estimates as a `pyarrow.Table`, one line each."""
        ends = dict(zip(("low", "high"), self.interval, strict=True))
        first, rest = ("estimate", "std_error", "df"), ("p_value", "within", "between", "noise", "raw")
        columns = {name: ends.get(name, getattr(self, name, None)) for name in (*first, *ends, *rest)}
        return pa.table({"term": list(self.names), **columns})

    def to_pandas(self) -> Any:
        """The estimates as a pandas frame, indexed by name."""
        return self.to_arrow().to_pandas().set_index("term")

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def content(self, caption: str = "Combined estimates") -> Table:
        """The estimates as a table of a report."""
        percent = f"{self.level:.0%}"
        columns: tuple[str, ...] = ("", "estimate", "s.e.", f"{percent} from", "to", "p")
        rows: list[tuple[str, ...]] = [
            (e.name, *map(show, (e.value, e.std_error, e.low, e.high)), show_p(e.p_value)) for e in self
        ]
        if not self.variance_is_sampling:
            share = 1 - np.divide(self.within, self.variance, out=np.ones(len(self)), where=~(self.variance <= 0))
            columns = (*columns, "noise share of s.e.²")
            rows = [(*row, "–" if np.isnan(s) else f"{s:.0%}") for row, s in zip(rows, share, strict=True)]
        return Table.of(caption, columns, rows, " ".join((f"{self.rule}.", *self.notes)))

    def __str__(self) -> str:
        return as_text(self.content())

    def _repr_html_(self) -> str:
        return inline_table(self.content())


def combine(
    estimates: ArrayLike,
    variances: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    df: float = inf,
    release: Release | None = None,
) -> Combined:
    """Combine the estimates from m separately sanitised sets: T = ū + B/m.

    Parameters
    ----------
    estimates, variances
        One number per set, or one line per set with one number per estimate.
    names, level
        What the estimates are called, and the level of the intervals.
    df
        Residual degrees of freedom of one set: rows less coefficients, or clusters less one.
    release
        The release that the sets are from: refused when they were drawn from one model.

    Examples
    --------
    >>> found = combine([0.31, 0.28, 0.30, 0.35, 0.27], [0.0002] * 5)
    >>> float(found.variance[0].round(6)), float(found.df[0].round(2))
    (0.000394, 16.5)
    >>> print(found)
              estimate     s.e.  95% from     to        p  noise share of s.e.²
    estimate     0.302  0.01985      0.26  0.344  < 0.001                   49%
    T = ū + B/m over 5 sets that were sanitised separately. A bias that all sets share (shrinkage, clipped counts) is not seen by it.
    """
    check_level(level)
    if release is not None and release.card.sets > 1 and release.card.each != "split":
        raise UnsupportedError(DRAWN)
    q, u = _lines(estimates, "estimates"), _lines(variances, "variances")
    if q.shape != u.shape:
        raise UsageError(f"estimates have shape {q.shape} and variances {u.shape}; expected one variance each")
    m = len(q)
    if m < 2:
        raise UsageError(
            "combine needs two separately sanitised sets or more, got one; one set's noise shows only by running "
            "the mechanism again: use noise_aware(release, …)"
        )
    if np.isinf(q).any() or np.isinf(u).any() or (u < 0).any():
        raise UsageError("estimates must be finite, and variances finite and not negative")
    if not df > 0:
        raise UsageError(f"df is {df}, expected a positive number of degrees of freedom")
    found = average(q, u, names_of(q.shape[1], names), level)
    # A rounding error between equal estimates is no disagreement.
    negligible = found.between <= 1e-24 * np.maximum(np.abs(q).max(axis=0), np.finfo(float).tiny) ** 2
    spread = np.where(negligible, 0.0, found.between / m)
    parts = found.within**2 / df + spread**2 / (m - 1)
    freedom = np.divide((found.within + spread) ** 2, parts, out=np.full(len(found), inf), where=parts > 0)
    rule = f"T = ū + B/m over {m} sets that were sanitised separately"
    return replace(found, df=freedom, rule=rule, notes=(SHARED,))


def average(q: Floats, u: Floats, names: tuple[str, ...], level: float, rule: str = "") -> Combined:
    """Average the estimates of m sets, with T = ū + B/m (of one set ū) and normal quantiles."""
    within = u.mean(axis=0)
    between = q.var(axis=0, ddof=1) if len(q) > 1 else np.zeros_like(within)
    return Combined(
        names=names,
        estimate=q.mean(axis=0),
        within=within,
        between=between,
        noise=np.zeros_like(within),
        variance=within + between / len(q),
        df=np.full(len(within), inf),
        sets=len(q),
        rule=rule,
        level=check_level(level),
    )


def choose_rule(release: Release | None, rule: Rule, *, unbiased: bool = False) -> Rule:
    """The rule that a release calls for; refuses one that does not hold for it.

    T = ū + B/m is taken by itself only for what sets cannot share a bias of, such as a test of no association (`unbiased`).
    """
    if rule not in get_args(Rule):
        raise UsageError(f"rule is '{rule}', expected one of {', '.join(get_args(Rule))}")
    if release is None:
        if rule in ("auto", "sampling"):
            return "sampling"
        raise UsageError(f"rule='{rule}' needs a release: a table by itself does not say how it was made")
    separate = release.card.sets > 1 and release.card.each == "split"
    if rule == "combine" and not separate:
        raise UnsupportedError(
            DRAWN if release.card.sets > 1 else "one set cannot show its noise; use rule='noise-aware'"
        )
    if rule == "auto":
        return "combine" if separate and unbiased else "noise-aware"
    return rule


def quantile(p: float, df: Floats) -> Floats:
    """Quantiles of Student's t, normal where ν is infinite."""
    finite = np.isfinite(df)
    return np.asarray(np.where(finite, scipy.special.stdtrit(np.where(finite, df, 1.0), p), scipy.special.ndtri(p)))


def check_level(level: float) -> float:
    """Refuse what is no confidence level."""
    if not 0 < level < 1:
        raise UsageError(f"level is {level}, expected a share between 0 and 1, such as 0.95")
    return level


def show(value: float) -> str:
    """A number with four significant digits, or all those before the point.

    >>> show(0.0123456), show(43210.9)
    ('0.01235', '43,211')
    """
    return "–" if np.isnan(value) else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"


def show_p(value: float) -> str:
    """A p-value as a person reads it."""
    return "–" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def as_text(table: Table) -> str:
    """A report's table in plain text: the first column to the left, the others to the right."""
    lines = [table.columns, *(tuple(str(v) for v in row) for row in table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    aligned = [
        "  ".join(f"{v:{'>' if i else '<'}{w}}" for i, (v, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in (*aligned, table.note) if line)


def _lines(values: ArrayLike, what: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise UsageError(f"{what} must be one number per set, or one line per set, got shape {array.shape}")
    return array[:, None] if array.ndim == 1 else array


def recurrence_notes(release: Release) -> tuple[str, ...]:
    """What readers have to know where one unit has several rows: the release does not tell which."""
    unit = release.model.schema.unit if release.models else release.schema.unit
    if unit.column is None or (unit.max_rows == 1 and unit.per is None):
        return ()
    if release.schema.linked is not None:
        return (
            f"Rows of one {unit.column} are taken as independent; where they are alike, intervals are too short: "
            f"cluster={unit.column} counts them together.",
        )
    return (
        f"Rows of one {unit.column} are taken as independent, because the release does not tell which belong together; where "
        "they are alike, intervals are too short.",
    )


def weighting_notes(release: Release | None, weights: str | None) -> tuple[str, ...]:
    """What readers have to know where a release has a survey weight and the rows were not weighted by it."""
    own = None if release is None else release.schema.weight
    if own is None or weights is not None:
        return ()
    return (f"Not weighted: every row counts once. weights='{own}' weighs rows as the survey does.",)
