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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.consistency.clique import Clique, bars, needed_columns
from dipsmith.consistency.design import Design, barred_softmax
from dipsmith.consistency.effects import Effect, Effects, listed, standard_errors
from dipsmith.consistency.logistic import Equations, Fit, fit
from dipsmith.consistency.penalty import SCALE, Penalty, trend, walk
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.method import Arrays, Planned, PublicFacts
from dipsmith.methods.misfit import Misfit, allowance
from dipsmith.methods.outline import Outline, noise_sd, occupied, outline, remaining, target_groups
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.formula import Formula

Float = NDArray[np.float64]

MOST_LABELS: Final = 2000
"""Joint labels whose probabilities are held for each row of a chunk."""
WIDE: Final = 0.25
"""Precision of the intercepts: labels may well be a thousand times as frequent as others."""
FREE: Final = 1e-6
"""Precision of effects that are not to be shrunk; above 0 because tables overlap in their sums."""
WALKED: Final = 1500
"""Cells of a table along which smoothness is reckoned with at most."""
BLOCK: Final = 1 << 21
"""Probabilities held at once when labelling."""


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
        "auto" to add interactions of predictors adaptively when the budget can pay for them, a list of
        groups of predictors to include, or 0 for none.
    analyses
        Planned analyses, as formulas ("log(pay) ~ sex + race + age | agency") or as attributes; their
        public attributes are put in the model, products with a target as interactions with the response.
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
    smooth: Sequence[str] | None = None
    shrink: bool = True
    max_effects: int = 2500

    name: ClassVar[str] = "loglinear"
    relations: ClassVar[tuple[str, ...]] = ("label",)

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
        rows and their multiplicities are free. Spends the curator's whole budget.
        """
        resolved = _Resolved.of(self, curator.schema, curator.relation)
        columns = needed_columns(curator.schema, resolved.targets, resolved.predictors)
        rows, multiplicities = curator.public_rows(columns)
        facts = PublicFacts(int(multiplicities.sum()), (rows, multiplicities))
        asked = resolved.outline(curator.budget, facts)
        cliques = [*asked.marginals, *asked.effects]
        measured = (
            curator.measure([c.marginal(curator.schema) for c in cliques], asked.costs) if cliques else []
        )
        fitting = _Fitting(resolved, rows, multiplicities, tuple(cliques), tuple(measured))
        found = fitting.solve(curator, rough=bool(asked.rounds))
        candidates = list(asked.candidates)
        for i, (cost_of_choice, cost) in enumerate(asked.rounds, start=1):
            if not candidates:
                break
            chosen = curator.choose(candidates, fitting.misfit(candidates, found, cost), cost_of_choice)
            (table,) = curator.measure([chosen.marginal(curator.schema)], [cost])
            fitting = replace(
                fitting, cliques=(*fitting.cliques, chosen), measured=(*fitting.measured, table)
            )
            candidates = remaining(
                curator.schema,
                facts,
                candidates,
                fitting.cliques,
                resolved.predictors,
                cost,
                self.max_effects,
            )
            found = fitting.solve(curator, found, rough=i < len(asked.rounds) and bool(candidates))
        curator.report("fitting", 1.0)
        return fitting.model(found)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line per table and choice, with the standard error to expect of a typical effect."""
        resolved = _Resolved.of(self, schema, schema.neighbours)
        if public.public_rows is not None:
            public = replace(public, rows=int(public.public_rows[1].sum()))
        asked = resolved.outline(budget, public)
        lines = []
        for clique, cost in zip((*asked.marginals, *asked.effects), asked.costs, strict=True):
            labels = clique.labels(schema)
            cells = occupied(schema, public, clique)
            stage = (
                "label marginal"
                if not clique.predictors
                else "effect"
                if len(clique.predictors) == 1
                else "interaction"
            )
            sd = noise_sd(schema, cost, labels)
            error, note = _expected_error(public.rows, cells, labels, sd), ""
            what = str(clique)
            if clique.predictors and error is not None:
                what += f": effects to ± {error:.2g}"
                if error > SCALE:
                    note = f"the noise hides most effects of {' × '.join(clique.predictors)} at this budget"
            lines.append(Planned(stage, what, cost, cells * labels, sd, note))
        among = f"one of {len(asked.candidates)} groups of predictors, or of three that extend one"
        for i, (choice, cost) in enumerate(asked.rounds, start=1):
            which = f"{i} of {len(asked.rounds)}"
            lines.append(Planned(f"choice {which}", among, choice))
            sd = noise_sd(schema, cost, asked.candidates[0].labels(schema))
            lines.append(Planned(f"interaction {which}", "as chosen", cost, None, sd))
        return lines


