"""Noise-aware intervals: what the noise did to an estimate, found by running the mechanism again.

One table sanitised with the whole budget carries less noise than the average of m tables with 1/m of it (by a factor
of m in variance), but nothing in it shows how much. The mechanism does. Run again on the synthetic rows, with fresh
noise (`dipsmith.inference.mechanism`), it gives tables that differ from the synthetic one as the synthetic one
differs from the authentic. With q* the estimates from R such tables,

    Var_noise = Var(q*),   T = ū + B/m + Var_noise,   bias = mean(q*) − q,

where B/m is drawing (m sets of one model; with one set drawing is part of Var(q*)). A method that shrinks, clips or
bins pulls estimates towards zero, and does so again on the synthetic rows, where it can be seen: the bias is taken
off unless told otherwise. A bias towards zero is taken to be attenuation by a factor a = mean(q*)/q, and the estimate
is divided by it: an effect that came out at .8 of its size is seen to shrink to .64, and 1 is reported. Any other bias is
subtracted. Coefficients of public columns beside private ones are moved by what the private ones lose, once in the
release and by a times as much in a run, so that their bias is divided by the private ones' a. What keeps less than half
of its size is beyond one step, and gets no interval, unless its bias is small beside its standard error. What the method
leaves out of its model altogether it leaves out once, and no second run shows it.

A corrected estimate varies more: dividing by a divides the standard error of noise by a. The correction's own
simulation adds Var(q*)/R divided by a⁴, since q²/mean(q*) has the derivative 1/a² in mean(q*). Degrees of freedom are Satterthwaite's, for ū with its residual
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

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.analyses.bin_doubt import numbers_among
from dipsmith.arrays import Bools, Floats
from dipsmith.errors import NotCarried, UncheckedSupport, UsageError
from dipsmith.inference.combine import Combined, Rule, average, check_level, combine, recurrence_notes
from dipsmith.inference.mechanism import Mechanism
from dipsmith.methods.method import Method
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.regression.estimates import Estimates, Estimator, join_notes, stack
from dipsmith.schema import Codes
from dipsmith.synthesis.gaps import missing_for
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
"""What keeps less than half of its size in a second run has lost too much in the first for one step to give it back."""

HARMLESS = 0.25
"""A bias of at most so many standard errors is subtracted as it is seen, whatever share of a small estimate it is."""

STAGE = "running the mechanism again"

UNCHECKED = (
    "whether the release carries what this function relates was not checked: name its columns (columns=[…]), or ask "
    "release.supports(…)"
)

Progress = Callable[[str, float], None]
Flags = Bools


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
    columns: Sequence[str] | None = None,
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
    columns
        Those that the estimate relates: refused where the release does not carry them together. Without them nobody can
        see it, and a warning says so.
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

        noise_aware(release, mean_age, columns=["age"])
    """
    check_level(level)
    if columns is None:
        warnings.warn(UNCHECKED, UncheckedSupport, stacklevel=2)
    elif (gap := missing_for(release, *columns)) is not None:
        raise NotCarried(gap.reason_and_ask)
    each = tuple(Estimates.of(estimate(table), table.num_rows) for table in release.tables)
    how = Replication(replicates, correct, method, seed, progress)
    found = combine_by("noise-aware", release, estimate, each, how, level=level)
    unchecked = () if columns is not None else (f"{UNCHECKED[:1].upper()}{UNCHECKED[1:]}.",)
    return replace(found, notes=(*found.notes, *recurrence_notes(release), *unchecked, *_in_bins(release, columns)))


def _in_bins(release: Release, columns: Sequence[str] | None) -> tuple[str, ...]:
    """One sentence, warned and noted, on the columns that are numbers in bins: what is made of them nobody can see."""
    schema = release.schema
    names = [b.name for b in numbers_among(schema.names if columns is None else columns, schema)]
    if not names:
        return ()
    told = (
        f"{', '.join(names)} {'is a number' if len(names) == 1 else 'are numbers'} known in bins, and the interval does not "
        "allow for where values lie within these; use fit with a formula, which does, or ask the steward for finer bins"
    )
    warnings.warn(told, UncheckedSupport, stacklevel=3)
    return (f"{told}.",)


