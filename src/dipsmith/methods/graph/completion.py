"""Drawing rows from a graphical model, and the columns that are missing from rows given those that are there.

Ancestral sampling along the tree: the new columns of every clique are drawn given those that it shares with its
parent. Where some columns are known, each clique first learns from its children how likely these are for every value of
its own (`condition`); what is drawn by such tables has the exact conditional distribution.

Privacy: reads a fitted model and rows that the caller already holds; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.sampling import sample_within
from dipsmith.methods.graph.junction import Array, JunctionTree, sum_to
from dipsmith.methods.graph.queries import given_separator
from dipsmith.privacy.randomness import Generator

Columns = dict[str, NDArray[np.int64]]

LARGEST_KEY = 1 << 62


def draw_columns(tree: JunctionTree, tables: Sequence[Array], rows: int, generator: Generator) -> Columns:
    """Draw all columns; `tables` has for each clique weights of its values, in proportion for any value of its separator."""
    columns: Columns = {}
    for names, separator, table in zip(tree.cliques, tree.separators, tables, strict=True):
        key = np.zeros(rows, dtype=np.int64)
        for name in separator:
            key = key * tree.sizes[name] + columns[name]
        used, group = np.unique(key, return_inverse=True)
        weights = table.reshape(prod(tree.shape(separator)), -1)[used]
        drawn = sample_within(weights, group, generator, _strata(tree, columns, separator, rows, generator))
        free = names[len(separator) :]
        columns.update(zip(free, np.unravel_index(drawn, tree.shape(free)), strict=True))
    return columns


def _strata(
    tree: JunctionTree, columns: Columns, separator: Sequence[str], rows: int, generator: Generator
) -> NDArray[np.int64]:
    """A key that puts rows in the order of the columns drawn so far, as many as it holds; which one leads is random.

    Given the separator, new columns are independent of these: spread evenly over them, their counts have less chance in
    them. On Adult at ε = 1 that takes 1 % off the error of pairs and triples (seed 100).
    """
    others = [name for name in columns if name not in separator]
    key = np.zeros(rows, dtype=np.int64)
    room = LARGEST_KEY
    for i in generator.permutation(len(others)):
        if (room := room // tree.sizes[others[i]]) == 0:
            break
        key = key * tree.sizes[others[i]] + columns[others[i]]
    return key


def condition(tree: JunctionTree, beliefs: Sequence[Array], known: Mapping[str, int]) -> list[Array]:
    """Weights to draw by where some columns have a known code; all 0 where the model holds that to be impossible."""
    tables = []
    for names, separator, belief in zip(tree.cliques, tree.separators, beliefs, strict=True):
        table = given_separator(belief, names, separator)
        for name in (n for n in names if n in known):
            mask = np.arange(tree.sizes[name]) == known[name]
            table = table * mask.reshape([-1 if n == name else 1 for n in names])
        tables.append(table)
    for child in range(len(tables) - 1, 0, -1):
        separator, parent = tree.separators[child], tree.parents[child]
        message = sum_to(tables[child], tree.cliques[child], separator)
        spread = [tree.sizes[n] if n in separator else 1 for n in tree.cliques[parent]]
        tables[parent] = tables[parent] * (message / (message.max() or 1.0)).reshape(spread)
    return tables
