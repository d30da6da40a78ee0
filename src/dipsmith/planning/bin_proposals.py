"""How many bins a run bears: by its rows, its noise and the analyses that are planned, before anything is spent.

Values are drawn evenly within bins, so that wide bins blur what a column says; and every bin more is a row of noisy cells in
each table that the column is in. With n rows and noise of standard deviation σ on a cell about √(n/σ) bins lose least. On
simulated tables of 5,000 and 50,000 rows at ε = 0.5, where that is 8 and 26, pairs of columns came out best with 12 and 24
bins, and the direct estimate of a planned slope with 8 and 24: with fewer it is refused because of the bins, with more noise
drowns it (docs/decisions/0023-bins-by-noise.md).

Public facts only: the schema, the plan of the run, the stated number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any, cast

from dipsmith.analyses.bin_doubt import number_names
from dipsmith.methods.method import Planned
from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Bins, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.formula.words import abridge
from dipsmith.schema.proposals import WIDE, log_edges, nice_step

FEWEST = 4
"""Bins of a column that is released as a number at all."""
APART = 2.0
"""Up to so many times more or fewer bins are left alone: the loss is flat around its least."""
DECADES = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
"""Ways to cut a decade of a wide range."""


@dataclass(frozen=True)
class BinProposal:
    """Bins that would suit a run better than those of the schema, as a key of the field, and why."""

    column: str
    now: int
    bins: dict[str, object]
    count: int
    reason: str

    @property
    def line(self) -> tuple[str, ...]:
        """A line of a table; of many edges the first, `to_dict` has all."""
        written = f"{{width: {self.bins.get('width')}}}"
        if isinstance(edges := self.bins.get("edges"), list):
            written = f"{{edges: [{', '.join(map(str, edges[:4]))}, …], law: {self.bins['law']}}}"
        return self.column, written, self.reason, f"{self.now:,}", f"{self.count:,}"

    def to_dict(self) -> dict[str, Any]:
        """The proposal as JSON-able values."""
        return asdict(self)


def propose_bins(
    schema: Schema, steps: Sequence[Planned], rows: int | None, analyses: Sequence[PlannedAnalysis] = ()
) -> tuple[BinProposal, ...]:
    """Bins for every number that is released by its bins and has far too many or too few of them; none where rows are unknown."""
    if rows is None:
        return ()
    asked = _asked_numbers(schema, analyses)
    found = []
    for attribute in schema:
        kept = schema.neighbours == "label" and attribute.role == "public"
        domain, noise = attribute.domain, _noise(attribute.name, steps)
        if kept or not isinstance(domain, Bins) or domain.scale not in ("integer", "number") or not noise:
            continue
        bins, count = _cut(domain, max(FEWEST, round(sqrt(rows / noise))))
        now = len(domain.cuts) - 1
        if count / APART <= now <= count * APART:
            continue
        formula = asked.get(attribute.name)
        use = "" if formula is None else f"'{abridge(formula)}' uses it as a number: "
        why = "drowns what finer bins tell" if now > count else "allows for finer ones"
        reason = f"{use}noise of {noise:,.3g} on each count of {rows:,} rows {why}"
        found.append(BinProposal(attribute.name, now, bins, count, reason))
    return tuple(found)


def _asked_numbers(schema: Schema, analyses: Sequence[PlannedAnalysis]) -> dict[str, str]:
    """The columns that planned analyses use as numbers, each with the first that does."""
    found: dict[str, str] = {}
    for analysis in analyses:
        for name in number_names(RegressionFormula.parse(analysis.formula, schema.names)):
            found.setdefault(name, analysis.text)
    return found


def _noise(name: str, steps: Sequence[Planned]) -> float | None:
    """The most noise on a cell of the tables that a column is in beside others, or of those that are not yet chosen."""
    known = [s for s in steps if s.sd is not None and len(s.attributes) != 1]
    own = [s.sd for s in known if name in s.attributes and s.sd is not None]
    later = [s.sd for s in known if not s.attributes and s.sd is not None]
    return max(own or later, default=None)


def _cut(domain: Bins, count: int) -> tuple[dict[str, object], int]:
    """About so many bins between the bounds, in steps that people use, and how many they are."""
    low, high, whole = domain.minimum, domain.maximum, domain.scale == "integer"
    span = high - low + whole
    if low >= 0 and high >= WIDE * max(low, 1.0):
        decades = log_edges(domain.scale, low, high, (1,))
        fine = [log_edges(domain.scale, low, high, steps) for steps in DECADES]
        # Of the smallest amounts, which few rows have, decades are enough.
        ways = [[e for e in edges if e in decades or cast("float", e) >= high / WIDE] for edges in fine]
        edges = min(ways, key=lambda e: abs(len(e) - 1 - count))
        return {"edges": edges, "law": "log"}, len(edges) - 1
    step = nice_step(span, count)
    step = max(step, 1.0) if whole else step
    return {"width": int(step) if step == int(step) else step}, ceil(span / step - 1e-9)
