"""A lower bound on ε from guesses: how well two worlds were distinguished, with confidence.

Under ε-differential privacy P₁(A) ≤ e^ε·P₀(A) for every event A, and the same with the worlds exchanged. An attacker's
score and a threshold make an event; counting how often it happens in either world bounds both probabilities
(Clopper and Pearson 1934), and so log P₁(A)/P₀(A) ≤ ε from below (Jagielski, Ullman and Oprea 2020; Nasr et al. 2021). The
threshold is chosen on other trials than those that are counted, so that the confidence is what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from scipy.stats import beta

from dipsmith.arrays import Floats

TRAINING: Final = 0.4
"""The share of trials on which the black-box attacker is trained and its threshold chosen."""

CONFIDENCE: Final = 0.95
"""Of the bound that is printed: even with an optimal attacker it exceeds ε in a few of a hundred entries."""

CERTAINTY: Final = 1 - 1e-6
"""Of the bound that decides between pass and fail."""


@dataclass(frozen=True)
class Threshold:
    """An event: scores above a value speak for the second world (or, turned, scores up to it for the first)."""

    value: float
    points_to_first: bool


@dataclass(frozen=True)
class Guesses:
    """How often an event happened in the world that it speaks for, and in the other."""

    hits: int
    alarms: int
    trials: tuple[int, int]

    def epsilon(self, confidence: float = CONFIDENCE) -> float:
        """The lower bound on ε; each of the two probabilities is allowed half of the doubt.

        >>> round(Guesses(900, 20, (1000, 1000)).epsilon(), 3)
        3.355
        """
        doubt = (1 - confidence) / 2
        least, most = lower(self.hits, self.trials[0], doubt), upper(self.alarms, self.trials[1], doubt)
        return max(0.0, log(least / most)) if least > 0 else 0.0


def lower(successes: float, trials: int, doubt: float) -> float:
    """The Clopper–Pearson lower limit of a probability.

    >>> lower(0, 10, 0.05), round(lower(10, 10, 0.05), 4)
    (0.0, 0.7411)
    """
    return 0.0 if successes <= 0 else float(beta.ppf(doubt, successes, trials - successes + 1))


def upper(successes: float, trials: int, doubt: float) -> float:
    """The Clopper–Pearson upper limit of a probability.

    >>> round(upper(0, 10, 0.05), 4), upper(10, 10, 0.05)
    (0.2589, 1.0)
    """
    return 1.0 if successes >= trials else float(beta.ppf(1 - doubt, successes + 1, trials - successes))


def choose_threshold(first: Floats, second: Floats, trials: int, confidence: float = CONFIDENCE) -> Threshold:
    """The threshold whose bound would be highest if `trials` others were like these, and luck somewhat worse.

    The rarer an event, the more its bound depends on luck: events are compared as if both counts came out a standard deviation
    to the attacker's disadvantage. An alarm that was not seen among few trials may come among many: half a trial is added.
    """
    best, chosen = -1.0, Threshold(0.0, points_to_first=False)
    doubt = (1 - confidence) / 2
    for turned, (own, other) in ((False, (second, first)), (True, (-first, -second))):
        values = np.unique(np.concatenate([own, other]))
        own_sorted, other_sorted = np.sort(own), np.sort(other)
        above = np.float64(trials) * (1 - np.searchsorted(own_sorted, values, side="right") / len(own))
        wrong = np.float64(trials) * (1 - np.searchsorted(other_sorted, values, side="right") / len(other))
        hits, alarms = pessimistic_rates(above, wrong, trials, 1.0)
        least = np.where(hits > 0, beta.ppf(doubt, np.maximum(hits, 1e-9), trials - hits + 1), 1e-300)
        most = beta.ppf(1 - doubt, alarms + 1, trials - alarms)
        bounds = np.log(np.maximum(least, 1e-300) / most)
        at = int(np.argmax(bounds))
        if bounds[at] > best:
            best = float(bounds[at])
            chosen = Threshold(float(-values[at] if turned else values[at]), turned)
    return chosen


def pessimistic_rates(hits: Floats, alarms: Floats, trials: int, deviations: float) -> tuple[Floats, Floats]:
    """Fewer hits and more alarms than expected, by half a trial and some standard deviations.

    >>> fewer, more = pessimistic_rates(np.array([100.0]), np.array([0.0]), 1000, 1.0)
    >>> round(float(fewer[0]), 1), round(float(more[0]), 1)
    (90.0, 1.2)
    """
    fewer = hits - 0.5 - deviations * np.sqrt(np.maximum(hits * (1 - hits / trials), 0))
    more = alarms + 0.5 + deviations * np.sqrt(alarms + 0.5)
    return np.clip(fewer, 0, trials), np.clip(more, 0, trials - 1e-9)


def guesses(threshold: Threshold, first: Floats, second: Floats) -> Guesses:
    """Count an event in both worlds."""
    if threshold.points_to_first:
        hits, alarms = first < threshold.value, second < threshold.value
        return Guesses(int(hits.sum()), int(alarms.sum()), (len(first), len(second)))
    hits, alarms = second > threshold.value, first > threshold.value
    return Guesses(int(hits.sum()), int(alarms.sum()), (len(second), len(first)))


def guess_held_out(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> Guesses:
    """Choose the threshold on a part of the scores of both worlds, count on the rest."""
    one, other = (round(TRAINING * len(scores)) for scores in (first, second))
    threshold = choose_threshold(first[:one], second[:other], len(first) - one, confidence)
    return guesses(threshold, first[one:], second[other:])
