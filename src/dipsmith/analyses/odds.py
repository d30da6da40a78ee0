"""Odds from a measured table: logistic regression of whole rows, with an interval that knows the noise.

A logistic regression is not determined by tables of pairs, but it is by one table that holds all of its columns. With n
the counts of its cells, maximum likelihood solves U(β) = X′n(y − p(Xβ)) = 0, which is linear in the counts: with noisy
counts in their place, negative ones too, the equation still has mean 0 at the truth. So β̂ solves it with the noisy table
as it was measured, and its variance is that of sampling, J⁻¹ with J = X′np(1 − p)X, plus that of the noise. What noise may
have done is found by taking a draw of it off the table and solving again, many times: the true table is one of these. Odds
of a cell that noise may have made of nothing have no end then, and are not told; where the noise outweighs J nothing is.
Nor are those of a group that the noise would hide were all odds alike: else the cells that noise made large were told.

Numbers that are known in bins stand for the middle of their bin, and what that may do widens or refuses (`bin_doubt`).

Privacy
-------
Reads noisy tables and public facts: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NoReturn

import numpy as np
import scipy

from dipsmith.analyses.agreed_tables import AgreedTables, Float, NoisyMarginal
from dipsmith.analyses.bin_doubt import ColumnDoubt, Refusal, Values, binned_numbers, cut_bin
from dipsmith.analyses.complete_cases import complete_cases, never_missing
from dipsmith.analyses.cross_products import CrossProducts
from dipsmith.analyses.direct import DECIDE, DRAWS, DirectEstimate, batches
from dipsmith.analyses.pairs import estimate_from_tables, find_unmeasured
from dipsmith.analyses.results import Result
from dipsmith.arrays import Bools
from dipsmith.errors import UsageError
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.randomness import generator
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.tables import MOST_COMPLETE, asks_for_odds
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis

MOST_NUMBERS, MOST_WORK = 20_000_000, 400_000_000
"""Cells times pairs of coefficients, and that times draws of the noise where there are more than a few."""

AT_ONCE, FEWEST = 8_000_000, 20
"""Draws of the noise times cells that are handled at once, and the fewest draws that tell whether there is an answer."""

HIDDEN = Refusal(
    "the noise of the tables that hold these columns is as large as what they count",
    "Ask the steward for a larger budget, or for coarser labels",
)

SWAMPED = 0.5
"""Noise on J, in units of J itself, above which its inverse says nothing."""

WIDEST = 4.0
"""Width of an interval for noise alone beyond which a coefficient is not told: odds that noise may have made of nothing."""

FAINT = 0.4
"""Noise on the odds of a group, in logarithms, beyond which they are not told, were all odds alike."""

STEPS, STEPS_AGAIN = 60, 25


def odds_from_tables(
    formula: RegressionFormula,
    schema: Schema,
    tables: Iterable[NoisyMarginal],
    *,
    rows: int | None = None,
    caution: float = 1.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> Result | None:
    """Estimate a logistic regression from noisy tables; None where none holds all columns, or they are too large.

    Where noise outweighs the table nothing is told of any coefficient; None too where a column predicts the response without
    error, so that there is no maximum.

    `rows` is the number of rows where it is public; of so many times the noise `caution` is what can be told.
    """
    held = _HeldTable.of(formula, schema, tables, rows)
    if held is None:
        return None
    terms, X, y, n = held.terms, held.X, held.y, held.n
    p, back = len(terms.names), terms.back()
    solved = _solve(X, y, n)
    beta = np.zeros(p) if solved is None else solved
    q = scipy.special.expit(X @ beta)
    J = (X * (n * q * (1 - q))[:, None]).T @ X
    products = np.einsum("ci,cj,c->cij", X, X, q * (1 - q)).reshape(len(X), -1)
    draws = min(draws, max(DECIDE, MOST_WORK // products.size))
    noise = held.draw_noise(draws, seed)
    first = next(noise)
    faint = _find_faint(X, y, n, caution * first, back)
    if _is_swamped(J, caution * (first @ products).reshape(-1, p, p)) or (solved is None and faint.any()):
        return _nothing(formula, terms, n)
    if solved is None:
        return None
    # Of the formula's own coefficients: one without an end would decide how the others go together.
    own, shifts = X @ np.linalg.inv(back), np.empty((0, p))
    slopes = [name != "Intercept" for name in terms.names]
    for drawn in chain([first], noise):
        shifts = np.concatenate([shifts, (beta - _solve_many(X, y, n - drawn, beta)) @ back.T])
        low, high = np.quantile(shifts, [0.025, 0.975], axis=0)
        untold = faint | _find_endless(own, caution * (high - low))
        if len(first) < DECIDE and untold[slopes].all():  # draws of a large table take long
            return _nothing(formula, terms, n)
    raw = np.std(shifts, axis=0)
    scale = np.divide((high - low) / 3.92, raw, out=np.zeros_like(raw), where=raw > 0)
    spread = np.atleast_2d(np.cov(shifts, rowvar=False)) * np.outer(scale, scale)
    inverse = back @ np.linalg.inv(J) @ back.T
    kept = [i for i, name in enumerate(terms.names) if not name.startswith("|")]
    values = back @ beta - (low + high) / 2
    values[untold] = np.nan
    found = DirectEstimate(
        tuple(terms.names[i] for i in kept),
        values[kept],
        (inverse + spread)[np.ix_(kept, kept)],
        spread[np.ix_(kept, kept)],
        float("nan"),
        max(float(n.sum()) - p, 1.0),
        round(float(n.sum())),
        len(kept),
    )
    return Result.of(formula.text, "logistic", None, found.with_doubts(_doubts(terms, schema, held.names, n, solved)))


def hides_odds(
    formula: RegressionFormula, schema: Schema, tables: Iterable[NoisyMarginal], *, rows: int | None = None
) -> bool:
    """Whether the noise of the table that holds all columns would hide odds of some group, were all odds alike.

    Rows drawn from a model of such a table have other odds there, and the mechanism run again on them does not lose these a
    second time.
    """
    held = _HeldTable.of(formula, schema, tables, rows)
    if held is None:
        return False
    return bool(_find_faint(held.X, held.y, held.n, next(held.draw_noise(DECIDE, 0)), held.terms.back()).any())


@dataclass(frozen=True, eq=False)
class _HeldTable:
    """The noisy table of all columns of a formula: for every cell the terms X, whether the response y occurs, and the count n."""

    names: tuple[str, ...]
    terms: CrossProducts
    agreement: AgreedTables
    X: Float
    y: Float
    n: Float

    @classmethod
    def of(
        cls, formula: RegressionFormula, schema: Schema, tables: Iterable[NoisyMarginal], rows: int | None
    ) -> _HeldTable | None:
        """None where no table holds all columns, or they are too large."""
        tables = list(tables)
        names = tuple(n for n in schema.names if n in formula.columns)
        if not any(set(names) <= set(t.attributes) for t in tables):
            return None
        terms = CrossProducts.terms_alone(formula, schema)
        if schema.size(names) * len(terms.names) ** 2 > MOST_NUMBERS:
            return None
        columns = terms.columns_on(names, schema)
        X, y = columns[:, :-1], columns[:, -1]
        if not np.isin(y, (0.0, 1.0)).all():
            raise UsageError("odds are those of a response with two levels, or of a comparison")
        sizes = {a.name: a.size for a in schema.attributes}
        agreement = AgreedTables.of(tables, [names], sizes, None if rows is None or schema.rules else float(rows))
        n = agreement.table(names, agreement.measured_sums()).ravel()
        return cls(names, terms, agreement, X, y, n)

    def draw_noise(self, draws: int, seed: int) -> Iterator[Float]:
        """The noise of the table again, some draws at a time: draws × cells."""
        random = generator(seed)
        for some in _pieces(draws, sum(t.values.size for t in self.agreement.tables)):
            table = self.agreement.table(self.names, self.agreement.redraw(random, some))
            yield table.reshape(len(table), -1)


def _pieces(draws: int, numbers: int) -> Iterator[int]:
    """How many draws are handled at a time: of large tables few, so that memory stays bounded."""
    if DECIDE * numbers <= AT_ONCE:
        yield from batches(draws, numbers)
        return
    for done in range(0, draws, FEWEST):
        yield min(FEWEST, draws - done)


def _doubts(
    terms: CrossProducts, schema: Schema, names: tuple[str, ...], n: Float, start: Float
) -> tuple[ColumnDoubt, ...]:
    """How far coefficients may be off because numbers are known in bins."""
    kept = [i for i, name in enumerate(terms.names) if not name.startswith("|")]

    def solve(*placements: Values) -> Float:
        moved = [terms.placed_terms(schema, values).columns_on(names, schema) for values in placements or ({},)]
        columns, rows = np.concatenate(moved), np.tile(n, len(moved)) / len(moved)
        found = _solve(columns[:, :-1], columns[:, -1], rows, start)
        return np.full(len(kept), np.nan) if found is None else (terms.back() @ found)[kept]

    numbers = binned_numbers(terms.formula, schema)
    middles = solve() if numbers else np.zeros(0)
    shape = [schema[name].size for name in names]
    margins = {
        name: n.reshape(shape).sum(axis=tuple(j for j in range(len(names)) if j != i)) for i, name in enumerate(names)
    }
    return tuple(b.doubt(solve, middles, margins[b.name], None) for b in numbers)


def estimate_planned(
    analysis: PlannedAnalysis,
    schema: Schema,
    tables: Iterable[Measurement | NoisyMarginal],
    *,
    rows: int | None,
    caution: float = 1.0,
    draws: int = DRAWS,
) -> tuple[Result, ...]:
    """A planned regression of whole rows, from the tables that were measured for it: odds, or least squares."""
    formula = RegressionFormula.parse(analysis.formula, schema.names)
    if (cut := cut_bin(formula, schema)) is not None:
        raise UsageError(f"{cut.reason}; {cut.ask}")
    marginals = [m for t in tables if (m := NoisyMarginal.of(t)) is not None]
    odds = analysis.by is None and asks_for_odds(analysis, schema)
    names = never_missing(formula, analysis.by)
    complete, marginals, rows = complete_cases(schema, marginals, rows, names)
    if complete is not schema and find_unmeasured(analysis, complete, [m.attributes for m in marginals]):
        _refuse_incomplete(names, schema)
    schema = complete
    if not odds:
        return estimate_from_tables(analysis, schema, marginals, rows=rows, draws=draws)
    found = odds_from_tables(formula, schema, marginals, rows=rows, caution=caution, draws=draws)
    if found is None:
        _require_computable(formula, schema)
        return ()
    return (replace(found, formula=analysis.text),)


def _refuse_incomplete(names: Iterable[str], schema: Schema) -> NoReturn:
    """Refuse a formula of columns that may be missing, where no noisy table tells which rows are left out."""
    gaps = [name for name in dict.fromkeys(names) if schema[name].domain.missing]
    raise UsageError(
        f"rows without {' or '.join(gaps)} are left out, and no noisy table tells which these are: it would hold all of these "
        f"columns beside every two of the formula, with at most {MOST_COMPLETE:,} cells; use coarser bins, or give missing "
        "values a label of their own (other)"
    )


def _require_computable(formula: RegressionFormula, schema: Schema) -> None:
    """Refuse odds of a table that is too large for its number of coefficients."""
    cells, terms = schema.size(formula.columns), len(CrossProducts.terms_alone(formula, schema).names)
    if cells * terms**2 > MOST_NUMBERS:
        raise UsageError(
            f"odds with {terms:,} coefficients are not estimated from a table of {cells:,} cells, which is too large; use fewer "
            "bins or labels, leave a term out, or take model: ols"
        )


def _is_swamped(J: Float, noise: Float) -> bool:
    """Whether noise outweighs J in some direction."""
    values, vectors = np.linalg.eigh(J)
    if values.min() <= 0:
        return True
    root = vectors / np.sqrt(values)
    return bool(np.sqrt(np.mean(np.linalg.norm(root.T @ noise @ root, 2, axis=(1, 2)) ** 2)) > SWAMPED)


def _find_faint(X: Float, y: Float, n: Float, noise: Float, back: Float) -> Bools:
    """Which coefficients of groups noise would hide, were all odds alike.

    What the noisy table itself says of a rare cell must not decide whether its odds are told: those would be told that noise
    has made large.
    """
    own = X @ np.linalg.inv(back)
    one, none = np.isclose(own, 1.0), np.isclose(own, 0.0)
    groups = (one | none).all(axis=0) & ~one.all(axis=0)  # beside numbers an intercept is far from all rows
    share = float(np.clip(n @ y / max(n.sum(), 1.0), 1e-6, 1 - 1e-6))
    J = (X * (n * share * (1 - share))[:, None]).T @ X
    if np.linalg.eigvalsh(J).min() <= 0:
        return np.asarray(groups)
    moved = np.linalg.solve(J, ((noise * (y - share)) @ X).T)
    return np.asarray(groups & (np.std(back @ moved, axis=1) > FAINT))


def _find_endless(own: Float, width: Float) -> Bools:
    """Which coefficients noise may move without end: of numbers by their standard deviation; no intercept beside these."""
    groups = (np.isclose(own, 0.0) | np.isclose(own, 1.0)).all(axis=0)
    endless = np.where(groups, width, width * own.std(axis=0)) > WIDEST
    return endless if groups.all() else endless & ~np.isclose(own, 1.0).all(axis=0)


def _nothing(formula: RegressionFormula, terms: CrossProducts, n: Float) -> Result:
    """No coefficient is told."""
    names = tuple(name for name in terms.names if not name.startswith("|"))
    none = np.full(len(names), np.nan)
    whole = np.diag(none)
    rows = round(float(n.sum()))
    found = DirectEstimate(names, none, whole, whole, float("nan"), 1.0, rows, len(names), refusal=HIDDEN)
    return Result.of(formula.text, "logistic", None, found)


def _solve(X: Float, y: Float, n: Float, start: Float | None = None) -> Float | None:
    """The root of X′n(y − p), by Newton's steps no longer than two on the scale of the odds; None where there is none."""
    beta = np.zeros(X.shape[1]) if start is None else start
    for _ in range(STEPS):
        q = scipy.special.expit(X @ beta)
        J = (X * (n * q * (1 - q))[:, None]).T @ X
        size = np.sqrt(np.maximum(np.diag(J), 0.0))
        if not (size > 0).all() or np.linalg.eigvalsh(J / np.outer(size, size)).min() <= 1e-6:
            return None
        step = np.linalg.solve(J, X.T @ (n * (y - q)))
        longest = float(np.abs(X @ step).max())
        beta = beta + step * min(1.0, 2.0 / max(longest, 1e-12))
        if longest < 1e-9:
            return beta
    return None


def _solve_many(X: Float, y: Float, n: Float, start: Float) -> Float:
    """The roots for many tables at once, each from the same start; a coefficient that has no end is far away when it stops."""
    p = X.shape[1]
    beta, outer = np.tile(start, (len(n), 1)), (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    for _ in range(STEPS_AGAIN):
        q = scipy.special.expit(beta @ X.T)
        J = ((n * q * (1 - q)) @ outer).reshape(-1, p, p)
        # A table that tells nothing of some direction, or that noise has turned around, goes there by long steps.
        values, vectors = np.linalg.eigh(J)
        along = np.einsum("dji,dj->di", vectors, (n * (y - q)) @ X) / np.maximum(np.abs(values), 1e-9)
        step = np.einsum("dij,dj->di", vectors, along)
        longest = np.maximum(np.abs(step @ X.T).max(axis=1), 1e-12)
        beta = beta + step * np.minimum(1.0, 2.0 / longest)[:, None]
        if longest.max() < 1e-6:
            break
    return beta
