"""A source of somebody else: found by its entry point, and good enough for a release with the four verbs it must have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith import registry
from dipsmith.errors import UsageError
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.verify import verify

MODULE = '''
import pyarrow as pa

GROUPED = []

class Tape:
    """Rows that somebody else keeps."""

    def __init__(self, name):
        self.name = name

    @property
    def columns(self):
        return ("age", "sex")

    def check(self, required):
        assert set(required) <= set(self.columns)

    def batches(self, columns, progress=None):
        rows = {"age": [30, 41, 52] * 40, "sex": ["F", "M", "F"] * 40}
        yield pa.record_batch({name: pa.array(rows[name]) for name in columns})

    def describe(self):
        return f"tape {self.name}"

class CountedTape(Tape):
    """The same, counted where it lies."""

    counter = "tapes:Counter"

class Counter:
    def __init__(self, source, schema, key):
        from dipsmith.counting import BatchRows
        self.schema, self.rows = schema, BatchRows(Tape(source.name), schema, key)

    def count_groups(self, sets, fixed, view):
        from dipsmith.schema import Marginal
        GROUPED.append(list(sets))
        answers = []
        for names in sets:
            counts = self.rows.count([Marginal.of(self.schema, names)])[0]
            keys = counts.nonzero()[0]
            answers.append(([keys], counts[keys]))
        return answers

def open_tape(given):
    if given.scheme != "tape":
        return None
    address, table = given.address()
    return (CountedTape if table == "counted" else Tape)(table)
'''


@pytest.fixture
def tapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that registers tape:// addresses."""
    (tmp_path / "tapes.py").write_text(MODULE)
    facts = tmp_path / "tapes-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tapes\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[dipsmith.sources]\ntape = tapes:open_tape\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for known in (registry.entry_points_of, registry.load):
        known.cache_clear()
    yield
    for known in (registry.entry_points_of, registry.load):
        known.cache_clear()
    sys.modules.pop("tapes", None)


def schema(neighbours: str) -> ds.Schema:
    return ds.Schema.from_dict(
        {
            "name": "tapes",
            "unit": "row",
            "neighbours": neighbours,
            "fields": [
                {"name": "age", "type": "integer", "minimum": 20, "maximum": 60, "bins": {"width": 10}, "role": "public"},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
            ],
        }
    )  # fmt: skip


@pytest.mark.parametrize("neighbours", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("table", ["plain", "counted"])
@pytest.mark.usefixtures("tapes")
def test_a_source_of_somebody_else_makes_a_release(tmp_path: Path, neighbours: str, table: str) -> None:
    rows = ds.source("tape://cellar", table=table)
    assert rows.describe() == f"tape {table}"
    assert fingerprint(rows) is not None
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("tapes", ds.PureDP(1.0), by="office", why="test")
    method = ds.Forest(targets=["sex"]) if neighbours == "label" else ds.Flat()
    release = ds.synthesize(rows, schema(neighbours), method, budget=ds.PureDP(1.0), ledger=ledger)
    assert release.tables.columns == ("age", "sex")
    assert neighbours == "add-remove" or release.tables.rows == 120
    verify(release.save(tmp_path / "release"))
    assert bool(sys.modules["tapes"].GROUPED) == (table == "counted")


@pytest.mark.usefixtures("tapes")
def test_an_address_goes_to_the_entry_point_of_its_name_and_frames_to_all() -> None:
    with pytest.raises(UsageError, match="which table of the tape:// database"):
        ds.source("tape://cellar")
    with pytest.raises(UsageError, match="leave them out for a database"):
        ds.source("tape://cellar", table="t", encoding="latin-1")
    with pytest.raises(UsageError, match=r"disk:// address.*postgresql://.*tape://"):
        ds.source("disk://cellar", table="t")
    np.testing.assert_array_equal(ds.source(pa.table({"a": [1]})).columns, ("a",))


def test_nothing_is_imported_that_is_not_asked_for() -> None:
    import subprocess

    code = (
        "import sys; from dipsmith.sources import source; source('x.csv');"
        "print([m for m in ('ibis', 'pyspark', 'duckdb', 'psycopg', 'pandas', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
