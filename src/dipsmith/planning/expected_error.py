"""Expected error of every 1- and 2-way marginal, from the noise alone, before anything is spent.

The noise is known exactly: what is asked, and how loud the answer will be, is in the plan. A table of N
noisy counts with variance v says of a marginal with N_S cells that each of its counts has variance
v·N/N_S, less a share 1/N_S where the number of rows is known (the counts are moved to add up to it:
`consistency.answers`). Tables that contain the same marginal are joined by inverse variance. From that follow

- the standard deviation of a share of the rows, √variance / rows, and
- the expected total variation distance ½·Σ E|error| / rows; for a sum of M independent Laplace
  variables of scale b, E|error| = 2bM·C(2M, M)/4^M, which is √(2/π) standard deviations for large M.

It is an error of noise only, before negative counts are removed and before rows are drawn (which adds
√(p(1−p)/rows) to a share). Removing negative counts makes the whole table better and can make sums over
sparse cells worse; a model that is smaller than the table adds what it cannot express. `how` says what
each figure means:

- `public`: exact, the columns are public under `label`;
- `measured`: the marginal is contained in a table that will be measured;
- `at most`: the same, and more evidence will be joined with it;
- `if chosen`: if the method decides to measure it; otherwise it is what the model makes of others;
- `unknown`: nothing can be said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import exp, inf, lgamma, log, pi, sqrt
from typing import Any, Final, Literal

from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.graph.misfit import budget_weights
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.loglinear.clique import Clique
from dipsmith.methods.loglinear.questions import occupied
from dipsmith.methods.method import Method, Planned, PublicFacts, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

How = Literal["public", "measured", "at most", "if chosen", "unknown"]
Names = tuple[str, ...]

EXACT_TABLES: Final = ("flat", "marginals")
"""Methods whose tables are all that is ever known of a marginal."""

LATER: Final = ("chosen pairs", "chosen marginals", "families")
"""Stages that measure what was chosen; their noise is that of one of them."""


@dataclass(frozen=True)
class MarginalError:
    """What noise will do to one marginal.

    Attributes
    ----------
    attributes
        Its columns.
    cells
        Its cells; under `label`, those that are publicly occupied.
    count_sd
        Standard deviation of the noise on one of its counts; None when unknown.
    share_sd, tvd
        The same as a share of the rows, and the expected total variation distance; None when the number
        of rows is unknown too.
    how
        What the figures mean.
    """

    attributes: Names
    cells: int
    count_sd: float | None
    share_sd: float | None
    tvd: float | None
    how: How

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON-able values."""
        return {
            "marginal": list(self.attributes),
            "cells": self.cells,
            "count_sd": self.count_sd,
            "share_sd": self.share_sd,
            "tvd": self.tvd,
            "how": self.how,
        }


@dataclass(frozen=True)
class _Table:
    """A table that will be measured: `cells` noisy counts per cell of its publicly known part.

    Attributes
    ----------
    attributes
        Its columns.
    cells
        Its noisy counts in all.
    variance
        Of the noise on one count.
    labels
        Under `label`: counts per public group, which are known to add up; otherwise 0.
    repeats
        In how many independent copies it is measured (trees of a forest).
    """

    attributes: Names
    cells: float
    variance: float
    labels: int = 0
    repeats: int = 1


def marginal_errors(
    schema: Schema, method: Method, budget: Budget, steps: Sequence[Planned], facts: PublicFacts
) -> tuple[MarginalError, ...]:
    """The expected error of all 1-way, then all 2-way marginals, in the schema's order.

    Parameters
    ----------
    schema, method, budget
        What is planned.
    steps
        The method's plan.
    facts
        The number of rows, and the public rows under `label`.
    """
    label = schema.neighbours == "label"
    outlook = _Outlook(schema, method, facts, label, budget.currency == "epsilon")
    known = outlook.forest(budget, steps) if isinstance(method, Forest) else outlook.tables(steps)
    wanted: list[Names] = [(n,) for n in schema.names] + list(combinations(schema.names, 2))
    return tuple(outlook.error(names, known, steps) for names in wanted)


