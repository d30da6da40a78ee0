"""`dipsmith tune`: on a public stand-in, free; by the private rows, charged."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

SCHEMA = """
name: staff
unit: row
neighbours: label
fields:
  - {name: grade, type: integer, minimum: 1, maximum: 8, role: public}
  - {name: office, type: string, enum: [a, b, c], other: c, role: public}
  - {name: sex, type: string, enum: [F, M], other: M}
"""
ASK = ("--schema", "staff.yaml", "--method", "forest", "--vary", "n_b=50,100000", "--epsilon", 3)


@pytest.fixture
def staff(dipsmith, tmp_path):
    """Sex follows grade: a forest of one leaf knows nothing of it."""
    (tmp_path / "staff.yaml").write_text(SCHEMA)
    for name, seed in (("private", 1), ("older", 2)):
        rng = np.random.default_rng(seed)
        grade = rng.integers(1, 9, 1500)
        columns = {"grade": grade, "office": rng.choice(list("abc"), 1500), "sex": np.where(grade > 4, "M", "F")}
        pa_csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
    assert dipsmith("ledger", "grant", "staff", "--ledger", "b.db", "--epsilon", 5).code == 0
    return tmp_path


def spent(dipsmith):
    return json.loads(dipsmith("ledger", "show", "staff", "--ledger", "b.db", "--json").out)["spent"]


@pytest.mark.slow
def test_a_stand_in_ranks_settings_free(dipsmith, staff):
    ran = dipsmith("tune", "--on", "older.csv", *ASK, "--vary", "trees=1,2", "--repeats", 1)
    assert ran.code == 0, ran.err
    assert "log loss (lower is better) on a stand-in of 1,050 rows at ε = 3" in ran.out
    assert "1 repetition;" in ran.out
    assert "–" in ran.out.splitlines()[2]  # one run has no standard error
    assert "Best: n_b=50, trees=" in ran.out
    assert "--method forest --set n_b=50 --set trees=" in ran.out
    told = json.loads(dipsmith("tune", "--on", "older.csv", *ASK, "--repeats", 1, "--json").out)
    assert [t["settings"]["n_b"] for t in told["trials"]] == [50, 100_000]
    assert told["trials"][0]["mean"] < told["trials"][1]["mean"]
    assert spent(dipsmith) == 0


@pytest.mark.slow
def test_private_rows_choose_for_the_price_of_the_run(dipsmith, staff):
    words = ("private.csv", *ASK, "--ledger", "b.db", "--out", "release", "--request", "r1", "--json")
    ran = dipsmith("tune", *words)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["chosen"][0].startswith("Forest(")
    assert spent(dipsmith) == 3
    card = json.loads((staff / "release" / "card.json").read_text())
    assert (card["method"], len(card["parameters"]["candidates"])) == ("private selection", 2)
    again = dipsmith("tune", *(w if w != "release" else "again" for w in words[:-1]))
    assert "nothing was drawn or charged" in again.out
    assert "Chosen: n_b=50\n" in again.out or "Chosen: n_b=100000\n" in again.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "either FILE"),
        (("private.csv", "--on", "older.csv"), "either FILE"),
        (("private.csv",), "give --ledger and --out"),
        (("--on", "older.csv", "--out", "x"), "releases nothing"),
        (("--on", "older.csv", "--vary", "n_b"), "expected NAME="),
        (("--on", "older.csv", "--vary", "leafs=1"), "--vary leafs=1"),
        (("--on", "older.csv", "--vary", "trees=some"), "a whole number"),
        (("--on", "older.csv", "--vary", "max_depth=" + ",".join(map(str, range(1, 200)))), "398 settings"),
    ],
)
def test_what_does_not_go_together_is_refused(dipsmith, staff, words, said):
    ran = dipsmith("tune", *words, *ASK)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert spent(dipsmith) == 0
