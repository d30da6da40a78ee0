"""The youth-voter application: the measure works, and the committed results support the page."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.youth_voters import findings, runs  # noqa: E402
from studies.youth_voters.propensity import design, distance  # noqa: E402

from dipsmith.examples import voters  # noqa: E402
from dipsmith.schema import Codes  # noqa: E402


def committed():
    return runs.read(ROOT / "studies" / "youth_voters" / "results.csv")


def people(n, seed):
    return Codes.of(voters.schema("add-remove"), voters.codes(n, seed))


def test_design_has_a_column_for_every_effect():
    codes = people(50, 0)
    main, pairs = (design(codes, interactions=i) for i in (False, True))
    assert main.shape == (50, 1 + 12 + 4 + 13 + 5)
    sizes = [a.size - 1 for a in codes.schema]
    assert pairs.shape[1] == main.shape[1] + (sum(sizes) ** 2 - sum(s * s for s in sizes)) // 2
    assert np.array_equal(main[:, 0], np.ones(50))


def test_distance_tells_noise_from_people_and_not_people_from_people():
    first, second = (design(people(3000, seed), interactions=False) for seed in (1, 2))
    rng = np.random.default_rng(0)
    schema = voters.schema("add-remove")
    uniform = Codes.of(schema, {a.name: rng.integers(0, a.size, 3000) for a in schema})
    # Two samples of 3,000 with 34 effects: the distance is about 0.06; 0.15 is far outside.
    assert distance(first, second) < 0.15
    assert distance(first, design(uniform, interactions=False)) > 0.75


def test_committed_results_hold_every_claim():
    found = committed()
    assert len(found) == len(runs.METHODS) * len(runs.LOG_EPSILONS)
    failed = [c.claim for c in findings.checks(found) if not c.holds]
    assert failed == []


def test_the_page_is_made_from_the_committed_results():
    page = (ROOT / "docs" / "studies" / "youth-voters.md").read_text("utf-8")
    minutes = re.search(r"in (\d+) minutes of\s+processor time", page).group(1)
    assert page == findings.page(committed(), float(minutes))


@pytest.mark.slow
def test_a_layer_brings_synthetic_people_closer():
    """One set at ε = 1/5: distances by main effects carry an error of about 0.01."""
    codes, main, _ = runs.authentic()
    found = {
        name: runs.run(name, 0, scored=0, sets=1).main
        for name in ("flat", "STEPS-2", "STEPS-3", "STEPS, auto")
    }
    assert found["STEPS, auto"] < found["STEPS-3"] < found["STEPS-2"] < found["flat"]
    assert len(codes) == len(main)
