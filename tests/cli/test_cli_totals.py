"""`dipsmith totals`: the noisy weighted totals of a release, as Python tells them, and refusals in one line."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds

FIELDS = [
    {"name": "region", "type": "string", "enum": ["north", "south"], "other": "north"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    {"name": "w", "type": "number", "minimum": 2, "maximum": 30, "role": "weight"},
]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    random = np.random.default_rng(1)
    region = random.choice(["north", "south"], 800)
    table = pa.table(
        {"region": region, "sex": random.choice(["F", "M"], 800), "w": np.where(region == "south", 12.0, 4.0)}
    )
    told = {"name": "survey", "unit": "row", "neighbours": "add-remove", "fields": FIELDS}
    made = ds.synthesize(
        table, ds.Schema.from_dict(told), ds.Marginals(), budget=ds.PureDP(2), testing=True, noise_seed=1, seed=1
    )
    return made.save(tmp_path_factory.mktemp("totals") / "release")


def test_totals_are_those_of_python(dipsmith, release):
    told = json.loads(dipsmith("totals", release, "region", "--json", "--level", "0.9").out)
    found = ds.weighted_totals(release, "region", level=0.9)
    assert [line["term"] for line in told["totals"]] == ["region = north", "region = south"]
    assert [line["estimate"] for line in told["totals"]] == found.estimate.tolist()
    assert [line["low"] for line in told["totals"]] == found.interval[0].tolist()
    assert "for the population" in told["rule"]


def test_the_sample_has_shorter_intervals_and_csv_has_the_same_lines(dipsmith, release):
    wide, short = (
        list(csv.DictReader(io.StringIO(dipsmith("totals", release, "region", "--csv", *more).out)))
        for more in ([], ["--sample"])
    )
    assert [line["estimate"] for line in wide] == [line["estimate"] for line in short]
    assert all(float(a["std_error"]) > float(b["std_error"]) for a, b in zip(wide, short, strict=True))


def test_everybody_without_a_column(dipsmith, release):
    assert "all" in dipsmith("totals", release).out


@pytest.mark.parametrize(
    ("asked", "told", "code"),
    [(["w"], "is no column that totals of 'w' can be by", 2), (["region", "--csv", "--json"], "give one", 2)],
)
def test_what_cannot_be_told_is_refused_in_one_line(dipsmith, release, asked, told, code):
    ran = dipsmith("totals", release, *asked)
    assert ran.code == code
    assert told in ran.err
    assert len(ran.err.strip().splitlines()) == 1
