"""Propensity scores: how well a classifier tells synthetic rows from authentic ones, and what chance would do.

Pool both tables, let a classifier estimate for each row the probability that it is synthetic, and compare
the scores of the two groups. What is computed from the scores is in `telling_apart`.

No such score is 0 for perfect data: a classifier fitted to the rows it scores finds differences in any two
samples. So every score comes with its null distribution by *relabelling*: which rows are called synthetic is drawn
anew, as for two independent samples of one population. Where the release holds public columns as they stand, rows are
relabelled among those with the same public columns, because those columns cannot differ.

Logistic main effects score the rows that they were fitted to. All other classifiers are cross-fitted: each row is
scored by a classifier that was fitted to the other half. Rows with the same public
columns stay in one half: otherwise a row would be recognised by its twin. Then only a real difference can
be found, and relabelling needs no refitting. The two halves' distances are not independent, though: where the
halves happen to deviate alike, each predicts the other. Chance is therefore that of one half alone, which is
exact when the halves agree and errs on the safe side otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import expit

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.schema import Codes
from dipsmith.utility.classifiers import classifier_of, fit_copy, matrix, scores_of
from dipsmith.utility.logistic import RIDGE, Indicators, fit_logistic, rank
from dipsmith.utility.pair import Pair, group_of

ROWS = 100_000
"""Classifiers other than logistic main effects see at most this many rows of each table."""
NULL_ROWS = 100_000
"""The null of logistic main effects is simulated on at most this many rows of each table, and scaled by √n."""
INTERACTION_RIDGE = 1.0
MOST_PRODUCTS = 120
"""Products of two columns that the interactions see: all of 16 columns, of more columns a random choice."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of rows (or of distinct rows), and how many authentic and synthetic rows have each."""

    scores: Floats
    authentic: Floats
    synthetic: Floats

    @cached_property
    def order(self) -> Ints:
        """The rows from the smallest score to the largest."""
        return np.argsort(self.scores, kind="stable")


@dataclass(frozen=True, eq=False)
class Propensity:
    """The scores of a pair, and the scores that chance gives.

    `crossfitted`: each row was scored by a classifier that had not seen it. `parameters`, for logistic main effects: how many
    the comparison has, intercept included. `null` has the scores of each draw of the null hypothesis; where those were made
    with fewer rows, their distances are multiplied by `null_scale`.
    """

    classifier: str
    scored: Scored
    crossfitted: bool
    parameters: int | None
    null: tuple[Scored, ...]
    null_scale: float


def propensity(
    pair: Pair, classifier: Any = "logistic", *, draws: int = 50, rows: int = ROWS, seed: int = 0
) -> Propensity:
    """Score the rows of a pair, at most so many of each table (logistic main effects: all), with so many draws of the null.

    Classifiers are "logistic" (main effects), "interactions" (and products of two columns, at most 120), "cart", "forest", "svm",
    "boosting", or any scikit-learn classifier, which is given level indicators.

    Privacy
    -------
    Exact function of private rows: confidential.
    """
    rng = np.random.default_rng(seed)
    if isinstance(classifier, str) and classifier == "logistic":
        return _main_effects(pair, draws, rng)
    pair = pair.sample(rows, rng)
    name, data, fit, take = _learner(classifier, pair, seed)
    stacked = _Stacked.of(pair)
    fold = stacked.folds(rng)
    synthetic = stacked.synthetic
    scores = np.full(len(synthetic), synthetic.mean() if len(synthetic) else 0.0)
    for half in (0, 1):
        train, test = fold != half, fold == half
        if test.any() and len(np.unique(synthetic[train])) == 2:
            scores[test] = fit(take(data, train), synthetic[train])(take(data, test))
    # Rows are relabelled within one half, the first and the second by turns.
    halves = (fold == draw % 2 for draw in range(draws))
    null = [_scores(scores[half], stacked.relabel(rng, fold)[half]) for half in halves]
    return Propensity(name, _scores(scores, synthetic), True, None, tuple(null), 1.0)


