"""The noisy tables of one stratum: measured, fitted, and searched for the next interaction.

Everything but `measure` and the score of a choice is post-processing of noisy tables and public rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UnsupportedError
from dipsmith.methods.loglinear.clique import Clique, barred_labels
from dipsmith.methods.loglinear.model import ReadEffects, StratumEffects, standard_errors
from dipsmith.methods.loglinear.penalty import Penalty
from dipsmith.methods.loglinear.public_design import PublicDesign, contrasts
from dipsmith.methods.loglinear.solver import (
    ALMOST,
    NEGLIGIBLE,
    SHORT,
    EffectEquations,
    EffectEstimate,
    estimate_effects,
)
from dipsmith.methods.loglinear.table_plan import noise_sd, target_groups
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Codes, Marginal, Schema

LEAST_SHARE = 1e-3
"""Share of a label at which effects start at least: noise may have left it none."""


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Noisy tables over distinct public rows: all that the fit is a function of.

    `penalty` gives the prior of a table's effects; `variances` are the noise variances of a label contrast. `near` is
    an earlier fit to much the same rows, where the search for effects and penalties begins and a rougher one will do.
    """

    targets: tuple[str, ...]
    penalty: Callable[[Clique], Penalty]
    rows: Codes
    multiplicities: Ints
    near: StratumEffects | None = None
    cliques: tuple[Clique, ...] = ()
    tables: tuple[Floats, ...] = ()
    variances: tuple[float, ...] = ()

    def measure(self, curator: Curator, cliques: Sequence[Clique], costs: Sequence[Budget]) -> NoisyTables:
        """Buy tables; one that was bought before is averaged with the new one by precision."""
        if not cliques:
            return self
        measured = curator.measure([c.marginal(curator.schema) for c in cliques], costs)
        known = {c: (t, v) for c, t, v in zip(self.cliques, self.tables, self.variances, strict=True)}
        for clique, measurement in zip(cliques, measured, strict=True):
            table, variance = _project(measurement)
            if clique in known and known[clique][1] + variance > 0:
                older, spread = known[clique]
                share = variance / (variance + spread)
                table, variance = share * older + (1 - share) * table, share * spread
            known[clique] = table, variance
        tables, variances = zip(*known.values(), strict=True)
        return replace(self, cliques=tuple(known), tables=tables, variances=variances)

    @cached_property
    def design(self) -> PublicDesign:
        """The public side of the model."""
        return PublicDesign(
            terms=tuple(c.term(self.rows, self.targets) for c in self.cliques),
            multiplicities=self.multiplicities,
            labels=self.rows.schema.size(self.targets),
            barred_labels=barred_labels(self.rows, self.targets),
        )

    def fit(self, curator: Curator, before: EffectEstimate | None = None, *, rough: bool) -> EffectEstimate:
        """Estimate all effects, starting from a smaller model's where there is one."""
        equations = EffectEquations(
            design=self.design,
            statistics=self.design.statistics(self.tables),
            variances=self.variances,
            penalties=tuple(self.penalty(c) for c in self.cliques),
            reported_free=tuple(len(c.predictors) <= 1 for c in self.cliques),
        )
        start, strengths = self._marginal_effects(), [p.start() for p in equations.penalties]
        if self.near is not None:
            self._begin_near(self.near, start, strengths)
        if before is not None:
            start[: len(before.effects)] = before.effects
            strengths[: len(before.log_strengths)] = before.log_strengths

        def report(share: float) -> None:
            curator.report("fitting", share)

        enough = SHORT if rough else NEGLIGIBLE if self.near is None else ALMOST
        memory = None if self.near is None else self.near.memory
        return estimate_effects(equations, start, strengths, report, enough=enough, memory=memory)

    def _begin_near(self, near: StratumEffects, start: Floats, strengths: list[Floats]) -> None:
        """Put the effects and penalties of an earlier fit where the search begins, for the cliques that it has."""
        known = dict(zip(near.cliques, zip(near.tables, near.strengths, strict=True), strict=True))
        design = self.design
        for i, (clique, term, here) in enumerate(zip(self.cliques, design.terms, design.slices, strict=True)):
            table, chosen = known.get(clique, (None, None))
            if table is None or chosen is None or table.shape != (term.cells, term.labels):
                continue
            start[here] = (table @ contrasts(term.labels)).ravel()
            if len(chosen) == len(strengths[i]):
                strengths[i] = chosen

    def _marginal_effects(self) -> Floats:
        """Flat effects that are all zero but for the label marginals: the model that knows nothing else."""
        design, schema = self.design, self.rows.schema
        start, groups = np.zeros(design.size), target_groups(schema, self.targets)
        for clique, term, table, here in zip(self.cliques, design.terms, self.tables, design.slices, strict=True):
            if not clique.predictors and clique.targets in groups:
                shares = np.maximum(table[0], LEAST_SHARE * max(table.sum(), 1.0))
                start[here] = np.log(shares) @ contrasts(term.labels)
        return start

    def misfit(self, candidates: Sequence[Clique], found: EffectEstimate, cost: Budget) -> LabelMisfit:
        """The score by which the next interaction is chosen."""
        schema = self.rows.schema
        terms = [c.term(self.rows, self.targets) for c in candidates]
        expected = dict(zip(candidates, self.design.expected_tables(found.effects, terms), strict=True))
        allowed = {c: allowance(e, noise_sd(schema, cost, c.labels(schema))) for c, e in expected.items()}
        return LabelMisfit(expected, allowed, schema)

    def effects(self, found: EffectEstimate) -> StratumEffects:
        """The estimate as tables of effects, which tell their standard errors when asked."""
        design = self.design
        sizes = [np.bincount(t.cell, self.multiplicities, t.cells).astype(np.int64) for t in design.terms]

        def read() -> ReadEffects:
            errors = map(standard_errors, design.terms, found.reading.covariances, sizes)
            return ReadEffects(tuple(design.effects(found.reading.unshrunk)), tuple(errors))

        return StratumEffects(
            cliques=self.cliques,
            tables=tuple(design.effects(found.effects)),
            sizes=tuple(sizes),
            strengths=found.log_strengths,
            read=read,
        )


