"""Two files on the command line: households and their members."""

import json

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dipsmith.examples import households as example


@pytest.fixture
def town(dipsmith, tmp_path):
    homes, persons, _ = example.simulate(150, 2)
    pa_csv.write_csv(homes, tmp_path / "homes.csv")
    pq.write_table(persons, tmp_path / "persons.parquet")
    example.schema().write(tmp_path / "households.yaml")
    assert dipsmith("ledger", "grant", "households", "--ledger", "b.db", "--epsilon", "2").code == 0
    return tmp_path


def order(*more):
    run = ("synthesize", "homes.csv", "--schema", "households.yaml", "--epsilon", "1", "--ledger", "b.db")
    return (*run, "--out", "release", *more)


@pytest.mark.slow
def test_from_two_files_to_a_release_and_back(town, dipsmith):
    planned = dipsmith("plan", "--schema", "households.yaml", "--epsilon", "1", "--rows", "150")
    assert planned.code == 0
    assert "Suggested: aim" in planned.out
    assert "A household pays ε = 1 once" in planned.out
    assert "--members FILE" in planned.out
    made = dipsmith(*order("--method", "aim", "--members", "persons.parquet", "--format", "csv"))
    assert made.code == 0, made.err
    assert dipsmith("verify", "release", "--ledger", "b.db").code == 0
    assert dipsmith("sample", "release", "--rows", "5", "--out", "more.csv").code == 0
    assert (town / "more.csv").read_text().startswith('"hid","region"')
    assert (town / "more-persons.csv").read_text().startswith('"hid","relation"')
    again = dipsmith("sample", "release", "--rows", "5", "--out", "more.csv")
    assert again.code == 3


def test_one_file_of_the_two_is_refused(town, dipsmith):
    missing = dipsmith(*order("--method", "aim"))
    assert missing.code == 2
    assert "--members FILE" in missing.err
    other = dipsmith(*order("--method", "mst", "--members", "persons.parquet"))
    assert other.code == 2
    assert "use aim" in other.err
    assert dipsmith(*order("--method", "aim", "--members", "nobody.csv")).code == 3


def test_what_knows_one_table_says_so(town, dipsmith, tmp_path):
    from dipsmith.studio.schema import report
    from dipsmith.studio.workspace import Workspace

    checked = dipsmith("schema", "check", "households.yaml")
    assert checked.code == 0
    assert "origin" in checked.out
    assert "describes one table" in dipsmith("schema", "convert", "households.yaml", "--out", "x.json").err
    vary = ("tune", "--schema", "households.yaml", "--method", "aim", "--vary", "rounds=3,4", "--epsilon", "1")
    tuned = dipsmith(*vary, "--on", "homes.csv")
    assert tuned.code == 2
    assert "two tables" in tuned.err
    found = report(Workspace(tmp_path, tmp_path / "b.db"), example.schema().to_dict())
    assert "members in a table of its own" in found["problem"]
    assert not found["ready"]


def test_two_headers_are_drafted_together(town, dipsmith):
    """The key stands once, and in no list of columns; filled in, both drafts are one schema."""
    asked = ("schema", "init", "homes.csv", "--members", "persons.parquet", "--key", "hid")
    made = dipsmith(*asked, "--out", "draft.yaml")
    assert made.code == 0, made.err
    assert "beside it, persons.yaml" in made.out
    homes, persons = ((town / name).read_text() for name in ("draft.yaml", "persons.yaml"))
    assert "unit: household\nneighbours:\nmembers: persons.yaml\nkey: hid\nmax_members:\n" in homes
    assert "name: hid" not in homes + persons
    assert "{name: age, type: integer" in persons
    filled = homes.replace("neighbours:\n", "neighbours: replace\n").replace("max_members:\n", "max_members: 8\n")
    for name in ("region", "tenure"):
        filled = filled.replace(f"name: {name}, type: ,", f"name: {name}, type: string, enum: [x, y], other: x,")
    (town / "draft.yaml").write_text(filled.replace("name: weight, type: ,", "name: weight, type: boolean,"))
    told = "type: integer, minimum: 0, maximum: 9,"
    persons = persons.replace("type: integer,", told).replace("type: string,", "type: string, enum: [a], other: a,")
    (town / "persons.yaml").write_text(persons)
    assert dipsmith("schema", "check", "draft.yaml").code == 0
    assert dipsmith(*asked, "--out", "draft.yaml").code == 3  # it is there
    assert (
        "--key names no column of the table of households" in dipsmith(*asked[:5], "--key", "x", "--out", "b.yaml").err
    )
    for more in (("--key", "hid"), ("--members", "persons.parquet", "--key", "hid"), ("--members", "persons.parquet")):
        assert dipsmith("schema", "init", "homes.csv", *more).code == 2


def test_keys_that_lead_nowhere_are_counted_for_the_steward(town, dipsmith):
    """Confidential and logged: rows without a key, orphans, empty and crowded households, a household listed twice."""
    with (town / "homes.csv").open("a") as out:
        out.write('100001,"north","owned",90\n,"north","owned",90\n900000,"north","owned",90\n')
    people = ["hid,relation,age,sex,education,origin", *["100002,child,5,F,low,A"] * 9]
    people += ["100001,head,40,F,low,A", ",head,30,F,low,A", "777,head,30,F,low,A", "777,child,3,F,low,A"]
    (town / "people.csv").write_text("\n".join(people) + "\n")
    look = ("schema", "check", "households.yaml", "--source", "homes.csv", "--ledger", "b.db")
    assert dipsmith(*look).code == 2
    checked = dipsmith(*look, "--members", "people.csv", "--json")
    assert checked.code == 0, checked.err
    found = json.loads(checked.out)["CONFIDENTIAL"]
    assert found["persons: rows"] == 13
    assert found["households: rows without hid, which count nowhere"] == 1
    assert found["persons: rows without hid, which count nowhere"] == 1
    assert found["households: more than one row of one hid, of which one counts"] == 1
    assert found["households: without members"] == 151 - 2
    assert found["households: with more than 8 members"] == 1
    assert found["persons: whose hid no household has, who count nowhere"] == 2
    assert "1 confidential look" in dipsmith("ledger", "show", "households", "--ledger", "b.db").out
