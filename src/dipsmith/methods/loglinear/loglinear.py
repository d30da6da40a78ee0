"""LogLinear: private labels from public predictors, through one small noisy table per effect.

Under `label` the predictors are public. A conditional log-linear model of the labels then touches the
private rows only through its sufficient statistics, small tables of label counts; everything else in
its likelihood is public. So each table is noised once, and estimation, choice of penalties, standard
errors and labelling are post-processing (``docs/proofs/loglinear.md``). A tree must cut the rows ever
thinner to hold six predictors at once; this model holds them all with tables of a few dozen cells.

Sources: the model is multinomial logistic regression (McCullagh and Nelder 1989, ch. 6) seen as a
conditional log-linear model; noising the sufficient statistics of an exponential family is Foulds,
Geumlek, Welling and Chaudhuri 2016, "On the theory and practice of privacy-preserving Bayesian data
analysis", and Bernstein and Sheldon 2018, "Differentially private Bayesian inference for exponential
families". Keeping the likelihood's normaliser public is what the `label` relation allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.methods.loglinear.clique import Clique, bars, needed_columns
from dipsmith.methods.loglinear.effects import standard_errors
from dipsmith.methods.loglinear.misfit import Misfit, allowance
from dipsmith.methods.loglinear.model import Block, LogLinearModel
from dipsmith.methods.loglinear.penalty import SCALE, Penalty, trend, walk
from dipsmith.methods.loglinear.public_design import Design
from dipsmith.methods.loglinear.questions import (
    Outline,
    Terms,
    noise_sd,
    occupied,
    outline,
    remaining,
    shares,
    target_groups,
)
from dipsmith.methods.loglinear.solver import FREE, Equations, Fit, fit
from dipsmith.methods.method import Planned, PublicFacts
from dipsmith.methods.outlook import (
    QUANTILES,
    Effort,
    LabelCells,
    Outlook,
    Suitability,
    table_effort,
    tables_of,
    typical_sizes,
)
from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Codes, Marginal, Schema

__all__ = ["LogLinear", "LogLinearModel"]

Float = NDArray[np.float64]

WIDE: Final = 0.25
"""Precision of the intercepts: labels may well be a thousand times as frequent as others."""
WALKED: Final = 1500
"""Cells of a table along which smoothness is reckoned with at most."""


LABEL_SECONDS, LABEL_BYTES = 4e-6, 110.0
"""Per distinct public row and label: its gradients and curvatures."""


@dataclass(frozen=True)
class LogLinear:
    """A conditional log-linear model of private labels given public predictors.

    Parameters
    ----------
    targets
        The private attributes to label.
    predictors
        The public attributes to use; default: all of them. Every attribute that an analyst will control
        for, and the response, must be among them: what is not in the model is independent of the
        synthetic labels given what is.
    interactions
        "auto" to choose interactions of predictors when the budget can pay for them and no analyses are
        planned, a list of groups of predictors to include, or 0 for none.
    analyses
        Planned analyses, as formulas ("log(pay) ~ sex + race + age | agency") or as attributes. Their
        public attributes are put in the model, products with a target as interactions with the response,
        and the whole budget goes to those.
    strata
        A public attribute (a year) by whose labels the rows are divided, one model for each.
    smooth
        Attributes along which neighbouring effects are drawn together; default: the ordered ones.
    shrink
        Whether to draw effects towards zero as far as the noise makes wise. Only for large ε without.
    max_effects
        Interactions are chosen adaptively while the model has at most so many effects (cells × labels − 1).

    Examples
    --------
    >>> LogLinear(targets=["sex", "race"], interactions=[("occupation", "pay")]).interactions
    (('occupation', 'pay'),)
    """

    targets: Sequence[str]
    predictors: Sequence[str] | None = None
    interactions: Literal["auto", 0] | Sequence[Sequence[str]] = "auto"
    analyses: Sequence[str | Sequence[str]] = ()
    strata: str | None = None
    smooth: Sequence[str] | None = None
    shrink: bool = True
    max_effects: int = 2500

    name: ClassVar[str] = "loglinear"
    summary: ClassVar[str] = "One small noisy table per public column; keeps planned regressions at little ε."
    relations: ClassVar[tuple[str, ...]] = ("label",)
    models: ClassVar[tuple[type[LogLinearModel], ...]] = (LogLinearModel,)

    def __post_init__(self) -> None:
        for field in ("targets", "predictors", "smooth"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))
        analyses = (self.analyses,) if isinstance(self.analyses, str) else self.analyses
        object.__setattr__(self, "analyses", tuple(a if isinstance(a, str) else tuple(a) for a in analyses))
        if not self.targets:
            raise UsageError("loglinear: targets is empty; name the private columns to label")
        if isinstance(self.interactions, str | int):
            if self.interactions not in ("auto", 0):
                raise UsageError(
                    f"loglinear: interactions is '{self.interactions}', expected 'auto', 0 or a list of groups"
                )
        else:
            groups = tuple((g,) if isinstance(g, str) else tuple(g) for g in self.interactions)
            if short := [g for g in groups if len(set(g)) < 2]:
                raise UsageError(f"loglinear: interaction {short[0]} needs two different predictors or more")
            object.__setattr__(self, "interactions", groups)
        if self.max_effects < 1:
            raise UsageError(f"loglinear: max_effects is {self.max_effects}, expected at least 1")

    def fit(self, curator: Curator) -> LogLinearModel:
        """Measure the tables, fit, add interactions if there is budget for them.

        Privacy
        -------
        `label` only. Reads private rows through `curator.measure` and `curator.choose` alone; public
        rows and their multiplicities are free. Spends the curator's whole budget; strata are disjoint
        blocks of public rows (`Curator.partition`).
        """
        terms = self._terms(curator.schema, curator.relation)
        children = [curator] if self.strata is None else curator.partition(self.strata, curator.budget)
        blocks = [self._fit_block(child, terms) for child in children]
        curator.report("fitting", 1.0)
        return LogLinearModel(curator.schema, terms.targets, self.strata, tuple(blocks))

    def _fit_block(self, curator: Curator, terms: Terms) -> Block:
        schema = curator.schema
        rows, multiplicities = _public_rows(curator, needed_columns(schema, terms.targets, terms.predictors))
        facts = PublicFacts(int(multiplicities.sum()), (rows, multiplicities))
        asked = self._outline(terms, curator.budget, facts)
        cliques = (*asked.marginals, *asked.effects)
        fitting = _Fitting(self, terms, rows, multiplicities).with_tables(curator, cliques, asked.costs)
        found = fitting.solve(curator, rough=bool(asked.rounds))
        candidates = list(asked.candidates)
        for i, (for_choice, cost) in enumerate(asked.rounds, start=1):
            if not candidates:
                # Nothing more fits: what is left buys the main tables a second time.
                left = shares(schema, facts, curator.remaining or cost, cliques)
                fitting = fitting.with_tables(curator, cliques, left)
                return fitting.block(fitting.solve(curator, found, rough=False))
            chosen = curator.choose(candidates, fitting.misfit(candidates, found, cost), for_choice)
            fitting = fitting.with_tables(curator, [chosen], [cost])
            candidates = remaining(
                schema, facts, candidates, fitting.cliques, terms.predictors, cost, self.max_effects
            )
            found = fitting.solve(curator, found, rough=i < len(asked.rounds))
        return fitting.block(found)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line per table and choice, with the standard error to expect of a typical effect."""
        terms = self._terms(schema, schema.neighbours)
        if public.public_rows is not None:
            public = replace(public, rows=int(public.public_rows[1].sum()))
        if self.strata is None:
            return self._planned(terms, budget, public, "")
        unit, size = schema.unit, schema[self.strata].size
        facts = [self._stratum(public, code, size) for code in range(size)]
        if not neighbours.unit_recurs(unit.max_rows, unit.per, self.strata):
            # Strata cost no more together than one: shown is the smallest, where noise weighs most.
            least = min(facts, key=lambda f: f.rows or np.inf)
            lines = self._planned(terms, budget, least, f"in each {self.strata}: ")
            if lines and unit.per == self.strata:
                note = f"costs a person who is in all {size} strata {size} times as much: the unit is {unit}"
                lines[0] = replace(lines[0], note=note)
            return lines
        lines = []
        parts: list[Budget] = [*budget.split(size)]
        for label, part, held in zip(schema[self.strata].labels, parts, facts, strict=True):
            lines += self._planned(terms, part, held, f"{self.strata} {label}: ")
        return lines

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """The tables, and the cells in which labels are made."""
        cells = [self._cells(schema, step, public) for step in steps if step.attributes]
        distinct = public.rows or 0 if public.public_rows is None else len(public.public_rows[0])
        labels, effort = distinct * schema.size(self.targets), table_effort(steps)
        return Outlook(
            tables_of(schema, steps, self.strata),
            label_cells=tuple(c for c in cells if c is not None),
            effort=Effort(effort.seconds + LABEL_SECONDS * labels, effort.memory + LABEL_BYTES * labels),
        )

    def _cells(self, schema: Schema, step: Planned, public: PublicFacts) -> LabelCells | None:
        """How many rows lie in the cells of an effect's table."""
        assert step.sd is not None
        what, strata = " × ".join(step.attributes), () if self.strata is None else (self.strata,)
        columns = [*(n for n in step.attributes if schema[n].role == "public"), *strata]
        labels = schema.size([n for n in step.attributes if n not in columns])
        if public.public_rows is None:
            cells = max(1, (step.cells or labels) // labels) * schema.size(strata)
            typical = (max(1, public.rows // cells),) * len(QUANTILES) if public.rows else ()
            return LabelCells(what, labels, step.sd, typical, cells)
        codes, often = public.public_rows
        index = Marginal.of(schema, columns).index(codes)
        sizes = np.bincount(index, weights=often, minlength=schema.size(columns))
        sizes = sizes[sizes > 0]
        if not len(sizes):
            return None
        return LabelCells(what, labels, step.sd, tuple(int(s) for s in typical_sizes(sizes)), len(sizes))

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """Private columns beside public ones."""
        if schema.neighbours not in cls.relations:
            return None
        return Suitability(
            1,
            "private columns beside public ones: a log-linear model holds all public columns at once with one small noisy "
            "table each, and keeps planned regressions at a fraction of the ε that trees need",
        )

    def _stratum(self, public: PublicFacts, code: int, size: int) -> PublicFacts:
        """What is public about one stratum; an equal share of the rows where it is not known."""
        assert self.strata is not None
        if public.public_rows is None or self.strata not in public.public_rows[0].columns:
            return PublicFacts(None if public.rows is None else public.rows // size)
        rows, multiplicities = public.public_rows
        here = np.flatnonzero(rows[self.strata] == code)
        held = multiplicities[here]
        return PublicFacts(int(held.sum()), (rows.take(here), held))

    def _planned(self, terms: Terms, budget: Budget, facts: PublicFacts, prefix: str) -> list[Planned]:
        schema, asked = terms.schema, self._outline(terms, budget, facts)
        stages = {0: "label marginal", 1: "effect"}
        lines = []
        for clique, cost in zip((*asked.marginals, *asked.effects), asked.costs, strict=True):
            labels, cells = clique.labels(schema), occupied(schema, facts, clique)
            sd = noise_sd(schema, cost, labels)
            error = _expected_error(facts.rows, cells, labels, sd) if clique.predictors else None
            known = "" if error is None else f": effects to ± {error:.2g}"
            hidden = error is not None and error > SCALE
            note = f"noise hides all but large effects of {' × '.join(clique.predictors)}" if hidden else ""
            stage = prefix + stages.get(len(clique.predictors), "interaction")
            line = Planned(stage, str(clique) + known, cost, cells * labels, sd, note, error)
            lines.append(replace(line, attributes=(*clique.predictors, *clique.targets)))
        for i, (choice, cost) in enumerate(asked.rounds, start=1):
            which = f"{i} of {len(asked.rounds)}"
            among = f"one of {len(asked.candidates)} pairs of predictors, or one chosen before and a third"
            lines.append(Planned(f"{prefix}choice {which}", among, choice, group=f"{prefix}choice"))
            sd = noise_sd(schema, cost, asked.candidates[0].labels(schema))
            group = f"{prefix}interaction"
            lines.append(Planned(f"{group} {which}", "as chosen", cost, None, sd, group=group))
        return lines

    def _terms(self, schema: Schema, relation: str) -> Terms:
        return Terms.of(
            schema,
            relation,
            targets=self.targets,
            predictors=self.predictors,
            interactions=() if isinstance(self.interactions, str | int) else self.interactions,
            analyses=self.analyses,
            strata=self.strata,
        )

    def _outline(self, terms: Terms, budget: Budget, facts: PublicFacts) -> Outline:
        adaptive = self.interactions == "auto" and not self.analyses
        return outline(terms, budget, facts, adaptive=adaptive, max_effects=self.max_effects)

    def penalty(self, terms: Terms, clique: Clique) -> Penalty:
        """The prior of a clique's effects."""
        shape = [terms.schema[p].size for p in clique.predictors]
        cells, contrasts = prod(shape), clique.labels(terms.schema) - 1
        if not self.shrink:
            return Penalty(cells, contrasts, fixed=FREE)
        if not clique.predictors and clique.targets in target_groups(terms.schema, terms.targets):
            return Penalty(cells, contrasts, fixed=WIDE)
        ordered = [self._ordered(terms.schema, p) for p in clique.predictors]
        if cells > WALKED or max(ordered, default=0) < 3:
            return Penalty(cells, contrasts)
        if len(shape) == 1:
            return Penalty(cells, contrasts, trend(cells, ordered[0]))
        return Penalty(cells, contrasts, (None, walk(shape, ordered)))

    def _ordered(self, schema: Schema, name: str) -> int:
        domain = schema[name].domain
        chosen = domain.ordered if self.smooth is None else name in self.smooth
        return domain.size - int(domain.missing) if chosen else 0


@dataclass(frozen=True, eq=False)
class _Fitting:
    """Noisy tables over public rows: all that the fit is a function of."""

    method: LogLinear
    terms: Terms
    rows: Codes
    multiplicities: NDArray[np.int64]
    cliques: tuple[Clique, ...] = ()
    tables: tuple[Float, ...] = ()
    variances: tuple[float, ...] = ()

    def with_tables(self, curator: Curator, cliques: Sequence[Clique], costs: Sequence[Budget]) -> _Fitting:
        """Buy tables; one that was bought before is averaged with the new one by precision."""
        if not cliques:
            return self
        measured = curator.measure([c.marginal(curator.schema) for c in cliques], costs)
        held = {c: (t, v) for c, t, v in zip(self.cliques, self.tables, self.variances, strict=True)}
        for clique, measurement in zip(cliques, measured, strict=True):
            table, variance = _on_totals(measurement)
            if clique in held and held[clique][1] + variance > 0:
                older, spread = held[clique]
                share = variance / (variance + spread)
                table, variance = share * older + (1 - share) * table, share * spread
            held[clique] = table, variance
        tables, variances = zip(*held.values(), strict=True)
        return replace(self, cliques=tuple(held), tables=tables, variances=variances)

    @cached_property
    def design(self) -> Design:
        """The public side of the model."""
        return Design(
            terms=tuple(c.term(self.rows, self.terms.targets) for c in self.cliques),
            multiplicities=self.multiplicities,
            labels=self.terms.schema.size(self.terms.targets),
            barred=bars(self.rows, self.terms.targets),
        )

    def solve(self, curator: Curator, before: Fit | None = None, *, rough: bool) -> Fit:
        """Fit, starting from a smaller model's effects where there is one."""
        penalties = tuple(self.method.penalty(self.terms, c) for c in self.cliques)
        equations = Equations(
            design=self.design,
            statistics=self.design.statistics(self.tables),
            variances=self.variances,
            penalties=penalties,
            reported_free=tuple(len(c.predictors) <= 1 for c in self.cliques),
        )
        start, strengths = np.zeros(self.design.size), [p.start() for p in penalties]
        if before is not None:
            start[: len(before.effects)] = before.effects
            strengths[: len(before.log_strengths)] = before.log_strengths
        return fit(equations, start, strengths, lambda share: curator.report("fitting", share), rough=rough)

    def misfit(self, candidates: Sequence[Clique], found: Fit, cost: Budget) -> Misfit:
        """The score by which the next interaction is chosen."""
        schema = self.terms.schema
        terms = [c.term(self.rows, self.terms.targets) for c in candidates]
        expected = dict(zip(candidates, self.design.expected_tables(found.effects, terms), strict=True))
        allowed = {c: allowance(e, noise_sd(schema, cost, c.labels(schema))) for c, e in expected.items()}
        return Misfit(expected, allowed, schema)

    def block(self, found: Fit) -> Block:
        """What the fit found."""
        terms = self.design.terms
        sizes = [
            np.bincount(t.cell, weights=self.multiplicities, minlength=t.cells).astype(np.int64)
            for t in terms
        ]
        errors = [standard_errors(*each) for each in zip(terms, found.covariances, sizes, strict=True)]
        return Block(
            cliques=self.cliques,
            tables=tuple(self.design.effects(found.effects)),
            unshrunk=tuple(self.design.effects(found.unshrunk)),
            errors=tuple(errors),
            sizes=tuple(sizes),
            strengths=found.log_strengths,
        )


def _public_rows(curator: Curator, columns: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
    """The distinct public rows; without columns they are all alike."""
    if columns:
        return curator.public_rows(columns)
    (total,) = curator.public_counts([Marginal(curator.schema, ())])
    return Codes(curator.schema, {}, len(total)), total


def _on_totals(measured: Measurement) -> tuple[Float, float]:
    """Noisy label counts projected on the public group sizes, and the noise variance of a label contrast."""
    assert measured.totals is not None
    table = measured.groups.astype(np.float64)
    noisy = (
        np.ones(table.shape, dtype=bool) if measured.noisy is None else measured.noisy.reshape(table.shape)
    )
    excess = (table.sum(axis=1) - measured.totals) / np.maximum(noisy.sum(axis=1), 1)
    return table - excess[:, None] * noisy, measured.variance * (2 if measured.single else 1)


def _expected_error(rows: int | None, cells: int, labels: int, sd: float) -> float | None:
    """Standard error of the log-odds of equally frequent labels in a cell of average size, before shrinkage."""
    if not rows:
        return None
    information = rows / max(cells, 1) / labels
    variance = sd**2 * (2 if labels == 2 else 1)
    return float(np.sqrt(2 * (information + variance)) / information)
