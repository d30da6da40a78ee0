"""Information weighed against noise: how much each equation of a log-linear fit counts.

With H the information matrix and V the noise variances, W = (H + V)⁻¹ weighs residuals and G = HWH is
what the noisy tables know of the effects. Three forms, by what may be left out of H:

* *together*: nothing is; one matrix over all effects.
* *by contrast*: what different label contrasts say of each other. With k contrasts over c cells one
  matrix of (ck)² becomes k of c², which takes 1/k² of the time. The weights are then not quite the best
  ones, but the equations H̃(H̃ + V)⁻¹(S̃ − E_θ S) = Pφ remain unbiased: residuals are those of the full
  model. Without noise nothing changes, since H̃H̃⁻¹ = I.
* *cell by cell*: what the cells of one large term, and other terms, say of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy

from dipsmith.arrays import Floats
from dipsmith.methods.loglinear.penalty import (
    Penalty,
    PenaltyChoice,
    cellwise_covariance,
    choose_by_contrast,
    choose_cellwise,
    choose_dense,
    dense_covariance,
    slices_of,
    solve_by_contrast,
    symmetric,
)
from dipsmith.methods.loglinear.public_design import ContrastInformation

CANCELS: Final = 1e6
"""Noise variance above which H − V + VWV would lose digits that matter."""
ROUNDS: Final = 3
"""Rounds of choosing penalties in each step."""


@dataclass(frozen=True, eq=False)
class Weighing:
    """W = (H + V)⁻¹ and G = HWH: one matrix each, or for one large term one small block per cell, cells × k × k."""

    H: Floats
    W: Floats
    G: Floats

    @classmethod
    def dense(cls, H: Floats, noise: Floats) -> Weighing:
        """Of terms that are solved together.

        G = H − V + VWV needs no product of large matrices, but loses the last digits of V.
        """
        W = symmetric(_inverse(H, noise))
        if noise.max(initial=0.0) > CANCELS:
            G = H @ (W @ H)
            return cls(H, W, (G + G.T) / 2)
        return cls(H, W, _weigh(H, W, noise))

    @classmethod
    def cellwise(cls, H: Floats, noise: float) -> Weighing:
        """Of one large term."""
        W = np.asarray(np.linalg.inv(H + noise * np.eye(H.shape[1])), dtype=np.float64)
        G = H @ W @ H
        return cls(H, W, (G + G.transpose(0, 2, 1)) / 2)

    def choose(
        self, residual: Floats, phi: Floats, penalties: Sequence[Penalty], strengths: Sequence[Floats]
    ) -> PenaltyChoice:
        """Penalties and effects, from HW(residual + Hφ)."""
        right = _times(self.H, _times(self.W, residual + _times(self.H, phi)))
        if self.G.ndim == 2:
            return choose_dense(self.G, right, penalties, strengths, ROUNDS)
        return choose_cellwise(self.G, right.reshape(self.G.shape[:2]), penalties[0], strengths[0])

    def square(self, residual: Floats) -> float:
        """Squared length of a residual, scaled by sampling and noise."""
        return float(residual @ _times(self.W, residual))

    def length(self, delta: Floats) -> float:
        """Squared length of a step, scaled by the information."""
        return float(delta @ _times(self.G, delta))

    def report_effects(
        self,
        phi: Floats,
        residual: Floats,
        terms: Sequence[int],
        penalties: Sequence[Penalty],
        strengths: Sequence[Floats],
    ) -> tuple[Floats, dict[int, Floats]]:
        """(G + P₀)⁻¹(Gφ + HW residual), and every term's own block of (G + P₀)⁻¹."""
        if self.G.ndim == 3:
            whole = cellwise_covariance(self.G, float(strengths[0][0]))
            blocks = {terms[0]: whole}
        else:
            whole = dense_covariance(self.G, penalties, strengths)
            blocks = {c: whole[s, s].copy() for c, s in zip(terms, slices_of(penalties), strict=True)}
        right = _times(self.G, phi) + _times(self.H, _times(self.W, residual))
        return _times(whole, right), blocks


