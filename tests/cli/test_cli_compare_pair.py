"""`dipsmith compare --pair --third`: drawn where they exist, refused before the look where they do not."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import dipsmith as ds
from dipsmith.schema import Attribute, Categories, Schema, Unit

SIZES = {"a": 2, "b": 12, "c": 3}


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(1)
    listed = {n: Categories.of([f"{n}{i}" for i in range(k)], other=f"{n}0") for n, k in SIZES.items()}
    schema = Schema("t", tuple(Attribute(n, "string", d) for n, d in listed.items()), Unit(), "replace")
    table = pa.table({n: [f"{n}{v}" for v in rng.integers(0, k, 400)] for n, k in SIZES.items()})
    pa_csv.write_csv(table, tmp_path / "people.csv")
    ds.synthesize(table, schema, ds.Marginals(), budget=ds.PureDP(2), testing=True, noise_seed=1).save(tmp_path / "r")
    ds.Ledger(tmp_path / "b.db").grant("t", ds.PureDP(1))
    return "compare", "people.csv", "r", "--ledger", "b.db", "--out", "out", "--classifier", "logistic"


@pytest.mark.figures
@pytest.mark.slow
def test_a_pair_and_a_third_column(dipsmith, people, tmp_path):
    ran = dipsmith(*people, "--pair", "b, a", "--third", "b")
    assert ran.code == 0, ran.err
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert page.index("Every column, authentic and synthetic</h2>") < page.index("At a glance</h2>")
    assert "b within the levels of a: TVD of the pair" in page
    assert "(a) Are the largest joint categories of a × b × c kept?" in page
    numbers = (tmp_path / "out" / "numbers" / "pair-1-a-b.csv").read_text("utf-8").splitlines()
    assert numbers[0].startswith("column,level,authentic,")
    assert len(numbers) == 1 + 2 * 12
    columns = (tmp_path / "out" / "numbers" / "columns.csv").read_text("utf-8").splitlines()
    assert len(columns) == 1 + 2 + 12 + 3


def test_mistakes_are_refused_before_the_look(dipsmith, people, tmp_path):
    for asked, words in (
        (("--pair", "a"), "expected two columns, such as age,occupation"),
        (("--pair", "a,z"), "a pair names 'z', no column of all tables; there are: a, b, c"),
        (("--third", "register.csv"), "no column of all tables (a file is --third-file"),
    ):
        ran = dipsmith(*people, *asked)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1)
        assert words in ran.err
    assert ds.Ledger(tmp_path / "b.db").looks("t") == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_line_for_each_chapter_where_no_terminal_shows_a_bar(dipsmith, people, tmp_path):
    ran = dipsmith(*people[:-1], "cart", "--rows", "150", "--name", "mine")
    assert ran.code == 0, ran.err
    lines = ran.err.splitlines()
    chapters = [line for line in lines if line.startswith("dipsmith: comparing mine: ")]
    assert "dipsmith: comparing mine: Can a classifier tell them apart?" in chapters
    assert len(set(chapters)) == len(chapters) >= 8
    assert lines == ["dipsmith: reading", *chapters, "dipsmith: drawing"]
    found = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))
    (scored,) = found["releases"][0]["specks"]
    assert scored["rows"] == 2 * 150
