"""Designs: everything, an optimal fraction, or a random part."""

from itertools import product

import numpy as np
import pytest
from experiment_studies import SMALL, altered
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import InputError
from dipsmith.experiments.design import Factor, fraction, fraction_of, model_matrix, resolution
from dipsmith.experiments.design import settings as settings_of
from dipsmith.experiments.ranges import Range
from dipsmith.experiments.study import parse


def efficiency(sizes, chosen, ways):
    """D-efficiency: 1 for an orthogonal design."""
    grid = np.array(list(product(*(range(s) for s in sizes))))
    x = model_matrix(grid[chosen], sizes, ways)
    return np.exp(np.linalg.slogdet(x.T @ x)[1] / x.shape[1]) / len(chosen)


def test_the_half_fraction_of_five_factors_is_the_textbooks():
    # 2^(5-1) of resolution V: 16 runs estimate 5 main effects and 10 interactions, all orthogonal.
    chosen = fraction([2] * 5, 16)
    assert efficiency([2] * 5, chosen, 2) == pytest.approx(1)
    parity = {sum(row) % 2 for row in np.array(list(product([0, 1], repeat=5)))[chosen]}
    assert len(parity) == 1


def test_mixed_levels_are_nearly_orthogonal():
    chosen = fraction([2, 2, 2, 2, 3], 24)
    assert efficiency([2, 2, 2, 2, 3], chosen, 1) > 0.95
    assert efficiency([2, 2, 2, 2, 3], chosen, 2) > 0.6


@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_fractions_are_settings_of_the_grid_without_repetition(sizes, seed):
    whole = int(np.prod(sizes))
    runs = min(whole - 1, 1 + sum(s - 1 for s in sizes) + 1)
    chosen = fraction(sizes, runs, seed)
    assert len(set(chosen)) == runs
    assert set(chosen) <= set(range(whole))
    assert efficiency(sizes, chosen, 1) > 0
    assert chosen == fraction(sizes, runs, seed)


def test_a_fraction_that_is_too_small_is_refused():
    with pytest.raises(InputError, match="give 6 or more"):
        fraction([2] * 5, 4)


def test_designs_of_a_study():
    wide = altered(SMALL, "{post: [project, clip]}", "{post: [project, clip], count_share: [0.01, 0.1, 0.2]}")
    assert len(settings_of(parse(wide))) == 2 * 2 * 3 + 2
    drawn = settings_of(parse(wide + "design: {random: 5}\n"))
    assert len(drawn) == 5 + 2
    assert drawn == settings_of(parse(wide + "design: {random: 5}\n"))
    assert drawn != settings_of(parse(altered(wide, "seed: 4", "seed: 5") + "design: {random: 5}\n"))
    part = settings_of(parse(wide + "design: {fractional: 6}\n"))
    assert len(part) == 6 + 2
    assert {s.levels["count_share"] for s in part[:6]} == {"0.01", "0.1", "0.2"}


def test_levels_may_be_named():
    assert Factor.of("w", {"none": None, "pay": {"pay": 40}}).values == (None, {"pay": 40})
    with pytest.raises(InputError, match="no levels"):
        Factor.of("w", [])


def test_resolution_is_that_of_the_textbooks():
    whole = np.array(list(product([0, 1], repeat=5)))
    for words, expected in (
        ([[0, 1, 2, 3, 4]], 5),
        ([[0, 1, 2, 3]], 4),
        ([[0, 1, 2], [0, 3, 4]], 3),
        ([[2]], 1),
    ):
        kept = np.all([whole[:, word].sum(axis=1) % 2 == 0 for word in words], axis=0)
        assert resolution(whole[kept], [2] * 5) == expected
    assert resolution(whole, [2] * 5) == 6  # all of it: nothing is mixed
    latin = np.array([[i, j, (i + j) % 3] for i in range(3) for j in range(3)])
    assert resolution(latin, [3, 3, 3]) == 3


