"""The statistical audit: bounds that hold, attackers that are not loose, and a broken method that is caught."""

import json
import math
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from assurance.cases import registered_cases
from assurance.matrix import half_noise, main
from assurance.trials_needed import trials_needed
from dipsmith.audit import trial
from dipsmith.audit.attackers import expected_ratios, linear_scores, log_ratio, optimal_ratios
from dipsmith.audit.bound import (
    CERTAINTY,
    Guesses,
    Threshold,
    choose_threshold,
    guess_held_out,
    guesses,
    lower,
    upper,
)
from dipsmith.audit.trial import audit
from dipsmith.audit.worlds import TARGETS, TwinRows, worst_worlds
from dipsmith.errors import UsageError
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Marginal

CASES = registered_cases(TARGETS)


@pytest.mark.parametrize("p", [0.003, 0.4, 0.97])
def test_clopper_pearson_limits_are_those_of_the_binomial_law(p):
    """The limit is where the tail has exactly the doubt; covered by exact sums over all outcomes."""
    n, doubt = 60, 0.025
    for k in range(n + 1):
        low, high = lower(k, n, doubt), upper(k, n, doubt)
        if k:
            assert binom.sf(k - 1, n, low) == pytest.approx(doubt, rel=1e-6)
        if k < n:
            assert binom.cdf(k, n, high) == pytest.approx(doubt, rel=1e-6)
    missed = sum(binom.pmf(k, n, p) for k in range(n + 1) if not lower(k, n, doubt) <= p <= upper(k, n, doubt))
    assert missed <= 2 * doubt


def test_the_bound_holds_for_the_optimal_attacker_on_randomised_response():
    """4000 audits of 200 trials at ε = 1: the 95 % bound exceeds ε at most in 5 %.

    Binomial(4000, 0.05) exceeds 270 with probability below 1e-6.
    """
    rng = np.random.default_rng(1)
    p = math.e / (1 + math.e)
    outcomes = Counter(zip(rng.binomial(200, p, 4000).tolist(), rng.binomial(200, 1 - p, 4000).tolist(), strict=True))
    exceeded = sum(n for k, n in outcomes.items() if Guesses(*k, (200, 200)).epsilon() > 1)
    assert 0 < exceeded <= 270


def test_thresholds_are_chosen_on_other_trials_than_are_counted():
    """Scores that tell nothing: a threshold fitted to the counted trials would find something."""
    rng = np.random.default_rng(2)
    certain = [guess_held_out(rng.normal(size=300), rng.normal(size=300)).epsilon(CERTAINTY) for _ in range(50)]
    assert max(certain) == 0


def test_both_directions_are_tried():
    rng = np.random.default_rng(3)
    low = np.where(rng.random(4000) < 0.3, -9.0, 0.0)
    high = np.zeros(4000)
    # Only the first world ever shows −9: that event speaks for the first world.
    chosen = choose_threshold(low, high, 4000)
    assert chosen.points_to_first
    assert guesses(chosen, low, high).epsilon() > 4
    assert guesses(Threshold(-0.5, points_to_first=False), low, high).epsilon() < 1


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(2))])
def test_ratios_are_those_of_the_laws(law):
    for value, a, b in ((3, 1, 2), (-4, 0, 1), (0, 5, 2)):
        exact = math.log(float(law.pmf(value - b)) / float(law.pmf(value - a)))
        assert log_ratio(law, np.array([value - a]), np.array([value - b])) == pytest.approx(exact)


def test_the_optimal_attacker_loses_no_more_than_the_price():
    """One table at ε = 1 and a choice at ε = ½: no ratio exceeds 1½, and E₀[e^ratio] = 1 (20 000 draws, 6 sd)."""
    told = (("counts", DiscreteLaplace(Fraction(2)), 2), ("choice", 0.5, 1))
    first = optimal_ratios([told] * 20_000, 0, Stream.for_testing(1))
    second = optimal_ratios([told] * 20_000, 1, Stream.for_testing(2))
    assert np.abs(first).max() <= 1.5 + 1e-9
    weights = np.exp(first)
    assert abs(weights.mean() - 1) < 6 * weights.std() / len(weights) ** 0.5
    assert second.mean() > 0 > first.mean()


def test_the_discriminant_finds_what_differs():
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(400, 5)), rng.normal(size=(400, 5))
    second[:, 2] += 3
    a, b = linear_scores(first, second, (200, 200))
    assert guess_held_out(a, b).epsilon() > 1.5


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
def test_worlds_are_neighbours_that_move_every_table_by_its_sensitivity(relation):
    first, second = worst_worlds(relation)
    assert len(second) - len(first) == (relation == "add-remove")
    twins = TwinRows.of((first, second))
    for names in (["c"], ["a", "c"], ["b", "c"], ["a", "b", "c"]):
        a, b = twins.both(Marginal.of(first.schema, names))
        assert np.abs(a - b).sum() == (1 if relation == "add-remove" else 2)
    if relation == "label":
        assert [first[n].tolist() for n in "ab"] == [second[n].tolist() for n in "ab"]


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "flat"], ids=lambda c: f"{c.name}/{c.relation}")
def test_sound_methods_pass_and_the_audit_is_tight(case):
    """250 runs in each world. Passing is certain to 1e-6; reaching half of the optimal attacker is far within chance."""
    found = audit(case.method, case.relation, epsilon=4, trials=250, seed=5)
    assert found.passed
    assert found.tightness > 0.5
    assert found.lower_bound > 1


