"""Trees of counts, and the numbers in them that fit all noisy measurements best.

A node's count is the sum of its children's counts. Every node may have been measured with its own
noise variance, not at all (infinite variance) or exactly (variance 0: a public total, a structural
zero). `gls` returns the generalised least squares estimate: of all unbiased linear estimates that
add up, the one with the smallest variance, at every node at once and for every sum of nodes.

Guarantee: children sum to their parent; an exactly known node keeps its value; the result equals
dense constrained weighted least squares; cost is O(nodes), in two passes over the layers.

The recursion is the one of Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially
private histograms through consistency" (VLDB 2010, section 4), which assumes one fan-out and one
variance, carried out for any fan-out and any variances: Kalman smoothing on a tree. Unmeasured leaves
are the limit of a variance M → ∞: a variance is then `finite + free · M`, and only ratios of it are used.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError

CONFLICT_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Tree:
    """The shape of a tree (or of several: every root is independent), nodes in breadth-first order.

    `parent` has the parent of each node, −1 for a root. It never falls from one node to the next and is smaller than
    the node itself: so the nodes of one layer, and the children of one node, are neighbours. Layer `l` is the nodes
    from `layers[l]` up to `layers[l + 1]`; `inner` has the nodes with children, `first` the first child of each.

    >>> tree = Tree([-1, 0, 0, 1, 1, 1])
    >>> tree.layers, tree.inner.tolist(), tree.leaves.tolist()
    ((0, 1, 3, 6), [0, 1], [2, 3, 4, 5])
    """

    parent: Ints
    layers: tuple[int, ...] = field(init=False)
    inner: Ints = field(init=False)
    first: Ints = field(init=False)

    def __post_init__(self) -> None:
        parent = np.array(self.parent, dtype=np.int64)
        if parent.ndim != 1 or parent.size == 0 or parent[0] != -1:
            raise UsageError("A tree's parents: expected one list that starts with -1, the root")
        falls = np.diff(parent) < 0
        if parent[-1] >= parent.size - 1 or falls.any() or (parent >= np.arange(parent.size)).any():
            raise UsageError(
                "A tree's parents: expected breadth-first order, every parent before its children "
                "and never falling from one node to the next; sort the nodes by layer, then by parent"
            )
        roots = int(np.searchsorted(parent, 0))
        bounds = [0, roots]
        while bounds[-1] < parent.size:
            bounds.append(int(np.searchsorted(parent, bounds[-1])))
        first = np.flatnonzero(np.diff(parent)) + 1
        for name, value in (("parent", parent), ("inner", parent[first]), ("first", first)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "layers", tuple(bounds))

    @classmethod
    def build(cls, children: Sequence[ArrayLike]) -> Tree:
        """Build a tree from the number of children of each node, or of all nodes, layer by layer (0 makes a leaf).

        >>> Tree.build([[2], [3, 0]]).parent.tolist(), Tree.build([2, 3]).layers
        ([-1, 0, 0, 1, 1, 1], (0, 1, 3, 9))
        """
        parents = [np.array([-1], dtype=np.int64)]
        start = 0
        for counts in children:
            fan, nodes = np.asarray(counts, dtype=np.int64), parents[-1].size
            fan = np.full(nodes, fan) if fan.ndim == 0 else fan
            if fan.shape != (nodes,) or (fan < 0).any():
                wanted = f"expected {nodes} numbers of children, none negative"
                raise UsageError(f"A layer of {nodes} nodes: {wanted}, got {fan.size}")
            below = np.repeat(np.arange(start, start + fan.size), fan)
            start += fan.size
            if below.size == 0:
                break
            parents.append(below)
        return cls(np.concatenate(parents))

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.parent.size

    @property
    def leaves(self) -> Ints:
        """Nodes without children, ascending."""
        mask = np.ones(self.size, dtype=bool)
        mask[self.inner] = False
        return np.flatnonzero(mask)

    def families(self) -> list[Families]:
        """The inner layers from the root down, each with its children: the loop of every pass."""
        ends = np.searchsorted(self.inner, self.layers)
        return [
            Families(
                inner=slice(int(ends[l]), int(ends[l + 1])),
                nodes=self.inner[ends[l] : ends[l + 1]],
                children=slice(self.layers[l + 1], self.layers[l + 2]),
                starts=self.first[ends[l] : ends[l + 1]] - self.layers[l + 1],
            )
            for l in range(len(self.layers) - 2)
        ]


@dataclass(frozen=True, eq=False)
class Families:
    """The inner nodes of one layer and all their children: exactly the next layer.

    `inner` says where the nodes stand in `Tree.inner`, `starts` where each node's children begin inside `children`.
    """

    inner: slice
    nodes: Ints
    children: slice
    starts: Ints

    @property
    def owner(self) -> Ints:
        """Where each child's parent stands in `nodes`."""
        return np.repeat(np.arange(self.nodes.size, dtype=np.int64), self.sizes)

    @property
    def sizes(self) -> Ints:
        """Number of children of each node."""
        return np.diff(self.starts, append=self.children.stop - self.children.start)

    def sums(self, of_children: Floats) -> Floats:
        """Sum over each inner node's children."""
        return np.add.reduceat(of_children, self.starts)

    def spread(self, of_inner: Floats) -> Floats:
        """Repeat a number per inner node over its children."""
        return np.repeat(of_inner, self.sizes, axis=0)


