"""Repetition: how often a mechanism is run when only the best outcome is released.

Trying settings costs privacy like anything else, unless the number of runs is itself random and secret:
draw K from a truncated negative binomial law with parameters η > −1 and 0 < γ < 1,

    P(K = k) = (1 − γ)^k / (γ^−η − 1) · Π_{l<k} (l + η)/(l + 1),  k = 1, 2, …
    (η = 0: (1 − γ)^k / (k·log(1/γ)), the logarithmic law; η = 1: the geometric law),

run an ε₀-DP mechanism K times, release the outcome with the highest score: (2 + η)·ε₀-DP, however large K
may become (Papernot and Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR 2022; η = 1
is Liu and Talwar, "Private selection from private candidates", STOC 2019). Pure DP only. The score must be
part of the ε₀-DP outcome. K must never become known: ``docs/proofs/private-selection.md``.

K is drawn exactly: every decision is a coin of rational probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, isnan, log
from time import monotonic, sleep
from typing import Final, TypeVar

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.randomness import Stream

O = TypeVar("O")

_GRID: Final = 1 << 40
"""γ is a multiple of its inverse."""

_MOST: Final = 10_000_000
"""Terms of the law that are ever added up."""


@dataclass(frozen=True)
class Repetitions:
    """The truncated negative binomial law of the number of runs.

    η is what is paid, and how light the tail is: small values pay less and often run only once. The smaller γ, the more
    runs.

    >>> law = Repetitions.with_mean(10, eta=1)
    >>> law.gamma, round(law.mean, 6), law.price(PureDP("0.5")).epsilon
    (Fraction(1, 10), 10.0, 1.5)
    """

    eta: Fraction
    gamma: Fraction

    def __post_init__(self) -> None:
        if not (isinstance(self.eta, Fraction) and isinstance(self.gamma, Fraction)):
            raise UsageError("eta and gamma must be fractions: floats are not exact")
        if not -1 < self.eta <= 100:
            raise UsageError(f"eta is {self.eta}, expected a number above -1, for example 0 or 1")
        if not 0 < self.gamma < 1:
            raise UsageError(f"gamma is {self.gamma}, expected a number between 0 and 1")

    @classmethod
    def with_mean(cls, mean: float, eta: Fraction | int = 1) -> Repetitions:
        """The law with about so many runs on average."""
        if not 1 < mean <= 10_000:
            raise UsageError(f"{mean} runs on average, expected more than 1 and at most 10,000")
        exact = Fraction(eta)
        if exact == 1:
            return cls(exact, 1 / Fraction(mean).limit_denominator(1000))
        low, high = 1, _GRID - 1
        while high - low > 1:
            middle = (low + high) // 2
            more = cls(exact, Fraction(middle, _GRID)).mean > mean
            low, high = (middle, high) if more else (low, middle)
        return cls(exact, Fraction(high, _GRID))

    @property
    def mean(self) -> float:
        """The average number of runs."""
        eta, gamma = float(self.eta), float(self.gamma)
        if eta == 0:
            return (1 / gamma - 1) / log(1 / gamma)
        return float(eta * (1 - gamma) / (gamma * (1 - gamma**eta)))

    def each(self, budget: Budget) -> PureDP:
        """ε₀: what one run may cost so that the release costs at most `budget`; there is no such price in ρ."""
        if not isinstance(budget, PureDP):
            raise UnsupportedError(
                "the best of several runs has a price in pure ε only: run with PureDP, or choose settings on a "
                "public stand-in, which is free"
            )
        return PureDP.of_units(floor(budget.units / (2 + self.eta)))

    def price(self, each: PureDP) -> PureDP:
        """(2 + η)·ε₀, rounded up."""
        return PureDP.of_units(-floor(-each.units * (2 + self.eta)))

    def probabilities(self) -> Iterator[float]:
        """P(K = 1), P(K = 2) and so on."""
        eta, gamma = float(self.eta), float(self.gamma)
        # P(1) = (1 − γ)·η/(γ^−η − 1), whose limit at η = 0 is (1 − γ)/log(1/γ).
        chance = (1 - gamma) * (1 / log(1 / gamma) if eta == 0 else eta / (gamma**-eta - 1))
        k = 1
        while True:
            yield chance
            chance *= (1 - gamma) * (k + eta) / (k + 1)
            k += 1

    def quantile(self, share: float) -> int:
        """The least k with P(K ≤ k) ≥ share; 0 for a share of 0.

        >>> Repetitions.with_mean(10, eta=1).quantile(0.95)
        29
        """
        if not 0 <= share < 1:
            raise UsageError(f"a share of {share} of all runs cannot be covered, expected 0 to below 1")
        reached, k = 0.0, 0
        law = self.probabilities()
        while reached < share and k < _MOST:
            reached += next(law)
            k += 1
        return k

    def sample(self, stream: Stream) -> int:
        """Draw the number of runs, exactly.

        Privacy
        -------
        Reads no data. The number must stay inside the curator: released, or guessed from a duration, it
        would void the price.
        """
        if self.eta <= 0:
            return self._draw_thinned(stream, self.eta, 1)
        while True:
            # The untruncated law: one geometric for each whole η, and the rest by rejection.
            runs = sum(self._failures(stream) for _ in range(floor(self.eta)))
            if rest := self.eta - floor(self.eta):
                runs += self._draw_thinned(stream, rest, 0)
            if runs:
                return runs

    def best(self, stream: Stream, run: Callable[[], tuple[O, float]], conceal: float = 0.0) -> O:
        """Draw the number of runs, run so often, and keep the outcome with the highest score.

        A score that is not a number counts as the lowest. The first of equal scores is kept: runs are
        exchangeable, so that is a random one. `conceal` is a share of all numbers of runs: the call takes no less time than the
        number which so many do not exceed would have taken, as when it ends is seen, and written in ledgers. Not under
        testing.
        """
        padded, runs = self.quantile(conceal), stream.show_observer("runs", self.sample(stream))
        start = monotonic()
        kept, highest = run()
        highest = -inf if isnan(highest) else highest
        for _ in range(runs - 1):
            outcome, score = run()
            if score > highest:
                kept, highest = outcome, score
        if not stream.testing:
            sleep(max(0, padded - runs) * (monotonic() - start) / runs)
        return kept

    def _draw_thinned(self, stream: Stream, eta: Fraction, least: int) -> int:
        """A geometric k ≥ least, kept with probability Π_{l=least}^{k−1} (l + η)/(l + 1).

        For −1 < η ≤ 0 the least is 1, for 0 < η < 1 it is 0.
        """
        while True:
            k = least + self._failures(stream)
            if all(_coin(stream, (length + eta) / (length + 1)) for length in range(least, k)):
                return k

    def _failures(self, stream: Stream) -> int:
        """How often a coin of probability γ fails before it succeeds."""
        k = 0
        while not _coin(stream, self.gamma):
            k += 1
        return k


def _coin(stream: Stream, p: Fraction) -> bool:
    return stream.below(p.denominator) < p.numerator
