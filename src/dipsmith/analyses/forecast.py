"""What a planned analysis will cost and how precise it will be: a forecast from public facts alone.

Nothing is known of the labels before they are paid for. The forecast takes two labels to be equally frequent and of
several the reference to be most frequent and the others alike (`assumed_shares` says it), all to vary over groups by a
quarter, of which public columns explain another quarter, and to have an effect of three tenths of a residual's
standard deviation. What public columns explain is taken to be the same share of every combination of private ones, of
sex and of its products alike: were each product explained by itself, they would together be explained by more than all. Under these assumptions each table of sums adds a·σ² + b·σ⁴ to the variance of a coefficient, where σ is
its noise: the first through T and through V to first order, the second through the square of the noise in V. Shares of the
budget are chosen to make the sum of these, against the variance that the rows themselves have, as small as possible. Every
term counts alike, however many levels it has.

What is told of least squares is rehearsed: noise is drawn on such sums and goes through the estimate itself, with all that it
believes and refuses. The effect of a column is there what the column is worth where it is not 0: of a product of sex and age
three tenths at the usual age, and not for each year. How often labels occur is not public: of rarer labels noise will be larger, and of frequent ones
smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.analyses.design import Design, Float
from dipsmith.analyses.direct import estimate_from, is_logistic
from dipsmith.analyses.noisy_sums import Bought, NoisySums, Spread
from dipsmith.analyses.orthogonal import finite
from dipsmith.analyses.purchase import Purchase
from dipsmith.analyses.sum_table import SumTable
from dipsmith.analyses.sums import Layout
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.randomness import generator

TRIALS = 60
"""Draws by which the effect of each table's noise is found."""

VARIES, EXPLAINED, EFFECT = 0.25, 0.25, 0.3
"""What is taken to be so: by how much shares of labels vary over groups, how much of a label's variance public columns
explain, and the size of an effect against a residual's."""

AT_MOST = 0.3
"""How much of a label's variance public columns explain where an estimate is rehearsed."""

BEYOND = 3
"""Noise that is so many times the effect that a coefficient is taken to have hides any."""

REHEARSALS, REDRAWS = 7, 100
"""How often an estimate is rehearsed, and draws of the noise in each."""

ALIKE = 0.01
"""Coefficients whose sampling variances differ by less than this share are of labels that are taken to be alike."""

RARER = 0.55
"""How often one of several labels is taken to occur, against all alike: the others' rows have the reference."""

TINY = 1e-30

LEAST = 1e-3
"""The smallest share of a table."""

SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Shares of the whole budget that analyses may take."""

ENOUGH = 0.5
"""Analyses take no more once noise adds less than this to the variance of the rows themselves."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """How the noise of each table moves the coefficients of one design.

    `sampling` is the variance that the rows have by themselves. `score` is the effect of each table's noise on a
    coefficient through T; `first` and `second` are its effects on V, as a share of it, by the noise and by its square: tables ×
    coefficients. `effect` is the size that a coefficient is taken to have, `importance` its share of its term's.
    """

    layout: Layout
    names: tuple[str, ...]
    keys: tuple[str, ...]
    sampling: Float
    effect: Float
    importance: Float
    score: Float
    first: Float
    second: Float
    sums: Mapping[str, NoisySums]
    varied: Float

    @classmethod
    def of(cls, layout: Layout) -> Forecast:
        """Find out by drawing noise of standard deviation 1 on each table in turn."""
        world = _World.of(layout)
        random = generator(0)
        many = len(layout.tables)
        noise = {}
        for i, table in enumerate(layout.tables):
            sums = world.sums[table.key]
            drawn = np.zeros((many, TRIALS, *sums.values.shape))
            drawn[i] = sums.draw(random, TRIALS)
            noise[table.key] = drawn.reshape(many * TRIALS, *sums.values.shape)
        moved = world.effects(*layout.assemble(world.spread.apply(noise)))
        score, first, second = (part.reshape(many, TRIALS, -1).var(axis=1) for part in moved)
        keys = tuple(t.key for t in layout.tables)
        known = (world.sampling, world.effect, world.importance)
        return cls(layout, world.names, keys, *known, score, first, second, world.sums, world.varied)

    def noise(self, sds: Mapping[str, float]) -> Float:
        """The variance that noise adds to each coefficient, by the standard deviation of every table."""
        return self.noise_of(np.array([sds[key] ** 2 for key in self.keys]))

    def noise_of(self, variances: Float) -> Float:
        """The same by the variances of its own tables."""
        moved = variances @ self.first + variances**2 @ self.second
        return np.asarray(variances @ self.score + self.effect**2 * moved)

    def slope(self, variances: Float) -> Float:
        """How it grows with each of them: tables × coefficients."""
        return np.asarray(self.score + self.effect**2 * (self.first + 2 * variances[:, None] * self.second))

    def rehearse(self, sds: Mapping[str, float], laplace: bool) -> tuple[Float, NDArray[np.bool_]]:
        """The standard error by noise that each coefficient will be told with, and which will say nothing."""
        linear = np.sqrt(self.noise(sds))
        if not self.effect.any():  # odds and shares of labels: no V that noise could hide
            return linear, np.asarray(1.96 * linear > 10 * np.sqrt(self.sampling))
        private, found = len(self.effect), []
        effect = self.effect / _usual_sizes(self.layout.design)
        linear = np.sqrt(replace(self, effect=effect).noise(sds))
        for seed in range(REHEARSALS):
            random, sums = generator(seed), {}
            for key, expected in self.sums.items():
                one = replace(expected, sd=sds[key], laplace=laplace)
                sums[key] = replace(one, values=one.values + one.draw(random, 1)[0])
            told = estimate_from(
                self.layout, Bought.of(self.layout, sums), draws=REDRAWS, seed=seed, assumed=(self.varied, effect)
            )
            hidden = np.isnan(np.diag(told.covariance))
            found.append(np.where(hidden, np.inf, np.sqrt(np.diag(told.noise)))[-private:])
        # Coefficients of labels that are taken to be alike have the same forecast.
        alike = np.abs(np.log(self.sampling[:, None] / self.sampling)) < ALIKE
        usual = np.array([np.median(np.array(found)[:, same]) for same in alike])
        hopeless = ~np.isfinite(usual) | (1.96 * usual > BEYOND * effect)
        return np.where(np.isfinite(usual), usual, linear), np.asarray(hopeless)


@dataclass(frozen=True, eq=False)
class Split:
    """How a budget is shared among tables of sums: what each costs, and the noise that this buys."""

    purchases: tuple[Purchase, ...]
    budgets: tuple[Budget, ...]
    max_rows: int

    @property
    def sds(self) -> dict[str, float]:
        """The standard deviation of the noise of every table that a design needs, in its weight's unit."""
        found: dict[str, float] = {}
        for one, budget in zip(self.purchases, self.budgets, strict=True):
            table = one.table
            law = noise_for("label", self.max_rows, budget, single=table.is_single, heaviest=table.heaviest)
            found |= dict.fromkeys(one.keys, float(np.sqrt(law.variance)) * table.unit)
        return found


def split(forecasts: Sequence[Forecast], purchases: Sequence[Purchase], budget: Budget, max_rows: int) -> Split:
    """Share a budget among tables of sums so that noise adds as little as possible to what is wanted."""
    wanted = [_wanted_variance(f) for f in forecasts]
    scales = np.array([_scale(one.table, budget, max_rows) for one in purchases])
    power = 1.0 if isinstance(budget, PureDP) else 0.5

    bought = {key: i for i, one in enumerate(purchases) for key in one.keys}
    at = [[bought[key] for key in f.keys] for f in forecasts]

    def loss(logs: Float) -> tuple[float, Float]:
        """What is added, and its gradient."""
        shares = _shares(logs)
        variances = (scales / shares**power) ** 2
        whole, slope = 0.0, np.zeros(len(shares))
        for f, i, own in zip(forecasts, at, wanted, strict=True):
            noise = f.noise_of(variances[i])
            whole += float(np.log1p(noise / own) @ f.importance)
            np.add.at(slope, i, f.slope(variances[i]) @ (f.importance / (own + noise)))
        slope *= -2 * power * variances / shares
        free = shares - LEAST / (1 + LEAST * len(shares))
        return whole, free * slope - free * (free @ slope) * (1 + LEAST * len(shares))

    start = np.log([_cells(one.table) ** (1 / 3) for one in purchases])
    logs = start
    if len(purchases) > 1:
        logs = scipy.optimize.minimize(
            loss, start - start.mean(), method="L-BFGS-B", jac=True, options={"maxiter": 40}
        ).x
    weights = [Fraction(int(1e6 * share) + 1) for share in _shares(logs)]
    return Split(tuple(purchases), tuple(budget.split(weights)), max_rows)


