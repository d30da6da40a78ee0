"""Wide rounds: what pairs cannot show, looked for among triples and fours.

Of three columns of which one is the parity of the other two, every pair is independent: a method that only looks at
pairs never finds them. In a wide round sets of three and four columns are offered beside the pairs. A larger set
always misses at least as much as the pairs in it, and its table carries more noise; so it is taken only where it
misses `MARGIN` of all rows more than the best pair, besides what chance alone leaves in its cells, and what a choice
among so many cannot tell.

Which sets are offered depends on the schema, on the number of rows as it is known and on the noise to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from math import log, pi, sqrt

import numpy as np

from dipsmith.methods.graph.completion import draw_columns
from dipsmith.methods.graph.entropy import EntropyFit
from dipsmith.methods.graph.junction import Array, Attributes
from dipsmith.methods.graph.model import within_cells
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import choice_epsilon
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Marginal, Schema

MARGIN = 0.05
"""By how many of all rows a larger set must miss more than the best pair: that is no trace of a pair not yet measured."""

MOST_SETS = 600
"""Sets offered at most, those with the smallest tables first: about half a second of one round."""

LARGEST, MOST_CELLS = 1 << 10, 1 << 18
"""Cells of one set, and of all sets offered, at most."""

DRAWN_ROWS = 1 << 16
"""Rows drawn from the model to see what it expects of larger sets."""

MOST_COLUMNS = 32
"""The columns with the fewest values that larger sets are made of, so that all fours of them can be listed."""


def larger_sets(schema: Schema, cells: float) -> list[Attributes]:
    """Sets of three and four columns whose tables have at most so many cells, smallest first.

    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> columns = [Attribute(n, "string", Categories.of(["0", "1"], other="0")) for n in "abcd"]
    >>> larger_sets(Schema("t", tuple(columns), Unit(), "replace"), 8)
    [('a', 'b', 'c'), ('a', 'b', 'd'), ('a', 'c', 'd'), ('b', 'c', 'd')]
    """
    fewest = set(sorted(schema.names, key=lambda n: schema[n].size)[:MOST_COLUMNS])
    names = [n for n in schema.names if n in fewest]
    sets = chain.from_iterable(combinations(names, k) for k in (3, 4))
    bearable = [s for s in sets if schema.size(s) <= min(cells, LARGEST)]
    smallest = sorted(bearable, key=lambda s: (schema.size(s), len(s)))[:MOST_SETS]
    return within_cells(schema, smallest, MOST_CELLS)


def drawn_tables(schema: Schema, fitted: EntropyFit, sets: Sequence[Attributes]) -> dict[Attributes, Array]:
    """The expected counts of many sets, from rows drawn from the model once, the same at every call.

    Sets that lie in no clique would each need a table as large as several cliques.
    """
    drawn = min(DRAWN_ROWS, max(1, round(fitted.total)))
    rows = Codes.of(schema, draw_columns(fitted.tree, fitted.beliefs, drawn, generator(0)), drawn)
    found: dict[Attributes, Array] = {}
    for names in sets:
        table = Marginal.of(schema, names)
        counts = np.bincount(table.index(rows), minlength=table.size).reshape(table.shape)
        found[names] = np.asarray(counts * (fitted.total / drawn), np.float64)
    return found


def handicap(expected: Array, total: float) -> float:
    """What is taken off the score of a larger set: the margin, and the L1 error that chance leaves in its cells.

    A cell of m rows on average errs by √(2m/π), and never by more than 2m; drawn rows err besides.
    """
    twice = 1 + max(1.0, total / DRAWN_ROWS)
    return MARGIN * total + float(np.minimum(np.sqrt(2 * twice * expected / pi), 2 * expected).sum())


def choice_doubt(sensitivity: int, budget: Budget, sets: int) -> float:
    """What a choice among so many sets cannot tell: with it taken off, all of them together are as likely as one pair.

    The odds of a candidate are exp(ε·score / 2Δ), and so many of them multiply the odds by their number.
    """
    return 2 * sensitivity / float(choice_epsilon(budget)) * log(max(sets, 1))


def bearable_cells(total: float, sd: float) -> float:
    """The largest table whose noise is not more than the rows in it: Σ √(2/π)·σ ≤ n."""
    return total / max(sqrt(2 / pi) * sd, 1e-9)
