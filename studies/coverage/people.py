"""The populations that tables are drawn from: a concrete table each, so that the truth of any formula is its own fit.

Rows are drawn from it with replacement: a sample of independent people, whose truth is exactly what the regression gives on
the population itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import dipsmith as ds
from dipsmith.inference.fit import Fit
from dipsmith.privacy.randomness import generator

SIZE = 200_000
FIRST = 0
"""The seed of the first published run. Whoever changes a constant of the package after looking at results moves it."""


@dataclass(frozen=True, eq=False)
class Population:
    """A table to draw from, and its schema without roles."""

    table: pa.Table
    fields: tuple[dict[str, Any], ...]

    def sample(self, rows: int, seed: int) -> pa.Table:
        """Independent people."""
        return self.table.take(pa.array(generator(seed).integers(0, self.table.num_rows, rows)))

    def schema(self, neighbours: str, private: tuple[str, ...] = ()) -> ds.Schema:
        """What is public; under `label` all but the private columns."""
        roles = ("private" if not private or f["name"] in private else "public" for f in self.fields)
        fields = [{**f, "role": role} for f, role in zip(self.fields, roles, strict=True)]
        return ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": neighbours, "fields": fields})

    @cached_property
    def _fits(self) -> dict[tuple[str, str], Fit]:
        return {}

    def fit(self, formula: str, family: Any = "auto") -> Fit:
        """The regression of the whole population."""
        if (formula, family) not in self._fits:
            self._fits[formula, family] = ds.fit(self.table, formula, family=family)
        return self._fits[formula, family]

    def truth(self, formula: str, family: Any = "auto") -> dict[str, float]:
        """Its coefficients."""
        found = self.fit(formula, family)
        return dict(zip(found.names, found.combined.estimate.tolist(), strict=True))

    def widths(self, rows: int, formula: str, family: Any = "auto") -> dict[str, float]:
        """How wide the ordinary intervals of so many authentic rows are."""
        found = self.fit(formula, family)
        low, high = found.combined.interval
        wide = (high - low) * np.sqrt(self.table.num_rows / rows)
        return dict(zip(found.names, wide.tolist(), strict=True))


def category(name: str, labels: str) -> dict[str, Any]:
    """A column of one-letter labels."""
    return {"name": name, "type": "string", "enum": list(labels), "other": labels[0]}


def number(name: str, largest: int) -> dict[str, Any]:
    """A column of whole numbers from 0."""
    return {"name": name, "type": "integer", "minimum": 0, "maximum": largest}


@cache
def voters() -> Population:
    """Three groups a, sex s, a vote v, and a score y of 0 to 7 that depends on all of them and on sex times vote."""
    random = np.random.default_rng(20)
    a = random.integers(0, 3, SIZE)
    s = random.random(SIZE) < np.array([0.35, 0.5, 0.6])[a]
    v = random.random(SIZE) < 1 / (1 + np.exp(0.4 - 0.5 * s - 0.4 * a))
    mean = 2.4 + 0.4 * a + 0.7 * s + 0.4 * v + 0.5 * s * v
    y = np.clip(np.round(mean + random.normal(0, 1.2, SIZE)), 0, 7).astype(int)
    columns = {"a": np.array(list("pqr"))[a], "y": y, "s": np.where(s, "W", "M"), "v": np.where(v, "1", "0")}
    fields = (category("a", "pqr"), number("y", 7), category("s", "MW"), category("v", "01"))
    return Population(pa.table(columns), fields)
