"""Marginals of a graphical model, also of attributes that share no clique.

Along the path between two cliques everything the one knows about the other passes through the
separators, so P(a, b) is a product of small matrices: P(a, S₁) · P(S₂ | S₁) · … · P(b | S). `marginal`
does that for one set of attributes, `pairs` for all pairs at once, each path walked only once per
attribute. (Variable elimination on the junction tree: Koller and Friedman 2009, section 10.3.3.2.)

Privacy: reads a fitted model; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from itertools import product as cartesian
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree, divide, product, sum_axes, sum_to


def contract(left: Array, rows: Attributes, right: Array, columns: Attributes, kept: Attributes) -> Array:
    """Multiply two tables and sum over every shared attribute that is not kept.

    Attributes of only one of the two tables must be kept.

    >>> p, q = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> contract(p, ("a", "s"), q, ("s", "b"), ("b", "a")).tolist()
    [[3.0, 7.0], [2.0, 4.0]]
    """
    path = _Contraction(rows, columns, kept, dict(zip(columns, right.shape, strict=True)))
    return path.through(left, path.turn(right))


class _Contraction:
    """How two tables of some attributes are multiplied, so that one of them is turned once for many of the other."""

    def __init__(self, rows: Attributes, columns: Attributes, kept: Attributes, sizes: Mapping[str, int]) -> None:
        both = [n for n in rows if n in columns]
        batch, summed = [n for n in both if n in kept], [n for n in both if n not in kept]
        mine, yours = [n for n in rows if n not in both], [n for n in columns if n not in both]
        self.left = [rows.index(n) for n in (*batch, *mine, *summed)]
        self.right = [columns.index(n) for n in (*batch, *summed, *yours)]
        self.flat = [prod(sizes[n] for n in group) for group in (batch, summed, yours)]
        self.split = len(batch) + len(mine), [sizes[n] for n in yours]
        names = (*batch, *mine, *yours)
        self.out = [names.index(n) for n in kept]

    def turn(self, right: Array) -> Array:
        """The second table as one matrix for each combination of what both have and is kept."""
        return right.transpose(self.right).reshape(self.flat)

    def through(self, left: Array, turned: Array) -> Array:
        """The product with the second table, which is turned already."""
        table, (mine, yours) = left.transpose(self.left), self.split
        stack = product(table.reshape(self.flat[0], -1, self.flat[1]), turned)
        whole: Array = stack.reshape((*table.shape[:mine], *yours))
        return whole.transpose(self.out)


def marginal(tree: JunctionTree, beliefs: Sequence[Array], attributes: Sequence[str]) -> Array:
    """The probabilities of the cross-table of some attributes, in the order given."""
    wanted = tuple(attributes)
    clique = tree.find_clique(wanted)
    if clique is not None:
        return _axes(beliefs[clique], tree.cliques[clique], wanted)
    upward: dict[int, tuple[Array, Attributes]] = {}
    for node in range(len(tree.cliques) - 1, -1, -1):
        names, separator = tree.cliques[node], tree.separators[node]
        found = [upward[child] for child in tree.children[node] if child in upward]
        new = [n for n in names if n in wanted and n not in separator]
        if node > 0 and not found and not new:
            continue
        through = {n for _, message in found for n in message if n in names}
        kept = tuple(n for n in names if n in separator or n in wanted or n in through)
        table, axes = given_separator(_axes(beliefs[node], names, kept), kept, separator), kept
        for i, (message, reached) in enumerate(found):
            later = {n for _, rest in found[i + 1 :] for n in rest}
            out = tuple(
                n
                for n in dict.fromkeys((*axes, *reached))
                if n in separator or n in wanted or n in later or n not in reached
            )
            table, axes = contract(table, axes, message, reached, out), out
        out = tuple(n for n in axes if n in separator or n in wanted)
        upward[node] = (sum_to(table, axes, out), out)
    table, axes = upward[0]
    return _axes(table, axes, wanted)


def pairs(
    tree: JunctionTree, beliefs: Sequence[Array], wanted: Collection[Attributes] | None = None
) -> dict[tuple[str, str], Array]:
    """The probabilities of every pair of attributes, in the order of `tree.sizes`.

    With `wanted`, only of the pairs among them and of pairs that share a clique. Of two attributes the smaller one
    walks along the tree, since what it carries through the separators is as wide as it is. Attributes of parts that share
    nothing are independent.
    """
    rank = {name: i for i, name in enumerate(tree.sizes)}
    sought: dict[str, set[str]] = {name: set() for name in tree.sizes}
    for pair in combinations(tree.sizes, 2) if wanted is None else (p for p in wanted if len(p) == 2):
        name, other = sorted(pair, key=lambda n: (tree.sizes[n], rank[n]))
        sought[name].add(other)
    doors: list[list[tuple[int, Attributes]]] = [[] for _ in tree.cliques]
    for child, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        if separator:
            doors[child].append((parent, separator))
            doors[parent].append((child, separator))
    found: dict[tuple[str, str], Array] = {}

    def keep(one: str, other: str, table: Array) -> None:
        first, second = sorted((one, other), key=rank.__getitem__)
        found.setdefault((first, second), table if first == one else table.T)

    @cache
    def behind(clique: int, beyond: int) -> frozenset[str]:
        """The attributes that are met only behind the door from a clique to its neighbour."""
        new = frozenset(tree.cliques[beyond]) - set(tree.cliques[clique])
        return new.union(*(behind(beyond, after) for after, _ in doors[beyond] if after != clique))

    @cache
    def step(clique: int, separator: Attributes, target: Attributes) -> tuple[_Contraction, Array]:
        """How P(attribute, separator) becomes P(attribute, target) in a clique."""
        axes = (*separator, *(n for n in target if n not in separator))
        given = given_separator(_axes(beliefs[clique], tree.cliques[clique], axes), axes, separator)
        path = _Contraction(("", *separator), axes, ("", *target), tree.sizes)
        return path, path.turn(given)

    def walk(name: str, came_from: int, clique: int, separator: Attributes, table: Array) -> None:
        """Go on from P(name, separator) into a clique and to all that lie behind it."""
        for other in tree.cliques[clique]:
            if other not in separator and other in sought[name]:
                path, given = step(clique, separator, (other,))
                keep(name, other, path.through(table, given))
        for beyond, door in doors[clique]:
            if beyond != came_from and sought[name] & behind(clique, beyond):
                path, given = step(clique, separator, door)
                walk(name, clique, beyond, door, path.through(table, given))

    for belief, names in zip(beliefs, tree.cliques, strict=True):
        for one, other, table in _pairs_within(belief, names):
            keep(one, other, table)
    for name, (clique, names) in cartesian(tree.sizes, enumerate(tree.cliques)):
        for beyond, separator in doors[clique] if name in names else ():
            if name not in separator and sought[name] & behind(clique, beyond):
                walk(name, clique, beyond, separator, _axes(beliefs[clique], names, (name, *separator)))
    # What is tied by nothing is independent.
    alone = {n: _axes(b, names, (n,)) for b, names in zip(beliefs, tree.cliques, strict=True) for n in names}
    for name, others in sought.items():
        for other in others:
            if tuple(sorted((name, other), key=rank.__getitem__)) not in found:
                keep(name, other, np.outer(alone[name], alone[other]))
    return found


def _pairs_within(table: Array, names: Attributes) -> Iterator[tuple[str, str, Array]]:
    """Every pair of one table: of its first attribute, by halves of the others, then of what is left without it."""

    def of_first(table: Array, names: Attributes) -> Iterator[tuple[str, str, Array]]:
        if len(names) == 2:
            yield names[0], names[1], table
            return
        middle = (len(names) + 1) // 2
        for kept in ((names[0], *names[1:middle]), (names[0], *names[middle:])):
            yield from of_first(sum_to(table, names, kept), kept)

    while len(names) > 1:
        yield from of_first(table, names)
        table, names = sum_to(table, names, names[1:]), names[1:]


def _axes(table: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """Sum to the wanted attributes and put them in the order wanted."""
    return sum_axes(table, [names.index(n) for n in wanted])


def given_separator(table: Array, names: Attributes, separator: Attributes) -> Array:
    """The probabilities of a table given some of its attributes: divided by their marginal."""
    below = sum_to(table, names, separator)
    spread = below.reshape([table.shape[i] if n in separator else 1 for i, n in enumerate(names)])
    return divide(table, spread)


def given_others(
    tree: JunctionTree, beliefs: Sequence[Array], columns: Mapping[str, NDArray[np.integer]], name: str
) -> Array:
    """The probability of every value of one attribute for each row of the others, rows × values.

    What the model holds to be impossible has all values equally likely.
    """
    odds = np.ones((len(next(iter(columns.values()))), tree.sizes[name]))
    for belief, names, separator in zip(beliefs, tree.cliques, tree.separators, strict=True):
        if name not in names:
            continue
        table = given_separator(belief, names, separator) if name in separator else belief
        others = [n for n in names if n != name]
        odds *= _axes(table, names, (*others, name))[tuple(columns[n] for n in others)]
    sums = odds.sum(axis=1, keepdims=True)
    return np.where(sums > 0, odds / np.where(sums > 0, sums, 1.0), 1 / tree.sizes[name])
