"""How strongly effects are pulled towards zero, chosen from noisy tables alone.

Effects of one term are a sample from a normal law with precision Σ_k λ_k R_k over its cells, the same
for every label contrast: R = I draws each effect towards zero, differences along an ordered attribute
draw neighbouring cells towards each other or towards a line (`walk`, `trend`). Around a current estimate the noisy statistics
say of the effects φ no more than the quadratic φᵀGφ/2 − gᵀφ does, where G weighs each equation by its
information against sampling *and* noise (see `dipsmith.methods.loglinear.solver`). The λ are those that
make the noisy tables most probable once φ is integrated out, times a prior on the scale
τ = λ^(−1/2), log τ ~ N(log 0.2, 0.7²):

    log p(λ | G, g) = ½ log|P| − ½ log|G + P| + ½ gᵀ(G + P)⁻¹g + log prior(λ),    P = P(λ).

Without the prior the maximum lies at λ = ∞ about every other time when the noise hides the effects
(Chung, Rabe-Hesketh, Dorie, Gelman and Liu 2013, "A nondegenerate penalized likelihood estimator for
variance parameters"); with it, tables that say nothing leave modest effects their chance and noise
none. The maximum is found by MacKay's fixed point (1992, "Bayesian interpolation", §4), where each λ
solves γ = λ·φᵀRφ with γ the number of effects that the tables, not the prior, determine.

Post-processing: everything here is a function of noisy tables and public rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from typing import Final

import numpy as np
import scipy

from dipsmith.arrays import Floats

SCALE: Final = 0.2
"""Prior median of an effect's standard deviation τ, on the logit scale."""
SPREAD: Final = 0.7
"""Prior standard deviation of log τ."""
SETTLED: Final = 0.1
"""λ that moves by less than this on the log scale has converged: effects move by far less than their error."""
ROUNDS: Final = 30
EXACT: Final = 700
"""Above so many effects the choice of λ takes the label contrasts one by one."""


