"""The study's questions are judged as a run judges them, and its page says what it found."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.confirm.memo_claims import CLAIMS, ask_all  # noqa: E402
from studies.confirm.simulated_questions import CELLS, DISTANCES, simulate  # noqa: E402

PAGE = (ROOT / "docs" / "studies" / "confirm.md").read_text("utf-8")


@pytest.mark.parametrize(("parts", "epsilon"), CELLS)
def test_simulated_questions_come_out_as_expected(parts, epsilon):
    """2,000 questions a cell: a share is off by .06 with probability below 1e-6."""
    for z in DISTANCES:
        found = simulate(parts, epsilon, z, questions=2000, seed=1)
        assert found.confirmed == pytest.approx(found.expected, abs=0.06)


def test_the_page_has_every_cell_and_claim_and_no_size_above_its_level():
    """10,000 questions a cell: where the size is .05, more than .0605 have probability below 1e-6."""
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == len(CELLS) * len(DISTANCES)
    for _, _, z, confirmed, expected in rows:
        assert abs(float(confirmed) - float(expected)) <= 0.02
        assert z != "0" or (float(expected) <= 0.05 and float(confirmed) <= 0.06)
    for claim, _, measure in CLAIMS:
        assert f"| `{claim}` | {measure} |" in PAGE


@pytest.mark.slow
def test_the_memos_claims_are_asked_end_to_end(tmp_path, monkeypatch):
    """The documented script, on few rows and with its first claims alone."""
    monkeypatch.setattr("studies.confirm.memo_claims.CLAIMS", CLAIMS[:2])
    found = list(ask_all(tmp_path, rows_per_year=1500))
    assert [(c.claim, c.measure) for c in found] == [("sex[F] < 0", "direct"), ("sex[F] < 0", "poll")]
    assert all(c.answer.testing for c in found)
