"""Shrinkage: label distributions of a tree's leaves from noisy counts that are too small to stand alone.

The noise is drawn once, at the leaves. A leaf with few rows is then mostly noise, so each leaf is estimated
from the whole tree, by a hierarchical model with known noise. For each label, the log-odds of a node are

    η(node) = η(parent) + γ(attribute asked, label taken) + δ(node),    δ ~ N(0, τ²),  γ ~ N(0, ω²),

with one τ² and one ω² for each level. γ is what a step down the tree means on average over all branches that
take it (a main effect); δ is what is particular to one branch. Where the counts carry no information,
τ² and ω² are estimated as 0 and every leaf has the distribution of the root.

The variances are estimated by (restricted) maximum likelihood, taking the *lower* end of their likelihood interval:
a variance that noise alone could well have produced is 0. The fit is penalised quasi-likelihood (Breslow and Clayton
1993): a few rounds in which counts are linearised around the current estimate, with variance n·p(1−p) for sampling
plus the noise's. Each round is one pass up and one down the tree, exact smoothing for that shape (Chou, Willsky and
Benveniste 1994). At the end the leaves are calibrated on the label marginal (iterative proportional fitting).

Labels are fitted one against the rest and normalised; with two labels this is logistic regression.

Privacy: reads noisy counts and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.methods.forest.leaves import LeafCounts
from dipsmith.methods.forest.tree_shape import TreeShape

Narrow = NDArray[np.float32]
Wide = NDArray[np.floating]

HOPELESS = 10.0
"""Deviance above the least at which larger variances are no longer tried."""
TURNS, BRIEF_TURNS, LARGE = (3, 1, 1, 1), (2, 1), 1 << 16
"""Rounds of linearisation, and how often variances and steps are estimated in each; fewer for large trees."""
PART = 1 << 14
"""Nodes handled at a time, so that they stay in the processor's cache."""
STEP = 2.0
"""The most that log-odds may move in one round."""
CAUTION = 2.0
"""By how much, in deviance, a variance must fit better than a smaller one: what Akaike charges a parameter."""
SAMPLE = 3000
"""Nodes of a level from which its variances are estimated: those of the largest families."""
VARIANCES = np.concatenate([[0.0], np.geomspace(1e-3, 8.0, 11)])
"""The variances of log-odds that are compared."""
CALIBRATED = 3e-4
"""How far, relatively, the leaves' sum may be from the label marginal."""
RAREST = 1e-6
"""No label is given a smaller probability before rules are applied."""
SUREST = 14.0
"""Log-odds beyond which nothing is learned from a count."""
FAINTEST = 1e-30
"""Precision that counts as none; 0 would divide by 0."""


def shrink(counts: LeafCounts, marginal: Floats) -> Narrow:
    """The label distribution of every leaf (leaves × labels), given that of all rows (`join_marginals`)."""
    if counts.labels == 1:
        return np.ones((counts.tree.size, 1), dtype=np.float32)
    marginal = np.clip(marginal, RAREST, 1.0)
    marginal = marginal / marginal.sum()
    columns = [1] if counts.labels == 2 else list(range(counts.labels))
    smoother = _Smoother(counts, marginal, columns)
    odds, effects = smoother.run()
    shape, sizes = smoother.shape, smoother.working.sizes
    filled = _chances(odds.take(shape.leaves, axis=1))
    factor = _calibration(filled, sizes.take(shape.leaves), marginal)
    found = np.empty((counts.tree.size, counts.labels), dtype=np.float32)
    for here in _slices(len(shape.leaves)):
        found[shape.cells[here]] = _shares(filled[:, here], factor)
    for cells, expected in smoother.without_rows(odds, effects):
        found[cells] = _shares(_chances(expected), factor)
    return found


def _chances(odds: Narrow) -> Narrow:
    """Of log-odds of each label against the rest, its chance (labels × leaves)."""
    p = _expit(odds)
    if len(p) == 1:
        p = np.concatenate([1.0 - p, p])
    return np.maximum(p, np.float32(RAREST), out=p)


def _slices(size: int) -> Iterator[slice]:
    return (slice(start, start + PART) for start in range(0, size, PART))


def _expit(odds: Narrow) -> Narrow:
    """The logistic function, twice as fast as SciPy's; log-odds are bounded, so that nothing overflows."""
    p = np.exp(-odds)
    p += 1.0
    return np.reciprocal(p, out=p)


def _shares(chances: Narrow, factor: Floats) -> Narrow:
    """Calibrated distributions, leaves × labels."""
    scaled = chances * factor.astype(np.float32)[:, None]
    scaled /= scaled.sum(axis=0)
    return np.asarray(scaled.T)


