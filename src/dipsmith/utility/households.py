"""Households beside authentic ones: their sizes, and who lives with whom. CONFIDENTIAL.

Tables of two columns, one of each of two people who belong together: the head and another member; neighbours in the
list of members; a household and its member; and two columns of one member. Of each the total variation distance (TVD)
between authentic and synthetic shares is found, beside two others: what chance alone gives (as many households drawn
anew from the authentic ones), and what is lost where the two are drawn independently of each other, without any noise.
Survey weights are not among the columns: they are raked, and have a chapter of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.counting.households import HouseholdRoster
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Figure, Table
from dipsmith.report.histograms import Overlay, overlays
from dipsmith.schema.households import members_of
from dipsmith.synthesis.households import roster_of
from dipsmith.utility.findings import Findings, mean, table
from dipsmith.utility.metric import Chapter, SideBySide

HEAD, NEXT, OWN, HOME = "head and member", "neighbours in the list", "two columns of a member", "household and member"
KINDS = (HEAD, NEXT, OWN, HOME)
BESIDE = (OWN, HOME)
"""Tables whose counts are kept: of a member's own columns, and with those of its household."""
SHOWN = 15
"""Tables that are listed, the worst first."""


@dataclass(frozen=True)
class PairDistance:
    """One table of two columns: its distance, that by chance alone, and that of columns drawn independently.

    `counts` are those of authentic, synthetic and chance tables, where they are kept.
    """

    kind: str
    names: tuple[str, str]
    tvd: float
    floor: float
    independent: float
    counts: tuple[Ints, Ints, Ints] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HouseholdFindings:
    """Sizes of households, authentic and synthetic as shares, and the tables of people who belong together."""

    sizes: tuple[tuple[float, ...], tuple[float, ...]]
    size_tvd: float
    size_floor: float
    tables: tuple[PairDistance, ...]

    def means(self, kind: str) -> tuple[float, float, float]:
        """Mean distance, floor, and distance of independent columns, over the tables of a kind."""
        some = [t for t in self.tables if t.kind == kind]
        return mean([t.tvd for t in some]), mean([t.floor for t in some]), mean([t.independent for t in some])


def compare_households(authentic: HouseholdRoster, synthetic: HouseholdRoster, seed: int = 0) -> HouseholdFindings:
    """Compare synthetic households with authentic ones."""
    drawn = np.random.default_rng(seed).integers(0, max(len(authentic.sizes), 1), len(synthetic.sizes))
    weights = np.bincount(drawn, minlength=len(authentic.sizes))
    most = max(int(authentic.sizes.max(initial=0)), int(synthetic.sizes.max(initial=0))) + 1
    sizes = [_shares(found.sizes, most) for found in (authentic, synthetic)]
    chance = _shares(authentic.sizes, most, weights)
    tables = []
    others = {(kind, names): counts for kind, names, counts in _tables(synthetic)}
    again = {(kind, names): counts for kind, names, counts in _tables(authentic, weights)}
    for kind, names, counts in _tables(authentic):
        all_counts = counts, others[kind, names], again[kind, names]
        shares, made, redrawn = (c / max(c.sum(), 1) for c in all_counts)
        apart = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        tvd, floor, independent = (_tvd(shares, other) for other in (made, redrawn, apart))
        tables.append(PairDistance(kind, names, tvd, floor, independent, all_counts if kind in BESIDE else None))
    own = tuple(float(s) for s in sizes[0]), tuple(float(s) for s in sizes[1])
    return HouseholdFindings(own, _tvd(*sizes), _tvd(sizes[0], chance), tuple(tables))


def _tables(found: HouseholdRoster, weights: Ints | None = None) -> Iterator[tuple[str, tuple[str, str], Ints]]:
    """Every table of two columns as counts; `weights` says how often each household counts."""
    people, homes = found.members, found.households
    ours, theirs = ([n for n in side.names if n != side.schema.weight] for side in (homes, people))
    everybody = np.arange(len(people))
    for kind, (first, second) in (
        (HEAD, found.head_pairs()),
        (NEXT, found.next_pairs()),
        (OWN, (everybody, everybody)),
    ):
        counted = None if weights is None else weights[found.owners[second]]
        for a, b in combinations(theirs, 2) if kind == OWN else product(theirs, repeat=2):
            sides = people[a][first], people[b][second]
            yield kind, (a, b), _cross(*sides, (people.schema[a].size, people.schema[b].size), counted)
    counted = None if weights is None else weights[found.owners]
    for a, b in product(ours, theirs):
        shape = homes.schema[a].size, people.schema[b].size
        yield HOME, (a, b), _cross(homes[a][found.owners], people[b], shape, counted)


