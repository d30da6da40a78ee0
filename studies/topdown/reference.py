"""The TopDown algorithm, for tables small enough to be held whole.

After Abowd et al., "The 2020 Census Disclosure Avoidance System TopDown Algorithm", Harvard Data Science Review, special
issue 2, 2022. Written for this study; no privacy is promised: noise comes from numpy.

In every place of every level its queries are measured with Gaussian noise: the budget in equal parts for the levels, and
within a level for each query and, with a tenth, the detailed histogram. Then, from all rows down: the histograms of the
places inside one place are the non-negative ones that fit their noisy queries best by weighted least squares and sum to the
histogram of the place (accelerated projected gradients; the projection is on simplices, one for each combination); they
are rounded by the linear programme that keeps sums, and errs least in the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from dipsmith.arrays import Floats, Ints
from dipsmith.estimation.simplex import project_within, round_within
from dipsmith.schema import Codes, Marginal
from dipsmith.schema.places import tree_of

DETAILED = 0.1
STEPS = 400


@dataclass(frozen=True, eq=False)
class Query:
    """A table of combinations: which cell each combination is in."""

    cells: Ints
    size: int

    def of(self, counts: Floats) -> Floats:
        """The table of places × combinations."""
        found = np.zeros((self.size, len(counts)))
        np.add.at(found, self.cells, counts.T)
        return found.T


def top_down(rows: Codes, tables: Sequence[tuple[str, ...]], rho: float, seed: int) -> tuple[tuple[str, ...], Ints]:
    """Counts of every tract (in the order of its codes) and combination of the queried columns, whole, and the columns."""
    random, places = np.random.default_rng(seed), tree_of(rows.schema)
    columns = tuple(n for n in rows.schema.names if any(n in t for t in tables))
    combinations = Marginal.of(rows.schema, columns)
    exact = np.zeros((places.sizes[-1], combinations.size))
    np.add.at(exact, (places.nodes[-1][rows[places.attribute.name]], combinations.index(rows)), 1)
    queries = [_query(combinations, t) for t in ((), *tables)]
    detailed = Query(np.arange(combinations.size), combinations.size)
    share = rho / len(places.sizes)
    each = [share * (1 - DETAILED) / len(queries)] * len(queries) + [share * DETAILED]
    # Under replace one row moves two counts of every table: Δ₂² = 2.
    sds = [sqrt(2 / (2 * r)) for r in each]
    truth = [exact]
    for parents in reversed(places.parents):
        above = np.zeros((int(parents.max()) + 1, combinations.size))
        np.add.at(above, parents, truth[0])
        truth.insert(0, above)
    asked = [*queries, detailed]
    counts = np.array([[0.0]])
    for level, true in enumerate(truth):
        noisy = [q.of(true) + random.normal(0, sd, (len(true), q.size)) for q, sd in zip(asked, sds, strict=True)]
        if level == 0:
            total = float(len(rows))  # public under replace
            fitted = _fit(np.full((1, combinations.size), total / combinations.size), noisy, asked, sds, None, total)
            counts = round_within(fitted[0], np.zeros(combinations.size, dtype=np.int64), [total])[None, :].astype(
                float
            )
            continue
        block = places.parents[level - 1]
        many = np.bincount(block)[block]
        fitted = _fit(counts[block] / many[:, None], noisy, asked, sds, (block, counts), 0.0)
        counts = _rounded(fitted, block, counts, queries)
    return columns, counts.astype(np.int64)[places.nodes[-1]]


def _query(combinations: Marginal, table: tuple[str, ...]) -> Query:
    codes = np.unravel_index(np.arange(combinations.size), combinations.shape)
    cells = np.zeros(combinations.size, dtype=np.int64)
    size = 1
    for name in table:
        n = combinations.schema[name].size
        cells, size = cells * n + codes[combinations.attributes.index(name)], size * n
    return Query(cells, size)


def _fit(
    start: Floats,
    noisy: Sequence[Floats],
    asked: Sequence[Query],
    sds: Sequence[float],
    above: tuple[Ints, Floats] | None,
    total: float,
) -> Floats:
    """Weighted least squares over non-negative histograms with the sums that they must have."""

    def gradient(x: Floats) -> Floats:
        found = np.zeros_like(x)
        for y, q, sd in zip(noisy, asked, sds, strict=True):
            found += ((q.of(x) - y) / sd**2)[:, q.cells]
        return found

    def onto(x: Floats) -> Floats:
        if above is None:
            return project_within(x[0], np.zeros(x.shape[1], dtype=np.int64), [total])[None, :]
        block, sums = above
        family = (block[:, None] * x.shape[1] + np.arange(x.shape[1])).ravel()
        return project_within(x.ravel(), family, sums.ravel()).reshape(x.shape)

    # The largest curvature: every query sums at most this many combinations into one cell.
    step = 1 / sum(np.bincount(q.cells).max() / sd**2 for q, sd in zip(asked, sds, strict=True))
    x = ahead = onto(start)
    t = 1.0
    for _ in range(STEPS):
        new = onto(ahead - step * gradient(ahead))
        t_new = (1 + sqrt(1 + 4 * t * t)) / 2
        ahead, x, t = new + (t - 1) / t_new * (new - x), new, t_new
    return x


def _rounded(x: Floats, block: Ints, above: Floats, queries: Sequence[Query]) -> Floats:
    """Whole histograms that sum to those above, by one linear programme for each place above."""
    whole = np.floor(x + 1e-9)
    for number in range(len(above)):
        inside = np.flatnonzero(block == number)
        part = x[inside] - whole[inside]
        short = above[number] - whole[inside].sum(axis=0)
        where = np.argwhere(part > 1e-9)
        if not len(where):
            continue
        cells = sparse.csr_array(
            (np.ones(len(where)), (where[:, 1], np.arange(len(where)))), shape=(x.shape[1], len(where))
        )
        blocks, goals = [], []
        for q in queries:
            row = where[:, 0] * q.size + q.cells[where[:, 1]]
            shape = (len(inside) * q.size, len(where))
            blocks.append(sparse.csr_array((np.ones(len(where)), (row, np.arange(len(where)))), shape=shape))
            goals.append(q.of(part).ravel())
        kept, goal = sparse.vstack(blocks), np.concatenate(goals)
        slack = sparse.eye_array(len(goal))
        fractions = part[where[:, 0], where[:, 1]]
        equal = sparse.vstack(
            [
                sparse.hstack([cells, sparse.csr_array((x.shape[1], 2 * len(goal)))]),
                sparse.hstack([kept, slack, -slack]),
            ]
        )
        cost = np.concatenate([1 - 2 * fractions, np.ones(2 * len(goal))])
        bounds = [(0, 1)] * len(where) + [(0, None)] * (2 * len(goal))
        found = linprog(cost, A_eq=equal, b_eq=np.concatenate([short, goal]), bounds=bounds, method="highs")
        wish = np.zeros(part.shape)
        wish[where[:, 0], where[:, 1]] = fractions if found.x is None else found.x[: len(where)]
        family = np.tile(np.arange(x.shape[1]), len(inside))
        whole[inside] += round_within(wish.ravel(), family, short.round()).reshape(part.shape)
    return whole


def rows_of(columns: tuple[str, ...], counts: Ints, place: str, sizes: Sequence[int]) -> dict[str, Ints]:
    """The counts as rows of places and columns."""
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    code, combination = np.divmod(cells, prod(sizes))
    return {place: code, **dict(zip(columns, np.unravel_index(combination, sizes), strict=True))}
