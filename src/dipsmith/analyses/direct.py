"""Direct estimates: a regression's coefficients from noisy sums, with an interval that knows the noise.

By Frisch, Waugh and Lovell the coefficients of private columns S beside public ones Z are β = V⁻¹T with V = S′MS =
N − A′(Z′Z)⁻¹A and T = S′My. N, A and T are linear in the private rows and were measured with noise of known law;
(Z′Z)⁻¹ is public. The noise E on A makes A′(Z′Z)⁻¹A too large by E[E′(Z′Z)⁻¹E] on average, which is known and taken
off. Then β̂ = V̂⁻¹T̂, and its variance is that of sampling, σ̂²(X′X)⁻¹, plus that of the noise, found by drawing the
noise again a thousand times through the same equations, to first order: V⁻¹(e − Fβ̂) with noise e on T̂ and F on V̂.

The odds of a private label given public columns need Z′y alone, the sufficient statistics of a logistic regression.

Privacy
-------
Reads noisy sums and public rows: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.analyses.bin_doubt import BELIEVED, Z95, ColumnDoubt, Refusal, Values, binned_numbers, widening
from dipsmith.analyses.design import Float
from dipsmith.analyses.noisy_sums import Bought, NoisySums
from dipsmith.analyses.prior import Prior
from dipsmith.analyses.share_errors import is_yes_or_no, sampling_of_shares
from dipsmith.analyses.sums import Layout
from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import generator
from dipsmith.regression.least_squares import independent

DRAWS, DECIDE = 1000, 100
"""Draws of the noise: its standard deviation is then known to 3 %. The first of them decide which coefficients are told, so
that who only wants to know that draws no more."""

FEW_DRAWS = 40
"""Draws for the bias of products of noise alone, where coefficients are wanted without intervals."""

TWO_THIRDS = 2 / 3
"""The share of a variance that the noise of what was measured adds to it, at most."""

TAILS = (1.96**2 - 3) / 12
"""An excess kurtosis κ of the whole moves its 97.5 % point by κ(z³ − 3z)/24 (Cornish and Fisher 1938); of a noise that has
a share of the variance, the whole has κ times the square of that share."""

AT_A_TIME = 4_000_000
"""Numbers of one batch of draws."""


@dataclass(frozen=True, eq=False)
class DirectEstimate:
    """Coefficients, their covariance, and the part of it that is noise; NaN where a column was not told apart."""

    names: tuple[str, ...]
    values: Float
    covariance: Float
    noise: Float
    sigma: float
    df: float
    rows: int
    private: int
    notes: tuple[str, ...] = ()
    doubt: Float | None = None
    refusal: Refusal | None = None

    def with_doubts(self, doubts: Sequence[ColumnDoubt]) -> DirectEstimate:
        """With intervals that allow for bins, or told nothing where the doubt is too large."""
        errors = np.sqrt(np.diag(self.covariance))
        sampling = np.sqrt(np.maximum(np.diag(self.covariance - self.noise), 0.0))
        # By Cauchy and Schwarz: σ²·(X′X)⁻¹ is the sampling variance.
        leverage = sampling * sqrt(max(self.rows, 0)) / self.sigma if self.sigma > 0 else np.full_like(errors, np.inf)
        factor, notes, refusal = widening(self.names, errors, [d.cap(leverage) for d in doubts])
        if refusal is not None:
            nothing = np.full_like(self.covariance, np.nan)
            return replace(self, covariance=nothing, refusal=refusal)
        wider = self.covariance * np.outer(factor, factor)
        return replace(self, covariance=wider, doubt=(factor - 1) * errors, notes=(*self.notes, *notes))


class KnownSums(Protocol):
    """Noisy sums of every table of a layout, by the tables' keys: draws × groups × labels."""

    def measured_sums(self) -> dict[str, Float]:
        """The sums as they were measured: one draw."""

    def redraw(self, random: np.random.Generator, draws: int) -> dict[str, Float]:
        """Their noise again."""


def estimate(layout: Layout, sums: Mapping[str, NoisySums], *, draws: int = DRAWS, seed: int = 0) -> DirectEstimate:
    """Estimate the coefficients of a design from the sums that were bought for it."""
    return estimate_from(layout, Bought.of(layout, sums), draws=draws, seed=seed)


def estimate_from(
    layout: Layout,
    sums: KnownSums,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    assumed: tuple[Float, Float] | None = None,
) -> DirectEstimate:
    """Estimate the coefficients of a design from noisy sums, wherever they come from.

    A forecast has sums of labels that depend on nothing, and says what is `assumed` of them: what to add to A, and effects.
    """
    found = _solve(layout, sums, draws, seed, assumed)
    return found if assumed is not None else found.with_doubts(_doubts(layout, sums, seed))


