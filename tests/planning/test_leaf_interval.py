"""The Laplace–binomial law and its intervals, against tables that were computed independently."""

import csv
import time
from math import comb, exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import bdtr

from dipsmith.errors import UsageError
from dipsmith.planning.law import LeafLaw, summation_rule
from dipsmith.planning.leaf_interval import interval, intervals, lam_for_width, normal_rows, rows_for_width
from dipsmith.privacy.noise import DiscreteGaussian

DATA = Path(__file__).parent / "data"


def reference(name):
    with (DATA / name).open(encoding="utf-8") as file:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]


INTERVALS, SIZES = reference("leaf_intervals.csv"), reference("leaf_sizes.csv")


def moments(p0, n, lam, **kwargs):
    law = LeafLaw(p0, n, kwargs.pop("m", n), **kwargs).counts([lam])[0]
    share = np.arange(len(law)) / (len(law) - 1)
    mean = float(law @ share)
    return mean, sqrt(float(law @ (share - mean) ** 2)), law


@pytest.mark.slow
def test_all_reference_intervals():
    assert len(INTERVALS) == 210
    for row in INTERVALS:
        p0, n, lam = row["p0"], int(row["n"]), row["lam"]
        for kind, lo, hi in (
            ("sym", "sym_lo", "sym_hi"),
            ("interp", "int_lo", "int_hi"),
            ("equal", "eq_lo", "eq_hi"),
        ):
            found = interval(p0, lam, n, kind=kind)
            # The tables allow one record; ours agree to every printed digit.
            assert found.lo == pytest.approx(row[lo], abs=1e-6), (row, kind)
            assert found.hi == pytest.approx(row[hi], abs=1e-6), (row, kind)
        mean, sd, law = moments(p0, n, lam)
        assert mean == pytest.approx(row["mean"], abs=1e-6)
        assert sd == pytest.approx(row["sd"], abs=1e-6)
        assert law[0] == pytest.approx(row["P_X0"], abs=1e-6)
        found = interval(p0, lam, n)
        held = law[round(found.lo * n) : round(found.hi * n) + 1].sum()
        assert held == pytest.approx(row["sym_mass"], abs=1e-6)


@pytest.mark.slow
def test_all_reference_sizes():
    assert len(SIZES) == 90
    for row in SIZES:
        found = rows_for_width(row["width"], row["p0"], row["lam"])
        assert abs(found - row["n_exact"]) <= 3, (row, found)
        if not np.isnan(row["n_normal"]):
            assert normal_rows(row["width"], row["p0"], row["lam"]) == pytest.approx(row["n_normal"], abs=1)


def test_the_reports_example():
    assert [(i.lo, i.hi) for i in (interval(0.25, 0.4, 1000, kind=k) for k in ("sym", "equal"))] == [(0.227, 0.273)] * 2
    found = interval(0.25, 0.4, 1000, kind="interp")
    assert (round(found.lo, 5), round(found.hi, 5)) == (0.22724, 0.27276)
    # The report says "within [0.22, 0.27]" for 1,000 records; within 0.02 of 0.25 takes 1,284.
    assert found.hi > 0.27
    needed = [rows_for_width(width, 0.25, 0.4) for width in (0.04, 0.05, 0.06)]
    assert needed == pytest.approx([1284, 836, 596], abs=3)


@pytest.mark.parametrize(
    ("p0", "equal", "sym", "mean", "sd"),
    [
        (0, (0, 0.008), (0, 0.006), 0.00167, 0.00316),
        (0.01, (0.001, 0.020), (0.001, 0.019), 0.01008, 0.00547),
        (0.05, (0.037, 0.064), (0.036, 0.064), 0.05, 0.00835),
        (0.10, (0.083, 0.118), (0.083, 0.117), 0.1, 0.01059),
        (0.25, (0.226, 0.274), (0.226, 0.274), 0.25, 0.01448),
        (0.50, (0.473, 0.527), (0.473, 0.527), 0.5, 0.01650),
    ],
)
def test_the_reports_simulation_setting(p0, equal, sym, mean, sd):
    for kind, ends in (("equal", equal), ("sym", sym)):
        found = interval(p0, 0.3, 1000, kind=kind)
        assert (round(found.lo, 4), round(found.hi, 4)) == ends
    got = moments(p0, 1000, 0.3)
    assert got[0] == pytest.approx(mean, abs=1e-5)
    assert got[1] == pytest.approx(sd, abs=1e-5)


