"""Penalised conditional log-linear models fitted to noisy tables (multinomial logistic regression).

Given the public rows, the true statistics S of the model of `dipsmith.consistency.design` have mean
E_θ S and covariance H(θ), the information matrix; a noisy table adds independent noise of known
variance: S̃ ~ (E_θ S, H + V). With a normal prior of precision P on the effects φ
(`dipsmith.consistency.penalty`) the estimate solves

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
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dipsmith.consistency.design import Design
from dipsmith.consistency.penalty import (
    Choice,
    Penalty,
    cellwise_covariance,
    choose_cellwise,
    choose_dense,
    dense_covariance,
    symmetric,
)

Float = NDArray[np.float64]

TOGETHER: Final = 3000
"""Effects that are solved together at most: the matrix takes 72 MB, its factor about a second."""
LEAST_VARIANCE: Final = 1e-3
"""Tables overlap in their sums, so exact ones would have a singular covariance."""
NEGLIGIBLE: Final = 1e-4
"""A step whose squared length, in posterior standard deviations, is below this is the last one."""
SHORT: Final = 1.0
"""After a step shorter than this the information matrix is used again."""
HALVINGS: Final = 6
ROUNDS: Final = 4
"""Rounds of choosing penalties in each step."""
STEPS: Final = 40
SWEEPS: Final = 25


@dataclass(frozen=True, eq=False)
class Fit:
    """Estimated effects with their uncertainty.

    Attributes
    ----------
    effects
        Flat effects in label contrasts, in the order of the design.
    log_strengths
        log λ of every term.
    covariances
        Posterior covariance of every term's own effects: (cells·k)² for a term that was solved
        together with others, cells × k × k for one that was solved cell by cell.
    determined
        How many of a term's effects the tables determine, rather than the prior.
    """

    effects: Float
    log_strengths: tuple[Float, ...]
    covariances: tuple[Float, ...]
    determined: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Equations:
    """Noisy statistics and what is known of their noise, for one design.

    Attributes
    ----------
    design
        The public side of the model.
    statistics
        Noisy statistics in label contrasts (`Design.statistics`).
    variances
        Noise variance of a contrast, one per term.
    penalties
        The priors of the effects, one per term.
    """

    design: Design
    statistics: Float
    variances: tuple[float, ...]
    penalties: tuple[Penalty, ...]

    def noise(self, term: int) -> float:
        """The noise variance that is reckoned with."""
        return max(self.variances[term], LEAST_VARIANCE)


def fit(
    equations: Equations,
    start: Float | None = None,
    log_strengths: Sequence[Float] | None = None,
    report: Callable[[float], None] | None = None,
) -> Fit:
    """Estimate the effects from noisy statistics.

    Parameters
    ----------
    equations
        Noisy statistics over a design.
    start, log_strengths
        Where to start, for example an earlier fit.
    report
        Called with the share done.

    Privacy
    -------
    Reads public rows and noisy tables only: post-processing.
    """
    design = equations.design
    strengths = [p.start() for p in equations.penalties] if log_strengths is None else [*log_strengths]
    phi = np.zeros(design.size) if start is None else start.copy()
    groups = _groups(design)
    solutions: list[_Solution] = []
    for sweep in range(SWEEPS):
        solutions = []
        for i, (terms, apart) in enumerate(groups):
            solve = _solve_apart if apart else _solve_together
            solution = solve(equations, terms, phi, strengths)
            phi = solution.effects
            for term, chosen in zip(terms, solution.choice.log_strengths, strict=True):
                strengths[term] = chosen
            solutions.append(solution)
            if report is not None:
                report(min(0.95, (sweep + (i + 1) / len(groups)) / (1 if len(groups) == 1 else 6)))
        if len(groups) == 1 or max(s.moved for s in solutions) < NEGLIGIBLE * len(groups):
            break
    covariances: dict[int, Float] = {}
    determined: dict[int, float] = {}
    for (terms, apart), solution in zip(groups, solutions, strict=True):
        covariances |= _covariances(equations, terms, solution, apart)
        determined |= dict(zip(terms, solution.choice.determined, strict=True))
    order = range(len(design.terms))
    return Fit(
        effects=phi,
        log_strengths=tuple(strengths),
        covariances=tuple(covariances[c] for c in order),
        determined=tuple(determined[c] for c in order),
    )


@dataclass(frozen=True, eq=False)
class _Solution:
    """One group's solution: all effects, chosen penalties, information G, and how far the first step went."""

    effects: Float
    choice: Choice
    G: Float
    moved: float


def _groups(design: Design) -> list[tuple[list[int], bool]]:
    """Which terms are solved together (smallest first, up to a limit) and which by themselves."""
    together: list[int] = []
    apart: list[int] = []
    total = 0
    for c in sorted(range(len(design.terms)), key=lambda c: design.terms[c].size):
        total += design.terms[c].size
        (together if total <= TOGETHER or not together else apart).append(c)
    return [(sorted(together), False), *(([c], True) for c in sorted(apart))]


