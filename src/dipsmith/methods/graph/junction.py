"""Junction trees: which attributes are tied to which, and exact sums over all their combinations.

A graphical model over a junction tree holds one table per clique. `JunctionTree.of` finds the cliques
by greedy elimination (Koller and Friedman, *Probabilistic Graphical Models*, 2009, chapter 9.4 and
10.4), and its size is known before a single table is made, so that a model which would be too large is
never chosen. `propagation` computes with it.

Every clique's axes begin with its separator, in the order of its parent's axes, so that no message is
ever transposed.

Privacy: knows sizes of public domains and potentials made from noisy numbers; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log, prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Attributes = tuple[str, ...]

UNTHREADED = 1 << 18
"""The most multiplications that OpenBLAS does on the thread that asks (its GEMM_MULTITHREAD_THRESHOLD)."""


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """Cliques of attributes, each linked to one before it, with the running-intersection property.

    `sizes` has the number of codes of every attribute. `cliques` has the attributes of each clique, in the order
    of its axes, a parent before its children; `parents` each clique's parent, −1 for the first; `separators`
    the attributes that each clique shares with its parent: the first ones of the clique.

    >>> tree = JunctionTree.of({"a": 2, "b": 3, "c": 4}, [("a", "b"), ("b", "c")])
    >>> tree.cliques, tree.separators, tree.cells
    ((('b', 'c'), ('b', 'a')), ((), ('b',)), 18)
    """

    sizes: Mapping[str, int]
    cliques: tuple[Attributes, ...]
    parents: tuple[int, ...]
    separators: tuple[Attributes, ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int], linked: Sequence[Collection[str]]) -> JunctionTree:
        """Build the tree in which every set of `linked` attributes lies inside one clique."""
        names = list(sizes)
        cliques = _maximal(_eliminate(_adjacency(names, linked), _weigher(list(sizes.values()))))
        weight = {c: sum(log(sizes[names[i]]) for i in _members(c)) for c in cliques}
        rest = sorted(cliques, key=lambda c: (-weight[c], c))
        chosen, parents, ordered = [rest.pop(0)], [-1], []
        ordered.append(tuple(names[i] for i in _members(chosen[0])))
        separators: list[Attributes] = [()]
        while rest:
            # Prim's algorithm: the maximum spanning tree over shared attributes is a junction tree.
            shared, parent, clique = max(
                ((c & p).bit_count(), -j, -k) for k, c in enumerate(rest) for j, p in enumerate(chosen)
            )
            parent, found = -parent, rest.pop(-clique)
            inside = {names[i] for i in _members(found)}
            separator = tuple(n for n in ordered[parent] if n in inside)
            assert len(separator) == shared
            ordered.append(separator + tuple(names[i] for i in _members(found) if names[i] not in separator))
            chosen.append(found)
            parents.append(parent)
            separators.append(separator)
        return cls(dict(sizes), tuple(ordered), tuple(parents), tuple(separators))

    @cached_property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(prod(self.shape(c)) for c in self.cliques)

    def shape(self, attributes: Sequence[str]) -> tuple[int, ...]:
        """Number of codes of each of the attributes."""
        return tuple(self.sizes[n] for n in attributes)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of every clique."""
        found: list[list[int]] = [[] for _ in self.cliques]
        for child, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(child)
        return tuple(tuple(c) for c in found)

    def find_clique(self, attributes: Collection[str]) -> int | None:
        """The smallest clique that holds all the attributes, None when there is none."""
        wanted = set(attributes)
        holders = [i for i, c in enumerate(self.cliques) if wanted <= set(c)]
        return min(holders, key=lambda i: prod(self.shape(self.cliques[i])), default=None)


def link_growth(tree: JunctionTree, name: str) -> dict[str, int]:
    """By how many cells at most the tree grows when an attribute is linked to each of the others.

    An attribute that is put into every clique on the way to another leaves a junction tree. That is found for all others in
    one walk; `cells_needed` triangulates anew for each, and is often smaller.

    >>> tree = JunctionTree.of({"a": 2, "b": 3, "c": 4}, [("a", "b"), ("b", "c")])
    >>> link_growth(tree, "a")["c"], link_growth(tree, "c")["b"]
    (12, 0)
    """
    sizes = [prod(tree.shape(c)) for c in tree.cliques]
    near: list[list[int]] = [list(c) for c in tree.children]
    for child, parent in enumerate(tree.parents):
        if parent >= 0:
            near[child].append(parent)
    cost = {i: 0 for i, clique in enumerate(tree.cliques) if name in clique}
    open_cliques = list(cost)
    while open_cliques:
        here = open_cliques.pop()
        for there in (n for n in near[here] if n not in cost):
            # Parts that share nothing are joined by a clique of two, not by all that lies between.
            shared = bool(set(tree.cliques[here]) & set(tree.cliques[there]))
            cost[there] = cost[here] + sizes[there] * (tree.sizes[name] - 1) if shared else 0
            open_cliques.append(there)
    found: dict[str, int] = {}
    whole = _component(tree, name)
    for i, clique in enumerate(tree.cliques):
        for other in clique:
            grown = cost[i] if other in whole else tree.sizes[name] * tree.sizes[other]
            found[other] = min(grown, found.get(other, grown))
    return found