@dataclass(frozen=True, eq=False)
class Upward:
    """What the variances alone decide: how much each node knows from its own subtree.

    `own` is the variance of each node's estimate from its own subtree (the finite part of it); `free` the number of
    unmeasured leaves that make this estimate undetermined, 0 where it is determined. Per inner node, `below` and
    `free_below` are their sums over the children, and `weight` is the weight of its own measurement against the
    sum of its children.
    """

    own: Floats
    free: Floats
    below: Floats
    free_below: Floats
    weight: Floats

    def share(self, family: Families) -> Floats:
        """Return the part of a parent's correction that each child takes.

        In proportion to the variances; unmeasured children take all of it; where nothing can move, 0.
        """
        own, below = self.own[family.children], family.spread(self.below[family.inner])
        # Where all children are exact, `below` is 0, and so is the share: written over it.
        finite = np.divide(own, below, out=below, where=below > 0)
        if not self.free_below[family.inner].any():
            return finite
        free, free_below = self.free[family.children], family.spread(self.free_below[family.inner])
        return np.divide(free, free_below, out=finite, where=free_below > 0)


def upward(tree: Tree, variances: ArrayLike) -> Upward:
    """Carry the noise variances (`inf`: unmeasured, 0: exact) from the leaves to the root."""
    variance = np.asarray(variances, dtype=np.float64)
    if variance.shape != (tree.size,) or not (variance >= 0).all():
        raise UsageError(f"Variances of a tree: expected {tree.size} numbers, none negative, none missing")
    measured = np.isfinite(variance)
    own = np.where(measured, variance, 0.0)
    free = np.where(measured, 0.0, 1.0)
    free[tree.inner] = 0.0
    any_free = bool(free.any())
    below = np.empty(tree.inner.size)
    free_below = np.zeros(tree.inner.size)
    weight = np.empty(tree.inner.size)
    for family in reversed(tree.families()):
        noise, known = own[family.nodes], measured[family.nodes]
        v = family.sums(own[family.children])
        total = v + noise
        w = np.divide(v, total, out=np.zeros_like(v), where=known & (total > 0))
        if any_free:
            f = family.sums(free[family.children])
            w[known & (f > 0)] = 1.0
            free[family.nodes] = np.where(known, 0.0, f)
            free_below[family.inner] = f
        own[family.nodes] = np.where(known, w * noise, v)
        below[family.inner] = v
        weight[family.inner] = w
    return Upward(own, free, below, free_below, weight)


