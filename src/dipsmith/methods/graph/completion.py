"""Drawing the columns that are missing from rows, given those that are there.

Exact conditional sampling from a graphical model, row by row but not one by one: on the way up, every
clique learns how likely the given values of its subtree are for each value of its separator (rows with
the same given values share one message); on the way down, the free columns of each clique are drawn
given its separator, its own given values and what its children said. With nothing given this is plain
ancestral sampling along the tree.

Privacy: reads a fitted model and rows that the caller already holds; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.sampling import sample_within
from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree, sum_to
from dipsmith.privacy.randomness import Generator

Columns = dict[str, NDArray[np.int64]]

_CHUNK_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class _Message:
    """What a subtree says to its parent.

    `likelihood` has one table over `free`, the separator's attributes that are not given, per distinct combination
    of given values, scaled to a maximum of 1; `row` says which of them each row uses.
    """

    row: NDArray[np.int64]
    free: Attributes
    likelihood: Array


def complete(
    tree: JunctionTree,
    beliefs: Sequence[Array],
    given: Mapping[str, NDArray[np.integer]],
    rows: int,
    generator: Generator,
) -> Columns:
    """Draw all columns that are not given, from the model's distribution given those that are.

    A combination that the model holds to be impossible is completed as if each clique's free columns
    were uniform.
    """
    if rows == 0:
        return {n: np.zeros(0, dtype=np.int64) for n in tree.sizes}
    columns: Columns = {n: np.asarray(c, dtype=np.int64) for n, c in given.items()}
    messages = _upward(tree, beliefs, columns, rows) if columns else {}
    for clique, names in enumerate(tree.cliques):
        free = tuple(n for n in names if n not in columns)
        if not free:
            continue
        fixed = tuple(n for n in names if n in columns)
        heard = [messages[child] for child in tree.children[clique] if child in messages]
        drawn = np.empty(rows, dtype=np.int64)
        line, first = _distinct(tree, columns, fixed, heard, rows)
        order = np.argsort(line, kind="stable")
        ends = np.cumsum(np.bincount(line, minlength=first.size))
        for lines, weights in _weights(tree, beliefs[clique], names, columns, fixed, heard, first):
            start = 0 if lines.start == 0 else int(ends[lines.start - 1])
            mine = order[start : int(ends[lines.stop - 1])]
            flat = weights.reshape(lines.stop - lines.start, -1)
            drawn[mine] = sample_within(flat, line[mine] - lines.start, generator)
        columns.update(zip(free, np.unravel_index(drawn, tree.shape(free)), strict=True))
    return columns


def _upward(tree: JunctionTree, beliefs: Sequence[Array], columns: Columns, rows: int) -> dict[int, _Message]:
    messages: dict[int, _Message] = {}
    for clique in range(len(tree.cliques) - 1, 0, -1):
        names, separator = tree.cliques[clique], tree.separators[clique]
        fixed = tuple(n for n in names if n in columns)
        heard = [messages[child] for child in tree.children[clique] if child in messages]
        if not heard and set(fixed) <= set(separator):
            continue
        line, first = _distinct(tree, columns, fixed, heard, rows)
        free = tuple(n for n in separator if n not in columns)
        known = tuple(n for n in separator if n in columns)
        axes = tuple(n for n in names if n not in columns)
        prior = sum_to(beliefs[clique], names, separator)
        parts = []
        for lines, weights in _weights(tree, beliefs[clique], names, columns, fixed, heard, first):
            joint = sum_to(weights, ("", *axes), ("", *free))
            base = _slices(prior, separator, columns, known, first[lines])
            likely = np.divide(joint, base, out=np.zeros_like(joint), where=base > 0)
            top = likely.reshape(len(likely), -1).max(axis=1).reshape((-1,) + (1,) * len(free))
            parts.append(np.divide(likely, top, out=np.zeros_like(likely), where=top > 0))
        messages[clique] = _Message(line, free, np.concatenate(parts))
    return messages


def _distinct(
    tree: JunctionTree, columns: Columns, fixed: Attributes, heard: Sequence[_Message], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group rows with the same fixed values and messages: the group of each row, a row of each group."""
    line = np.zeros(rows, dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    keys = [(columns[n], tree.sizes[n]) for n in fixed] + [(m.row, len(m.likelihood)) for m in heard]
    span = 1
    for values, size in keys:
        line = line * size + values
        span *= size
        if span > rows:
            # Renumber before the key outgrows 64 bits.
            _, first, line = np.unique(line, return_index=True, return_inverse=True)
            span = first.size
    if keys and span > first.size:
        _, first, line = np.unique(line, return_index=True, return_inverse=True)
    return line, first


def _weights(
    tree: JunctionTree,
    belief: Array,
    names: Attributes,
    columns: Columns,
    fixed: Attributes,
    heard: Sequence[_Message],
    first: NDArray[np.int64],
) -> Iterator[tuple[slice, Array]]:
    """For a range of groups at a time: weights over the clique's free attributes, one table per group."""
    free = tuple(n for n in names if n not in fixed)
    step = max(1, _CHUNK_CELLS // max(1, prod(tree.shape(free))))
    for start in range(0, first.size, step):
        lines = slice(start, min(start + step, first.size))
        rows = first[lines]
        weights = _slices(belief, names, columns, fixed, rows)
        for message in heard:
            held = tuple(n for n in message.free if n in fixed)
            table = _slices(message.likelihood, ("", *message.free), columns, held, rows, message.row[rows])
            open_ = [n for n in message.free if n not in fixed]
            spread = [tree.sizes[n] if n in open_ else 1 for n in free]
            order = [0, *(1 + open_.index(n) for n in free if n in open_)]
            weights = weights * table.transpose(order).reshape(len(rows), *spread)
        yield lines, weights


def _slices(
    table: Array,
    names: Attributes,
    columns: Columns,
    fixed: Attributes,
    rows: NDArray[np.int64],
    line: NDArray[np.int64] | None = None,
) -> Array:
    """The table at the fixed values of each row (at `line` on the axis named ""): rows × free axes."""
    picked = [n for n in names if n in fixed or n == ""]
    axes = [names.index(n) for n in picked] + [i for i, n in enumerate(names) if n not in picked]
    turned = table.transpose(axes)
    if not picked:
        return np.broadcast_to(turned, (rows.size, *turned.shape))
    at = tuple(line if n == "" and line is not None else columns[n][rows] for n in picked)
    return np.asarray(turned[at])
