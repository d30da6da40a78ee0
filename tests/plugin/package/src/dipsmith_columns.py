"""Every column by itself: noise on its counts, rows drawn from each independently, as far as rules allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dipsmith.extend import (
    Arrays,
    Budget,
    Codes,
    Curator,
    Marginal,
    Metric,
    Planned,
    PublicFacts,
    Schema,
    UsageError,
    count_noise,
    generator,
    knob,
    lawful_rows,
    mean_over_sets,
    project,
    require_possible,
    require_relation,
    sample_cells,
)


@dataclass(frozen=True, eq=False)
class ColumnsModel:
    """The distribution of every column."""

    schema: Schema
    rows: int
    weights: tuple[np.ndarray, ...]

    kind: ClassVar[str] = "columns"

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw every column by itself, and again what breaks a rule."""
        random = generator(seed)

        def draw(rows: int) -> Codes:
            drawn = [sample_cells(weights, rows, random) for weights in self.weights]
            return Codes.of(self.schema, dict(zip(self.schema.names, drawn, strict=True)), rows)

        return lawful_rows(draw, self.rows if n is None else n, seed)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """One array per column."""
        return {"rows": self.rows}, {f"column-{i}": weights for i, weights in enumerate(self.weights)}

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> "ColumnsModel":
        """The model back from its state."""
        return cls(schema, facts["rows"], tuple(arrays[f"column-{i}"] for i in range(len(schema.names))))


@dataclass(frozen=True)
class Columns:
    """Noisy counts of every column; `sharpen` raises shares to a power before rows are drawn."""

    sharpen: int = field(default=1, metadata=knob(1, 3, 1, "power of the shares"))

    name: ClassVar[str] = "columns"
    summary: ClassVar[str] = "Every column by itself: nothing that ties columns together is kept."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[ColumnsModel], ...]] = (ColumnsModel,)

    def __post_init__(self) -> None:
        if self.sharpen < 1:
            raise UsageError(f"columns: sharpen is {self.sharpen}, expected 1 or more")

    def fit(self, curator: Curator) -> ColumnsModel:
        """Measure every column with an equal share of the budget."""
        require_relation(self, curator.relation)
        require_possible(curator.schema)
        marginals = [Marginal.of(curator.schema, [name]) for name in curator.schema.names]
        measured = curator.measure(marginals, list(curator.budget.split(len(marginals))))
        sums = [float(m.values.sum()) for m in measured]
        total = max(0.0, np.median(sums)) if curator.rows is None else float(curator.rows)
        weights = tuple(project(m.values, max(total, 1.0)) ** self.sharpen for m in measured)
        return ColumnsModel(curator.schema, round(total), weights)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> Sequence[Planned]:
        """One line per column."""
        require_possible(schema)
        lines = []
        for attribute, share in zip(schema, budget.split(len(schema.names)), strict=True):
            sd = count_noise(schema.neighbours, schema.unit.max_rows, share).sd
            lines.append(Planned("column", attribute.name, share, attribute.size, sd, attributes=(attribute.name,)))
        return lines


def _difference(authentic: Codes, synthetic: Codes) -> float:
    """How far apart the shares of the first label of the first column are."""
    shares = [float((rows[rows.names[0]] == 0).mean()) for rows in (authentic, synthetic)]
    return abs(shares[0] - shares[1])


first_share = Metric(
    "first-share", "Share of the first label", "lower", mean_over_sets(_difference), reference="0 is perfect"
)
