"""Expected error of every 1- and 2-way marginal, from the noise alone, before anything is spent.

The noise is known exactly: what is asked, and how loud the answer will be, is in the plan. A table of N
noisy counts with variance v says of a marginal with N_S cells that each of its counts has variance
v·N/N_S, less a share 1/N_S where the number of rows is known (the counts are moved to add up to it:
`estimation.answers`). Tables that contain the same marginal are joined by inverse variance. From that follow

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

from dataclasses import asdict, dataclass
from itertools import combinations
from math import exp, inf, lgamma, log, pi, sqrt
from typing import Any, Literal

from dipsmith.methods.method import PublicFacts
from dipsmith.methods.outlook import Names, Outlook, PlannedTable
from dipsmith.schema import Schema

How = Literal["public", "measured", "at most", "if chosen", "unknown"]


@dataclass(frozen=True)
class ExpectedError:
    """What noise will do to one marginal; figures that are not known are None."""

    attributes: Names
    cells: int  # under `label` those that are publicly occupied
    count_sd: float | None  # standard deviation of the noise on one count
    share_sd: float | None  # the same as a share of the rows
    tvd: float | None  # expected total variation distance
    how: How

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON-able values."""
        figures = asdict(self)
        return {"marginal": list(figures.pop("attributes")), **figures}


def expected_errors(schema: Schema, outlook: Outlook, facts: PublicFacts, *, pure: bool) -> tuple[ExpectedError, ...]:
    """The expected error of all 1-way, then all 2-way marginals, in the schema's order; `pure`: noise is Laplace."""
    run = _Run(schema, outlook, facts, pure)
    return tuple(run.error(names) for ways in (1, 2) for names in combinations(schema.names, ways))


@dataclass(frozen=True)
class _Run:
    """What is public about a run."""

    schema: Schema
    outlook: Outlook
    facts: PublicFacts
    pure: bool

    @property
    def _label(self) -> bool:
        return self.schema.neighbours == "label"

    def error(self, names: Names) -> ExpectedError:
        """The error of one marginal."""
        cells = self._cells(names)
        if self._label and all(self.schema[n].role == "public" for n in names):
            return ExpectedError(names, cells, 0.0, 0.0, 0.0, "public")
        having = [t for t in self.outlook.tables if set(names) <= set(t.attributes)]
        evidence = [self._variance(names, cells, t) for t in having]
        how: How = "measured" if self.outlook.complete else "at most"
        if not evidence and names in self.outlook.if_chosen:
            evidence, how = [self.outlook.if_chosen[names]], "if chosen"
        if not evidence:
            return ExpectedError(names, cells, None, None, None, "unknown")
        sd = 0.0 if min(evidence) == 0 else sqrt(1 / sum(1 / v for v in evidence))
        rows = self.facts.rows
        if not rows:
            return ExpectedError(names, cells, sd, None, None, how)
        mean = sd * mean_to_sd(having[0].cells / cells if self.pure and len(having) == 1 else inf)
        return ExpectedError(names, cells, sd, sd / rows, min(1.0, cells * mean / (2 * rows)), how)

    def _variance(self, names: Names, cells: int, table: PlannedTable) -> float:
        """The variance that a table gives to each count of a marginal."""
        summed = table.cells / cells
        if not self._label:
            total_known = self.facts.rows is not None and cells > 1
            return table.variance * summed * (1 - 1 / cells if total_known else 1.0)
        # The labels of a public group add up, which takes M/K of the variance off a sum of M of its K counts; of
        # two labels a single count is drawn, and both have its variance.
        inside = self.schema.size([n for n in names if self.schema[n].role == "private"])
        left = 1.0 if table.labels == 2 else 1 - 1 / inside
        return table.variance * summed * left / table.repeats

    def _cells(self, names: Names) -> int:
        if not self._label:
            return self.schema.size(names)
        public = [n for n in names if self.schema[n].role == "public"]
        groups = self.facts.occupied(self.schema, public) if public else 1
        return max(1, groups) * self.schema.size([n for n in names if n not in public])


def mean_to_sd(summed: float) -> float:
    """E|S| / sd(S) for a sum of so many independent Laplace variables, of normal ones for `inf`.

    >>> round(mean_to_sd(1), 4), round(mean_to_sd(1e9), 4)
    (0.7071, 0.7979)
    """
    if summed > 1e6:
        return sqrt(2 / pi)
    m = max(summed, 1.0)
    return sqrt(2 * m) * exp(lgamma(2 * m + 1) - 2 * lgamma(m + 1) - 2 * m * log(2))
