"""Reports of studies: figures, effects, claims, and the Markdown page."""

import csv
import re
from itertools import product

import numpy as np
import pytest
from experiment_studies import SMALL, altered

from dipsmith.errors import InputError
from dipsmith.experiments.claims import _doubt, check, select_runs
from dipsmith.experiments.experiment import Experiment
from dipsmith.experiments.plots import figure, mean_and_width
from dipsmith.experiments.results import Response
from dipsmith.experiments.study import FigureEntry
from dipsmith.report.canvas import standalone

ANALYSED = """
analyses: [{name: fit, formula: "y ~ x1 + x2 + x3", by: x4, terms: [x1]}]
figures:
  - {metric: tvd-2, x: epsilon, lines: method}
  - {metric: fit, over: level, lines: epsilon, panels: method}
claims:
  - {says: more ε is better, metric: tvd-1, better: {epsilon: 2}, than: {epsilon: 0.5}}
  - {says: less ε is better, metric: tvd-1, better: {epsilon: 0.5}, than: {epsilon: 2}}
  - {says: ε matters, metric: tvd-1, where: {method: table}, term: [epsilon], share_above: 0.2}
  - {says: it explains everything, metric: tvd-1, where: {method: table}, term: [epsilon], share_above: 0.9999}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(SMALL + ANALYSED + "text: words.md\n")
    (folder / "words.md").write_text("A person wrote this.")
    experiment = Experiment.read(folder / "study.yaml", folder / "out")
    return experiment, experiment.run(1)


@pytest.mark.slow
def test_the_report_says_what_was_done_and_what_was_found(made):
    experiment, _ = made
    text = (experiment.out / "report.html").read_text()
    for words in (
        "Does more ε help?",
        "The rows are simulated: no privacy was spent",
        "6 settings (full factorial) × 2 repeats = 12 runs",
        "analysis of variance, 12 runs",
        "method × epsilon",
        "Means by level of each parameter",
    ):
        assert words in text, words
    assert text.count("<svg") == 2
    assert "CONFIDENTIAL" not in text


def test_means_in_the_figure_are_means_of_the_runs(made):
    experiment, results = made
    rows = list(csv.DictReader((experiment.out / "figure-1.csv").read_text().splitlines()))
    response = results.response("tvd-2")
    for row in rows:
        at = (response.factors["epsilon"] == row["epsilon"]) & (response.factors["method"] == row["method"])
        assert float(row["mean"]) == pytest.approx(response.values[at].mean())
        assert int(row["runs"]) == at.sum()


def test_coefficients_are_drawn_over_levels_beside_authentic_ones(made):
    experiment, results = made
    rows = list(csv.DictReader((experiment.out / "figure-2.csv").read_text().splitlines()))
    assert {r["level"] for r in rows} == {"1", "2", "3", "4", "5"}
    kept = results.rows("fit")
    first = rows[0]
    at = (kept["level"] == first["level"]) & (kept["method"] == first["method"]) & (kept["epsilon"] == first["epsilon"])
    assert float(first["mean"]) == pytest.approx(kept["value"][at].mean())
    assert float(first["authentic"]) == pytest.approx(kept["reference"][at].mean())


def test_claims_hold_or_do_not(made):
    _, results = made
    assert [c.holds for c in check(results)] == [True, False, True, False]


def test_the_page_is_markdown_with_figures_beside_it(made, tmp_path):
    experiment, results = made
    experiment.write_page(results, tmp_path / "page.md", "dipsmith experiment run study.yaml")
    text = (tmp_path / "page.md").read_text()
    assert "A person wrote this." in text
    assert "Made by `dipsmith experiment run study.yaml`." in text
    assert "| more ε is better |" in text
    for name in re.findall(r"\]\((page/[^)]+)\)", text):
        assert (tmp_path / name).exists(), name
    svg = (tmp_path / "page" / "figure-1.svg").read_text()
    assert "<style>:root { --paper" in svg
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    with pytest.raises(InputError, match="Markdown"):
        experiment.write_page(results, tmp_path / "page.txt", "")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"metric": "tvd-1", "x": "n_b", "lines": "epsilon"}, "'n_b' is not varied"),
        ({"metric": "tvd-1", "lines": "epsilon"}, "give x"),
        ({"metric": "nothing", "over": "level", "lines": "epsilon"}, "is no analysis"),
        ({"metric": "tvd-1", "x": "post", "lines": "method", "where": {"method": "table"}}, "one level only"),
        (
            {"metric": "tvd-1", "x": "post", "lines": "method", "where": {"epsilon": 7}},
            "no run has epsilon = 7",
        ),
    ],
)
def test_figures_that_cannot_be_drawn_say_why(made, entry, said):
    _, results = made
    with pytest.raises(InputError, match=said):
        figure(FigureEntry(**entry), results, {}, "f")


def test_many_lines_get_a_panel_each(tmp_path):
    text = altered(SMALL, "{epsilon: [0.5, 2]}", "{epsilon: [0.5, 1, 2, 4, 8]}")
    (tmp_path / "study.yaml").write_text(
        altered(text, "repeats: 2", "repeats: 1") + "figures: [{metric: tvd-1, x: method, lines: epsilon}]\n"
    )
    experiment = Experiment.read(tmp_path / "study.yaml", tmp_path / "out")
    (drawn,) = experiment.page(experiment.run(1)).figures()
    for level in ("0.5", "1", "2", "4", "8"):
        assert f">{level}</text>" in drawn.svg


def test_half_widths_are_students():
    assert mean_and_width(np.array([1.0, 3.0])) == (2.0, pytest.approx(12.706, abs=1e-3))
    mean, width = mean_and_width(np.array([np.nan]))
    assert np.isnan(mean)
    assert np.isnan(width)


def test_standalone_drawings_have_a_size():
    assert standalone('<svg viewBox="0 0 400 200"><g/></svg>').startswith(
        '<svg viewBox="0 0 400 200" width="500" height="250"'
    )


def test_the_doubt_of_a_claim_is_that_of_the_difference_within_repeats():
    # Two methods, two ε, three repeats: ε moves both by 10 and repeats by 1; the difference is 1, 2 and 3.
    method, epsilon, repeat = (np.array(v) for v in zip(*product("ab", "12", range(3)), strict=True))
    values = 10.0 * (epsilon == "1") + repeat + np.where(method == "b", repeat + 1.0, 0.0)
    response = Response("m", "", {"method": method, "epsilon": epsilon}, repeat, values, values)
    sides = [select_runs(response, {"method": m}) for m in "ab"]
    assert _doubt(*sides) == "standard error of the difference 0.577, 3 repeats"  # 1/√3
    assert _doubt(sides[0].where(sides[0].repeat == 0), sides[1]) == "one repeat"


RANGED = """
name: ranged
question: Which ε, and how many sets?
data: {example: regression, rows: 300}
vary: {epsilon: {from: 0.1, to: 12.34, scale: log}}
methods:
  - {name: table, method: flat, set: {each: draw}, vary: {sets: {from: 1, to: 2}}}
  - {name: columns, method: marginals}