def combine_by(
    rule: Rule,
    release: Release | None,
    estimate: Estimator,
    each: tuple[Estimates, ...],
    how: Replication,
    *,
    level: float = 0.95,
    why: str = "Ordinary intervals",
    follows: Flags | None = None,
) -> Combined:
    """Combine the estimates `each` that an estimator found in the sets of a release, by one rule.

    `why` says in print why intervals are ordinary, where the rule is "sampling".
    """
    if rule == "sampling" or release is None:
        return sampling_only(each, level, why)
    each = tuple(_for_people(e, release) for e in each)
    if rule == "combine":
        found = combine(*stack(each), names=each[0].names, level=level, df=min(e.df for e in each), release=release)
        return replace(found, notes=(*join_notes(each), *found.notes))
    # Several draws of one model: a second draw in each run tells drawing from noise.
    draws = 2 if release.card.each == "draw" and len(each) > 1 else 1
    runs = rerun(release, estimate, each, how, draws)
    method = release.card.method
    return with_noise(each, runs, method=method, correct=how.correct, level=check_level(level), follows=follows)


@dataclass(frozen=True, eq=False)
class Runs:
    """What the mechanism did, run after run.

    `moved` says by how much each run moved the estimates (the average over its `draws`): runs × estimates; `drawing`
    is the variance between draws of the same run, 0 with one draw each.
    """

    moved: Floats
    drawing: Floats
    draws: int


def rerun(release: Release, estimate: Estimator, each: tuple[Estimates, ...], how: Replication, draws: int = 1) -> Runs:
    """Run the mechanism again on the sets of a release, in turn, and estimate from `draws` sets that each run makes.

    `each` is what `estimate` found in every set of the release.
    """
    if how.replicates < FEWEST:
        raise UsageError(
            f"replicates is {how.replicates}, expected at least {FEWEST}: fewer say nothing about a variance"
        )
    mechanism, random = Mechanism.of(release, how.method), generator(how.seed)
    codes = [_resize(mechanism.codes(t), release.people, random) for t in release.tables]
    moved, drawing = [], []
    if how.progress is not None:
        how.progress(STAGE, 0.0)
    for run in range(how.replicates):
        i = run % len(each)
        tables = mechanism.again(codes[i], release.tables[i], draws, random)
        found, _ = stack([each[i], *(Estimates.of(estimate(t), t.num_rows) for t in tables)])
        moved.append(found[1:].mean(axis=0) - found[0])
        drawing.append(found[1:].var(axis=0, ddof=1) if draws > 1 else np.zeros(found.shape[1]))
        if how.progress is not None:
            how.progress(STAGE, (run + 1) / how.replicates)
    return Runs(np.array(moved), _moments(np.array(drawing)).mean, draws)


def _for_people(found: Estimates, release: Release) -> Estimates:
    """Estimates as uncertain as the rows behind a set leave them, where more or fewer were drawn."""
    rows = release.card.rows
    return found if release.people == rows else replace(found, covariance=found.covariance * (rows / release.people))


def _resize(codes: Codes, rows: int, random: Generator) -> Codes:
    """Rows that say the same, as many as a mechanism was run on: whole copies, and some of them once more."""
    if rows == len(codes) or not len(codes):
        return codes
    copies, more = divmod(rows, len(codes))
    kept = np.tile(np.arange(len(codes)), copies), random.permutation(len(codes))[:more]
    return codes.take(np.concatenate(kept))


