"""A public table to start from: what it says of how columns go together, trusted as far as the private rows agree.

A public table of the same columns (an earlier year, another country, a survey) is fitted by a graphical model of its
own, free of charge. Of that model the *interactions* are taken, θ of every pair: how much likelier two values are
together than apart. The fit of the private tables (`entropy`) then starts from

    q ∝ Π (columns, as they were measured) · exp(t · Σ θ)

instead of independent columns, and moves away from it as far as noisy tables demand. Noisy tables learn from the public
ones besides (`join_expected`): a noisy table and what is expected of it are two measurements of the same thing, joined by
inverse variance. How far the two lie apart is estimated from their distance less the noise in it, a positive-part
James–Stein estimate: what differs is left as it was measured.

The *trust* t is chosen privately, by how far the model that would start there is from the rows, in the columns and pairs
of columns of which the public table says most; no trust at all, as if there were no public table, is among the
candidates. Trust has to gain more than such a choice can mistake (`ODDS`). So a table that misleads is left aside, and
costs what the choice did, `CHOICE` of the budget.

Privacy
-------
One call of `Curator.choose` with `Disagreement`; the rest reads public rows and noisy answers (``docs/proofs/aim.md``,
section 5). That the table is public, or what it cost, is what the steward says: `Curator.public`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.methods.graph.entropy import Factors, fit
from dipsmith.methods.graph.evidence import LEAST_SD, Evidence
from dipsmith.methods.graph.junction import Array, Attributes, cells_needed
from dipsmith.methods.graph.queries import marginal, pairs
from dipsmith.methods.graph.wide import choice_doubt
from dipsmith.methods.method import Planned
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy import neighbours
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import Budget, of_units
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.score import Score
from dipsmith.schema import Codes, Marginal, Schema

CHOICE = 0.03
"""The share of the budget by which the trust in a public table is chosen."""

TRUSTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The trusts to choose from."""

ODDS = 20
"""Where a public table brings the model no nearer to the rows, trust in it is chosen once in so many times."""

ROOM = 8
"""The public model has at most this part of the cells that the private one may have."""

PAIRS_PER_COLUMN = 4
"""How many pairs of a public table are looked at for its model, those that tell most."""

CERTAIN = 5.0
"""A pair of public columns that shows no more than chance does, and so many of its standard deviations, is not looked at."""

PUBLIC_TOLERANCE, PUBLIC_ITERATIONS = 1e-4, 60
"""Tolerance of the fits among which the trust is chosen, in nats per row, and their steps at most."""


