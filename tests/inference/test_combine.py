"""Combining rules: their formulas, what they refuse, and how often their intervals cover."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dipsmith as ds
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.inference.combine import Combined, combine


def test_the_formulas():
    q, u = np.array([0.31, 0.28, 0.30, 0.35, 0.27]), np.array([2.0, 2.1, 1.9, 2.0, 2.2]) * 1e-4
    found = combine(q, u)
    between = sum((q - q.mean()) ** 2) / 4
    total = u.mean() + between / 5
    df = 4 * (1 + 5 * u.mean() / between) ** 2
    assert found.estimate[0] == pytest.approx(q.mean(), rel=1e-14)
    assert found.between[0] == pytest.approx(between, rel=1e-12)
    assert found.variance[0] == pytest.approx(total, rel=1e-12)
    assert found.df[0] == pytest.approx(df, rel=1e-12)
    half = stats.t.ppf(0.975, df) * np.sqrt(total)
    assert found.interval[0][0] == pytest.approx(q.mean() - half, rel=1e-9)
    assert found.interval[1][0] == pytest.approx(q.mean() + half, rel=1e-9)
    assert found.p_value[0] == pytest.approx(2 * stats.t.sf(q.mean() / np.sqrt(total), df), rel=1e-9)
    wide = found.at(0.5)
    assert wide.interval[1][0] - q.mean() == pytest.approx(stats.t.ppf(0.75, df) * np.sqrt(total), rel=1e-9)


def test_a_hand_computed_case():
    # q̄ = 2, ū = 1, B = 1, T = 1 + 1/3, ν = 2·(1 + 3)² = 32.
    found = combine([1, 2, 3], [0.5, 1.0, 1.5])
    assert (found.estimate[0], found.within[0], found.between[0]) == (2.0, 1.0, 1.0)
    assert found.variance[0] == pytest.approx(4 / 3)
    assert found.df[0] == pytest.approx(32)


def test_residual_degrees_of_freedom_are_carried():
    """Four clusters leave three degrees of freedom, in one set or in five."""
    q, u = [1.0, 1.0001, 0.9999, 1.0, 1.0], [0.25] * 5
    assert combine(q, u).df[0] > 1e6
    assert combine(q, u, df=3).df[0] == pytest.approx(3, rel=1e-6)
    # Satterthwaite: T²/ν = ū²/ν₀ + (B/m)²/(m − 1); q̄ = 2, ū = 1, B/m = 1/3, ν₀ = 4: (16/9)/(1/4 + 1/18).
    assert combine([1, 2, 3], [0.5, 1.0, 1.5], df=4).df[0] == pytest.approx((16 / 9) / (1 / 4 + 1 / 18))
    assert combine([0.3] * 3, [1e-4] * 3, df=7).df[0] == pytest.approx(7)
    with pytest.raises(UsageError, match="df is 0"):
        combine([1, 2], [1, 1], df=0)


def test_equal_estimates_are_normal():
    found = combine([0.3, 0.3, 0.3], [1e-4, 1e-4, 1e-4])
    assert found.df[0] == np.inf
    assert found.interval[1][0] - 0.3 == pytest.approx(stats.norm.ppf(0.975) * 0.01, rel=1e-9)
    # 0.1 + 0.2 is not 0.3, and still no disagreement.
    assert combine([0.1 + 0.2, 0.3], [1e-4, 1e-4]).df[0] == np.inf


def test_no_variance_within_leaves_m_minus_one():
    assert combine([1.0, 2.0, 4.0], [0, 0, 0]).df[0] == pytest.approx(2)


def test_vectors_are_combined_one_by_one():
    q, u = np.array([[1.0, 5.0], [2.0, 5.5], [3.0, 7.0]]), np.array([[0.5, 0.1], [1.0, 0.1], [1.5, 0.4]])
    both = combine(q, u, names=["a", "b"])
    for i, name in enumerate("ab"):
        one = combine(q[:, i], u[:, i])
        assert both[name].value == one.estimate[0]
        assert both[name].std_error == pytest.approx(one.std_error[0])
        assert both[name].low == pytest.approx(one.interval[0][0])
    assert [e.name for e in both] == ["a", "b"]
    assert len(both) == 2


@pytest.mark.parametrize(
    ("estimates", "variances", "said"),
    [
        ([0.3], [0.1], "two separately sanitised sets"),
        ([0.3, 0.4], [0.1], "shape"),
        ([0.3, np.inf], [0.1, 0.1], "finite"),
        ([0.3, 0.4], [0.1, -0.1], "not negative"),
        ([], [], "one number per set"),
    ],
)
def test_refusals(estimates, variances, said):
    with pytest.raises(UsageError, match=said):
        combine(estimates, variances)
    with pytest.raises(UsageError, match="level"):
        combine([1, 2], [1, 1], level=95)
    with pytest.raises(UsageError, match="3 names for 1"):
        combine([1, 2], [1, 1], names="abc")
    with pytest.raises(UsageError, match="no estimate 'z'"):
        combine([1, 2], [1, 1], names="a")["z"]


def release(each, sets=3):
    schema = ds.Schema.from_dict(
        {
            "name": "t",
            "unit": "row",
            "neighbours": "replace",
            "fields": [{"name": "y", "type": "string", "enum": ["a", "b"], "other": "a"}],
        }
    )
    table = pa.table({"y": ["a"] * 70 + ["b"] * 30})
    return ds.synthesize(
        table, schema, ds.Flat(), budget=ds.PureDP(1), sets=sets, each=each, testing=True, noise_seed=1
    )


def test_draws_of_one_model_are_refused_with_the_reason():
    with pytest.raises(UnsupportedError, match=r"drawn from one sanitised model .* noise_aware"):
        combine([1, 2, 3], [1, 1, 1], release=release("draw"))
    assert isinstance(combine([1, 2, 3], [1, 1, 1], release=release("split")), Combined)


def test_it_prints_and_converts():
    found = combine([[1.0, 5.0], [2.0, 5.5]], [[0.5, 0.1], [1.0, 0.1]], names=["sex[T.F]", "<age>"])
    text = str(found)
    assert text.splitlines()[0].split() == [
        "estimate",
        "s.e.",
        "95%",
        "from",
        "to",
        "p",
        "noise",
        "share",
        "of",
        "s.e.²",
    ]
    assert text.splitlines()[1].startswith("sex[T.F]")
    assert "T = ū + B/m over 2 sets" in text
    html = found._repr_html_()
    assert "&lt;age&gt;" in html
    assert "<age>" not in html
    table = found.to_arrow()
    assert table["term"].to_pylist() == ["sex[T.F]", "<age>"]
    assert table["estimate"].to_pylist() == [1.5, 5.25]
    assert pa.table(found).equals(table)
    assert found.to_pandas().loc["<age>", "std_error"] == pytest.approx(found["<age>"].std_error)


# --- coverage ---------------------------------------------------------------------------------------
# A proportion of .3 among n rows; its count is sanitised by Laplace noise, and n rows are drawn.


def proportions(n, epsilon, m, repeats, how):
    """q and u of m sets, repeats × m, and the noise variance of a proportion."""
    rng = np.random.default_rng(2024)
    true = rng.binomial(n, 0.3, repeats) / n
    if how == "split":
        noisy = true[:, None] + rng.laplace(0, m / epsilon, (repeats, m)) / n
    else:
        noisy = (true + rng.laplace(0, 1 / epsilon, repeats) / n)[:, None].repeat(m, axis=1)
    q = rng.binomial(n, np.clip(noisy, 0, 1)) / n
    return q, q * (1 - q) / n, 2 / (epsilon * n) ** 2


def covered(q, u, noise=0.0):
    """How often T = ū + B/m (+ known noise) covers, and the mean width."""
    m = q.shape[1]
    within, between = u.mean(axis=1), q.var(axis=1, ddof=1)
    total = within + between / m + noise
    df = np.full(len(q), np.inf) if noise else (m - 1) * (1 + m * within / between) ** 2
    half = np.where(np.isinf(df), stats.norm.ppf(0.975), stats.t.ppf(0.975, np.where(np.isinf(df), 1, df))) * np.sqrt(
        total
    )
    return (np.abs(q.mean(axis=1) - 0.3) <= half).mean(), 2 * half.mean()


@pytest.mark.parametrize(("n", "epsilon", "share"), [(1000, 0.1, 0.953), (1000, 1, 0.952), (10_000, 0.1, 0.952)])
def test_separate_sets_cover(n, epsilon, share):
    # 20,000 repeats: the standard error of a share of .952 is .0015; ± .0075 is five of them (6e-7).
    q, u, _ = proportions(n, epsilon, 5, 20_000, "split")
    assert covered(q, u)[0] == pytest.approx(share, abs=0.0075)
    # The rule as the package has it is the rule as the simulation has it.
    half = stats.t.ppf(0.975, combine(q[0], u[0]).df) * combine(q[0], u[0]).std_error
    assert covered(q[:1], u[:1])[1] == pytest.approx(2 * half[0])


def test_draws_of_one_table_do_not_cover():
    # Standard error of a share of .864 in 20,000: .0024; five of them: .012.
    q, u, _ = proportions(1000, 0.1, 5, 20_000, "draw")
    assert covered(q, u)[0] == pytest.approx(0.864, abs=0.012)


def test_known_noise_covers_at_half_the_width():
    q, u, noise = proportions(1000, 0.1, 5, 20_000, "draw")
    share, width = covered(q, u, noise)
    assert share == pytest.approx(0.945, abs=0.008)
    assert width == pytest.approx(0.083, abs=0.001)
    q, u, _ = proportions(1000, 0.1, 5, 20_000, "split")
    assert covered(q, u)[1] == pytest.approx(0.162, abs=0.003)
