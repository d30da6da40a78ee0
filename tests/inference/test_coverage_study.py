"""The coverage study: its rules give the published values, its page is the one that its results make."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dipsmith as ds

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.coverage import adult, formulas, lines, methods, methods_page, people, personnel, rules, tally  # noqa: E402
from studies.coverage.page import page  # noqa: E402
from studies.coverage.whole_path import whole_path  # noqa: E402

PAGE = ROOT / "docs" / "studies" / "coverage.md"


def test_the_rules_give_the_values_of_the_literature():
    # 20,000 repeats: five standard errors of a share near .95 are .0077, of one near .864 are .012 (6e-7)
    found = {line.kind: line for line in rules.rules(1000, 0.1, first=7)}
    assert found[rules.SPLIT].share == pytest.approx(0.953, abs=0.0077)
    assert found[rules.REFUSED].share == pytest.approx(0.864, abs=0.012)
    assert found[rules.AWARE].share == pytest.approx(0.945, abs=0.0082)
    assert found[rules.AWARE].width == pytest.approx(0.083, abs=0.001)
    assert found[rules.AWARE].width < 0.55 * found[rules.SPLIT].width


def test_the_heavy_tails_of_laplace_noise_are_paid_for():
    # 40,000 repeats of one count at ε = 0.03, where noise is nearly all of the variance. Five standard errors of a
    # share near .95 are .0055 (6e-7). Degrees of freedom that take the noise for normal cover .936.
    share, _ = rules.seen(1000, 0.03, 40_000, seed=5)
    assert share == pytest.approx(0.95, abs=0.0055)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A population of 2,000: its truth is its own fit."""
    whole = people.voters()
    return people.Population(whole.table.slice(0, 2000), whole.fields)


def test_a_sample_is_drawn_with_replacement_and_the_truth_is_the_populations(small):
    first, again = small.sample(3000, 4), small.sample(3000, 4)
    assert first.equals(again)
    assert first.num_rows == 3000
    own = ds.fit(small.table, "y ~ a + s")
    assert small.truth("y ~ a + s") == pytest.approx(dict(zip(own.names, own.combined.estimate, strict=True)))
    low, high = own.combined.interval
    assert small.widths(500, "y ~ a + s")["a[T.q]"] == pytest.approx(2 * (high - low)[1])


def test_schemas_have_the_first_level_as_reference_in_any_order():
    # the population is fitted as a plain table, whose reference is the first in alphabetical order
    for field in people.voters().fields:
        assert field.get("enum", []) == sorted(field.get("enum", []))


def test_a_run_is_counted_coefficient_by_coefficient(small, monkeypatch):
    monkeypatch.setattr(methods, "voters", lambda: small)
    monkeypatch.setattr(methods, "ROWS", 400)
    found = methods.run(methods.Case("mst", "replace", False, "3"), first=0, runs=2)
    by = {(t.estimand, t.coefficient): t for t in found}
    assert by["mean", "Intercept"].runs == by["mean", "Intercept"].intervals == 2
    assert by["OLS, product", tally.REFUSED].intervals == 0
    assert "noisy table" in by["OLS, product", tally.REFUSED].reason
    assert methods.finished(methods.Case("mst", "replace", False, "3"), found) == 2
    assert methods.finished(methods.Case("mst", "replace", False, "1"), found) == 0


def test_tallies_add_up_and_are_read_again(tmp_path):
    one = tally.Tally("flat", "replace", False, "1", "mean", "Intercept", 2, 2, 1, 2.5, 0.1)
    (both,) = tally.merged([one, replace(one, held=2, reason="x")])
    assert (both.runs, both.intervals, both.held, both.relative, both.reason) == (4, 4, 3, 5.0, "x")
    tally.write([both], tmp_path / "t.csv")
    assert tally.read(tmp_path / "t.csv") == [both]
    cell = methods_page.Cell.of("", [both, replace(one, coefficient=tally.REFUSED, runs=6, intervals=0)])
    assert (cell.answered, cell.refused, cell.held) == (4, 6, 0.75)
    assert "4 of 10 answered" in str(cell)