def _scores(scores: Floats, synthetic: Bools) -> Scored:
    return Scored(scores, (~synthetic).astype(np.float64), synthetic.astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Stacked:
    """The rows of both tables, one after the other: which are synthetic, and which share their given columns."""

    synthetic: Bools
    stratum: Ints | None

    @classmethod
    def of(cls, pair: Pair) -> _Stacked:
        flags = np.repeat([False, True], [len(pair.authentic), len(pair.synthetic)])
        return cls(flags, None if pair.strata is None else np.concatenate(pair.strata))

    def folds(self, rng: np.random.Generator) -> Ints:
        """Two halves, rows of one stratum together, otherwise balanced within each table."""
        if self.stratum is not None:
            return rng.integers(0, 2, int(self.stratum.max(initial=0)) + 1)[self.stratum]
        fold = np.empty(len(self.synthetic), dtype=np.int64)
        for flag in (False, True):
            at = np.flatnonzero(self.synthetic == flag)
            fold[rng.permutation(at)] = np.arange(len(at)) % 2
        return fold

    def relabel(self, rng: np.random.Generator, fold: Ints | None = None) -> Bools:
        """Draw anew which rows are called synthetic, within strata (and folds)."""
        within = self.stratum if self.stratum is not None else fold
        if within is None:
            return rng.permutation(self.synthetic)
        # One sort of number + fraction puts rows in random order within each stratum.
        flags = np.empty_like(self.synthetic)
        shuffled = np.argsort(within + rng.random(len(within)))
        flags[shuffled] = self.synthetic[np.argsort(within, kind="stable")]
        return flags


def _learner(given: Any, pair: Pair, seed: int) -> tuple[str, Any, Callable[..., Any], Callable[..., Any]]:
    """A classifier: its name, the rows as it reads them, how it is fitted, and how rows are taken.

    Fitting to rows and flags gives a function that scores rows.
    """
    codes = Codes.concatenate([pair.authentic, pair.synthetic])
    if isinstance(given, str) and given == "interactions":
        # products of given columns only are left out, they cannot differ
        products = [p for p in combinations(codes.names, 2) if not set(p) <= set(pair.given)]
        if len(products) > MOST_PRODUCTS:
            chosen = np.random.default_rng(seed).choice(len(products), MOST_PRODUCTS, replace=False)
            products = [products[i] for i in np.sort(chosen)]
        design = Indicators.of(codes, [*((n,) for n in codes.names), *products])

        def fit_effects(rows: Indicators, flags: Bools) -> Callable[[Indicators], Floats]:
            model = fit_logistic(rows, flags.astype(np.float64), np.ones(len(flags)), INTERACTION_RIDGE)
            return lambda other: np.asarray(expit(other.times(model.b)))

        return given, design, fit_effects, Indicators.take
    name, model, features = classifier_of(given, codes, seed)

    def fit(rows: Any, flags: Bools) -> Callable[[Any], Floats]:
        learned = fit_copy(model, rows, flags.astype(np.int64))
        return lambda other: scores_of(learned, other)

    return name, matrix(codes, features), fit, lambda rows, index: rows[index]


def _main_effects(pair: Pair, draws: int, rng: np.random.Generator) -> Propensity:
    """Logistic main effects on all rows, grouped by what they have in common."""
    number, design = _group(pair)
    total = np.bincount(number).astype(np.float64)
    synthetic = np.bincount(number[len(pair.authentic) :], minlength=len(total)).astype(np.float64)
    model = fit_logistic(design, synthetic, total, covariance=False)
    scores = expit(design.times(model.b))
    # Parameters that can differ between the tables: with given columns, those beyond what these span.
    fixed, normal = design.within(pair.given), design.gram(total)
    parameters = rank(normal) - (rank(fixed.gram(total)) - 1 if fixed.columns else 0)
    small = pair.sample(NULL_ROWS, rng)
    grouped = (number, design, normal) if small is pair else None
    spread = [1 / max(1, len(p.authentic)) + 1 / max(1, len(p.synthetic)) for p in (pair, small)]
    return Propensity(
        "logistic",
        Scored(scores, total - synthetic, synthetic),
        False,
        parameters,
        tuple(_one_step(small, draws, rng, grouped)) if draws else (),
        float(np.sqrt(spread[0] / spread[1])),
    )


def _one_step(
    pair: Pair, draws: int, rng: np.random.Generator, grouped: tuple[Ints, Indicators, Floats] | None
) -> Iterator[Scored]:
    """Null draws by one Newton step from equal scores, which under the null is as good as the whole way.

    `grouped`, where it is known: the number of every row's group, the effects of the groups, and their cross-tables.
    """
    number, design = grouped[:2] if grouped else _group(pair)
    total = np.bincount(number).astype(np.float64)
    stacked, c = _Stacked.of(pair), pair.share
    normal = (grouped[2] if grouped else design.gram(total)) * (c * (1 - c))
    factor = scipy.linalg.cho_factor(normal + RIDGE * np.eye(len(normal)))
    for _ in range(draws):
        synthetic = np.bincount(number[stacked.relabel(rng)], minlength=len(total)).astype(np.float64)
        step = scipy.linalg.cho_solve(factor, design.score(synthetic - c * total))
        yield Scored(c + c * (1 - c) * design.times(step), total - synthetic, synthetic)


def _group(pair: Pair) -> tuple[Ints, Indicators]:
    """The number of every row's combination of values, and the main effects of each combination."""
    both = Codes.concatenate([pair.authentic, pair.synthetic])
    number, first = group_of(both, pair.names)
    return number, Indicators.of(both.take(first), [(n,) for n in pair.names])
