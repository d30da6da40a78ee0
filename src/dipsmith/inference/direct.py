"""Direct estimates of a formula: from what was planned for it, or from noisy tables that hold all it needs.

Neither depends on what the synthetic rows carry, and neither needs the mechanism to be run again. A planned analysis has
its result in the release. Otherwise least squares of whole rows needs the cross-tables of every two of its terms; where
all of them were measured, coefficients follow from the noisy tables themselves (`dipsmith.analyses.pairs`). A logistic
regression needs one table that holds all of its columns (`dipsmith.analyses.odds`).

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from dipsmith.analyses.agreed_tables import AgreedTables, NoisyMarginal
from dipsmith.analyses.direct import DRAWS, estimate_from, is_logistic
from dipsmith.analyses.measure import Agenda
from dipsmith.analyses.odds import odds_from_tables
from dipsmith.analyses.pairs import RARE, estimate_from_tables, unmeasured
from dipsmith.analyses.results import Result, result_for
from dipsmith.errors import NotCarried, UsageError
from dipsmith.inference.combine import Combined
from dipsmith.inference.label_tables import LabelTables
from dipsmith.inference.parts import split_by, stack_combined, stack_parts
from dipsmith.privacy.randomness import generator
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.estimates import Estimates, Float
from dipsmith.regression.matrix import INTERCEPT
from dipsmith.schema.analysis import Model, PlannedAnalysis
from dipsmith.synthesis.release import Release

LEVEL: Final = re.compile(r"\[(?:T\.)?.*?\](?=:|$)")
"""The level in a coefficient's name: what it leaves is the term."""

MODELS: Final = {"ols": "least squares", "logistic": "logistic"}
"""What results call a family: the odds that were asked for are not told by differences of shares that were planned."""

PLANNED = "Direct estimates from the noisy sums that were planned for this analysis"
SWAMPED = (
    "this release cannot say: the noise of the tables that hold these columns is as large as what they count; ask the steward "
    "for a larger budget, or for coarser labels"
)
MEASURED = "Direct estimates from the noisy tables that hold these columns"


Estimated = tuple[Combined, Estimates]
"""What is printed, and what tests of several coefficients together need."""

References = Mapping[str, object]


def term_of(name: str) -> str:
    """The term of a coefficient: its name without levels, and without the part of the rows that it is about.

    >>> term_of("year 1996: race[T.B]:age")
    'race:age'
    """
    return LEVEL.sub("", name).rsplit(": ", 1)[-1]


def planned_estimate(release: Release, analysis: Analysis, asked: str, references: References) -> Estimated | None:
    """What the release says of a formula that was planned; None where it was not, or as another model."""
    found = [r for r in result_for(release.results, asked) if r.model == MODELS.get(analysis.family)]
    if any(_loses_a_term(part) for part in found):
        raise NotCarried(SWAMPED)
    # Sums are planned for the reference that was agreed; tables know no reference, and tell the schema's first.
    told = planned_references(release, asked) if release.schema.neighbours == "label" else {}
    return _estimated(found, release, references, PLANNED, told) if found else None


def planned_references(release: Release, formula: str) -> dict[str, str]:
    """The levels that others are compared with, as they were agreed for a planned formula; none where it was not planned."""
    asked = " ".join(formula.split())
    planned = (PlannedAnalysis.of(a) for a in release.card.analyses)
    return next((dict(a.reference) for a in planned if " ".join(a.text.split()) == asked), {})


def measured_estimate(release: Release, analysis: Analysis, asked: str, references: References) -> Estimated | None:
    """What measured tables say of a formula; None where they do not hold all of it. Raises where they are all noise."""
    if analysis.family not in ("ols", "logistic"):
        return None
    labels = release.schema.neighbours == "label"
    try:
        # Under `label` the design itself knows the reference; tables of whole rows are told with the schema's first level.
        found = (
            _from_labels(release, asked, analysis.family, references)
            if labels
            else _from_tables(release, asked, analysis)
        )
    except UsageError:
        return None  # missing values, or a term without a value in some bin: synthetic rows may still tell
    if not found:
        return None
    if any(_loses_a_term(part) for part in found):
        raise NotCarried(SWAMPED)
    return _estimated(found, release, {} if labels else references, MEASURED, {})