@dataclass(frozen=True)
class _Outlook:
    """What is public about a run."""

    schema: Schema
    method: Method
    facts: PublicFacts
    label: bool
    pure: bool

    @cached_property
    def _pairs(self) -> dict[Names, float]:
        """The pairs that a spanning tree may measure, and their weights in its budget."""
        assert isinstance(self.method, MST)
        pairs = self.method.candidates(self.schema)
        sizes = [self.schema.size(p) for p in pairs]
        weights = budget_weights(sizes, "epsilon" if self.pure else "rho")
        return dict(zip(pairs, weights, strict=True))

    @cached_property
    def _mean_weight(self) -> float:
        return sum(self._pairs.values()) / len(self._pairs)

    def tables(self, steps: Sequence[Planned]) -> list[_Table]:
        """The tables that the plan names."""
        # A hierarchy whose order is chosen or drawn is known by its leaves only.
        ordered = any(s.stage == "order" or "at random" in s.note for s in steps)
        found = []
        for step in steps:
            names = table_of(self.schema, step)
            if names is None or step.sd is None or (ordered and step.stage.startswith("layer")):
                continue
            size = self.schema.size(names) if step.cells is None else step.cells
            labels = (
                self.schema.size([n for n in names if self.schema[n].role == "private"]) if self.label else 0
            )
            found.append(_Table(names, float(size), step.sd**2, labels))
        strata = getattr(self.method, "strata", None)
        return found if strata is None else _over_strata(found, self.schema[strata].size)

    def forest(self, budget: Budget, steps: Sequence[Planned]) -> list[_Table]:
        """Label marginals, and under `label` with public rows the leaves of the trees."""
        assert isinstance(self.method, Forest)
        found = [t for t in self.tables(steps) if len(t.attributes) == 1 or self.label]
        if not self.label or self.facts.public_rows is None:
            return found
        trees = self.method.trees
        for shape in self.method.preview(self.schema, budget, self.facts).shapes:
            targets = tuple(n for n in self.schema.names if n in shape.ensemble.split(" × "))
            labels = self.schema.size(targets)
            leaves = shape.leaves / trees
            found.append(
                _Table((*self.schema.public, *targets), leaves * labels, shape.noise**2, labels, trees)
            )
        return found

    def error(self, names: Names, known: Sequence[_Table], steps: Sequence[Planned]) -> MarginalError:
        """The error of one marginal."""
        cells = self._cells(names)
        private = [n for n in names if not self.label or self.schema[n].role == "private"]
        if not private:
            return MarginalError(names, cells, 0.0, 0.0, 0.0, "public")
        having = [t for t in known if set(names) <= set(t.attributes)]
        evidence = [self._variance(names, cells, t) for t in having]
        how: How = "measured" if self.method.name in EXACT_TABLES else "at most"
        if isinstance(self.method, MST) and len(names) == 1:
            evidence += self._by_pair(names[0], steps)
        elif not evidence and not self.label:
            evidence, how = self._if_chosen(names, steps), "if chosen"
        if not evidence:
            return MarginalError(names, cells, None, None, None, "unknown")
        variance = 0.0 if min(evidence) == 0 else 1 / sum(1 / v for v in evidence)
        summed = having[0].cells / cells if len(having) == 1 else inf
        return self._error(names, cells, variance, summed, how)

    def _error(self, names: Names, cells: int, variance: float, summed: float, how: How) -> MarginalError:
        sd, rows = sqrt(variance), self.facts.rows
        if not rows:
            return MarginalError(names, cells, sd, None, None, how)
        mean = sd * mean_to_sd(summed if self.pure else inf)
        return MarginalError(names, cells, sd, sd / rows, min(1.0, cells * mean / (2 * rows)), how)

    def _variance(self, names: Names, cells: int, table: _Table) -> float:
        """The variance that a table gives to each count of a marginal."""
        summed = table.cells / cells
        if not self.label:
            return (
                table.variance
                * summed
                * (1 - 1 / cells if self.facts.rows is not None and cells > 1 else 1.0)
            )
        # The labels of a public group add up, which takes M/K of the variance off a sum of M of its K counts; of
        # two labels a single count is drawn, and both have its variance.
        inside = self.schema.size([n for n in names if self.schema[n].role == "private"])
        left = 1.0 if table.labels == 2 else 1 - 1 / inside
        return table.variance * summed * left / table.repeats

    def _by_pair(self, name: str, steps: Sequence[Planned]) -> list[float]:
        """What the least telling pair says of a column; a spanning tree measures at least one."""
        assert isinstance(self.method, MST)
        partners = [b if a == name else a for a, b in self._pairs if name in (a, b)]
        if not partners:
            return []
        worst = max(partners, key=lambda p: self.schema[p].size)
        return [v * self.schema[worst].size for v in self._if_chosen((name, worst), steps)]

    def _if_chosen(self, names: Names, steps: Sequence[Planned]) -> list[float]:
        """The variance of a marginal's counts if a table of its own is measured."""
        step = next((s for s in steps if s.stage in LATER), None)
        if step is None or step.sd is None or len(names) < 2:
            return []
        if not isinstance(self.method, MST):
            return [step.sd**2]
        # Larger pairs get a larger share: this one beside average ones.
        pairs = self._pairs
        weight = pairs.get(names, pairs.get(names[::-1]))
        if weight is None:
            return []
        joins = len(self.schema.names) - 1
        rest = (joins - 1) * self._mean_weight
        share = step.budget.split([weight, rest])[0] if rest > 0 else step.budget
        return [count_noise(self.schema.neighbours, self.schema.unit.max_rows, share).sd ** 2]

    def _cells(self, names: Names) -> int:
        if not self.label:
            return self.schema.size(names)
        public = tuple(n for n in names if self.schema[n].role == "public")
        groups = occupied(self.schema, self.facts, Clique(public, ())) if public else 1
        return max(1, groups) * self.schema.size([n for n in names if n not in public])


