"""The researcher's side: a question from a release and nothing else, and how likely it is to get a clear answer.

Privacy
-------
Reads a release: post-processing, free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy

from dipsmith.confirm.claim import (
    Accuracy,
    AgreesWithRelease,
    Between,
    Claim,
    OneSided,
    Residuals,
    Roc,
    TrendOver,
    parse_claim,
)
from dipsmith.confirm.confirm import rehearse
from dipsmith.confirm.design import Combination, VoteDesign, is_category
from dipsmith.confirm.direct import DirectQuestion, can_be_direct
from dipsmith.confirm.power import (
    OFFERED,
    PartSize,
    VerdictChances,
    best_parts,
    enough_budget,
    most_parts,
    outlook,
    outlook_of_interval,
    outlook_of_share,
)
from dipsmith.confirm.predictions import Predictor
from dipsmith.confirm.question import Inquiry, Measure
from dipsmith.confirm.verdict import SURE
from dipsmith.confirm.votes import WIDE, combination_of, interval_of, vote_of
from dipsmith.counting.values import ValueReading
from dipsmith.errors import UsageError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.regression.analysis import Analysis, Family
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.model_frame import distinct_values
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.writing import digest

BINS: Final = 10
"""Of fitted values or scores."""
RESIDUALS: Final = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
"""Ends of bins of residuals, in standard deviations."""
REHEARSALS: Final = 3
CERTAIN: Final = 0.95
"""A direct estimate that is clear so often is preferred to a poll."""
PARTS: Final = 50
"""Of a poll about which nothing is known beforehand."""
_LEVEL = re.compile(r"(\w+)\[(?:T\.)?([^\]]*)\]")


@dataclass(frozen=True)
class Prospect:
    """What can be expected of a question, from the release alone.

    The release's estimate of what the claim is about, and its standard error; the chances of each verdict if the truth were
    there; and which number of parts and which budget would do better.
    """

    estimate: float | None
    std_error: float | None
    expected: VerdictChances | None
    parts: int | None
    enough: Budget | None
    offers: tuple[tuple[int, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        chances = (
            None
            if self.expected is None
            else {
                "confirmed": round(self.expected.confirmed, 4),
                "contradicted": round(self.expected.contradicted, 4),
                "cannot tell": round(self.expected.undecided, 4),
            }
        )
        enough = None if self.enough is None else {self.enough.currency: float(self.enough.exact)}
        return {
            "estimate": self.estimate,
            "std_error": self.std_error,
            "chances": chances,
            "proposed_parts": self.parts,
            "proposed_budget": enough,
            "clear_by_parts": [{"parts": m, "clear": round(p, 4)} for m, p in self.offers],
        }


def ask(
    release: Release | str | Path,
    formula: str,
    claim: str,
    *,
    budget: Budget,
    measure: Measure | None = None,
    parts: int | None = None,
    family: Family = "auto",
    reference: Mapping[str, str] | None = None,
    by: str = "",
    why: str = "",
) -> Inquiry:
    """Write down a question about the confidential rows behind a release.

    Parameters
    ----------
    release, formula, claim
        A release or its folder; a formula as `ds.fit` takes it; and a claim, such as ``"sex[F] < 0"``.
    budget, measure, parts
        What the answer may cost; "poll", "direct" (an estimate from noisy sums, taken where there is one) or "counts" (for
        claims about predictions); and of how many parts a poll is, proposed from the release when omitted.
    family, reference, by, why
        As for `ds.fit`; who asks, and why.
    """
    loaded = release if isinstance(release, Release) else Release.load(release)
    if loaded.folder is None:
        raise UsageError("the release was not saved yet: a question names it by the digest of its card")
    made = replace(draft(loaded, formula, claim, budget, measure, family, reference or {}), by=by, why=why)
    if measure is None and made.measure == "direct":
        made = _better(loaded, made)
    if made.measure != "poll":
        return made
    chosen = parts if parts is not None else (prospect(loaded, made).parts or PARTS)
    return replace(made, parts=chosen)


def _better(release: Release, direct: Inquiry) -> Inquiry:
    """The direct estimate, which tells more, unless a poll is likelier to give a clear answer."""
    poll = replace(direct, measure="poll", parts=PARTS)
    poll = replace(poll, parts=prospect(release, poll).parts or PARTS)
    clear = [0.0 if e is None else e.clear for e in (prospect(release, q).expected for q in (direct, poll))]
    return direct if clear[0] >= min(CERTAIN, clear[1]) else poll


def draft(
    release: Release,
    formula: str,
    claim: str,
    budget: Budget,
    measure: Measure | None,
    family: Family,
    reference: Mapping[str, str],
) -> Inquiry:
    """A question with the usual number of parts; refuses what could not be answered."""
    parsed, schema, folder = parse_claim(claim), release.schema, release.folder
    assert folder is not None
    references = _references(release, formula, parsed, reference)
    analysis = Analysis.of(formula, release.tables, schema=schema, reference=references, family=family)
    if analysis.family not in ("ols", "logistic"):
        raise UsageError(f"family '{analysis.family}' cannot be asked about; use ols or logistic")
    design = VoteDesign.of(formula, schema, analysis.family, references)
    text = " ".join(formula.split())
    predicts = isinstance(parsed, Accuracy | Residuals | Roc)
    if measure is None and not predicts:
        measure = "direct" if can_be_direct(text, parsed, design, references) else "poll"
    known = None
    if isinstance(parsed, AgreesWithRelease):
        value, error = _estimate(release, design, analysis, parsed)
        known = (_short(value), _short(error))
    made = Inquiry(
        dataset=release.card.dataset,
        release=digest(folder / "card.json"),
        formula=text,
        claim=str(parsed),
        budget=budget,
        measure=measure or "counts",
        parts=PARTS if measure == "poll" else None,
        family=design.family,
        reference=tuple(references.items()),
        known=known,
        **(_model(analysis, release.tables[0], parsed) if predicts else {}),
    )
    if made.measure == "poll" and not isinstance(parsed, Accuracy | Residuals | Roc):
        vote_of(parsed, design, PARTS, known)
    elif made.measure == "direct":
        DirectQuestion.of(text, parsed, design, references)
    else:
        Predictor.of(made, design)
    return made


def _model(analysis: Analysis, table: pa.Table, claim: Claim) -> dict[str, Any]:
    """The coefficients of a model of the release, and bins for what it predicts there."""
    found, frame = analysis(table), analysis.frame(table)
    b = np.array([_short(v) if np.isfinite(v) else 0.0 for v in found.values])
    model = tuple((n, float(v)) for n, v in zip(found.names, b, strict=True) if v)
    place = [found.names.index(name) for name in frame.names]
    fitted = frame.X @ b[place]
    fitted = scipy.special.expit(fitted) if analysis.family == "logistic" else fitted
    if isinstance(claim, Accuracy):
        return {"model": model}
    bins = tuple(sorted({_short(v) for v in np.quantile(fitted, np.arange(1, BINS) / BINS)}))
    if isinstance(claim, Roc):
        return {"model": model, "edges": (("score", bins),)}
    spread = float(np.std(frame.y - fitted)) or 1.0
    return {"model": model, "edges": (("fitted", bins), ("residual", tuple(_short(spread * k) for k in RESIDUALS)))}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def prospect(release: Release, question: Inquiry) -> Prospect:
    """What can be expected of a poll, if the truth is what the release says."""
    schema, budget, relation = release.schema, question.budget, str(release.schema.priced_as)
    design = VoteDesign.of(question.formula, schema, question.family, dict(question.reference))
    claim = question.parsed_claim
    parts = question.parts or PARTS
    most, size = most_parts(release.card.rows, len(design.names)), _part_size(release, design, claim)
    analysis = Analysis.of(
        question.formula, release.tables, schema=schema, reference=dict(question.reference), family=design.family
    )
    if isinstance(claim, AgreesWithRelease) and question.known is not None and question.measure == "poll":
        offers = tuple((m, _agreement(m, budget, relation, size).clear) for m in OFFERED if m <= most)
        best = max(offers, key=lambda o: (round(o[1], 3), -o[0]), default=(parts, 0.0))[0]
        return Prospect(*question.known, _agreement(parts, budget, relation, size), best, None, offers)
    value, error = _estimate(release, design, analysis, claim)
    if question.measure == "direct":
        return _direct_prospect(release, question, value)
    if not error > 0:
        return Prospect(value, None, None, None, None)
    if isinstance(claim, Between):
        ends = (value - claim.low) / error, (claim.high - value) / error
        offers = tuple(
            (m, outlook_of_interval(*ends, m, budget, relation, size).clear) for m in OFFERED if m <= min(most, 100)
        )
        best = max(offers, key=lambda o: round(o[1], 3), default=(parts, 0.0))[0]
        return Prospect(value, error, outlook_of_interval(*ends, parts, budget, relation, size), best, None, offers)
    z = _distance(claim, value) / error
    offers = tuple((m, outlook(z, m, budget, relation, size).clear) for m in OFFERED if m <= most)
    best, enough = best_parts(z, budget, relation, most, size), enough_budget(z, budget, relation, most, size)
    return Prospect(value, error, outlook(z, parts, budget, relation, size), best, enough, offers)


def _part_size(release: Release, design: VoteDesign, claim: Claim) -> PartSize:
    """What the release tells of the parts' size; of a trend, whose estimates are of one value of its column each."""
    table, rows = release.tables[0], float(release.card.rows)
    counted = [
        table.group_by(list(effect)).aggregate([([], "count_all")])["count_all"] for effect in design.formula.fixed
    ]
    effects = tuple(counts.to_numpy() / max(1, table.num_rows) for counts in counted)
    if isinstance(claim, TrendOver):
        rows /= max(1, len(distinct_values([table], claim.over)))
    return PartSize(rows, len(design.names), effects)


