"""Noise-aware intervals: what the noise did to an estimate, found by running the mechanism again.

One table sanitised with the whole budget carries less noise than the average of m tables with 1/m of it (by a factor
of m in variance), but nothing in it shows how much. The mechanism does. Run again on the synthetic rows, with fresh
noise (`dipsmith.inference.mechanism`), it gives tables that differ from the synthetic one as the synthetic one
differs from the authentic. With q* the estimates from R such tables,

    Var_noise = Var(q*),   T = ū + B/m + Var_noise,   bias = mean(q*) − q,

where B/m is drawing (m sets of one model; with one set drawing is part of Var(q*)). A method that shrinks, clips or
bins pulls estimates towards zero, and does so again on the synthetic rows, where it can be seen: the bias is taken
off unless told otherwise. A bias towards zero is taken to be attenuation by a factor a = mean(q*)/q, and the estimate
is divided by it (a between ½ and 1): an effect that came out at .8 of its size is seen to shrink to .64, and 1 is
reported. Any other bias is subtracted. What the method leaves out of its model altogether it leaves out once, and no
second run shows it.

A corrected estimate varies more: dividing by a divides the standard error of noise by a, and that of the correction's
own simulation, whose square, Var(q*)/R, is added. Degrees of freedom are Satterthwaite's, for ū with its residual
ones and for the simulated variance. Laplace noise has heavy tails (excess kurtosis κ = 3, less where many draws add
up), so that R runs know its variance less well than R − 1 normal values would, with 1/ν = 1/(R − 1) + κ/2R, and its
own 97.5 % point lies farther out than a normal one, by κ(z³ − 3z)/24 standard errors (Cornish and Fisher 1938). κ is
estimated from the runs, and ν pays for both.

At 1000 rows, ε = 0.1 and a proportion of .3, 95 % intervals have mean width .083, against .162 for five sets with ε/5
each, both with a coverage of .95 (``docs/tutorials/inference.md``).

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.inference.combine import Combined, Rule, average, check_level, combine
from dipsmith.inference.estimates import Estimates, Estimator, Float, join_notes, stack
from dipsmith.inference.mechanism import Mechanism
from dipsmith.methods.method import Method
from dipsmith.privacy.randomness import generator
from dipsmith.synthesis.release import Release

REPLICATES = 50
"""Runs by default: the standard error is then known to a tenth of itself."""

FEWEST = 10

FOUND = 0.8
"""Share of the runs in which an estimate must be found: a level may be missing from some tables."""

HEAVIEST = 6.0
"""Excess kurtosis is believed up to here: a Laplace variable has 3, its estimate from 50 runs may have twice that."""

FARTHER = 0.029
"""By how much one unit of κ raises 1/ν: (z³ − 3z)/24 over the (z³ + z)/4 that t adds for 1/ν, at z = 1.96."""

MOST_SHRUNK = 0.5
"""No estimate is more than doubled: what came out at less than half of its size cannot be told from noise."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Replication:
    """How a mechanism is run again.

    `replicates` times; `correct` takes off the bias that the runs show; `method` is for cards that cannot tell it,
    `seed` finds the same intervals again; `progress` is called with (stage, share done).
    """

    replicates: int = REPLICATES
    correct: bool = True
    method: Method | None = None
    seed: int | None = None
    progress: Progress | None = None