def test_random_formulas_have_the_truth_of_their_population(monkeypatch):
    monkeypatch.setattr(formulas, "SIZE", 3000)
    random = np.random.default_rng(3)
    made = formulas.population(random)
    texts = {formulas.formula(random).formula for _ in range(60)}
    assert any("*" in t for t in texts)
    assert any("|" in t for t in texts)
    assert all(np.isfinite(list(made.truth(t).values())).all() for t in sorted(texts)[:5])


def test_coverage_of_formulas_counts_intervals():
    answers = [formulas.Answer(n, "labels", "forest", "label", "1", "y ~ b", 4, 4 - n) for n in range(2)]
    share, error = formulas.coverage(answers)
    assert share == 7 / 8
    assert error == pytest.approx(np.sqrt(2 * 0.5**2) / 8)


def test_wilson_intervals():
    from scipy import stats

    for hits, repeats in ((950, 1000), (0, 20), (3, 7)):
        wanted = stats.binomtest(hits, repeats).proportion_ci(method="wilson")
        assert tally.wilson(hits, repeats) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


def test_pieces_add_up(tmp_path):
    (one, *_) = rules.rules(1000, 1.0, first=0, repeats=200)
    other = replace(one, repeats=600, share=0.5, width=0.2)
    (both,) = lines.merged([one, other])
    assert both.repeats == 800
    assert both.share == pytest.approx((200 * one.share + 600 * 0.5) / 800)
    lines.write([both], tmp_path / "r.csv")
    (again,) = lines.read(tmp_path / "r.csv")
    assert again.scenario == both.scenario
    assert again.share == pytest.approx(both.share, rel=1e-4)


def test_a_piece_of_the_whole_path():
    found = {line.kind: line for line in whole_path("replace", first=0, repeats=2)}
    assert len(found) == 6
    assert all(line.repeats == 2 and line.width > 0 for line in found.values())


def test_the_page_is_made_from_the_results():
    assert PAGE.read_text("utf-8") == page(), "run: python -m studies.coverage --tell"


def test_the_results_show_what_the_page_says():
    """Intervals and tests that know the noise hold what they say; the others do not (standard errors as measured)."""
    found = lines.read()
    assert {line.part for line in found} == {"rules", "whole path", "independence", "several sets"}
    for line in found:
        error = (0.95 * 0.05 / line.repeats) ** 0.5
        # normal quantiles with the known variance do not know heavy tails: at ε = 0.03 they fall short, as the page says
        known = line.part == "rules" and line.kind == rules.AWARE and line.epsilon < 0.1
        if line.part in ("rules", "whole path") and "Var_noise" in line.kind and not known:
            assert line.share > 0.95 - 4 * error, line
        if line.part == "whole path" and line.kind == rules.REFUSED:
            assert line.share < 0.95 - 3 * error, line
        if line.kind == "corrected test" and line.case == "independent":
            assert line.share < 0.05 + 4 * error, line


def test_no_answered_cell_lies_below_90_per_cent():
    """By more than Monte-Carlo error: four standard errors of a share of .90."""
    for cell in methods_page.cells(tally.read()):
        if cell.answered:
            assert cell.held > 0.90 - 4 * (0.09 / cell.answered) ** 0.5, cell


def test_the_other_results_keep_to_what_was_wanted():
    share, error = formulas.coverage(formulas.read())
    assert 0.93 - 3 * error < share < 0.97 + 3 * error
    gaps = personnel.read()
    held = np.mean([g.low <= g.truth <= g.high for g in gaps])
    assert held > 0.93 - 3 * (0.05 / len(gaps)) ** 0.5
    told = [c for c in adult.read() if c.low == c.low]
    assert sum(c.low <= c.authentic <= c.high for c in told) >= 0.93 * len(told)
