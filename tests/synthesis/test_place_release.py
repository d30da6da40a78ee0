"""A release with a tree of places: what is kept, what the card and the plan say, and the same bytes in any order."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.cli.main import commands
from dipsmith.codec.encode import Encoder
from dipsmith.errors import ContradictedRows
from dipsmith.privacy.curator import Curator
from dipsmith.synthesis.known_rows import contradicted_totals

PLACES = [f"{s}{c}{t}" for s in "ab" for c in "12" for t in "123"]
TOTALS = "code,count\na,260\nb,140\n"
SCHEMA = """
name: people
unit: row
neighbours: add-remove
fields:
  - {name: tract, type: string, enum: places.csv, hierarchy: [state, county, tract], totals: {state: states.csv}}
  - {name: sex, type: string, enum: [F, M], other: M}
  - {name: age, type: integer, minimum: 0, maximum: 79, bins: {width: 20}}
"""


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "places.csv").write_text("code,state,county\n" + "".join(f"{p},{p[0]},{p[:2]}\n" for p in PLACES))
    (tmp_path / "states.csv").write_text(TOTALS)
    (tmp_path / "people.yaml").write_text(SCHEMA)
    return ds.Schema.read(tmp_path / "people.yaml")


def people(rows=400, seed=0):
    random = np.random.default_rng(seed)
    states = np.where(np.arange(rows) < 260, random.integers(0, 6, rows), random.integers(6, 12, rows))
    place, sex = [PLACES[i] for i in states], [str(s) for s in random.choice(["F", "M"], rows)]
    return pa.table({"tract": place, "sex": sex, "age": random.integers(0, 80, rows)})


def coded(table, schema):
    return Encoder(schema).encode(table)[0]


def released(table, schema, **more):
    made = {"budget": ds.PureDP(2), "seed": 1, "testing": True, "noise_seed": 4}
    return ds.synthesize(table, schema, ds.AIM(planned=[("tract", "sex")]), **(made | more))


@pytest.mark.slow
def test_totals_that_noisy_counts_contradict_are_told(schema, tmp_path):
    """Right ones are not, in 20 runs: one false alarm in a million runs at most."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContradictedRows)
        for seed in range(20):
            curator = Curator.rehearse(coded(people(), schema), ds.PureDP(2), seed=seed)
            ds.AIM(planned=[("tract", "sex")], rounds=1).fit(curator)
            assert contradicted_totals(curator.answers, curator.schema) == ""
    (tmp_path / "states.csv").write_text("code,count\na,60\nb,140\n")
    with pytest.warns(ContradictedRows, match="total of state 'a' is 60"):
        release = released(people(), ds.Schema.read(tmp_path / "people.yaml"), budget=ds.PureDP(5))
    assert any(note.startswith("The public total of state 'a' is 60") for note in release.card.notes)
    (tmp_path / "states.csv").write_text(TOTALS)
    (tmp_path / "tracts.csv").write_text("code,count\nb23,300\n")
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("{state: states.csv}", "{tract: tracts.csv}"))
    with pytest.warns(ContradictedRows, match="total of tract 'b23' is 300"):
        released(people(), ds.Schema.read(tmp_path / "people.yaml"), budget=ds.PureDP(5))


def test_a_release_keeps_public_totals_and_says_where_they_come_from(schema, tmp_path):
    release = released(people(), schema)
    release.save(tmp_path / "release", format="csv")
    ds.verify(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    states = [p[0] for p in again.tables[0].column("tract").to_pylist()]
    assert (states.count("a"), states.count("b")) == (260, 140)
    notes = " ".join([*again.card.notes, *again.schema.notes])
    assert "public facts from states.csv" in notes
    assert again.schema.places.names == ("all", "state", "county", "tract")
    assert again.sample(30, seed=2).num_rows == 30
    levels = [m.name for m in ds.measurements(tmp_path / "release") if "sex" in m.attributes]
    assert {"all × sex", "state × sex", "county × sex", "tract × sex"} <= set(levels)
    assert "county × sex" in (tmp_path / "release" / "card.html").read_text("utf-8")


def test_bytes_know_neither_the_order_of_the_file_nor_its_dictionaries(schema, tmp_path):
    table, random = people(), np.random.default_rng(1)
    other = table.take(pa.array(random.permutation(table.num_rows)))
    other = other.set_column(0, "tract", other.column("tract").dictionary_encode())
    for i, rows in enumerate((table, other)):
        released(rows, schema).save(tmp_path / str(i), format="csv")
    for name in ("synthetic-1.csv", "model-1.npz", "measurements.parquet"):
        first, second = ((tmp_path / str(i) / name).read_bytes() for i in range(2))
        assert first == second, name


def test_the_plan_tells_the_error_by_level(schema, tmp_path, capsys):
    words = ["plan", "--schema", str(tmp_path / "people.yaml"), "--method", "aim", "--epsilon", "1", "--json"]
    assert not commands()(words, standalone_mode=False)
    plan = json.loads(capsys.readouterr().out)
    text = json.dumps(plan, ensure_ascii=False)
    assert "county × sex" in text
    assert "with all levels together" in text
    assert "counts by place, all × sex: ±" in text


def test_planned_tables_by_place_are_answered_directly(schema):
    release = released(people(), schema, budget=ds.PureDP(50), analyses=["age ~ sex"])
    (result,) = release.results
    assert release.supports("age ~ sex").level == "measured"
    assert result.formula == "age ~ sex"