def _calibration(chances: Narrow, sizes: Narrow, marginal: Floats) -> Floats:
    """By how much to raise or lower each label's odds everywhere, so that the leaves add up to the marginal."""
    factor = np.ones(len(marginal))
    share = (sizes / (sizes.sum(dtype=np.float64) or 1.0)).astype(np.float32)
    for _ in range(30 if len(sizes) else 0):
        now = np.zeros(len(marginal))
        for part in _slices(len(sizes)):
            here = chances[:, part] * factor.astype(np.float32)[:, None]
            with np.errstate(invalid="ignore"):  # OpenBLAS reads beyond a short row, and tells of what lies there
                now += here @ (share[part] / here.sum(axis=0))
        factor *= marginal / now
        factor /= factor.max()  # only ratios count
        if np.abs(marginal / now - 1).max() < CALIBRATED:
            break
    return factor


@dataclass(frozen=True, eq=False)
class _Families:
    """Nodes of one level, as families of one parent each; `group` numbers the step that leads to each node."""

    starts: Ints
    fans: Ints
    group: Ints
    groups: int

    def sums(self, x: Wide) -> Wide:
        return np.add.reduceat(x, self.starts, axis=-1)

    def spread(self, x: Wide) -> Wide:
        return np.repeat(x, self.fans, axis=-1)

    def group_sums(self, x: Wide) -> Floats:
        return np.stack([np.bincount(self.group, row, self.groups) for row in x])

    def largest(self, rows: Floats) -> Bools:
        """The nodes of the families with the largest nodes, SAMPLE of them at most."""
        if len(rows) <= SAMPLE:
            return np.ones(len(rows), dtype=bool)
        order = np.argsort(-self.sums(rows**2) / self.fans, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.fans[order]), SAMPLE, side="right"))
        chosen = np.zeros(len(self.fans), dtype=bool)
        chosen[order[: max(enough, 1)]] = True
        return np.repeat(chosen, self.fans)

    def keep(self, nodes: Bools) -> _Families:
        """Only some of the nodes, and the families that are left."""
        fans = np.add.reduceat(nodes.astype(np.int64), self.starts)
        fans = fans[fans > 0]
        return _Families(np.cumsum(fans) - fans, fans, self.group[nodes], self.groups)


@dataclass(frozen=True, eq=False)
class _Level:
    """One level below the root.

    `parts` are its nodes with rows, their parents and families, few enough at a time for the processor's cache.
    `telling` are the nodes that tell most about the variances (all of them unless `partial`), `sample` their families.
    """

    parts: list[tuple[slice, Ints, _Families]]
    telling: Ints
    sample: _Families
    partial: bool

    @classmethod
    def of(cls, first: int, parents: Ints, families: _Families, rows: Floats) -> _Level:
        telling = families.largest(rows)
        ends = np.append(families.starts, len(families.group))
        cuts = np.unique(np.searchsorted(ends, np.arange(0, ends[-1], PART)))
        parts = []
        for low, high in pairwise([*cuts[cuts < len(families.fans)].tolist(), len(families.fans)]):
            start, stop = int(ends[low]), int(ends[high])
            starts, fans = families.starts[low:high] - start, families.fans[low:high]
            family = _Families(starts, fans, families.group[start:stop], families.groups)
            parts.append((slice(first + start, first + stop), parents[low:high], family))
        return cls(parts, first + np.flatnonzero(telling), families.keep(telling), not bool(telling.all()))


@dataclass(frozen=True, eq=False)
class _Shape:
    """The nodes of a tree that have rows, level by level.

    `place` gives the position of each node of the tree among them, −1 for one without rows; `leaves` are the
    positions of leaves, and `cells` the numbers of these leaves in the tree.
    """

    nodes: Ints
    place: NDArray[np.int32]
    leaves: Ints
    cells: NDArray[np.int32]
    levels: list[_Level]

    @classmethod
    def of(cls, tree: TreeShape, sizes: Wide) -> _Shape:
        rows = np.zeros(len(tree.asks))
        rows[tree.leaves] = sizes
        for start, stop in reversed(tree.below_root):
            inner = np.flatnonzero(tree.asks[tree.parent[start] : tree.parent[stop - 1] + 1] >= 0)
            inner += tree.parent[start]
            rows[inner] = np.add.reduceat(rows[start:stop], tree.first[inner] - start)
        nodes = np.flatnonzero(rows > 0)
        place = np.full(len(rows), -1, dtype=np.int32)
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        offsets = tree.step_offsets
        levels = []
        for start, stop in tree.below_root:
            first, last = np.searchsorted(nodes, (start, stop))
            if first == last:
                break
            here = nodes[first:last]
            above = tree.parent[here]
            starts = np.flatnonzero(np.diff(above, prepend=-1))
            fans = np.diff(starts, append=len(here))
            group = (offsets[tree.asks[above]] + tree.code[here]).astype(np.int64, copy=False)
            families = _Families(starts, fans, group, int(offsets[-1]))
            levels.append(_Level.of(int(first), place[above[starts]].astype(np.int64), families, rows[here]))
        leaves = np.flatnonzero(tree.asks[nodes] < 0)
        return cls(nodes, place, leaves, tree.leaf_of[nodes[leaves]], levels)