def _doubts(layout: Layout, sums: KnownSums, seed: int) -> tuple[ColumnDoubt, ...]:
    """How far coefficients may be off because private numbers are known in bins."""

    def solve(*placements: Values) -> Float:
        each = [_solve(layout.with_values(values), sums, FEW_DRAWS, seed).values for values in placements or ({},)]
        return np.asarray(np.mean(each, axis=0))

    numbers = binned_numbers(layout.design.formula, layout.design.maker.schema)
    middles = solve() if numbers else np.zeros(0)
    response = layout.design.formula.response_column
    return tuple(b.doubt(solve, middles, np.zeros(0), 1.0, response=b.name == response) for b in numbers)


def _solve(
    layout: Layout, sums: KnownSums, draws: int, seed: int, assumed: tuple[Float, Float] | None = None
) -> DirectEstimate:
    agreed = sums.measured_sums()
    random = generator(seed)
    if is_logistic(layout):
        return _logistic(layout, sums, layout.assemble(agreed)[0][0][:, -1], draws, random)
    A, N, T = (part[0] for part in layout.assemble(agreed))
    G = layout.inverse
    if assumed is not None:
        A = A + assumed[0]
        if layout.design.y is not None:
            T = T + (N - A.T @ G.times(A)) @ assumed[1]
    noise = _Noise.of(layout, A, _draws(layout, sums, draws, random))
    W = N - A.T @ G.times(A) + noise.bias
    q = sum(len(t.names) for t in layout.design.terms)
    prior = Prior.of(layout, agreed, noise.moved[:, :q, :q], noise.twice[:, :q, :q])
    some = slice(DECIDE), slice(q), slice(q)
    first = prior if draws <= DECIDE else Prior.of(layout, agreed, noise.moved[some], noise.twice[some])
    own = np.arange(q)
    absent = (W[own, own] == 0) & ~noise.moved[:, own, own].any(axis=0)
    solution = _Solution.of(layout, A, W, T, prior.shrink(W[:q, :q]), first.swamped, absent)
    return solution.result(*solution.scatter(noise, prior, random))


def is_logistic(layout: Layout) -> bool:
    """Whether odds are wanted: the model says so, or the response is a private label that occurs or not."""
    model, response = layout.design.analysis.model, layout.design.response
    if response is None or model == "ols":
        return False
    binary = is_yes_or_no(response.on_label)
    if model == "logistic" and not (binary and not layout.design.terms):
        raise UsageError(
            f"analysis '{layout.design.formula.text}': the odds of a private label are planned given public columns alone; "
            "use model: ols, or leave private columns out on the right"
        )
    return binary and not layout.design.terms


@dataclass(frozen=True, eq=False)
class _Noise:
    """Noise drawn again, draws first, and what it does to W = N − A′GA.

    `moved` is by how much it moves W from what was measured: by N, by A′GE to first order and by E′GE, whose mean is the
    `bias`. What was measured of A has noise of its own, so that its A′GE scatters more than the truth's, by as much as
    `twice` does: E′GE′ of two independent draws.
    """

    N: Float
    T: Float
    public: Float
    moved: Float
    twice: Float
    bias: Float

    @classmethod
    def of(cls, layout: Layout, A: Float, drawn: Iterator[tuple[Float, Float, Float]]) -> _Noise:
        """Of noise on A, N and T in batches; only what is small is kept of A."""
        G, kept = layout.inverse, []
        GA = G.times(A)
        for E, N, T in drawn:
            GE = G.each_times(E)
            first, twice = GA.T @ E, np.roll(GE, 1, axis=0).transpose(0, 2, 1) @ E
            square = E.transpose(0, 2, 1) @ GE
            sides = (part + part.transpose(0, 2, 1) for part in (first, twice))
            kept.append((N, T, layout.told_inverse @ E, *sides, square))
        N, T, public, first, twice, square = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        bias = square.mean(axis=0)
        return cls(N, T, public, N - first - square + bias, twice, bias)


