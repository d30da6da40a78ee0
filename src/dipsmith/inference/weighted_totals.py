"""`weighted_totals`: how many people of the population there are in each cell of a table, with honest intervals.

The noisy totals of the survey weight, as they were drawn: unbiased, with noise of known variance, whatever the synthetic
rows carry. Beside the noise stands the sampling of people: with z = the weight of a row in the cell, 0 outside, the total
of n rows drawn with unequal probabilities with replacement has the variance n/(n − 1)·Σ(z − z̄)², found in the synthetic
rows (Hansen and Hurwitz 1943). Strata make it smaller, clusters larger; a release knows of neither. Of members of households
z is what one household adds to the cell, and n the number of households: they are drawn together.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried, UsageError
from dipsmith.inference.combine import Combined, check_level, recurrence_notes
from dipsmith.inference.noise_aware import FARTHER
from dipsmith.schema import Marginal, Schema, WeightTotals
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.weights import noisy_totals

KURTOSIS = 3.0
"""Excess kurtosis of the Laplace law."""


def weighted_totals(
    release: Any, *columns: str, level: float = 0.95, sampling: bool = True, table: str | None = None
) -> Combined:
    """Weighted totals of the population by some columns; of everybody without a column.

    Parameters
    ----------
    release
        A release whose schema has a column with ``role: weight``, or its folder.
    columns
        Those of the table, in any order; refused where their totals were not measured together.
    level
        Of the intervals.
    sampling
        Whether intervals are of the population's totals; if not, of the confidential sample's, and noise alone counts.
    table
        Of households with members: which table's weight, by its name. Default: the one that has the columns.
    """
    check_level(level)
    found = release if isinstance(release, Release) else Release.load(release)
    at, released = _weighted_table(found.schema, columns, table)
    weight = str(released.weight)
    for name in columns:
        if name not in released or name == weight:
            raise UsageError(f"'{name}' is no column that totals of '{weight}' can be by")
    tables = [
        t
        for t in found.measurements
        if t.kind == "weighted totals" and set(columns) <= set(t.attributes) <= set(released.names)
    ]
    if not tables:
        raise NotCarried(
            f"weighted totals by {' × '.join(columns)} were not measured; ask the steward to plan an analysis of these columns"
        )
    schema = (found.model.schema if found.models else found.schema).tables[at]
    best = min(tables, key=lambda t: t.variance * t.size)
    cells = WeightTotals(schema, best.attributes)
    noisy = noisy_totals(cells, best.array.ravel(), best.variance)
    keep = Marginal.of(released, columns)
    rows, key = found.tables[released.name] if at else tuple(found.tables), found.schema.unit.column if at else None
    over = tuple(i for i, n in enumerate(best.attributes) if n not in columns)
    totals = noisy.values.reshape(best.shape).sum(axis=over).ravel()
    noise = np.full(len(totals), noisy.variance * best.size / len(totals))
    within = np.mean([_sampling(t, keep, weight, key) for t in rows], axis=0) if sampling else np.zeros(len(totals))
    variance = within + noise
    heavy = noise**2 * (KURTOSIS * FARTHER if best.law == "discrete Laplace" else 0.0)
    whom = f"the confidential sample: noise alone ({best.law})"
    if sampling:
        whole = ", of whole households" if at else ""
        whom = f"the population: noise, and sampling with unequal probabilities{whole}, without strata or clusters"
    return Combined(
        names=_names(keep),
        estimate=totals,
        within=within,
        between=np.zeros(len(totals)),
        noise=noise,
        variance=variance,
        df=np.divide(variance**2, heavy, out=np.full(len(totals), inf), where=heavy > 0),
        sets=len(found.tables),
        rule=f"Noisy totals of {weight} as they were drawn, for {whom}",
        level=level,
        notes=recurrence_notes(found) if sampling and not at else (),
    )


def _weighted_table(schema: Schema, columns: Sequence[str], table: str | None) -> tuple[int, Schema]:
    """Which table is asked for, 0 or 1, and its schema: of those with a weight, the first that has all columns."""
    if table is not None and table not in [one.name for one in schema.tables]:
        raise UsageError(f"there is no table '{table}'; there are: {', '.join(one.name for one in schema.tables)}")
    able = [(i, s) for i, s in enumerate(schema.tables) if s.weight is not None and table in (None, s.name)]
    if not able:
        which = "this release" if table is None else f"'{table}'"
        raise UsageError(
            f"{which} has no survey weight (role: weight in its schema), so that it has no weighted totals"
        )
    return next(((i, s) for i, s in able if all(n in s for n in columns)), able[0])


def _sampling(table: pa.Table, keep: Marginal, weight: str, key: str | None) -> NDArray[np.float64]:
    """The sampling variance of every total; of rows with one value of the key together, where there is a key."""
    codes, _ = Encoder(keep.schema, keep.attributes).encode(table)
    w = table.column(weight).to_numpy().astype(np.float64)
    at, n = keep.index(codes), max(len(w), 2)
    if key is not None:
        owners = table.column(key).to_numpy()
        together, places = np.unique(owners * keep.size + at, return_inverse=True)
        w, at, n = np.bincount(places, weights=w), together % keep.size, max(int(owners.max(initial=0)), 2)
    totals, squares = (np.bincount(at, weights=w**p, minlength=keep.size) for p in (1, 2))
    return np.asarray(n / (n - 1) * (squares - totals**2 / n))


def _names(table: Marginal) -> tuple[str, ...]:
    labels = [table.schema[n].labels for n in table.attributes]
    return tuple(
        ", ".join(f"{n} = {labels[i][c]}" for i, (n, c) in enumerate(zip(table.attributes, cell, strict=True))) or "all"
        for cell in np.ndindex(*table.shape)
    )