def noise_aware(
    release: Release,
    estimate: Estimator,
    *,
    replicates: int = REPLICATES,
    correct: bool = True,
    level: float = 0.95,
    method: Method | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Combined:
    """Estimate from a release, with intervals that know the noise.

    Parameters
    ----------
    release
        One set, sets drawn from one model, or sets that were sanitised separately.
    estimate
        From an Arrow table to `Estimates`, or to a pair of values and variances as if the table had been
        sampled.
    level
        Of the intervals.
    replicates, correct, method, seed, progress
        How the mechanism is run again: see `Replication`.

    Examples
    --------
    ::

        def mean_age(table):
            age = table["age"].to_numpy()
            return age.mean(), age.var() / len(age)

        noise_aware(release, mean_age)
    """
    check_level(level)
    each = tuple(Estimates.of(estimate(table), table.num_rows) for table in release.tables)
    how = Replication(replicates, correct, method, seed, progress)
    return combine_by("noise-aware", release, estimate, each, how, level=level)


def combine_by(
    rule: Rule,
    release: Release | None,
    estimate: Estimator,
    each: tuple[Estimates, ...],
    how: Replication,
    *,
    level: float = 0.95,
    why: str = "Ordinary intervals",
) -> Combined:
    """Combine the estimates `each` that an estimator found in the sets of a release, by one rule.

    `why` says in print why intervals are ordinary, where the rule is "sampling".
    """
    if rule == "sampling" or release is None:
        return sampling_only(each, level, why)
    if rule == "combine":
        found = combine(*stack(each), names=each[0].names, level=level, release=release)
        return replace(found, notes=join_notes(each))
    # Several draws of one model: a second draw in each run tells drawing from noise.
    draws = 2 if release.card.each == "draw" and len(each) > 1 else 1
    runs = rerun(release, estimate, each, how, draws)
    return with_noise(each, runs, method=release.card.method, correct=how.correct, level=check_level(level))


@dataclass(frozen=True, eq=False)
class Runs:
    """What the mechanism did, run after run.

    `moved` says by how much each run moved the estimates (the average over its `draws`): runs × estimates; `drawing`
    is the variance between draws of the same run, 0 with one draw each.
    """

    moved: Float
    drawing: Float
    draws: int


def rerun(
    release: Release, estimate: Estimator, each: tuple[Estimates, ...], how: Replication, draws: int = 1
) -> Runs:
    """Run the mechanism again on the sets of a release, in turn, and estimate from `draws` sets that each run makes.

    `each` is what `estimate` found in every set of the release.
    """
    if how.replicates < FEWEST:
        raise UsageError(
            f"replicates is {how.replicates}, expected at least {FEWEST}: fewer say nothing about a variance"
        )
    mechanism, random = Mechanism.of(release, how.method), generator(how.seed)
    codes = [mechanism.codes(t) for t in release.tables]
    moved, drawing = [], []
    for run in range(how.replicates):
        i = run % len(each)
        tables = mechanism.again(codes[i], release.tables[i], draws, random)
        found, _ = stack([each[i], *(Estimates.of(estimate(t), t.num_rows) for t in tables)])
        moved.append(found[1:].mean(axis=0) - found[0])
        drawing.append(found[1:].var(axis=0, ddof=1) if draws > 1 else np.zeros(found.shape[1]))
        if how.progress is not None:
            how.progress("running the mechanism again", (run + 1) / how.replicates)
    return Runs(np.array(moved), _moments(np.array(drawing)).mean, draws)


def with_noise(
    each: tuple[Estimates, ...], runs: Runs, *, method: str, correct: bool = True, level: float = 0.95
) -> Combined:
    """The rule by itself: estimates from every set, and what runs of the mechanism did to them."""
    q, u = stack(each)
    m, estimate, within = len(q), q.mean(axis=0), u.mean(axis=0)
    shift = _moments(runs.moved)
    notes = list(join_notes(each))
    if runs.draws > 1:
        # Drawing is seen between the draws of a run (one degree of freedom each) and between the sets.
        seen = shift.runs + m - 1
        between = (shift.runs * runs.drawing + (m - 1) * q.var(axis=0, ddof=1)) / seen
        noise = np.maximum(shift.variance - runs.drawing / runs.draws, 0.0)
        rule = f"T = ū + B/m + Var_noise over {m} sets drawn from one model"
    else:
        between, noise = np.zeros_like(within), shift.variance / m
        rule = "T = ū + Var_noise" + (f" over {m} sets that were sanitised separately" if m > 1 else "")
    widened, taken = np.ones_like(estimate), np.zeros_like(estimate)
    if correct:
        shrunk = np.divide(-shift.mean, estimate, out=np.zeros_like(estimate), where=estimate != 0)
        kept = 1 - np.clip(shrunk, 0.0, MOST_SHRUNK)
        widened, taken = 1 / kept**2, shift.mean / kept
        between, noise = between * widened, (noise + shift.variance / shift.runs) * widened
        estimate = estimate - taken
        notes.append("The bias that the mechanism shows when it is run on the release is taken off.")
    if (lost := int((np.isnan(shift.variance) & ~np.isnan(within)).sum())) > 0:
        notes.append(f"{lost} estimates could not be found in most runs and have no interval.")
    mechanism = between / m + noise
    variance = within + mechanism
    unsure = 1 / (shift.runs - 1) + shift.kurtosis * (0.5 / shift.runs + FARTHER)
    parts = mechanism**2 * unsure + within**2 / min(e.df for e in each)
    return Combined(
        names=each[0].names,
        estimate=estimate,
        within=within,
        between=between,
        noise=noise,
        variance=variance,
        df=np.divide(variance**2, parts, out=np.full(len(within), np.inf), where=parts > 0),
        sets=m,
        rule=f"{rule}, by {len(runs.moved)} runs of {method} on the synthetic rows",
        level=level,
        bias=taken if correct else None,
        notes=tuple(notes),
        # The average of m separately sanitised sets is scattered by 1/√m of what one is.
        runs=runs.moved * np.sqrt(widened / (m if runs.draws == 1 else 1)),
    )


@dataclass(frozen=True, eq=False)
class _Moments:
    """Moments over the runs in which an estimate was found; NaN where these are too few."""

    mean: Float
    variance: Float
    kurtosis: Float
    runs: Float


def _moments(moved: Float) -> _Moments:
    found = np.isfinite(moved)
    runs = found.sum(axis=0).astype(np.float64)
    n = np.where(runs >= max(FEWEST, FOUND * len(moved)), runs, np.nan)
    mean = np.where(found, moved, 0.0).sum(axis=0) / n
    second, fourth = ((np.where(found, moved - mean, 0.0) ** k).sum(axis=0) / n for k in (2, 4))
    g = np.divide(fourth, second**2, out=np.full_like(second, 3.0), where=second > 0) - 3
    # Excess kurtosis, unbiased for normal values (Joanes and Gill 1998, G₂).
    kurtosis = np.clip((n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g + 6), 0.0, HEAVIEST)
    return _Moments(mean, second * n / (n - 1), np.asarray(kurtosis), np.maximum(runs, 2.0))


def sampling_only(each: tuple[Estimates, ...], level: float, why: str) -> Combined:
    """Estimates with ordinary intervals, as if rows had been sampled and nothing sanitised."""
    found = average(*stack(each), each[0].names, level, why)
    df = np.full(len(found), min(e.df for e in each))
    return replace(found, df=df, notes=join_notes(each))
