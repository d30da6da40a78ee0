"""What every part of a poll is asked, for each kind of claim about coefficients.

A vote is a function of one part's values and of public facts. Claims about one side of a number have two answers, no and
yes. Claims about an interval have three, below, within and above: the median of the parts' estimates lies in the interval
when neither end has a majority, however wide a part's own error is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt

import numpy as np

from dipsmith.confirm.claim import AgreesWithRelease, Between, Coefficients, OneSided, Side, TrendOver, resolve
from dipsmith.confirm.design import Combination, VoteDesign, estimate
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.value_question import Vote
from dipsmith.schema.formula.words import abridge

WIDE = 1.96
"""Standard errors on either side of an estimate."""


@dataclass(frozen=True, eq=False)
class QuantityVote:
    """How a part votes: by a quantity of its rows, None where they do not determine it, and where that lies."""

    name: str
    reading: ValueReading
    quantity: Callable[[Values], float | None]
    judge: Callable[[float], int]
    answers: int = 2

    def __call__(self, part: Values) -> int | None:
        """The answer of a part; None where it cannot say."""
        found = self.quantity(part)
        return None if found is None else self.judge(found)


def vote_of(claim: Coefficients, design: VoteDesign, parts: int, known: tuple[float, float] | None = None) -> Vote:
    """The vote on a claim; `known` are the release's estimate and standard error, for a claim that names the release."""
    name = f"{claim} in {design.formula.text}"
    name = name if name.isprintable() and len(name) <= 900 else "a claim about a formula"
    wanted = combination_of(claim, design)
    of_coefficients = partial(QuantityVote, name, design.reading, partial(_estimate, design, wanted))
    match claim:
        case OneSided(_, side, value):
            return of_coefficients(_beyond(side, value))
        case Between(_, low, high):
            return of_coefficients(lambda found: int(found > low) + int(found >= high), answers=3)
        case AgreesWithRelease():
            if known is None:
                raise UsageError(
                    "a claim about the release needs its estimate and standard error: `dipsmith ask` adds them"
                )
            centre, reach = known[0], WIDE * known[1] * sqrt(parts)  # as wide as a part of its size makes it
            return of_coefficients(lambda found: int(abs(found - centre) <= reach))
        case TrendOver(_, over, side):
            reading = replace(
                design.reading, levels=tuple(dict.fromkeys((*design.reading.levels, _public(claim, design))))
            )
            return QuantityVote(name, reading, partial(_slope, design, wanted, over), _beyond(side, 0.0))


def _beyond(side: Side, value: float) -> Callable[[float], int]:
    return (lambda found: int(found < value)) if side == "<" else (lambda found: int(found > value))


def _public(claim: TrendOver, design: VoteDesign) -> str:
    """The column that a trend is over."""
    schema = design.reading.schema
    if claim.over not in schema:
        raise UsageError(f"claim '{abridge(str(claim))}': there is no column '{abridge(claim.over)}'")
    if schema.neighbours == "label" and schema[claim.over].role != "public":
        raise UnsupportedError(
            f"claim '{abridge(str(claim))}': a trend is over a public column, '{claim.over}' is private"
        )
    return claim.over


def combination_of(claim: Coefficients, design: VoteDesign) -> Combination:
    """The coefficient that a claim is about, or the difference of two; that of a reference level is 0."""
    if not isinstance(claim, Between) or claim.less is None:
        return Combination(((resolve(claim.coefficient, design.names), 1.0),))
    zero = {f"{name}[{levels[0]}]" for name, levels in design.levels.items()}
    pair = [(name, weight) for name, weight in ((claim.coefficient, 1.0), (claim.less, -1.0)) if name is not None]
    weights = tuple((resolve(name, design.names), weight) for name, weight in pair if name not in zero)
    if not weights or len({name for name, _ in weights}) < len(weights):
        raise UsageError(f"claim '{abridge(str(claim))}' compares a group with itself")
    return Combination(weights)


def interval_of(claim: Between | AgreesWithRelease, known: tuple[float, float] | None) -> tuple[float, float]:
    """The interval that a claim is about; `known` are the release's estimate and standard error, where it names the release."""
    if isinstance(claim, Between):
        return claim.low, claim.high
    if known is None:
        raise UsageError("a claim about the release needs its estimate and standard error")
    return known[0] - WIDE * known[1], known[0] + WIDE * known[1]


def _estimate(design: VoteDesign, wanted: Combination, part: Values) -> float | None:
    return estimate(design.numbers(part), design.names, design.family, wanted)


def _slope(design: VoteDesign, wanted: Combination, over: str, part: Values) -> float | None:
    """The slope of a coefficient, estimated at every value of a column by itself, over those values."""
    places = part.levels[over]
    found = [
        (at, value)
        for at in np.unique(places[places >= 0]).tolist()
        if (value := _estimate(design, wanted, part.take(places == at))) is not None
    ]
    if len(found) < 2:
        return None
    at, values = np.array(found).T
    return float((at - at.mean()) @ values)
