"""Histograms of every column, and of one column within another: distances, floors, order, and what is drawn."""

import numpy as np
import pytest

from dipsmith.report.histograms import ENDS, Overlay, overlays, scale_end
from dipsmith.schema import Codes
from dipsmith.utility.columns import histograms, pair_histograms
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.pair import Pair
from dipsmith.utility.panels import OTHERS, bar_columns, joint_bars, longest_lists, p_slopes


def sides(schema, n=6000, moved=0.3, seed=0):
    """Two tables of uniform columns; in the second, x1 has its first level more often."""
    rng = np.random.default_rng(seed)
    found = []
    for shift in (0.0, moved):
        columns = {a.name: rng.integers(0, a.size, n) for a in schema}
        columns["x1"] = np.where(rng.random(n) < shift, 0, columns["x1"])
        found.append(Codes.of(schema, columns, n))
    return found


@pytest.fixture
def tables(small):
    return Crosstabs(Pair(*sides(small.lists([3, 4, 30], ordered=(2,)))))


def test_the_worst_column_comes_first_with_its_distance_and_its_floor(tables):
    found = histograms(tables)
    assert found[0].name == "x1"
    assert [h.excess for h in found] == sorted((h.excess for h in found), reverse=True)
    shares = [
        np.bincount(side["x1"], minlength=4) / len(side) for side in (tables.pair.authentic, tables.pair.synthetic)
    ]
    assert found[0].tvd == pytest.approx(0.5 * np.abs(shares[0] - shares[1]).sum())
    assert found[0].tvd == pytest.approx(0.3 * 0.75, abs=0.03)
    assert np.allclose(found[0].bars.authentic, shares[0])
    for same in found[1:]:
        assert same.tvd < 3 * same.floor  # equal laws: nothing but chance
    assert {h.name: h.ordered for h in found} == {"x0": False, "x1": False, "x2": True}


def test_public_columns_come_last_and_are_not_judged(small):
    schema = small.lists([3, 4], neighbours="label", public=(0,))
    one, other = sides(schema)
    other = Codes.of(schema, {"x0": one["x0"], "x1": other["x1"]}, len(one))
    found = histograms(Crosstabs(Pair.of(one, other, schema.public)))
    assert [(h.name, h.given) for h in found] == [("x1", False), ("x0", True)]
    assert found[1].tvd == found[1].floor == 0.0


def test_one_column_within_the_levels_of_another(tables):
    pair = pair_histograms(tables, ("x2", "x1"))
    assert (pair.within, pair.column) == ("x1", "x2")  # fewer levels outside
    assert len(pair.groups) == 4
    group = next(h for h in pair.groups if h.name.startswith("x1 l2"))
    mine = [side["x2"][side["x1"] == 2] for side in (tables.pair.authentic, tables.pair.synthetic)]
    shares = [np.bincount(m, minlength=30) / len(m) for m in mine]
    assert group.name == f"x1 l2: {len(mine[0]):,} rows"
    assert group.tvd == pytest.approx(0.5 * np.abs(shares[0] - shares[1]).sum())
    assert pair.tvd == tables["x1", "x2"].tvd


def test_the_floor_within_a_group_is_what_exchanged_rows_give(tables):
    """60 exchanges of rows within the group: their mean is within 5 standard errors of the floor."""
    pair = pair_histograms(tables, ("x2", "x1"))
    group = next(h for h in pair.groups if h.name.startswith("x1 l3"))
    one, other = (side["x2"][side["x1"] == 3] for side in (tables.pair.authentic, tables.pair.synthetic))
    both, rng, found = np.concatenate([one, other]), np.random.default_rng(5), []
    for _ in range(60):
        rng.shuffle(both)
        left, right = (np.bincount(p, minlength=30) / len(p) for p in (both[: len(one)], both[len(one) :]))
        found.append(0.5 * np.abs(left - right).sum())
    assert group.floor == pytest.approx(np.mean(found), abs=5 * np.std(found) / np.sqrt(60))


def test_the_third_column_of_panel_a_can_be_named(small):
    schema = small.lists([12, 5, 2, 3], neighbours="label", public=(0, 1))
    one, other = sides(schema)
    other = Codes.of(schema, {**other.columns, "x0": one["x0"], "x1": one["x1"]}, len(one))
    tables = Crosstabs(Pair.of(one, other, schema.public))
    assert bar_columns(tables.pair) == ("x0", "x2", "x3")
    assert bar_columns(tables.pair, "x1") == ("x1", "x2", "x3")
    assert bar_columns(tables.pair, "x2") == ("x2", "x3")
    assert len(joint_bars(tables, "x1")) == 30
    assert joint_bars(tables, "x1").authentic.sum() == pytest.approx(1)


def test_points_of_the_two_longest_lists_are_told_apart(small):
    schema = small.lists([12, 5, 2, 40], neighbours="label", public=(0, 1, 3), ordered=(3,))
    one, other = sides(schema)
    other = Codes.of(schema, {"x2": other["x2"], **{n: one[n] for n in ("x0", "x1", "x3")}}, len(one))
    tables = Crosstabs(Pair.of(one, other, schema.public))
    assert longest_lists(tables.pair) == ("x0", "x1")
    found = p_slopes(tables)
    parts = found.by_group()
    assert [name for name, _ in parts] == ["x0", "x1", OTHERS]
    assert sum(len(p) for _, p in parts) == len(found)
    for name, part in parts[:2]:
        assert all(name in label for label in part.labels)
    assert not any("x0" in label or "x1" in label for label in parts[2][1].labels)


def test_scales_end_at_a_few_shares():
    assert [scale_end([np.array([share])]) for share in (0.001, 0.02, 0.03, 0.6, 0.8)] == [0.02, 0.02, 0.05, 0.75, 1.0]
    assert ENDS[-1] == 1.0


def test_outlines_of_equal_releases_take_turns():
    """The dashes of four releases on one line: each place belongs to one of them."""
    from dipsmith.report.histograms import _outline_style

    on = []
    for i in range(4):
        offset, (dash, gap) = _outline_style(i, 4)["linestyle"]
        on.append((np.arange(64) + offset) % (dash + gap) < dash)
    assert (np.sum(on, axis=0) == 1).all()


def test_authentic_is_filled_and_synthetic_a_dashed_outline_on_paper():
    pytest.importorskip("matplotlib")
    shares = np.array([0.5, 0.3, 0.2])
    many = np.full(20, 0.05)
    drawn = [
        Overlay("few", "TVD .1; chance .05", list("abc"), shares, [shares[::-1]], ordered=False),
        Overlay("many", "", [str(i) for i in range(20)], many, [many], ordered=True),
        Overlay(
            "long", "", [f"level {i}" for i in range(30)], np.full(30, 1 / 30), [np.full(30, 1 / 30)], ordered=False
        ),
        Overlay("known", "public", list("ab"), shares[:2], [shares[:2]], ordered=False, public=True),
    ]
    svg = overlays(drawn, ["synthetic"])
    for words in (">authentic<", ">synthetic<", ">public, the same in both<", ">23 others<", ">50<"):
        assert words in svg
    # of three panels: bars of ink, then a rim of paper, then the dashed outline of the first release
    assert svg.count("fill: var(--ink)") >= 3 + 8 + 1
    dashed = [part for part in svg.split("<path") if "stroke-dasharray" in part]
    assert len([part for part in dashed if "var(--accent)" in part]) >= 3 + 8 + 1
    assert svg.index("stroke: var(--paper)") < svg.index("stroke: var(--accent)")
