"""The assurance page says what the files of results say, and what is missing."""

import json

from assurance.page import page


def test_without_results_every_part_says_so(tmp_path):
    assert page(tmp_path).count("Not run yet") == 7


def test_results_are_shown_and_what_is_missing_is_named(tmp_path):
    attacked = {
        "method": "flat", "relation": "replace", "lower_bound": 3.1, "black_box": 2.0, "optimal": 3.5, "tightness": 0.7,
        "certain": 2.5, "passed": False, "measurements": 1, "done": "2026-01-02T00:00:00", "cpu_seconds": 60, "seed": 7,
    }  # fmt: skip
    replayed = {
        "pairs": 3, "questions": 9, "findings": {"rows: free": 1}, "largest_loss": 1.5, "budget": 2.0, "noise_z": 0.3,
        "done": "2026-01-02T00:00:00", "cpu_seconds": 1,
    }  # fmt: skip
    pieces = {"attack | flat · replace": attacked, "replay | flat · replace | pure": replayed}
    (tmp_path / "audit.json").write_text(json.dumps({"pieces": pieces}))
    missed = {"mutant": "half noise", "file": "a.py", "test": "tests/t.py::t", "caught": False}
    (tmp_path / "mutants.json").write_text(json.dumps({"done": "2026-01-02", "mutants": [missed]}))
    text = page(tmp_path)
    words = " ".join(text.split())
    assert "**FAIL**" in text
    assert "0 of 1 pass" in words
    assert "below 80 %: flat replace" in words
    assert "From one audit instead of three: flat replace." in words
    assert "Not run yet (20 of 21): " in words
    assert "| flat | replace | 3 | 9 | 1.500 of 2 | — | +0.3 | **1** |" in text
    assert "**MISSED**" in text
    assert "0 caught of 1 planted" in text


def test_the_committed_page_is_that_of_the_committed_results():
    from pathlib import Path

    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "assurance.md").read_text("utf-8") == page(docs / "assurance"), "run: make assurance"
