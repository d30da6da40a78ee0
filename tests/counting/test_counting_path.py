"""The path from a question of the curator to the array that is counted is short enough to read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dipsmith.counting import BatchRows, Rows
from dipsmith.counting.count import MemoryRows
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Schema, Unit
from dipsmith.sources import source

SCHEMA = Schema("t", tuple(Attribute(n, "string", Categories.of("uvw", other="u")) for n in "ab"), Unit(), "replace")
CODES = {n: np.arange(200) % 3 for n in "ab"}


def in_memory(_: Path) -> Rows:
    return MemoryRows(Codes.of(SCHEMA, CODES))


def in_a_file(folder: Path) -> Rows:
    table = pa.table({n: np.array(list("uvw"))[codes] for n, codes in CODES.items()})
    pq.write_table(table, folder / "rows.parquet")
    return BatchRows(source(folder / "rows.parquet"), SCHEMA)


@pytest.mark.parametrize("rows", [in_memory, in_a_file])
@pytest.mark.parametrize("crossed", [False, True])
def test_at_most_six_frames_from_measure_to_the_array_that_is_counted(
    rows: Callable[[Path], Rows], crossed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends counted; the leaves of a tree, which are no marginals, take no longer way."""
    frames: list[list[str]] = []
    bincount = np.bincount

    def probe(*args: object, **named: object) -> object:
        frame = sys._getframe()
        names = []
        while frame.f_back is not None and frame.f_code is not Curator.measure.__code__:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        frames.append([*names, frame.f_code.co_name])
        return bincount(*args, **named)  # type: ignore[call-overload]

    a, b = (Marginal.of(SCHEMA, [name]) for name in "ab")

    def measure() -> None:
        curator = Curator(rows(tmp_path), PureDP(1), stream=Stream.for_testing(1), journal=Rehearsal())
        curator.measure([Crossed(a, b) if crossed else Marginal.of(SCHEMA, "ab")], [PureDP(1)])

    measure()  # the tables of the noise are made once, by counting too
    monkeypatch.setattr(np, "bincount", probe)
    measure()
    assert frames
    assert all(path[-1] == "measure" and len(path) <= 6 for path in frames), frames