class _Smoother:
    """The rounds of the fit, for some labels at once (labels × nodes)."""

    def __init__(self, counts: LeafCounts, marginal: Floats, columns: list[int]) -> None:
        self.root = scipy.special.logit(np.clip(marginal[columns], RAREST, 1.0 - RAREST)).astype(np.float32)
        self.tree = counts.tree
        self.shape = _Shape.of(counts.tree, counts.spread(counts.sizes))
        self.working = counts.place_among(self.shape.cells, columns, self.shape.leaves, len(self.shape.nodes))

    def run(self) -> tuple[Narrow, list[_LevelEffects]]:
        """The log-odds of all nodes that have rows, and what each level says of a step down."""
        odds = np.repeat(self.root[:, None], len(self.shape.nodes), axis=1)
        z, w = np.zeros_like(odds), np.zeros_like(odds)
        blank = np.zeros((len(odds), int(self.tree.fans.sum())))
        effects = [_LevelEffects(0.0, blank) for _ in self.shape.levels]
        rounds = BRIEF_TURNS if len(self.shape.nodes) > LARGE else TURNS
        for turns in rounds if len(self.shape.nodes) else ():
            self._linearise(odds, z, w)
            self._upward(z, w, effects, turns)
            self._downward(z, w, effects, odds)
        return odds, effects

    def _linearise(self, odds: Narrow, z: Narrow, w: Narrow) -> None:
        """Set working log-odds of the leaves and their precision; what inner nodes get is overwritten."""
        for here in _slices(odds.shape[1]):
            working, at = self.working.part(here), odds[:, here]
            p = _expit(at)
            slope = p * (1.0 - p)
            slope *= working.sizes
            apart = working.apart(p)
            apart /= slope
            np.add(at, apart, out=z[:, here])
            noise = working.noise(p) + slope
            slope *= slope
            slope /= noise
            np.maximum(slope, np.float32(FAINTEST), out=w[:, here])

    def _upward(self, z: Narrow, w: Narrow, effects: list[_LevelEffects], turns: int) -> None:
        """From the leaves to the root: each level's effects, and what each inner node hears from below."""
        for i in range(len(self.shape.levels) - 1, -1, -1):
            level = self.shape.levels[i]
            effect = effects[i] = _level_effects(level, z, w, effects[i], turns)
            for nodes, parents, families in level.parts:
                passed = effect.parent_weight(w[:, nodes])
                below = families.sums(passed)
                own = z[:, nodes] - effect.steps(families.group)
                w[:, parents] = below
                z[:, parents] = families.sums(passed * own) / below

    def _downward(self, z: Narrow, w: Narrow, effects: list[_LevelEffects], odds: Narrow) -> None:
        """From the root to the leaves: what is expected from above, corrected by what was heard from below.

        Each node moves by STEP at most; its children expect what it would be without that limit.
        """
        # What is smoothed is kept in z, which is set anew in the next round.
        z[:, 0] = self.root
        for level, effect in zip(self.shape.levels, effects, strict=True):
            for nodes, parents, families in level.parts:
                expected = families.spread(z.take(parents, axis=1))
                expected += effect.steps(families.group)
                if effect.tau2 > 0:
                    gain = w[:, nodes] * np.float32(effect.tau2)
                    gain /= 1.0 + gain
                    gain *= z[:, nodes] - expected
                    expected += gain
                z[:, nodes] = expected
        for nodes in _slices(odds.shape[1]):
            moved = np.clip(z[:, nodes] - odds[:, nodes], -STEP, STEP)
            odds[:, nodes] = np.clip(odds[:, nodes] + moved, -SUREST, SUREST)

    def without_rows(self, odds: Narrow, effects: list[_LevelEffects]) -> Iterator[tuple[NDArray[np.int32], Narrow]]:
        """Leaves without rows and their log-odds: what the nearest node above with rows lets expect."""
        tree, place, offsets = self.tree, self.shape.place, self.tree.step_offsets
        for depth, (start, stop) in enumerate([(0, 1), *tree.below_root]):
            bare = start + np.flatnonzero((place[start:stop] < 0) & (tree.asks[start:stop] < 0))
            for part in _slices(len(bare)):
                at = bare[part].copy()
                expected = np.zeros((len(odds), len(at)), dtype=np.float32)
                climbing: Ints | slice = slice(None)
                # Hardly ever is the nearest one not the parent.
                for above in range(depth - 1, -1, -1):
                    low, high = at[climbing], tree.parent.take(at[climbing])
                    if above < len(effects):
                        step = offsets.take(tree.asks.take(high)) + (low - tree.first.take(high))
                        expected[:, climbing] += effects[above].steps(step)
                    at[climbing] = high
                    if not len(climbing := np.flatnonzero(place.take(at) < 0)):
                        break
                there = place[at]
                expected += odds.take(there, axis=1) if there.min() >= 0 else self.root[:, None]
                yield tree.leaf_of[bare[part]], expected