def test_half_noise_fails_the_audit():
    with half_noise():
        found = audit(Flat(), "add-remove", epsilon=4, trials=1500, seed=5, black_box=False)
    assert not found.passed


def test_white_box_runs_end_with_their_last_answer_and_hear_the_same():
    """Without rows to draw, a run is stopped once its budget is spent: bounds must not depend on that."""
    for case in (c for c in CASES if c.name == "steps"):
        heard, whole = (audit(case.method, case.relation, trials=50, seed=6, black_box=b) for b in (False, True))
        assert replace(whole, black=None, black_box=0.0, black_box_certain=0.0) == heard


def test_attackers_expect_what_they_then_see():
    """Ratios of 2 × 120 runs of mst against those expected from 40 others: means within 6 standard errors."""
    case = next(c for c in CASES if c.name == "mst" and c.relation == "add-remove")
    twins, budget = TwinRows.of(worst_worlds(case.relation)), PureDP(4)
    for world in (0, 1):
        seen = [
            trial._run(case.method, twins.seen_as(world), budget, f"{i}/{world}", whole=False)[0] for i in range(160)
        ]
        expected = expected_ratios([t.laws for t in seen[:40]], 200, world, Stream.for_testing(world))
        ratios = np.array([t.ratio for t in seen[40:]])
        assert abs(ratios.mean() - expected.mean()) < 6 * ratios.std() * (1 / 120 + 1 / 40) ** 0.5
        assert 0.5 < expected.std() / ratios.std() < 2


def test_needed_trials_suffice_and_are_not_wasted():
    with half_noise():
        needed = trials_needed(Flat(), "replace", epsilon=4, most=40_000, seed=1)
    assert 1000 <= needed <= 4000
    assert trials_needed(Flat(), "replace", epsilon=4, most=2000, seed=1) == 2000  # a sound method is never flagged


def test_too_few_trials_are_refused():
    with pytest.raises(UsageError, match="prove nothing"):
        audit(Flat(), "replace", trials=10)


def test_an_audit_can_be_repeated():
    one, again = (audit(Flat(), "replace", trials=100, seed=3) for _ in range(2))
    assert one == again
    assert audit(Flat(), "replace", trials=100, seed=4) != one


def test_the_matrix_can_be_resumed(tmp_path, capsys):
    asked = [str(tmp_path / "r.json"), "--pairs", "3", "--trials", "60", "--jobs", "1"]
    only = ["--only", "replay | flat · replace"]
    assert main([*asked, *only, "--minutes", "0"]) == 0
    assert not (tmp_path / "r.json").exists()
    assert main([*asked, *only]) == 0
    assert main([*asked, "--only", "attack | flat · replace"]) == 0
    held = json.loads((tmp_path / "r.json").read_text())["pieces"]
    assert set(held) == {
        "replay | flat · replace | pure",
        "replay | flat · replace | zcdp",
        "attack | flat · replace",
    }
    assert held["replay | flat · replace | pure"]["findings"] == {}
    assert held["attack | flat · replace"]["passed"]
    capsys.readouterr()
    assert main([*asked, *only]) == 0
    assert capsys.readouterr().err == ""


def test_the_matrix_keeps_nothing_of_another_version(tmp_path):
    """What another version showed says nothing about this one, and must not be printed under its name."""
    file = tmp_path / "r.json"
    file.write_text(json.dumps({"version": "0.1.0", "pieces": {"replay | flat · replace | pure": {}}}))
    assert main([str(file), "--pairs", "3", "--jobs", "1", "--only", "replay | flat · replace | zcdp"]) == 0
    assert set(json.loads(file.read_text())["pieces"]) == {"replay | flat · replace | zcdp"}


def test_the_command_prints_and_decides(capsys, monkeypatch, tmp_path):
    from dipsmith.cli.main import main as command

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dipsmith", "audit", *arguments])
        with pytest.raises(SystemExit) as stopped:
            command()
        return int(stopped.value.code or 0), capsys.readouterr()

    code, said = run("flat", "--epsilon", "4", "--trials", "100", "--json")
    facts = json.loads(said.out)
    assert code == 0
    assert facts["claimed"] == 4
    assert facts["trials"] == 100
    assert facts["lower_bound"] == max(f["lower_bound"] for f in facts["by_relation"])
    assert [f["relation"] for f in facts["by_relation"]] == ["add-remove", "replace"]
    code, said = run("flat", "--relation", "replace", "--trials", "50")
    assert code == 0
    assert "white box" in said.out
    assert run("flat", "--relation", "label")[0] == 2
    assert run("nothing")[0] == 2
    with half_noise():
        code, said = run("flat", "--relation", "add-remove", "--trials", "1200")
    assert code == 5
    assert "FAIL" in said.out
