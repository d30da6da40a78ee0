"""Public files beside the confidential one: one that trees grow on, one whose rows are labelled, and numbers by group.

They are named by the Plan page, relative to the workspace, with what their columns are called there. All of it is public:
it is read for a plan, and nothing of it is charged but what a file cost that was made from the confidential rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import use_public
from dipsmith.methods.method import Method
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import Budget, PureDP, of_units
from dipsmith.schema import Schema
from dipsmith.sources import Source
from dipsmith.synthesis.column_map import map_columns, read_map
from dipsmith.synthesis.public import public_table

Find = Callable[[str], Path]
"""Turns a name of the workspace into the path of a public file, and refuses others."""

MOST_LINES, LONGEST = 200, 300
"""Columns of a map, and characters of one."""


@dataclass(frozen=True)
class PublicFiles:
    """Names of files, maps of their columns (``pay=basic_pay*1.08``), and the ε that the first cost."""

    grow: str = ""
    grow_map: tuple[str, ...] = ()
    grow_epsilon: str = ""
    onto: str = ""
    onto_map: tuple[str, ...] = ()
    factors: str = ""

    @classmethod
    def of(cls, given: object) -> PublicFiles:
        """From a page's JSON; everything that is not understood is refused."""
        if not isinstance(given, Mapping):
            raise UsageError("files must be names with values")
        chosen: dict[str, Any] = {}
        for field in fields(cls):
            value = given.get(field.name) or ()
            lines = isinstance(field.default, tuple)
            if lines and (not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value)):
                raise UsageError(f"{field.name} must be a list of columns")
            if not lines and not isinstance(value or "", str):
                raise UsageError(f"{field.name} must be text")
            texts = [v.strip() for v in value if v.strip()] if lines else [value or ""]
            if len(texts) > MOST_LINES or any(len(t) > LONGEST or not t.isprintable() for t in texts):
                raise UsageError(f"{field.name} has more than {MOST_LINES} lines, or one that is too long or not text")
            chosen[field.name] = tuple(texts) if lines else texts[0].strip()
        return cls(**chosen)

    def for_method(self, method: Method, schema: Schema, budget: Budget, find: Find) -> Method:
        """The method, growing on the public file where there is one."""
        if not self.grow:
            return method
        file, factors = find(self.grow), find(self.factors) if self._uses_factors(self.grow_map) else None
        stamps = tuple((f.stat().st_size, f.stat().st_mtime_ns) for f in (file, factors) if f is not None)
        cost = self.cost(budget)
        return use_public(method, _table(file, stamps, schema, self.grow_map, factors, cost))

    def cost(self, budget: Budget) -> Budget | None:
        """What the file that trees grow on cost, in the currency of a budget."""
        if not self.grow_epsilon:
            return None
        return of_units(budget.currency, convert(PureDP(self.grow_epsilon), budget.currency))

    def target(self, schema: Schema, find: Find) -> Source | None:
        """The rows to label instead of the confidential table's, if there are; checked for their columns."""
        if not self.onto:
            return None
        factors = find(self.factors) if self._uses_factors(self.onto_map) else None
        columns = read_map(self.onto_map, "rows to label", schema)
        found = map_columns(find(self.onto), columns, factors)
        found.check((*schema.public, *([] if schema.linked is None else [schema.linked])))
        return found

    def words(self) -> list[str]:
        """The options of the command line."""
        words: list[str] = []
        if self.grow:
            words += ["--public", self.grow, *(w for line in self.grow_map for w in ("--public-map", line))]
            words += ["--public-epsilon", self.grow_epsilon] if self.grow_epsilon else []
        if self.onto:
            words += ["--onto", self.onto, *(w for line in self.onto_map for w in ("--onto-map", line))]
        return words + (["--factors", self.factors] if self.factors else [])

    def to_dict(self) -> dict[str, Any]:
        """As plain data, without what was left out."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items() if v}

    def _uses_factors(self, lines: tuple[str, ...]) -> bool:
        return bool(self.factors and lines)


@lru_cache(maxsize=2)
def _table(
    file: Path,
    stamps: tuple[tuple[int, int], ...],
    schema: Schema,
    lines: tuple[str, ...],
    factors: Path | None,
    cost: Budget | None,
) -> PublicTable:
    """The public file, read once per state of it."""
    columns = read_map(lines, "file to grow on", schema)
    return public_table(file, schema, columns=columns, factors=factors, cost=cost)
