"""What every part of a poll is asked, for each kind of claim about coefficients.

A vote is a function of one part's values and of public facts. Claims about one side of a number have two answers, no and
yes. Claims about an interval have three, below, within and above: the median of the parts' estimates lies in the interval
when neither end has a majority, however wide a part's own error is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from dipsmith.confirm.claim import AgreesWithRelease, Between, Coefficients, OneSided, TrendOver, resolve
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.part_fit import Combination, estimate
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.poll import Vote
from dipsmith.schema.formula.words import abridge

WIDE = 1.96
"""Standard errors on either side of an estimate."""


@dataclass(frozen=True, eq=False)
class SideVote:
    """Whether a combination of coefficients lies on one side of a number."""

    design: VoteDesign
    wanted: Combination
    below: bool
    value: float
    name: str
    answers: int = 2

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""
        return self.design.reading

    def __call__(self, part: Values) -> int | None:
        """1 where the estimate lies on the side that is claimed."""
        found = _estimate(self.design, self.wanted, part)
        return None if found is None else int(found < self.value if self.below else found > self.value)


@dataclass(frozen=True, eq=False)
class IntervalVote:
    """Whether a combination of coefficients lies below, within or above an interval."""

    design: VoteDesign
    wanted: Combination
    low: float
    high: float
    name: str
    answers: int = 3

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""
        return self.design.reading

    def __call__(self, part: Values) -> int | None:
        """0 below, 1 within, 2 above."""
        found = _estimate(self.design, self.wanted, part)
        return None if found is None else int(found > self.low) + int(found >= self.high)


@dataclass(frozen=True, eq=False)
class AgreementVote:
    """Whether a part's estimate lies in the release's interval, as wide as a part of its size makes it."""

    design: VoteDesign
    wanted: Combination
    centre: float
    reach: float
    name: str
    answers: int = 2

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""
        return self.design.reading

    def __call__(self, part: Values) -> int | None:
        """1 where it does."""
        found = _estimate(self.design, self.wanted, part)
        return None if found is None else int(abs(found - self.centre) <= self.reach)


@dataclass(frozen=True, eq=False)
class TrendVote:
    """Whether a coefficient, estimated at every value of a column by itself, grows or falls over those values."""

    design: VoteDesign
    wanted: Combination
    over: str
    grows: bool
    name: str
    answers: int = 2

    @property
    def reading(self) -> ValueReading:
        """The formula's columns, and the one that the trend is over."""
        own = self.design.reading
        return replace(own, levels=tuple(dict.fromkeys((*own.levels, self.over))))

    def __call__(self, part: Values) -> int | None:
        """1 where the slope of the estimates has the sign that is claimed."""
        places = part.levels[self.over]
        found = [
            (at, value)
            for at in np.unique(places[places >= 0]).tolist()
            if (value := _estimate(self.design, self.wanted, part.take(places == at))) is not None
        ]
        if len(found) < 2:
            return None
        at, values = np.array(found).T
        slope = float((at - at.mean()) @ values)
        return int(slope > 0 if self.grows else slope < 0)


def vote_of(claim: Coefficients, design: VoteDesign, parts: int, known: tuple[float, float] | None = None) -> Vote:
    """The vote on a claim; `known` are the release's estimate and standard error, for a claim that names the release."""
    name = f"{claim} in {design.formula.text}"
    name = name if name.isprintable() and len(name) <= 900 else "a claim about a formula"
    if isinstance(claim, Between) and claim.less is not None:
        return IntervalVote(design, difference(claim, design), claim.low, claim.high, name)
    one = Combination(((resolve(claim.coefficient, design.names), 1.0),))
    match claim:
        case OneSided(_, side, value):
            return SideVote(design, one, side == "<", value, name)
        case Between(_, low, high):
            return IntervalVote(design, one, low, high, name)
        case AgreesWithRelease():
            if known is None:
                raise UsageError(
                    "a claim about the release needs its estimate and standard error: `dipsmith ask` adds them"
                )
            return AgreementVote(design, one, known[0], WIDE * known[1] * sqrt(parts), name)
        case TrendOver(_, over, side):
            schema = design.reading.schema
            if over not in schema:
                raise UsageError(f"claim '{abridge(str(claim))}': there is no column '{abridge(over)}'")
            if schema.neighbours == "label" and schema[over].role != "public":
                raise UnsupportedError(
                    f"claim '{abridge(str(claim))}': a trend is over a public column, '{over}' is private"
                )
            return TrendVote(design, one, over, side == ">", name)
    raise UsageError(f"claim '{abridge(str(claim))}' is not about a coefficient")


def difference(claim: Between, design: VoteDesign) -> Combination:
    """The difference of two coefficients; that of a reference level is 0."""
    zero = {f"{name}[{levels[0]}]" for name, levels in design.levels.items()}
    pair = [(name, weight) for name, weight in ((claim.coefficient, 1.0), (claim.less, -1.0)) if name is not None]
    told = tuple((resolve(name, design.names), weight) for name, weight in pair if name not in zero)
    if not told or len({name for name, _ in told}) < len(told):
        raise UsageError(f"claim '{abridge(str(claim))}' compares a group with itself")
    return Combination(told)


def _estimate(design: VoteDesign, wanted: Combination, part: Values) -> float | None:
    return estimate(design.numbers(part), design.names, design.family, wanted)
