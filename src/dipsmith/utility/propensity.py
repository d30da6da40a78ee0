"""Propensity scores: how well a classifier tells synthetic rows from authentic ones, and what chance would do.

Pool both tables, let a classifier estimate for each row the probability that it is synthetic, and compare
the scores of the two groups. What is computed from the scores is in `specks`, `pmse` and `binned_scores`.

No such score is 0 for perfect data: a classifier fitted to the rows it scores finds differences in any two
samples. So every score comes with its null distribution, by *relabelling* (which rows are called synthetic
is drawn anew: two independent samples of one population) or by *resampling* (the synthetic table is drawn
from the authentic rows: the null of Snoke et al. 2018, about half as large). Where the release holds public
columns as they stand, rows are relabelled and resampled among those with the same public columns, because
those columns cannot differ.

Cross-fitting scores each row by a classifier that was fitted to the other half. Rows with the same public
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
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.schema import Codes
from dipsmith.utility.classifiers import (
    LOGISTIC,
    classifier_of,
    fitted,
    gives_probabilities,
    matrix,
    scores_of,
)
from dipsmith.utility.logistic import NEWTON, RIDGE, Indicators, fit_logistic
from dipsmith.utility.pair import Pair, group_of

ROWS = 100_000
"""Classifiers other than logistic main effects see at most this many rows of each table."""
NULL_ROWS = 100_000
"""The null of logistic main effects is simulated on at most this many rows of each table, and scaled by √n."""
INTERACTION_RIDGE = 1.0

NullKind = Literal["relabelled", "resampled"]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of rows (or of distinct rows), and how many authentic and synthetic rows have each."""

    scores: Floats
    authentic: Floats
    synthetic: Floats

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The rows from the smallest score to the largest."""
        return np.argsort(self.scores, kind="stable")


@dataclass(frozen=True, eq=False)
class Propensity:
    """The scores of a pair, and the scores that chance gives.

    Attributes
    ----------
    classifier
        Its name.
    scored
        The scores.
    crossfitted
        Whether each row was scored by a classifier that had not seen it.
    probabilities
        Whether scores are probabilities of being synthetic.
    parameters
        For logistic models: how many parameters the comparison has, intercept included.
    null
        Scores under the null hypothesis, one for each draw.
    null_kind
        "relabelled" or "resampled".
    null_scale
        What distances of the null draws are multiplied by, where they were made with fewer rows.
    rows
        Rows of each table that were scored.
    """

    classifier: str
    scored: Scored
    crossfitted: bool
    probabilities: bool
    parameters: int | None
    null: tuple[Scored, ...]
    null_kind: NullKind
    null_scale: float
    rows: tuple[int, int]


def propensity(
    pair: Pair,
    classifier: Any = "logistic",
    *,
    crossfit: bool | None = None,
    null: NullKind = "relabelled",
    draws: int = 50,
    rows: int = ROWS,
    seed: int = 0,
) -> Propensity:
    """Score the rows of a pair.

    Parameters
    ----------
    pair
        The tables.
    classifier
        "logistic" (main effects), "interactions" (and all products of two columns), "cart", "forest",
        "svm", "boosting", or any scikit-learn classifier (it is given level indicators).
    crossfit
        Score each row by the classifier fitted to the other half. Default: all but "logistic".
    null
        "relabelled" or "resampled"; resampling needs refitting, so it goes with ``crossfit=False``.
    draws
        How many draws of the null; 0 for none.
    rows
        Rows of each table to use at most; logistic main effects use all.
    seed
        For sampling, folds and null draws.

    Privacy
    -------
    Exact function of private rows: confidential.
    """
    name = classifier if isinstance(classifier, str) else type(classifier).__name__
    crossfit = (name != "logistic") if crossfit is None else crossfit
    if crossfit and null == "resampled":
        raise UsageError("a resampled null needs refitting; use crossfit=False, or null='relabelled'")
    rng = np.random.default_rng(seed)
    if name == "logistic" and not crossfit:
        return _main_effects(pair, null, draws, rng)
    pair = pair.sampled(rows, rng)
    fitter = _fitter(classifier, Codes.concatenate([pair.authentic, pair.synthetic]), pair.given, seed)
    stacked = _Stacked.of(pair)
    if crossfit:
        fold = stacked.folds(rng)
        scores = fitter.crossfitted(stacked.synthetic, fold)
        found = [
            _scored(scores[half], flags[half]) for half, flags in stacked.half_relabelled(rng, fold, draws)
        ]
    else:
        scores = fitter.fitted(stacked.synthetic)
        found = []
        for _ in range(draws):
            if null == "relabelled":
                flags = stacked.relabelled(rng)
                found.append(_scored(fitter.fitted(flags), flags))
            else:
                again, flags = stacked.resampled(rng)
                found.append(_scored(fitter.fitted(flags, again), flags))
    return Propensity(
        fitter.name,
        _scored(scores, stacked.synthetic),
        crossfit,
        fitter.probabilities,
        fitter.parameters(pair, stacked) if not crossfit else None,
        tuple(found),
        null,
        1.0,
        (len(pair.authentic), len(pair.synthetic)),
    )


def _scored(scores: Floats, synthetic: Flags) -> Scored:
    return Scored(scores, (~synthetic).astype(np.float64), synthetic.astype(np.float64))


# Rows of both tables, one after the other ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Stacked:
    """Which rows are synthetic, and which share their given columns."""

    synthetic: Flags
    stratum: NDArray[np.int64] | None

    @classmethod
    def of(cls, pair: Pair) -> _Stacked:
        flags = np.repeat([False, True], [len(pair.authentic), len(pair.synthetic)])
        return cls(flags, None if pair.strata is None else np.concatenate(pair.strata))

    def folds(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Two halves, rows of one stratum together, otherwise balanced within each table."""
        if self.stratum is not None:
            return rng.integers(0, 2, int(self.stratum.max(initial=0)) + 1)[self.stratum]
        fold = np.empty(len(self.synthetic), dtype=np.int64)
        for flag in (False, True):
            at = np.flatnonzero(self.synthetic == flag)
            fold[rng.permutation(at)] = np.arange(len(at)) % 2
        return fold

    def half_relabelled(
        self, rng: np.random.Generator, fold: NDArray[np.int64], draws: int
    ) -> Iterator[tuple[Flags, Flags]]:
        """Draw anew which rows are called synthetic within one half, the first and the second by turns."""
        for draw in range(draws):
            yield fold == draw % 2, self.relabelled(rng, fold)

    def relabelled(self, rng: np.random.Generator, fold: NDArray[np.int64] | None = None) -> Flags:
        """Draw anew which rows are called synthetic, within strata (and folds)."""
        within = self.stratum if self.stratum is not None else fold
        if within is None:
            return rng.permutation(self.synthetic)
        # One sort of number + fraction puts rows in random order within each stratum.
        flags = np.empty_like(self.synthetic)
        flags[np.argsort(within + rng.random(len(within)))] = self.synthetic[
            np.argsort(within, kind="stable")
        ]
        return flags

    def resampled(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Flags]:
        """Authentic rows, and in place of the synthetic ones authentic rows drawn with replacement."""
        authentic = np.flatnonzero(~self.synthetic)
        synthetic = np.flatnonzero(self.synthetic)
        if self.stratum is None:
            drawn = rng.choice(authentic, len(synthetic))
        else:
            sizes = np.bincount(self.stratum[authentic])
            ordered = authentic[np.argsort(self.stratum[authentic], kind="stable")]
            starts = np.cumsum(sizes) - sizes
            at = self.stratum[synthetic]
            drawn = ordered[starts[at] + (rng.random(len(synthetic)) * sizes[at]).astype(np.int64)]
        return np.concatenate([authentic, drawn]), self.synthetic