def _cross(first: Any, second: Any, shape: tuple[int, int], weights: Ints | None) -> Ints:
    cells = first.astype(np.int64) * shape[1] + second
    return np.bincount(cells, weights, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)


def _shares(codes: Ints, size: int, weights: Ints | None = None) -> Floats:
    counts = np.bincount(codes, weights, minlength=size)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float64)


def _tvd(first: Floats, second: Floats) -> float:
    return float(np.abs(first - second).sum() / 2)


def find(both: SideBySide) -> dict[str, Any]:
    """What the chapter shows of a release; nothing where no members were read."""
    if both.households is None:
        return {"households": None}
    release, people = both.release, members_of(both.release.schema).schema
    made = roster_of(release.tables[0], release.tables[people.name][0], release.schema)
    return {"households": compare_households(both.households, made, both.seed)}


def blocks(found: Sequence[Findings]) -> Sequence[Block]:
    """The sizes as a picture, what is lost of who lives with whom, and the worst tables."""
    if not found or found[0]["households"] is None:
        return ()
    kinds = [(f, kind, *f["households"].means(kind)) for f in found for kind in KINDS]
    lost = Table.of(
        "Total variation distance of tables of people who belong together, means",
        (*(("release",) if len(found) > 1 else ()), "tables of", "synthetic", "by chance alone", "if independent"),
        [(*((f.name,) if len(found) > 1 else ()), *row) for f, *row in kinds],
        "If independent: the distance that is left when both are drawn by themselves, without any noise. Of two columns "
        "of one member, and of a household and its member, that is no alternative; it says how much there is to keep.",
    )
    columns = ("tables of", "first", "second", "synthetic", "by chance alone", "if independent")
    worst = table(f"The {SHOWN} tables that are off most", columns, found, _worst)
    return [_sizes(found), lost, worst]


def _worst(found: Findings) -> list[tuple[Cell, ...]]:
    tables = sorted(found["households"].tables, key=lambda t: -t.tvd)[:SHOWN]
    return [(t.kind, *t.names, t.tvd, t.floor, t.independent) for t in tables]


def _sizes(found: Sequence[Findings]) -> Figure:
    authentic = max((f["households"].sizes[0] for f in found), key=len)
    labels = [str(n) for n in range(max(len(f["households"].sizes[0]) for f in found))]
    sides = [_pad(f["households"].sizes[1], len(labels)) for f in found]
    note = f"TVD {found[0]['households'].size_tvd:.3f}" if len(found) == 1 else ""
    drawn = Overlay("Members of a household", note, labels, _pad(authentic, len(labels)), sides, ordered=True)
    rows = [(n, authentic[int(n)], *(float(side[int(n)]) for side in sides)) for n in labels]
    numbers = Table.of("Shares of households by size", ("members", "authentic", *(f.name for f in found)), rows)
    said = "; ".join(f"{f.name}: TVD {f['households'].size_tvd:.3f}" for f in found)
    return Figure(
        title="How many members households have",
        svg=overlays([drawn], [f.name for f in found]) if figures.available() else "",
        caption=f"Share of households by their number of members. {said}.",
        alternative=f"Bars of the shares of sizes, authentic and synthetic. {said}.",
        numbers=numbers,
        file="figures/household-sizes",
    )


def _pad(shares: Sequence[float], size: int) -> Floats:
    return np.pad(np.asarray(shares, dtype=np.float64), (0, size - len(shares)))


def lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    """Lines of the summary: sizes, and heads with members."""
    if found["households"] is None:
        return []
    told: HouseholdFindings = found["households"]
    tvd, floor, _ = told.means(HEAD)
    return [
        ("household sizes: total variation distance", told.size_tvd, told.size_floor),
        ("head and member: mean total variation distance", tvd, floor),
    ]


HOUSEHOLDS = Chapter("Households", find, blocks, lines, 1, lambda both: both.households is not None)
