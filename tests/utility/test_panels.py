"""The panels: joint proportions, p-slopes, correlations, logistic coefficients."""

import numpy as np
import pytest

from dipsmith.schema import Codes
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.pair import Pair
from dipsmith.utility.panels import (
    Points,
    correlations,
    joint_bars,
    joint_proportions,
    logistic_panel,
    p_slopes,
    slopes,
    targets_of,
)


@pytest.fixture
def pair(small):
    schema = small.lists([12, 5, 2, 3], neighbours="label", public=(0, 1))
    rng = np.random.default_rng(0)
    n = 4000
    public = {"x0": rng.integers(0, 12, n), "x1": rng.integers(0, 5, n)}
    sides = []
    for strength in (0.25, 0.15):
        sex = (rng.random(n) < 0.5 + strength * np.sin(public["x0"])).astype(int)
        sides.append(Codes.of(schema, {**public, "x2": sex, "x3": rng.integers(0, 3, n)}, n))
    return Pair.of(*sides, schema.public)


def indicator(codes, label):
    name, level = label.split(" = l")
    return (codes[name] == int(level)).astype(float)


def test_p_slopes_are_least_squares_slopes(pair):
    found = p_slopes(Crosstabs(pair))
    assert len(found) > 50
    for i in np.random.default_rng(1).choice(len(found), 25, replace=False):
        y, x = found.labels[i].split(" by ")
        for side, value in ((pair.authentic, found.authentic[i]), (pair.synthetic, found.synthetic[i])):
            fitted = np.polyfit(indicator(side, x), indicator(side, y), 1)[0]
            assert value == pytest.approx(fitted, abs=1e-9)


def test_correlations_follow_from_slopes(pair):
    found = correlations(Crosstabs(pair))
    for i in np.random.default_rng(2).choice(len(found), 25, replace=False):
        a, b = (indicator(pair.authentic, part) for part in found.labels[i].split(" by "))
        assert found.authentic[i] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-9)
        slope = np.polyfit(b, a, 1)[0]
        spread = [v.mean() * (1 - v.mean()) for v in (b, a)]
        assert found.authentic[i] == pytest.approx(slope * np.sqrt(spread[0] / spread[1]))


def test_pairs_of_given_columns_are_left_out(pair):
    labels = " ".join(p_slopes(Crosstabs(pair)).labels)
    assert "x0 = l0 by x1" not in labels
    assert "x2 = l0 by x0" in labels


def test_rare_levels_are_left_out(small):
    schema = small.lists([3, 3])
    rng = np.random.default_rng(3)
    columns = {"x0": np.r_[np.full(5, 2), rng.integers(0, 2, 995)], "x1": rng.integers(0, 3, 1000)}
    codes = Codes.of(schema, columns, 1000)
    assert not any("x0 = l2" in label for label in correlations(Crosstabs(Pair(codes, codes))).labels)


def test_joint_proportions_sum_to_the_number_of_other_columns(pair):
    crosstabs = Crosstabs(pair)
    assert targets_of(pair) == ("x2", "x3")
    found = joint_proportions(crosstabs)
    assert found.authentic.sum() == pytest.approx(2)  # one table for each of x0 and x1
    assert found.correlation > 0.9
    bars = joint_bars(crosstabs)
    assert bars.authentic.sum() == pytest.approx(1)
    top = bars.top(5)
    assert (np.diff(top.authentic) <= 0).all()


def test_no_two_points_of_a_panel_have_the_same_label(pair):
    tables = Crosstabs(pair)
    for points in (p_slopes(tables), correlations(tables), joint_proportions(tables), logistic_panel(pair).points):
        assert len(set(points.labels)) == len(points.labels) > 0


def test_attenuation_shows_as_a_slope_below_one(pair):
    panel = logistic_panel(pair)
    assert panel.target == "x2"
    assert panel.predictors == ("x0", "x1")
    assert 0.4 < panel.points.slope < 0.8  # .15 / .25 of the effects are kept


@pytest.mark.slow
def test_logistic_coefficients_are_those_of_statsmodels(pair):
    sm = pytest.importorskip("statsmodels.api")
    panel = logistic_panel(pair)
    references = {p: int(r[1:]) for p, r in zip(panel.predictors, panel.references, strict=True)}
    columns, names = [np.ones(4000)], []
    for name in panel.predictors:
        for level in range(pair.schema[name].size):
            if level != references[name]:
                columns.append((pair.authentic[name] == level).astype(float))
                names.append(f"{name} = l{level}")
    y = (pair.authentic["x2"] == 0).astype(float)
    expected = sm.Logit(y, np.column_stack(columns)).fit(disp=0)
    by_name = dict(
        zip(
            panel.points.labels,
            zip(panel.points.authentic, panel.points.authentic_se, strict=True),
            strict=True,
        )
    )
    assert set(by_name) == set(names)
    for i, name in enumerate(names, start=1):
        assert by_name[name][0] == pytest.approx(expected.params[i], abs=1e-4)
        assert by_name[name][1] == pytest.approx(expected.bse[i], abs=1e-3)


def test_no_binary_target_no_logistic_panel(small):
    schema = small.lists([3, 4])
    codes = small.uniform(schema, 100, np.random.default_rng(4))
    assert logistic_panel(Pair(codes, codes)) is None


def test_slopes_of_a_level_that_everybody_has_are_unknown():
    assert np.isnan(slopes(np.array([[3, 4], [0, 0]]))[1]).all()


def test_points_without_variation_have_no_correlation():
    assert np.isnan(Points(("a",), np.ones(1), np.ones(1)).correlation)
    assert np.isnan(Points((), np.zeros(0), np.zeros(0)).rmse)