@dataclass(frozen=True, eq=False)
class ContrastWeighing:
    """W and G of terms with the same targets, one matrix over their cells for each of the k turned contrasts.

    Of every matrix the lower triangle counts.
    """

    basis: Floats
    H: tuple[Floats, ...]
    W: tuple[Floats, ...]
    G: tuple[Floats, ...]

    @classmethod
    def of(cls, information: ContrastInformation, noise: Floats) -> ContrastWeighing:
        """Weigh the information against the noise variance of every cell."""
        H = information.blocks
        if noise.max(initial=0.0) > CANCELS:
            parts = [Weighing.dense(symmetric(h), noise) for h in H]
            return cls(information.basis, H, tuple(p.W for p in parts), tuple(p.G for p in parts))
        W = tuple(_inverse(h, noise) for h in H)
        return cls(information.basis, H, W, tuple(_weigh(h, w, noise) for h, w in zip(H, W, strict=True)))

    def choose(
        self, residual: Floats, phi: Floats, penalties: Sequence[Penalty], strengths: Sequence[Floats]
    ) -> PenaltyChoice:
        """Penalties and effects, from HW(residual + Hφ)."""
        found = choose_by_contrast(self.G, self._right(residual, phi), penalties, strengths, ROUNDS)
        return replace(found, effects=self._back(found.effects))

    def follow(self, residual: Floats, phi: Floats, choice: PenaltyChoice) -> PenaltyChoice:
        """The effects, with penalties as chosen before."""
        effects = solve_by_contrast(choice.factors, self._right(residual, phi))
        return replace(choice, effects=self._back(effects))

    def square(self, residual: Floats) -> float:
        """Squared length of a residual, scaled by sampling and noise."""
        turned = self._turn(residual)
        return float(np.sum(turned * _each(self.W, turned)))

    def length(self, delta: Floats) -> float:
        """Squared length of a step, scaled by the information."""
        turned = self._turn(delta)
        return float(np.sum(turned * _each(self.G, turned)))

    def _right(self, residual: Floats, phi: Floats) -> Floats:
        return _each(self.H, _each(self.W, self._turn(residual) + _each(self.H, self._turn(phi))))

    def _turn(self, flat: Floats) -> Floats:
        """A flat vector of contrasts, as turned contrasts × cells."""
        return np.ascontiguousarray((flat.reshape(-1, len(self.basis)) @ self.basis).T)

    def _back(self, turned: Floats) -> Floats:
        """A flat vector of turned contrasts, as the contrasts that they were."""
        return np.asarray(turned.reshape(-1, len(self.basis)) @ self.basis.T).ravel()


def _weigh(H: Floats, W: Floats, noise: Floats) -> Floats:
    """H − V + VWV."""
    G = noise[:, None] * W * noise
    G += H
    G[np.diag_indices(len(H))] -= noise
    return np.asarray(G)


def _inverse(H: Floats, noise: Floats) -> Floats:
    """The lower triangle of (H + V)⁻¹."""
    total = np.array(H, order="F")
    total[np.diag_indices(len(H))] += noise
    factor, failed = scipy.linalg.lapack.dpotrf(total, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("information plus noise is not positive definite")
    return np.asarray(scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0])


def _each(matrices: Sequence[Floats], vectors: Floats) -> Floats:
    """Symmetric matrices, given by their lower triangles, times a vector each."""
    return np.stack([scipy.linalg.blas.dsymv(1.0, m, v, lower=1) for m, v in zip(matrices, vectors, strict=True)])


def _times(matrix: Floats, flat: Floats) -> Floats:
    """A matrix, or one block for each cell, times a flat vector."""
    if matrix.ndim == 2:
        return np.asarray(matrix @ flat)
    return np.asarray(matrix @ flat.reshape(len(matrix), -1, 1)).ravel()
