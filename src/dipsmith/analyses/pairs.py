"""Direct estimates from measured tables: least squares of whole rows, with an interval that knows the noise.

Under `replace` and `add-remove` every column is private. Least squares needs the cross-products of its columns, which are
sums over tables of two terms each (`regression.tables`): pairs of columns, triples for products. Where all of them were
measured, the tables are made to agree (`agreed_tables`), the cross-products added up (`cross_products`) and β̂ = (X′X)⁻¹X′y solved. The
cross-products are linear in the noisy counts, so that they have no bias; the variance of β̂ is that of sampling, σ̂²(X′X)⁻¹,
plus that of the noise, found by drawing the noise of every table again through the same equations X′(y − Xβ̂). The estimate
does not depend on any model fitted to the tables, nor on what it carries. Where one table holds all columns, errors of an answer of yes
or no are those of its shares (`share_errors`).

What is estimated is the coefficient of raw values: a number in bins is taken for the middle of its bin, and what that may do to
a coefficient widens its interval or refuses it (`bin_doubt`).

A logistic regression is not determined by tables of pairs, and is refused.

Privacy
-------
Reads noisy tables and public facts: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dipsmith.analyses.agreed_tables import AgreedTables, Float, Names, NoisyMarginal
from dipsmith.analyses.bin_doubt import ColumnDoubt, Refusal, Values, binned_numbers
from dipsmith.analyses.cross_products import CrossProducts
from dipsmith.analyses.direct import DECIDE, DRAWS, DirectEstimate, batches
from dipsmith.analyses.rare_references import find_confounded, tables_compared
from dipsmith.analyses.results import Result
from dipsmith.analyses.share_errors import is_yes_or_no, vary_by
from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.randomness import generator
from dipsmith.regression.estimates import term_of
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.least_squares import independent
from dipsmith.regression.matrix import INTERCEPT
from dipsmith.regression.tables import columns_of, tables_needed
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.formula.words import abridge

RARE = 4.0
"""A column of X is told apart where its own sum of squares is so many times the noise on it."""

SWAMPED = 0.5
"""Noise on X′X, in units of X′X itself, above which its inverse says nothing."""


def estimate_from_tables(
    analysis: PlannedAnalysis | str,
    schema: Schema,
    tables: Iterable[Measurement | NoisyTable | MeasuredTable | NoisyMarginal],
    *,
    rows: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Result, ...]:
    """Estimate a planned analysis from noisy tables, once or for each value of `by`.

    `rows` is the number of rows where it is public. Raises where a table that the formula needs was not measured.
    """
    analysis = PlannedAnalysis.of(analysis)
    formula = _formula(analysis, schema)
    found = [m for t in tables if (m := NoisyMarginal.of(t)) is not None]
    require_measured(analysis, schema, [m.attributes for m in found])
    moments = CrossProducts.of(formula, schema)
    by: Names = () if analysis.by is None else (analysis.by,)
    wanted = {names: _with(schema, names, by) for names in dict.fromkeys(moments.tables.values())}
    sizes = {a.name: a.size for a in schema.attributes}
    total = None if rows is None or schema.rules else float(rows)
    agreement = AgreedTables.of(found, wanted.values(), sizes, total)
    results = []
    codes: Sequence[int | None] = [None] if analysis.by is None else range(sizes[analysis.by])
    for code in codes:
        sums = _Sums(moments, agreement, wanted, by, code)
        part = None if code is None or analysis.by is None else f"{analysis.by} {schema[analysis.by].labels[code]}"
        direct = _estimate(sums, schema, draws, seed)
        results.append(Result.of(analysis.text, "least squares", part, direct))
    return tuple(results)


def find_unmeasured(analysis: PlannedAnalysis, schema: Schema, measured: Iterable[Sequence[str]]) -> list[Names]:
    """The tables that a formula needs and that lie in none of those measured."""
    sets = [set(names) for names in measured]
    return [names for names in tables_needed([analysis], schema) if not any(set(names) <= s for s in sets)]


def require_measured(analysis: PlannedAnalysis, schema: Schema, measured: Iterable[Sequence[str]]) -> None:
    """Refuse a formula of which a table was not measured, and say which."""
    missing = find_unmeasured(analysis, schema, measured)
    if missing:
        some = ", ".join(" × ".join(names) for names in missing[:4]) + (", …" if len(missing) > 4 else "")
        raise UsageError(
            f"'{abridge(analysis.text)}' cannot be estimated from what was measured: no noisy table holds {some}; ask for a "
            "release in which this analysis is planned"
        )


def _formula(analysis: PlannedAnalysis, schema: Schema) -> RegressionFormula:
    formula = RegressionFormula.parse(analysis.formula, schema.names)
    if analysis.model == "logistic":
        raise UsageError(
            f"'{abridge(analysis.text)}': a logistic regression is not determined by tables of pairs; use model: ols for the "
            "difference in shares"
        )
    if analysis.by is not None and analysis.by in formula.columns:
        raise UsageError(f"'{abridge(analysis.text)}' is repeated by '{analysis.by}', which is also one of its terms")
    return formula


def _with(schema: Schema, names: Names, more: Names) -> Names:
    return tuple(n for n in schema.names if n in names or n in more)


@dataclass(frozen=True, eq=False)
class _Sums:
    """The cross-products of one part of the rows: as they were measured, and their noise again."""

    moments: CrossProducts
    agreement: AgreedTables
    wanted: dict[Names, Names]
    by: Names
    code: int | None

    @cached_property
    def parts(self) -> dict[Names, Float]:
        """The noisy tables, made to agree."""
        return self.agreement.measured_sums()

    def measured_products(self) -> Float:
        return np.asarray(self._assemble(self.parts)[0])

    def products_of(self, moments: CrossProducts) -> Float:
        """The cross-products as they would be with other numbers for bins."""
        return np.asarray(moments.assemble({names: self._count(names, self.parts) for names in self.wanted})[0])

    def rows(self) -> float:
        """The number of rows of this part."""
        return float(self._count((), self.parts)[0])

    def margin(self, name: str) -> Float:
        """How often each code of a column occurs."""
        return np.asarray(self._count((name,), self.parts)[0])

    def spread_of_shares(self, schema: Schema, kept: np.ndarray, beta: Float) -> Float | None:
        """X′WX, where W is what answers of yes or no vary by; None for other responses, or where no table has all columns."""
        held = {n for block in self.moments.blocks for n in block.attributes}
        names = tuple(n for n in schema.names if n in held)
        if names not in self.wanted:
            return None
        columns, (shift, scale) = self.moments.columns_on(names, schema), self.moments.response_scale()
        X, y, n = columns[:, kept], columns[:, -1], np.maximum(self._count(names, self.parts)[0].ravel(), 0.0)
        if not is_yes_or_no(y):
            return None
        w = n * vary_by(shift + scale * (X @ beta), float(n @ y) / max(float(n.sum()), 1.0)) / scale**2
        return np.asarray((X * w[:, None]).T @ X)

    def find_confounded(self, schema: Schema, seed: int) -> tuple[list[int], list[int]]:
        """Which columns compare levels with others that noise hides, and which of these to leave out."""
        blocks, random = self.moments.blocks[:-1], generator(seed)
        noise: dict[Names, list[Float]] = {names: [] for names in tables_compared(blocks, schema)}
        for some in batches(DECIDE, sum(t.values.size for t in self.agreement.tables)) if noise else ():
            parts = self.agreement.redraw(random, some)
            for names, drawn in noise.items():
                drawn.append(self._count(names, parts).reshape(some, -1))
        common = {
            names: self._count(names, self.parts).ravel() > RARE * np.concatenate(drawn).std(axis=0)
            for names, drawn in noise.items()
        }
        return find_confounded(blocks, schema, common)

    def redraw(self, random: np.random.Generator, draws: int) -> Iterator[Float]:
        size = sum(t.values.size for t in self.agreement.tables) + (len(self.moments.names) + 1) ** 2
        for some in batches(draws, size):
            yield self._assemble(self.agreement.redraw(random, some))

    def _assemble(self, parts: dict[Names, Float]) -> Float:
        return self.moments.assemble({names: self._count(names, parts) for names in self.wanted})

    def _count(self, names: Names, parts: dict[Names, Float]) -> Float:
        whole = self.wanted.get(names) or tuple(n for n in self.agreement.sizes if n in (*names, *self.by))
        table = self.agreement.table(whole, parts)
        if self.code is None:
            return table
        return np.asarray(np.take(table, self.code, axis=1 + whole.index(self.by[0])))


def _estimate(sums: _Sums, schema: Schema, draws: int, seed: int) -> DirectEstimate:
    M, notes = sums.measured_products(), _notes(schema)
    doubts: tuple[ColumnDoubt, ...] = ()
    names = sums.moments.names
    random = generator(seed)
    noise = np.concatenate(list(sums.redraw(random, draws)))
    # A level that nobody, or hardly anybody, has is not told apart: its rows count with the reference.
    spread = noise[:DECIDE].std(axis=0)
    told = np.diag(M)[:-1] > RARE * np.diag(spread)[:-1]
    lost, left_out = sums.find_confounded(schema, seed)
    apart = np.setdiff1d(np.flatnonzero(told), left_out)
    kept = apart[independent(M[np.ix_(apart, apart)])]
    values = np.full(len(names), np.nan)
    covariance, noisy = np.full((len(names),) * 2, np.nan), np.full((len(names),) * 2, np.nan)
    rows = sums.rows()
    df = max(rows - len(kept), 1.0)
    solved = _solve(M, noise, kept, df)
    rare = [n for n, ok in zip(names, told, strict=True) if not ok and not n.startswith("|")]
    if rare:
        notes += (f"Too rare to be told apart, and counted with the reference level: {', '.join(rare[:8])}.",)
    if solved is None:
        notes += ("The noise is as large as what it is added to: this release cannot tell. Ask for a larger budget.",)
        sigma = float("nan")
    else:
        beta, inverse, scattered, sigma2 = solved
        unequal = sums.spread_of_shares(schema, kept, beta)
        sampling = sigma2 * inverse if unequal is None else inverse @ unequal @ inverse
        values, back = _uncentre(sums.moments, kept, beta)
        at = np.ix_(kept, kept)
        covariance[at], noisy[at] = back @ (sampling + scattered) @ back.T, back @ scattered @ back.T
        covariance[lost, :] = covariance[:, lost] = values[lost] = np.nan
        sigma = float(np.sqrt(sigma2)) * sums.moments.response_scale()[1]
        doubts = _doubts(sums, schema, kept, _unexplained_share(M, names, rows, sigma2))
    chosen = [i for i, n in enumerate(names) if not n.startswith("|")]
    pick = np.ix_(chosen, chosen)
    shown_names = tuple(names[i] for i in chosen)
    found = DirectEstimate(
        shown_names, values[chosen], covariance[pick], noisy[pick], sigma, df, round(rows), len(chosen), notes
    )
    found = found.with_doubts([replace(d, width=d.width[chosen], tail=d.tail[chosen]) for d in doubts])
    constant = np.flatnonzero([not column.any() for b in sums.moments.blocks[:-1] for column in b.columns.T])
    dependent = [int(i) for i in (*np.setdiff1d(apart, kept), *constant)]
    return replace(found, refusal=found.refusal or _refuse_terms(names, np.setdiff1d(kept, lost), lost, dependent))


def _refuse_terms(names: Names, told: np.ndarray, lost: Sequence[int], dependent: Sequence[int]) -> Refusal | None:
    """Why nothing is told of a whole term: it follows from others, or is compared with a level that hardly any row has."""
    known = {INTERCEPT, *(term_of(names[i]) for i in told)}
    for some in (dependent, lost):
        whole = [names[i] for i in some if term_of(names[i]) not in known and not names[i].startswith("|")]
        if whole:
            break
    else:
        return None
    listed = f"{', '.join(whole[:3])}{', …' if len(whole) > 3 else ''}"
    if some is dependent:
        return Refusal(f"the term {listed} is the same in all rows, or follows from the others", "Leave it out")
    return Refusal(
        f"noise hides the level with which {listed} would be compared: hardly any row has it",
        "Leave the intercept out (0 + …), so that every level is told by itself, or ask the steward for a schema that lists a "
        "frequent label first",
    )


def _uncentre(moments: CrossProducts, kept: np.ndarray, beta: Float) -> tuple[Float, Float]:
    """The coefficients that the formula means, and how they follow from those of shifted and scaled columns."""
    shift, scale = moments.response_scale()
    back = moments.back()[np.ix_(kept, kept)] * scale
    values = np.full(len(moments.names), np.nan)
    values[kept] = back @ beta
    if INTERCEPT in moments.names:
        values[moments.names.index(INTERCEPT)] += shift
    return values, back


def _doubts(sums: _Sums, schema: Schema, kept: np.ndarray, unexplained: float) -> tuple[ColumnDoubt, ...]:
    """How far coefficients may be off because numbers are known in bins."""

    def solve(*placements: Values) -> Float:
        M = np.mean(
            [sums.products_of(sums.moments.with_values(schema, values)) for values in placements or ({},)], axis=0
        )
        X, y = M[np.ix_(kept, kept)], M[kept, -1]
        size = np.sqrt(np.maximum(np.diag(X), 1e-300))
        beta = np.linalg.lstsq(X / np.outer(size, size), y / size, rcond=None)[0] / size
        return _uncentre(sums.moments, kept, beta)[0]

    formula = sums.moments.formula
    numbers, response = binned_numbers(formula, schema), columns_of([formula.response])
    middles = solve() if numbers else np.zeros(0)
    return tuple(
        b.doubt(
            solve,
            middles,
            sums.margin(b.name),
            unexplained if b.name in response else None,
            response=b.name == formula.response_column,
        )
        for b in numbers
    )


def _unexplained_share(M: Float, names: Names, rows: float, sigma2: float) -> float:
    """The share of the response's variance that the regression leaves."""
    mean = M[names.index(INTERCEPT), -1] / rows if INTERCEPT in names and rows > 0 else 0.0
    variance = float(M[-1, -1]) / max(rows, 1.0) - mean**2
    return float(np.clip(sigma2 / variance, 0.01, 1.0)) if variance > 0 else 1.0


