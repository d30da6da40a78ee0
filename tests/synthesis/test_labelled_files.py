"""Files for Stata and SPSS: what they hold reads back, and their bytes tell nothing but the released values."""

import datetime as dt
import time

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import DamageError, UsageError
from dipsmith.schema import Schema
from dipsmith.synthesis.exit import require_format, write_table_file
from dipsmith.synthesis.labelled_file import program_names, read_labelled
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.verify import verify

ENDINGS = ("dta", "sav")
FIELDS = [
    {"name": "sex", "type": "string", "enum": ["F", "M"], "title": "Sex, as registered", "other": "M"},
    {"name": "région de naissance", "type": "string", "enum": ["Île-de-France", "Bretagne"], "missing": True},
    {"name": "grade", "type": "integer", "enum": [10, 12, 20], "other": "12"},
    {"name": "age", "type": "integer", "minimum": 0, "maximum": 99, "bins": {"width": 10}, "missing": True},
    {"name": "pay", "type": "number", "minimum": 0, "maximum": 1000, "bins": {"width": 100}},
    {"name": "born", "type": "date", "minimum": "1900-01-01", "maximum": "2020-12-31", "bins": {"count": 4}},
    {"name": "seen", "type": "datetime", "minimum": "2000-01-01", "maximum": "2020-12-31", "bins": {"count": 4}},
    {"name": "retired", "type": "boolean", "missing": True},
]
SCHEMA = Schema.from_dict({"name": "people", "unit": "row", "neighbours": "add-remove", "fields": FIELDS})
TABLE = pa.table(
    {
        "sex": pa.array(["F", "M", "M"]),
        "région de naissance": pa.array(["Bretagne", None, "Île-de-France"]),
        "grade": pa.array([10, 20, 12], pa.int64()),
        "age": pa.array([41, None, 7], pa.int64()),
        "pay": pa.array([0.1, 1000.0, 123.456]),
        "born": pa.array([dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 12, 31)]),
        "seen": pa.array([dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31), dt.datetime(2012, 2, 29, 1, 2, 3, 4000)]),
        "retired": pa.array([True, None, False]),
    }
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_reads_back(tmp_path, ending):
    write_table_file(tmp_path / f"t.{ending}", TABLE, SCHEMA)
    assert read_labelled(tmp_path / f"t.{ending}", SCHEMA).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_are_those_of_the_schema(tmp_path, ending):
    import pyreadstat

    write_table_file(tmp_path / f"t.{ending}", TABLE, SCHEMA)
    rows, about = getattr(pyreadstat, f"read_{ending}")(tmp_path / f"t.{ending}")
    assert about.column_names_to_labels["sex"] == "Sex, as registered"
    assert about.column_names_to_labels["r_gion_de_naissance"] == "région de naissance"
    assert about.variable_value_labels["sex"] == {1: "F", 2: "M"}
    assert list(rows["born"]) == [dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 12, 31)]
    assert rows["seen"][2].isoformat().startswith("2012-02-29T01:02:03.004")


@pytest.mark.parametrize("ending", ENDINGS)
def test_bytes_do_not_depend_on_the_clock_or_on_how_the_rows_came(tmp_path, ending):
    write_table_file(tmp_path / f"a.{ending}", TABLE, SCHEMA)
    other = TABLE.set_column(0, "sex", TABLE["sex"].dictionary_encode()).replace_schema_metadata({"from": "payroll"})
    pieces = pa.concat_tables([other.slice(0, 1), other.slice(1)])
    time.sleep(1.1)  # the clock of SPSS has seconds
    write_table_file(tmp_path / f"b.{ending}", pieces, SCHEMA)
    written = (tmp_path / f"a.{ending}").read_bytes()
    assert written == (tmp_path / f"b.{ending}").read_bytes()
    assert b"01 Jan" in written[:200]
    assert str(dt.date.today().year).encode() not in written[:300]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("neighbours", ["add-remove", "label"])
def test_a_release_is_saved_verified_and_loaded(tmp_path, ending, neighbours):
    fields = [
        {"name": "office", "type": "string", "enum": ["north", "south"], "other": "south", "role": "public"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
    ]
    schema = Schema.from_dict({"name": "p", "unit": "row", "neighbours": neighbours, "fields": fields})
    rng = np.random.default_rng(0)
    rows = pa.table({"office": rng.choice(["north", "south", "abroad"], 300), "sex": rng.choice(["F", "M"], 300)})
    method = ds.LogLinear(targets=["sex"]) if neighbours == "label" else ds.Flat()
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("p", ds.PureDP(1))
    release = ds.synthesize(rows, schema, method, budget=ds.PureDP(1), ledger=ledger)
    folder = release.save(tmp_path / "release", format=ending)
    assert verify(folder, tmp_path / "b.db").rows == release.card.rows
    assert Release.load(folder).tables[0].to_pylist() == release.tables[0].to_pylist()
    damaged = (folder / f"synthetic-1.{ending}").read_bytes()[:100]
    (folder / f"synthetic-1.{ending}").write_bytes(damaged)
    with pytest.raises(DamageError):
        verify(folder)


def test_names_are_short_and_different():
    names = ["x" * 40, "x" * 41, "X" * 40, "_a", "ä", "a b", "1"]
    made = program_names(names, 32)
    assert len({m.lower() for m in made.values()}) == len(names)
    assert all(m.isidentifier() and len(m) <= 32 for m in made.values())


def test_an_unknown_format_is_refused_before_the_charge():
    with pytest.raises(UsageError, match="parquet, csv, dta or sav"):
        require_format("xlsx")


@pytest.mark.parametrize("ending", ENDINGS)
def test_numbers_that_a_program_does_not_have_are_missing(tmp_path, ending):
    """A public column under label is written as it stands: one such number ended the run, after its charge."""
    pay = [np.inf, -np.inf, 1.7e308, -9e307, 2.0**1022]
    table = pa.table({"pay": pa.array(pay), "grade": pa.array([10] * 5, pa.int64())})
    write_table_file(tmp_path / f"t.{ending}", table, SCHEMA)
    assert read_labelled(tmp_path / f"t.{ending}", SCHEMA)["pay"].to_pylist() == [None] * 4 + [2.0**1022]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_rows_is_written(tmp_path, ending):
    write_table_file(tmp_path / f"t.{ending}", TABLE.slice(0, 0), SCHEMA)
    assert read_labelled(tmp_path / f"t.{ending}", SCHEMA).num_rows == 0