def _over_strata(tables: Sequence[_Table], strata: int) -> list[_Table]:
    """Tables of single strata, all listed or one for all, as tables of all rows: counts and noise add up."""
    groups: dict[Names, list[_Table]] = {}
    for table in tables:
        groups.setdefault(table.attributes, []).append(table)
    return [
        replace(group[0], variance=strata * sum(t.variance for t in group) / len(group))
        for group in groups.values()
    ]


def table_of(schema: Schema, step: Planned) -> Names | None:
    """The columns of the table that a line of a plan measures, None if it measures none that is known.

    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> s = Schema("t", tuple(Attribute(n, "string", Categories.of("xy")) for n in "ab"), Unit(), "add-remove")
    >>> table_of(s, Planned("effect", "a × b: effects to ± 0.2", PureDP(1), 4, 1.0))
    ('a', 'b')
    """
    if step.sd is None:
        return None
    for text in (step.what, step.what.rsplit(": ", 1)[0]):
        names = tuple(text.split(" × "))
        if all(n in schema for n in names):
            return names
    return None


def mean_to_sd(summed: float) -> float:
    """E|S| / sd(S) for a sum of so many independent Laplace variables, of normal ones for `inf`.

    >>> round(mean_to_sd(1), 4), round(mean_to_sd(1e9), 4)
    (0.7071, 0.7979)
    """
    if summed > 1e6:
        return sqrt(2 / pi)
    m = max(summed, 1.0)
    return sqrt(2 * m) * exp(lgamma(2 * m + 1) - 2 * lgamma(m + 1) - 2 * m * log(2))
