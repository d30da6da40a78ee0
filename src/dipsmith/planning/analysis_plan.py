"""What planned analyses will cost and how precise they will be, before anything is spent.

Privacy
-------
Reads formulas, the schema, a plan and a number of rows that is public or stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import hypot, isfinite
from typing import Any

from dipsmith.analyses.measure import Expectation, name_hidden
from dipsmith.analyses.table_forecast import ASSUMED, expect_from_tables
from dipsmith.errors import UsageError
from dipsmith.methods.method import Planned
from dipsmith.planning.coarser_bins import advise_bins
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis


@dataclass(frozen=True)
class AnalysisPlan:
    """A forecast of every coefficient of planned analyses.

    `share` is what they take of the budget under `label`; of whole rows their tables are part of the method's own plan.
    `enough` is the least budget that gives the widths that are wanted. `notes` say what the forecast takes to be so, and which
    analyses cannot be forecast, and why.
    """

    share: float
    expectations: tuple[Expectation, ...]
    enough: Budget | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of_tables(
        cls, analyses: Sequence[PlannedAnalysis], schema: Schema, steps: Sequence[Planned], rows: int | None
    ) -> AnalysisPlan:
        """Forecast planned analyses of whole rows from the tables that will be measured."""
        if rows is None:
            return cls(0.0, (), None, ("how precise planned analyses will be depends on the number of rows: state it",))
        found: list[Expectation] = []
        notes = [ASSUMED] if analyses else []
        for analysis in analyses:
            try:
                expected = expect_from_tables([analysis], schema, steps, rows)
            except UsageError as error:
                notes.append(f"{analysis}: there will be no direct estimate, since {error}")
                continue
            found += expected
            if any(e.hopeless and not e.reason for e in expected) and (
                advice := advise_bins(analysis, schema, steps, rows)
            ):
                notes.append(f"{analysis}: {advice}")
        return cls(0.0, tuple(found), None, tuple(notes))

    @property
    def hopeless(self) -> tuple[str, ...]:
        """One sentence for every analysis of which noise is likely to hide something."""
        return name_hidden(self.expectations)

    @property
    def beyond_reach(self) -> bool:
        """Whether a width is wanted that no budget gives."""
        return self.enough is None and any(e.wanted is not None and e.width > e.wanted for e in self.expectations)

    def rest(self, budget: Budget) -> Budget:
        """What is left of a budget for the labeller."""
        return budget.split([self.share, 1 - self.share])[1] if self.share else budget

    def __str__(self) -> str:
        """How precise each coefficient will be, and what stands against it."""
        told = [
            f"{e.analysis}: {e.name} ± {1.96 * hypot(e.sampling, e.noise):.3g}"
            for e in self.expectations
            if isfinite(e.width)
        ]
        taken = [f"Planned analyses take {self.share:.0%} of the budget beforehand:"] if self.share else []
        return "\n".join([*taken, *told, *self.notes, *self.hopeless])

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        enough = None if self.enough is None else {self.enough.currency: float(self.enough.exact)}
        return {
            "share": self.share,
            "coefficients": [
                {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in asdict(e).items()}
                for e in self.expectations
            ],
            "budget_for_widths": enough,
            "notes": list(self.notes),
        }