BLOCK: Final = 128
"""Side of the squares in which a matrix is mirrored."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """The prior precision of one term's effects, cells × contrasts.

    `structures` are the matrices R_k over the cells; None stands for the identity. `given_strength` is a λ that is given
    instead of chosen (for the identity alone).
    """

    cells: int
    contrasts: int
    structures: tuple[Floats | None, ...] = (None,)
    given_strength: float | None = None

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.cells * self.contrasts

    def start(self) -> Floats:
        """Logarithms of the λ to start from."""
        first = -2 * np.log(SCALE) if self.given_strength is None else np.log(self.given_strength)
        return np.full(len(self.structures), first)

    def precision(self, log_strengths: Floats) -> Floats:
        """The precision over the cells, for each label contrast."""
        whole = np.zeros((self.cells, self.cells))
        for structure, log_strength in zip(self.structures, log_strengths, strict=True):
            if structure is None:
                whole[np.diag_indices(self.cells)] += np.exp(log_strength)
            else:
                whole += np.exp(log_strength) * structure
        return whole

    def pull(self, log_strengths: Floats, effects: Floats) -> Floats:
        """The precision times some effects."""
        table = effects.reshape(self.cells, self.contrasts)
        total = np.zeros_like(table)
        for structure, strength in zip(self.structures, np.exp(log_strengths), strict=True):
            total += strength * (table if structure is None else structure @ table)
        return total.ravel()

    def cost(self, log_strengths: Floats, effects: Floats) -> float:
        """The quadratic form of some effects."""
        return float(effects @ self.pull(log_strengths, effects))


@dataclass(frozen=True, eq=False)
class PenaltyChoice:
    """Chosen penalties (log λ, one array per term) and the posterior mean of the flat effects.

    `settled` says whether the last step hardly moved the penalties; `factors` are those of G + P of each contrast,
    where these were taken one by one.
    """

    log_strengths: tuple[Floats, ...]
    effects: Floats
    settled: bool = True
    factors: tuple[Floats, ...] = ()


def trend(cells: int, ordered: int) -> tuple[Floats, Floats, Floats]:
    """Structures of effects along one ordered attribute, whose first `ordered` cells are in order.

    A straight line has a λ of its own and costs nothing else: R₁ = I − uuᵀ draws towards the line u,
    R₂ = D₂ᵀD₂ against curvature (an integrated random walk, as in a smoothing spline), R₃ = uuᵀ/cells
    towards no slope. Shrinking a slope would attenuate every regression on the attribute.
    """
    line = np.zeros(cells)
    line[:ordered] = np.arange(ordered) - (ordered - 1) / 2
    line /= np.linalg.norm(line)
    second = np.diff(np.eye(cells)[:ordered], n=2, axis=0)
    along = np.outer(line, line)
    return np.eye(cells) - along, second.T @ second, along / cells


def walk(shape: Sequence[int], ordered: Sequence[int]) -> Floats | None:
    """DᵀD: squared differences between neighbouring cells along the ordered axes of a table.

    `ordered` says for every axis how many of its first codes are in order (0: none; a missing level stands apart).

    >>> walk([3], [3]).tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    """
    if max(ordered, default=0) < 2:
        return None
    cells = int(np.prod(shape))
    number = np.arange(cells).reshape(tuple(shape))
    whole = np.zeros((cells, cells))
    for axis, length in enumerate(ordered):
        if length < 2:
            continue
        low = number.take(np.arange(length - 1), axis=axis).ravel()
        high = number.take(np.arange(1, length), axis=axis).ravel()
        np.add.at(whole, (low, low), 1.0)
        np.add.at(whole, (high, high), 1.0)
        np.add.at(whole, (low, high), -1.0)
        np.add.at(whole, (high, low), -1.0)
    return whole


def quadratic(structure: Floats | None, table: Floats) -> float:
    """Σ over contrasts of φᵀRφ."""
    return float(np.sum(table * table) if structure is None else np.sum((structure @ table) * table))


def choose_dense(
    G: Floats, g: Floats, penalties: Sequence[Penalty], log_strengths: Sequence[Floats], rounds: int = ROUNDS
) -> PenaltyChoice:
    """Choose the λ of terms whose effects are estimated together, in at most so many fixed-point steps.

    G and g are the quadratic φᵀGφ/2 − gᵀφ that the noisy tables say of the effects; penalties are one per term, in
    the order of the effects; `log_strengths` is where to start.
    """
    current = [np.array(s) for s in log_strengths]
    by_contrast = len(g) > EXACT and any(p.contrasts > 1 for p in penalties)
    contrast_blocks = _ContrastBlocks.of(G, penalties) if by_contrast else None
    for step in range(rounds + 1):
        factor = _factor(G, _precisions(penalties, current))
        effects, _ = scipy.linalg.lapack.dpotrs(factor, g, lower=1)
        if step == rounds:
            break
        spreads = (
            _spreads(factor, penalties) if contrast_blocks is None else contrast_blocks.spreads(penalties, current)
        )
        following = _next_strengths(penalties, current, effects, spreads)
        if _distance(following, current) < SETTLED:
            break
        current = following
    return PenaltyChoice(tuple(current), effects)


def choose_by_contrast(
    G: Sequence[Floats], g: Floats, penalties: Sequence[Penalty], log_strengths: Sequence[Floats], rounds: int = ROUNDS
) -> PenaltyChoice:
    """`choose_dense` where label contrasts do not inform each other: k times cells × cells (lower triangles) for G.

    g is k × cells; the effects are cells × k, flat, as those of the terms one after the other.
    """
    current = [np.array(s) for s in log_strengths]
    single = [replace(p, contrasts=1) for p in penalties]
    settled = False
    for step in range(rounds + 1):
        precisions = _precisions(single, current)
        factors = [_factor(block, precisions) for block in G]
        effects = solve_by_contrast(factors, g)
        if step == rounds:
            break
        following = _next_strengths(penalties, current, effects, _spreads_by_contrast(factors, single))
        if settled := _distance(following, current) < SETTLED:
            break
        current = following
    return PenaltyChoice(tuple(current), effects, settled, tuple(factors))


def solve_by_contrast(factors: Sequence[Floats], g: Floats) -> Floats:
    """The effects (cells × k, flat) from the factor of G + P of each contrast, and g (k × cells)."""
    solved = [scipy.linalg.lapack.dpotrs(f, b, lower=1)[0] for f, b in zip(factors, g, strict=True)]
    return np.stack(solved, axis=1).ravel()


def _spreads_by_contrast(factors: Sequence[Floats], single: Sequence[Penalty]) -> list[Floats]:
    """Each term's posterior covariance over its cells, summed over contrasts: of L⁻ᵀL⁻¹ only the terms' own blocks."""
    spreads = [np.zeros((p.cells, p.cells)) for p in single]
    for factor in factors:
        inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=1)
        for spread, here in zip(spreads, slices_of(single), strict=True):
            columns = inverse[here.start :, here]
            spread += columns.T @ columns
    return spreads


def _next_strengths(
    penalties: Sequence[Penalty], current: Sequence[Floats], effects: Floats, spreads: Sequence[Floats]
) -> list[Floats]:
    """One step of the fixed point: the λ that balance effects and their posterior covariance over the cells."""
    following = [s.copy() for s in current]
    for t, (penalty, here) in enumerate(zip(penalties, slices_of(penalties), strict=True)):
        if penalty.given_strength is not None:
            continue
        prior = _prior_covariance(penalty, current[t])
        table = effects[here].reshape(penalty.cells, penalty.contrasts)
        for i, structure in enumerate(penalty.structures):
            explained = penalty.contrasts * _inner(structure, prior) - _inner(structure, spreads[t])
            gain = float(np.exp(current[t][i])) * explained
            following[t][i] = _balance(float(current[t][i]), gain, quadratic(structure, table))
    return following


def _distance(following: Sequence[Floats], current: Sequence[Floats]) -> float:
    return max((float(np.abs(f - c).max()) for f, c in zip(following, current, strict=True)), default=0.0)


def dense_covariance(G: Floats, penalties: Sequence[Penalty], log_strengths: Sequence[Floats]) -> Floats:
    """The posterior covariance (G + P)⁻¹ of effects that are estimated together."""
    inverse, _ = scipy.linalg.lapack.dpotri(_factor(G, _precisions(penalties, log_strengths)), lower=1, overwrite_c=1)
    return symmetric(inverse)


def cellwise_covariance(G: Floats, log_strength: float) -> Floats:
    """The posterior covariance of every cell's contrasts, cells × k × k."""
    return np.asarray(np.linalg.inv(G + np.exp(log_strength) * np.eye(G.shape[1])))


