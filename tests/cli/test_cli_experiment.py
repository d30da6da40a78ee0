"""`dipsmith experiment` on the command line."""

import json

import pytest

STUDY = """
name: small
question: Does more ε help?
data: {example: regression, rows: 300}
vary: {epsilon: [0.5, 2]}
methods: [{method: flat}, {method: marginals}]
repeats: 2
metrics: [tvd-1]
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_show_runs_nothing_and_says_what_it_will_do(dipsmith, study, tmp_path):
    ran = dipsmith("experiment", "show", study)
    assert ran.code == 0
    assert "4 settings × 2 repeats = 8 runs, 0 done" in ran.out
    assert "no privacy was spent" in ran.out
    assert not (tmp_path / "small-results").exists()


@pytest.mark.slow
def test_run_writes_everything_and_resumes(dipsmith, study, tmp_path):
    ran = dipsmith("experiment", "run", study, "--jobs", 1, "--page", tmp_path / "page.md")
    assert ran.code == 0, ran.err
    assert "8 of 8 runs" in ran.err
    assert "Means by level" in ran.out
    for name in ("results.parquet", "report.html", "study.yaml", "runs.jsonl"):
        assert (tmp_path / "small-results" / name).exists()
    assert (tmp_path / "page.md").exists()
    again = dipsmith("experiment", "run", study, "--jobs", 1)
    assert "8 of 8 runs, 8 from before" in again.err


def test_json(dipsmith, study, tmp_path):
    told = json.loads(dipsmith("experiment", "run", study, "--jobs", 1, "--out", tmp_path / "o", "--json").out)
    assert (told["runs"], told["done"], told["cost"], told["failed"]) == (8, 8, None, [])
    means = {(m["factor"], m["level"]): m["mean"] for m in told["means"]}
    assert means["epsilon", "2"] < means["epsilon", "0.5"]
    assert set(means) == {("epsilon", "0.5"), ("epsilon", "2"), ("method", "flat"), ("method", "marginals")}


def test_bad_files_are_one_line_and_exit_code_3(dipsmith, study):
    study.write_text(STUDY.replace("repeats: 2", "repeets: 2"))
    ran = dipsmith("experiment", "run", study)
    assert ran.code == 3
    assert ran.err == "dipsmith: error: study.yaml, line 7: repeets: unknown key; did you mean 'repeats'?\n"


def test_other_rows_need_a_study_of_a_file(dipsmith, study):
    ran = dipsmith("experiment", "run", study, "--data", "x.csv")
    assert ran.code == 3
    assert "simulates its rows" in ran.err


def test_repeats_and_rows_stand_instead_of_the_files(dipsmith, study, tmp_path):
    ran = dipsmith("experiment", "show", study, "--repeats", 5)
    assert "4 settings × 5 repeats = 20 runs" in ran.out
    assert "Next: dipsmith experiment run" in ran.out
    assert ran.out.rstrip().endswith("--repeats 5")
    page = tmp_path / "page.md"
    once = ("--repeats", 1, "--rows", 60)
    ran = dipsmith("experiment", "run", study, *once, "--jobs", 1, "--out", tmp_path / "o", "--page", page)
    assert ran.code == 0, ran.err
    assert "4 of 4 runs" in ran.err
    assert "--repeats 1 --rows 60 --page" in " ".join(page.read_text("utf-8").split())
    assert "rows: 60" in (tmp_path / "o" / "study.yaml").read_text("utf-8")


def test_rows_of_a_study_that_sets_them_or_reads_a_file(dipsmith, study, tmp_path):
    study.write_text(STUDY.replace("vary: {", "vary: {rows: [100, 200], "))
    ran = dipsmith("experiment", "run", study, "--rows", 60)
    assert (ran.code, "the study sets 'rows' by itself" in ran.err) == (3, True)
    study.write_text(PRIVATE)
    ran = dipsmith("experiment", "run", study, "--rows", 60)
    assert (ran.code, "the study reads a file" in ran.err) == (3, True)


def test_a_page_of_private_rows_is_refused_before_the_first_charge(dipsmith, office):
    """Neither a run nor a line of the ledger: the grant is untouched."""
    (office / "paid.yaml").write_text(PRIVATE)
    before = (office / "b.db").read_bytes()
    ran = dipsmith("experiment", "run", office / "paid.yaml", "--jobs", 1, "--page", office / "page.md")
    assert ran.code == 3
    assert "confidential and has no page" in ran.err
    assert (office / "b.db").read_bytes() == before
    assert not (office / "paid-results").exists()


PRIVATE = """
name: paid
question: What does it cost?
data: {file: people.csv, schema: people.yaml, ledger: b.db}
vary: {epsilon: [0.5, 1]}
methods: [{method: marginals}]
repeats: 1
metrics: [tvd-1]
"""


@pytest.mark.slow
def test_runs_on_private_rows_tell_no_time(dipsmith, study, office):
    """How long a run takes depends on its rows; where they are simulated, the time that is left may be told."""
    from dipsmith.experiments.experiment import Experiment

    (office / "paid.yaml").write_text(PRIVATE)
    told = {}
    for file in (study, office / "paid.yaml"):
        standings = told.setdefault(file.stem, [])
        Experiment.read(file, office / file.stem).run(1, standings.append)
    assert [s.seconds_left for s in told["paid"]] == [None] * 3
    assert any(s.seconds_left is not None for s in told["study"])
