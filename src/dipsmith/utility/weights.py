"""Weighted shares of every column, authentic and synthetic: what a survey's users look at; beside them the unweighted ones.

Only where the release has a survey weight; of households, where either table has one. Members' weights count as the mean of
their bins. Nothing else of a comparison is weighted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.codec.encode import Encoder
from dipsmith.errors import InputError
from dipsmith.inference.weighted import mean_weights
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Table
from dipsmith.report.histograms import Overlay, overlays
from dipsmith.schema import Bins, Codes, Schema
from dipsmith.utility.findings import Findings, Rows, figure, mean, series, table
from dipsmith.utility.metric import Chapter, Metric, SideBySide

UNWEIGHTED = "the same without weights"


@dataclass(frozen=True, eq=False)
class WeightedColumn:
    """The weighted shares of a column's levels in both tables, and how far apart they are, weighted or not."""

    name: str
    labels: tuple[str, ...]
    authentic: Floats
    synthetic: Floats
    tvd: float
    unweighted: float
    ordered: bool


@dataclass(frozen=True, eq=False)
class WeightedShares:
    """All columns, the worst first, and what the weights add up to in both tables."""

    columns: tuple[WeightedColumn, ...]
    totals: tuple[float, float]


def weighted_shares(both: SideBySide, i: int = 0) -> WeightedShares | None:
    """Compare one set with the authentic rows; None without a weight."""
    weight = both.schema.weight
    pair = both.pairs[i]
    if weight is None or weight not in pair.names:
        return None
    authentic = _raw_weights(both, weight)
    synthetic = both.release.tables[i].column(weight).to_numpy().astype(np.float64)
    if len(synthetic) != len(pair.synthetic):
        synthetic = _bin_weights(pair.synthetic, weight)
    names = [n for n in pair.names if n != weight]
    return _compare(pair.schema, names, ((pair.authentic, authentic), (pair.synthetic, synthetic)))


def members_shares(both: SideBySide) -> WeightedShares | None:
    """The same of the members of households; None where they were not read, or have no weight."""
    if both.households is None or not _weighs_members(both):
        return None
    people = both.households.members
    weight = str(people.schema.weight)
    made = Encoder(people.schema).encode(both.release.tables[people.schema.name][0])[0]
    sides = ((people, _bin_weights(people, weight)), (made, _bin_weights(made, weight)))
    return _compare(people.schema, [n for n in people.names if n != weight], sides)


def _weighs_members(both: SideBySide) -> bool:
    return both.households is not None and both.households.members.schema.weight is not None


def _compare(schema: Schema, names: Sequence[str], sides: Sequence[tuple[Codes, Floats]]) -> WeightedShares:
    found = []
    for name in names:
        size = schema[name].size
        a, s = (_shares(codes[name], w, size) for codes, w in sides)
        plain = [_shares(codes[name], np.ones(len(codes)), size) for codes, _ in sides]
        apart, without = (0.5 * float(np.abs(x - y).sum()) for x, y in ((a, s), plain))
        found.append(WeightedColumn(name, schema[name].labels, a, s, apart, without, bool(schema[name].domain.ordered)))
    (_, authentic), (_, synthetic) = sides
    return WeightedShares(tuple(sorted(found, key=lambda c: -c.tvd)), (float(authentic.sum()), float(synthetic.sum())))


def _shares(codes: NDArray[np.integer], weights: Floats, size: int) -> Floats:
    found = np.bincount(codes, weights=weights, minlength=size)
    return np.asarray(found / max(found.sum(), 1e-300))


def _raw_weights(both: SideBySide, weight: str) -> Floats:
    """The authentic weights, within their bounds; by their bins where rows without a code were left out."""
    raw = both.raw
    if raw is None or weight not in raw.column_names or raw.num_rows != len(both.authentic):
        return _bin_weights(both.authentic, weight)
    domain = both.schema[weight].domain
    assert isinstance(domain, Bins)
    values = raw.column(weight).to_numpy().astype(np.float64)
    return np.asarray(np.clip(np.nan_to_num(values, nan=domain.minimum), domain.minimum, domain.maximum))


def _bin_weights(codes: Codes, weight: str) -> Floats:
    domain = codes.schema[weight].domain
    assert isinstance(domain, Bins)
    return np.asarray(mean_weights(domain)[codes[weight].astype(np.int64)])


def _find(both: SideBySide) -> dict[str, Any]:
    return {"weighted": weighted_shares(both), "weighted members": members_shares(both)}


def _blocks(found: Sequence[Findings]) -> list[Block]:
    return [*_of_table(found, "weighted", ""), *_of_table(found, "weighted members", " of members")]


def _of_table(found: Sequence[Findings], key: str, whose: str) -> list[Block]:
    told = [f for f in found if f[key] is not None]
    if not told:
        return []
    first = told[0][key].columns
    together = [(c, [next(o for o in f[key].columns if o.name == c.name) for f in told]) for c in first]
    drawn = [
        Overlay(
            c.name,
            f"TVD {', '.join(_short(o.tvd) for o in others)}; rows {_short(c.unweighted)}",
            c.labels,
            c.authentic,
            [o.synthetic for o in others],
            c.ordered,
        )
        for c, others in together[:36]
    ]
    rows: Rows = [
        (c.name, label, float(c.authentic[i]), *(float(o.synthetic[i]) for o in others))
        for c, others in together
        for i, label in enumerate(c.labels)
    ]
    worst = first[0]
    title = f"Weighted shares{whose}: {worst.name} is farthest off, {worst.tvd:.3f} (unweighted {worst.unweighted:.3f})"
    caption = (
        "Shares of the weights by level, the worst column first. TVD: total variation distance, the share of the population "
        "that would have to move; rows: the same of unweighted shares. All other chapters count rows."
    )
    numbers = Table.of(f"Weighted shares{whose}", ("column", "level", "authentic", *(f.name for f in told)), rows)
    svg = overlays(drawn, [series(told, f) for f in told]) if figures.available() else ""
    totals = table(
        f"What the weights{whose} add up to",
        ("authentic", "synthetic", "ratio"),
        told,
        lambda f: [(*f[key].totals, f[key].totals[1] / max(f[key].totals[0], 1e-300))],
        "Noise was added to totals, and a release follows them as far as their noise allows.",
    )
    return [figure(told, title, svg, caption, f"{title}.", numbers, key.replace(" ", "-")), totals]


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    sides = (("", found["weighted"]), (" of members", found["weighted members"]))
    return [
        (f"mean TVD of weighted shares{whose} (beside: unweighted)", *_means(told.columns))
        for whose, told in sides
        if told is not None
    ]


def _means(columns: Sequence[WeightedColumn]) -> tuple[float, float]:
    return mean([c.tvd for c in columns]), mean([c.unweighted for c in columns])


WEIGHTED = Chapter(
    "Weighted by the survey's weights",
    _find,
    _blocks,
    _lines,
    3,
    lambda both: both.schema.weight is not None or _weighs_members(both),
)


def _measure(both: SideBySide) -> tuple[float, float]:
    each = [weighted_shares(both, i) for i in range(len(both.pairs))]
    told = [_means(e.columns) for e in each if e is not None]
    if not told:
        raise InputError("metric 'weighted-tvd' needs a column with role: weight")
    return mean([t for t, _ in told]), mean([u for _, u in told])


WEIGHTED_TVD = Metric(
    "weighted-tvd", "mean total variation distance of weighted shares", "lower", _measure, UNWEIGHTED, WEIGHTED
)
