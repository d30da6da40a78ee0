"""Bins in doubt: how far a coefficient may be off because a number is known by its bin alone.

A regression of raw values is asked for; of a number in bins only the bin of every row is known, and each bin is taken for its
middle. Where rows of a bin have another mean, coefficients move. By how much is found by placing values elsewhere and solving
the same equations again, column by column of numbers:

* every bin's mean at its upper end together (bins of unequal width do not shift alike);
* every bin's mean by chance on either side: twice the standard deviation, were each mean anywhere in its bin;
* what values that differ within a bin take off a slope: of a term, half of every bin's rows a standard deviation above its
  middle and half below; of a function of the response's column, the share ρ of its unexplained variance that lies within bins
  (of the response itself nothing: errors of a response move no slope unless they go with a term);
* where an end is open, the mean of its bin one whole range beyond the bound: what a tail as heavy as Pareto's with exponent
  2 has. An end bin that the noisy tables find empty moves nothing; with more than a hundredth of the rows it refuses.

The root of the sum of their squares is the doubt of a coefficient: nothing makes them all point one way. What the width of a
response's bins does is never more than the farthest that any values within them could move least squares. A doubt of more than one
standard error of any slope refuses the whole answer, with the column to ask the steward about; a smaller one is added to both
ends of the interval. A comparison that is true of a part of a bin (`I(hours == 0)` where a bin holds 0 to 3) is refused
before all this: nothing tells how many rows of the bin it is true of. A bin at an open end holds all that lies beyond it, so
that `I(pay > 200000)` is refused where that is beyond the bounds. Proof and limits: ``docs/proofs/inference.md``. Bins of
one value have no doubt; columns used as categories, or released as they stand, none either.

Privacy
-------
Reads noisy tables, synthetic rows and the schema: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.codec.encode import coder, encode_array
from dipsmith.estimation.answers import midpoints
from dipsmith.privacy.randomness import generator
from dipsmith.regression.arithmetic import evaluate
from dipsmith.regression.estimates import Estimates, Estimator
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.matrix import INTERCEPT
from dipsmith.regression.tables import columns_of
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.schema.bins import DAY
from dipsmith.schema.domain import OpenEnds
from dipsmith.schema.formula.tree import COMPARISONS, Number, Operation, nodes, spell

MOST_WITHIN = 1e100
"""Stands for no bound, and can be multiplied by 0."""

PLACEMENTS = 12
"""Placements by chance: the standard deviation that they show is known to a fifth."""

BELIEVED = 1.0
"""A doubt of at most so many standard errors is added to an interval; a larger one refuses it."""

CROWDED = 0.01
"""Of more than this share of rows in an open end bin nothing is believed: how far each lies beyond may go with any column."""

WITHIN = 33
"""Places within a bin at which a comparison is tried, besides the numbers that it is written with."""

FAR = 2.0 ** np.arange(-6, 40)
"""Places beyond an open end at which it is tried too, in ranges of the column."""

AMOUNTS = ("integer", "number")

Z95 = 1.959963984540054

Values = Mapping[str, Floats]
"""The number that every code of a column is taken for."""

Solver = Callable[..., Floats]
"""From values to coefficients; of several placements each holds for as large a part of every bin's rows."""


@dataclass(frozen=True)
class Refusal:
    """Why nothing is told, and what to ask the steward for."""

    reason: str
    ask: str


