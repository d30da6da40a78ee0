"""Direct estimates as tables of coefficients: from what was planned for a formula, or from noisy tables that hold all it needs.

`dipsmith.synthesis.answers` decides whether there are any and finds them; here they are told with the reference that was
asked for. A planned analysis has its result in the release. Otherwise least squares of whole rows needs the cross-tables of
every two of its terms, and a logistic regression one table that holds all of its columns.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.analyses.agreed_tables import AgreedTables
from dipsmith.analyses.direct import DRAWS
from dipsmith.analyses.pairs import RARE
from dipsmith.analyses.results import Result
from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.inference.combine import Combined
from dipsmith.inference.parts import stack_combined, stack_parts
from dipsmith.privacy.randomness import generator
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.matrix import INTERCEPT
from dipsmith.synthesis.answers import AnswerRoute, noisy_tables, planned_references, public_rows
from dipsmith.synthesis.release import Release

PLANNED = "Direct estimates from the noisy sums that were planned for this analysis"
MEASURED = "Direct estimates from the noisy tables that hold these columns"

Estimated = tuple[Combined, Estimates]
"""What is printed, and what tests of several coefficients together need."""

References = Mapping[str, object]


def direct_estimate(release: Release, answer: AnswerRoute, asked: str, references: References) -> Estimated:
    """The results of an answer, with the references that were asked for."""
    labels = release.schema.neighbours == "label"
    if answer.planned:
        # Sums are planned for the reference that was agreed; tables know no reference, and tell the schema's first.
        told = planned_references(release, asked) if labels else {}
        return _as_estimated(answer.results, release, references, PLANNED, told)
    return _as_estimated(answer.results, release, {} if labels else references, MEASURED, {})


def estimates_of(found: Sequence[Result], release: Release, references: References, rule: str) -> Estimated:
    """Results of tables of whole rows, changed from the schema's first levels to the references that were asked for."""
    return _as_estimated(found, release, references, rule, {})


@dataclass(frozen=True, eq=False)
class NoisyPair:
    """The noisy counts of two columns together, and their noise drawn again: draws first."""

    counts: Floats
    noise: Floats

    def told_apart(self) -> NoisyPair:
        """Without the levels that noise hides: their rows and columns are 0."""
        kept = [self.counts.sum(axis=1 - axis) > RARE * self.noise.sum(axis=2 - axis).std(axis=0) for axis in (0, 1)]
        inside = np.outer(*kept)
        return NoisyPair(self.counts * inside, self.noise * inside)


def measured_pair(release: Release, first: str, second: str, draws: int = DRAWS) -> NoisyPair | None:
    """What noisy tables say of two columns together; None where they do not hold both, under `label` two private ones."""
    schema, random = release.schema, generator(0)
    if not {first, second} <= set(schema.names):
        return None
    shape = schema[first].size, schema[second].size
    if schema.neighbours == "label":
        if schema[first].role != "private" or schema[second].role != "private":
            return None
        sums = release.label_tables.whole.joint((first, second))
        if sums is None:
            return None
        found = sums.measured_sums()[""].reshape(shape), sums.redraw(random, draws)[""].reshape(-1, *shape)
        return NoisyPair(*found).told_apart()
    tables = noisy_tables(release)
    names = tuple(n for n in schema.names if n in (first, second))
    if not any(set(names) <= set(t.attributes) for t in tables):
        return None
    rows = None if schema.rules else public_rows(release)
    total = None if rows is None else float(rows)
    agreed = AgreedTables.of(tables, [names], {a.name: a.size for a in schema}, total)
    counts, noise = agreed.table(names, agreed.measured_sums())[0], agreed.table(names, agreed.redraw(random, draws))
    if names != (first, second):
        counts, noise = counts.T, noise.transpose(0, 2, 1)
    return NoisyPair(counts, noise).told_apart()


def _as_estimated(
    found: Sequence[Result], release: Release, references: References, rule: str, told: References
) -> Estimated:
    """Results as a table of coefficients, those of all parts together, with other references than they are `told` with."""
    each = [_one(r, release, references, rule, told) for r in found]
    if found[0].part is None:
        return each[0]
    parts = [str(r.part) for r in found]
    return (
        stack_combined([(part, combined) for part, (combined, _) in zip(parts, each, strict=True)]),
        stack_parts([(part, estimates) for part, (_, estimates) in zip(parts, each, strict=True)]),
    )


def _one(found: Result, release: Release, references: References, rule: str, told: References) -> Estimated:
    parts = _Coefficients.of(found)
    for name, level in references.items():
        base = str(told.get(name, release.schema[name].labels[0]))
        parts = parts.relative_to(name, base, str(level), found.formula)
    variance, noise = np.diag(parts.covariance), np.diag(parts.noise)
    combined = Combined(
        names=parts.names,
        estimate=parts.values,
        within=variance - noise,
        between=np.zeros(len(variance)),
        noise=noise,
        variance=variance,
        df=np.full(len(variance), found.df),
        sets=1,
        rule=rule,
        notes=found.notes,
    )
    return combined, Estimates(parts.names, parts.values, parts.covariance, found.rows, found.df)


@dataclass(frozen=True, eq=False)
class _Coefficients:
    """Coefficients with their covariance, and the part of it that is noise; NaN where they are hidden by noise."""

    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    noise: Floats

    @classmethod
    def of(cls, found: Result) -> _Coefficients:
        told = [c.estimate is not None for c in found.coefficients]
        values = np.array([np.nan if c.estimate is None else c.estimate for c in found.coefficients])
        share = np.sqrt([0.0 if c.noise_share is None else c.noise_share for c in found.coefficients])
        covariance = np.where(np.outer(told, told), np.array(found.covariance), np.nan)
        return cls(tuple(c.name for c in found.coefficients), values, covariance, covariance * np.outer(share, share))

    def relative_to(self, name: str, told: str, level: str, formula: str) -> _Coefficients:
        """The same with another level of a column as reference than it is told with: differences of coefficients."""
        if level == told:
            return self
        old, new = f"{name}[T.{told}]", f"{name}[T.{level}]"
        of_column = [i for i, n in enumerate(self.names) if n.startswith(f"{name}[")]
        if new not in self.names or any(f"{name}[" in n and (":" in n) for n in self.names):
            raise UsageError(
                f"'{formula}' is told with {name} = {told} as reference, got {level}; leave reference out, and take "
                "differences of coefficients"
            )
        at, change = self.names.index(new), np.eye(len(self.names))
        change[of_column, at] = -1.0
        if INTERCEPT in self.names:
            change[self.names.index(INTERCEPT), at] = 1.0
        return replace(
            self,
            names=tuple(old if n == new else n for n in self.names),
            values=_apply(change, self.values),
            covariance=_apply(change, _apply(change, self.covariance).T),
            noise=_apply(change, _apply(change, self.noise).T),
        )


def _apply(change: Floats, values: Floats) -> Floats:
    """A linear change that spreads NaN only to what depends on it."""
    unknown = np.isnan(values)
    found = change @ np.where(unknown, 0.0, values)
    return np.asarray(np.where((change != 0).astype(float) @ unknown > 0, np.nan, found))
