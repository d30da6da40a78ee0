"""Chi-squared tests of one sanitised table: how often they reject where nothing is, and where something is."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from studies.coverage.lines import Line

import dipsmith as ds
from dipsmith.inference.tests import independence
from dipsmith.privacy.randomness import generator

PIECE, RUNS, ROWS = 100, 50, 1000
REPEATS = {0.0: 600, 0.5: 200}
"""By the link: the level is wanted exactly, the power roughly."""
CASES = tuple((epsilon, link) for epsilon in ("0.2", "0.5", "2") for link in (0.0, 0.5))
KINDS = ("ordinary test", "corrected test")
WOMEN = np.array([0.3, 0.4, 0.55, 0.7])
"""The share of women in each group."""


def people(rows: int, seed: int) -> pa.Table:
    """Four groups and two sexes."""
    random = generator(seed)
    a = random.integers(0, 4, rows)
    female = random.random(rows) < WOMEN[a]
    return pa.table({"a": np.array(list("pqrs"))[a], "s": np.where(female, "F", "M")})


def layout() -> ds.Schema:
    """Both columns are private."""
    fields = [
        {"name": "a", "type": "string", "enum": list("pqrs"), "other": "p"},
        {"name": "s", "type": "string", "enum": ["M", "F"], "other": "M"},
    ]
    return ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": "replace", "fields": fields})


def rejections(epsilon: str, link: float, first: int, repeats: int = PIECE) -> list[Line]:
    """How often two tests of independence reject at 5 %; `link` is the share of rows that keep their own sex."""
    started = time.process_time()
    counts = np.zeros(len(KINDS))
    for seed in range(first, first + repeats):
        table = people(ROWS, seed)
        mixed = pc.take(table["s"], pa.array(generator(seed + 10**7).permutation(ROWS)))
        kept = generator(seed + 2 * 10**7).random(ROWS) < link
        release = ds.synthesize(
            pa.table({"a": table["a"], "s": pc.if_else(pa.array(kept), table["s"], mixed)}),
            layout(),
            ds.Flat(),
            budget=ds.PureDP(epsilon),
            testing=True,
            noise_seed=seed,
        )
        counts[0] += independence(release, "a", "s", rule="sampling").p_value < 0.05
        counts[1] += independence(release, "a", "s", replicates=RUNS, seed=seed + 10**6).p_value < 0.05
    seconds = time.process_time() - started
    case = "independent" if link == 0 else "associated"
    return [
        Line("independence", case, ROWS, float(epsilon), kind, repeats, float(c), float("nan"), seconds)
        for kind, c in zip(KINDS, counts / repeats, strict=True)
    ]