def choose_share(forecasts: Sequence[Forecast], purchases: Sequence[Purchase], budget: Budget, max_rows: int) -> float:
    """The share of the whole budget that analyses need: as little as gives what is wanted, half of it at most."""
    if not purchases:
        return SHARES[0]
    typical = split(forecasts, purchases, _part(budget, SHARES[2]), max_rows)
    weights = [b.exact for b in typical.budgets]
    for share in SHARES:
        sds = Split(tuple(purchases), tuple(_part(budget, share).split(weights)), max_rows).sds
        if all(bool((f.noise(sds) <= _enough(f)).all()) for f in forecasts):
            return share
    return SHARES[-1]


def _part(budget: Budget, share: float) -> Budget:
    return budget.split([share, 1 - share])[0]


def _wanted_variance(forecast: Forecast) -> Float:
    """The variance against which noise is weighed."""
    width = forecast.layout.design.analysis.width
    # A constant response has no variance of its own.
    own = np.maximum(forecast.sampling, TINY)
    return own if width is None else np.full_like(own, (width / 3.92) ** 2)


def _enough(forecast: Forecast) -> Float:
    """The variance that noise may add."""
    width = forecast.layout.design.analysis.width
    if width is None:
        return ENOUGH * forecast.sampling
    return np.maximum((width / 3.92) ** 2 - forecast.sampling, 0.02 * forecast.sampling)


def _shares(logs: Float) -> Float:
    shares = np.exp(logs - logs.max())
    shares = shares / shares.sum() + LEAST
    return np.asarray(shares / shares.sum())


def _scale(table: SumTable, budget: Budget, max_rows: int) -> float:
    """The noise of a table that costs the whole budget; it grows as the share shrinks, by the law's power."""
    moved = max_rows * table.heaviest * table.unit * (1 if table.is_single else 2)
    if isinstance(budget, PureDP):
        return float(np.sqrt(2) * moved / budget.exact)
    return float(moved / np.sqrt((2 if table.is_single else 4) * float(budget.exact)))


def _cells(table: SumTable) -> float:
    return float(table.size * table.label_cells)


@dataclass(frozen=True, eq=False)
class _World:
    """Labels as the forecast takes them to be, and what noise does to coefficients in that world."""

    layout: Layout
    names: tuple[str, ...]
    importance: Float
    sums: Mapping[str, NoisySums]
    spread: Spread
    A: Float
    inverse: Float
    sampling: Float
    effect: Float
    varied: Float

    @classmethod
    def of(cls, layout: Layout) -> _World:
        d = layout.design
        sums = {}
        for t in layout.tables:
            expected = layout.totals(t)[:, None] * _labels_believed(d, t.labels)[None, :]
            sums[t.key] = NoisySums(t, expected, 1.0, np.ones(t.size), True, t.is_single)
        A, N, _ = (part[0] for part in layout.assemble({k: s.values[None] for k, s in sums.items()}))
        W, rows = N - A.T @ layout.inverse.times(A), max(d.rows, 1.0)
        spread = Spread.of(layout, sums)
        if d.response is not None and not d.terms:
            names, importance = _weigh_terms([b.names for b in d.blocks if b.name[0] != "|"])
            share = W[-1, -1] / rows
            # Of odds the information is Z′Z·p(1 − p), less where columns explain them; a share has that variance itself.
            odds = (1 - EXPLAINED) * share
            inverse = layout.back @ layout.told_inverse / (odds if is_logistic(layout) else 1.0)
            own = np.diag(layout.back @ layout.told_inverse[:, layout.reported_columns] @ layout.back.T)
            sampling = own * (1 / odds if is_logistic(layout) else share)
            return cls(layout, names, importance, sums, spread, A, inverse, sampling, np.zeros(len(names)), A)
        q = sum(len(t.names) for t in d.terms)
        V = (1 - EXPLAINED) * W[:q, :q] + 1e-9 * np.trace(W[:q, :q]) / q * np.eye(q)
        size = np.sqrt(layout.gram.diagonal)
        reach = (
            np.minimum(size**2, size * np.sqrt(rows))[:, None] * np.sqrt(np.maximum(np.diag(W), 0.0) / rows)[None, :]
        )
        varying = VARIES * reach * generator(1).standard_normal(A.shape)
        square = (W[-1, -1] if d.y is None else layout.square) / rows
        effect = EFFECT * np.sqrt(square) * np.ones(q)
        names, importance = _weigh_terms([t.names for t in d.terms])
        inverse = np.linalg.inv(V)
        varied = _explain(layout, varying, A, W)
        return cls(layout, names, importance, sums, spread, varying, inverse, square * np.diag(inverse), effect, varied)

    def effects(self, E: Float, EN: Float, ET: Float) -> tuple[Float, Float, Float]:
        """By how much noise moves each coefficient through T, and V as a share of it, by itself and by its square."""
        d = self.layout.design
        if d.response is not None and not d.terms:
            none = np.zeros((len(E), len(self.names)))
            return E[:, :, -1] @ self.inverse.T, none, none
        q, G = len(self.effect), self.layout.inverse
        first = G.times(self.A).T @ E
        moved = EN - first - first.transpose(0, 2, 1)
        squared = np.einsum("dpk,dpk->dk", E, G.each_times(E))[:, :q]
        score = (ET if d.y is not None else moved[:, :q, q]) @ self.inverse
        size = 1 / np.diag(self.inverse)
        return score, np.einsum("dkk->dk", moved[:, :q, :q]) / size, squared / size


