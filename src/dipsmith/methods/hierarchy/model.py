"""The model that hierarchical methods fit: a noisy tree, from which rows are drawn and questions answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from dipsmith.estimation.answers import Answer, Post, ask_count, ask_mean, ask_range
from dipsmith.methods.hierarchy.layers import Layers
from dipsmith.methods.hierarchy.noisy_tree import NoisyTree
from dipsmith.methods.hierarchy.ranges import Ranges
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Schema


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Noisy counts of all levels, and how negative ones are removed when rows are drawn."""

    noisy: NoisyTree
    post: Post

    kind: ClassVar[str] = "tree"

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.noisy.table.schema

    @property
    def rows(self) -> int:
        """The model's own estimate of the number of rows."""
        return max(0, round(self.noisy.total))

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows: upper levels are met as exactly as whole numbers allow, cells on average."""
        return self.noisy.sample(self.post, self.rows if n is None else n, generator(seed))

    def range_query(self, attribute: str, low: float, high: float, rows: int | None = None) -> Answer:
        """How many rows have low ≤ value < high, of all rows or rescaled to `rows`."""
        found = ask_range(self.noisy.table, self.noisy.answer, attribute, low, high)
        return found.scaled(self.noisy.total, rows)

    def count(self, where: Mapping[str, str], rows: int | None = None) -> Answer:
        """How many rows have the given labels."""
        return ask_count(self.noisy.table, self.noisy.answer, where).scaled(self.noisy.total, rows)

    def mean(self, attribute: str) -> Answer:
        """The mean of a numeric attribute."""
        return ask_mean(self.noisy.table, self.noisy.answer, attribute)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The hierarchy, the noisy counts and what is known of the noise."""
        hierarchy, arrays = self.noisy.hierarchy, dict[str, NDArray[Any]]()
        facts: dict[str, Any] = {"post": self.post}
        facts["variances"] = [None if isinf(v) else v for v in self.noisy.variances]
        if isinstance(hierarchy, Ranges):
            facts["branching"] = hierarchy.branching
        else:
            assert isinstance(hierarchy, Layers)
            facts["layers"], arrays = hierarchy.state()
        return facts, arrays | {f"level/{i}": values for i, values in enumerate(self.noisy.values)}

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        hierarchy = (
            Ranges(schema, facts["branching"])
            if "branching" in facts
            else Layers.from_state(schema, facts["layers"], arrays)
        )
        variances = tuple(inf if v is None else v for v in facts["variances"])
        values = tuple(arrays[f"level/{i}"] for i in range(len(variances)))
        return cls(NoisyTree(hierarchy, values, variances), facts["post"])
