"""A noisy table: counts of a partition, with noise on every cell that needs it.

Cells that a rule forbids are 0 for every table, and so are the cells of groups that are publicly empty
under `label`: they carry no noise. For public groups with two labels only the second label's count is drawn; the first is the
public size minus it (``docs/proofs/curator.md``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.arrays import Bools, Ints
from dipsmith.counting.count import Rows
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Cells, Marginal, WeightedSums


def public_groups(cells: Cells, relation: str) -> Cells | None:
    """The groups of a table whose sizes are public: under `label`, those of its public attributes."""
    if relation != "label":
        return None
    public, private = cells.by_role()
    if private is None:
        return None
    if public is not None:
        return public
    # A partition that reads public attributes and is not divided by them has no public groups.
    mixed = any(cells.schema[n].role == "public" for n in private.attributes)
    return None if mixed else Marginal(cells.schema, ())


def is_single(cells: Cells, groups: Cells | None) -> bool:
    """Whether one count per group is drawn: public groups with two labels each."""
    return groups is not None and cells.size == 2 * groups.size


def group_sizes(groups: Sequence[Cells | None], counts: Sequence[Ints], rows: Rows) -> list[Ints | None]:
    """The public group sizes of tables; without rules no row is left out, and a table's own sums are they."""
    if not rows.schema.rules:
        return [
            None if g is None else np.asarray(n.reshape(g.size, -1).sum(axis=1))
            for g, n in zip(groups, counts, strict=True)
        ]
    found = iter(rows.count_public([g for g in groups if g is not None]))
    return [None if g is None else next(found) for g in groups]


def public_weights(sums: Sequence[WeightedSums], counts: Sequence[Ints], rows: Rows) -> list[Ints]:
    """How many rows each group and weight has; without rules no row is left out, and the counts' own sums are they."""
    if rows.schema.rules:
        return rows.count_public([one.public for one in sums])
    return [np.asarray(n.reshape(-1, one.shape[1]).sum(axis=1)) for one, n in zip(sums, counts, strict=True)]


def noisy_table(
    cells: Cells, counts: Ints, totals: Ints | None, noise: NoiseLaw, budget: Budget, stream: Stream
) -> Measurement:
    """Add noise to the counts of every cell that may hold a row; `totals` are the public sizes of its groups."""
    single = totals is not None and cells.size == 2 * len(totals)
    possible = cells.possible()
    noisy = np.ones(cells.size, dtype=bool) if possible is None else possible
    if totals is not None:
        noisy = (noisy.reshape(len(totals), -1) & (totals > 0)[:, None]).ravel()
    values = np.zeros(cells.size, dtype=np.int64)
    if single:
        assert totals is not None
        pair = noisy.reshape(-1, 2)
        both: Bools = pair[:, 0] & pair[:, 1]
        table = values.reshape(-1, 2)
        table[:, 1][both] = counts.reshape(-1, 2)[both, 1] + noise.sample(stream, int(both.sum()))
        table[:, 0][both] = totals[both] - table[:, 1][both]
        # Where a rule leaves one label, its count is the group's public size for every neighbour.
        only = pair.sum(axis=1) == 1
        table[only] = pair[only] * totals[only, None]
        noisy = (pair & both[:, None]).ravel()
    else:
        values[noisy] = counts[noisy] + noise.sample(stream, int(noisy.sum()))
    carrying = None if bool(noisy.all()) else noisy
    return Measurement(cells, values, noise.variance, budget, noise.name, carrying, totals, single)


def noisy_sums(
    sums: WeightedSums, exact: Ints, public: Ints, noise: NoiseLaw, budget: Budget, stream: Stream
) -> Measurement:
    """Add noise to the sums of every group that holds rows; `public` counts them by group and weight.

    Of two labels one sum is drawn, and the other is the group's public weight minus it.
    """
    groups, labels = sums.shape
    totals = sums.fold(public, 1)
    occupied = public.reshape(groups, -1).sum(axis=1) > 0
    values = np.zeros((groups, labels), dtype=np.int64)
    if labels == 2:
        values[occupied, 1] = exact.reshape(groups, 2)[occupied, 1] + noise.sample(stream, int(occupied.sum()))
        values[:, 0] = totals - values[:, 1]
    else:
        drawn = noise.sample(stream, (int(occupied.sum()), labels))
        values[occupied] = exact.reshape(groups, labels)[occupied] + drawn
    carrying = None if bool(occupied.all()) else np.repeat(occupied, labels)
    return Measurement(sums, values.ravel(), noise.variance, budget, noise.name, carrying, totals, labels == 2)
