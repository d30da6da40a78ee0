"""Claims: sentences about a study that its results can refute, checked each time it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.arrays import Bools
from dipsmith.errors import InputError
from dipsmith.experiments.anova import anova
from dipsmith.experiments.design import label_of
from dipsmith.experiments.metrics import cost, registered_metric
from dipsmith.experiments.results import Response, Results
from dipsmith.experiments.study import ClaimEntry
from dipsmith.report.sections import number


@dataclass(frozen=True)
class ClaimResult:
    """A claim, what was found, and whether it holds."""

    says: str
    finding: str
    holds: bool


def check(results: Results) -> list[ClaimResult]:
    """Hold every claim of the study against its results."""
    return [
        (_about_term if claim.term else _about_means)(
            claim, select_runs(results.response(claim.metric, claim.coefficient), claim.where)
        )
        for claim in results.study.claims
    ]


def _about_means(claim: ClaimEntry, response: Response) -> ClaimResult:
    metrics = {claim.metric: metric} if (metric := registered_metric(claim.metric)) else {}
    sides = [select_runs(response, levels) for levels in (claim.better, claim.than)]
    means = [float(np.nanmean(side.values)) for side in sides]
    references = [float(np.mean(side.references)) for side in sides]
    better, than = (cost(claim.metric, m, r, metrics) for m, r in zip(means, references, strict=True))
    found = f"{number(means[0])} against {number(means[1])} ({_doubt(*sides)})"
    return ClaimResult(claim.says, found, better < than)


def _about_term(claim: ClaimEntry, response: Response) -> ClaimResult:
    table = anova(response)
    wanted = set(claim.term)
    term = next((t for t in table.terms if set(t.factors) == wanted), None)
    if term is None:
        raise InputError(
            f"claim '{claim.says}': {' × '.join(claim.term)} is no term; there are: {', '.join(t.name for t in table.terms)}"
        )
    p = "not known" if term.p != term.p else "< 0.0001" if term.p < 1e-4 else f"= {term.p:.2g}"
    found = f"{term.share:.1%} of the variation, p {p}"
    if claim.largest:
        first = table.terms[0]
        return ClaimResult(claim.says, f"{found}; the largest term is {first.name}", set(first.factors) == wanted)
    if claim.share_below is not None:
        holds = term.share < claim.share_below
    elif claim.share_above is not None:
        holds = term.share > claim.share_above
    else:
        holds = term.p < (claim.p_below or 0.0)
    return ClaimResult(claim.says, found, holds)


def select_runs(response: Response, levels: Mapping[str, Any]) -> Response:
    """The runs with these levels."""
    kept = np.ones(len(response.values), dtype=bool)
    for name, level in levels.items():
        if name not in response.factors:
            raise InputError(f"'{name}' is not varied in this study; there are: {', '.join(response.factors)}")
        wanted = [label_of(v) for v in (level if isinstance(level, list) else [level])]
        parts = response.numbers[name].range.labels if name in response.numbers else ()
        if parts and not set(wanted) <= set(parts):
            kept &= _between(name, level, response)
        else:
            kept &= np.isin(response.factors[name], wanted)
    if not kept.any():
        raise InputError(f"no run has {', '.join(f'{k} = {v}' for k, v in levels.items())}")
    return response.where(kept)


def _between(name: str, level: Any, response: Response) -> Bools:
    """The runs whose number lies in a part of the range, ends included."""
    ends = level if isinstance(level, Mapping) else {}
    if not ends or set(ends) - {"from", "to"} or not all(isinstance(v, int | float) for v in ends.values()):
        raise InputError(
            f"'{name}' is a range; choose a part of it, as in {name}: {{from: 1, to: 2}} (one end is enough)"
        )
    values = response.numbers[name].values
    return np.asarray((values >= ends.get("from", -np.inf)) & (values <= ends.get("to", np.inf)))


def _doubt(better: Response, than: Response) -> str:
    """The standard error of a difference of means, from its spread over repeats.

    Within a repeat all settings see the same rows, and both sides average over the same other parameters: neither the
    sample nor those parameters add to the error of the difference.
    """
    differences = []
    for repeat in sorted(set(better.repeat.tolist()) & set(than.repeat.tolist())):
        one, other = (side.values[side.repeat == repeat] for side in (better, than))
        if np.isfinite(one).any() and np.isfinite(other).any():
            differences.append(float(np.nanmean(one) - np.nanmean(other)))
    if len(differences) < 2:
        return "one repeat"
    spread = float(np.std(differences, ddof=1) / np.sqrt(len(differences)))
    return f"standard error of the difference {number(spread)}, {len(differences)} repeats"
