"""What a log-linear labeller will ask, decided from public facts: its cliques and their shares of the budget.

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
from itertools import combinations
from math import prod
from typing import Final

import numpy as np

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.estimation.lawful import require_possible
from dipsmith.methods.loglinear.clique import Clique
from dipsmith.methods.method import PublicFacts, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.formula import Formula

JOINT_LABELS: Final = 50
"""Up to so many joint labels several targets are modelled as one."""
MOST_LABELS: Final = 2000
"""Joint labels whose probabilities are held for each row of a chunk, at most."""
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
class Terms:
    """What a model is made of, checked against a schema: targets, predictors, interactions that are wanted.

    `responses` are the public attributes that planned analyses explain.
    """

    schema: Schema
    targets: tuple[str, ...]
    predictors: tuple[str, ...]
    interactions: tuple[tuple[str, ...], ...]
    responses: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        schema: Schema,
        relation: str,
        *,
        targets: Sequence[str],
        predictors: Sequence[str] | None,
        interactions: Sequence[Sequence[str]],
        analyses: Sequence[str | Sequence[str]],
        strata: str | None,
    ) -> Terms:
        """Check roles and names; a formula adds its public attributes and its products."""
        if relation != "label":
            raise UnsupportedError(
                f"loglinear needs public predictors, neighbours label, and the schema says {relation}: "
                "its likelihood is public only given public columns; use forest, mst or aim to make whole rows"
            )
        require_possible(schema)
        for name in targets:
            if schema[name].role == "public":
                raise UsageError(
                    f"loglinear: target '{name}' is public, nothing to synthesise; make it private"
                )
        labelled = tuple(n for n in schema.names if n in set(targets))
        if (joint := schema.size(labelled)) > MOST_LABELS:
            raise UnsupportedError(
                f"loglinear: {', '.join(labelled)} have {joint:,} joint labels, at most {MOST_LABELS:,} are "
                "possible; collapse labels, label some of them in another run, or use forest"
            )
        wanted = set(schema.public if predictors is None else predictors)
        groups = [tuple(g) for g in interactions]
        responses: set[str] = set()
        for analysis in analyses:
            names, products, explained = _analysed(schema, analysis)
            responses |= {n for n in explained if schema[n].role == "public" and n != strata}
            for name in names:
                if schema[name].role == "private" and name not in labelled:
                    raise UsageError(
                        f"loglinear: an analysis uses private column '{name}'; add it to targets"
                    )
            wanted |= {n for n in names if schema[n].role == "public"}
            groups += products
        wanted |= {n for g in groups for n in g} | ({strata} if strata else set())
        for name in schema.names:
            if name in wanted and schema[name].role == "private":
                raise UsageError(
                    f"loglinear: predictor '{name}' is private; predictors must be public columns"
                )
        for name in wanted:
            schema[name]
        groups = [tuple(n for n in g if n != strata) for g in groups]
        distinct = {frozenset(g): g for g in reversed(groups) if len(g) > 1}
        asked = tuple(n for n in schema.names if n in wanted and n != strata)
        return cls(schema, labelled, asked, tuple(reversed(distinct.values())), frozenset(responses))


@dataclass(frozen=True)
class Outline:
    """The questions of a run, in order, with what each costs.

    Attributes
    ----------
    marginals, effects
        The tables measured first, and what each costs.
    candidates
        The interactions among which the rounds choose.
    rounds
        What each round may spend on choosing and on measuring.
    """

    marginals: tuple[Clique, ...]
    effects: tuple[Clique, ...]
    costs: tuple[Budget, ...]
    candidates: tuple[Clique, ...] = ()
    rounds: tuple[tuple[Budget, Budget], ...] = ()


def target_groups(schema: Schema, targets: Sequence[str]) -> list[tuple[str, ...]]:
    """The targets as one group while their joint labels are few, else one by one."""
    several = prod(schema[t].size for t in targets) > JOINT_LABELS and len(targets) > 1
    return [(t,) for t in targets] if several else [tuple(targets)]


def outline(terms: Terms, budget: Budget, facts: PublicFacts, *, adaptive: bool, max_effects: int) -> Outline:
    """Decide the cliques and their shares from public facts alone."""
    schema = terms.schema
    groups = [g for g in target_groups(schema, terms.targets) if schema.size(g) > 1]
    if not groups:
        return Outline((), (), ())
    marginals = [Clique((), g) for g in groups]
    if len(groups) > 1:
        marginals += [Clique((), (a[0], b[0])) for a, b in combinations(groups, 2)]
    telling = [p for p in terms.predictors if facts.occupied(schema, (p,)) > 1]
    effects = [Clique((p,), g) for p in telling for g in groups]
    effects += [Clique(i, g) for i in terms.interactions for g in groups]
    share = _marginal_share(schema, budget, facts, marginals) if effects else 1.0
    room = max_effects - sum(effects_of(schema, c) for c in (*marginals, *effects))
    taken = {frozenset(i) for i in terms.interactions}
    pairs = [Clique(p, g) for p in combinations(telling, 2) for g in groups if frozenset(p) not in taken]
    pairs = [c for c in pairs if adaptive and effects_of(schema, c) <= room]
    spare = (1 - share) * (
        GENEROUS_SHARE if _quiet(schema, budget, facts, effects, share) else ADAPTIVE_SHARE
    )
    rounds, candidates = _adaptive(schema, budget, facts, pairs, spare)
    later = spare / rounds if rounds else 0.0
    parts = [share * w for w in _weights(schema, facts, marginals, budget)]
    weights = _weights(schema, facts, effects, budget, terms.responses)
    parts += [(1 - share - later * rounds) * w for w in weights]
    parts += [later * CHOICE_SHARE, later * (1 - CHOICE_SHARE)] * rounds
    costs = budget.split(parts)
    asked = len(marginals) + len(effects)
    return Outline(
        marginals=tuple(marginals),
        effects=tuple(effects),
        costs=tuple(costs[:asked]),
        candidates=tuple(candidates),
        rounds=tuple(zip(costs[asked::2], costs[asked + 1 :: 2], strict=True)),
    )


def shares(schema: Schema, facts: PublicFacts, budget: Budget, cliques: Sequence[Clique]) -> list[Budget]:
    """A budget over tables by the cube-root rule (square root under zCDP)."""
    return list(budget.split(_weights(schema, facts, cliques, budget)))


def remaining(
    schema: Schema,
    facts: PublicFacts,
    candidates: Sequence[Clique],
    model: Sequence[Clique],
    predictors: Sequence[str],
    cost: Budget,
    max_effects: int,
) -> list[Clique]:
    """The candidates after an interaction was chosen: those left, and the chosen one with one predictor more.

    Kept are those that the budget can measure well enough and with which the model stays small enough.
    """
    chosen = model[-1]
    wider = [
        Clique((*chosen.predictors, p), chosen.targets) for p in predictors if p not in chosen.predictors
    ]
    taken = {(frozenset(c.predictors), c.targets) for c in (*model, *candidates)}
    wider = [c for c in wider if (frozenset(c.predictors), c.targets) not in taken]
    left = [c for c in candidates if c != chosen] + [c for c in wider if _affordable(schema, facts, c, cost)]
    room = max_effects - sum(effects_of(schema, c) for c in model)
    return [c for c in left if effects_of(schema, c) <= room]


def effects_of(schema: Schema, clique: Clique) -> int:
    """Free effects of a clique."""
    return clique.cells(schema) * (clique.labels(schema) - 1)


def noise_sd(schema: Schema, budget: Budget, labels: int) -> float:
    """Standard deviation of the noise on one count of a table measured with `budget`."""
    return count_noise(schema.neighbours, schema.unit.max_rows, budget, single=labels == 2).sd


def occupied(schema: Schema, facts: PublicFacts, clique: Clique) -> int:
    """Public cells that hold a row, as far as is known."""
    return facts.occupied(schema, clique.predictors)


def _weights(
    schema: Schema,
    facts: PublicFacts,
    cliques: Sequence[Clique],
    budget: Budget,
    responses: Collection[str] = (),
) -> list[float]:
    power = 1 / 3 if budget.currency == "epsilon" else 1 / 2
    cells = [max(1, occupied(schema, facts, c)) * c.labels(schema) for c in cliques]
    weights = [
        float((n * _bearing(schema, facts, c, responses)) ** power)
        for n, c in zip(cells, cliques, strict=True)
    ]
    total = sum(weights)
    return [w / total for w in weights]


def _bearing(schema: Schema, facts: PublicFacts, clique: Clique, responses: Collection[str]) -> float:
    """How much of the noise on a table goes into the coefficients of planned analyses, up to a constant.

    The share of the response's variance that lies between the table's cells (1 for the response's own
    table), by the codes of the public rows, and a tenth for what the table tells of labels otherwise.
    """
    if not responses or facts.public_rows is None:
        return 1.0
    if set(clique.predictors) & set(responses):
        return 1.0 + OTHERWISE
    codes, often = facts.public_rows
    cell = Marginal.of(schema, clique.predictors).index(codes)
    rows = np.bincount(cell, often)
    largest = 0.0
    for name in responses:
        value = codes[name].astype(np.float64)
        value -= np.average(value, weights=often)
        within = np.bincount(cell, often * value)[rows > 0]
        whole = float(often @ value**2)
        largest = max(largest, float(np.sum(within**2 / rows[rows > 0])) / whole if whole > 0 else 0.0)
    return largest + OTHERWISE


def _marginal_share(schema: Schema, budget: Budget, facts: PublicFacts, marginals: Sequence[Clique]) -> float:
    labels = max(c.labels(schema) for c in marginals)
    if not facts.rows:
        return LEAST_MARGINAL
    wanted = facts.rows * float(np.sqrt(2 * MARGINAL_COST / (labels * (labels - 1))))
    ratio = noise_sd(schema, budget, labels) / wanted
    share = ratio if budget.currency == "epsilon" else ratio**2
    return min(MOST_MARGINAL, max(LEAST_MARGINAL, share))


def _adaptive(
    schema: Schema,
    budget: Budget,
    facts: PublicFacts,
    pairs: Sequence[Clique],
    share: float,
) -> tuple[int, list[Clique]]:
    """How many interactions are affordable within a share of the budget, and which come in question."""
    share *= 1 - CHOICE_SHARE
    if not facts.rows or not pairs:
        return 0, []
    candidates = [c for c in pairs if _affordable(schema, facts, c, _part(budget, share))]
    rounds = 0
    while rounds < min(MOST_ROUNDS, len(candidates)):
        cost = _part(budget, share / (rounds + 1))
        if sum(_affordable(schema, facts, c, cost) for c in candidates) * 2 < len(candidates):
            break
        rounds += 1
    return rounds, candidates if rounds else []


def _quiet(
    schema: Schema, budget: Budget, facts: PublicFacts, effects: Sequence[Clique], marginal: float
) -> bool:
    """Whether noise is negligible on most tables even with the generous share given away."""
    left = _part(budget, (1 - marginal) * (1 - GENEROUS_SHARE))
    costs = zip(effects, _weights(schema, facts, effects, budget), strict=True)
    ratios = [_noise_to_sampling(schema, facts, c, _part(left, w)) for c, w in costs]
    return bool(ratios) and float(np.median(ratios)) <= NEGLIGIBLE_NOISE


def _affordable(schema: Schema, facts: PublicFacts, clique: Clique, cost: Budget) -> bool:
    """Whether the noise variance on a cell is at most four times the sampling variance of an average one."""
    return _noise_to_sampling(schema, facts, clique, cost) <= NOISE_TO_SAMPLING


def _noise_to_sampling(schema: Schema, facts: PublicFacts, clique: Clique, cost: Budget) -> float:
    """Noise variance of a count over the sampling variance of an average cell with equally frequent labels."""
    labels = clique.labels(schema)
    sampling = (facts.rows or 0) / max(1, occupied(schema, facts, clique)) / labels
    return noise_sd(schema, cost, labels) ** 2 / max(sampling, 1e-9)


def _part(budget: Budget, share: float) -> Budget:
    return type(budget).of_units(max(1, int(budget.units * share)))


def _analysed(
    schema: Schema, text: str | Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
    """The attributes of an analysis, the groups of public ones that it multiplies, and what it explains.

    A product with a private column ("sex*agency") is about how the response depends on it, so the
    response belongs to the group.
    """
    if not isinstance(text, str):
        return tuple(text), [], ()
    if "~" not in text:
        return (text,), [], ()
    formula = Formula.parse(text)
    groups = []
    for product in formula.products:
        private = any(schema[n].role == "private" for n in product)
        names = dict.fromkeys((*product, *(formula.response if private else ())))
        groups.append(tuple(n for n in names if schema[n].role == "public"))
    return formula.attributes, [g for g in groups if len(g) > 1], tuple(formula.response)
