"""Weighted least squares from a release with a survey weight: estimates from noisy tables, design-aware intervals.

X′WX and X′Wy are sums over tables of two terms and the weight. Where these were measured (a planned analysis measures
them), each bin of the weight is taken for its mean under its law, the tables are folded by it, and the estimate is that of
direct least squares (`dipsmith.analyses.pairs`): linear in the noisy counts, without the bias of a model. Noise is drawn
again through the same equations. The sampling of people has the robust covariance of a sample drawn with unequal
probabilities, found in the synthetic rows. Nothing else gets an interval: the rows alone are biased by far more than a second
run of the mechanism shows (slopes lost a fifth, and a second run saw half of that).

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.complete_cases import complete_cases, never_missing
from dipsmith.analyses.odds import HIDDEN
from dipsmith.analyses.pairs import estimate_from_tables, find_unmeasured
from dipsmith.arrays import Floats
from dipsmith.errors import NotCarried, UsageError
from dipsmith.inference.combine import Combined
from dipsmith.inference.direct import References, estimates_of
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.estimates import Estimates, Estimator
from dipsmith.schema import Bins, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.synthesis.answers import loses_a_term, noisy_tables
from dipsmith.synthesis.gaps import Gap
from dipsmith.synthesis.release import Release

RULE = "Direct estimates from noisy tables that hold these columns with the weight"
DESIGN = "Intervals are for a sample drawn with unequal probabilities, without strata or clusters."


def weighted_estimate(
    release: Release, analysis: Analysis, asked: str, references: References, estimate: Estimator
) -> tuple[Combined, Estimates]:
    """A weighted regression of a release, or a sentence that says why it cannot tell; `estimate` fits one set of rows."""
    schema, weight = release.schema, str(analysis.weights)
    if schema.weight != weight:
        own = f"it is '{schema.weight}'" if schema.weight else "this release has none (role: weight)"
        raise UsageError(f"weights is '{weight}', which is no survey weight of this release: {own}")
    if schema.unit.order is not None or release.card.each == "split":
        raise NotCarried(
            f"this release cannot tell '{asked}', weighted by {weight}: rows are linked, or sets share no table"
        )
    if analysis.robust or analysis.cluster is not None:
        raise UsageError("weighted rows have robust errors of their own; leave robust and cluster out")
    planned = PlannedAnalysis(asked, model="ols")
    if weight in planned.columns:
        raise UsageError(f"'{weight}' weighs the rows of '{asked}' and is also one of its columns; leave one out")
    names = never_missing(analysis.formula, planned.by)
    schema, tables, _ = complete_cases(schema, noisy_tables(release), None, names)
    if find_unmeasured(planned, schema, [t.attributes for t in tables]):
        raise NotCarried(
            f"this release cannot tell '{asked}', weighted by {weight}: no noisy tables hold every two of its columns with "
            f'the weight; ask the steward to plan it (--analysis "{asked}")'
        )
    others = schema.project([n for n in schema.names if n != weight])
    folded = [fold(t, schema, weight) for t in tables if weight in t.attributes]
    found = estimate_from_tables(planned, others, [t for t in folded if t.attributes], rows=None)
    if (refusal := next((part.refusal for part in found if part.refusal), None)) is not None:
        raise NotCarried(Gap(f"{asked}, weighted by {weight}", refusal.reason, refusal.ask).sentence)
    if any(loses_a_term(part) for part in found):
        raise NotCarried(Gap(f"{asked}, weighted by {weight}", HIDDEN.reason, HIDDEN.ask).sentence)
    doubt = np.array([c.doubt for part in found for c in part.coefficients])
    combined, _ = estimates_of(found, release, references, RULE)
    rows = [Estimates.of(estimate(table), table.num_rows) for table in release.tables]
    within, covariance = _sampling(combined.names, rows)
    variance = (np.sqrt(combined.noise + within) + doubt) ** 2
    notes = tuple(n for n in combined.notes if "independent" not in n)
    made = replace(combined, within=within, variance=variance, notes=(*notes, DESIGN))
    estimates = Estimates(
        made.names, made.estimate, covariance + np.diag(made.noise), rows[0].rows, float(made.df.min())
    )
    return made, estimates


def fold(table: NoisyMarginal, schema: Schema, weight: str) -> NoisyMarginal:
    """A noisy table without the weight: rows counted by the mean weight of their bin, a share of the largest one."""
    domain = schema[weight].domain
    assert isinstance(domain, Bins)
    mean = mean_weights(domain) / domain.maximum
    axis = table.attributes.index(weight)
    names = tuple(n for n in table.attributes if n != weight)
    values = np.tensordot(table.values, mean, (axis, 0))
    return NoisyMarginal(names, values, np.tensordot(table.variance, mean**2, (axis, 0)), False)


def mean_weights(domain: Bins) -> Floats:
    """The mean of a value drawn within each bin, by the law of the bins.

    >>> from dipsmith.schema.bins import by_count
    >>> mean_weights(by_count("number", 0, 4, 2)).tolist()
    [1.0, 3.0]
    """
    low, high = domain.cuts[:-1], domain.cuts[1:] - domain.whole
    middle = (low + high) / 2
    if domain.law != "log":
        return np.asarray(middle)
    even = (low <= 0) | (high <= low)
    ratio = np.where(even, 2.0, high / np.where(low > 0, low, 1.0))
    return np.asarray(np.where(even, middle, (high - low) / np.log(ratio)))


def _sampling(names: tuple[str, ...], rows: list[Estimates]) -> tuple[Floats, Floats]:
    """The sampling variance of each estimate and their covariance, averaged over sets; NaN where rows do not tell."""
    covariance = np.full((len(names), len(names)), np.nan)
    known = [n for n in names if n in rows[0].names]
    at, own = [names.index(n) for n in known], [rows[0].names.index(n) for n in known]
    covariance[np.ix_(at, at)] = np.mean([e.covariance[np.ix_(own, own)] for e in rows], axis=0)
    return np.diag(covariance).copy(), covariance
