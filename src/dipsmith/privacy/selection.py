"""Selection: pick the candidate with (nearly) the highest score, exactly.

Scores are rounded to integers on a public grid; the choice is then made with coins of probability
exp(-x), x rational, that are flipped exactly (`enclosure.flips`). No probability is ever a float,
and a privacy loss computed from the formulas is the privacy loss of the code.

With η the rate per grid step and q* the highest rounded score, two laws:

*exponential* (McSherry and Talwar 2007): P(i) ∝ exp(η·q_i). Its log-probabilities move by an interval of
length ε, so it is Gaussian with ρ = πε²/16 (``docs/proofs/accounting.md``): the law to use under ρ.

*permute-and-flip* (McKenna and Sheldon 2020): go through the candidates in random order and take
each with probability exp(-η·(q* - q_i)). Never worse than the exponential law at the same ε: the
law to use under pure DP.

**What is charged.** Let the exact score have sensitivity Δ, and let the floats given to `select`
lie within half a grid step of it. In whole steps, D = ⌈Δ/grid⌉, a neighbour moves a rounded score
by -(D+1) … D+1, or by -1 … D+1 (all the same way round) when the score is monotone: the rounding
can break monotonicity by one step. Both laws lose at most η times the length of that interval, so
η = ε/(2D+2), or ε/(D+2) for a monotone score. ``docs/proofs/selection.md`` has the proof.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.enclosure import flips
from dipsmith.privacy.observer import ChoiceFact
from dipsmith.privacy.randomness import Stream

Law = Literal["permute-and-flip", "exponential"]

_FARTHEST: Final = float(1 << 61)
"""Rounded scores are clipped here (which keeps sensitivity and monotonicity), so that differences fit."""


def select(
    stream: Stream,
    scores: Floats,
    sensitivity: Fraction,
    epsilon: Fraction,
    *,
    monotone: bool,
    law: Law,
    grid: Fraction | None = None,
) -> int:
    """Choose the index of a candidate with a high score.

    Each score (high is good) must lie within grid/2 of the exact value whose sensitivity is stated. An infinite score is
    clipped; one that is not a number counts as the lowest of all, because an error would tell about the data. `monotone` says
    whether a neighbouring table moves all scores the same way (none up, or none down). `grid` is the step that scores are
    rounded to: a power of two, public; by default the largest one below sensitivity/1024, which costs 0.1 or 0.2 % of ε.

    Privacy
    -------
    Reads the scores, which may be exact functions of private rows. ε-DP under either law, and
    Gaussian with ρ = πε²/16 under the exponential one, for the neighbouring relation of the sensitivity. The time it
    takes depends on the scores.

    >>> select(Stream(), np.array([1.0, 900.0, 3.0]), Fraction(1), Fraction(1), monotone=True,
    ...        law="permute-and-flip")
    1
    """
    if scores.ndim != 1 or scores.size == 0:
        raise UsageError(f"scores must be a list of at least one number, got shape {scores.shape}")
    if law not in get_args(Law):
        raise UsageError(f"unknown law of selection {law!r}: use one of {', '.join(get_args(Law))}")
    step, rate = step_and_rate(sensitivity, epsilon, monotone=monotone, grid=grid)
    rounded = round_to_grid(scores, step)
    behind = rounded.max() - rounded
    winner = (_permute_and_flip if law == "permute-and-flip" else _exponential)(stream, behind, rate)
    if stream.observer is None:
        return winner
    return stream.observer.on_choice(ChoiceFact(scores, sensitivity, epsilon, monotone, law, winner))


def _permute_and_flip(stream: Stream, behind: Ints, rate: Fraction) -> int:
    """Flip all coins, then choose among the heads: the first head in a random order is uniform there."""
    heads = np.flatnonzero(flips(stream, behind, rate))
    return int(heads[stream.below(heads.size)])


def _exponential(stream: Stream, behind: Ints, rate: Fraction) -> int:
    """Propose a uniform candidate, accept it with probability exp(-rate·behind), until one is.

    A whole round of proposals is drawn at once and its first acceptance taken. The best candidate is
    always accepted, so a round of n fails with probability below 1/e.
    """
    n = behind.size
    while True:
        proposed = stream.integers(n, n)
        accepted = np.flatnonzero(flips(stream, behind[proposed], rate))
        if accepted.size:
            return int(proposed[accepted[0]])


def step_and_rate(
    sensitivity: Fraction, epsilon: Fraction, *, monotone: bool, grid: Fraction | None = None
) -> tuple[Fraction, Fraction]:
    """Return the grid step and the rate η per step that costs at most ε.

    >>> step_and_rate(Fraction(1), Fraction(1), monotone=True)
    (Fraction(1, 1024), Fraction(1, 1026))
    >>> step_and_rate(Fraction(1), Fraction(1), monotone=False)
    (Fraction(1, 1024), Fraction(1, 2050))
    """
    if sensitivity <= 0 or epsilon <= 0:
        raise UsageError(f"sensitivity and ε must be positive, got {sensitivity} and {epsilon}")
    step = _power_of_two_below(sensitivity / 1024) if grid is None else grid
    if not 0 < step <= sensitivity or step != _power_of_two_below(step):
        raise UsageError(f"the grid of scores must be a power of two up to the sensitivity, got {step}")
    moved = -(-sensitivity // step)
    return step, epsilon / (moved + 2 if monotone else 2 * (moved + 1))


def round_to_grid(scores: Floats, step: Fraction) -> Ints:
    """Round scores to whole steps of a power of two, halves upwards.

    Dividing by a power of two is exact. Halves always go up (not to the even neighbour), so that
    scores that are Δ apart are never more than ⌈Δ/step⌉ steps apart.

    >>> round_to_grid(np.array([0.5, 1.5, -0.5, np.inf, np.nan]), Fraction(1)).tolist()
    [1, 2, 0, 2305843009213693952, -2305843009213693952]
    """
    with np.errstate(over="ignore"):
        steps = np.clip(
            np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf) / float(step), -_FARTHEST, _FARTHEST
        )
    down = np.floor(steps)
    return (down + (steps - down >= 0.5)).astype(np.int64)


def _power_of_two_below(x: Fraction) -> Fraction:
    """Return the largest power of two that does not exceed x."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= x else power / 2
