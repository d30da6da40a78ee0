"""Claims: what a researcher says of an analysis, as text and as a value.

=========================================  ===================================================================
``sex[F] < 0``, ``sex[F] > -0.05``         a sign, or a threshold
``-0.1 < sex[F] < -0.02``                  an interval
``sex[F] = -0.06 within 0.02``             near a number
``race[B] = race[C] within 0.01``          two groups alike
``sex[F] = release``                       agrees with what the release says of it (its interval, widened for parts)
``trend of sex[F] over year > 0``          grows over the values of a public column
``accuracy within 0.1 > 0.8``              more than 80 % of rows are predicted to within 0.1
``residuals``                              fitted values against residuals, as a noisy grid
``roc``, ``roc > 0.7``                     how well scores tell two outcomes apart
=========================================  ===================================================================

A text is taken apart by a few patterns; nothing in it is run. ``sex[F]`` and ``sex[T.F]`` name the same coefficient.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from dipsmith.errors import UsageError
from dipsmith.schema.formula.words import abridge

Side = Literal["<", ">"]
MOST_CHARACTERS: Final = 500

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NAME = r"[^<>=]+?"
_BETWEEN = re.compile(rf"({_NUMBER})\s*<=?\s*({_NAME})\s*<=?\s*({_NUMBER})")
_NEAR = re.compile(rf"({_NAME})\s*==?\s*({_NAME})\s+within\s+({_NUMBER})")
_RELEASE = re.compile(rf"({_NAME})\s*==?\s*release")
_TREND = re.compile(rf"trend\s+of\s+({_NAME})\s+over\s+({_NAME})\s*([<>])=?\s*0(?:\.0*)?")
_SIDE = re.compile(rf"({_NAME})\s*([<>])=?\s*({_NUMBER})")
_ACCURACY = re.compile(rf"accuracy\s+within\s+({_NUMBER})\s*>=?\s*({_NUMBER})")
_ROC = re.compile(rf"roc(?:\s*>=?\s*({_NUMBER}))?")


@dataclass(frozen=True)
class OneSided:
    """A coefficient lies on one side of a number."""

    coefficient: str
    side: Side
    value: float

    def __str__(self) -> str:
        return f"{self.coefficient} {self.side} {self.value:g}"


@dataclass(frozen=True)
class Between:
    """A coefficient, or the difference of two, lies in an interval."""

    coefficient: str
    low: float
    high: float
    less: str | None = None

    def __str__(self) -> str:
        if self.less is not None:
            return f"{self.coefficient} = {self.less} within {self.high:g}"
        return f"{self.low!r} < {self.coefficient} < {self.high!r}"


@dataclass(frozen=True)
class AgreesWithRelease:
    """A coefficient agrees with the release: its estimate and standard error there, filled in when it is asked."""

    coefficient: str

    def __str__(self) -> str:
        return f"{self.coefficient} = release"


@dataclass(frozen=True)
class TrendOver:
    """A coefficient grows, or falls, over the values of a public column."""

    coefficient: str
    over: str
    side: Side

    def __str__(self) -> str:
        return f"trend of {self.coefficient} over {self.over} {self.side} 0"


@dataclass(frozen=True)
class Accuracy:
    """A model of the release predicts so large a share of rows to within so much."""

    within: float
    share: float

    def __str__(self) -> str:
        return f"accuracy within {self.within:g} > {self.share:g}"


@dataclass(frozen=True)
class Residuals:
    """The residuals of a model of the release, as a picture."""

    def __str__(self) -> str:
        return "residuals"


@dataclass(frozen=True)
class Roc:
    """How well the scores of a model of the release tell two outcomes apart; with an area to exceed, or as a picture."""

    area: float | None = None

    def __str__(self) -> str:
        return "roc" if self.area is None else f"roc > {self.area:g}"


Coefficients = OneSided | Between | AgreesWithRelease | TrendOver
"""Claims about coefficients, which parts vote on."""
Predictions = Accuracy | Residuals | Roc
"""Claims about a model of the release, which is public."""
Claim = Coefficients | Predictions


def in_words(claim: Claim) -> str:
    """A claim in words.

    >>> in_words(parse_claim("trend of sex[F] over year > 0"))
    'sex[F] grows over year'
    """
    match claim:
        case OneSided(name, side, value):
            return f"{name} is {'below' if side == '<' else 'above'} {value:g}"
        case Between(name, low, high, less):
            alike = f"{name} and {less} differ by less than {high:g}"
            return f"{name} lies between {low:g} and {high:g}" if less is None else alike
        case AgreesWithRelease(name):
            return f"{name} agrees with the release"
        case TrendOver(name, over, side):
            return f"{name} {'falls' if side == '<' else 'grows'} over {over}"
        case Accuracy(within, share):
            return f"the release's model predicts more than {share:.4g} of the rows to within {within:g}"
        case Residuals():
            return "how the rows scatter about the release's model"
        case Roc(None):
            return "how well the release's model tells outcomes apart"
        case Roc(area):
            return f"the area under the curve of the release's model is above {area:g}"


def parse_claim(text: str) -> Claim:
    """Read a claim; every problem is one line.

    >>> parse_claim("sex[F]<=0"), parse_claim("race[B] = race[C] within .01")
    (OneSided(coefficient='sex[F]', side='<', value=0.0), Between(coefficient='race[B]', low=-0.01, high=0.01, less='race[C]'))
    """
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"a claim has at most {MOST_CHARACTERS} characters, got {len(text):,}")
    text = " ".join(text.split())
    if text == "residuals":
        return Residuals()
    if found := _ROC.fullmatch(text):
        return Roc(None if found[1] is None else _within(found[1], 0.0, 1.0, "an area"))
    if found := _ACCURACY.fullmatch(text):
        return Accuracy(_positive(found[1]), _within(found[2], 0.0, 1.0, "a share"))
    if found := _TREND.fullmatch(text):
        return TrendOver(found[1].strip(), found[2].strip(" `"), "<" if found[3] == "<" else ">")
    if found := _RELEASE.fullmatch(text):
        return AgreesWithRelease(found[1].strip())
    if found := _NEAR.fullmatch(text):
        width = _positive(found[3])
        if re.fullmatch(_NUMBER, found[2]):
            return Between(found[1].strip(), _finite(found[2]) - width, _finite(found[2]) + width)
        return Between(found[1].strip(), -width, width, found[2].strip())
    if found := _BETWEEN.fullmatch(text):
        low, high = _finite(found[1]), _finite(found[3])
        if not low < high:
            raise UsageError(f"claim '{abridge(text)}': the interval is empty; write the smaller number first")
        return Between(found[2].strip(), low, high)
    if found := _SIDE.fullmatch(text):
        return OneSided(found[1].strip(), "<" if found[2] == "<" else ">", _finite(found[3]))
    raise UsageError(
        f"claim '{abridge(text)}' is not understood; write for example 'sex[F] < 0', '-0.1 < sex[F] < 0', "
        "'race[B] = race[C] within 0.01', 'trend of sex[F] over year > 0', 'accuracy within 0.1 > 0.8', 'residuals', 'roc'"
    )


def resolve(name: str, names: tuple[str, ...]) -> str:
    """The coefficient that a claim names, as the design calls it.

    >>> resolve("sex[F]", ("Intercept", "sex[T.F]")), resolve("mean", ("Intercept",))
    ('sex[T.F]', 'Intercept')
    """
    plain = {re.sub(r"\[T\.", "[", n): n for n in names}
    wanted = "Intercept" if name in ("mean", "share") and "Intercept" in names else name
    found = wanted if wanted in names else plain.get(re.sub(r"\[T\.", "[", wanted))
    if found is None:
        some = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise UsageError(f"the formula has no coefficient '{abridge(name)}'; there are: {some}")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise UsageError(f"a claim needs a finite number, got {abridge(text)}")
    return value


def _positive(text: str) -> float:
    value = _finite(text)
    if value <= 0:
        raise UsageError(f"'within' needs a number above 0, got {abridge(text)}")
    return value


def _within(text: str, low: float, high: float, what: str) -> float:
    value = _finite(text)
    if not low < value < high:
        raise UsageError(f"a claim about {what} needs a number between {low:g} and {high:g}, got {abridge(text)}")
    return value
