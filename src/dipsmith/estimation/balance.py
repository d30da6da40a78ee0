"""Rows whose cross-tables come nearest to what is expected of them: post-processing.

Rows that are drawn from a model miss the model's own tables by chance. So more of them are drawn than are wanted, and
those kept whose tables come nearest: a block of rows that are kept is compared with a block of spare ones, and rows are
exchanged where that makes Σ (count − expected)² / √(expected + 1) over all cells of all tables less. Which rows are kept
depends on how often combinations of values were drawn, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.privacy.randomness import Generator
from dipsmith.schema import Codes

SPARE = 0.5
"""Spare rows for each row that is wanted."""

BLOCK, EXCHANGED = 50, 10
"""Rows that are compared at once, and how many of them are exchanged at most: the next block sees what this one did."""

PANEL = 40 * BLOCK
"""Rows whose cells are looked up together."""

Cells = NDArray[np.int64]


def balance(rows: Codes, wanted: int, expected: Mapping[tuple[str, ...], Floats], generator: Generator) -> Codes:
    """Keep `wanted` of the rows, in random order, with counts near those `expected` of every table.

    Rows beyond the first `wanted` are spare; each is looked at once, as long as there are kept ones to compare it with.
    """
    flat = np.concatenate([table.ravel() for table in expected.values()])
    weights = 1 / np.sqrt(flat + 1)
    sizes = {names: table.shape for names, table in expected.items()}
    kept, spare = generator.permutation(wanted), wanted + generator.permutation(len(rows) - wanted)
    counted = [np.bincount(_keys(rows, slice(wanted), *one), minlength=expected[one[0]].size) for one in sizes.items()]
    excess = (np.concatenate(counted) - flat) * weights
    for first in range(0, min(wanted, spare.size), PANEL):
        panel = slice(first, min(first + PANEL, wanted, spare.size))
        ours, theirs = (_cells(rows, index[panel], sizes) for index in (kept, spare))
        for start in range(0, len(ours), BLOCK):
            block = slice(start, start + BLOCK)
            leaving, entering = _exchanged(excess, weights, ours[block], theirs[block])
            here, there = first + start + leaving, first + start + entering
            kept[here], spare[there] = spare[there], kept[here]
    return rows.take(kept)


def _exchanged(excess: Floats, weights: Floats, ours: Cells, theirs: Cells) -> tuple[Cells, Cells]:
    """Which rows of a block leave and which enter, the worst and the best of it; `excess` is what is left after that."""
    over, under = excess[ours].sum(axis=1), excess[theirs].sum(axis=1)
    leaving, entering = np.argsort(-over, kind="stable"), np.argsort(under, kind="stable")
    # A row that leaves takes its own counts along, and one that enters brings its own: that much must be repaid.
    own = weights[ours].sum(axis=1)[leaving] + weights[theirs].sum(axis=1)[entering]
    often = min(EXCHANGED, int((2 * (over[leaving] - under[entering]) > own).sum()))
    leaving, entering = leaving[:often], entering[:often]
    for cells, sign in ((ours[leaving].ravel(), -1), (theirs[entering].ravel(), 1)):
        np.add.at(excess, cells, sign * weights[cells])
    return leaving, entering


def _cells(rows: Codes, index: Cells, sizes: Mapping[tuple[str, ...], tuple[int, ...]]) -> Cells:
    """The cells of some rows in all tables, rows × tables, numbered through."""
    found = np.empty((index.size, len(sizes)), dtype=np.int64)
    offset = 0
    for i, (names, shape) in enumerate(sizes.items()):
        found[:, i] = _keys(rows, index, names, shape) + offset
        offset += int(np.prod(shape))
    return found


def _keys(rows: Codes, index: Cells | slice, names: Sequence[str], shape: tuple[int, ...]) -> Cells:
    """The cells of some rows in one table."""
    found: Cells = np.ravel_multi_index([rows[name][index] for name in names], shape)
    return found