@dataclass(frozen=True, eq=False)
class _Solution:
    """The algebra of one least-squares fit, for the sums that were measured and for sums with noise drawn again.

    Coefficients that noise hides (`swamped`) are not told, and taken to be no larger than a residual's standard deviation:
    else those that are told would share all of their noise. Nor are public ones that they may move, and those of groups
    that publicly have no row (`absent`).
    """

    layout: Layout
    A: Float
    V: Float
    T: Float
    square: float
    cross: Float
    beta: Float
    swamped: NDArray[np.bool_]
    absent: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        layout: Layout,
        A: Float,
        W: Float,
        T: Float,
        V: Float,
        swamped: NDArray[np.bool_],
        absent: NDArray[np.bool_],
    ) -> _Solution:
        q = len(V)
        if layout.design.response is not None:
            T, square, cross = W[:q, q], float(W[q, q]), A[:, q]
        else:
            square, cross = layout.square, layout.public_cross
        beta = np.asarray(np.linalg.solve(V, T) if q else np.zeros(0))
        found = cls(layout, A[:, :q], V, T, square, cross, beta, swamped, absent)
        return replace(found, beta=found.limit(beta))

    def limit(self, beta: Float) -> Float:
        """The coefficients, once those that are swamped are kept small."""
        return self._beside(self._small(beta), self.T) if self.swamped.any() else beta

    def _small(self, beta: Float) -> Float:
        """No larger than a residual's standard deviation."""
        most = np.sqrt(max(self.square, 0.0) / max(self.layout.design.rows, 1.0))
        return np.clip(beta, -most, most)

    def _beside(self, values: Float, score: Float) -> Float:
        """V⁻¹T of the coefficients that are told, with given values of those that are swamped; one or many draws."""
        loose = self.swamped
        found = np.where(loose, values, 0.0)
        if not loose.all():
            left = (score - found @ self.V)[..., ~loose]
            found[..., ~loose] = np.linalg.solve(self.V[np.ix_(~loose, ~loose)], left.T).T
        return found

    @property
    def whole(self) -> Float:
        """The coefficients of the reported public columns, then of the private ones."""
        return np.concatenate([self.layout.told_inverse @ (self.cross - self.A @ self.beta), self.beta])

    def scatter(self, noise: _Noise, prior: Prior, random: np.random.Generator) -> tuple[Float, Float]:
        """The covariance by noise of all coefficients, to first order: V⁻¹(e − Fβ) with noise e on T and F on V; its kurtosis.

        What noise in A itself adds to the first order is taken off: at most two thirds, which is what it makes of a term that
        is nothing but noise (of E′GE + A′GE + E′GA, with A = E, variances are 2 and 4).
        """
        q = len(self.beta)
        score, moved, again = noise.T, prior.redraw(noise.moved[:, :q, :q], random), np.zeros_like(noise.T)
        public, cross = noise.public[:, :, :q], np.zeros(1)
        if self.layout.design.response is not None:
            score, again, cross = noise.moved[:, :q, q], noise.twice[:, :q, q], noise.public[:, :, q]
        told = self._shift(score, moved, cross - public @ self.beta)
        extra = self._shift(again, prior.weigh(noise.twice[:, :q, :q]), 0.0)
        whole, known = (np.atleast_2d(np.cov(part, rowvar=False)) for part in (told, extra))
        values, vectors = np.linalg.eigh(whole)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        inverse = np.linalg.pinv(root)
        shares, along = np.linalg.eigh(inverse @ known @ inverse.T)
        root = root @ along * np.sqrt(1 - np.minimum(shares, TWO_THIRDS))
        return np.asarray(root @ root.T), _excess(told)

    def _shift(self, score: Float, V: Float, public: Float | float) -> Float:
        """By how much coefficients move with T and V; `public` is by how much those of public columns move by themselves."""
        moved = score - (V @ self.beta[:, None])[..., 0]
        beta = np.linalg.solve(self.V, moved.T).T
        if self.swamped.any():
            beta = self._beside(self._small(self.beta + beta) - self.beta, moved)
        return np.concatenate([public - beta @ (self.layout.told_inverse @ self.A).T, beta], axis=1)

    def result(self, scattered: Float, kurtosis: Float) -> DirectEstimate:
        """The estimate of the reported coefficients: those of terms, not of fixed effects."""
        layout, q = self.layout, len(self.beta)
        df = max(layout.design.rows - layout.inverse.rank - q, 1.0)
        sigma2 = max((self.square - float(self.T @ self.beta)) / df, 0.0)
        inverse = np.linalg.inv(self.V) if q else np.zeros((0, 0))
        GA, G = layout.told_inverse @ self.A, layout.told_inverse[:, layout.reported_columns]
        sampling = np.block([[G + GA @ inverse @ GA.T, -GA @ inverse], [-inverse @ GA.T, inverse]]) * sigma2
        if q == 0 and layout.design.response is not None and is_yes_or_no(layout.design.response.on_label):
            sampling = sampling_of_shares(layout, self.cross)
        variance = np.diag(sampling + scattered)
        share = np.divide(np.diag(scattered), variance, out=np.zeros_like(variance), where=variance > 0)
        tails = np.sqrt(1 + TAILS * kurtosis * share)
        scattered = scattered * np.outer(tails, tails)
        notes: tuple[str, ...] = ()
        if self.swamped.any():
            notes = ("Not told: what noise hides at this budget; ask for a larger one, or for coarser labels.",)
        if self.absent.any():
            notes = (*notes, "Not told: products with a group that no row has.")
        # Public coefficients are what is left once the private ones are taken off: these may move them.
        loose = np.where(self.swamped, self._small(np.full(q, np.inf)), 0.0)
        moved = np.concatenate([np.abs(layout.back @ GA) @ loose, np.where(self.swamped | self.absent, np.inf, 0.0)])
        return _report(layout, self.whole, sampling + scattered, scattered, float(np.sqrt(sigma2)), df, q, notes, moved)


