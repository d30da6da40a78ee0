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

SPARE, LEAST_SPARE = 0.5, 500
"""Spare rows for each row that is wanted, and at least."""

BLOCK, EXCHANGED, FEW = 50, 15, 20
"""Rows that are compared at once, and how many of them are exchanged at most, one in so many where rows are few: what is
exchanged together overshoots together. In the last third of the blocks it becomes less and less, down to one."""

PANEL = 40 * BLOCK
"""Rows whose cells are looked up together."""

Cells = NDArray[np.int64]


def balance(rows: Codes, wanted: int, expected: Mapping[tuple[str, ...], Floats], generator: Generator) -> Codes:
    """Keep `wanted` of the rows, in random order, with counts near those `expected` of every table.

    Rows beyond the first `wanted` are spare; each is looked at once. Where there are more of them than are wanted, those
    that are kept are looked at again.
    """
    sizes = {names: table.shape for names, table in expected.items()}
    kept, spare = generator.permutation(wanted), wanted + generator.permutation(len(rows) - wanted)
    excess, weights = _excess(rows, wanted, expected)
    step = max(1, min(PANEL, wanted))
    for first in range(0, spare.size if wanted else 0, step):
        begin = first % wanted
        end = min(begin + step, wanted, begin + spare.size - first)
        ours = _cells(rows, kept[begin:end], sizes)
        theirs = _cells(rows, spare[first : first + end - begin], sizes)
        for start in range(0, len(ours), BLOCK):
            block = slice(start, start + BLOCK)
            most = _most((first + start) / spare.size, wanted)
            leaving, entering = _choose_exchange(excess, weights, ours[block], theirs[block], most)
            here, there = begin + start + leaving, first + start + entering
            kept[here], spare[there] = spare[there], kept[here]
    return rows.take(kept)


def balance_given(
    rows: Codes, others: Codes, expected: Mapping[tuple[str, ...], Floats], generator: Generator
) -> Codes:
    """Of every row keep one of two forms, in the order given, with counts near those `expected` of every table.

    For rows of which some columns are given: both forms have them, and what is given of every row stays.
    """
    sizes = {names: table.shape for names, table in expected.items()}
    excess, weights = _excess(rows, len(rows), expected)
    order, exchanged = generator.permutation(len(rows)), np.zeros(len(rows), dtype=np.bool_)
    for first in range(0, len(rows), PANEL):
        panel = order[first : first + PANEL]
        ours, theirs = (_cells(form, panel, sizes) for form in (rows, others))
        for start in range(0, len(panel), BLOCK):
            mine, yours = ours[start : start + BLOCK], theirs[start : start + BLOCK]
            gain = 2 * (excess[mine] - excess[yours]) - weights[mine] - weights[yours]
            gains = np.where(mine == yours, 0.0, gain).sum(axis=1)
            best = np.argsort(-gains, kind="stable")[: _most((first + start) / len(rows), len(rows))]
            best = best[gains[best] > 0]
            _move(excess, weights, mine[best], yours[best])
            exchanged[panel[start + best]] = True
    columns = {name: np.where(exchanged, others[name], rows[name]) for name in rows.names}
    return Codes.of(rows.schema, columns, len(rows))


def _most(done: float, rows: int) -> int:
    """How many rows of a block are exchanged at most, after this share of all blocks."""
    return max(1, round(min(EXCHANGED, rows / FEW) * min(1.0, 3 * (1 - done)) ** 2))


def _excess(rows: Codes, wanted: int, expected: Mapping[tuple[str, ...], Floats]) -> tuple[Floats, Floats]:
    """By how much the first rows exceed what is expected of every cell, weighted, and the weights."""
    flat = np.concatenate([table.ravel() for table in expected.values()])
    weights = 1 / np.sqrt(flat + 1)
    counted = [np.bincount(_keys(rows, slice(wanted), n, t.shape), minlength=t.size) for n, t in expected.items()]
    return (np.concatenate(counted) - flat) * weights, weights


def _move(excess: Floats, weights: Floats, out: Cells, into: Cells) -> None:
    """Take the rows of some cells out and put others in."""
    for cells, sign in ((out.ravel(), -1), (into.ravel(), 1)):
        np.add.at(excess, cells, sign * weights[cells])


def _choose_exchange(excess: Floats, weights: Floats, ours: Cells, theirs: Cells, most: int) -> tuple[Cells, Cells]:
    """Which rows of a block leave and which enter, the worst and the best of it; `excess` is what is left after that."""
    over, under = excess[ours].sum(axis=1), excess[theirs].sum(axis=1)
    leaving, entering = np.argsort(-over, kind="stable"), np.argsort(under, kind="stable")
    # A row that leaves takes its own counts along, and one that enters brings its own: that much must be repaid.
    own = weights[ours].sum(axis=1)[leaving] + weights[theirs].sum(axis=1)[entering]
    often = min(most, int((2 * (over[leaving] - under[entering]) > own).sum()))
    leaving, entering = leaving[:often], entering[:often]
    _move(excess, weights, ours[leaving], theirs[entering])
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