def _component(tree: JunctionTree, name: str) -> set[str]:
    """The attributes that are tied to one, directly or by way of others."""
    part = list(range(len(tree.cliques)))
    for child, parent in enumerate(tree.parents):
        if tree.separators[child]:
            part[child] = part[parent]
    mine = next(part[i] for i, clique in enumerate(tree.cliques) if name in clique)
    return {n for i, clique in enumerate(tree.cliques) if part[i] == mine for n in clique}


def cells_needed(sizes: Mapping[str, int], linked: Sequence[Collection[str]]) -> int:
    """How many cells the junction tree of these links would have; nothing is allocated.

    >>> cells_needed({"a": 2, "b": 3, "c": 4}, [("a", "b"), ("b", "c"), ("a", "c")])
    24
    """
    return cell_counter(sizes, linked)(())


def cell_counter(sizes: Mapping[str, int], linked: Sequence[Collection[str]]) -> Callable[[Collection[str]], int]:
    """`cells_needed` of these links and one more, which is tried in turn: most cliques are those of the last."""
    place = {name: i for i, name in enumerate(sizes)}
    counts, near = list(sizes.values()), _adjacency(list(sizes), linked)
    weigh = cache(_weigher(counts))
    count = cache(lambda clique: prod(counts[i] for i in _members(clique)))

    def needed(link: Collection[str]) -> int:
        around, bits = list(near), sum(1 << place[n] for n in set(link))
        for i in _members(bits):
            around[i] |= bits
        return sum(map(count, _maximal(_eliminate(around, weigh))))

    return needed


def sum_to(table: Array, attributes: Sequence[str], kept: Collection[str]) -> Array:
    """Sum a table over all attributes but the `kept` ones, which stay in the table's order.

    >>> sum_to(np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), ("b",)).tolist()
    [4.0, 6.0]
    """
    if len(kept) == len(attributes):
        return table
    return sum_axes(table, [i for i, n in enumerate(attributes) if n in kept])


def sum_axes(table: Array, kept: Sequence[int]) -> Array:
    """Sum a table over all axes but the `kept` ones, and put these in the order given.

    Measured: a one-operand einsum sums mixed axes up to five times faster than add.reduce.
    """
    summed: Array = cast("Any", np.einsum)(table, range(table.ndim), kept)
    return summed


def divide(table: Array, sums: Array) -> Array:
    """A table divided by sums of its cells, 0 where these are 0; a mask is asked for only where it is needed.

    >>> divide(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([[4.0], [0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    if sums.min(initial=np.inf) > 0:
        return np.asarray(table / sums)
    return np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)


def product(left: Array, right: Array) -> Array:
    """The product of two matrices, or of two stacks of equally many, without threads.

    The products of a graphical model are a little larger than those from which on BLAS starts threads, and waiting
    for a thread costs far more than it saves on a busy machine (measured: 100 ms instead of 0.1 ms for
    16 × 2,880 times 2,880 × 16). So larger ones are cut.

    >>> float(product(np.ones((300, 90)), np.full((90, 20), 0.5))[299, 19])
    45.0
    >>> product(np.ones((2, 1, 3)), np.ones((2, 3, 1))).tolist()
    [[[3.0]], [[3.0]]]
    """
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    if rows * inner * columns <= UNTHREADED:
        return np.asarray(left @ right)
    if left.ndim > 2:
        return np.stack([product(one, other) for one, other in zip(left, right, strict=True)])
    longest = max(rows, inner, columns)
    step = max(1, UNTHREADED * longest // (rows * inner * columns))
    cuts = [slice(start, start + step) for start in range(0, longest, step)]
    if inner == longest:
        whole = product(left[:, cuts[0]], right[cuts[0]])
        for cut in cuts[1:]:
            whole += product(left[:, cut], right[cut])
        return whole
    if rows == longest:
        return np.concatenate([product(left[cut], right) for cut in cuts])
    return np.concatenate([product(left, right[:, cut]) for cut in cuts], axis=1)


def _adjacency(names: Sequence[str], linked: Sequence[Collection[str]]) -> list[int]:
    """Neighbours of every attribute, itself included, as bit sets."""
    place = {name: i for i, name in enumerate(names)}
    near = [1 << i for i in range(len(names))]
    for link in linked:
        bits = sum(1 << place[n] for n in set(link))
        for n in set(link):
            near[place[n]] |= bits
    return near


def _members(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _weigher(sizes: Sequence[int]) -> Callable[[int], float]:
    """The logarithm of how many cells a set of attributes has."""
    weights = [log(s) for s in sizes]
    return lambda bits: sum(weights[i] for i in _members(bits))


def _eliminate(near: Sequence[int], weigh: Callable[[int], float]) -> list[int]:
    """The cliques of greedy elimination: always the attribute whose clique has the fewest cells.

    Measured: fewest new links instead, or the better of both, gives models no better and takes longer.
    """
    around = list(near)
    costs = {v: (weigh(bits), v) for v, bits in enumerate(around)}
    cliques = []
    while costs:
        _, v = min(costs.values())
        del costs[v]
        cliques.append(around[v])
        for i in _members(around[v] & ~(1 << v)):
            around[i] = (around[i] | around[v]) & ~(1 << v)
            costs[i] = weigh(around[i]), i
    return cliques


def _maximal(cliques: Sequence[int]) -> list[int]:
    """Drop the cliques that lie inside another."""
    kept: list[int] = []
    for clique in sorted(cliques, key=lambda c: (-c.bit_count(), c)):
        if not any(clique & k == clique for k in kept):
            kept.append(clique)
    return kept