def _from_tables(release: Release, asked: str, analysis: Analysis) -> Sequence[Result]:
    """What noisy tables of whole rows say, once or for each part of the rows."""
    tables = _noisy_tables(release)
    schema, rows = release.schema, _public_rows(release)
    if analysis.family == "logistic":
        one = None if split_by(asked)[1] else odds_from_tables(analysis.formula, schema, tables, rows=rows)
        return [] if one is None else [one]
    planned = PlannedAnalysis(asked, model="ols")
    if unmeasured(planned, schema, [t.attributes for t in tables]):
        return []
    return estimate_from_tables(planned, schema, tables, rows=rows)


def _from_labels(release: Release, asked: str, family: str, references: References) -> Sequence[Result]:
    """What noisy label tables say beside public columns; nothing where they do not determine its sums."""
    reference = tuple((n, str(level)) for n, level in references.items())
    planned = PlannedAnalysis(asked, model=cast("Model", family), reference=reference)
    tables = LabelTables.of(release)
    found = []
    for part in Agenda.of([planned], release.schema, tables.public, tables.often).all_parts:
        model = "logistic" if is_logistic(part.layout) else "least squares"
        if model != MODELS[family] or (sums := tables.sums(part.layout)) is None:
            return []
        found.append(Result.of(planned.text, model, part.value, estimate_from(part.layout, sums)))
    return found


def _noisy_tables(release: Release) -> list[NoisyMarginal]:
    """The tables of whole rows; of one that a set was asked for again only the last answer.

    A method that looks for what fits badly (AIM) asks again where its first answer was far off by chance. Averaged with it,
    the noise is larger than its law says: noise of the coefficient that this happens to most had 1.06 times its standard
    error (387 releases), and .99 by the last answers alone.
    """
    last: dict[tuple[str, tuple[str, ...]], NoisyMarginal] = {}
    for table in release.measurements:
        made = NoisyMarginal.of(table)
        if made is not None:
            sanitised = table.block.split("/")[0] if table.block.startswith("set ") else ""
            last[sanitised, table.attributes] = made
    return list(last.values())


def _public_rows(release: Release) -> int | None:
    """The number of rows, where it is no estimate."""
    card = release.card
    return card.rows if card.rows_known == "public" else card.known_rows


@dataclass(frozen=True, eq=False)
class NoisyPair:
    """The noisy counts of two columns together, and their noise drawn again: draws first."""

    counts: Float
    noise: Float

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
        sums = LabelTables.of(release).joint((first, second))
        if sums is None:
            return None
        found = sums.measured()[""].reshape(shape), sums.redraw(random, draws)[""].reshape(-1, *shape)
        return NoisyPair(*found).told_apart()
    tables = _noisy_tables(release)
    names = tuple(n for n in schema.names if n in (first, second))
    if not any(set(names) <= set(t.attributes) for t in tables):
        return None
    rows = None if schema.rules else _public_rows(release)
    total = None if rows is None else float(rows)
    agreed = AgreedTables.of(tables, [names], {a.name: a.size for a in schema}, total)
    counts, noise = agreed.table(names, agreed.measured())[0], agreed.table(names, agreed.redraw(random, draws))
    if names != (first, second):
        counts, noise = counts.T, noise.transpose(0, 2, 1)
    return NoisyPair(counts, noise).told_apart()


def _loses_a_term(found: Result) -> bool:
    """Whether a whole term is not told: without it the coefficients of the others would mean something else."""
    told: dict[str, bool] = {}
    for c in found.coefficients:
        term = term_of(c.name)
        told[term] = told.get(term, False) or c.estimate is not None
    return not all(told.values())


def _estimated(
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
    """Coefficients with their covariance, and the part of it that is noise; NaN where they are not told."""

    names: tuple[str, ...]
    values: Float
    covariance: Float
    noise: Float

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


def _apply(change: Float, values: Float) -> Float:
    """A linear change that spreads NaN only to what depends on it."""
    unknown = np.isnan(values)
    found = change @ np.where(unknown, 0.0, values)
    return np.asarray(np.where((change != 0).astype(float) @ unknown > 0, np.nan, found))