@dataclass(frozen=True, eq=False)
class BinnedNumber:
    """A column of numbers that is known in bins: their middles, half of their widths, and how far values may lie beyond open ends."""

    name: str
    middle: Floats
    half: Floats
    below: float
    above: float
    open: OpenEnds

    @classmethod
    def of(cls, attribute: Attribute) -> BinnedNumber | None:
        """None for a column that is no number, or of which every bin holds one value."""
        domain = attribute.domain
        if not isinstance(domain, Bins):
            return None
        unit = DAY if domain.scale == "datetime" else 1
        half = np.maximum(np.diff(domain.cuts) - domain.whole, 0.0) / 2 / unit
        if domain.open == "none" and not half.any():
            return None
        reach = (domain.maximum - domain.minimum) / unit
        # What is never below 0 as far as its bounds say does not lie below 0 beyond them either.
        below = min(reach, domain.minimum / unit) if domain.minimum > 0 and domain.scale in AMOUNTS else reach
        return cls(attribute.name, midpoints(domain) / unit, half, below, reach, domain.open)

    def doubt(
        self, solve: Solver, at_middles: Floats, counts: Floats, unexplained: float | None, *, response: bool = False
    ) -> ColumnDoubt:
        """How far each coefficient may be off because of this column, which may be the response itself.

        `counts` are rows by bin; `unexplained` is the share of the column's variance that the regression leaves.
        """

        def moved(*by: Floats) -> Floats:
            found = np.abs(solve(*({self.name: self.middle + one} for one in by)) - at_middles)
            return np.where(np.isnan(at_middles), 0.0, np.where(np.isnan(found), np.inf, found))

        width = tail = np.zeros(len(at_middles))
        shares = self._shares(counts)
        if self.half.any():
            random = generator(len(self.half))
            signs = random.choice([-1.0, 1.0], (PLACEMENTS, len(self.half)))
            sd = self.half / sqrt(3)
            spread = np.sqrt(np.mean([moved(s * sd) ** 2 for s in signs], axis=0))
            inside = moved(sd, -sd)
            if unexplained is not None and not response:
                between = float(shares @ (self.middle - shares @ self.middle) ** 2)
                within = min(float(shares @ self.half**2) / 3 / max(between * unexplained, 1e-300), MOST_WITHIN)
                inside = inside + within * np.nan_to_num(np.abs(at_middles))
            width = np.sqrt(moved(self.half) ** 2 + 4 * spread**2 + inside**2)
        for end, code, reach in (("low", 0, -self.below), ("high", -1, self.above)):
            if self.open in (end, "both"):
                beyond = np.zeros(len(self.half))
                beyond[code] = reach
                rows = counts[: len(self.half)]
                crowded = not rows.sum() > 0 or rows[code] > CROWDED * rows.sum()
                tail = np.full(len(at_middles), np.inf) if crowded else np.hypot(tail, moved(beyond))
        reach = sqrt(float(shares @ self.half**2)) if response else np.inf
        return ColumnDoubt(self.name, width, tail, reach)

    def _shares(self, counts: Floats) -> Floats:
        """The share of rows in each bin; the same in all where nothing is known."""
        rows = np.maximum(counts[: len(self.half)], 0.0)
        rows = rows if rows.sum() > 0 else np.ones(len(self.half))
        return np.asarray(rows / rows.sum())


@dataclass(frozen=True, eq=False)
class ColumnDoubt:
    """How far each coefficient may be off: by the width of a column's bins, and by values beyond its open ends.

    `reach` is half the width of a bin, the root of the mean square, of a response.
    """

    name: str
    width: Floats
    tail: Floats
    reach: float = np.inf

    def cap(self, leverage: Floats) -> ColumnDoubt:
        """At most what any values within bins do to least squares, where a response that is 1 on average moves by `leverage`."""
        return self if np.isinf(self.reach) else replace(self, width=np.minimum(self.width, self.reach * leverage))

    @property
    def whole(self) -> Floats:
        """Both together."""
        return np.hypot(self.width, self.tail)


def binned_numbers(formula: RegressionFormula, schema: Schema) -> tuple[BinnedNumber, ...]:
    """The columns that a formula uses as numbers and that are known in bins; public ones are released as they stand."""
    return numbers_among(number_names(formula), schema)


def raw_numbers(formula: RegressionFormula, schema: Schema) -> bool:
    """Whether a formula uses a public column as a number that differs within a bin."""
    names = [n for n in number_names(formula) if n in schema.public]
    return any(BinnedNumber.of(schema[n]) is not None for n in names)


def number_names(formula: RegressionFormula) -> list[str]:
    """The columns that a formula uses as numbers."""
    parts = [formula.response, *(factor for term in formula.terms for factor in term.factors)]
    return [n for n in columns_of(parts) if n not in formula.factors]


def numbers_among(names: Sequence[str], schema: Schema) -> tuple[BinnedNumber, ...]:
    """The columns among some that are numbers known in bins."""
    unseen = [n for n in names if n not in (schema.public if schema.neighbours == "label" else ())]
    return tuple(found for n in unseen if (found := BinnedNumber.of(schema[n])) is not None)


def cut_bin(formula: RegressionFormula, schema: Schema) -> Refusal | None:
    """Why a formula is not answered that tells values of one bin apart; None where comparisons and categories keep bins whole."""
    for number in numbers_among(
        [*dict.fromkeys((*formula.factors, *(n for names in formula.fixed for n in names)))], schema
    ):
        return Refusal(
            f"{number.name} is known in bins, and as a category each of its values would have an effect of its own",
            f"Use {number.name} as a number, or ask the steward for bins of one value",
        )
    parts = [formula.response, *(factor for term in formula.terms for factor in term.factors)]
    steps = [n for part in parts for n in nodes(part) if isinstance(n, Operation) and n.signs[0] in (*COMPARISONS, "%")]
    for step in steps:
        names = columns_of([step])
        for number in numbers_among([n for n in names if n not in formula.factors], schema):
            domain = schema[number.name].domain
            assert isinstance(domain, Bins)
            if len(names) > 1 or _tells_apart(step, number.name, domain):
                return Refusal(
                    f"{number.name} is known in bins, and {spell(step)} is true of a part of a bin",
                    f"Ask the steward for bins of {number.name} that end there, or compare where bins begin "
                    "(with >= or <; codebook.csv lists them)",
                )
    return None


