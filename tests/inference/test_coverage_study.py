"""The coverage study: its rules give the published values, its page is the one that its results make."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dipsmith as ds

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.coverage import lines, regressions, rules  # noqa: E402
from studies.coverage.page import monte_carlo, page  # noqa: E402
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


def test_the_regression_on_cells_is_that_of_fit():
    table = regressions.people(700, seed=4)
    mine, found = regressions.estimate(table), ds.fit(table, regressions.FORMULA, reference={"s": "M"})
    assert mine.names == found.names
    assert np.abs(mine.values - found.combined.estimate).max() < 1e-10
    assert np.abs(mine.variances - found.combined.variance).max() < 1e-12
    # and so is what noise-aware intervals are made of
    one = next(regressions.scenarios())
    release = regressions.released(one, table, 7, sets=1)
    whole = ds.fit(release, regressions.FORMULA, rule="noise-aware", replicates=12, seed=3).combined
    again = ds.noise_aware(release, regressions.estimate, columns=["y", "a", "s"], replicates=12, seed=3)
    for mine, its in zip(again.interval, whole.interval, strict=True):
        assert np.array_equal(np.isnan(mine), np.isnan(its))
        assert np.nanmax(np.abs(mine - its)) < 1e-8


def test_the_population_is_the_one_that_people_are_drawn_from():
    # 200,000 rows: no cell's share is off by more than six standard errors (2e-9 each, 96 cells)
    shares, n = regressions.population(), 200_000
    drawn = regressions.cells(regressions.people(n, seed=8)) / n
    assert shares.sum() == pytest.approx(1)
    assert (np.abs(drawn - shares) <= 6 * np.sqrt(shares / n) + 6 / n).all()


def test_a_piece_of_a_regression():
    one = next(regressions.scenarios())
    found = {line.kind: line for line in regressions.regression(replace(one, runs=12), first=0, repeats=2)}
    assert list(found) == list(regressions.KINDS)
    assert found[regressions.ORDINARY].width < found[regressions.AWARE].width


def test_monte_carlo_intervals_are_wilsons():
    from scipy import stats

    for hits, repeats in ((950, 1000), (0, 20), (3, 7)):
        wanted = stats.binomtest(hits, repeats).proportion_ci(method="wilson")
        assert monte_carlo(hits / repeats, repeats) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


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
    assert PAGE.read_text("utf-8") == page(lines.read()), "run: python -m studies.coverage rules"


def test_the_results_show_what_the_page_says():
    """Intervals and tests that know the noise hold what they say; the others do not (standard errors as measured)."""
    found = lines.read()
    assert {line.part for line in found} == {
        "rules",
        "whole path",
        "regressions",
        "independence",
        "several sets",
    }
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