def _solve_together(
    equations: Equations, terms: Sequence[int], phi: Float, strengths: Sequence[Float]
) -> _Solution:
    """Gauss–Newton with the full information matrix of some terms, the others held."""
    design = equations.design
    here = np.concatenate([np.arange(s.start, s.stop) for s in (design.slices[c] for c in terms)])
    penalties = [equations.penalties[c] for c in terms]
    noise = np.concatenate([np.full(design.terms[c].size, equations.noise(c)) for c in terms])
    chosen: Sequence[Float] = [strengths[c] for c in terms]
    weighing: _Weighing | None = None
    moved, length, limit, halved = 0.0, np.inf, np.inf, 0
    before, phi = phi, phi.copy()
    for step in range(STEPS):
        again = weighing is not None and length < SHORT
        moments = design.moments(phi, dense=() if again else terms)
        residual = (equations.statistics - moments.expected)[here]
        if (
            weighing is not None
            and length >= SHORT
            and halved < HALVINGS
            and _merit(weighing, residual, penalties, chosen, phi[here]) > limit
        ):
            phi, halved = (phi + before) / 2, halved + 1
            continue
        halved = 0
        if moments.information is not None:
            weighing = _Weighing.of(moments.information, noise)
        assert weighing is not None
        right = weighing.right(residual, phi[here])
        choice = choose_dense(weighing.G, right, penalties, chosen, ROUNDS)
        chosen = choice.log_strengths
        limit = _merit(weighing, residual, penalties, chosen, phi[here]) * (1 + 1e-9) + 1e-9
        before, phi = phi, phi.copy()
        phi[here] = choice.effects
        delta = phi[here] - before[here]
        length = float(delta @ weighing.G @ delta) + _cost(penalties, chosen, delta)
        moved = length if step == 0 else moved
        if length < NEGLIGIBLE:
            break
    return _Solution(phi, choice, weighing.G, moved)


def _solve_apart(
    equations: Equations, terms: Sequence[int], phi: Float, strengths: Sequence[Float]
) -> _Solution:
    """Gauss–Newton for one large term, cell by cell, the others held."""
    design, (c,) = equations.design, terms
    here, term = design.slices[c], design.terms[c]
    penalty = Penalty(term.cells, term.contrasts, fixed=equations.penalties[c].fixed)
    noise = equations.noise(c) * np.eye(term.contrasts)
    phi, chosen, moved = phi.copy(), strengths[c][:1], 0.0
    for step in range(STEPS):
        moments = design.moments(phi, blocks=[c])
        H = moments.blocks[c]
        residual = (equations.statistics - moments.expected)[here].reshape(term.cells, -1, 1)
        now = phi[here].reshape(term.cells, -1, 1)
        weight = np.linalg.solve(H + noise, np.concatenate([H, residual + H @ now], axis=2))
        G = H @ weight[:, :, :-1]
        choice = choose_cellwise(
            (G + G.transpose(0, 2, 1)) / 2, (H @ weight[:, :, -1:])[:, :, 0], penalty, chosen
        )
        chosen = choice.log_strengths[0]
        # One cell's step cannot overshoot by much, but a first one from far away may: keep it below e⁴.
        delta = np.clip(choice.effects - phi[here], -4.0, 4.0)
        phi[here] += delta
        square = delta.reshape(term.cells, 1, -1)
        length = float((square @ G @ square.transpose(0, 2, 1)).sum()) + penalty.cost(
            choice.log_strengths[0], delta
        )
        moved = length if step == 0 else moved
        if length < NEGLIGIBLE * max(1.0, term.size / TOGETHER):
            break
    return _Solution(phi, choice, G, moved)


@dataclass(frozen=True, eq=False)
class _Weighing:
    """The information matrix weighed against noise, W = (H + V)⁻¹ and G = HWH = H − V + VWV."""

    H: Float
    noise: Float
    W: Float
    G: Float

    @classmethod
    def of(cls, H: Float, noise: Float) -> _Weighing:
        total = np.array(H, order="F")
        total[np.diag_indices(len(H))] += noise
        factor, failed = linalg.lapack.dpotrf(total, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("information plus noise is not positive definite")
        inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
        W = symmetric(inverse)
        G = noise[:, None] * W * noise
        G += H
        G[np.diag_indices(len(H))] -= noise
        return cls(H, noise, W, G)

    def square(self, residual: Float) -> float:
        """Squared length of a residual, scaled by sampling and noise."""
        return float(residual @ (self.W @ residual))

    def right(self, residual: Float, phi: Float) -> Float:
        """HW(residual + Hφ)."""
        whole = residual + self.H @ phi
        return np.asarray(whole - self.noise * (self.W @ whole))


def _merit(
    weighing: _Weighing, residual: Float, penalties: Sequence[Penalty], strengths: Sequence[Float], phi: Float
) -> float:
    return weighing.square(residual) + _cost(penalties, strengths, phi)


def _cost(penalties: Sequence[Penalty], strengths: Sequence[Float], phi: Float) -> float:
    ends = np.cumsum([0, *(p.size for p in penalties)])
    parts = zip(penalties, strengths, ends[:-1], ends[1:], strict=True)
    return sum(p.cost(s, phi[a:b]) for p, s, a, b in parts)


def _covariances(
    equations: Equations, terms: Sequence[int], solution: _Solution, apart: bool
) -> dict[int, Float]:
    """Each term's own block of the posterior covariance."""
    strengths = solution.choice.log_strengths
    if apart:
        return {terms[0]: cellwise_covariance(solution.G, float(strengths[0][0]))}
    whole = dense_covariance(solution.G, [equations.penalties[c] for c in terms], strengths)
    ends = np.cumsum([0, *(equations.design.terms[c].size for c in terms)])
    return {c: whole[a:b, a:b] for c, (a, b) in zip(terms, pairwise(ends), strict=True)}