def _tells_apart(step: Operation, name: str, domain: Bins) -> bool:
    """Whether an expression of one column has more than one value within some bin, an open one with all that lies beyond."""
    unit = DAY if domain.scale == "datetime" else 1
    written = np.array([n.value * unit for n in nodes(step) if isinstance(n, Number)])
    beyond = (domain.maximum - domain.minimum) * FAR
    for i, (low, after) in enumerate(pairwise(domain.cuts)):
        high = after - domain.whole if domain.whole else np.nextafter(after, low)
        least = -np.inf if i == 0 and domain.open in ("low", "both") else low
        most = np.inf if i == len(domain.cuts) - 2 and domain.open in ("high", "both") else high
        places = np.concatenate([np.linspace(low, high, WITHIN), low - beyond, high + beyond])
        places = np.round(places) if domain.whole else places
        places = np.unique(np.concatenate([places, written]))
        places = places[(places >= least) & (places <= most)]
        found = evaluate(step, {name: places / unit}, len(places))
        if (found != found[0]).any():
            return True
    return False


def widening(
    names: Sequence[str], errors: Floats, doubts: Sequence[ColumnDoubt]
) -> tuple[Floats, tuple[str, ...], Refusal | None]:
    """The factor by which every standard error grows, a note for the reader; or why the doubt is too large.

    The intercept alone does not refuse anything where there are slopes: it is told as far as it is known.
    """
    doubt = _together(doubts, len(names))
    told = np.isfinite(errors) & (errors > 0)
    ratio = np.divide(doubt, errors, out=np.zeros(len(names)), where=told)
    slopes = np.array([n.rsplit(": ", 1)[-1] != INTERCEPT for n in names], bool)
    judged = np.where(slopes, ratio, 0.0) if slopes.any() else ratio
    if len(judged) and judged.max() > BELIEVED:
        return np.ones(len(names)), (), _refusal(names, errors, doubts, int(judged.argmax()))
    if not (ratio > 0.005).any():
        return 1 + np.where(np.isfinite(ratio), ratio, 0.0) / Z95, (), None
    most = float(judged.max())
    note = f"Intervals are up to {most / Z95:.0%} wider for what bins and open ends of {_list_names(doubts)} may do to values."
    return np.where(np.isfinite(ratio), 1 + ratio / Z95, np.nan), (note,), None


def _list_names(doubts: Sequence[ColumnDoubt]) -> str:
    *first, last = (d.name for d in doubts)
    return f"{', '.join(first)} and {last}" if first else last


def _together(doubts: Sequence[ColumnDoubt], size: int) -> Floats:
    return np.asarray(np.sqrt(np.sum([np.zeros(size), *(d.whole**2 for d in doubts)], axis=0)))


def _refusal(names: Sequence[str], errors: Floats, doubts: Sequence[ColumnDoubt], at: int) -> Refusal:
    worst = max(doubts, key=lambda d: float(d.whole[at]))
    far = float(_together(doubts, len(names))[at])
    by = f"by {far:.2g}" if np.isfinite(far) else "by any amount"
    so = f"so that {names[at]} may be off {by} where its standard error is {errors[at]:.2g}"
    if worst.tail[at] > worst.width[at]:
        return Refusal(
            f"values of {worst.name} may lie beyond its bounds, which are open, {so}",
            f"Ask the steward to state the bounds of {worst.name} (minimum and maximum, without open)",
        )
    return Refusal(
        f"{worst.name} is known in bins, each taken for its middle, {so}",
        f"Ask the steward for finer bins of {worst.name}",
    )


def doubts_of_rows(
    numbers: Sequence[BinnedNumber], table: pa.Table, schema: Schema, estimate: Estimator, response: str | None
) -> tuple[ColumnDoubt, ...]:
    """The doubts of an analysis of rows, whose values were drawn within bins."""
    codes = {b.name: encode_array(table.column(b.name).combine_chunks(), coder(schema[b.name])) for b in numbers}

    def solve(*placements: Values) -> Floats:
        placed, row = table, np.arange(table.num_rows) % max(len(placements), 1)
        for b in numbers:
            each = [np.append(values.get(b.name, b.middle), np.nan) for values in placements or ({},)]
            chosen = np.array(each)[row, codes[b.name]]
            column = pa.array(chosen, mask=np.isnan(chosen))
            placed = placed.set_column(placed.column_names.index(b.name), b.name, column)
        return Estimates.of(estimate(placed), placed.num_rows).values

    middles = solve()
    counts = [np.bincount(codes[b.name], minlength=len(b.half)).astype(np.float64) for b in numbers]
    return tuple(
        b.doubt(solve, middles, n, 1.0, response=b.name == response) for b, n in zip(numbers, counts, strict=True)
    )
