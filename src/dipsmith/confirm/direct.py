"""Claims about a private column's coefficient under `label`, answered by a direct estimate from noisy sums.

Where response and controls are public, a coefficient of a private column follows from a few sums (`dipsmith.analyses`):
bought at the question's price they give an estimate with an interval that knows the noise, which tells more than a poll. The
claim is judged by the normal law of the estimate about the truth, no value being likelier than another before.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np
import scipy

from dipsmith.analyses.measure import require_payable
from dipsmith.analyses.results import Result
from dipsmith.confirm.answer import MeasuredClaim
from dipsmith.confirm.claim import AgreesWithRelease, Between, Claim, OneSided
from dipsmith.confirm.design import Combination, VoteDesign
from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.verdict import LEVEL, verdict_of
from dipsmith.confirm.votes import combination_of, interval_of
from dipsmith.errors import HopelessNoise, SchemaError, UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.sources import Source
from dipsmith.synthesis.planned import PreparedAnalyses, PublicReading, require_designs

_COEFFICIENT: Final = re.compile(r"(\w+)\[T\.[^\]]*\]")


@dataclass(frozen=True, eq=False)
class DirectQuestion:
    """A claim that noisy sums can answer: the analysis to buy, and the combination of its coefficients."""

    analysis: PlannedAnalysis
    combination: Combination
    claim: OneSided | Between | AgreesWithRelease

    @classmethod
    def of(cls, formula: str, claim: Claim, design: VoteDesign, reference: dict[str, str]) -> DirectQuestion:
        """Refuses, while nothing is spent, what sums cannot answer."""
        schema = design.reading.schema
        if schema.neighbours != "label":
            raise UnsupportedError("direct estimates are for neighbours 'label'; ask for a poll")
        if not isinstance(claim, OneSided | Between | AgreesWithRelease) or design.family != "ols":
            raise UnsupportedError(f"claim '{claim}' has no direct estimate; ask for a poll")
        wanted = combination_of(claim, design)
        for name, _ in wanted.weights:
            found = _COEFFICIENT.fullmatch(name)
            if found is None or found[1] not in schema.private:
                raise UnsupportedError(
                    f"'{name}' is no level of a private column, so that sums do not tell it; ask for a poll"
                )
        analysis = PlannedAnalysis(formula, model="ols", reference=tuple(reference.items()))
        try:
            require_designs((analysis,), schema)
        except (SchemaError, UsageError) as error:
            raise UnsupportedError(f"there is no direct estimate of this formula ({error}); ask for a poll") from None
        return cls(analysis, wanted, claim)

    def read(self, schema: Schema, private: Source, budget: Budget) -> PublicReading:
        """Read the public columns, which are free; what they cannot answer is refused while nothing is spent."""
        found = PublicReading.of((self.analysis,), schema, private)
        require_payable(schema, found.designs, found.kind_counts, budget, all_of_it=True)
        return found

    def measure(self, question: Inquiry, curator: Curator, public: PublicReading) -> MeasuredClaim:
        """Buy the sums and estimate.

        Privacy
        -------
        See `PreparedAnalyses.measure`; what follows is post-processing.
        """
        with warnings.catch_warnings():
            # From public facts; the answer says the same in its interval.
            warnings.simplefilter("ignore", HopelessNoise)
            prepared = PreparedAnalyses.of(public, curator)
            if not prepared.agenda.parts:  # rows without a unit count nowhere
                return judge_estimate(self.claim, None, inf)
            (result,) = prepared.measure(curator, question.budget).estimate(()).results
        return judge_estimate(self.claim, *value_of(result, self.combination), known=question.known)


def value_of(result: Result, wanted: Combination) -> tuple[float | None, float]:
    """The value of a combination of coefficients, None where the noise hides it, and its standard error."""
    names = [c.name for c in result.coefficients]
    at = [names.index(name) for name, _ in wanted.weights if name in names]
    told = [result.coefficients[i].estimate for i in at]
    if len(at) < len(wanted.weights) or any(v is None for v in told):
        return None, inf
    weights = np.array([weight for _, weight in wanted.weights])
    variance = float(weights @ np.array(result.covariance)[np.ix_(at, at)] @ weights)
    return float(weights @ np.array([v for v in told if v is not None])), sqrt(max(variance, 0.0))


def judge_estimate(
    claim: OneSided | Between | AgreesWithRelease,
    value: float | None,
    error: float,
    known: tuple[float, float] | None = None,
) -> MeasuredClaim:
    """The probability that a claim holds, given an estimate with its standard error."""
    if value is None or not 0 < error < inf:
        return MeasuredClaim("cannot tell", "", "", probability=0.5)
    if isinstance(claim, OneSided):
        distance = claim.value - value if claim.side == "<" else value - claim.value
        sure = float(scipy.special.ndtr(distance / error))
    else:
        low, high = interval_of(claim, known)
        sure = float(scipy.special.ndtr((high - value) / error) - scipy.special.ndtr((low - value) / error))
    z = float(scipy.special.ndtri((1 + LEVEL) / 2))
    ends = value - z * error, value + z * error
    return MeasuredClaim(verdict_of(sure), "", "", value, ends, sure, {"std_error": error})


def can_be_direct(formula: str, claim: Claim, design: VoteDesign, reference: dict[str, str]) -> bool:
    """Whether sums can answer a claim."""
    try:
        DirectQuestion.of(formula, claim, design, reference)
    except (UnsupportedError, UsageError):
        return False
    return True