@dataclass(frozen=True, eq=False)
class LogLinearModel:
    """Effects of public attributes on private labels; labels any rows that have those attributes.

    Attributes
    ----------
    schema, targets
        What is labelled, in the schema's order.
    cliques
        The terms: the label marginal first.
    tables
        The effects θ of every term, public cells × labels.
    errors
        Standard errors of its effects against the first label, relative to the average row.
    sizes
        Public number of rows in its cells.
    strengths
        log λ of its penalties.
    """

    schema: Schema
    targets: tuple[str, ...]
    cliques: tuple[Clique, ...]
    tables: tuple[Float, ...]
    errors: tuple[Float, ...]
    sizes: tuple[NDArray[np.int64], ...]
    strengths: tuple[Float, ...]

    @property
    def predictors(self) -> tuple[str, ...]:
        """The public attributes that decide a label, those that rules name included."""
        return needed_columns(self.schema, self.targets, {p for c in self.cliques for p in c.predictors})

    def probabilities(self, rows: Codes) -> Float:
        """The probability of every (joint) label for every row: rows × labels, in the schema's order."""
        parts = [p for _, p in self._blocks(rows)]
        return np.concatenate(parts) if parts else np.zeros((0, self.schema.size(self.targets)))

    def label(self, rows: Codes, seed: int | None = None) -> Codes:
        """Draw the targets of every row, beside the columns it has; the same seed draws the same labels."""
        rng = generator(seed)
        shape = tuple(self.schema[t].size for t in self.targets)
        drawn = np.empty(len(rows), dtype=np.int64)
        for here, p in self._blocks(rows):
            reached = np.cumsum(p, axis=1)
            at = rng.random(len(p)) * reached[:, -1]
            drawn[here] = (reached <= at[:, None]).sum(axis=1)
        columns = dict(zip(self.targets, np.unravel_index(drawn, shape), strict=True))
        return Codes.of(self.schema, {**rows.columns, **columns}, len(rows))

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Refuse: this model knows labels given rows, not rows."""
        raise UsageError(
            "a loglinear model draws labels for given public rows, not whole rows; use label(rows) instead"
        )

    def effects(self) -> Effects:
        """The estimated effects with noise-aware standard errors."""
        found: list[Effect] = []
        for i, clique in enumerate(self.cliques):
            if clique.predictors:
                levels = [self.schema[p].labels for p in clique.predictors]
                labels = [self.schema[t].labels for t in clique.targets]
                arrays = self.tables[i], self.errors[i], self.sizes[i]
                found += listed(clique.predictors, levels, clique.targets, labels, *arrays)
        return Effects(tuple(found))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Effects, standard errors and public sizes."""
        facts = {
            "targets": list(self.targets),
            "cliques": [{"predictors": list(c.predictors), "targets": list(c.targets)} for c in self.cliques],
        }
        arrays: dict[str, NDArray[Any]] = {}
        for kind in ("tables", "errors", "sizes", "strengths"):
            arrays |= {f"{kind}/{i}": a for i, a in enumerate(getattr(self, kind))}
        return facts, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        cliques = tuple(Clique(tuple(c["predictors"]), tuple(c["targets"])) for c in facts["cliques"])
        kinds = {
            kind: tuple(arrays[f"{kind}/{i}"] for i in range(len(cliques)))
            for kind in ("tables", "errors", "sizes", "strengths")
        }
        return cls(schema, tuple(facts["targets"]), cliques, **kinds)

    def _blocks(self, rows: Codes) -> Iterator[tuple[slice, Float]]:
        if absent := [p for p in self.predictors if p not in rows.columns]:
            needed = ", ".join(self.predictors)
            raise UsageError(f"rows to be labelled have no column '{absent[0]}'; the model needs: {needed}")
        joint = self.schema.size(self.targets)
        step = max(256, BLOCK // joint)
        spread = [
            t[:, c.of_label(self.schema, self.targets)]
            for c, t in zip(self.cliques, self.tables, strict=True)
        ]
        for start in range(0, len(rows), step):
            here = slice(start, min(start + step, len(rows)))
            part = rows.take(here)
            eta = np.zeros((len(part), joint))
            for clique, table in zip(self.cliques, spread, strict=True):
                eta += table[clique.groups(self.schema).index(part)]
            yield here, barred_softmax(eta, bars(part, self.targets), slice(None))[0]


@dataclass(frozen=True)
class _Resolved:
    """A method's parameters against a schema."""

    method: LogLinear
    schema: Schema
    targets: tuple[str, ...]
    predictors: tuple[str, ...]
    interactions: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, method: LogLinear, schema: Schema, relation: str) -> _Resolved:
        if relation not in method.relations:
            raise UnsupportedError(
                f"loglinear needs public predictors, neighbours label, and the schema says {relation}: "
                "its likelihood is public only given public columns; use Forest, MST or AIM to make whole rows"
            )
        for name in method.targets:
            if schema[name].role == "public":
                raise UsageError(
                    f"loglinear: target '{name}' is public, nothing to synthesise; make it private"
                )
        targets = tuple(n for n in schema.names if n in set(method.targets))
        if (joint := schema.size(targets)) > MOST_LABELS:
            raise UnsupportedError(
                f"loglinear: {', '.join(targets)} have {joint:,} joint labels, at most {MOST_LABELS:,} are "
                "possible; collapse labels, label some of them in another run, or use forest"
            )
        wanted = set(schema.public if method.predictors is None else method.predictors)
        groups = [] if isinstance(method.interactions, str | int) else [tuple(g) for g in method.interactions]
        for text in method.analyses:
            names, products = _analysed(schema, text)
            for name in names:
                if schema[name].role == "private" and name not in targets:
                    raise UsageError(
                        f"loglinear: an analysis uses private column '{name}'; add it to targets"
                    )
            wanted |= {n for n in names if schema[n].role == "public"}
            groups += products
        distinct = {frozenset(g): g for g in reversed(groups)}
        wanted |= {n for g in groups for n in g}
        for name in wanted | set(method.smooth or ()):
            if schema[name].role == "private":
                raise UsageError(
                    f"loglinear: predictor '{name}' is private; predictors must be public columns"
                )
        predictors = tuple(n for n in schema.names if n in wanted)
        return cls(method, schema, targets, predictors, tuple(reversed(distinct.values())))

    def outline(self, budget: Budget, facts: PublicFacts) -> Outline:
        """The questions and their costs."""
        return outline(
            self.schema,
            budget,
            facts,
            targets=self.targets,
            predictors=self.predictors,
            interactions=self.interactions,
            adaptive=self.method.interactions == "auto",
            max_effects=self.method.max_effects,
        )

    def penalty(self, clique: Clique) -> Penalty:
        """The prior of a clique's effects."""
        shape = [self.schema[p].size for p in clique.predictors]
        cells, contrasts = prod(shape), clique.labels(self.schema) - 1
        if not self.method.shrink:
            return Penalty(cells, contrasts, fixed=FREE)
        if not clique.predictors and clique.targets in target_groups(self.schema, self.targets):
            return Penalty(cells, contrasts, fixed=WIDE)
        ordered = [self._ordered(p) for p in clique.predictors]
        if cells > WALKED or max(ordered, default=0) < 3:
            return Penalty(cells, contrasts)
        if len(shape) == 1:
            return Penalty(cells, contrasts, trend(cells, ordered[0]))
        return Penalty(cells, contrasts, (None, walk(shape, ordered)))

    def _ordered(self, name: str) -> int:
        domain = self.schema[name].domain
        chosen = domain.ordered if self.method.smooth is None else name in self.method.smooth
        return domain.size - int(domain.missing) if chosen else 0


