"""The settings of one ensemble of trees, and what each of its questions to the curator costs.

Costs follow from the schema, the settings and the public number of rows alone, so that a plan made
beforehand and the run agree to the last unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Final, Literal

from dipsmith.methods.method import count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

SPLIT_WHILE: Final = 40.0
"""A branch is split while it has this many standard deviations of a leaf's noise (when n_b is not given)."""
LEAST_SPLIT: Final = 25
"""No branch with fewer rows is split (when n_b is not given)."""
MARGINAL_COST: Final = 1e-3
"""Nats per row that the noise on the label marginal may cost."""
MOST_FOR_MARGINAL: Final = 0.6
ADVICE: Final = (
    "Plan such a regression (--analysis), put its columns on every path (must_include), or use a log-linear labeller."
)
"""Against attenuation."""
FIRST_WEIGHT: Final = 0.5
"""Budget of the first attribute's histogram, against 1 for each ensemble of trees."""


@dataclass(frozen=True)
class EnsembleSpec:
    """The columns of one ensemble: what it labels, what its trees may ask, what every path asks first."""

    targets: tuple[str, ...]
    predictors: tuple[str, ...]
    must_ask: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " × ".join(self.targets)

    def growth_columns(self, schema: Schema, relation: str) -> list[str]:
        """The predictors that rows to grow on have: under `label` the public ones."""
        return [n for n in self.predictors if relation != "label" or schema[n].role == "public"]

    def all_public(self, schema: Schema) -> bool:
        """Whether trees ask nothing private."""
        return all(schema[n].role == "public" for n in self.predictors)

    def leaf_noise(self, schema: Schema, relation: str, budget: Budget) -> float:
        """Standard deviation of the noise on one count of a leaf."""
        single = relation == "label" and self.all_public(schema) and schema.size(self.targets) == 2
        return count_noise(relation, schema.unit.max_rows, budget, single=single).sd


def split_among(budget: Budget, specs: Sequence[EnsembleSpec]) -> tuple[Budget, ...]:
    """The budget of each ensemble."""
    return tuple(budget.split([1.0 if s.predictors or len(specs) == 1 else FIRST_WEIGHT for s in specs]))


@dataclass(frozen=True)
class EnsembleCosts:
    """What each question costs: the label marginal, each choice, each level of each tree, each tree's leaves."""

    marginal: Budget | None
    order: tuple[Budget, ...]
    growth: tuple[Budget, ...]
    trees: tuple[Budget, ...]

    def levels(self, tree: int) -> tuple[Budget, ...]:
        """What the levels of one tree may cost."""
        each = len(self.growth) // max(len(self.trees), 1)
        return self.growth[tree * each : (tree + 1) * each]


@dataclass(frozen=True)
class TreeSettings:
    """The parameters of `Forest` that concern one ensemble."""

    trees: int
    n_b: int | None
    n_leaf: int | None
    weights: Literal["auto"] | Mapping[str, float] | None
    max_depth: int | None
    shrink: bool
    marginal_share: float
    order_share: float
    growth_share: float

    @property
    def ordered(self) -> bool:
        """Whether the order of attributes is bought."""
        return self.weights == "auto" and self.order_share > 0

    def weight(self, name: str) -> float:
        """The weight that the steward gave an attribute, else 1."""
        return self.weights.get(name, 1.0) if isinstance(self.weights, Mapping) else 1.0

    def split_from(self, schema: Schema, relation: str, spec: EnsembleSpec, budget: Budget) -> float:
        """The count from which branches are split: as set, or a multiple of the noise on a leaf's counts."""
        if self.n_b is not None:
            return self.n_b
        return max(LEAST_SPLIT, ceil(SPLIT_WHILE * spec.leaf_noise(schema, relation, budget)))

    def costs(
        self, schema: Schema, spec: EnsembleSpec, budget: Budget, *, relation: str, rows: int | None, noisy: bool
    ) -> EnsembleCosts:
        """Divide an ensemble's budget among its questions, given the public number of rows."""
        if not spec.predictors:
            return EnsembleCosts(budget, (), (), ())
        depth = self.expected_depth(schema, spec)
        choices = min(depth, len(spec.predictors) - 1) if self.ordered else 0
        levels = depth - 1 if noisy else 0
        marginal = self._marginal_share(schema, spec, budget, relation, rows)
        rest = (1.0 - marginal) / (1.0 - self.marginal_share)
        asked = [marginal, rest * self.order_share if choices else 0.0, rest * self.growth_share if levels else 0.0]
        parts: list[Budget] = list(budget.split([*(a for a in asked if a > 0), 1.0 - sum(asked)]))
        trees: tuple[Budget, ...] = tuple(parts.pop().split(self.trees))
        given: list[Budget | None] = [parts.pop(0) if a > 0 else None for a in asked]
        return EnsembleCosts(
            given[0],
            () if given[1] is None else tuple(given[1].split(choices)),
            () if given[2] is None else tuple(given[2].split(levels * self.trees)),
            trees,
        )

    def expected_depth(self, schema: Schema, spec: EnsembleSpec) -> int:
        """How many levels a tree is expected to have: until ten thousand equal branches."""
        mean = sum(log(schema[name].size) for name in spec.predictors) / len(spec.predictors)
        expected = 8 if mean <= 0 else min(max(ceil(log(1e4) / mean), 2), 8)
        deepest = len(spec.predictors) if self.max_depth is None else self.max_depth
        return min(expected, deepest, len(spec.predictors))

    def _marginal_share(
        self, schema: Schema, spec: EnsembleSpec, budget: Budget, relation: str, rows: int | None
    ) -> float:
        """The share of the label marginal: as set, or more where its noise alone would cost too much.

        With K equally frequent labels, noise of variance v on their counts costs K(K−1)·v/2n² nats per row,
        and v falls with the square of ε, or with ρ.
        """
        if self.marginal_share == 0 or not rows:
            return self.marginal_share
        labels = schema.size(spec.targets)
        single = relation == "label" and labels == 2
        whole = count_noise(relation, schema.unit.max_rows, budget, single=single)
        loss = labels * (labels - 1) * whole.sd**2 / (2 * rows**2)
        needed = (loss / MARGINAL_COST) ** (0.5 if budget.currency == "epsilon" else 1.0)
        return float(max(self.marginal_share, min(needed, MOST_FOR_MARGINAL)))
