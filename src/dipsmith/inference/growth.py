"""`growth`: how fast a number changes within one unit of a panel, with an honest interval.

The slope of the number on its period with an effect for every unit, from the two noisy sums that were measured for it over
all units: their noise is known, whatever the synthetic careers carry. Beside the noise stands the sampling of units: with e
what a unit's sum of products differs by from the slope times its sum of squares, the slope has the variance Σe² over the
squared sum of squares (clustered by unit: Liang and Zeger, Biometrika 73, 1986). Σe² was measured for it too, and is taken
as large as its noise, once, leaves it. Synthetic careers do not tell it: they remember one period only, so that they vary
more than people whose numbers go up and down, and less than people of whom some rise and others fall for life.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried, UsageError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.inference.combine import Combined, check_level
from dipsmith.inference.noise_aware import FARTHER
from dipsmith.inference.weighted_totals import KURTOSIS
from dipsmith.schema import Codes
from dipsmith.schema.growth import WHOLE, GrowthSpread, GrowthSums, growing_columns, in_logarithms
from dipsmith.synthesis.release import Release

STEEP, WIDE = 0.95, 0.5
"""Shares of what counts: of the steepest life, and of the largest spread of lives. Beyond these bounds cut too many."""


def growth(release: Any, *columns: str, level: float = 0.95, sampling: bool = True) -> Combined:
    """How much numbers change per period within one unit; of every number of a panel unless some are named.

    Parameters
    ----------
    release
        A release of a panel whose growth was measured, or its folder.
    columns
        Numbers that may change. Where their bins have ``law: log``, the growth is that of the logarithm.
    level
        Of the intervals.
    sampling
        Whether intervals are about the people that the confidential ones are a sample of; if not, about these alone.
    """
    check_level(level)
    found = release if isinstance(release, Release) else Release.load(release)
    schema = found.model.schema if found.models else found.schema
    if schema.unit.order is None:
        raise UsageError(
            "growth is that of a panel, whose schema says in which order rows come (unit: {…, order: year})"
        )
    numbers = growing_columns(schema)
    for name in columns:
        if name not in numbers:
            raise UsageError(
                f"'{name}' is no number that may change from one {schema.unit.order} to the next; such are: {', '.join(numbers) or 'none'}"
            )
    asked = [GrowthSums(schema, name) for name in columns or numbers]
    measured = {t.name: t for t in found.measurements if t.kind == "growth sums"}
    missing = [s.column for s in asked if s.key not in measured]
    if missing or not asked:
        raise NotCarried(
            f"growth of {', '.join(missing) or 'a number'} was not measured; ask the steward for a release with --method aim, whose "
            "schema has it as a number with bins"
        )
    told = [s.slope(measured[s.key].array, measured[s.key].variance) for s in asked]
    cut = [s.column for s, one in zip(asked, told, strict=True) if one is not None and _is_cut(s, measured, *one)]
    told = [None if s.column in cut else one for s, one in zip(asked, told, strict=True)]
    if not any(told) and cut:
        raise NotCarried(
            f"too many lives go through more levels of {', '.join(cut)} than count, so that no slope can be told; ask the "
            "steward for a wider minimum and maximum"
        )
    if not any(told):
        raise NotCarried(
            "noise hides how many periods units have, so that no slope can be told; ask the steward for a larger budget"
        )
    slope, noise, squares = np.array([one or (np.nan, np.nan, np.nan) for one in told]).T
    spread = [_spread(found, measured, *one) for one in zip(asked, slope, strict=True)]
    within = np.array(spread) / squares**2 if sampling else np.zeros(len(asked))
    variance = noise + within
    laplace = np.array([measured[s.key].law == "discrete Laplace" for s in asked])
    share = np.divide(variance, noise, out=np.full(len(asked), inf), where=laplace & (noise > 0))
    logs = [s.column for s in asked if in_logarithms(schema[s.column])]
    whom = "the people behind: noise, and sampling of units" if sampling else "the confidential units: noise alone"
    return Combined(
        names=tuple(f"log({s.column})" if s.column in logs else s.column for s in asked),
        estimate=slope,
        within=within,
        between=np.zeros(len(asked)),
        noise=noise,
        variance=variance,
        df=share**2 / (KURTOSIS * FARTHER),  # squares of variances might overflow
        sets=len(found.tables),
        rule=f"Change per {schema.unit.order} within one {schema.unit.column}, from noisy sums over all of them, for {whom}",
        level=level,
        notes=(
            "Numbers are known as their bins, and count as the middle of these. Of one unit at most "
            f"{schema.unit.max_rows} rows count, and a life that crosses more than half of all levels counts as one that crosses half.",
            *(f"Of {name} too many do: its slope is not told." for name in cut),
        ),
    )


def _is_cut(
    sums: GrowthSums, measured: Mapping[str, MeasuredTable], slope: float, noise: float, squares: float
) -> bool:
    """Whether many lives reach the bounds of what counts, as far as noise lets it be seen: sums are then too small."""
    if (abs(slope) + 2 * noise**0.5) * sums.squares > STEEP * sums.products:
        return True
    spread = measured.get(GrowthSpread(sums.schema, sums.column).key)
    least = 0.0 if spread is None else float(spread.array[0] - np.sqrt(spread.variance))
    return least / WHOLE > WIDE * squares / sums.squares


def _spread(release: Release, measured: Mapping[str, MeasuredTable], sums: GrowthSums, slope: float) -> float:
    """The sum of squares of what units' sums differ by from the slope: as measured, of older releases as in their careers."""
    cells = GrowthSpread(sums.schema, sums.column)
    told = measured.get(cells.key)
    if told is None:
        return float(np.mean([_in_careers(t, release, sums, slope) for t in release.tables]))
    return max(0.0, float(told.array[0] + np.sqrt(told.variance))) * cells.steps[0]


def _in_careers(table: pa.Table, release: Release, sums: GrowthSums, slope: float) -> float:
    """That sum in synthetic careers."""
    codes, _ = Encoder(release.schema, [sums.column, str(sums.schema.unit.order)]).encode(table)
    _, unit = np.unique(table.column(str(sums.schema.unit.column)).to_numpy(), return_inverse=True)
    squares, products = sums.unit_sums(unit, Codes(sums.schema, codes.columns, codes.rows))
    return float(((products - slope * squares) ** 2).sum())