def test_a_fraction_says_what_it_can_tell_apart():
    five = "vary: {count_share: [0.01, 0.02], sets: [1, 2], rows: [200, 300], post: [project, clip]}"
    wide = altered(SMALL, "vary: {post: [project, clip]}", five)
    study = parse(altered(wide, "repeats: 2", "repeats: 2\ndesign: {fractional: 16}"))
    found = fraction_of(study, study.methods[0])
    assert str(found) == "16 of 32, resolution V, D-efficiency 100% for main effects and pairs"
    few = parse(altered(wide, "repeats: 2", "repeats: 2\ndesign: {fractional: 8}"))
    assert str(fraction_of(few, few.methods[0])).startswith("8 of 32, resolution III, D-efficiency 100% for main")
    assert fraction_of(few, few.methods[1]) is None  # two settings: all are run
    assert fraction_of(parse(wide), parse(wide).methods[0]) is None


RANGED = """
name: ranged
question: Which?
data: {example: regression, rows: 300}
vary: {epsilon: {from: 0.1, to: 10, scale: log}}
methods:
  - {name: table, method: flat, vary: {count_share: {from: 0.01, to: 0.5}, post: [project, clip], sets: {from: 1, to: 3}}}
  - {name: columns, method: marginals}
design: {random: 40}
repeats: 1
seed: 4
metrics: [tvd-1]
"""


def test_ranges_are_covered_evenly_and_shared_parameters_are_drawn_alike():
    drawn = settings_of(parse(RANGED))
    table, columns = (
        [s.values for s in drawn if s.name == name and s.levels.keys() >= {"epsilon"}] for name in ("table", "columns")
    )
    assert len(table) == len(columns) == 40
    # A Latin hypercube has one value in each fortieth of the range, on its scale (values are rounded to 4 digits).
    fortieths = np.floor((np.log10([v["epsilon"] for v in table]) + 1) * 20 + 1e-9)
    assert len(set(fortieths)) >= 38
    assert [v["epsilon"] for v in table] == [v["epsilon"] for v in columns]
    assert sorted({v["post"] for v in table}) == ["clip", "project"]
    assert sum(v["post"] == "clip" for v in table) == 20
    assert {v["sets"] for v in table} == {1, 2, 3}
    assert all(isinstance(v["sets"], int) and 0.01 <= v["count_share"] <= 0.5 for v in table)
    assert drawn == settings_of(parse(RANGED))
    assert drawn != settings_of(parse(altered(RANGED, "seed: 4", "seed: 5")))


def test_the_label_of_a_drawn_setting_is_its_value():
    for setting in settings_of(parse(RANGED)):
        assert float(setting.levels["epsilon"]) == setting.values["epsilon"]


def test_few_whole_numbers_are_not_drawn_twice():
    few = altered(RANGED, "count_share: {from: 0.01, to: 0.5}, post: [project, clip], ", "")
    few = altered(few, "vary: {epsilon: {from: 0.1, to: 10, scale: log}}", "set: {epsilon: 1}")
    table = [s.values["sets"] for s in settings_of(parse(few)) if s.name == "table"]
    assert sorted(table) == [1, 2, 3]


@given(st.integers(1, 50), st.integers(1, 500), st.booleans(), st.floats(0, 1, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_what_is_drawn_lies_in_the_range_and_in_the_part_it_is_shown_in(low, width, logarithmic, u):
    for whole in (True, False):
        span = Range(low, low + width, logarithmic, whole)
        value = span.value(u)
        assert low <= value <= low + width
        assert span.label(value) in span.labels
        assert -1 - 1e-9 <= span.centre(np.array([float(value)]))[0] <= 1 + 1e-9
    assert span.value(0.0) == pytest.approx(low, rel=1e-3)


def test_whole_numbers_are_equally_likely_ends_included():
    drawn = [Range(1, 5, whole=True).value(u) for u in (np.arange(1000) + 0.5) / 1000]
    assert np.bincount(drawn, minlength=6)[1:].tolist() == [200] * 5