def with_noise(
    each: tuple[Estimates, ...],
    runs: Runs,
    *,
    method: str,
    correct: bool = True,
    level: float = 0.95,
    follows: Flags | None = None,
) -> Combined:
    """The rule by itself: estimates from every set, and what runs of the mechanism did to them.

    `follows` are those that are biased by what the others lose, such as coefficients of public columns beside private ones.
    """
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
        step = _Correction.of(estimate, shift, within + between / m + noise, follows)
        widened, taken = step.widened, step.taken
        # The simulation's own error is divided by the attenuation once more: q/a with a = mean(q*)/q.
        between, noise = between * widened, noise * widened + step.simulated
        estimate = estimate - taken
        notes.append("The bias that the mechanism shows when it is run on the release is taken off.")
        within = np.where(step.beyond, np.nan, within)
        notes += _list_refusals(each[0].names, step.beyond)
    if (lost := int((np.isnan(shift.variance) & ~np.isnan(u).any(axis=0)).sum())) > 0:
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
class _Correction:
    """What is `taken` off the estimates, by what it multiplies the variance of noise, and the variance that it adds.

    An estimate that shrinks to a ≥ ½ of its size is divided by a. Any other bias is subtracted: one that moves an estimate
    away from zero, and one that is harmless beside the standard error. What shrinks more is `beyond` one step.
    """

    taken: Floats
    widened: Floats
    simulated: Floats
    beyond: Flags

    @classmethod
    def of(cls, estimate: Floats, shift: _Moments, variance: Floats, follows: Flags | None = None) -> _Correction:
        """From estimates, how runs moved them, and their variance before the correction.

        Estimates that `follow` are moved by what the others lose: their bias is divided by the others' attenuation.
        """
        shrunk = np.divide(-shift.mean, estimate, out=np.zeros_like(estimate), where=estimate != 0)
        if follows is not None and follows.any() and not follows.all():
            shrunk = np.where(follows, _common(shrunk, estimate, shift, ~follows), shrunk)
        kept = 1 - np.clip(shrunk, 0.0, MOST_SHRUNK)
        chance = shift.variance / shift.runs
        harmless = shift.mean**2 <= np.maximum(HARMLESS**2 * variance, 4 * chance)
        divided = (shrunk > 0) & (shrunk <= MOST_SHRUNK)
        beyond = (shrunk > MOST_SHRUNK) & ~harmless
        taken = np.where(beyond, 0.0, np.where(divided, shift.mean / kept, shift.mean))
        return cls(taken, 1 / kept**2, chance / kept**4, beyond)


def _common(shrunk: Floats, estimate: Floats, shift: _Moments, others: Flags) -> float:
    """The share of their size that estimates lose, those that are known best counting most."""
    known = others & np.isfinite(shrunk) & (shift.variance > 0)
    weight = (estimate**2 / np.where(shift.variance > 0, shift.variance, 1.0))[known]
    return float(np.average(shrunk[known], weights=weight)) if weight.sum() > 0 else 0.0


def _list_refusals(names: tuple[str, ...], beyond: Flags) -> list[str]:
    if not beyond.any():
        return []
    some = [n for n, b in zip(names, beyond, strict=True) if b]
    named = ", ".join(some[:5]) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
    return [
        f"No interval for {named}: run again, the mechanism loses more than half of it, too much for one step to give back; "
        "ask the steward for a larger budget, or to plan this analysis."
    ]


@dataclass(frozen=True, eq=False)
class _Moments:
    """Moments over the runs in which an estimate was found; NaN where these are too few."""

    mean: Floats
    variance: Floats
    kurtosis: Floats
    runs: Floats


def _moments(moved: Floats) -> _Moments:
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


def without_intervals(each: tuple[Estimates, ...], level: float, why: str) -> Combined:
    """Estimates of the synthetic rows alone: nothing is said of how far off they are."""
    found = average(*stack(each), each[0].names, level, "Estimates of the synthetic rows, without intervals")
    return replace(
        found, variance=np.full(len(found), np.nan), notes=(f"{why[:1].upper()}{why[1:]}.", *join_notes(each))
    )
