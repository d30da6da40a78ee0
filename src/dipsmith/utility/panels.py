"""The comparison panels of the Duke studies, as numbers: joint proportions, p-slopes, correlations, logistic effects.

Balmat et al. (Duke University Synthetic Data Project, 2018) judge synthetic personnel records by four panels:
(a) bars of joint proportions, (b) joint proportions of authentic against synthetic rows, (c) p-slopes
P(y | x) − P(y | not x) of all pairs of level indicators, (d) their correlations,
r = slope · √(p_x(1 − p_x) / (p_y(1 − p_y))); and by the coefficients of a logistic model of one private label on
agency and occupation. All are drawn with authentic values on the x-axis, synthetic ones on the y-axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats
from dipsmith.schema import Attribute, Codes
from dipsmith.utility.crosstabs import Crosstab, Crosstabs
from dipsmith.utility.logistic import Indicators, Logistic, fit_logistic
from dipsmith.utility.pair import Pair, group_of

MOST_JOINT = 24
"""Levels that a combination of target columns may have in panels (a) and (b)."""
MOST_LEVELS = 60
"""Levels that a predictor of the logistic panel may have."""
FEWEST = 20
"""Levels with fewer rows than this in either table are left out of panels (c) and (d): their slopes are noise."""
OTHERS = "other columns"
"""The group of points that belong to no column that is told apart."""
MOST_POINTS = 40_000
"""Panels (c) and (d) stop at the table that reaches this many points."""


@dataclass(frozen=True, eq=False)
class Points:
    """Named quantities with their authentic and synthetic value, and standard errors where there are any.

    `groups` names for each point the column that tells it apart from others; empty where all are of one kind.
    """

    labels: tuple[str, ...]
    authentic: Floats
    synthetic: Floats
    authentic_se: Floats | None = None
    synthetic_se: Floats | None = None
    groups: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def correlation(self) -> float:
        """Pearson's correlation of the two values over all points."""
        if len(self) < 2 or self.authentic.std() == 0 or self.synthetic.std() == 0:
            return float("nan")
        return float(np.corrcoef(self.authentic, self.synthetic)[0, 1])

    @property
    def slope(self) -> float:
        """Least-squares slope of synthetic on authentic: below 1 where effects are attenuated."""
        if len(self) < 2 or self.authentic.std() == 0:
            return float("nan")
        return float(np.polyfit(self.authentic, self.synthetic, 1)[0])

    @property
    def rmse(self) -> float:
        """Root mean squared difference."""
        return float(np.sqrt(np.mean((self.authentic - self.synthetic) ** 2))) if len(self) else float("nan")

    def by_group(self) -> list[tuple[str, Points]]:
        """The points of each group, by the name of the group; all of them where there are no groups."""
        found = []
        for name in sorted(set(self.groups), key=lambda g: (g == OTHERS, g)):
            here = np.array([g == name for g in self.groups])
            labels = tuple(label for label, mine in zip(self.labels, here, strict=True) if mine)
            left, right = (None if se is None else se[here] for se in (self.authentic_se, self.synthetic_se))
            found.append((name, Points(labels, self.authentic[here], self.synthetic[here], left, right)))
        return found or [("", self)]

    def top(self, n: int) -> Points:
        """The n points with the largest authentic value, in that order."""
        order = np.argsort(-self.authentic, kind="stable")[:n]
        return Points(tuple(self.labels[i] for i in order), self.authentic[order], self.synthetic[order])


def targets_of(pair: Pair) -> tuple[str, ...]:
    """The columns that panels (a) and (b) are about: the synthesised ones, as many as can be crossed legibly."""
    ordered = [n for n in pair.changed if 2 <= pair.schema[n].size <= 12]
    if not pair.given:
        ordered.sort(key=lambda n: pair.schema[n].size)
    chosen: list[str] = []
    for name in ordered:
        if len(chosen) < 2 and prod(pair.schema[n].size for n in (*chosen, name)) <= MOST_JOINT:
            chosen.append(name)
    return tuple(n for n in pair.names if n in chosen)


def bar_columns(pair: Pair, third: str | None = None) -> tuple[str, ...]:
    """The columns of panel (a): the targets, and a third column, the longest list unless it was named."""
    targets = targets_of(pair)
    third = third or (_third(pair, targets) if targets else None)
    return _in_order(pair, (*targets, third) if third else targets)


