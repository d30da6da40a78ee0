"""`dipsmith synthesize` says that noise is hopeless while the ledger is still untouched, and goes on."""

import json

SCHEMA = """
name: people
unit: row
neighbours: add-remove
fields:
  - {name: place, type: string, enum: [v, w, x, y, z], other: v}
  - {name: grade, type: integer, enum: [1, 2, 3, 4], other: 1}
"""


def test_a_note_names_the_better_method(dipsmith, tmp_path):
    (tmp_path / "people.yaml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("place,grade\n" + "v,1\nw,2\n" * 20)
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 1).code == 0
    common = ["people.csv", "--schema", "people.yaml", "--ledger", "b.db", "--known-rows", 40, "--method", "flat"]
    hopeless = dipsmith("synthesize", *common, "--epsilon", "0.02", "--out", "one", "--json")
    assert hopeless.code == 0, hopeless.err
    assert "dipsmith: note: flat, full table 'place', 'grade': hopeless" in hopeless.err
    assert "use mst or aim" in hopeless.err
    assert json.loads(hopeless.out)["rows"] == 40
    fine = dipsmith("synthesize", *common, "--epsilon", "0.9", "--out", "two")
    assert fine.code == 0, fine.err
    assert "hopeless" not in fine.err


def test_a_note_names_the_planned_analysis_that_got_no_estimate(dipsmith, tmp_path):
    fields = "  - {name: hours, type: integer, minimum: 0, maximum: 999, bins: {width: 500}}\n"
    (tmp_path / "people.yaml").write_text(SCHEMA + fields)
    (tmp_path / "people.csv").write_text("place,grade,hours\n" + "v,1,3\nw,2,700\nw,1,800\nv,4,1\n" * 500)
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 9).code == 0
    planned = "hours ~ grade"
    common = ["people.csv", "--schema", "people.yaml", "--ledger", "b.db", "--method", "mst", "--analysis", planned]
    ran = dipsmith("synthesize", *common, "--epsilon", 9, "--out", "one")
    assert ran.code == 0, ran.err
    assert f"note: planned '{planned}' has no estimate: hours is known in bins" in ran.err


def test_a_run_says_that_nobody_has_checked_the_file_until_somebody_has(dipsmith, tmp_path):
    """By the log of looks, the schema and the file's name: whatever the rows are, the words are the same."""
    (tmp_path / "people.yaml").write_text(SCHEMA)
    for folder, rows in (("a", "v,1\nw,2\n" * 20), ("b", "$$,x\n,\n" * 30)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "people.csv").write_text("place,grade\n" + rows)
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 9).code == 0
    run = ["--schema", "people.yaml", "--ledger", "b.db", "--method", "mst", "--epsilon", 1, "--another-grant"]
    first = dipsmith("synthesize", "a/people.csv", *run, "--out", "one")
    other = dipsmith("synthesize", "b/people.csv", *run, "--out", "two")
    assert first.code == other.code == 0, first.err
    assert "dipsmith schema check people.yaml --source a/people.csv --ledger b.db" in first.unchecked
    assert first.unchecked.count("\n") == 1, "one line"
    assert other.unchecked.replace("b/", "a/") == first.unchecked
    checked = dipsmith("schema", "check", "people.yaml", "--source", "a/people.csv", "--ledger", "b.db")
    assert checked.code == 0, checked.err
    assert not dipsmith("synthesize", "a/people.csv", *run, "--out", "three").unchecked
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("other: v", "other: w"))
    assert dipsmith("synthesize", "a/people.csv", *run, "--out", "four").unchecked, "another schema reads otherwise"


def test_a_plan_says_how_to_check_the_file_before_a_run(dipsmith, tmp_path):
    (tmp_path / "people.yaml").write_text(SCHEMA)
    told = dipsmith("plan", "--schema", "people.yaml", "--method", "mst", "--epsilon", 1)
    assert told.code == 0, told.err
    assert (
        "before a run, count them once (CONFIDENTIAL, logged): dipsmith schema check people.yaml --source FILE "
        "--ledger budget.db" in (" ".join(told.out.split()))
    )
