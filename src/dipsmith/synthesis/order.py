"""An order: all that a steward asks for, but the rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal

from dipsmith.errors import BudgetError, HopelessNoise, SchemaError, UnsupportedError, UsageError
from dipsmith.estimation.weights import split_budget, weighted_tables
from dipsmith.methods.catalogue import require_loadable
from dipsmith.methods.method import Method, PublicFacts, Selection, require_members, require_relation
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis

MOST_SETS = 10_000
"""More sets than any rule for combining them has a use for."""

LEAST_UNITS = {"epsilon": 10**6, "rho": 10**4}
"""The smallest budget of a run. With less, some method could not give each of its questions a share, or noise within 2⁵⁰, and
would fail in the middle of a run that was paid for."""

PLAIN = (str, int, float, bool, list, tuple, dict)
"""Types of parameters that a card can state."""

Each = Literal["split", "draw"]


@dataclass(frozen=True)
class Order:
    """A schema, a method, a budget and how many sets; contradictions are refused when it is made."""

    schema: Schema
    method: Method
    budget: Budget
    sets: int = 1
    each: Each | None = None
    rows: int | None = None  # how many to make
    labels_another: bool = False  # whether another file's rows are labelled
    testing: bool = False  # whether the release will be stamped NOT PRIVATE
    analyses: tuple[PlannedAnalysis, ...] = ()  # planned: measured directly
    known_rows: int | None = None  # how many the table has, as the steward states; default: as the schema says
    another_grant: bool = False  # whether the steward confirmed that the rows were charged under another name

    def __post_init__(self) -> None:
        neighbours = self.schema.neighbours
        self._require_known_rows()
        _require_method(self.method)
        require_relation(self.method, neighbours)
        require_members(self.method, self.schema)
        require_loadable(self.method)
        if not 1 <= self.sets <= MOST_SETS:
            expected = "1 or more" if self.sets < 1 else f"at most {MOST_SETS:,}"
            raise UsageError(f"sets is {self.sets}, expected {expected}")
        if self.sets > 1 and self.each not in ("split", "draw"):
            raise UsageError(
                "more than one set needs each='split' (sanitise m times, budget/m each) or each='draw' (m draws from one model)"
            )
        if self.sets == 1 and self.each is not None:
            raise UsageError(f"each='{self.each}' says how several sets are made; give sets=2 or more, or leave it out")
        least = type(self.budget).of_units(LEAST_UNITS[self.budget.currency])
        if self.shares(self.budget)[0].units < least.units:
            each = f" for each of {self.sets:,} sets" if self.each == "split" else ""
            raise BudgetError(f"{self.budget} is too small for a run: give it at least {least}{each}")
        if self.rows is not None and self.rows < 0:
            raise UsageError(f"rows is {self.rows}, expected 0 or more")
        if self.rows is not None and neighbours == "label":
            raise UsageError("under neighbours 'label' every row of the file is labelled; leave rows out")
        if self.labels_another and neighbours != "label":
            raise UsageError(
                f"onto labels another file's rows, which needs neighbours 'label'; the schema says '{neighbours}'"
            )
        for analysis in self.analyses:
            _require_columns(analysis, self.schema, self.method)

    @property
    def stated_rows(self) -> int | None:
        """The number of rows that the steward states as publicly known; None where the relation makes it public anyway."""
        if self.schema.counts_are_public:
            return None
        return self.schema.known_rows if self.known_rows is None else self.known_rows

    def _require_known_rows(self) -> None:
        stated, given = self.schema.known_rows, self.known_rows
        try:
            self.schema.check_known_rows(given)
        except SchemaError as error:
            raise UsageError(f"known_rows: {error}") from None
        if None not in (stated, given) and stated != given:
            raise UsageError(f"known_rows is {given}, but the schema says rows: {stated}; there can be one number only")

    def shares(self, budget: Budget) -> tuple[Budget, ...]:
        """What each sanitisation may cost of a budget: one for all sets, or one for each."""
        return tuple(budget.split(self.sets if self.each == "split" else 1))

    def parameters(self, used_methods: Sequence[Method]) -> dict[str, Any]:
        """The method's parameters as the card tells them; of a selection also which candidates made the models."""
        method = self.method
        if isinstance(method, Selection):
            return {**method.parameters, "chosen": [repr(used) for used in used_methods]}
        return _plain_parameters(method)

    def dry_run(self) -> None:
        """Dry-run the plan: raise if impossible, warn if noise swamps the data. Reads the schema only."""
        schema, budget = self.schema, split_budget(self.budget, weighted_tables(self.schema, self.analyses))[1]
        share = self.shares(budget)[0]
        try:
            steps = self.method.plan(schema, share, PublicFacts(self.stated_rows))
        except UnsupportedError:
            # Some plans need a row count, which under `replace` becomes known only by reading: any will do to see.
            if self.stated_rows is not None or schema.neighbours != "replace" or schema.unit.max_rows > 1:
                raise
            self.method.plan(schema, share, PublicFacts(1))
            return
        for step in steps:
            if step.hopeless and schema.neighbours != "label":
                warnings.warn(f"{self.method.name}, {step.place}: {step.note}", HopelessNoise, stacklevel=3)


def _require_columns(analysis: PlannedAnalysis, schema: Schema, method: Method) -> None:
    """Refuse an analysis that names what there is not, or what will not be released, while nothing is spent."""
    for name in analysis.columns:
        if name not in schema:
            known = ", ".join(schema.names[:20])
            raise UsageError(
                f"analysis '{analysis}' names '{name}', which is no column of the schema; there are: {known}"
            )
    if schema.neighbours != "label":
        return
    if analysis.by is not None and schema[analysis.by].role != "public":
        raise UsageError(f"analysis '{analysis}' is repeated by '{analysis.by}', which is private; multiply it instead")
    targets = tuple(getattr(method, "targets", None) or schema.private)
    for name in analysis.columns:
        if schema[name].role == "private" and name not in targets:
            raise UsageError(
                f"analysis '{analysis}' names the private column '{name}', which {method.name} does not label; "
                f"add it to targets ({', '.join(targets)})"
            )


def _require_method(method: Method) -> None:
    """Refuse what is no method, or what no card could describe, while nothing is spent."""
    missing = [n for n in ("name", "summary", "relations", "models", "fit", "plan") if not hasattr(method, n)]
    if missing or isinstance(method, type) or not is_dataclass(method):
        lacks = f"it has no {missing[0]}" if missing else "it must be an instance of a frozen dataclass"
        raise UsageError(f"{method!r} is no method: {lacks}; docs/tutorials/method-author.md shows a whole one")
    if not isinstance(method, Selection):
        try:
            json.dumps(_plain_parameters(method))
        except (TypeError, ValueError):
            raise UsageError(
                f"{method.name}: a card cannot state its parameters; use text, numbers, lists and mappings of these"
            ) from None


def _plain_parameters(method: Method) -> dict[str, Any]:
    assert is_dataclass(method)
    assert not isinstance(method, type)
    return {k: v for k, v in asdict(method).items() if v is None or isinstance(v, PLAIN)}