def joint_bars(crosstabs: Crosstabs, third: str | None = None) -> Points:
    """(a): joint proportions of the targets and a third column."""
    names = bar_columns(crosstabs.pair, third)
    table = crosstabs[names] if names else None
    return _join([]) if table is None or table.shape is None else _points(crosstabs, table)


def joint_proportions(crosstabs: Crosstabs) -> Points:
    """(b): joint proportions of the targets with every other column."""
    targets = targets_of(crosstabs.pair)
    others = [n for n in crosstabs.pair.names if n not in targets]
    wanted = [_in_order(crosstabs.pair, (*targets, n)) for n in others] if targets else []
    tables = [t for t in (crosstabs[names] for names in wanted) if t.shape is not None]
    return _join([_points(crosstabs, t) for t in tables])


def p_slopes(crosstabs: Crosstabs) -> Points:
    """(c): P(y | x) − P(y | not x) for all ordered pairs of level indicators of two columns."""
    return _level_pairs(crosstabs, slopes, both_ways=True)


def correlations(crosstabs: Crosstabs) -> Points:
    """(d): the correlations of all pairs of level indicators of two columns."""
    return _level_pairs(crosstabs, level_correlations, both_ways=False)


def slopes(table: NDArray[np.integer]) -> Floats:
    """P(column level | row level) − P(column level | another row level).

    >>> slopes(np.array([[30, 10], [10, 50]]))[0, 0].round(4)
    np.float64(0.5833)
    """
    t = table.astype(np.float64)
    rows, columns, n = t.sum(axis=1, keepdims=True), t.sum(axis=0, keepdims=True), t.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(t / rows - (columns - t) / (n - rows))


def level_correlations(table: NDArray[np.integer]) -> Floats:
    """The correlation of every row level's indicator with every column level's."""
    t = table.astype(np.float64)
    rows, columns, n = t.sum(axis=1, keepdims=True), t.sum(axis=0, keepdims=True), t.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((n * t - rows * columns) / np.sqrt(rows * (n - rows) * columns * (n - columns)))


@dataclass(frozen=True, eq=False)
class LogisticPanel:
    """Coefficients of a logistic model in both tables, against the most frequent level of each predictor."""

    target: str
    level: str
    predictors: tuple[str, ...]
    references: tuple[str, ...]
    points: Points


def logistic_panel(pair: Pair, predictors: Sequence[str] = ()) -> LogisticPanel | None:
    """Fit P(target = level) in both tables on these columns, or the two largest lists; None without a binary target."""
    schema = pair.schema
    binary = [n for n in pair.changed if schema[n].size == 2]
    others = [n for n in (pair.given or pair.names) if n not in binary[:1]]
    lists = [n for n in others if not schema[n].domain.ordered and 2 < schema[n].size <= MOST_LEVELS]
    if not binary or not lists:
        return None
    target = schema[binary[0]]
    predictors = tuple(predictors) or tuple(sorted(lists, key=lambda n: -schema[n].size)[:2])
    fits = [_effects(side, target, predictors) for side in (pair.authentic, pair.synthetic)]
    references = [int(np.bincount(pair.authentic[n], minlength=schema[n].size).argmax()) for n in predictors]
    labels, told, columns = list[str](), list[str](), []
    for i, name in enumerate(predictors):
        contrasts = [model.contrast(design, i, references[i]) for model, design, _ in fits]
        present = (fits[0][2][i] >= 5) & (fits[1][2][i] >= 5)
        present[references[i]] = False
        labels += [f"{name} = {schema[name].labels[j]}" for j in np.flatnonzero(present)]
        told += [name] * int(present.sum())
        columns.append(np.stack([part[present] for contrast in contrasts for part in contrast]))
    authentic, authentic_se, synthetic, synthetic_se = np.concatenate(columns, axis=1)
    known = (authentic_se < 10) & (synthetic_se < 10)
    kept = tuple(label for label, fine in zip(labels, known, strict=True) if fine)
    groups = tuple(name for name, fine in zip(told, known, strict=True) if fine)
    return LogisticPanel(
        target.name,
        target.labels[0],
        predictors,
        tuple(schema[n].labels[r] for n, r in zip(predictors, references, strict=True)),
        Points(kept, authentic[known], synthetic[known], authentic_se[known], synthetic_se[known], groups),
    )