def _excess(draws: Float) -> Float:
    """The excess kurtosis of every column, between that of a normal variable and twice that of Laplace's."""
    off, sd = draws - draws.mean(axis=0), draws.std(axis=0)
    standard = np.divide(off, sd, out=np.zeros_like(off), where=sd > 1e-100)
    return np.asarray(np.clip((standard**4).mean(axis=0) - 3, 0.0, 6.0))


def _report(
    layout: Layout,
    values: Float,
    covariance: Float,
    noise: Float,
    sigma: float,
    df: float,
    q: int,
    notes: tuple[str, ...],
    moved: Float | float = 0.0,
) -> DirectEstimate:
    """Coefficients under the formula's names, as much wider as those that are not told may have `moved` them, or not told."""
    design = layout.design
    names = [n for b in design.blocks if b.name[0] != "|" for n in b.names]
    names += [n for t in design.terms for n in t.names][:q]
    back, size = np.eye(len(values)), len(layout.back)
    back[:size, :size] = layout.back
    hidden = np.isnan(np.diag(covariance))
    values = back @ values
    covariance, noise = (back @ np.nan_to_num(part, nan=0.0) @ back.T for part in (covariance, noise))
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    hidden |= moved > BELIEVED * errors
    factor = 1 + np.where(hidden, 0.0, moved) / np.where(errors > 0, errors, np.inf) / Z95
    covariance *= np.outer(factor, factor)
    covariance[hidden, :] = covariance[:, hidden] = np.nan
    return DirectEstimate(tuple(names), values, covariance, noise, sigma, df, int(design.rows), q, notes)


def _logistic(layout: Layout, sums: KnownSums, goal: Float, draws: int, random: np.random.Generator) -> DirectEstimate:
    """The odds of a private label given public columns: Z′μ(β) = Z′y, solved by Newton's method on the public rows."""
    Z, often = layout.run_columns, layout.run_often
    keep = independent(Z.gram(often))
    kept = np.ix_(keep, keep)
    beta = np.zeros(len(keep))
    information = np.eye(len(keep))
    step = np.zeros(len(keep))
    for _ in range(60):
        whole = np.zeros(Z.width)
        whole[keep] = beta
        mu = 1 / (1 + np.exp(-np.clip(Z.times(whole), -30, 30)))
        information = Z.gram(often * mu * (1 - mu))[kept]
        ridge = 1e-9 * np.diag(np.maximum(np.diag(information), 1e-9))
        step = scipy.linalg.solve(information + ridge, (goal - Z.cross(often * mu))[keep], assume_a="pos")
        beta = beta + step / max(1.0, float(np.abs(step).max(initial=0.0)) / 2)
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    notes: list[str] = []
    inverse = scipy.linalg.pinvh(information)
    again = _draws(layout, sums, draws, random)
    noise = np.cov(np.concatenate([E[:, keep, -1] for E, _, _ in again]), rowvar=False)
    scattered = inverse @ np.atleast_2d(noise) @ inverse
    if not np.isfinite(beta).all() or np.abs(beta).max(initial=0) > 15 or np.abs(step).max(initial=0) > 1e-4:
        scattered = np.full(inverse.shape, np.nan)
        notes.append("Too noisy at this budget: no odds fit the noisy sums.")
    values = np.zeros(Z.width)
    cov, part = np.full((Z.width, Z.width), np.nan), np.full((Z.width, Z.width), np.nan)
    values[keep], cov[kept], part[kept] = beta, inverse + scattered, scattered
    told = np.ix_(layout.reported_columns, layout.reported_columns)
    df = max(layout.design.rows - len(keep), 1.0)
    return _report(layout, values[layout.reported_columns], cov[told], part[told], 1.0, df, 0, tuple(notes))


def _draws(
    layout: Layout, sums: KnownSums, draws: int, random: np.random.Generator
) -> Iterator[tuple[Float, Float, Float]]:
    """Noise on A, N and T, drawn again in batches."""
    numbers = sum(t.size * t.label_cells for t in layout.tables)
    for some in batches(draws, layout.run_columns.width * len(layout.columns) + numbers):
        yield layout.assemble(sums.redraw(random, some))


def batches(draws: int, numbers: int) -> Iterator[int]:
    """How many draws of so many numbers are made at a time: first those that decide."""
    some = min(draws, DECIDE)
    while some:
        yield some
        draws -= some
        some = min(draws, max(1, AT_A_TIME // max(numbers, 1)))
