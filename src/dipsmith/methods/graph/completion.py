"""Drawing rows from a graphical model, and the columns that are missing from rows given those that are there.

Ancestral sampling along the tree: the new columns of every clique are drawn given those that it shares with its
parent. Where some columns are known, each clique first learns from its children how likely these are for every value of
its own; what is drawn then has the exact conditional distribution (`complete_columns`, for all rows at once).

Privacy: reads a fitted model and rows that the caller already holds; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.sampling import sample_within
from dipsmith.methods.graph.junction import Array, JunctionTree
from dipsmith.methods.graph.queries import given_separator
from dipsmith.privacy.randomness import Generator
from dipsmith.schema.codes import code_dtype

Columns = dict[str, NDArray[np.integer]]

ROOM = 1 << 22
"""Weights of one clique that are held at once while rows are completed."""


def draw_columns(tree: JunctionTree, tables: Sequence[Array], rows: int, generator: Generator) -> Columns:
    """Draw all columns; `tables` has for each clique weights of its values, in proportion for any value of its separator."""
    columns: Columns = {}
    for names, separator, table in zip(tree.cliques, tree.separators, tables, strict=True):
        key = np.zeros(rows, dtype=np.int64)
        for name in separator:
            key = key * tree.sizes[name] + columns[name]
        used, group = np.unique(key, return_inverse=True)
        weights = table.reshape(prod(tree.shape(separator)), -1)[used]
        drawn = sample_within(weights, group, generator)
        free = names[len(separator) :]
        for name, column in zip(free, np.unravel_index(drawn, tree.shape(free)), strict=True):
            # Kept in the smallest type: 100 columns of a million rows are 100 MB instead of 800.
            columns[name] = column.astype(code_dtype(tree.sizes[name]))
    return columns


def complete_columns(
    tree: JunctionTree,
    beliefs: Sequence[Array],
    known: Mapping[str, NDArray[np.integer]],
    rows: int,
    generator: Generator,
) -> Columns:
    """Draw the columns that are not known of every row, given those that are.

    Where all that two parts of the tree share is known, they are independent and drawn one after the other; rows that are
    known alike in a part are drawn together. What the model holds to be impossible is drawn as if all were equally likely.
    """
    columns: Columns = {name: np.asarray(column, dtype=np.int64) for name, column in known.items()}
    columns |= {name: np.zeros(rows, dtype=np.int64) for name in tree.sizes if name not in known}
    tables = [given_separator(*one) for one in zip(beliefs, tree.cliques, tree.separators, strict=True)]
    for part in _parts(tree, known):
        given = [n for n in tree.sizes if n in known and any(n in tree.cliques[c] for c in part)]
        alike = np.zeros(rows, dtype=np.int64)
        for name in given:
            _, alike = np.unique(alike * tree.sizes[name] + columns[name], return_inverse=True)
        order = np.argsort(alike, kind="stable")
        starts = np.searchsorted(alike[order], np.arange(alike.max(initial=-1) + 2))
        widest = max(prod(tree.shape([n for n in tree.cliques[c] if n not in known])) for c in part)
        for first in range(0, len(starts) - 1, max(1, ROOM // widest)):
            bounds = starts[first : first + max(1, ROOM // widest) + 1]
            block = order[bounds[0] : bounds[-1]]
            kinds = {name: columns[name][order[bounds[:-1]]] for name in given}
            weights = _weigh_kinds(tree, part, tables, kinds, len(bounds) - 1)
            _draw_block(tree, part, weights, known, columns, block, alike[block] - first, generator)
    return columns


def _parts(tree: JunctionTree, known: Collection[str]) -> list[list[int]]:
    """The cliques with something to draw, in parts that share nothing but known columns; parents first."""
    part_of: dict[int, list[int]] = {}
    parts = []
    for clique, separator in enumerate(tree.separators):
        if set(separator) <= set(known):
            parts.append(part_of.setdefault(clique, []))
        else:
            part_of[clique] = part_of[tree.parents[clique]]
        part_of[clique].append(clique)
    return [part for part in parts if any(set(tree.cliques[c]) - set(known) for c in part)]


def _weigh_kinds(
    tree: JunctionTree, part: Sequence[int], tables: Sequence[Array], kinds: Columns, count: int
) -> dict[int, Array]:
    """For every kind of row the weights of what each clique has to draw, once it has learned from its children."""
    weights = {}
    for clique in part:
        names = tree.cliques[clique]
        given, free = [n for n in names if n in kinds], [n for n in names if n not in kinds]
        table = tables[clique].transpose([names.index(n) for n in (*given, *free)])
        # One array of places for each known column: numpy then gives a table of the others for every kind.
        chosen = table[tuple(kinds[n] for n in given)] if given else np.broadcast_to(table, (count, *table.shape))
        weights[clique] = chosen
    for child in reversed(part[1:]):
        parent, shared = tree.parents[child], set(tree.separators[child])
        mine = [n for n in tree.cliques[child] if n not in kinds]
        theirs = [n for n in tree.cliques[parent] if n not in kinds]
        message = weights[child].sum(axis=tuple(1 + i for i, n in enumerate(mine) if n not in shared))
        most = message.reshape(count, -1).max(axis=1)
        message = message.reshape(count, *(tree.sizes[n] if n in shared else 1 for n in theirs))
        weights[parent] = weights[parent] * (message / np.where(most > 0, most, 1.0).reshape(count, *[1] * len(theirs)))
    return weights


def _draw_block(
    tree: JunctionTree,
    part: Sequence[int],
    weights: Mapping[int, Array],
    known: Collection[str],
    columns: Columns,
    rows: NDArray[np.int64],
    kind: NDArray[np.int64],
    generator: Generator,
) -> None:
    """Draw the columns of a part for some rows, each of a kind, from the part's first clique on."""
    for clique in part:
        separator = [n for n in tree.separators[clique] if n not in known]
        free = [n for n in tree.cliques[clique] if n not in known and n not in separator]
        if not free:
            continue
        key = kind
        for name in separator:
            key = key * tree.sizes[name] + columns[name][rows]
        used, group = np.unique(key, return_inverse=True)
        lines = weights[clique].reshape(-1, prod(tree.shape(free)))[used]
        drawn = sample_within(lines, group, generator)
        for name, code in zip(free, np.unravel_index(drawn, tree.shape(free)), strict=True):
            columns[name][rows] = code