def _effects(codes: Codes, target: Attribute, predictors: Sequence[str]) -> tuple[Logistic, Indicators, list[Floats]]:
    number, first = group_of(codes, predictors)
    total = np.bincount(number, minlength=len(first))
    ones = np.bincount(number[codes[target.name] == 0], minlength=len(first))
    design = Indicators.of(codes.take(first), [(n,) for n in predictors])
    rarer = [
        np.minimum(np.bincount(b.index, ones, b.size), np.bincount(b.index, total - ones, b.size))
        for b in design.columns
    ]
    return fit_logistic(design, ones, total), design, rarer


def _third(pair: Pair, targets: tuple[str, ...]) -> str | None:
    """The list of categories with the most levels that can still be drawn."""
    free = [n for n in pair.names if n not in targets and 2 <= pair.schema[n].size <= MOST_LEVELS]
    lists = [n for n in free if not pair.schema[n].domain.ordered] or free
    return max(lists, key=lambda n: pair.schema[n].size, default=None)


def _in_order(pair: Pair, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(n for n in pair.names if n in set(names))


def _points(crosstabs: Crosstabs, table: Crosstab) -> Points:
    assert table.shape is not None
    authentic, synthetic = table.proportions()
    at = np.flatnonzero((authentic > 0) | (synthetic > 0))
    targets = targets_of(crosstabs.pair)
    levels = []
    for name, codes in zip(table.names, np.unravel_index(at, table.shape), strict=True):
        # Which column a label belongs to is said where it is not one of those that every category has.
        start = "" if name in targets else f"{name} "
        labels = crosstabs.pair.schema[name].labels
        levels.append([start + labels[c] for c in codes])
    return Points(tuple(" · ".join(row) for row in zip(*levels, strict=True)), authentic[at], synthetic[at])


def _level_pairs(crosstabs: Crosstabs, of: Callable[[NDArray[np.integer]], Floats], *, both_ways: bool) -> Points:
    """A quantity of row and column levels, for all pairs of columns (and, both ways, with x and y exchanged)."""
    found: list[Points] = []
    marked = longest_lists(crosstabs.pair)
    for table in crosstabs.dense(2):
        if sum(map(len, found)) >= MOST_POINTS:
            break
        first, second = (crosstabs.pair.schema[n] for n in table.names)
        named = [n for n in table.names if n in marked]
        group = named[0] if len(named) == 1 else OTHERS
        frequent = np.ones_like(table.sides[0], dtype=bool)
        for side in table.sides:
            frequent &= (side.sum(axis=1) >= FEWEST)[:, None] & (side.sum(axis=0) >= FEWEST)[None, :]
        if both_ways:
            found.append(_indicators(second, first, [of(side).T for side in table.sides], frequent.T, group))
        found.append(_indicators(first, second, [of(side.T).T for side in table.sides], frequent, group))
    return _join(found)


def longest_lists(pair: Pair) -> tuple[str, ...]:
    """The two longest lists of categories besides the targets, such as agency and occupation."""
    schema, targets = pair.schema, targets_of(pair)
    lists = [n for n in pair.names if n not in targets and not schema[n].domain.ordered and schema[n].size > 2]
    return _in_order(pair, sorted(lists, key=lambda n: -schema[n].size)[:2])


def _indicators(y: Attribute, x: Attribute, values: Sequence[Floats], frequent: Bools, group: str) -> Points:
    """Matrices of y's levels × x's levels as points; of a column with two levels one says all."""
    kept = frequent & np.isfinite(values[0]) & np.isfinite(values[1])
    if y.size == 2:
        kept[1:] = False
    if x.size == 2:
        kept[:, 1:] = False
    labels = tuple(f"{y.name} = {y.labels[i]} by {x.name} = {x.labels[j]}" for i, j in np.argwhere(kept))
    return Points(labels, values[0][kept], values[1][kept], groups=(group,) * len(labels))


def _join(parts: Sequence[Points]) -> Points:
    labels = tuple(label for part in parts for label in part.labels)
    authentic, synthetic = ([getattr(p, side) for p in parts] for side in ("authentic", "synthetic"))
    left, right = (np.concatenate([np.zeros(0), *side]) for side in (authentic, synthetic))
    return Points(labels, left, right, groups=tuple(g for part in parts for g in part.groups))
