"""Which tables a log-linear labeller measures and how they share the budget, decided from public facts.

Shares follow from the schema, the public rows and the budget, never from private rows, so a plan made
beforehand and the run itself agree to the last unit.

**The label marginal** gets a tenth of the budget, more when the noise on a tenth would by itself cost
more than a thousandth of a nat per row: with K equally frequent labels, noise of variance v on their
counts costs K(K − 1)v/2n² on average.

**Tables** share the rest by the cube-root rule: noise of variance 2(Δ/ε_c)² on each of L_c cells makes a
total of Σ L_c/ε_c², which is least, for a given Σ ε_c, when ε_c ∝ L_c^(1/3). Under zCDP the variance is
Δ²/2ρ_c, and the rule is ρ_c ∝ L_c^(1/2). Cells are those that are publicly occupied, times labels. Where
analyses are planned, L_c is multiplied by what noise on the table means for their coefficients: noise on the
labels of cell x enters a coefficient in proportion to the mean response in x, so that the variance which
the table's cells explain of the (public) response counts.

**Adaptive interactions** get a fifth of that rest when at least one is affordable, else nothing; two
fifths when the noise variance on most other tables stays below a tenth of their sampling variance even so.
An interaction is affordable when the noise variance on its cells is at most four times the sampling
variance of an average cell; a fifth of its share pays for choosing it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Final

import numpy as np

from dipsmith.methods.loglinear.clique import Clique
from dipsmith.methods.method import PublicFacts, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Marginal, Schema

JOINT_LABELS: Final = 50
"""Up to so many joint labels several targets are modelled as one."""
MARGINAL_COST: Final = 1e-3
LEAST_MARGINAL, MOST_MARGINAL = 0.1, 0.95
ADAPTIVE_SHARE, GENEROUS_SHARE = 0.2, 0.4
NEGLIGIBLE_NOISE: Final = 0.1
CHOICE_SHARE: Final = 0.2
NOISE_TO_SAMPLING: Final = 4.0
MOST_ROUNDS: Final = 6
OTHERWISE: Final = 0.1
"""What a table weighs that tells nothing of the response of a planned analysis, against 1 for what tells all."""


@dataclass(frozen=True)
class ModelSpec:
    """What a model is made of, checked against a schema: targets, predictors, interactions that are wanted.

    `responses` are the public attributes that planned analyses explain.
    """

    schema: Schema
    targets: tuple[str, ...]
    predictors: tuple[str, ...]
    interactions: tuple[tuple[str, ...], ...]
    responses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TablePlan:
    """The tables measured first with what each costs, then the rounds in which interactions are chosen.

    The rounds choose among `candidates`; each may spend one part on choosing and one on measuring.
    """

    tables: tuple[Clique, ...] = ()
    costs: tuple[Budget, ...] = ()
    candidates: tuple[Clique, ...] = ()
    rounds: tuple[tuple[Budget, Budget], ...] = ()


def target_groups(schema: Schema, targets: Sequence[str]) -> list[tuple[str, ...]]:
    """The targets as one group while their joint labels are few, else one by one."""
    several = prod(schema[t].size for t in targets) > JOINT_LABELS and len(targets) > 1
    return [(t,) for t in targets] if several else [tuple(targets)]


def noise_sd(schema: Schema, budget: Budget, labels: int) -> float:
    """Standard deviation of the noise on one count of a table measured with `budget`."""
    return count_noise(schema.neighbours, schema.unit.max_rows, budget, single=labels == 2).sd


@dataclass(frozen=True)
class TablePlanner:
    """Divides a budget among the tables of a model, by what is public about the rows."""

    spec: ModelSpec
    facts: PublicFacts
    max_effects: int

    def plan(self, budget: Budget, *, adaptive: bool) -> TablePlan:
        """Decide the tables and their shares."""
        schema, spec = self.spec.schema, self.spec
        groups = [g for g in target_groups(schema, spec.targets) if schema.size(g) > 1]
        if not groups:
            return TablePlan()
        marginals = [Clique((), g) for g in groups]
        if len(groups) > 1:
            marginals += [Clique((), (a[0], b[0])) for a, b in combinations(groups, 2)]
        telling = [p for p in spec.predictors if self._occupied_levels[p] > 1]
        effects = [Clique((p,), g) for p in telling for g in groups]
        effects += [Clique(i, g) for i in spec.interactions for g in groups]
        share = self._marginal_share(budget, marginals) if effects else 1.0
        taken = {frozenset(i) for i in spec.interactions}
        pairs = [Clique(p, g) for p in combinations(telling, 2) for g in groups if frozenset(p) not in taken]
        pairs = self._small(pairs, [*marginals, *effects]) if adaptive else []
        generous = self._quiet(budget, effects, share)
        spare = (1 - share) * (GENEROUS_SHARE if generous else ADAPTIVE_SHARE)
        rounds, candidates = self._rounds(budget, pairs, spare)
        later = spare / rounds if rounds else 0.0
        parts = [share * w for w in self._weights(marginals, budget)]
        weights = self._weights(effects, budget, spec.responses)
        parts += [(1 - share - later * rounds) * w for w in weights]
        parts += [later * CHOICE_SHARE, later * (1 - CHOICE_SHARE)] * rounds
        costs, first = budget.split(parts), len(marginals) + len(effects)
        return TablePlan(
            (*marginals, *effects),
            tuple(costs[:first]),
            tuple(candidates),
            tuple(zip(costs[first::2], costs[first + 1 :: 2], strict=True)),
        )

    def split(self, budget: Budget, tables: Sequence[Clique]) -> list[Budget]:
        """A budget over tables by the cube-root rule (square root under zCDP)."""
        return list(budget.split(self._weights(tables, budget)))

    def next_candidates(self, candidates: Sequence[Clique], model: Sequence[Clique], cost: Budget) -> list[Clique]:
        """The candidates after the model's last table was chosen: those left, and it with one predictor more.

        Kept are those that the budget can measure well enough and with which the model stays small enough.
        """
        chosen = model[-1]
        more = [p for p in self.spec.predictors if p not in chosen.predictors]
        wider = [Clique((*chosen.predictors, p), chosen.targets) for p in more]
        taken = {(frozenset(c.predictors), c.targets) for c in (*model, *candidates)}
        wider = [c for c in wider if (frozenset(c.predictors), c.targets) not in taken]
        left = [c for c in candidates if c != chosen] + [c for c in wider if self._affordable(c, cost)]
        return self._small(left, model)

    def _small(self, candidates: Sequence[Clique], model: Sequence[Clique]) -> list[Clique]:
        """The candidates with which a model has at most `max_effects` effects."""
        schema = self.spec.schema
        room = self.max_effects - sum(c.effects(schema) for c in model)
        return [c for c in candidates if c.effects(schema) <= room]

    def _weights(self, cliques: Sequence[Clique], budget: Budget, responses: Collection[str] = ()) -> list[float]:
        power = 1 / 3 if budget.currency == "epsilon" else 1 / 2
        cells = [self._cells(c) * c.labels(self.spec.schema) for c in cliques]
        weights = [
            float((n * self._noise_in_analyses(c, responses)) ** power) for n, c in zip(cells, cliques, strict=True)
        ]
        total = sum(weights)
        return [w / total for w in weights]

    def _cells(self, clique: Clique) -> int:
        """Public cells that hold a row, as far as is known."""
        return max(1, self.facts.occupied(self.spec.schema, clique.predictors))

    def _noise_in_analyses(self, clique: Clique, responses: Collection[str]) -> float:
        """How much of the noise on a table goes into the coefficients of planned analyses, up to a constant.

        The share of the response's variance that lies between the table's cells (1 for the response's own
        table), by the codes of the public rows, and a tenth for what the table tells of labels otherwise.
        """
        if not responses or self.facts.public_rows is None:
            return 1.0
        if set(clique.predictors) & set(responses):
            return 1.0 + OTHERWISE
        codes, often = self.facts.public_rows
        cell = Marginal.of(self.spec.schema, clique.predictors).index(codes)
        rows = np.bincount(cell, often)
        largest = 0.0
        for name in responses:
            value = codes[name].astype(np.float64)
            value -= np.average(value, weights=often)
            within = np.bincount(cell, often * value)[rows > 0]
            whole = float(often @ value**2)
            largest = max(largest, float(np.sum(within**2 / rows[rows > 0])) / whole if whole > 0 else 0.0)
        return largest + OTHERWISE

    def _marginal_share(self, budget: Budget, marginals: Sequence[Clique]) -> float:
        labels = max(c.labels(self.spec.schema) for c in marginals)
        if not self.facts.rows:
            return LEAST_MARGINAL
        wanted = self.facts.rows * float(np.sqrt(2 * MARGINAL_COST / (labels * (labels - 1))))
        ratio = noise_sd(self.spec.schema, budget, labels) / wanted
        share = ratio if budget.currency == "epsilon" else ratio**2
        return min(MOST_MARGINAL, max(LEAST_MARGINAL, share))

    def _rounds(self, budget: Budget, pairs: Sequence[Clique], share: float) -> tuple[int, list[Clique]]:
        """How many interactions are affordable within a share of the budget, and which are candidates."""
        share *= 1 - CHOICE_SHARE
        if not self.facts.rows or not pairs:
            return 0, []
        candidates = [c for c in pairs if self._affordable(c, _part(budget, share))]
        rounds = 0
        while rounds < min(MOST_ROUNDS, len(candidates)):
            cost = _part(budget, share / (rounds + 1))
            if sum(self._affordable(c, cost) for c in candidates) * 2 < len(candidates):
                break
            rounds += 1
        return rounds, candidates if rounds else []

    def _quiet(self, budget: Budget, effects: Sequence[Clique], marginal: float) -> bool:
        """Whether noise is negligible on most tables even with the generous share given away."""
        left = _part(budget, (1 - marginal) * (1 - GENEROUS_SHARE))
        costs = zip(effects, self._weights(effects, budget), strict=True)
        ratios = [self._noise_to_sampling(c, _part(left, w)) for c, w in costs]
        return bool(ratios) and float(np.median(ratios)) <= NEGLIGIBLE_NOISE

    def _affordable(self, clique: Clique, cost: Budget) -> bool:
        """Whether the noise variance on a cell is at most four times the sampling variance of an average one."""
        schema, names = self.spec.schema, clique.predictors
        labels = clique.labels(schema)
        noise = noise_sd(schema, cost, labels) ** 2
        most = NOISE_TO_SAMPLING * (self.facts.rows or 0) / labels / noise if noise > 0 else np.inf
        # A table has at least as many occupied cells as each of its columns, and at most all: few need be looked up.
        if max((self._occupied_levels[n] for n in names), default=1) > most:
            return False
        return schema.size(names) <= most or self._cells(clique) <= most

    @cached_property
    def _occupied_levels(self) -> dict[str, int]:
        """Levels of every predictor that hold a row."""
        return {n: self.facts.occupied(self.spec.schema, (n,)) for n in self.spec.predictors}

    def _noise_to_sampling(self, clique: Clique, cost: Budget) -> float:
        """Noise variance of a count over the sampling variance of an average cell with equally frequent labels."""
        labels = clique.labels(self.spec.schema)
        sampling = (self.facts.rows or 0) / self._cells(clique) / labels
        return noise_sd(self.spec.schema, cost, labels) ** 2 / max(sampling, 1e-9)


def _part(budget: Budget, share: float) -> Budget:
    return type(budget).of_units(max(1, int(budget.units * share)))
