"""χ² conclusions beside the constant answers, Cramér's V, and Karr's overlap."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from dipsmith.schema import Codes
from dipsmith.utility.association import (
    Associations,
    PairTest,
    associations,
    chi_squared,
    consistency,
    count_in_words,
    p_table,
    spearman,
)
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.findings import Findings
from dipsmith.utility.pair import Pair
from dipsmith.utility.regression import Coefficient, overlap, width_ratio


def test_statistics_are_scipys(small):
    rng = np.random.default_rng(0)
    schema = small.lists([3, 4, 5])
    left = small.uniform(schema, 500, rng)
    left = Codes.of(schema, {**left.columns, "x1": (left["x0"] + (rng.random(500) < 0.5)).astype(int)}, 500)
    found = associations(Crosstabs(Pair(left, small.uniform(schema, 400, rng))))
    assert len(found.pairs) == 3
    first = found.pairs[0]
    table = np.bincount(left["x0"].astype(int) * 4 + left["x1"], minlength=12).reshape(3, 4)
    kept = table[:, table.sum(axis=0) > 0]
    expected = stats.chi2_contingency(kept, correction=False)
    assert first.statistic[0] == pytest.approx(expected.statistic)
    assert first.freedom[0] == expected.dof
    assert first.p[0] == pytest.approx(expected.pvalue)
    assert first.v[0] == pytest.approx(stats.contingency.association(kept, method="cramer"))


def test_constant_answers_stand_beside_the_agreement():
    # 105 tests of which 16, 15 and 11 are not significant at 1, 5 and 10 %: "nothing" scores .152/.143/.105.
    p = np.concatenate([np.full(89, 0.001), [0.03], np.full(4, 0.07), np.full(11, 0.5)])
    rows = [consistency(p, np.full(105, 0.9), level) for level in (0.01, 0.05, 0.10)]
    assert [round(r.nothing, 3) for r in rows] == [0.152, 0.143, 0.105]
    assert [round(r.everything, 3) for r in rows] == [0.848, 0.857, 0.895]
    # a constant answer earns its constant score …
    assert [r.agreement for r in rows] == pytest.approx([r.nothing for r in rows])
    assert [r.kappa for r in rows] == pytest.approx([0, 0, 0])  # … and no κ


def test_kappa_is_cohens():
    rng = np.random.default_rng(1)
    a, s = rng.random(60) ** 3, rng.random(60) ** 3
    found = consistency(a, s, 0.05)
    assert found.kappa == pytest.approx(cohen_kappa_score(a <= 0.05, s <= 0.05))


def test_p_values_are_classed_by_both_tables():
    table = p_table([0.01, 0.011, 0.05, 0.1, 0.2], [0.001, 0.2, 0.04, 0.06, 0.3])
    assert table.tolist() == [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert table.sum() == 5


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 5, 30), rng.random(30)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_all_pairs_of_sixty_columns_are_tested(small, monkeypatch):
    """What a verdict names as lost is the worst of all pairs, and it says where they are not all."""
    columns = small.lists([2] * 60)
    crosstabs = Crosstabs(
        Pair(small.uniform(columns, 20, np.random.default_rng(0)), small.uniform(columns, 20, np.random.default_rng(1)))
    )
    assert len(crosstabs.ways(2)) == 60 * 59 / 2
    given = tuple(columns.names[:10])
    for most, words in ((2000, "1,725 pairs"), (700, "700 pairs that were tested, out of 1,725")):
        monkeypatch.setattr("dipsmith.utility.crosstabs.MOST_PAIRS", most)
        tests = [
            PairTest(names, (0, 0), (1, 1), (1, 1), (0, 0))
            for names in combinations(columns.names, 2)
            if not set(names) <= set(given)
        ]
        found = Findings(
            "r", None, (20, 20), given, tuple(columns.names[10:]), {"associations": Associations(tuple(tests[:most]))}
        )
        assert count_in_words(found) == words


def test_a_column_without_variation_has_no_association():
    assert chi_squared(np.array([[5, 5], [0, 0]])) == (0.0, 0, 0.0)


def test_attenuated_associations_are_seen_where_conclusions_agree(small):
    rng = np.random.default_rng(3)
    schema = small.lists([2, 2, 2, 2])
    base = rng.integers(0, 2, 20_000)

    def made(strengths):
        columns = {"x0": base}
        for i, s in enumerate(strengths, start=1):
            columns[f"x{i}"] = np.where(rng.random(20_000) < s, base, rng.integers(0, 2, 20_000))
        return Codes.of(schema, columns, 20_000)

    found = associations(Crosstabs(Pair(made([0.9, 0.5, 0.2]), made([0.2, 0.5, 0.9]))))
    assert found.consistency()[1].agreement == 1
    assert found.rank_correlation < 0.5


# Interval overlap ------------------------------------------------------------------------------------------------------


def test_overlap_of_the_reference_cases():
    assert overlap((0, 1), (0, 1)) == 1
    assert overlap((0, 1), (2, 3)) == 0
    assert overlap((0, 1), (1, 2)) == 0  # they touch
    assert overlap((0, 2), (1, 3)) == 0.5
    assert overlap((0, 1), (-500, 500)) == pytest.approx(0.5, abs=0.001)  # tiny in huge: .500
    assert overlap((0, 4), (1, 3)) == pytest.approx(0.75)
    assert overlap((1, 1), (0, 2)) == 0.5
    assert overlap((1, 1), (1, 1)) == 1


finite = st.floats(-100, 100)


@given(finite, finite, finite, finite)
def test_overlap_is_symmetric_and_bounded(a, b, c, d):
    one, two = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    assert overlap(one, two) == pytest.approx(overlap(two, one))
    assert 0 <= overlap(one, two) <= 1 + 1e-9
    if one[0] <= two[0] and two[1] <= one[1]:
        assert overlap(one, two) >= 0.5


def test_width_and_cover():
    assert width_ratio((0, 2), (0, 1)) == 0.5
    assert Coefficient("x", 0.2, (0, 1), 0.5, (0, 1)).covered
    assert not Coefficient("x", 0.2, (0, 1), 1.5, (1, 2)).covered
