"""The same proportion through the whole path: rows, `synthesize`, a release, its card, `combine` or `noise_aware`."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from studies.coverage.lines import Line
from studies.coverage.rules import AWARE, REFUSED, SETS, SPLIT, TRUTH

import dipsmith as ds
from dipsmith.inference.combine import Combined
from dipsmith.privacy.randomness import generator

REPEATS, PIECE, RUNS = 1000, 100, 50
ROWS, EPSILON = 1000, "0.1"
COLUMNS = ("s",)
RELATIONS = ("add-remove", "replace")
CONTROL = "authentic rows themselves, no noise"
ORDINARY = "one set, ordinary interval"
ONE = "one set, T = ū + Var_noise"


def whole_path(relation: str, first: int, repeats: int = PIECE) -> list[Line]:
    """Coverage and width of six intervals from the same authentic rows; `first` is the first seed."""
    started = time.process_time()
    kinds = (CONTROL, SPLIT, REFUSED, AWARE, ORDINARY, ONE)
    hits, widths = np.zeros(len(kinds)), np.zeros(len(kinds))
    for seed in range(first, first + repeats):
        table = pa.table({"s": np.where(generator(seed).random(ROWS) < TRUTH, "F", "M")})
        for i, (low, high) in enumerate(intervals(table, relation, seed)):
            hits[i] += low <= TRUTH <= high
            widths[i] += high - low
    seconds = time.process_time() - started
    case = f"flat, {relation}"
    return [
        Line("whole path", case, ROWS, float(EPSILON), kind, repeats, float(hit), float(width), seconds)
        for kind, hit, width in zip(kinds, hits / repeats, widths / repeats, strict=True)
    ]


def intervals(table: pa.Table, relation: str, seed: int) -> list[tuple[float, float]]:
    """The authentic rows, separate sets, draws (by the refused and the right rule), and one set (ordinary and noise-aware)."""
    split = released(table, relation, seed, "split")
    drawn = released(table, relation, seed, "draw")
    one = released(table, relation, seed, None)
    q, u = (np.array(v) for v in zip(*map(women, split.tables), strict=True))
    a, b = (np.array(v) for v in zip(*map(women, drawn.tables), strict=True))
    share, variance = women(one.tables[0])
    whole, its = women(table)
    found = [
        (whole - 1.959964 * its**0.5, whole + 1.959964 * its**0.5),
        ends(ds.combine(q, u, release=split)),
        # What the rule would say if it were not refused: the numbers alone do not tell how they were made.
        ends(ds.combine(a, b)),
        ends(ds.noise_aware(drawn, women, columns=COLUMNS, replicates=RUNS, seed=seed + 10**6)),
    ]
    half = 1.959964 * variance**0.5
    return [
        *found,
        (share - half, share + half),
        ends(ds.noise_aware(one, women, columns=COLUMNS, replicates=RUNS, seed=seed + 10**6)),
    ]


def released(table: pa.Table, relation: str, seed: int, each: Literal["split", "draw"] | None) -> ds.Release:
    schema = ds.Schema.from_dict(
        {
            "name": "women",
            "unit": "row",
            "neighbours": relation,
            "fields": [{"name": "s", "type": "string", "enum": ["M", "F"], "other": "M"}],
        }
    )
    return ds.synthesize(
        table,
        schema,
        ds.Flat(),
        budget=ds.PureDP(EPSILON),
        known_rows=ROWS if relation == "add-remove" else None,
        sets=SETS if each else 1,
        each=each,
        testing=True,
        noise_seed=seed,
    )


def women(table: pa.Table) -> tuple[float, float]:
    """The share of women and its ordinary variance."""
    share = float(pc.mean(pc.equal(table["s"].cast(pa.string()), "F").cast(pa.float64())).as_py())
    return share, share * (1 - share) / table.num_rows


def ends(found: Combined) -> tuple[float, float]:
    low, high = found.interval
    return float(low[0]), float(high[0])
