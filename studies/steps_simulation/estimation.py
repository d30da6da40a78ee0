"""From sanitised tables to coefficients: rows are drawn, the true model is fitted, m sets are combined.

Rows are never made. A table's synthetic rows are a multinomial draw of its cells with y uniform within its
bin, and least squares needs of them only the counts and the sums of y and y² in the 120 cells of the
predictors.

m sets are combined as in Liu (2016, arXiv 1602.01063): T = ū + B/m with t_ν, ν = (m − 1)(1 + m·ū/B)².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from dipsmith.examples import regression

Float = NDArray[np.float64]

RIDGE = 1.0
"""Penalty of Model 2."""
CELLS = 120
TEST_ROWS = 100


@dataclass(frozen=True)
class Moments:
    """Rows, sum of y in each cell of the predictors, and the sum of y² of a table; stacked."""

    rows: Float
    sums: Float
    squares: Float


def simulate(model: regression.Model, rows: int, repeats: int, rng: np.random.Generator) -> tuple[Float, Moments]:
    """True tables (repeats, 2, 3, 4, 5, 15), and the moments of the continuous data behind them."""
    truth = regression.truth(model)
    cell = rng.integers(0, CELLS, (repeats, rows))
    y = truth.means[cell] + rng.standard_normal((repeats, rows))
    width = (regression.HIGHEST - regression.LOWEST) / regression.BINS
    bins = np.clip(np.floor((y - regression.LOWEST) / width), 0, regression.BINS - 1).astype(np.int64)
    place = np.arange(repeats)[:, None] * CELLS + cell
    tables = np.bincount((place * regression.BINS + bins).ravel(), minlength=repeats * CELLS * regression.BINS)
    counts = np.bincount(place.ravel(), minlength=repeats * CELLS).reshape(repeats, CELLS)
    sums = np.bincount(place.ravel(), y.ravel(), repeats * CELLS).reshape(repeats, CELLS)
    exact = Moments(counts.astype(np.float64), sums, (y**2).sum(axis=1))
    return tables.reshape(repeats, 2, 3, 4, 5, 15).astype(np.float64), exact


def draw_rows(tables: Float, rows: int, rng: np.random.Generator) -> Moments:
    """The moments of `rows` rows drawn from each table, y uniform within its bin."""
    weights = tables.reshape(len(tables), -1)
    counts = rng.multinomial(rows, weights / weights.sum(axis=1, keepdims=True))
    return moments(counts.reshape(len(tables), CELLS, regression.BINS), rng)


def moments(counts: NDArray[np.int64], rng: np.random.Generator) -> Moments:
    """The moments of rows with these counts of cells and bins, y uniform within its bin."""
    width = (regression.HIGHEST - regression.LOWEST) / regression.BINS
    flat = counts.ravel()
    total = int(flat.sum())
    place = np.repeat(np.arange(flat.size), flat)
    y = rng.random(total)
    y += place % regression.BINS
    y *= width
    y += regression.LOWEST
    cells = place // regression.BINS
    sums = np.bincount(cells, y, counts.shape[0] * CELLS).reshape(-1, CELLS)
    y *= y
    squares = np.bincount(cells // CELLS, y, counts.shape[0])
    return Moments(counts.sum(axis=-1).astype(np.float64), sums, squares)


def fit(model: regression.Model, of: Moments) -> tuple[Float, Float]:
    """Coefficients and their variances: least squares with ten dummies, or ridge with 120 cell means."""
    n = of.rows.sum(axis=1)
    if model == 2:
        beta = of.sums / (of.rows + RIDGE)
        freedom = (of.rows / (of.rows + RIDGE)).sum(axis=1)
        left = of.squares - 2 * (beta * of.sums).sum(axis=1) + (beta**2 * of.rows).sum(axis=1)
        return beta, (left / (n - freedom))[:, None] * of.rows / (of.rows + RIDGE) ** 2
    design = regression.design()
    gram = np.einsum("rx,xi,xj->rij", of.rows, design, design, optimize=True)
    # A level that no synthetic row has leaves the gram matrix singular; the paper's software drops it.
    inverse = np.linalg.pinv(gram, hermitian=True)
    moment = of.sums @ design
    beta = np.einsum("rij,rj->ri", inverse, moment)
    left = of.squares - (beta * moment).sum(axis=1)
    return beta, (left / (n - design.shape[1]))[:, None] * np.einsum("rii->ri", inverse)


@dataclass(frozen=True, eq=False)
class Quality:
    """Bias, root mean squared error and coverage of every coefficient, and the prediction error."""

    biases: Float
    errors: Float
    coverages: Float
    prediction: float

    @property
    def bias(self) -> float:
        """The mean |bias|."""
        return float(np.abs(self.biases).mean())

    @property
    def rmse(self) -> float:
        """The mean root mean squared error."""
        return float(self.errors.mean())

    @property
    def coverage(self) -> float:
        """The mean coverage."""
        return float(self.coverages.mean())


def quality(model: regression.Model, estimates: Float, variances: Float, rng: np.random.Generator) -> Quality:
    """How good the combined estimates of many repeats are; arrays are (sets, repeats, coefficients)."""
    truth = regression.truth(model)
    m, repeats = estimates.shape[:2]
    mean, within = estimates.mean(axis=0), variances.mean(axis=0)
    if m == 1:
        half = 1.959963984540054 * np.sqrt(within)
    else:
        between = np.maximum(estimates.var(axis=0, ddof=1), 1e-300)
        freedom = (m - 1) * (1 + m * within / between) ** 2
        half = student.ppf(0.975, np.minimum(freedom, 1e6)) * np.sqrt(within + between / m)
    error = mean - truth.coefficients
    cell = rng.integers(0, CELLS, (repeats, TEST_ROWS))
    y = truth.means[cell] + rng.standard_normal(cell.shape)
    fitted = mean @ regression.design().T if model == 1 else mean
    predicted = np.take_along_axis(fitted, cell, axis=1)
    return Quality(
        biases=error.mean(axis=0),
        errors=np.sqrt((error**2).mean(axis=0)),
        coverages=(np.abs(error) <= half).mean(axis=0),
        prediction=float(((y - predicted) ** 2).mean()),
    )
