"""Penalised conditional log-linear models fitted to noisy tables (multinomial logistic regression).

Given the public rows, the true statistics S of the model of `dipsmith.methods.loglinear.public_design` have mean
E_θ S and covariance H(θ), the information matrix; a noisy table adds independent noise of known
variance: S̃ ~ (E_θ S, H + V). With a normal prior of precision P on the effects φ
(`dipsmith.methods.loglinear.penalty`) the estimate solves

    H (H + V)⁻¹ (S̃ − E_θ S) = P φ.

Read from the left: the equation of every cell counts by its information against sampling and noise.
It is the fixed point of the EM algorithm that treats the true tables as missing: fill in
S* = E_θ S + H(H + V)⁻¹(S̃ − E_θ S), then fit S* by penalised maximum likelihood. Without noise (V = 0)
it *is* penalised maximum likelihood, and without penalty multinomial logistic regression. It is
solved by Gauss–Newton steps, which need G = H(H + V)⁻¹H and its right-hand side only, and each step
chooses the penalties anew. A step that would raise the weighted residual plus penalty is shortened, so
noise of any size gives finite effects.

Terms with few effects are solved together with their full multinomial information matrix. A term with
very many cells is solved by itself, cell by cell (its own information matrix is block-diagonal), in
turn with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dipsmith.methods.loglinear.penalty import (
    Penalty,
    PenaltyChoice,
    cellwise_covariance,
    choose_cellwise,
    choose_dense,
    dense_covariance,
    slices_of,
    symmetric,
)
from dipsmith.methods.loglinear.public_design import PublicDesign

Float = NDArray[np.float64]

TOGETHER: Final = 3000
"""Effects that are solved together at most: the matrix takes 72 MB, its inverse about a second."""
FREE: Final = 1e-6
"""Precision of effects that are not to be shrunk; above 0 because tables overlap in their sums."""
CANCELS: Final = 1e6
"""Noise variance above which H − V + VWV would lose digits that matter."""
LEAST_VARIANCE: Final = 1e-3
"""Tables overlap in their sums, so exact ones would have a singular covariance."""
NEGLIGIBLE: Final = 1e-6
"""A step whose mean square, in posterior standard deviations, is below this is the last one."""
SHORT: Final = 1e-2
"""After a step with a mean square below this the information matrix is used again."""
THINNED: Final = 250_000
"""Distinct rows that the steps go through at most; all rows are used to correct them."""
STEPS: Final = 40
HALVINGS: Final = 6
ROUNDS: Final = 3
"""Rounds of choosing penalties in each step."""
TURNS: Final = 6
SWEEPS: Final = 30


@dataclass(frozen=True, eq=False)
class EffectEstimate:
    """Flat effects in label contrasts, in the order of the design, with log λ of every term.

    `unshrunk` are the effects without the pull of the penalties on terms that are reported so, `covariances` those
    of every term's own unshrunk effects: (cells·k)² for a term that was solved together with others, cells × k × k
    for one that was solved cell by cell.
    """

    effects: Float
    log_strengths: tuple[Float, ...]
    unshrunk: Float
    covariances: tuple[Float, ...]


@dataclass(frozen=True, eq=False)
class EffectEquations:
    """Noisy statistics in label contrasts (`PublicDesign.statistics`), with noise variance and prior of every term.

    `reported_free` says which terms are reported as they are without shrinkage. Terms nested in others cannot be:
    they are told from each other by their penalties alone.
    """

    design: PublicDesign
    statistics: Float
    variances: tuple[float, ...]
    penalties: tuple[Penalty, ...]
    reported_free: tuple[bool, ...]

    def noise(self, term: int) -> float:
        """The noise variance that is reckoned with."""
        return max(self.variances[term], LEAST_VARIANCE)


def estimate_effects(
    equations: EffectEquations,
    start: Float | None = None,
    log_strengths: Sequence[Float] | None = None,
    report: Callable[[float], None] | None = None,
    *,
    rough: bool = False,
) -> EffectEstimate:
    """Estimate the effects from noisy statistics.

    `start` and `log_strengths` say where to start, for example at an earlier fit. `report` is called with the share
    done. A `rough` estimate may be off by a fraction of its standard error: it only serves to choose the next term.

    Privacy
    -------
    Reads public rows and noisy tables only: post-processing.
    """
    design = equations.design
    strengths = [p.start() for p in equations.penalties] if log_strengths is None else [*log_strengths]
    phi = np.zeros(design.size) if start is None else start.copy()
    thin = design.thinned(THINNED)
    groups = [_Group(equations, thin, tuple(terms), apart) for terms, apart in _groups(design)]
    enough = SHORT if rough else NEGLIGIBLE
    for turn in range(1 if rough or thin is design else TURNS):
        held = np.zeros(design.size)
        if thin is not design:
            held = design.moments(phi).expected - thin.moments(phi).expected
        phi, strengths, moved = _settled(groups, phi, strengths, held, enough)
        if report is not None:
            report(min(0.95, (turn + 1) / 3))
        if moved < enough:
            break
    unshrunk = phi.copy()
    covariances: dict[int, Float] = {}
    for group in groups:
        unshrunk[group.at], held_by = group.reported(phi, strengths)
        covariances |= held_by
    every = tuple(covariances[c] for c in range(len(design.terms)))
    return EffectEstimate(phi, tuple(strengths), unshrunk, every)


def _settled(
    groups: Sequence[_Group], phi: Float, strengths: list[Float], held: Float, enough: float
) -> tuple[Float, list[Float], float]:
    """Solve the groups in turn until none moves; also how far the first steps went."""
    first = 0.0
    for sweep in range(SWEEPS):
        moved = 0.0
        for group in groups:
            phi, strengths, length = group.solve(
                phi, strengths, held, enough, STEPS if len(groups) == 1 else 3
            )
            moved = max(moved, length)
        first = moved if sweep == 0 else first
        if len(groups) == 1 or moved < max(enough, 1e-4):
            break
    return phi, strengths, first


def _groups(design: PublicDesign) -> list[tuple[list[int], bool]]:
    """Which terms are solved together (smallest first, up to a limit) and which by themselves."""
    together: list[int] = []
    apart: list[int] = []
    total = 0
    for c in sorted(range(len(design.terms)), key=lambda c: design.terms[c].size):
        total += design.terms[c].size
        (together if total <= TOGETHER else apart).append(c)
    return [(sorted(together), False)] * bool(together) + [([c], True) for c in sorted(apart)]


class _Group:
    """Terms that are solved at once, the others held.

    Steps go through a (thinned) design; `held` is what all rows expect beyond it at the same effects.
    The information matrix is kept for as long as steps are short.
    """

    def __init__(
        self, equations: EffectEquations, design: PublicDesign, terms: tuple[int, ...], apart: bool
    ) -> None:
        self.design, self.terms, self.apart = design, terms, apart
        self.statistics = equations.statistics
        self.at = np.concatenate([np.arange(s.start, s.stop) for s in (design.slices[c] for c in terms)])
        self.weighing: _Weighing | None = None
        self.penalties = [equations.penalties[c] for c in terms]
        if apart:
            self.penalties = [Penalty(p.cells, p.contrasts, fixed=p.fixed) for p in self.penalties]
        self.noise = np.concatenate([np.full(design.terms[c].size, equations.noise(c)) for c in terms])
        self.free = [equations.reported_free[c] for c in terms]

    def solve(
        self, phi: Float, strengths: list[Float], held: Float, enough: float, steps: int
    ) -> tuple[Float, list[Float], float]:
        """Gauss–Newton steps; also the length of the first."""
        chosen: Sequence[Float] = [
            strengths[c][: len(p.structures)] for c, p in zip(self.terms, self.penalties, strict=True)
        ]
        first, length, limit, halved = 0.0, 0.0, np.inf, 0
        before, phi = phi, phi.copy()
        for step in range(steps):
            weighing, residual = self._weighed(phi, held, again=length < SHORT)
            if length >= SHORT and halved < HALVINGS and self._merit(residual, chosen, phi[self.at]) > limit:
                phi, halved = (phi + before) / 2, halved + 1
                continue
            halved = 0
            self.weighing = weighing
            choice = weighing.choose(residual, phi[self.at], self.penalties, chosen)
            chosen = choice.log_strengths
            limit = self._merit(residual, chosen, phi[self.at]) * (1 + 1e-9) + 1e-9
            before, phi = phi, phi.copy()
            phi[self.at] = choice.effects
            delta = phi[self.at] - before[self.at]
            length = (weighing.length(delta) + _cost(self.penalties, chosen, delta)) / len(delta)
            first = length if step == 0 else first
            if length < enough:
                break
        by_term = dict(zip(self.terms, chosen, strict=True))
        return phi, [by_term.get(c, s) for c, s in enumerate(strengths)], first

    def reported(self, phi: Float, strengths: Sequence[Float]) -> tuple[Float, dict[int, Float]]:
        """Effects without the pull of the penalties, and each term's own block of their covariance.

        At the solution the right-hand side is (G + P)φ, so one step with P taken off gives the estimate
        (G + P₀)⁻¹(G + P)φ, which is unbiased where P₀ is 0, with covariance (G + P₀)⁻¹.
        """
        assert self.weighing is not None
        shrunk = [strengths[c] for c in self.terms]
        unshrunk = [
            Penalty(p.cells, p.contrasts, fixed=FREE) if f else p
            for p, f in zip(self.penalties, self.free, strict=True)
        ]
        off = [p.start() if f else s for p, s, f in zip(unshrunk, shrunk, self.free, strict=True)]
        pull = np.zeros(len(self.at))
        for p, s, here in zip(self.penalties, shrunk, slices_of(self.penalties), strict=True):
            pull[here] = p.pull(s, phi[self.at][here])
        return self.weighing.reported(phi[self.at], pull, self.terms, unshrunk, off)

    def _weighed(self, phi: Float, held: Float, again: bool) -> tuple[_Weighing, Float]:
        if again and self.weighing is not None:
            weighing, moments = self.weighing, self.design.moments(phi)
        elif self.apart:
            moments = self.design.moments(phi, blocks=self.terms)
            weighing = _Weighing.cellwise(moments.blocks[self.terms[0]], float(self.noise[0]))
        else:
            moments = self.design.moments(phi, dense=self.terms)
            assert moments.information is not None
            weighing = _Weighing.dense(moments.information, self.noise)
        return weighing, (self.statistics - moments.expected - held)[self.at]

    def _merit(self, residual: Float, strengths: Sequence[Float], phi: Float) -> float:
        assert self.weighing is not None
        return self.weighing.square(residual) + _cost(self.penalties, strengths, phi)


@dataclass(frozen=True, eq=False)
class _Weighing:
    """The information matrix weighed against noise: W = (H + V)⁻¹ and G = HWH.

    For one large term each is one small block per cell: cells × k × k.
    """

    H: Float
    W: Float
    G: Float

    @classmethod
    def dense(cls, H: Float, noise: Float) -> _Weighing:
        """Of terms that are solved together.

        G = H − V + VWV needs no product of large matrices, but loses the last digits of V.
        """
        total = np.array(H, order="F")
        total[np.diag_indices(len(H))] += noise
        factor, failed = linalg.lapack.dpotrf(total, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("information plus noise is not positive definite")
        inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
        W = symmetric(inverse)
        if noise.max(initial=0.0) > CANCELS:
            G = H @ (W @ H)
            return cls(H, W, (G + G.T) / 2)
        G = noise[:, None] * W * noise
        G += H
        G[np.diag_indices(len(H))] -= noise
        return cls(H, W, G)

    @classmethod
    def cellwise(cls, H: Float, noise: float) -> _Weighing:
        """Of one large term."""
        W = np.asarray(np.linalg.inv(H + noise * np.eye(H.shape[1])), dtype=np.float64)
        G = H @ W @ H
        return cls(H, W, (G + G.transpose(0, 2, 1)) / 2)

    def choose(
        self, residual: Float, phi: Float, penalties: Sequence[Penalty], strengths: Sequence[Float]
    ) -> PenaltyChoice:
        """Penalties and effects, from HW(residual + Hφ)."""
        right = _times(self.H, _times(self.W, residual + _times(self.H, phi)))
        if self.G.ndim == 2:
            return choose_dense(self.G, right, penalties, strengths, ROUNDS)
        return choose_cellwise(self.G, right.reshape(self.G.shape[:2]), penalties[0], strengths[0])

    def square(self, residual: Float) -> float:
        """Squared length of a residual, scaled by sampling and noise."""
        return float(residual @ _times(self.W, residual))

    def length(self, delta: Float) -> float:
        """Squared length of a step, scaled by the information."""
        return float(delta @ _times(self.G, delta))

    def reported(
        self,
        phi: Float,
        pull: Float,
        terms: Sequence[int],
        penalties: Sequence[Penalty],
        strengths: Sequence[Float],
    ) -> tuple[Float, dict[int, Float]]:
        """(G + P₀)⁻¹(Gφ + pull), and every term's own block of (G + P₀)⁻¹."""
        if self.G.ndim == 3:
            whole = cellwise_covariance(self.G, float(strengths[0][0]))
            blocks = {terms[0]: whole}
        else:
            whole = dense_covariance(self.G, penalties, strengths)
            blocks = {c: whole[s, s].copy() for c, s in zip(terms, slices_of(penalties), strict=True)}
        return _times(whole, _times(self.G, phi) + pull), blocks


def _times(matrix: Float, flat: Float) -> Float:
    """A matrix, or one block for each cell, times a flat vector."""
    if matrix.ndim == 2:
        return np.asarray(matrix @ flat)
    return np.asarray(matrix @ flat.reshape(len(matrix), -1, 1)).ravel()


def _cost(penalties: Sequence[Penalty], strengths: Sequence[Float], phi: Float) -> float:
    each = zip(penalties, strengths, slices_of(penalties), strict=True)
    return sum(p.cost(s, phi[here]) for p, s, here in each)
