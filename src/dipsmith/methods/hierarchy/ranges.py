"""Ranges: one attribute's values in a tree of intervals, so that every range is a few counts.

With h levels of branching b, a range of w values is a sum of at most 2·(b − 1)·h nodes instead of w
counts. Noise is added on every level; least squares makes the answers to all ranges agree (a range and its
parts add up) and lowers their variance (Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of
differentially private histograms through consistency", VLDB 2010). How many levels pay depends on the
number of values, and below about 90 none do: `best_depth` computes it (how branching matters: Qardaji, Yang
and Li, "Understanding hierarchical methods for differentially private histograms", VLDB 2013).

Privacy: intervals are cut from the public list of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dipsmith.arrays import Bools, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.tree import Tree, level_weights, sum_variance
from dipsmith.schema import Cells, Codes, Condition, Conditions, Marginal, Schema

RANGES = 48
"""Ranges over which `best_depth` averages, spread evenly over starts and lengths."""

MOST_LEVELS = 6


@dataclass(frozen=True, eq=False)
class Ranges:
    """The values of one attribute, and intervals of 1, b, b², … of them; intervals at the end may be shorter.

    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> s = Schema("t", (Attribute("a", "string", Categories.of("abcdefghij")),), Unit(), "replace")
    >>> Ranges(s, 4).nodes
    (1, 3, 10)
    """

    schema: Schema
    branching: int

    def __post_init__(self) -> None:
        columns = len(self.schema.names)
        if columns != 1:
            raise UsageError(f"a tree of ranges has one column, and the schema has {columns}; keep one of them")
        if self.branching < 2:
            raise UsageError(f"a tree of ranges: branching is {self.branching}, expected at least 2")

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """Number of nodes of each level: root first, single values last."""
        return _level_sizes(self.schema.size(), self.branching)

    @cached_property
    def tree(self) -> Tree:
        """The shape: a node has `branching` children, the last one of a level what is left."""
        return _tree(self.nodes, self.branching)

    @property
    def levels(self) -> tuple[Cells, ...]:
        """All rows, the intervals, the values."""
        inner = len(self.nodes) - 2
        widths = [self.branching ** (inner - i) for i in range(inner)]
        return (Marginal(self.schema, ()), *(Intervals(self.schema, w) for w in widths), self.table)

    @property
    def table(self) -> Marginal:
        """The single values."""
        return Marginal(self.schema, self.schema.names)

    @property
    def leaf_cells(self) -> slice:
        """Leaves are values in their own order."""
        return slice(None)


@dataclass(frozen=True, eq=False)
class Intervals:
    """The values of one attribute, `width` at a time."""

    schema: Schema
    width: int

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute."""
        return self.schema.names

    @property
    def size(self) -> int:
        """The number of intervals."""
        return -(-self.schema.size() // self.width)

    @property
    def key(self) -> str:
        """The attribute and the width."""
        return f"{self.schema.names[0]} in intervals of {self.width}"

    def index(self, codes: Codes) -> Ints:
        """The interval of every row."""
        return codes[self.schema.names[0]].astype(np.int64) // self.width

    def possible(self) -> Bools | None:
        """The intervals with at least one value that no rule forbids."""
        values = Marginal(self.schema, self.schema.names).possible()
        if values is None:
            return None
        return np.logical_or.reduceat(values, np.arange(0, values.size, self.width))

    def conditions(self, cells: Ints) -> Conditions:
        """The first and the last value of each interval."""
        (name,) = self.schema.names
        labels = self.schema[name].labels
        parts = [labels[i : i + self.width] for i in range(0, len(labels), self.width)]
        words = tuple(part[0] if len(part) == 1 else f"{part[0]} … {part[-1]}" for part in parts)
        return {name: Condition(words, cells)}

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """Not factored."""
        return None, self


def range_weights(nodes: Sequence[int], currency: str) -> list[float]:
    """How to share a budget among the levels of a tree of ranges: ε ∝ nodes^(1/6), ρ ∝ nodes^(1/4).

    Halfway between equal shares, which are best for long ranges, and the shares of `level_weights`, which
    are best for single values; within a few per cent of the best for the average range.
    """
    return [weight**0.5 for weight in level_weights(nodes, currency)]


def branching_for(values: int, depth: int) -> int:
    """The smallest branching with which so many values take `depth` levels below the root.

    >>> branching_for(1000, 3), branching_for(74, 1)
    (10, 74)
    """
    b = max(2, round(float(values) ** (1 / depth)) - 1)
    while pow(b, depth) < values:
        b += 1
    return int(b)


def best_depth(values: int, currency: str, *, total_known: bool = True) -> int:
    """The number of levels below the root with the smallest variance of an average range; public.

    >>> best_depth(50, "epsilon"), best_depth(1000, "epsilon")
    (1, 2)
    """
    most = min(MOST_LEVELS, max(1, (values - 1).bit_length()))
    return min(range(1, most + 1), key=lambda d: average_variance(values, d, currency, total_known))


def average_variance(values: int, depth: int, currency: str, total_known: bool = True) -> float:
    """The noise variance of a range, averaged over ranges of all lengths, at a budget of 1 (in units of 2)."""
    b = branching_for(values, depth)
    nodes = _level_sizes(values, b)
    weights = np.array(range_weights(nodes, currency))
    if total_known:
        weights[0] = 0.0
    share = weights / weights.sum()
    power = 2 if currency == "epsilon" else 1
    noise = np.divide(1.0, share**power, out=np.zeros(share.size), where=share > 0)
    tree, spread = _tree(nodes, b), np.repeat(noise, nodes)
    leaves = tree.layers[-2]
    found = 0.0
    for start, stop in _some_ranges(values):
        asked = np.zeros(tree.size)
        asked[leaves + start : leaves + stop] = 1.0
        found += sum_variance(tree, spread, asked)
    return found / RANGES


def _some_ranges(values: int) -> list[tuple[int, int]]:
    """Ranges whose starts and lengths cover the possible ones evenly (an additive golden-ratio sequence)."""
    i = np.arange(RANGES)
    u, v = (0.5 + i * 0.7548776662466927) % 1, (0.5 + i * 0.5698402909980532) % 1
    ends = np.sort(np.stack([u, v]) * values, axis=0)
    starts = np.minimum(ends[0].astype(int), values - 1)
    stops = np.maximum(np.ceil(ends[1]).astype(int), starts + 1)
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _level_sizes(values: int, branching: int) -> tuple[int, ...]:
    sizes = [values]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // branching))
    return tuple(reversed(sizes)) if len(sizes) > 1 else (1, 1)


def _tree(nodes: Sequence[int], branching: int) -> Tree:
    fans = [np.minimum(branching, size - branching * np.arange(above)) for above, size in pairwise(nodes)]
    return Tree.build(fans)