def _project(measured: Measurement) -> tuple[Floats, float]:
    """Noisy label counts projected on the public group sizes, and the noise variance of a label contrast."""
    assert measured.totals is not None
    table = measured.groups.astype(np.float64)
    every = np.ones(table.shape, dtype=bool)
    noisy = every if measured.noisy is None else measured.noisy.reshape(table.shape)
    excess = (table.sum(axis=1) - measured.totals) / np.maximum(noisy.sum(axis=1), 1)
    return table - excess[:, None] * noisy, measured.variance * (2 if measured.single else 1)


@dataclass(frozen=True)
class LabelMisfit:
    """How badly the current model fits a table that it does not contain.

    Half the L1 distance between the true label counts and the model's expectation of them (AIM, McKenna, Mullins,
    Sheldon and Miklau 2022, uses the whole), minus what sampling and the noise to come would make of it by themselves.

    Privacy
    -------
    Under `label` one unit changes the labels of at most k rows; each leaves one cell of a table and
    enters another of the same public group, so ½‖S − E‖₁ moves by at most k. E and the allowance are
    functions of noisy tables and public rows.
    """

    expected: Mapping[Clique, Floats]
    allowance: Mapping[Clique, float]
    schema: Schema
    name: ClassVar[str] = "misfit of label counts"

    def tables(self, candidate: Clique) -> Sequence[Marginal]:
        """The one table of the candidate."""
        return [candidate.marginal(self.schema)]

    def value(self, candidate: Clique, counts: Sequence[Ints]) -> float:
        """Larger when the model misses more."""
        distance = float(np.abs(counts[0] - self.expected[candidate].ravel()).sum())
        return 0.5 * distance - self.allowance[candidate]

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """Half of one label leaving a cell and entering another, for k rows."""
        if relation != "label":
            raise UnsupportedError(f"the misfit of label counts has a proof for neighbours label, not {relation}")
        return Fraction(max_rows)

    def monotone(self, relation: str) -> bool:
        """A changed label may raise one table's misfit and lower another's."""
        return False


def allowance(expected: Floats, noise_sd: float) -> float:
    """What ½‖S − E‖₁ is on average when the model is right and the table is measured with noise.

    Sampling gives a count of mean e in a group of n the variance e(1 − e/n); noise adds its own. The
    mean of |N(0, s²)| is s√(2/π).
    """
    totals = expected.sum(axis=1, keepdims=True)
    sampling = expected * (1 - expected / np.maximum(totals, 1e-300))
    spread = np.sqrt(np.maximum(sampling, 0.0) + noise_sd**2) * (totals > 0)
    return float(spread.sum() / np.sqrt(2 * np.pi))