def gls(tree: Tree, values: ArrayLike, variances: ArrayLike) -> Floats:
    """Estimate every node from all measurements, so that children sum to their parent.

    `values` has the measurement of each node, anything (NaN too) where it is unmeasured; `variances` its noise
    variance: `inf` for an unmeasured node, 0 for an exact one. What no measurement determines is shared equally among
    the unmeasured leaves concerned. Exact values that contradict each other are refused. `values` may have several
    columns: as many trees of one shape and one noise.

    Up: with S and V the sums of the children's estimates and variances, z = w·y + (1−w)·S with
    w = V/(V+σ²), and s = w·σ². Down: x_u = z_u + (s_u/V)(x_v − S).

    A total and its two parts, measured with equal noise: a third of the discrepancy goes to each.

    >>> gls(Tree([-1, 0, 0]), [13, 4, 6], [1, 1, 1]).tolist()
    [12.0, 5.0, 7.0]

    The total is public, one part is unmeasured:

    >>> gls(Tree([-1, 0, 0]), [13, 4, float("nan")], [0, 1, float("inf")]).tolist()
    [13.0, 4.0, 9.0]
    """
    up = upward(tree, variances)
    given = np.asarray(values, dtype=np.float64)
    measured = np.isfinite(np.asarray(variances, dtype=np.float64))
    if given.shape[:1] != (tree.size,) or given.ndim > 2 or not np.isfinite(given[measured]).all():
        wanted = f"expected {tree.size} numbers, finite wherever the variance is finite"
        raise UsageError(f"Values of a tree: {wanted}")
    columns = (-1, *[1] * (given.ndim - 1))
    x = np.where(measured.reshape(columns), given, 0.0)
    families = tree.families()
    sums = np.empty((tree.inner.size, *given.shape[1:]))
    for family in reversed(families):
        s, y, w = family.sums(x[family.children]), x[family.nodes], up.weight[family.inner].reshape(columns)
        # Adding w·(y − S) to S would return an exact value only up to rounding.
        x[family.nodes] = np.where(w == 1.0, y, s + w * (y - s))
        sums[family.inner] = s
    exact = (np.asarray(variances)[tree.inner] == 0) & (up.below == 0) & (up.free_below == 0)
    known = given[tree.inner[exact]]
    gap = np.abs(known - sums[exact])
    if conflicts := int((gap > CONFLICT_TOLERANCE * np.maximum(1.0, np.abs(known))).sum()):
        raise UsageError(
            f"Exactly known counts contradict each other: {conflicts} nodes differ from the sum of "
            "their exactly known children; correct the public totals or the impossible cells"
        )
    for family in families:
        correction = family.spread(x[family.nodes] - sums[family.inner])
        correction *= up.share(family).reshape(columns)
        x[family.children] += correction
    return x


def node_variances(tree: Tree, variances: ArrayLike) -> Floats:
    """The variance of the `gls` estimate of every node, of a tree whose leaves are all measured.

    Down: Var(x_u) = s_u − s_u²/V + (s_u/V)²·Var(x_v).

    >>> node_variances(Tree([-1, 0, 0]), [1, 1, 1]).round(3).tolist()
    [0.667, 0.667, 0.667]
    """
    up = upward(tree, variances)
    if up.free.any():
        raise UsageError("Variances of a tree's nodes: expected every leaf to be measured")
    found = up.own.copy()
    for family in tree.families():
        share = up.share(family)
        found[family.children] = up.own[family.children] * (1 - share) + share**2 * family.spread(found[family.nodes])
    return found


def sum_variance(tree: Tree, variances: ArrayLike, weights: ArrayLike) -> float:
    """Compute the variance of a weighted sum of `gls` estimates, covariances included.

    One pass up, O(nodes), no covariance matrix: given its parent, the subtrees of two siblings are
    tied only through their sum. Weights of 1 for the leaves of a range and 0 elsewhere give the standard error of
    a range query.

    >>> tree = Tree([-1, 0, 0])
    >>> round(sum_variance(tree, [1, 1, 1], weights=[0, 1, 1]), 3)
    0.667
    >>> round(sum_variance(tree, [1, 1, 1], weights=[0, 1, -1]), 3)
    2.0
    """
    up = upward(tree, variances)
    slope = np.array(weights, dtype=np.float64)
    if slope.shape != (tree.size,) or not np.isfinite(slope).all():
        raise UsageError(f"Weights of a sum over a tree: expected {tree.size} finite numbers")
    scale = np.abs(slope).max(initial=0.0) * CONFLICT_TOLERANCE
    variance = 0.0
    for family in reversed(tree.families()):
        mean = family.sums(up.share(family) * slope[family.children])
        apart = slope[family.children] - family.spread(mean)
        if (np.abs(apart)[up.free[family.children] > 0] > scale).any():
            return float("inf")
        variance += float(np.dot(up.own[family.children], apart**2))
        slope[family.nodes] += mean
    roots = slice(0, tree.layers[1])
    if (np.abs(slope[roots])[up.free[roots] > 0] > scale).any():
        return float("inf")
    return variance + float(np.dot(up.own[roots], slope[roots] ** 2))


def level_weights(nodes: Sequence[int], currency: str) -> list[float]:
    """How to share a budget among levels so that the summed squared error of all nodes is least.

    The noise variance on a level is proportional to 1/ε² (pure) or 1/ρ (zCDP); Σ nodes/ε² is least, for a
    given Σ ε, at ε ∝ nodes^(1/3), and Σ nodes/ρ at ρ ∝ nodes^(1/2).

    >>> level_weights([1, 8, 1000], "epsilon"), level_weights([4, 100], "rho")
    ([1.0, 2.0, 10.0], [2.0, 10.0])
    """
    power = 1 / 3 if currency == "epsilon" else 1 / 2
    return [round(n**power, 9) for n in nodes]
