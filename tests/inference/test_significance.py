"""Chi-squared tests: D2's published values, and size and power of the noise-corrected test of independence."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dipsmith as ds
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.inference.tests import cross_table, d2, independence, independence_on_average


@pytest.mark.parametrize(
    ("statistics", "df", "value", "denominator", "p"),
    [
        ((20, 22, 18, 25, 21), 1, 19.254, 544.4, 1.37e-5),
        ((20, 22, 18, 25, 21), 4, 4.717, None, 0.00111),
        ((6, 7, 5, 8, 6), 1, 5.950, None, 0.0149),
        ((500, 1, 1, 1, 1), 1, -0.574, None, 1.0),
    ],
)
def test_d2_values(statistics, df, value, denominator, p):
    found = d2(statistics, df)
    # (500, 1, 1, 1, 1): [504/5 − 1.5·r]/(1 + r) with r = 1.2·Var(√d).
    assert found.statistic == pytest.approx(value, abs=6e-4)
    if denominator is not None:
        assert found.denominator == pytest.approx(denominator, abs=0.06)
    assert found.p_value == pytest.approx(p, rel=0.05)


def test_d2_of_equal_statistics_is_chi_squared():
    assert d2([9.0, 9.0, 9.0], 2).p_value == pytest.approx(stats.chi2.sf(9.0, 2), rel=1e-9)
    with pytest.raises(UsageError, match="two chi-squared statistics"):
        d2([3.0], 1)
    with pytest.raises(UsageError, match="df is 0"):
        d2([3.0, 4.0], 0)


def test_without_noise_it_is_pearsons_test():
    table = np.array([[30.0, 20, 9], [18, 32, 11]])
    found = independence_on_average([table, table, table])
    pearson = stats.chi2_contingency(table, correction=False)
    assert found.p_value == pytest.approx(pearson.pvalue, rel=1e-9)
    assert found.chi_squared == pytest.approx(pearson.statistic, rel=1e-12)
    assert (found.df, found.inflation, found.denominator) == (2, 1.0, np.inf)


def test_sets_that_disagree_do_not_return_one():
    """Four sets without and one with an association: weak evidence, not none; a fifth of it in each: strong."""
    plain = np.array([[250.0, 250], [250, 250]])
    strong = np.array([[425.0, 75], [75, 425]])
    found = independence_on_average([strong, plain, plain, plain, plain])
    chi = [stats.chi2_contingency(t, correction=False).statistic for t in (strong, plain)]
    assert d2([chi[0], *[chi[1]] * 4], 1).p_value == 1.0
    assert 0.2 < found.p_value < 0.6
    shared = plain + (strong - plain) / 5
    rng = np.random.default_rng(0)
    assert independence_on_average([shared + rng.normal(0, 5, (2, 2)) for _ in range(5)]).p_value < 1e-3


def noisy_sets(rng, table, m, scale):
    """m sets of a table, each sanitised by itself and drawn."""
    from dipsmith.estimation.simplex import project

    n, sets = table.sum(), []
    for _ in range(m):
        clean = project(table + rng.laplace(0, scale, table.shape), float(n))
        sets.append(rng.multinomial(n, (clean / clean.sum()).ravel()).reshape(table.shape).astype(float))
    return sets


def rejections(shape, association, n, scale, m, repeats, seed):
    rng = np.random.default_rng(seed)
    levels = [np.linspace(-1, 1, s) for s in shape]
    p = np.exp(association * np.multiply.outer(*levels))
    ours = theirs = naive = 0
    for _ in range(repeats):
        table = rng.multinomial(n, (p / p.sum()).ravel()).reshape(shape)
        sets = noisy_sets(rng, table, m, scale)
        chi = [pearson(t) for t in sets]
        df = (shape[0] - 1) * (shape[1] - 1)
        ours += independence_on_average(sets).p_value < 0.05
        theirs += d2(chi, df).p_value < 0.05
        naive += stats.chi2.sf(chi[0], df) < 0.05
    return ours / repeats, theirs / repeats, naive / repeats


def pearson(table):
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(((table - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(("shape", "m", "scale"), [((2, 2), 5, 10.0), ((3, 3), 5, 5.0), ((3, 4), 3, 5.0)])
def test_size_and_power(shape, m, scale):
    # 400 repeats: the standard error of a size of .05 is .011, so that .05 + 5·.011 = .105 is exceeded by chance
    # once in a million and a half.
    size, _, naive = rejections(shape, 0.0, 1000, scale, m, 400, seed=1)
    assert size < 0.105
    assert naive > 0.12  # what the noise does to one set's ordinary test
    power, of_d2, _ = rejections(shape, 0.35, 1000, scale, m, 100, seed=2)
    assert power > 0.6
    assert power >= of_d2


def schema(neighbours="replace"):
    return ds.Schema.from_dict(
        {
            "name": "t",
            "unit": "row",
            "neighbours": neighbours,
            "fields": [
                {"name": "a", "type": "string", "enum": ["p", "q", "r"], "other": "p"},
                {"name": "x", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 5}},
            ],
        }
    )


def rows(n, link, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    x = np.where(rng.random(n) < 0.5 + link * (a - 1), 7, 2)
    return pa.table({"a": np.array(list("pqr"))[a], "x": x})


def made(link, seed, epsilon="0.5", n=800, **more):
    return ds.synthesize(
        rows(n, link, seed),
        schema(),
        ds.Flat(),
        budget=ds.PureDP(epsilon),
        testing=True,
        noise_seed=seed,
        **more,
    )


def test_a_release_is_tested_by_the_rule_of_its_card():
    one = independence(made(0.2, 1), "a", "x", replicates=30, seed=1)
    assert one.p_value < 0.01
    assert one.inflation > 1.02
    assert "a and x independent" in str(one)
    split = independence(made(0.2, 1, "5", sets=4, each="split"), "a", "x")
    assert split.p_value < 0.01
    draws = made(0.2, 1, sets=3, each="draw")
    assert independence(draws, "a", "x", replicates=20, seed=1).p_value < 0.05
    ordinary = independence(draws, "a", "x", rule="sampling")
    assert ordinary.inflation == 1.0
    with pytest.raises(UnsupportedError, match="drawn from one sanitised model"):
        independence(draws, "a", "x", rule="combine")
    with pytest.raises(UnsupportedError, match="one set cannot show its noise"):
        independence(made(0.2, 1), "a", "x", rule="combine")


@pytest.mark.slow
def test_one_sanitised_set_keeps_its_size():
    # 150 releases without association. 15 runs each. Standard error of .05: .018; five above: .14. The ordinary
    # test rejects about 35 %; five standard errors (.04) below: .15.
    corrected = ordinary = 0
    for seed in range(150):
        release = made(0.0, seed, "0.3", n=400)
        corrected += independence(release, "a", "x", replicates=15, seed=seed).p_value < 0.05
        ordinary += independence(release, "a", "x", rule="sampling").p_value < 0.05
    assert corrected / 150 < 0.14
    assert ordinary / 150 > 0.15


def test_refusals():
    release = made(0.2, 1)
    with pytest.raises(UsageError, match="no column 'z'"):
        independence(release, "a", "z")
    with pytest.raises(UsageError, match="independent of itself"):
        independence(release, "a", "a")
    with pytest.raises(UsageError, match="rule is 'magic'"):
        independence(release, "a", "x", rule="magic")
    with pytest.raises(UsageError, match="one table cannot show"):
        independence_on_average([[[1, 2], [3, 4]]])
    with pytest.raises(UsageError, match="one shape"):
        independence_on_average([[[1, 2], [3, 4]], [[1, 2, 3], [3, 4, 5]]])
    with pytest.raises(UsageError, match="two values each"):
        independence_on_average([[[1, 2], [0, 0]], [[1, 2], [0, 0]]])


def test_numbers_are_crossed_in_their_bins():
    table = pa.table({"a": ["p", "q", "q", "r"], "x": [0, 4, 5, 9]})
    assert cross_table(table, schema(), "a", "x").tolist() == [[1, 0], [1, 1], [0, 1]]