def choose_cellwise(G: Floats, g: Floats, penalty: Penalty, log_strengths: Floats, rounds: int = 200) -> PenaltyChoice:
    """Choose λ for one large term whose cells are estimated apart (R = I); G is cells × k × k and g cells × k."""
    value, basis = np.linalg.eigh(G)
    value = np.maximum(value, 0.0)
    along = np.einsum("cji,cj->ci", basis, g)
    x = float(log_strengths[0])
    for _ in range(rounds if penalty.given_strength is None else 0):
        strength = np.exp(x)
        gain = float(np.sum(value / (value + strength)))
        before, x = x, _balance(x, gain, float(np.sum((along / (value + strength)) ** 2)))
        if abs(x - before) < SETTLED / 10:
            break
    effects = np.einsum("cij,cj->ci", basis, along * (1.0 / (value + np.exp(x))))
    return PenaltyChoice((np.array([x]),), effects.ravel())


@dataclass(frozen=True, eq=False)
class _ContrastBlocks:
    """G with the label contrasts taken one by one, for spreads that need no large inverse.

    In the basis in which the average cell's information is diagonal, contrasts hardly inform each
    other. Leaving out what they do turns one inverse of (cells · k)³ into k inverses of cells³. Only
    the choice of λ uses it; effects and their covariance are exact.
    """

    members: tuple[tuple[int, ...], ...]
    blocks: tuple[Floats, ...]

    @classmethod
    def of(cls, G: Floats, penalties: Sequence[Penalty]) -> _ContrastBlocks:
        slices = slices_of(penalties)
        members, blocks = [], []
        for k in sorted({p.contrasts for p in penalties}):
            mine = tuple(t for t, p in enumerate(penalties) if p.contrasts == k)
            at = np.concatenate([np.arange(slices[t].start, slices[t].stop) for t in mine])
            whole = (G if len(at) == len(G) else G[np.ix_(at, at)]).reshape(-1, k, len(at) // k, k)
            cells = np.arange(len(at) // k)
            _, basis = np.linalg.eigh(whole[cells, :, cells, :].mean(axis=0))
            members.append(mine)
            blocks.append(np.einsum("xayj,aj->jxy", whole @ basis, basis))
        return cls(tuple(members), tuple(blocks))

    def spreads(self, penalties: Sequence[Penalty], log_strengths: Sequence[Floats]) -> list[Floats]:
        """Each term's posterior covariance over its cells, summed over contrasts."""
        found: dict[int, Floats] = {}
        for members, blocks in zip(self.members, self.blocks, strict=True):
            single = [Penalty(penalties[t].cells, 1, penalties[t].structures) for t in members]
            chosen = [log_strengths[t] for t in members]
            for block in blocks:
                covariance = dense_covariance(block, single, chosen)
                for t, here in zip(members, slices_of(single), strict=True):
                    found[t] = found.get(t, 0.0) + covariance[here, here]
        return [found[t] for t in range(len(penalties))]


def _spreads(factor: Floats, penalties: Sequence[Penalty]) -> list[Floats]:
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    whole = symmetric(inverse)
    found = []
    for penalty, here in zip(penalties, slices_of(penalties), strict=True):
        k, cells = penalty.contrasts, penalty.cells
        found.append(whole[here, here].reshape(cells, k, cells, k).trace(axis1=1, axis2=3))
    return found


def _precisions(penalties: Sequence[Penalty], log_strengths: Sequence[Floats]) -> list[tuple[slice, int, Floats]]:
    """Where each term's effects are, how many contrasts it has, and its precision over the cells."""
    each = zip(slices_of(penalties), penalties, log_strengths, strict=True)
    return [(here, p.contrasts, p.precision(chosen)) for here, p, chosen in each]


def _factor(G: Floats, precisions: Sequence[tuple[slice, int, Floats]]) -> Floats:
    """The lower Cholesky factor of G + P."""
    total = np.array(G, order="F")
    for here, contrasts, precision in precisions:
        for j in range(contrasts):
            total[here, here][j::contrasts, j::contrasts] += precision
    factor, failed = scipy.linalg.lapack.dpotrf(total, lower=1, clean=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("the penalised information is not positive definite")
    return np.asarray(factor)


def symmetric(lower: Floats) -> Floats:
    """The whole matrix, from its lower triangle."""
    whole = np.array(lower, order="F")
    for start in range(0, len(whole), BLOCK):
        stop = min(start + BLOCK, len(whole))
        square = whole[start:stop, start:stop]
        square[:] = np.tril(square) + np.tril(square, -1).T
        whole[start:stop, stop:] = whole[stop:, start:stop].T
    return whole


def slices_of(penalties: Sequence[Penalty]) -> list[slice]:
    """Where each term's effects are in the flat vector."""
    return [slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *(p.size for p in penalties)]))]


def _prior_covariance(penalty: Penalty, log_strengths: Floats) -> Floats:
    if len(penalty.structures) == 1 and penalty.structures[0] is None:
        return np.diag(np.full(penalty.cells, np.exp(-log_strengths[0])))
    return np.asarray(np.linalg.inv(penalty.precision(log_strengths)))


def _inner(structure: Floats | None, matrix: Floats) -> float:
    """tr(R·M)."""
    return float(np.trace(matrix) if structure is None else np.sum(structure * matrix))


def _balance(x: float, gain: float, square: float) -> float:
    """Solve γ − eˣ·φᵀRφ + z(x)/s = 0 for x = log λ, where z/s is the pull of the prior on log τ."""
    gain = max(gain, 0.0)
    low, high = -25.0, 40.0
    for _ in range(60):
        z = (-x / 2 - log(SCALE)) / SPREAD
        value = gain - exp(x) * square + z / SPREAD
        low, high = (x, high) if value > 0 else (low, x)
        slope = -exp(x) * square - 0.5 / SPREAD**2
        following = x - value / slope
        x, before = following if low < following < high else (low + high) / 2, x
        if abs(x - before) < 1e-6:
            break
    return float(x)