def _agreement(parts: int, budget: Budget, relation: str, size: PartSize) -> VerdictChances:
    """The chances if the release is right: a part's estimate lies in its interval, which is made √parts as wide."""
    share = 2 * float(scipy.special.ndtr(WIDE * sqrt(parts) * size.shrink(parts))) - 1
    return outlook_of_share(share, parts, budget, relation)


def _direct_prospect(release: Release, question: Inquiry, value: float) -> Prospect:
    """The chances of a direct estimate, by answering the question about the synthetic rows in place of the confidential ones.

    Noisy sums may come out unlucky, so that the error is the middle one of a few rehearsals.
    """
    k = int(release.card.unit.get("max_rows", 1))
    budget = question.budget.split(k if isinstance(question.budget, PureDP) else k * k)[0]
    rehearsed = replace(question, budget=budget)
    errors = [
        float(rehearse(rehearsed, release.tables[0], release.schema, seed=seed).details.get("std_error", inf))
        for seed in range(REHEARSALS)
    ]
    error, sure, claim = sorted(errors)[REHEARSALS // 2], float(scipy.special.ndtri(SURE)), question.parsed_claim
    if error == inf:
        return Prospect(value, None, VerdictChances(0.0, 0.0), None, None)
    if isinstance(claim, OneSided):
        z = _distance(claim, value) / error
        chances = scipy.special.ndtr((z - sure, -z - sure)).tolist()
        return Prospect(value, error, VerdictChances(*chances), None, None)
    assert isinstance(claim, Between | AgreesWithRelease)
    low, high = interval_of(claim, question.known)
    inside = min((value - low) / error, (high - value) / error)
    clear = float(scipy.special.ndtr(inside - sure)) if (high - low) / error > 2 * sure else 0.0
    return Prospect(value, error, VerdictChances(clear, float(scipy.special.ndtr(-inside - sure))), None, None)


def _distance(claim: Claim, value: float) -> float:
    """How far on the claimed side of its threshold a value lies."""
    if isinstance(claim, OneSided):
        return claim.value - value if claim.side == "<" else value - claim.value
    if isinstance(claim, TrendOver):
        return -value if claim.side == "<" else value
    raise UsageError("this claim has no threshold")


def _estimate(release: Release, design: VoteDesign, analysis: Analysis, claim: Claim) -> tuple[float, float]:
    """What the release says of the quantity that a claim is about, and its standard error."""
    if isinstance(claim, TrendOver):
        return _slope(release, design, analysis, claim)
    if not isinstance(claim, OneSided | Between | AgreesWithRelease):
        raise UsageError("this claim is about no coefficient")
    return _value(analysis(release.tables[0]), combination_of(claim, design))


def _value(found: Estimates, wanted: Combination) -> tuple[float, float]:
    at = [found.names.index(name) for name, _ in wanted.weights if name in found.names]
    if len(at) < len(wanted.weights):
        raise UsageError("the release does not tell the coefficient that the claim is about")
    weights = np.array([weight for _, weight in wanted.weights])
    variance = float(weights @ found.covariance[np.ix_(at, at)] @ weights)
    return float(weights @ found.values[at]), sqrt(max(variance, 0.0))


def _slope(release: Release, design: VoteDesign, analysis: Analysis, claim: TrendOver) -> tuple[float, float]:
    """The slope of the coefficient over the values of a column, each estimated by itself, as a part would."""
    table = release.tables[0]
    wanted = combination_of(claim, design)
    reading = vote_of(claim, design, PARTS).reading
    place = {level: i for i, level in enumerate(reading.list_levels(claim.over))}
    found = []
    for text in distinct_values([table], claim.over):
        rows = table.filter(pc.equal(table.column(claim.over).cast("string"), text))
        try:
            found.append((float(place.get(text, 0)), *_value(analysis(rows), wanted)))
        except UsageError:
            continue
    if len(found) < 2:
        raise UsageError(f"the release has too few values of '{claim.over}' for a trend")
    at, values, errors = np.array(found).T
    weights = (at - at.mean()) / float((at - at.mean()) @ (at - at.mean()))
    return float(weights @ values), float(np.sqrt(weights**2 @ errors**2))


def _references(release: Release, formula: str, claim: Claim, given: Mapping[str, str]) -> dict[str, str]:
    """For every category of the formula the level that others are compared with: never one that the claim names, if possible."""
    schema = release.schema
    parts = RegressionFormula.parse(formula, schema.names)
    named = set(_LEVEL.findall(str(claim)))
    found: dict[str, str] = {}
    for name in parts.columns:
        if name not in parts.inside or name == parts.response_column:
            continue
        if not (is_category(schema, name) or name in parts.factors or name in given):
            continue
        occurring = set(distinct_values(release.tables, name))
        listed = ValueReading(schema, (), (name,)).list_levels(name)
        levels = [v for v in listed if v in occurring] or list(listed)
        free = [v for v in levels if (name, v) not in named]
        found[name] = given.get(name) or (levels[0] if (name, levels[0]) not in named else (free or levels)[0])
    for name in given:
        if name not in found:
            raise UsageError(f"reference names '{name}', which is no category of the formula")
    return found
