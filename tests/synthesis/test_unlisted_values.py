"""A public file whose codes are spelt otherwise is said to be so, wherever one is given; a good one passes in silence."""

import shlex
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.cli.main import commands
from dipsmith.errors import UnlistedValues
from dipsmith.sources import source
from dipsmith.synthesis.public import warn_of_unlisted_values

SCHEMA = ds.Schema.from_dict(
    {
        "name": "staff",
        "unit": "row",
        "neighbours": "label",
        "fields": [
            {"name": "job", "type": "string", "enum": ["0101", "0202", "0303"], "other": "0303", "role": "public"},
            {"name": "pay", "type": "integer", "minimum": 0, "maximum": 9, "role": "public"},
            {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
        ],
    }
)


def table(jobs, seed=0):
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(len(jobs)) < 0.5, "F", "M")
    return pa.table({"job": jobs, "pay": rng.integers(0, 10, len(jobs)), "sex": sex})


GOOD = table(["0101", "0202", "0303", None] * 50)
EATEN = table([101, 202, 303, None] * 60, seed=1).drop_columns(["sex"])


def test_most_values_of_a_column_are_not_listed():
    with pytest.warns(UnlistedValues, match="most values of 'job' are not on the schema's list") as found:
        warn_of_unlisted_values(source(EATEN), SCHEMA)
    assert len(found) == 1
    assert "101" not in str(found[0].message)


@pytest.mark.parametrize(
    "jobs", [["0101", "0202"], ["0101", "x"], [None, None], pa.array(["0101"]).dictionary_encode()]
)
def test_a_list_need_not_be_complete(jobs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_unlisted_values(source(pa.table({"job": jobs})), SCHEMA)


@pytest.fixture(scope="module")
def release():
    return ds.synthesize(GOOD, SCHEMA, ds.LogLinear(targets=["sex"]), budget=ds.PureDP(1), testing=True, noise_seed=1)


def test_files_to_label_to_grow_on_and_to_attach_labels_to(release):
    with pytest.warns(UnlistedValues):
        assert release.label(EATEN, seed=1).num_rows == EATEN.num_rows
    with pytest.warns(UnlistedValues):
        ds.public_table(EATEN, SCHEMA)
    with pytest.warns(UnlistedValues):
        ds.synthesize(
            GOOD, SCHEMA, ds.LogLinear(targets=["sex"]), budget=ds.PureDP(1), onto=EATEN, testing=True, noise_seed=1
        )


def test_it_is_a_note_on_the_command_line(release, tmp_path, capsys):
    release.save(tmp_path / "release")
    pq.write_table(EATEN, tmp_path / "eaten.parquet")
    line = f"label {tmp_path}/release {tmp_path}/eaten.parquet --seed 1 --out {tmp_path}/labelled.csv"
    assert not commands()(shlex.split(line), standalone_mode=False)
    assert "dipsmith: note: " in (said := capsys.readouterr().err)
    assert "lost their leading zeros" in said


def test_a_plan_takes_factors_and_hands_all_public_files_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    SCHEMA.write("staff.yaml")
    csv.write_csv(GOOD, "ad.csv")
    public = table(["0101", "0202", "0303", "0101"] * 50, seed=2).drop_columns(["sex"])
    csv.write_csv(public.rename_columns(["job", "basic"]), "sd.csv")
    csv.write_csv(pa.table({"job": ["0101", "0202", "0303"], "ratio": [0.5, 0.6, 0.7]}), "ratios.csv")
    given = "--public sd.csv --public-map 'pay=basic*ratio' --public-epsilon 0.5 --factors ratios.csv"
    plan = f"plan ad.csv --schema staff.yaml --method forest --epsilon 2 {given}"
    assert not commands()(shlex.split(plan), standalone_mode=False)
    assert given in capsys.readouterr().out
    with pytest.raises(ds.errors.UsageError, match="--factors goes with --public-map"):
        commands()(shlex.split(plan.replace("--public-map 'pay=basic*ratio'", "")), standalone_mode=False)
