"""Propensity scores, SPECKS, pMSE and binned scores: against independent implementations, and against chance."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import OneHotEncoder

from dipsmith.errors import MissingExtraError, UsageError
from dipsmith.schema import Codes
from dipsmith.utility.classifiers import CLASSIFIERS
from dipsmith.utility.logistic import CodedColumn, Indicators, fit_logistic, rank
from dipsmith.utility.pair import Pair
from dipsmith.utility.propensity import Scored, _Stacked, propensity
from dipsmith.utility.telling_apart import (
    binned_scores,
    distance,
    independent_null,
    mean_specks,
    mean_squared,
    pmse,
    snoke_null,
    specks,
    statistic,
)


@pytest.fixture
def shifted(small):
    """Two tables of five columns whose first column differs in distribution."""
    schema = small.lists([3, 4, 2, 5, 2])
    rng = np.random.default_rng(7)
    left, right = small.uniform(schema, 3000, rng), small.uniform(schema, 2000, rng)
    moved = np.where(rng.random(2000) < 0.3, 0, right["x0"])
    return Pair(left, Codes.of(schema, {**right.columns, "x0": moved}, 2000))


def independent_scores(pair):
    """The same propensity model by scikit-learn: one-hot columns, no penalty."""
    both = np.column_stack([np.r_[pair.authentic[n], pair.synthetic[n]] for n in pair.names])
    y = np.repeat([0, 1], [len(pair.authentic), len(pair.synthetic)])
    X = OneHotEncoder(drop="first").fit_transform(both)
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=500).fit(X, y)
    return model.predict_proba(X)[:, 1], y, X.shape[1] + 1


def test_specks_and_pmse_agree_with_an_independent_implementation(shifted):
    scores, y, k = independent_scores(shifted)
    found = propensity(shifted, draws=0)
    assert found.parameters == k
    expected = stats.ks_2samp(scores[y == 0], scores[y == 1]).statistic
    assert specks(found).value == pytest.approx(expected, abs=1e-6)
    c = y.mean()
    assert pmse(found).value == pytest.approx(((scores - c) ** 2).mean(), rel=1e-6)
    mean, sd = snoke_null(k, len(y), c)
    assert pmse(found).standardised == pytest.approx((((scores - c) ** 2).mean() - mean) / sd, rel=1e-5)
    assert pmse(found).ratio == pytest.approx(((scores - c) ** 2).mean() / mean, rel=1e-6)


def test_specks_is_far_from_its_null_when_the_tables_differ(shifted):
    found = specks(propensity(shifted, draws=60))
    assert found.value > 3 * found.null_95
    assert found.beyond_chance


def test_the_null_of_specks_is_not_zero(small):
    # Two samples of 2,000 with nine covariates: mean .051, 95 % point .069. 400 draws: s.e. of the mean .0005; the
    # tolerance of .004 is eight of them.
    rng = np.random.default_rng(1)
    schema = small.lists([2] * 9)
    pair = Pair(small.uniform(schema, 2000, rng), small.uniform(schema, 2000, rng))
    found = specks(propensity(pair, draws=400))
    assert found.null_mean == pytest.approx(0.051, abs=0.004)
    assert found.null_95 == pytest.approx(0.069, abs=0.006)


@pytest.mark.slow
def test_pmse_has_two_nulls(small):
    # k = 10, N = 4,000, c = ½: 2.81e-4 for synthetic rows drawn from the authentic ones, 5.63e-4 for two independent
    # samples. The mean of 400 draws has a relative s.e. of √(2/9/400) = 2.4 %; the tolerance is five of them.
    rng = np.random.default_rng(2)
    schema = small.lists([2] * 9)
    pair = Pair(small.uniform(schema, 2000, rng), small.uniform(schema, 2000, rng))
    found = propensity(pair, draws=400)
    relabelled = np.array([mean_squared(d) for d in found.null])
    again = [Pair(pair.authentic, pair.authentic.take(rng.integers(0, 2000, 2000))) for _ in range(400)]
    resampled = np.array([mean_squared(propensity(p, draws=0).scored) for p in again])
    for drawn, theory in ((resampled, snoke_null), (relabelled, independent_null)):
        mean, sd = theory(10, 4000, 0.5)
        assert drawn.mean() == pytest.approx(mean, rel=0.12)
        assert drawn.std(ddof=1) == pytest.approx(sd, rel=0.25)
    assert f"{snoke_null(10, 4000, 0.5)[0]:.3g}" == "0.000281"
    assert f"{independent_null(10, 4000, 0.5)[0]:.3g}" == "0.000563"
    assert pmse(found).independent_mean / pmse(found).resampled_mean == pytest.approx(2)


def test_one_newton_step_is_as_good_as_refitting_under_the_null(small):
    rng = np.random.default_rng(3)
    schema = small.lists([2, 3, 4, 2])
    pair = Pair(small.uniform(schema, 1500, rng), small.uniform(schema, 1500, rng))
    quick = specks(propensity(pair, draws=200, seed=5))
    stacked = _Stacked.of(pair)
    refitted = []
    design = Indicators.of(Codes.concatenate([pair.authentic, pair.synthetic]), [(n,) for n in pair.names])
    for _ in range(100):
        flags = stacked.relabel(rng)
        model = fit_logistic(design, flags.astype(float), np.ones(3000))
        refitted.append(distance(Scored(design.times(model.b), (~flags).astype(float), flags.astype(float))))
    # s.e. of the difference of means about .0011; tolerance six of them
    assert quick.null_mean == pytest.approx(np.mean(refitted), abs=0.007)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_every_classifier_by_name_sees_a_large_difference(small, classifier):
    rng = np.random.default_rng(4)
    schema = small.lists([3, 4, 2])
    left, right = small.uniform(schema, 800, rng), small.uniform(schema, 800, rng)
    # the marginals agree; only the pair (x1, x2) differs, which main effects cannot see
    right = Codes.of(schema, {**right.columns, "x2": (right["x1"] % 2 == rng.integers(0, 8, 800) % 2).astype(int)}, 800)
    left = Codes.of(schema, {**left.columns, "x1": (left["x1"] // 2) * 2 + left["x2"]}, 800)
    found = specks(propensity(Pair(left, right), classifier, draws=20))
    assert found.classifier == classifier
    assert found.crossfitted == (classifier != "logistic")
    assert found.beyond_chance or classifier == "logistic"


def test_any_scikit_learn_classifier_will_do(shifted):
    found = specks(propensity(shifted, BernoulliNB(), draws=20))
    assert found.classifier == "BernoulliNB"
    assert found.beyond_chance


def test_classifiers_are_refused_in_words(shifted, monkeypatch):
    with pytest.raises(UsageError, match="'guess' is unknown; choose one of logistic"):
        propensity(shifted, "guess")
    with pytest.raises(UsageError, match="needs fit and predict_proba"):
        propensity(shifted, object())
    monkeypatch.setattr("dipsmith.utility.classifiers.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="analysis"):
        propensity(shifted, "cart")


@pytest.mark.slow
def test_an_overfitting_classifier_finds_nothing_when_cross_fitted(small):
    # In sample a deep tree separates two samples of one population almost perfectly; cross-fitted it must stay within
    # what chance gives: 40 pairs, each rejected with probability ≤ 5 %; more than 11 of 40 has probability < 1e-6,
    # and the null is conservative besides.
    from sklearn.tree import DecisionTreeClassifier

    schema = small.lists([8, 8, 8])
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pair = Pair(small.uniform(schema, 400, rng), small.uniform(schema, 400, rng))
        rejected += specks(propensity(pair, DecisionTreeClassifier(), draws=40, seed=seed)).beyond_chance
    assert rejected <= 11


def labelled(small, n, rng, effect):
    """A label release: the first two columns are given, the third is drawn from its distribution given them."""
    schema = small.lists([40, 40, 2], neighbours="label", public=(0, 1))
    public = {"x0": rng.integers(0, 40, n), "x1": rng.integers(0, 40, n)}
    p = 0.2 + 0.6 * (public["x0"] < 20)
    sides = []
    for shift in (0.0, effect):
        order = rng.permutation(n)
        labels = (rng.random(n) < p + shift).astype(int)
        sides.append(Codes.of(schema, {"x0": public["x0"][order], "x1": public["x1"][order], "x2": labels[order]}, n))
    return Pair.of(*sides, schema.public)


def test_public_columns_are_recognised_and_held_fixed(small):
    rng = np.random.default_rng(5)
    pair = labelled(small, 2000, rng, 0.0)
    assert pair.given == ("x0", "x1")
    assert pair.changed == ("x2",)
    assert propensity(pair, draws=0).parameters == 2  # the intercept and one label
    flags = _Stacked.of(pair).relabel(rng)
    stratum = np.concatenate(pair.strata)
    assert (np.bincount(stratum[flags]) == np.bincount(stratum[~flags])).all()
    other = Codes.of(pair.schema, {**pair.synthetic.columns, "x0": np.zeros(2000, int)}, 2000)
    assert Pair.of(pair.authentic, other, ("x0", "x1")).given == ()


@pytest.mark.slow
def test_a_twin_does_not_give_a_row_away(small):
    # Rows with the same public columns, one in each table: a classifier that saw one would know the other.
    from sklearn.tree import DecisionTreeClassifier

    beyond = 0
    for seed in range(20):
        pair = labelled(small, 1500, np.random.default_rng(seed), 0.0)
        found = specks(propensity(pair, DecisionTreeClassifier(), draws=40, seed=seed))
        beyond += found.beyond_chance
        assert found.value < 0.15
    assert beyond <= 8  # P(more than 8 of 20 at 5 %) < 1e-6
    real = labelled(small, 1500, np.random.default_rng(99), 0.15)
    assert specks(propensity(real, "cart", draws=40)).beyond_chance


def test_sampling_takes_whole_strata(small):
    pair = labelled(small, 3000, np.random.default_rng(6), 0.0)
    some = pair.sample(500, np.random.default_rng(0))
    assert 300 < len(some.authentic) <= 500
    assert len(some.authentic) == len(some.synthetic)
    assert some.given == pair.given
    left, right = some.strata
    assert (np.bincount(left) == np.bincount(right)).all()


def test_binned_scores_by_hand():
    scored = Scored(np.array([0.1, 0.2, 0.3, 0.4]), np.array([30.0, 20, 10, 0]), np.array([0.0, 10, 20, 30]))
    # two groups of 60: (50, 10) and (10, 50); expected 30 each, c = ½
    assert statistic(scored, 2) == pytest.approx(2 * 20**2 / (0.25 * 60))
    equal = Scored(np.array([0.1, 0.9]), np.array([50.0, 50]), np.array([50.0, 50]))
    assert statistic(equal, 10) == 0


def test_binned_scores_see_the_difference(shifted):
    found = binned_scores(propensity(shifted, "cart", draws=30))
    assert found.p < 1e-6
    assert found.statistic > 4 * found.null_mean
    assert sum(a + s for _, a, s in found.groups) == 5000


@pytest.mark.slow
def test_binned_scores_keep_their_size_in_sample(small):
    """Two samples of one population, scored by the rows that logistic main effects were fitted to."""
    # 100 pairs: 20 rejections or more at a size of .05 have probability 5e-8, at a size of .08 (few draws) 2e-4 with this
    # seed's outcome fixed. Referred to χ² with nine degrees of freedom, more than half are rejected.
    schema, rejected, by_chi = small.lists([4] * 5), 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        pair = Pair(small.uniform(schema, 300, rng), small.uniform(schema, 300, rng))
        found = binned_scores(propensity(pair, draws=20, seed=seed))
        rejected += found.p < 0.05
        by_chi += stats.chi2.sf(found.statistic, found.freedom) < 0.05
    assert rejected < 20
    assert by_chi > 50
    without = binned_scores(propensity(pair, draws=0))
    assert np.isnan(without.p)


def test_binned_scores_see_the_difference_in_sample(shifted):
    assert binned_scores(propensity(shifted, draws=30)).p < 1e-6


def test_ties_count_together():
    scored = Scored(np.array([0.5, 0.5]), np.array([1.0, 0]), np.array([0.0, 1]))
    assert distance(scored) == 0
    rng = np.random.default_rng(0)
    a, s = rng.integers(0, 10, 300) / 10, rng.integers(2, 12, 200) / 10
    both = Scored(np.r_[a, s], np.r_[np.ones(300), np.zeros(200)], np.r_[np.zeros(300), np.ones(200)])
    assert distance(both) == pytest.approx(stats.ks_2samp(a, s).statistic)


def test_sets_are_averaged(shifted):
    one = specks(propensity(shifted, draws=5))
    assert mean_specks([one, one]).value == one.value


def columns(**coded):
    return Indicators(tuple(CodedColumn((name,), index, size) for name, (index, size) in coded.items()))


def test_logistic_regression_equals_statsmodels(small):
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(8)
    x, z = rng.integers(0, 4, 900), rng.integers(0, 3, 900)
    y = (rng.random(900) < 1 / (1 + np.exp(-(0.5 * x - z + 0.3)))).astype(float)
    design = columns(x=(x, 4), z=(z, 3))
    model = fit_logistic(design, y, np.ones(900))
    X = np.column_stack([np.ones(900), *(x == i for i in (1, 2, 3)), *(z == i for i in (1, 2))]).astype(float)
    expected = sm.Logit(y, X).fit(disp=0)
    effect, error = model.contrast(design, 0, 0)
    np.testing.assert_allclose(effect[1:], expected.params[1:4], atol=1e-5)
    np.testing.assert_allclose(error[1:], expected.bse[1:4], atol=1e-4)
    effect, error = model.contrast(design, 1, 0)
    np.testing.assert_allclose(effect[1:], expected.params[4:], atol=1e-5)


def test_quasi_newton_finds_what_newton_finds(monkeypatch):
    rng = np.random.default_rng(9)
    x, z = rng.integers(0, 30, 4000), rng.integers(0, 20, 4000)
    y = (rng.random(4000) < 0.3 + 0.4 * (x > 15)).astype(float)
    design = columns(x=(x, 30), z=(z, 20))
    newton = fit_logistic(design, y, np.ones(4000), ridge=1.0)
    monkeypatch.setattr("dipsmith.utility.logistic.NEWTON", 10)
    other = fit_logistic(design, y, np.ones(4000), ridge=1.0)
    np.testing.assert_allclose(design.times(other.b), design.times(newton.b), atol=2e-3)


def test_rank_counts_what_can_be_told_apart():
    x = np.array([0, 1, 2, 0, 1, 2])
    assert rank(columns(x=(x, 3)).gram(np.ones(6))) == 3
    assert rank(columns(x=(x, 3), same=(x, 3)).gram(np.ones(6))) == 3
    assert rank(columns(x=(x, 9)).gram(np.ones(6))) == 3  # levels that do not occur do not count