design: {random: 8}
repeats: 1
metrics: [tvd-1]
claims:
  - {says: more ε is better, metric: tvd-1, better: {epsilon: {from: 4}}, than: {epsilon: {to: 0.3}}}
  - {says: a part by its name, metric: tvd-1, better: {epsilon: 3.7 to 12.3}, than: {epsilon: 0.1 to 0.333}}
"""


def test_a_study_of_ranges_is_drawn_run_and_reported(tmp_path):
    (tmp_path / "study.yaml").write_text(RANGED)
    experiment = Experiment.read(tmp_path / "study.yaml", tmp_path / "out")
    results = experiment.run(1)
    drawn = results.table.column("epsilon").to_pylist()
    assert len(set(drawn)) == 8  # the numbers themselves, the same eight for both methods
    experiment.write_page(results, tmp_path / "page.md", "dipsmith experiment run study.yaml")
    text = (tmp_path / "page.md").read_text()
    assert "| Varied: epsilon | 0.1 to 12.34 (logarithmic) |" in text
    assert "| Varied: sets | 1 to 2 (whole numbers, linear) |" in text
    assert "16 settings (random, Latin hypercube) × 1 repeat =" in text
    assert "best of 16 settings" in text
    assert "| epsilon | 2 |" in text  # degrees of freedom of a curve
    assert [c.holds for c in check(results)] == [True, True]
    assert re.search(r"0\.333 to", (tmp_path / "page" / "figure-1.svg").read_text())  # labels keep their digits
    with pytest.raises(InputError, match=r"'epsilon' is a range; choose a part of it"):
        select_runs(results.response("tvd-1"), {"epsilon": 1})
