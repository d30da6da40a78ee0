"""Public columns whose plain numbers are made orthogonal to the columns before them: sums of these carry less noise.

A plain number x, such as an age, becomes what the other columns and the numbers before it do not say of it. Its sums are
then small, and little noise is enough for them. What was taken off comes back by `back`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipsmith.analyses.design import Float, Ints, PublicBlock
from dipsmith.analyses.public_columns import Gram, GroupColumns, PublicColumns, compose

COLLINEAR = 1e-10
"""A number of which no more than this share of its square is left is said by the columns before it, and stays as it is."""


@dataclass(frozen=True, eq=False)
class OrthogonalColumns:
    """Z with plain numbers made orthogonal, Z′Z, and coefficients of the formula's own columns from those of Z."""

    columns: PublicColumns
    gram: Gram
    back: Float

    @classmethod
    def of(
        cls, blocks: Sequence[PublicBlock], often: Float, places: Sequence[Ints], reported: Ints
    ) -> OrthogonalColumns:
        """Of blocks that stand at these `places` of Z, of whose columns some are `reported`, over rows that count so often."""
        made = [GroupColumns.of(b, None if b.weight is None else finite(b.weight)) for b in blocks]
        plain, back = plain_numbers(blocks), np.eye(len(reported))
        if not plain:
            whole = PublicColumns(tuple(made), len(often))
            return cls(whole, Gram.of(whole, often, places), back)
        others = [i for i in range(len(blocks)) if i not in plain]
        columns = PublicColumns(tuple(made[i] for i in others), len(often))
        at = np.concatenate([places[i] for i in others])
        gram = Gram.of(columns, often, [places[i] for i in others])
        first, size = gram.inverse, len(at)
        wide = sum(len(b.levels) for b in blocks)
        told = np.full(wide, -1)
        told[reported] = np.arange(len(reported))
        squares = np.full(wide, np.inf)  # of the numbers that were made orthogonal: their share of the others is 0
        for i in plain:
            given, here = made[i].weight, int(places[i][0])
            assert given is not None
            cross, heavy = np.zeros(wide), often * given
            cross[at], square = columns.cross(heavy), float(heavy @ given)
            explained = first.times(cross)
            explained[at[size:]] = (cross / squares)[at[size:]]
            left = given - columns.times(explained[at])
            if (rest := square_of(often, left)) > COLLINEAR * square:
                made[i], squares[here] = GroupColumns(None, 1, left), rest
                # γ of the columns before is that of the given number less what the number itself explains of it.
                back[told[at[told[at] >= 0]], told[here]] -= explained[at[told[at] >= 0]]
            new = made[i].weight
            assert new is not None
            heavy = often * new
            cross[at] = columns.cross(heavy)
            gram = gram.with_column(cross, float(heavy @ new), here)
            columns = PublicColumns((*columns.blocks, made[i]), len(often))
            at = np.append(at, here)
        whole = PublicColumns(tuple(made), len(often))
        return cls(whole, gram, compose(back, [int(told[places[i][0]]) for i in plain]))


def plain_numbers(blocks: Sequence[PublicBlock]) -> list[int]:
    """The blocks that are one number each, where there are other columns to take out of them."""
    found = [i for i, b in enumerate(blocks) if b.weight is not None and b.size == 1]
    return found if len(found) < len(blocks) else []


def square_of(often: Float, values: Float) -> float:
    """The sum of squares over all rows that count."""
    return float(np.einsum("i,i,i->", often, values, values))


def finite(values: Float | None) -> Float:
    """Numbers, 0 where there is none."""
    assert values is not None
    return values if np.isfinite(values).all() else np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
