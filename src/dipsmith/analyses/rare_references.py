"""Levels that others are compared with and that hardly any row has: what a regression then cannot tell.

`g[T.b]` says how far b lies from a, the reference. Where noise hides how many rows are in a, or in a beside one level of
another column, the columns of the regression nearly add up to one another, and least squares would compare b with whatever
level is left: a confident answer to another question. So the cells of every term of categories that are told apart from noise
are looked at alone. A coefficient that some combination of columns, which is nothing in all of these cells, contains is not
told, and of each such combination one column is left out of the fit.

Privacy
-------
Reads noisy counts and the schema: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dipsmith.analyses.agreed_tables import Float, Names
from dipsmith.analyses.cross_products import Block, on_table
from dipsmith.arrays import Bools
from dipsmith.regression.matrix import INTERCEPT
from dipsmith.schema import Schema

NOTHING = 1e-9
"""A combination of columns is 0 if its square is less than so much of the largest."""


def tables_compared(blocks: Sequence[Block], schema: Schema) -> tuple[Names, ...]:
    """The columns of terms that compare levels with others that have no column of their own."""
    return tuple(dict.fromkeys(_names(b, schema) for b in blocks if _compares(b)))


def find_confounded(
    blocks: Sequence[Block], schema: Schema, common: Mapping[Names, Bools]
) -> tuple[list[int], list[int]]:
    """Which columns of some terms have no meaning of their own, and which of these to leave out of the fit.

    `common` says which cells of the tables compared are told apart from noise.
    """
    starts = np.cumsum([0, *(len(b.names) for b in blocks)])
    constant = any(b.names == (INTERCEPT,) for b in blocks)
    lost: set[int] = set()
    left_out: set[int] = set()
    for names, cells in common.items():
        if cells.all():
            continue
        inside = [i for i, b in enumerate(blocks) if _is_of_levels(b) and set(b.attributes) <= set(names)]
        X = np.concatenate([on_table(blocks[i], names, schema) for i in inside], axis=1)[cells]
        at = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in inside])
        kept = X.any(axis=0) & ~np.isin(at, list(left_out))  # a level that hardly any row has is not told for itself
        X, at = X[:, kept], at[kept]
        if not constant:  # fixed effects say as much
            X = np.concatenate([np.ones((len(X), 1)), X], axis=1)
        while (nothing := _find_nothing(X)) is not None:
            own = nothing if constant else nothing[1:]
            lost |= {int(c) for c in at[own]}
            last = int(np.flatnonzero(nothing)[-1])
            left_out.add(int(at[last - (not constant)]))
            X, at = np.delete(X, last, axis=1), np.delete(at, last - (not constant))
    return sorted(lost), sorted(left_out)


def _find_nothing(X: Float) -> Bools | None:
    """The columns of a combination that is 0 in every row; None where there is none."""
    if X.shape[1] < 2:
        return None
    sizes, combinations = np.linalg.eigh(X.T @ X)
    if sizes[0] > NOTHING * max(float(sizes[-1]), NOTHING):
        return None
    return np.asarray(np.abs(combinations[:, 0]) > 1e-5)


def _names(block: Block, schema: Schema) -> Names:
    return tuple(n for n in schema.names if n in block.attributes)


def _is_of_levels(block: Block) -> bool:
    """Whether all columns are of levels of categories, or the intercept; those of a fixed effect are not told."""
    levels = block.shift == 0 and block.scale == 1 and bool(np.isin(block.columns, (0.0, 1.0)).all())
    return levels and not block.names[0].startswith("|")


def _compares(block: Block) -> bool:
    return _is_of_levels(block) and bool(block.attributes) and not block.columns.any(axis=1).all()