def test_noise_matters_at_a_thousand_records():
    """The reports call the effect of λ negligible from 1,000 records on; it is not."""
    ratios = [8.0, 3.1, 2.2, 1.7, 1.4, 1.35]
    for p0, ratio in zip((0, 0.01, 0.05, 0.1, 0.25, 0.5), ratios, strict=True):
        ends = intervals(p0, [0.1, 1.0], 1000, kind="equal")
        width = ends[:, 1] - ends[:, 0]
        assert width[0] / width[1] == pytest.approx(ratio, rel=0.02)


def test_figure_one_takes_less_than_two_seconds():
    start = time.process_time()
    for p0 in (0, 0.01, 0.05, 0.1, 0.25, 0.5):
        for n in (25, 50, 100, 250, 500, 1000, 2000, 5000):
            intervals(p0, np.arange(1, 11) / 10, n)
    assert time.process_time() - start < 2  # 0.1 s when nobody else computes


def brute_force(p0, n, m, lam, noise):
    """The definition, term by term, for whole noise."""
    centre, q = round(n * p0), exp(-lam)
    reach = int(60 / lam)
    law = np.zeros(m + 1)
    for e in range(-reach, reach + 1):
        if noise == "discrete":
            chance = (1 - q) / (1 + q) * q ** abs(e)
        else:
            from fractions import Fraction

            chance = float(DiscreteGaussian(1 / Fraction(lam) ** 2).pmf(e))
        p = min(max((centre + e) / n, 0), 1)
        law += chance * np.array([comb(m, k) * p**k * (1 - p) ** (m - k) for k in range(m + 1)])
    return law


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize(
    ("p0", "n", "m", "lam"),
    [(0.3, 37, 21, 0.2), (0, 10, 15, 0.7), (1, 4, 9, 1.5), (0.5, 1, 3, 0.4), (0.6, 90, 30, 0.11)],
)
def test_whole_noise_by_brute_force(p0, n, m, lam, noise):
    np.testing.assert_allclose(LeafLaw(p0, n, m, noise).counts([lam])[0], brute_force(p0, n, m, lam, noise), atol=1e-12)


def test_several_rates_at_once_are_the_same_law():
    rates = [0.003, 0.05, 0.4, 3.0, 40.0]
    for noise in ("continuous", "discrete", "gaussian"):
        law = LeafLaw(0.12, 300, 170, noise)
        together = law.counts(rates)
        alone = np.concatenate([law.counts([r]) for r in rates])
        np.testing.assert_allclose(together, alone, atol=1e-10)


def test_sums_over_integers_are_exact_for_polynomials():
    for count in (1, 5, 16, 17, 40, 1000):
        x, w = summation_rule(count)
        j = np.arange(count) / count
        for degree in (0, 1, 7, 31):
            assert float(w @ (x / count) ** degree) == pytest.approx(float((j**degree).sum()), rel=1e-10)


leaf = {
    "p0": st.floats(0, 1),
    "n": st.integers(1, 400),
    "m": st.integers(1, 400),
    "noise": st.sampled_from(["continuous", "discrete", "gaussian"]),
}


@given(**leaf, lam=st.floats(1e-4, 50))
@settings(max_examples=60, deadline=None)
def test_is_a_distribution_with_a_mean_between(p0, n, m, noise, lam):
    law = LeafLaw(p0, n, m, noise).counts([lam])[0]
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1, abs=1e-9)
    # Clipping draws the mean towards one half, never past it.
    centre = p0 if noise == "continuous" else round(n * p0) / n
    mean = float(law @ np.arange(m + 1)) / m
    assert min(centre, 0.5) - 1e-9 <= mean <= max(centre, 0.5) + 1e-9


@given(**leaf, lam=st.floats(1e-3, 20), factor=st.floats(1.1, 10))
@settings(max_examples=60, deadline=None)
def test_more_epsilon_never_widens(p0, n, m, noise, lam, factor):
    ends = intervals(p0, [lam, factor * lam], n, m=m, kind="interp", noise=noise)
    width = ends[:, 1] - ends[:, 0]
    # One record of slack: the interval grows around a rounded centre.
    assert width[1] <= width[0] + 1.0 / m + 1e-9


@given(p0=st.floats(0, 1), n=st.integers(1, 200), lam=st.floats(0.01, 5))
@settings(max_examples=40, deadline=None)
def test_labels_mirror(p0, n, lam):
    """What holds for a share p0 of one label holds for 1 − p0 of the other, from right to left."""
    one, other = (LeafLaw(p, n, n).counts([lam])[0] for p in (p0, 1 - p0))
    np.testing.assert_allclose(one, other[::-1], atol=1e-8)