@dataclass(frozen=True, eq=False)
class _Fitting:
    """Noisy tables over public rows: all that the fit is a function of."""

    resolved: _Resolved
    rows: Codes
    multiplicities: NDArray[np.int64]
    cliques: tuple[Clique, ...]
    measured: tuple[Measurement, ...]

    @cached_property
    def design(self) -> Design:
        """The public side of the model."""
        targets = self.resolved.targets
        return Design(
            terms=tuple(c.term(self.rows, targets) for c in self.cliques),
            multiplicities=self.multiplicities,
            labels=self.resolved.schema.size(targets),
            barred=bars(self.rows, targets),
        )

    def solve(self, curator: Curator, before: Fit | None = None, *, rough: bool) -> Fit:
        """Fit, starting from a smaller model's effects where there is one."""
        equations = Equations(
            design=self.design,
            statistics=self.design.statistics([_on_totals(m) for m in self.measured]),
            variances=tuple(m.variance * (2 if m.single else 1) for m in self.measured),
            penalties=tuple(self.resolved.penalty(c) for c in self.cliques),
        )
        start, strengths = np.zeros(self.design.size), [p.start() for p in equations.penalties]
        if before is not None:
            start[: len(before.effects)] = before.effects
            strengths[: len(before.log_strengths)] = before.log_strengths
        return fit(equations, start, strengths, lambda share: curator.report("fitting", share), rough=rough)

    def misfit(self, candidates: Sequence[Clique], found: Fit, cost: Budget) -> Misfit:
        """The score by which the next interaction is chosen."""
        schema, targets = self.resolved.schema, self.resolved.targets
        terms = [c.term(self.rows, targets) for c in candidates]
        expected = dict(zip(candidates, self.design.expected_tables(found.effects, terms), strict=True))
        allowed = {c: allowance(e, noise_sd(schema, cost, c.labels(schema))) for c, e in expected.items()}
        return Misfit(expected, allowed, schema)

    def model(self, found: Fit) -> LogLinearModel:
        """What the fit found, as a labeller."""
        sizes = [
            np.bincount(t.cell, weights=self.multiplicities, minlength=t.cells).astype(np.int64)
            for t in self.design.terms
        ]
        errors = [
            standard_errors(t, c, n)
            for t, c, n in zip(self.design.terms, found.covariances, sizes, strict=True)
        ]
        return LogLinearModel(
            schema=self.resolved.schema,
            targets=self.resolved.targets,
            cliques=self.cliques,
            tables=tuple(self.design.effects(found.effects)),
            errors=tuple(errors),
            sizes=tuple(sizes),
            strengths=found.log_strengths,
        )