def _explain(layout: Layout, varying: Float, A: Float, W: Float) -> Float:
    """Sums by which public columns explain private ones, and nothing of how often these occur, in all or in a group.

    Of a label that every second row has they explain `AT_MOST`, of rarer ones less: what makes one rare is seldom public.
    W = N − A′GA is what A leaves of private columns. Directions R beside A, with R′GR = 1, times the root of W explain no
    more of any combination of them.
    """
    G = layout.inverse
    whole = float(np.einsum("pk,pk->", varying, G.times(varying)))
    beside = varying - A @ np.linalg.pinv(A.T @ G.times(A), rcond=1e-9, hermitian=True) @ (A.T @ G.times(varying))
    squares, along = np.linalg.eigh(beside.T @ G.times(beside))
    free = squares > TINY + 1e-9 * whole
    R = beside @ (along[:, free] / np.sqrt(squares[free])) @ along[:, free].T
    values, vectors = np.linalg.eigh(W)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    share = AT_MOST * np.minimum(4 * np.diag(W) / max(layout.design.rows, 1.0), 1.0)
    return np.asarray((R * np.sqrt(np.maximum(share, 0.0))) @ root)


def _usual_sizes(design: Design) -> Float:
    """What the columns of private terms are worth where they are not 0: the root of the mean square; 1 for labels."""
    found = []
    for term in design.terms:
        weight = np.ones(1) if term.weight is None else finite(term.weight)
        often = np.ones(1) if term.weight is None else design.often
        found += [_usual_size(weight, often) * _usual_size(h, np.ones(h.shape)) for h in term.on_label]
    return np.array(found)


def _usual_size(numbers: Float, often: Float) -> float:
    rows = float(often[numbers != 0].sum())
    return float(np.sqrt((often * numbers**2).sum() / rows)) if rows > 0 else 1.0


def _weigh_terms(terms: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], Float]:
    """The coefficients of some terms, and what each counts: all terms alike."""
    names = tuple(name for term in terms for name in term)
    return names, np.array([1 / len(term) for term in terms for _ in term], np.float64)


def _labels_believed(design: Design, labels: Sequence[str]) -> Float:
    """How often each combination of labels is taken to occur: of several, the reference more often than the others."""
    found = np.ones(1)
    for name in labels:
        size = design.sizes[name]
        shares = np.full(size, (1 if size == 2 else RARER) / size)
        shares[_reference(design, name)] += 1 - shares.sum()
        found = np.outer(found, shares).ravel()
    return found


def assumed_shares(design: Design) -> tuple[str, ...]:
    """In words, how often the labels of private terms are taken to occur, where there are more than two."""
    found = []
    for name in dict.fromkeys(
        t.labels[0] for t in design.terms if len(t.labels) == 1 and design.sizes[t.labels[0]] > 2
    ):
        if levels := design.levels.get(name):
            found.append(
                f"{name}: nothing is known of its labels yet; {levels[0]}, with which others are compared, is taken to be the most "
                f"frequent, and each other to have {RARER / design.sizes[name]:.0%} of the rows; of one with half as many the interval "
                "is about twice as wide, or it is not told; beside a rare reference all are wide"
            )
    return tuple(found)


def _reference(design: Design, name: str) -> int:
    """The label that others of its column are compared with: the one that has no coefficient."""
    without = [~t.on_label.any(axis=0) for t in design.terms if t.labels == (name,)]
    return int(np.argmax(without[0])) if without else 0
