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