# Classifiers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Fitter:
    """Fits a classifier to rows and labels, and scores rows."""

    name: str
    probabilities: bool
    fit: Callable[[Any, Flags], Callable[[Any], Floats]]
    rows: Any
    take: Callable[[Any, NDArray[np.int64] | Flags], Any]

    def fitted(self, synthetic: Flags, index: NDArray[np.int64] | None = None) -> Floats:
        """Scores of the rows that the classifier was fitted to."""
        rows = self.rows if index is None else self.take(self.rows, index)
        return self.fit(rows, synthetic)(rows)

    def crossfitted(self, synthetic: Flags, fold: NDArray[np.int64]) -> Floats:
        """Scores of the rows of each half by the classifier fitted to the other."""
        scores = np.full(len(synthetic), synthetic.mean() if len(synthetic) else 0.0)
        for half in (0, 1):
            train, test = fold != half, fold == half
            if test.any() and len(np.unique(synthetic[train])) == 2:
                scores[test] = self.fit(self.take(self.rows, train), synthetic[train])(
                    self.take(self.rows, test)
                )
        return scores

    def parameters(self, pair: Pair, stacked: _Stacked) -> int | None:
        """How many parameters the comparison has, for logistic models."""
        if self.name not in LOGISTIC or self.rows.width > NEWTON:
            return None
        return _parameters(self.rows, pair.given, np.ones(len(stacked.synthetic)))


