"""The authentic file, a file to grow on and a file to label, by one command."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

SCHEMA = """
name: staff
unit: row
neighbours: label
fields:
  - {name: pay, type: number, minimum: 0, maximum: 100, bins: {width: 10}, role: public}
  - {name: office, type: string, enum: [a, b], other: b, role: public}
  - {name: sex, type: string, enum: [F, M], other: M}
"""


@pytest.fixture
def files(dipsmith, tmp_path):
    """SD has basic pay, half of pay in office a and a quarter in b; BD has pay in cents."""
    (tmp_path / "staff.yaml").write_text(SCHEMA)
    rng = np.random.default_rng(2)
    for name, n in (("ad", 600), ("sd", 500), ("bd", 400)):
        pay, office = rng.uniform(0, 100, n).round(2), rng.choice(["a", "b"], n)
        columns = {"pay": pay, "office": office}
        if name == "ad":
            columns["sex"] = np.where(rng.random(n) < pay / 100, "M", "F")
        if name == "sd":
            columns = {"basic": pay / np.where(office == "a", 2, 4), "office": office}
        if name == "bd":
            columns = {"cents": (100 * pay).round().astype(int), "office": office}
        pa_csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
    (tmp_path / "ratios.csv").write_text("office,ratio\na,2\nb,4\n")
    (tmp_path / "a.csv").write_text("office,ratio\na,2\n")
    assert dipsmith("ledger", "grant", "staff", "--ledger", "b.db", "--epsilon", 10).code == 0
    return tmp_path


RUN = ("synthesize", "ad.csv", "--schema", "staff.yaml", "--method", "forest", "--epsilon", 2, "--ledger", "b.db")
PUBLIC = ("--public", "sd.csv", "--public-map", "pay=basic*ratio", "--factors", "ratios.csv", "--public-epsilon", "0.5")


def test_one_command_grows_on_one_file_and_labels_another(dipsmith, files):
    ran = dipsmith(*RUN, *PUBLIC, "--onto", "bd.csv", "--onto-map", "pay=cents/100", "--out", "release")
    assert ran.code == 0, ran.err
    made = pq.read_table(files / "release" / "synthetic-1.parquet")
    target = pa_csv.read_csv(files / "bd.csv")
    assert made["pay"].to_pylist() == [cents / 100 for cents in target["cents"].to_pylist()]
    assert made.column_names == ["pay", "office", "sex"]
    card = json.loads((files / "release" / "card.json").read_text())
    assert [line["cost"] for line in card["spending"] if line["mechanism"] == "given"] == [0.5]
    assert sum(line["cost"] for line in card["spending"]) == pytest.approx(2)
    assert any("cost ε = 0.5" in said for said in card["steward_says"])


def test_a_public_file_under_rho_costs_what_its_epsilon_is_worth(dipsmith, files):
    assert dipsmith("ledger", "grant", "staff", "--ledger", "rho.db", "--rho", 1).code == 0
    words = [w for w in RUN if w not in ("--epsilon", 2, "b.db")]
    ran = dipsmith(*words, "rho.db", "--rho", 0.5, *PUBLIC, "--out", "release")
    assert ran.code == 0, ran.err
    card = json.loads((files / "release" / "card.json").read_text())
    assert [line["cost"] for line in card["spending"] if line["mechanism"] == "given"] == [0.196349557523]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--public-map", "pay=basic"), 2, "describe the file of --public"),
        (("--onto-map", "pay=cents"), 2, "goes with --onto"),
        (("--onto", "bd.csv", "--factors", "ratios.csv"), 2, "--factors with a map"),
        (("--public", "sd.csv", "--public-map", "pay=wage"), 3, "'wage'"),
        (("--public", "sd.csv"), 2, "no column 'pay'"),
        (
            ("--public", "sd.csv", "--public-map", "pay=basic*ratio", "--factors", "a.csv"),
            3,
            "groups (office) without a row",
        ),
        (
            ("--onto", "bd.csv", "--onto-map", "pay=cents*ratio", "--factors", "a.csv"),
            3,
            "groups (office) without a row",
        ),
        (("--public", "sd.csv", "--public-map", "pay=basic", "--public-epsilon", "2"), 2, "cannot cover"),
        (("--onto", "bd.csv"), 3, "'pay'"),
        (("--public", "sd.csv", "--public-map", "pay=basic", "--method", "loglinear"), 2, "take aim or forest"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_charge(dipsmith, files, words, code, said):
    ran = dipsmith(*RUN, *words, "--out", "release")
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert json.loads(dipsmith("ledger", "show", "staff", "--ledger", "b.db", "--json").out)["spent"] == 0


PEOPLE = """
name: people
unit: row
neighbours: add-remove
fields:
  - {name: pay, type: number, minimum: 0, maximum: 100, bins: {width: 10}}
  - {name: office, type: string, enum: [a, b]}
"""


@pytest.fixture
def people(dipsmith, files):
    """An earlier public file of the same columns, in which one row has an office without a code."""
    (files / "people.yaml").write_text(PEOPLE)
    pay = np.arange(300) % 100
    office = np.where(pay > 50, "a", "b").astype(object)
    office[0] = "z"
    pa_csv.write_csv(pa.table({"wage": pay, "office": pa.array(office.tolist())}), files / "earlier.csv")
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 2).code == 0
    return ("--schema", "people.yaml", "--method", "aim", "--epsilon", 1)


def test_tables_start_from_a_public_file(dipsmith, files, people):
    prior = ("--prior", "earlier.csv", "--public-map", "pay=wage", "--public-epsilon", "0.25")
    planned = json.loads(dipsmith("plan", *people, "--rows", 600, *prior, "--json").out)
    assert any("earlier.csv" in step["what"] for step in planned["steps"])
    ran = dipsmith("synthesize", "ad.csv", *people, *prior, "--ledger", "b.db", "--out", "release")
    assert ran.code == 0, ran.err
    card = json.loads((files / "release" / "card.json").read_text())
    assert any("earlier.csv cost ε = 0.25" in said for said in card["steward_says"])
    assert [line["cost"] for line in card["spending"] if line["mechanism"] == "given"] == [0.25]
    assert any("disagreement among 6" in line["what"] for line in card["spending"])
    assert sum(line["cost"] for line in card["spending"]) == pytest.approx(1)


def test_the_confidential_file_is_no_prior(dipsmith, files, people):
    (files / "copy.csv").write_bytes((files / "ad.csv").read_bytes())
    ran = dipsmith("synthesize", "ad.csv", *people, "--prior", "copy.csv", "--ledger", "b.db", "--out", "release")
    assert (ran.code, "the confidential one itself" in ran.err) == (2, True), ran.err
    assert not (files / "release").exists()
    assert json.loads(dipsmith("ledger", "show", "people", "--ledger", "b.db", "--json").out)["spent"] == 0


@pytest.mark.parametrize("words", [("ad.csv", "a.csv"), ("earlier.csv", "ad.csv")])
def test_no_message_is_made_from_the_confidential_file(dipsmith, files, people, words):
    """As public table or as table of factors it is refused before a row is read: what is wrong with it is private."""
    public, factors = words
    given = ("--public", public, "--public-map", "pay=pay*2", "--factors", factors)
    ran = dipsmith("synthesize", "ad.csv", *people, *given, "--ledger", "b.db", "--out", "release")
    assert (ran.code, "ad.csv is taken for public, but is the confidential one itself" in ran.err) == (2, True), ran.err