def _solve(M: Float, noise: Float, kept: np.ndarray, df: float) -> tuple[Float, Float, Float, float] | None:
    """The coefficients, (X′X)⁻¹, their covariance by noise, and σ²; None where noise swamps X′X."""
    X, y = M[np.ix_(kept, kept)], M[kept, -1]
    E, e = noise[:, kept[:, None], kept], noise[:, kept, -1]
    size = np.sqrt(np.diag(X))
    X, E = X / np.outer(size, size), E / np.outer(size, size)
    y, e = y / size, e / size
    values, vectors = np.linalg.eigh(X)
    if values.min(initial=0.0 if not len(values) else np.inf) <= 0:
        return None
    root = vectors / np.sqrt(values)
    white = root.T @ E[:DECIDE] @ root
    if np.sqrt(np.mean(np.linalg.norm(white, 2, axis=(1, 2)) ** 2)) > SWAMPED:
        return None
    inverse = root @ root.T
    beta = inverse @ y
    # By how much noise moves X′(y − Xβ), whose zero β is: linear, so that draws are not inverted one by one, of which some
    # would be nearly singular. Measured: intervals that invert every draw cover .98 to 1 where noise is large.
    moved = (e - E @ beta) @ inverse
    scattered = np.atleast_2d(np.cov(moved, rowvar=False))
    sigma2 = max(float(M[-1, -1] - y @ beta) / df, 0.0)
    return beta / size, inverse / np.outer(size, size), scattered / np.outer(size, size), sigma2


def _notes(schema: Schema) -> tuple[str, ...]:
    """What a reader has to know of the rows."""
    if schema.unit.max_rows == 1:
        return ()
    return (
        f"Rows of one unit (up to {schema.unit.max_rows}) are taken to be independent; intervals may be too short.",
    )