@given(p0=st.floats(0, 1), n=st.integers(1, 300), m=st.integers(1, 300))
@settings(max_examples=30, deadline=None)
def test_without_noise_only_drawing_is_left(p0, n, m):
    for noise in ("discrete", "gaussian"):
        law = LeafLaw(p0, n, m, noise).counts([200.0])[0]
        below = bdtr(np.arange(-1.0, m + 1), m, round(n * p0) / n)
        np.testing.assert_allclose(law, np.diff(np.nan_to_num(below)), atol=1e-9)


@given(p0=st.floats(0, 1), n=st.integers(2, 300), m=st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_with_nothing_but_noise_all_have_the_label_or_none(p0, n, m):
    law = LeafLaw(p0, n, m).counts([1e-7])[0]
    assert law[0] == pytest.approx(0.5, abs=1e-4)
    assert law[m] == pytest.approx(0.5, abs=1e-4)


@given(
    p0=st.floats(0, 1),
    lam=st.floats(0.02, 5),
    n=st.integers(2, 400),
    kind=st.sampled_from(["sym", "interp", "equal"]),
)
@settings(max_examples=60, deadline=None)
def test_intervals_hold_their_level(p0, lam, n, kind):
    found = interval(p0, lam, n, kind=kind)
    law = LeafLaw(p0, n, n).counts([lam])[0]
    lo, hi = int(np.floor(found.lo * n + 1e-9)), int(np.ceil(found.hi * n - 1e-9))
    assert law[lo : hi + 1].sum() >= 0.9 - 1e-9
    assert 0 <= found.lo <= found.hi <= 1
    if kind == "interp":
        sym = interval(p0, lam, n)
        assert sym.lo - 1e-12 <= found.lo
        assert found.hi <= sym.hi + 1e-12


@pytest.mark.slow
@given(p0=st.floats(0, 1), lam=st.floats(0.05, 3), width=st.floats(0.05, 0.5))
@settings(max_examples=25, deadline=None)
def test_records_and_width_are_inverse(p0, lam, width):
    n = rows_for_width(width, p0, lam)
    assert interval(p0, lam, n, kind="interp").width <= width
    if n > 1:
        assert interval(p0, lam, n - 1, kind="interp").width > width


@pytest.mark.slow
@given(
    p0=st.floats(0, 1),
    n=st.integers(20, 600),
    width=st.floats(0.02, 0.9),
    noise=st.sampled_from(["continuous", "discrete"]),
)
@settings(max_examples=25, deadline=None)
def test_epsilon_and_width_are_inverse(p0, n, width, noise):
    assume(interval(p0, 1e5, n, kind="interp", noise=noise).width < 0.95 * width)
    lam = lam_for_width(width, p0, n, noise=noise)
    assert interval(p0, lam, n, kind="interp", noise=noise).width <= width
    if lam > 1e-8:
        assert interval(p0, lam / 1.01, n, kind="interp", noise=noise).width > width - 1e-3


@pytest.mark.slow
def test_what_no_epsilon_can_do_is_refused_with_the_reason():
    with pytest.raises(UsageError, match="no ε is enough"):
        lam_for_width(0.05, 0.5, 100)
    with pytest.raises(UsageError, match="draw more records"):
        rows_for_width(0.05, 0.5, 1.0, m=100)
    with pytest.raises(UsageError, match="allow more width"):
        rows_for_width(1e-5, 0.5, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"p0": 1.2},
        {"lam": 0.0},
        {"lam": float("inf")},
        {"n": 0},
        {"m": 0},
        {"level": 1.0},
        {"kind": "both"},
        {"noise": "cauchy"},
    ],
)
def test_arguments_out_of_range_are_refused(wrong):
    good = {"p0": 0.25, "lam": 0.4, "n": 100}
    with pytest.raises(UsageError):
        interval(**{**good, **wrong})


def test_draws_and_authentic_records_are_different_numbers():
    """Many draws from a small leaf show the noise alone, few from a large one the drawing alone."""
    noise = moments(0.25, 200, 0.5, m=200_000)[1]
    assert noise == pytest.approx(sqrt(2) / 0.5 / 200, rel=0.01)
    drawing = moments(0.25, 200_000, 0.5, m=200)[1]
    assert drawing == pytest.approx(sqrt(0.25 * 0.75 / 200), rel=0.01)
