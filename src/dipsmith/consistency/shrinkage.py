"""Shrinkage: label distributions of a tree's leaves from noisy counts that are too small to stand alone.

The noise is drawn once, at the leaves. A leaf with few rows is then mostly noise, so each leaf is estimated
from the whole tree, by a hierarchical model with known noise. For each label, the log-odds of a node are

    η(node) = η(parent) + γ(attribute asked, label taken) + δ(node),    δ ~ N(0, τ²),  γ ~ N(0, ω²),

with one τ² and one ω² for each level. γ is what a step down the tree means on average over all branches that
take it (a main effect); δ is what is particular to one branch. Where the counts carry no information,
τ² and ω² are estimated as 0 and every leaf has the distribution of the root.

The variances are estimated by (restricted) maximum likelihood, taking the *lower* end of their
likelihood interval: a variance that noise alone could well have produced is 0. The fit is penalised quasi-likelihood (Breslow and Clayton 1993): a few rounds in which counts
are linearised around the current estimate, with variance n·p(1−p) for sampling plus the noise's; each
round is one pass up and one down the tree, exact smoothing for that shape (Chou, Willsky and Benveniste
1994). The label marginal, measured on its own, is joined with the leaves' sums by least squares, and the
leaves are calibrated on it (iterative proportional fitting).

Labels are fitted one against the rest and normalised; with two labels this is logistic regression.

Privacy: reads noisy counts and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dipsmith.consistency.branching import Branching
from dipsmith.consistency.leaves import LeafCounts

Floats = NDArray[np.float64]
Narrow = NDArray[np.float32]
Wide = NDArray[np.floating]

ROUNDS = 4
"""Linearisations; the fourth moves nothing that matters."""

STEP = 2.0
"""The most that log-odds may move in one round."""

CAUTION = 2.0
"""By how much, in deviance, a variance must fit better than a smaller one: what Akaike charges a parameter."""

SAMPLE = 1 << 12
"""Nodes of a level from which its variances are estimated: those of the largest families."""

VARIANCES = np.concatenate([[0.0], np.geomspace(1e-3, 8.0, 11)])
"""The variances of log-odds that are compared."""

RAREST = 1e-6
"""No label is given a smaller probability before rules are applied."""

SUREST = 14.0
"""Log-odds beyond which nothing is learned from a count."""

FAINTEST = 1e-30
"""Precision that counts as none; 0 would divide by 0."""


def shrink(counts: LeafCounts, marginal: Floats) -> Floats:
    """The label distribution of every leaf, leaves without rows included.

    Parameters
    ----------
    counts
        The measured leaves.
    marginal
        The label distribution of all rows (`joined_marginal`).
    """
    marginal = np.clip(marginal, RAREST, 1.0)
    marginal = marginal / marginal.sum()
    columns = [1] if counts.labels == 2 else list(range(counts.labels))
    odds = _Smoother(counts, marginal, columns).run()
    p = expit(odds)
    table = np.stack([1.0 - p[0], p[0]], axis=1) if counts.labels == 2 else p.T
    table = np.maximum(table, RAREST)
    table /= table.sum(axis=1, keepdims=True)
    return _calibrated(table, counts.sizes, marginal)


def _calibrated(table: Floats, sizes: Floats, marginal: Floats) -> Floats:
    """Raise or lower each label's odds everywhere alike, so that the leaves add up to the marginal."""
    filled = sizes > 0
    if not filled.any():
        return table
    share = sizes[filled] / sizes[filled].sum()
    part, factor = table[filled], np.ones(len(marginal))
    for _ in range(30):
        now = part * factor
        now /= now.sum(axis=1, keepdims=True)
        ratio = marginal / (share @ now)
        factor *= ratio
        if np.abs(ratio - 1).max() < 1e-4:
            break
    table = table * factor
    return np.asarray(table / table.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Families:
    """Nodes of one level, as families of one parent each; `group` numbers the step that leads to each node."""

    starts: NDArray[np.int64]
    fans: NDArray[np.int64]
    group: NDArray[np.int64]
    groups: int

    def sums(self, x: Wide) -> Wide:
        return np.add.reduceat(x, self.starts, axis=-1)

    def spread(self, x: Wide) -> Wide:
        return np.repeat(x, self.fans, axis=-1)

    def group_sums(self, x: Wide) -> Floats:
        return np.stack([np.bincount(self.group, row, self.groups) for row in x])

    def keeping(self, nodes: NDArray[np.bool_]) -> _Families:
        """Only some of the nodes, and the families that are left."""
        fans = np.add.reduceat(nodes.astype(np.int64), self.starts)
        fans = fans[fans > 0]
        return _Families(np.cumsum(fans) - fans, fans, self.group[nodes], self.groups)


@dataclass(frozen=True, eq=False)
class _Level:
    """One level below the root: its nodes that have rows, and those that tell most about the variances."""

    nodes: slice
    parents: NDArray[np.int64]
    families: _Families
    telling: NDArray[np.int64]
    sample: _Families


@dataclass(frozen=True, eq=False)
class _Shape:
    """The nodes of a tree that have rows, level by level."""

    nodes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    cells: NDArray[np.int32]
    levels: list[_Level]

    @classmethod
    def of(cls, tree: Branching, sizes: Floats) -> _Shape:
        rows = np.zeros(len(tree.asks))
        rows[tree.leaves] = sizes
        for start, stop in reversed(_below_root(tree)):
            rows += np.bincount(tree.parent[start:stop], rows[start:stop], len(rows))
        nodes = np.flatnonzero(rows > 0)
        place = np.full(len(rows), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        offsets = np.concatenate([[0], np.cumsum(tree.fans)])
        levels = []
        for start, stop in _below_root(tree):
            first, last = np.searchsorted(nodes, (start, stop))
            if first == last:
                break
            here = nodes[first:last]
            above = tree.parent[here]
            starts = np.flatnonzero(np.diff(above, prepend=-1))
            fans = np.diff(starts, append=len(here))
            group = (offsets[tree.asks[above]] + tree.code[here]).astype(np.int64, copy=False)
            families = _Families(starts, fans, group, int(offsets[-1]))
            telling = _telling(families, rows[here])
            levels.append(
                _Level(
                    slice(int(first), int(last)),
                    place[above[starts]],
                    families,
                    np.flatnonzero(telling),
                    families.keeping(telling),
                )
            )
        leaves = np.flatnonzero(tree.asks[nodes] < 0)
        return cls(nodes, leaves, tree.leaf_of[nodes[leaves]], levels)


def _below_root(tree: Branching) -> list[tuple[int, int]]:
    return list(zip(tree.levels[1:-1], tree.levels[2:], strict=True))


def _telling(families: _Families, rows: Floats) -> NDArray[np.bool_]:
    """The nodes of the families with the largest nodes, SAMPLE of them at most."""
    if len(rows) <= SAMPLE:
        return np.ones(len(rows), dtype=bool)
    order = np.argsort(-families.sums(rows**2) / families.fans, kind="stable")
    enough = int(np.searchsorted(np.cumsum(families.fans[order]), SAMPLE, side="right"))
    chosen = np.zeros(len(families.fans), dtype=bool)
    chosen[order[: max(enough, 1)]] = True
    return np.repeat(chosen, families.fans)


class _Smoother:
    """The rounds of the fit, for some labels at once (labels × nodes)."""

    def __init__(self, counts: LeafCounts, marginal: Floats, columns: list[int]) -> None:
        self.root = logit(np.clip(marginal[columns], RAREST, 1.0 - RAREST))
        self.tree = counts.tree
        self.shape = _Shape.of(counts.tree, counts.sizes)
        cells = self.shape.cells
        self.counts = LeafCounts(
            counts.tree, counts.values[cells], counts.variance, counts.sizes[cells], counts.public
        )
        self.columns = columns

    def run(self) -> Floats:
        """The log-odds of all leaves."""
        odds = np.repeat(self.root[:, None], len(self.shape.nodes), axis=1).astype(np.float32)
        blank = np.zeros((len(self.columns), int(self.tree.fans.sum())))
        effects = [_Effects(0.0, blank) for _ in self.shape.levels]
        for turn in range(ROUNDS if len(self.shape.nodes) else 0):
            z, w = self._linearised(odds)
            self._upward(z, w, effects, turns=3 if turn == 0 else 1)
            moved = self._downward(z, w, effects)
            moved -= odds
            np.clip(moved, -STEP, STEP, out=moved)
            odds += moved
            np.clip(odds, -SUREST, SUREST, out=odds)
            if np.abs(moved).max(initial=0.0) < 0.02:
                break
        return self._everywhere(odds, effects)

    def _linearised(self, odds: Narrow) -> tuple[Narrow, Narrow]:
        """Working log-odds of the leaves and their precision."""
        z, w = np.zeros_like(odds), np.zeros_like(odds)
        at = self.shape.leaves
        for i, label in enumerate(self.columns):
            here = odds[i, at]
            p = expit(here).astype(np.float64)
            slope = self.counts.sizes * p * (1.0 - p)
            apart, noise = self.counts.residuals(p, label)
            w[i, at] = np.maximum(slope * slope / (slope + noise), FAINTEST)
            z[i, at] = here + apart / slope
        return z, w

    def _upward(self, z: Narrow, w: Narrow, effects: list[_Effects], turns: int) -> None:
        """From the leaves to the root: each level's effects, and what each inner node hears from below."""
        for i in range(len(self.shape.levels) - 1, -1, -1):
            level = self.shape.levels[i]
            families, here, passed = level.families, z[:, level.nodes], w[:, level.nodes]
            effects[i] = _level_effects(level, here, passed, effects[i], turns)
            passed = passed / (1.0 + passed * np.float32(effects[i].tau2))
            below = families.sums(passed)
            passed *= here - effects[i].steps(families)
            w[:, level.parents] = below
            z[:, level.parents] = families.sums(passed) / below

    def _downward(self, z: Narrow, w: Narrow, effects: list[_Effects]) -> Narrow:
        """From the root to the leaves: what is expected from above, corrected by what was heard from below."""
        odds = np.empty_like(z)
        odds[:, 0] = self.root
        for level, effect in zip(self.shape.levels, effects, strict=True):
            expected = level.families.spread(odds[:, level.parents])
            expected += effect.steps(level.families)
            gain = w[:, level.nodes] * np.float32(effect.tau2)
            gain /= 1.0 + gain
            gain *= z[:, level.nodes] - expected
            odds[:, level.nodes] = expected + gain
        return odds

    def _everywhere(self, odds: Narrow, effects: list[_Effects]) -> Floats:
        """The log-odds of all leaves: one without rows is what its parent and the step to it let expect."""
        tree = self.tree
        full = np.empty((len(odds), len(tree.asks)), dtype=np.float32)
        full[:, self.shape.nodes] = odds
        known = np.zeros(len(tree.asks), dtype=bool)
        known[self.shape.nodes] = True
        full[:, 0] = np.where(known[0], full[:, 0], self.root)
        offsets = np.concatenate([[0], np.cumsum(tree.fans)])
        for depth, (start, stop) in enumerate(_below_root(tree)):
            bare = start + np.flatnonzero(~known[start:stop])
            up = tree.parent[bare]
            full[:, bare] = full[:, up]
            if depth < len(effects):
                full[:, bare] += effects[depth].gamma[:, offsets[tree.asks[up]] + tree.code[bare]]
        return full[:, tree.leaves].astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Effects:
    """τ² of one level, and γ for each label and each step (labels × steps)."""

    tau2: float
    gamma: Floats

    def steps(self, families: _Families) -> Narrow:
        return self.gamma.astype(np.float32)[:, families.group]


def _level_effects(level: _Level, z: Narrow, w: Narrow, before: _Effects, turns: int) -> _Effects:
    """Estimate τ² and γ in turns, each given the other; on the nodes that tell most, then γ on all."""
    told, weight = z[:, level.telling].astype(np.float64), w[:, level.telling].astype(np.float64)
    tau2, gamma = before.tau2, before.gamma
    for _ in range(turns):
        tau2 = _between(level.sample, told - gamma[:, level.sample.group], weight)
        if len(level.sample.fans) > 1:
            for _ in range(2):
                gamma = _steps(level.sample, told, weight / (1.0 + weight * tau2), gamma)
    if len(level.sample.fans) > 1 and len(level.telling) < level.families.group.size:
        gamma = _steps(level.families, z, w / (1.0 + w * np.float32(tau2)), gamma)
    return _Effects(tau2, gamma)


def _steps(families: _Families, z: Wide, weight: Wide, gamma: Floats) -> Floats:
    """γ anew: the average of each step over all families, drawn to 0."""
    centre = _family_means(families, z - gamma.astype(z.dtype)[:, families.group], weight)
    precision = families.group_sums(weight)
    known = precision > 0
    raw = np.divide(
        families.group_sums(weight * (z - centre)), precision, out=np.zeros_like(precision), where=known
    )
    omega2 = _among_groups(raw[known], 1.0 / precision[known])
    return np.asarray(raw * (precision * omega2) / (1.0 + precision * omega2))


def _family_means(families: _Families, z: Wide, weight: Wide) -> Wide:
    """The weighted mean of each node's family."""
    return families.spread(families.sums(weight * z) / families.sums(weight))


def _between(families: _Families, z: Floats, w: Floats) -> float:
    """τ²: by how much the nodes of a family differ, beyond their own uncertainty (restricted likelihood)."""

    def deviance(tau2: float) -> float:
        weight = w / (1.0 + w * tau2)
        total = families.sums(weight)
        apart = z - families.spread(families.sums(weight * z) / total)
        fit = float((weight * apart * apart).sum())
        return fit - float(np.log(weight).sum()) + float(np.log(total).sum())

    return _cautious(deviance)


def _among_groups(raw: Floats, own: Floats) -> float:
    """ω²: by how much the average steps differ from 0, beyond their own variances."""
    return _cautious(lambda v: float((np.log(own + v) + raw**2 / (own + v)).sum()))


def _cautious(deviance: Callable[[float], float]) -> float:
    """The smallest variance whose deviance is within CAUTION of the least: the likelihood interval's lower end."""
    found = np.array([deviance(v) for v in VARIANCES])
    limit = found.min() + CAUTION
    i = int(np.argmax(found <= limit))
    if i < 2:
        return float(VARIANCES[i])
    step = (found[i - 1] - limit) / (found[i - 1] - found[i])
    return float(VARIANCES[i - 1] * (VARIANCES[i] / VARIANCES[i - 1]) ** step)