def _on_totals(measured: Measurement) -> Float:
    """Noisy label counts with the excess over each group's public size taken off the noisy ones equally."""
    assert measured.totals is not None
    table = measured.groups.astype(np.float64)
    noisy = (
        np.ones(table.shape, dtype=bool) if measured.noisy is None else measured.noisy.reshape(table.shape)
    )
    excess = (table.sum(axis=1) - measured.totals) / np.maximum(noisy.sum(axis=1), 1)
    return np.asarray(table - excess[:, None] * noisy)


def _analysed(schema: Schema, text: str | Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The attributes of an analysis, and the groups of public ones that it multiplies.

    A product with a private column ("sex*agency") is about how the response depends on it, so the
    response belongs to the group.
    """
    if not isinstance(text, str):
        return tuple(text), []
    if "~" not in text:
        return (text,), []
    formula = Formula.parse(text)
    groups = []
    for product in formula.products:
        private = any(schema[n].role == "private" for n in product)
        names = dict.fromkeys((*product, *(formula.response if private else ())))
        groups.append(tuple(n for n in names if schema[n].role == "public"))
    return formula.attributes, [g for g in groups if len(g) > 1]


def _expected_error(rows: int | None, cells: int, labels: int, sd: float) -> float | None:
    """Standard error of the log-odds of equally frequent labels in a cell of average size, before shrinkage."""
    if not rows or labels < 2:
        return None
    information = rows / max(cells, 1) / labels
    variance = sd**2 * (2 if labels == 2 else 1)
    return float(np.sqrt(2 * (information + variance)) / information)
