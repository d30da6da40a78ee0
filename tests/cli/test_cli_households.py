"""Two files on the command line: households and their members."""

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
    assert "one table" in found["problem"]
    assert not found["ready"]
