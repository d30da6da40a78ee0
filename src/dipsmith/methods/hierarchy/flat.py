"""Flat: every cell of the full cross-table gets noise; rows are drawn from the result.

The oldest synthesiser there is (Laplace sanitiser, Dwork et al. 2006), and with exact integer noise
and projection instead of clipping still the best one while the table is small against the number of
rows. When cells far outnumber rows the noise drowns the data: `plan` says so before anything is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log, sqrt
from typing import Any, ClassVar, Self, get_args

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable, Post, pool_estimates
from dipsmith.estimation.lawful import lawful_rows, require_possible
from dipsmith.estimation.parameters import require_one_of, require_shares
from dipsmith.estimation.sampling import sample_cells
from dipsmith.methods.hierarchy.noisy_tree import WholeTable
from dipsmith.methods.method import Arrays, Planned, PublicFacts, count_noise, require_relation
from dipsmith.methods.outlook import Outlook, Suitability, hopeless_note, spurious_rows, table_effort, tables_of
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Marginal, Schema

DENSE_CELLS = 1 << 26
"""Tables up to this size are held whole."""

LARGEST_TABLE = 1 << 34
"""Beyond this even drawing the noise block by block takes hours."""

KEPT_CELLS = 1 << 20
"""Of a table too large to hold, about this many cells of pure noise are kept."""

SMALL_NOISE = 0.02
"""A full table is suggested while the noise in its empty cells is below this share of the rows."""

COUNT_CELLS = 400
"""With more cells than this, 5 % of ε on the row count beats adding up all noisy cells."""


class FlatModel(WholeTable[NoisyTable]):
    """The noisy full table."""

    kind: ClassVar[str] = "flat"

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows in proportion to the post-processed table."""
        weights = self.noisy.table(self.post)
        random = generator(seed)

        def draw(rows: int) -> Codes:
            cell = sample_cells(weights, rows, random)
            if self.noisy.kept is not None:
                cell = self.noisy.kept[cell]
            table = self.noisy.marginal
            columns = np.unravel_index(cell, table.shape)
            return Codes.of(self.schema, dict(zip(table.attributes, columns, strict=True)), rows)

        return lawful_rows(draw, self.rows if n is None else n, seed)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The noisy counts and what is known of the noise."""
        facts, arrays = self.noisy.state()
        return {"post": self.post, "table": facts}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        return cls(NoisyTable.from_state(schema, facts["table"], arrays), facts["post"])


@dataclass(frozen=True)
class Flat:
    """Noise on every cell of the cross-table of all attributes.

    `post` is "project" (nearest non-negative table with the right total, default) or "clip" (negative counts to zero,
    then rescale, as in most papers). `count_share` is the share of the budget for the row count where it is neither
    public nor given, and the table is so large that its sum would be a worse estimate.
    """

    post: Post = "project"
    count_share: float = 0.05

    name: ClassVar[str] = "flat"
    summary: ClassVar[str] = "The full table with noise in every cell; best while it is small."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[FlatModel], ...]] = (FlatModel,)

    def __post_init__(self) -> None:
        require_one_of(self, "post", get_args(Post))
        require_shares(self, "count_share")

    def fit(self, curator: Curator) -> FlatModel:
        """Measure the full table, and the row count where it pays."""
        require_relation(self, curator.relation)
        schema = curator.schema
        marginal = Marginal.of(schema, schema.names)
        _refuse_too_large(marginal)
        budget = curator.budget
        total, total_variance = (0.0, inf) if curator.rows is None else (float(curator.rows), 0.0)
        if curator.rows is None and marginal.size > COUNT_CELLS:
            for_count, budget = budget.split([self.count_share, 1 - self.count_share])
            counted = curator.total(for_count)
            total, total_variance = float(counted.values[0]), counted.variance
        if marginal.size > DENSE_CELLS:
            sd = count_noise(curator.relation, curator.max_rows, budget).sd
            threshold = _threshold(marginal.size, sd, pure=curator.pure)
            large = curator.measure([marginal], [budget], keep_above=threshold)[0]
            assert large.kept is not None
            noisy = NoisyTable(marginal, large.values, large.variance, total, total_variance, large.kept)
        else:
            measured = curator.measure([marginal], [budget])[0]
            noisy = NoisyTable(marginal, measured.values, measured.variance, total, total_variance)
            total, total_variance = pool_estimates([(total, total_variance), noisy.own_total])
            noisy = replace(noisy, total=total, total_variance=total_variance)
        return FlatModel(noisy, self.post)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One table, and the row count where it is bought."""
        marginal = Marginal.of(schema, schema.names)
        _refuse_too_large(marginal)
        steps = []
        if public.rows is None and marginal.size > COUNT_CELLS:
            for_count, budget = budget.split([self.count_share, 1 - self.count_share])
            noise = count_noise(schema.neighbours, schema.unit.max_rows, for_count)
            steps.append(Planned("row count", "all rows", for_count, 1, noise.sd))
        noise = count_noise(schema.neighbours, schema.unit.max_rows, budget)
        possible = marginal.possible() if marginal.size <= DENSE_CELLS else None
        cells = marginal.size if possible is None else int(possible.sum())
        note = hopeless_note(cells, noise.sd, public.rows)
        table = Planned("full table", marginal.key, budget, marginal.size, noise.sd, note)
        return [*steps, replace(table, attributes=marginal.attributes, hopeless=bool(note))]

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """One table, which is all that is ever known."""
        return Outlook(tables_of(schema, steps), complete=True, effort=table_effort(steps))

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """A full table is best while its noise is small against the rows."""
        cells, sd = schema.size(), count_noise(schema.neighbours, schema.unit.max_rows, budget).sd
        if spurious_rows(cells, sd) > SMALL_NOISE * rows:
            return None
        found = f"the full table has only {cells:,} cells, and its noise is small against {rows:,} rows"
        return Suitability(3, f"{found}: nothing need be modelled")


def _refuse_too_large(marginal: Marginal) -> None:
    require_possible(marginal.schema)
    if marginal.size > LARGEST_TABLE:
        widest = sorted(zip(marginal.shape, marginal.attributes, strict=True), reverse=True)[:3]
        named = ", ".join(f"{name} ({size:,})" for size, name in widest)
        raise UsageError(
            f"the full table has {marginal.size:,} cells, more than {LARGEST_TABLE:,}; largest: {named}; "
            "use mst, aim or marginals, or coarser bins"
        )


def _threshold(cells: int, sd: float, *, pure: bool) -> int:
    """The count that about KEPT_CELLS of `cells` draws of noise exceed; public."""
    rarity = log(max(cells / KEPT_CELLS, 2.0))
    return ceil(sd / sqrt(2) * rarity) if pure else ceil(sd * sqrt(2 * rarity))