@dataclass(frozen=True, eq=False)
class PublicModel:
    """What a public table says: the shares of its columns, and how its pairs of columns go together (θ)."""

    shares: Mapping[str, Array]
    interactions: Mapping[Attributes, Array]

    @classmethod
    def of(cls, rows: Codes, schema: Schema, max_cells: int) -> PublicModel:
        """Fit a public table, with the pairs that tell most as far as the model has room for them."""
        known = replace(rows, schema=schema)
        lawful = known.take(known.lawful())
        if not len(lawful):
            return cls({}, {})
        names = [n for n in schema.names if n in lawful.columns]
        shares = {n: _counts(lawful, schema, (n,)) / len(lawful) for n in names}
        linked = _telling_pairs(lawful, schema, shares, max_cells // ROOM)
        tables = [Evidence(p, _counts(lawful, schema, p), 1.0) for p in linked]
        columns = [Evidence((n,), _counts(lawful, schema, (n,)), 1.0) for n in names]
        fitted = fit(schema, [*columns, *tables], float(len(lawful)))
        return cls(shares, {p: fitted.potentials[p] for p in linked})

    def factors(self, trust: float) -> Factors:
        """The factors that a fit starts from."""
        return [(names, np.exp(trust * theta)) for names, theta in self.interactions.items()] if trust else []

    def join_columns(self, columns: Sequence[Evidence], total: float) -> list[Evidence]:
        """Every noisy column, joined with what the public table says of it."""
        expected = {n: total * shares for n, shares in self.shares.items()}
        known = [e for e in columns if e.attributes[0] in expected]
        apart = [max(0.0, _distance(e, expected[e.attributes[0]])) for e in known]
        typical = sum(apart) / max(len(apart), 1)
        # A column of few values tells little of how far it is off: all others have a say in it.
        joined = {
            e.attributes: _join(e, expected[e.attributes[0]], (a + typical) / 2)
            for e, a in zip(known, apart, strict=True)
        }
        return [joined.get(e.attributes, e) for e in columns]


@dataclass(frozen=True, eq=False)
class Start:
    """What the private fit starts from: evidence about the columns, factors of q, and the sets of columns that they link.

    Without factors nothing that a public table ties together is taken from it.
    """

    evidence: list[Evidence]
    factors: Factors
    links: list[Attributes]


def start_from(
    curator: Curator,
    prior: PublicTable | None,
    evidence: Sequence[Evidence],
    total: float,
    candidates: Sequence[Attributes],
    budget: Budget | None,
    max_cells: int,
) -> Start:
    """What the private fit starts from: with a public table as `choose_start` says, without one the evidence alone."""
    if prior is None or budget is None:
        return Start(list(evidence), [], [])
    public = PublicModel.of(prior.codes, curator.schema, max_cells)
    return choose_start(curator, public, evidence, total, [c for c in candidates if len(c) < 3], budget)


def choose_start(
    curator: Curator,
    prior: PublicModel,
    evidence: Sequence[Evidence],
    total: float,
    candidates: Sequence[Attributes],
    budget: Budget,
) -> Start:
    """How far to trust a public table, chosen privately by the error of the models that start from it.

    `candidates` are columns and pairs of columns; models are compared by those in which they differ most.

    Privacy
    -------
    One choice with `Disagreement`: the budget.
    """
    joined, links = prior.join_columns(evidence, total), list(prior.interactions)
    starts: dict[float | None, Start] = {None: Start(list(evidence), [], [])}
    for trust in TRUSTS if links else TRUSTS[:1]:
        starts[trust] = Start(joined, prior.factors(trust), links if trust else [])
    expected: dict[float | None, dict[Attributes, Array]] = {}
    for choice, start in starts.items():
        fitted = fit(
            curator.schema,
            start.evidence,
            total,
            linked=start.links,
            prior=start.factors,
            tolerance=PUBLIC_TOLERANCE,
            iterations=PUBLIC_ITERATIONS,
        )
        tables: dict[Attributes, Array] = dict(pairs(fitted.tree, fitted.beliefs, candidates).items())
        tables |= {c: marginal(fitted.tree, fitted.beliefs, c) for c in candidates if len(c) == 1}
        expected[choice] = {c: total * tables[c] for c in candidates}
    telling = _where_apart(expected, len(curator.schema.names))
    expected = {choice: {c: tables[c] for c in telling} for choice, tables in expected.items()}
    doubt = choice_doubt(neighbours.l1(curator.relation, curator.max_rows), budget, ODDS * len(TRUSTS))
    score = Disagreement(curator.schema, expected, {trust: doubt for trust in starts if trust is not None})
    return starts[curator.choose(list(starts), score, budget)]


def join_expected(noisy: Evidence, expected: Array) -> Evidence:
    """A noisy table joined with what is expected of it, by as much as the two agree."""
    return _join(noisy, expected, max(0.0, _distance(noisy, expected)))


@dataclass(frozen=True)
class PriorBudget:
    """What a public table cost, in the currency of the run; what choosing the trust in it may cost; what is left."""

    table: Budget | None
    choice: Budget | None
    rest: Budget


def plan_trust(prior: PublicTable | None, shares: PriorBudget) -> list[Planned]:
    """The line of the plan about the public table, where there is one."""
    if prior is None or shares.choice is None:
        return []
    return [Planned("trust", f"how far to trust {prior.what}", shares.choice)]


def split_prior(method: str, prior: PublicTable | None, schema: Schema, budget: Budget) -> PriorBudget:
    """Divide a budget; refuses a public table where there can be none, and one that cost too much."""
    if prior is None:
        return PriorBudget(None, None, budget)
    if schema.places is not None or schema.unit.order is not None or schema.members is not None:
        raise UsageError(
            f"{method}: a prior is for rows that stand by themselves, and the schema has places, careers or households; "
            "leave the prior out"
        )
    table, rest = None, budget
    if prior.cost is not None:
        table = of_units(budget.currency, convert(prior.cost, budget.currency))
        if table.units >= budget.units:
            raise UsageError(f"{method}: the public table cost {prior.cost}, which {budget} cannot cover")
        rest = of_units(budget.currency, budget.units - table.units)
    return PriorBudget(table, *rest.split([CHOICE, 1 - CHOICE]))


@dataclass(frozen=True, eq=False)
class Disagreement(Score[float | None]):
    """How far columns and pairs of columns lie from those of a model: minus the mean of their L1 distances, in rows.

    `expected` has for every candidate the expected counts of the same tables, `doubts` what is taken off the score of some.

    Privacy
    -------
    One unit moves every distance by at most the L1 sensitivity of a table of counts, k or 2k where a row may change, and the
    mean of them by no more. Not monotone.
    """

    schema: Schema
    expected: Mapping[float | None, Mapping[Attributes, Array]]
    doubts: Mapping[float | None, float] = field(default_factory=dict)

    name = "disagreement"

    def tables(self, candidate: float | None) -> Sequence[Marginal]:
        """All of them."""
        return [Marginal.of(self.schema, pair) for pair in self.expected[candidate]]

    def value(self, candidate: float | None, counts: Sequence[NDArray[np.int64]]) -> float:
        """Minus the mean distance, and minus the doubt."""
        models = self.expected[candidate].values()
        distances = [float(np.abs(c - m.ravel()).sum()) for c, m in zip(counts, models, strict=True)]
        return -sum(distances) / max(len(distances), 1) - self.doubts.get(candidate, 0.0)

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """That of one table of counts."""
        return Fraction(neighbours.l1(relation, max_rows))


def _where_apart(expected: Mapping[float | None, Mapping[Attributes, Array]], most: int) -> list[Attributes]:
    """The tables in which some model is furthest from the one that knows no public table."""
    alone = expected[None]
    apart = {c: max(float(np.abs(m[c] - table).sum()) for m in expected.values()) for c, table in alone.items()}
    return sorted(apart, key=lambda c: -apart[c])[:most]


def _counts(rows: Codes, schema: Schema, names: Attributes) -> Array:
    table = Marginal.of(schema, names)
    return np.bincount(table.index(rows), minlength=table.size).reshape(table.shape).astype(np.float64)


def _telling_pairs(rows: Codes, schema: Schema, shares: Mapping[str, Array], cells: int) -> list[Attributes]:
    """The pairs of columns with the most information about one another, more than chance has, within so many cells."""
    told: dict[Attributes, float] = {}
    for pair in combinations(shares, 2):
        if schema.size(pair) <= cells:
            joint = _counts(rows, schema, pair) / len(rows)
            apart = np.multiply.outer(shares[pair[0]], shares[pair[1]])
            seen = joint > 0
            # Under independence 2n·I is χ² with so many degrees of freedom.
            free = (np.count_nonzero(shares[pair[0]]) - 1) * (np.count_nonzero(shares[pair[1]]) - 1)
            chance = (free + CERTAIN * sqrt(2 * free)) / (2 * len(rows))
            told[pair] = float((joint[seen] * np.log(joint[seen] / apart[seen])).sum()) - chance
    best = sorted((p for p in told if told[p] > 0), key=lambda p: -told[p])[: PAIRS_PER_COLUMN * len(shares)]
    sizes = {a.name: a.size for a in schema.attributes}
    kept: list[Attributes] = []
    for wish in best:
        if cells_needed(sizes, [*kept, wish]) <= cells:
            kept.append(wish)
    return kept


def _distance(noisy: Evidence, expected: Array) -> float:
    """How far a table lies from what is expected, noise aside: the sum of squared differences; below 0 by chance."""
    return float(((noisy.values - expected) ** 2).sum()) - noisy.free * noisy.variance


def _join(noisy: Evidence, expected: Array, apart: float) -> Evidence:
    """Two measurements of a table by inverse variance; the expected one is `apart` in all.

    Four fifths of that are where rows are expected, one anywhere: what a public table has never seen may still be there.
    """
    between = apart * (4 * expected / max(float(expected.sum()), 1.0) + 1 / expected.size) / 5
    weight = between / (between + max(noisy.variance, LEAST_SD**2))
    values = expected + weight * (noisy.values - expected)
    return replace(noisy, values=values, variance=float(weight.mean()) * noisy.variance)