def _fitter(given: Any, codes: Codes, fixed: tuple[str, ...], seed: int) -> _Fitter:
    if isinstance(given, str) and given in LOGISTIC:
        ridge = RIDGE if given == "logistic" else INTERACTION_RIDGE
        design = Indicators.of(codes, _groups(codes.names, fixed, given))

        def fit_effects(rows: Indicators, flags: Flags) -> Callable[[Indicators], Floats]:
            model = fit_logistic(rows, flags.astype(np.float64), np.ones(len(flags)), ridge)
            return lambda other: np.asarray(1 / (1 + np.exp(-other.times(model.b))))

        return _Fitter(given, True, fit_effects, design, lambda rows, index: rows.take(index))
    name, model, features = classifier_of(given, codes, seed)

    def fit(rows: Any, flags: Flags) -> Callable[[Any], Floats]:
        learned = fitted(model, rows, flags.astype(np.int64))
        return lambda other: scores_of(learned, other)

    return _Fitter(
        name, gives_probabilities(model), fit, matrix(codes, features), lambda rows, index: rows[index]
    )


def _groups(names: tuple[str, ...], given: tuple[str, ...], classifier: str) -> list[tuple[str, ...]]:
    """The blocks of a logistic model; products of given columns only are left out, they cannot differ."""
    groups: list[tuple[str, ...]] = [(n,) for n in names]
    if classifier == "interactions":
        groups += [p for p in combinations(names, 2) if not set(p) <= set(given)]
    return groups


def _parameters(design: Indicators, given: tuple[str, ...], weights: Floats) -> int:
    """Parameters that can differ between the tables: with given columns, those beyond what these span."""
    whole, fixed = design.rank(weights), design.within(given)
    return 1 + whole - fixed.rank(weights) if fixed.columns else whole


# Logistic main effects on all rows, grouped ------------------------------------------------------------------------


def _main_effects(pair: Pair, null: NullKind, draws: int, rng: np.random.Generator) -> Propensity:
    both = Codes.concatenate([pair.authentic, pair.synthetic])
    number, first = group_of(both, pair.names)
    kinds = both.take(first)
    synthetic = np.bincount(number[len(pair.authentic) :], minlength=len(first)).astype(np.float64)
    total = np.bincount(number, minlength=len(first)).astype(np.float64)
    design = Indicators.of(kinds, [(n,) for n in pair.names])
    model = fit_logistic(design, synthetic, total)
    scores = 1 / (1 + np.exp(-design.times(model.b)))
    small = pair.sampled(NULL_ROWS, rng)
    sizes = [(len(p.authentic), len(p.synthetic)) for p in (pair, small)]
    spread = [1 / max(1, a) + 1 / max(1, s) for a, s in sizes]
    return Propensity(
        "logistic",
        Scored(scores, total - synthetic, synthetic),
        False,
        True,
        _parameters(design, pair.given, total),
        tuple(_one_step(small, null, draws, rng)) if draws else (),
        null,
        float(np.sqrt(spread[0] / spread[1])),
        sizes[0],
    )


def _one_step(pair: Pair, null: NullKind, draws: int, rng: np.random.Generator) -> Iterator[Scored]:
    """Null draws by one Newton step from equal scores, which under the null is as good as the whole way."""
    both = Codes.concatenate([pair.authentic, pair.synthetic])
    number, first = group_of(both, pair.names)
    design = Indicators.of(both.take(first), [(n,) for n in pair.names])
    stacked = _Stacked.of(pair)
    c = pair.share
    factor = None
    for _ in range(draws):
        if null == "relabelled":
            flags, groups = stacked.relabelled(rng), number
        else:
            index, flags = stacked.resampled(rng)
            groups = number[index]
        total = np.bincount(groups, minlength=len(first)).astype(np.float64)
        synthetic = np.bincount(groups[flags], minlength=len(first)).astype(np.float64)
        if factor is None or null == "resampled":
            normal = design.gram(total * (c * (1 - c)))
            factor = scipy.linalg.cho_factor(normal + RIDGE * np.eye(len(normal)))
        step = scipy.linalg.cho_solve(factor, design.score(synthetic - c * total))
        yield Scored(c + c * (1 - c) * design.times(step), total - synthetic, synthetic)