@dataclass(frozen=True, eq=False)
class _LevelEffects:
    """τ² of one level, and γ for each label and each step (labels × steps)."""

    tau2: float
    gamma: Floats

    @cached_property
    def narrow(self) -> Narrow:
        return self.gamma.astype(np.float32)

    def steps(self, group: Ints) -> Narrow | float:
        return self.narrow.take(group, axis=1) if self.narrow.any() else 0.0

    def parent_weight(self, weight: Narrow) -> Narrow:
        return weight / (1.0 + weight * np.float32(self.tau2)) if self.tau2 > 0 else weight


def _level_effects(level: _Level, z: Narrow, w: Narrow, before: _LevelEffects, turns: int) -> _LevelEffects:
    """Estimate τ² and γ in turns, each given the other; on the nodes that tell most, in later rounds γ on all."""
    effect = before
    told, weight = (x.take(level.telling, axis=1).astype(np.float64) for x in (z, w))
    several = len(level.sample.fans) > 1
    for _ in range(turns):
        tau2 = _between(level.sample, told - effect.gamma.take(level.sample.group, axis=1), weight)
        effect = _LevelEffects(tau2, effect.gamma)
        passed = weight / (1.0 + weight * tau2)
        for _ in range(2 if several else 0):
            effect = _LevelEffects(tau2, _steps([(level.sample, told, passed)], effect.gamma))
    if several and level.partial and turns == 1:
        parts = [(families, z[:, nodes], effect.parent_weight(w[:, nodes])) for nodes, _, families in level.parts]
        effect = _LevelEffects(effect.tau2, _steps(parts, effect.gamma))
    return effect


def _steps(parts: list[tuple[_Families, Wide, Wide]], gamma: Floats) -> Floats:
    """γ anew: the average of each step over all families, drawn to 0."""
    precision, told = np.zeros_like(gamma), np.zeros_like(gamma)
    for families, z, weight in parts:
        steps = gamma.astype(z.dtype).take(families.group, axis=1)
        centre = families.spread(families.sums(weight * (z - steps)) / families.sums(weight))
        precision += families.group_sums(weight)
        told += families.group_sums(weight * (z - centre))
    known = precision > 0
    raw = np.divide(told, precision, out=np.zeros_like(told), where=known)
    steps, own = raw[known], 1.0 / precision[known]
    # ω²: by how much the average steps differ from 0, beyond their own variances.
    omega2 = _cautious(lambda v: float((np.log(own + v) + steps**2 / (own + v)).sum()))
    return np.asarray(raw * (precision * omega2) / (1.0 + precision * omega2))


def _between(families: _Families, z: Floats, w: Floats) -> float:
    """τ²: by how much the nodes of a family differ, beyond their own uncertainty (restricted likelihood)."""

    def deviance(tau2: float) -> float:
        weight = w / (1.0 + w * tau2)
        total = families.sums(weight)
        apart = z - families.spread(families.sums(weight * z) / total)
        return float((weight * apart * apart).sum() - np.log(weight).sum() + np.log(total).sum())

    return _cautious(deviance)


def _cautious(deviance: Callable[[float], float]) -> float:
    """The smallest variance whose deviance is within CAUTION of the least: the likelihood interval's lower end."""
    found: list[float] = []
    for v in VARIANCES:
        found.append(deviance(v))
        if found[-1] > min(found) + HOPELESS:
            break
    limit = min(found) + CAUTION
    i = next(k for k, d in enumerate(found) if d <= limit)
    if i < 2:
        return float(VARIANCES[i])
    step = (found[i - 1] - limit) / (found[i - 1] - found[i])
    return float(VARIANCES[i - 1] * (VARIANCES[i] / VARIANCES[i - 1]) ** step)
