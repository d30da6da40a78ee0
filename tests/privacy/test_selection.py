"""Selection: what it costs by enumeration, and that it draws what the formulas say."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.selection import (
    Law,
    round_to_grid,
    select,
    step_and_rate,
)
from selection_law import selection_probabilities

LAWS: list[Law] = ["permute-and-flip", "exponential"]


def by_orders(scores: list[int], rate: Fraction) -> list[float]:
    """Permute-and-flip's probabilities by its definition: every order, every first head."""
    best = max(scores)
    heads = [math.exp(-float(rate) * (best - s)) for s in scores]
    won = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        alive = 1.0 / math.factorial(len(scores))
        for i in order:
            won[i] += alive * heads[i]
            alive *= 1 - heads[i]
    return won


def test_probabilities_of_permute_and_flip_are_those_of_its_definition():
    scores = [0, 3, 4, 1, 4]
    _, rate = step_and_rate(Fraction(1), Fraction(2), monotone=False, grid=Fraction(1))
    exact = selection_probabilities(
        np.array(scores, float),
        Fraction(1),
        Fraction(2),
        monotone=False,
        law="permute-and-flip",
        grid=Fraction(1),
    )
    assert [float(p) for p in exact] == pytest.approx(by_orders(scores, rate), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_probabilities_sum_to_one(law: Law):
    p = selection_probabilities(np.array([0.1, -3.0, 2.0, 2.0]), Fraction(1, 3), Fraction(1, 7), monotone=True, law=law)
    with localcontext() as context:
        context.prec = 60
        assert abs(sum(p) - 1) < Decimal("1e-45")


# --- Privacy loss by enumeration ----------------------------------------------------------------------


def losses(law: Law, monotone: bool, steps: int, epsilon: Fraction) -> tuple[Decimal, Decimal]:
    """Largest |log ratio|, and largest spread of log ratios, over all neighbouring score lists.

    Three candidates on a grid of whole numbers at sensitivity `steps`; a neighbour moves each
    rounded score by up to steps + 1 either way, or, monotone, by -1 … steps + 1.
    """
    lowest = -1 if monotone else -steps - 1
    worst = spread = Decimal(1)
    cache: dict[tuple[int, ...], list[Decimal]] = {}

    def probabilities(scores: tuple[int, ...]) -> list[Decimal]:
        if scores not in cache:
            cache[scores] = selection_probabilities(
                np.array(scores, float),
                Fraction(steps),
                epsilon,
                monotone=monotone,
                law=law,
                grid=Fraction(1),
            )
        return cache[scores]

    for scores in itertools.product((0, 1, 3 * steps, 40 * steps), repeat=3):
        for move in itertools.product((lowest, 0, steps + 1), repeat=3):
            moved = tuple(s + m for s, m in zip(scores, move, strict=True))
            ratios = [a / b for a, b in zip(probabilities(scores), probabilities(moved), strict=True)]
            worst = max(worst, max(ratios), 1 / min(ratios))
            spread = max(spread, max(ratios) / min(ratios))
    return worst.ln(), spread.ln()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("steps", "epsilon"), [(1, "1"), (4, "5")])
def test_privacy_loss_never_exceeds_epsilon(law: Law, monotone: bool, steps: int, epsilon: str):
    worst, spread = losses(law, monotone, steps, Fraction(epsilon))
    limit = Decimal(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
    assert worst <= limit + Decimal("1e-20")
    assert worst > limit * Decimal("0.9")  # and the enumeration comes close: nothing is wasted
    if law == "exponential":  # bounded range, hence ε²/8-zCDP
        assert spread <= limit + Decimal("1e-20")


def test_permute_and_flip_is_not_of_bounded_range():
    # Why the exponential law is the one for zCDP.
    _, spread = losses("permute-and-flip", False, 1, Fraction(1))
    assert spread > Decimal("1.05")


def test_a_counting_score_costs_epsilon_end_to_end():
    # Candidates are the cells of a histogram, the score a count: adding a row moves one score by one.
    epsilon, delta = Fraction(1), Fraction(1)
    for law in LAWS:
        for table in itertools.product(range(4), repeat=3):
            for cell in range(3):
                other = [c + (i == cell) for i, c in enumerate(table)]
                p, q = (
                    selection_probabilities(np.array(t, float), delta, epsilon, monotone=True, law=law)
                    for t in (table, other)
                )
                assert all(abs((a / b).ln()) <= 1 for a, b in zip(p, q, strict=True))


@pytest.mark.slow
@settings(deadline=None)
@given(
    score=st.fractions(-1000, 1000, max_denominator=10**6),
    share=st.fractions(-1, 1, max_denominator=1000),
    errors=st.tuples(st.fractions(-1, 1, max_denominator=50), st.fractions(-1, 1, max_denominator=50)),
    sensitivity=st.fractions("1/97", 50, max_denominator=97),
    finer=st.integers(0, 12),
)
def test_rounded_scores_move_as_far_as_is_charged(
    score: Fraction, share: Fraction, errors: tuple[Fraction, Fraction], sensitivity: Fraction, finer: int
):
    # Exact scores a share of the sensitivity apart, given as floats that err by up to half a step.
    step = Fraction(2) ** (math.floor(math.log2(sensitivity)) - finer)
    allowed = step / 2 * Fraction(9999, 10_000)  # the rest is for the conversion to a float
    given_ = [
        float(exact + allowed * error)
        for exact, error in zip((score, score + share * sensitivity), errors, strict=True)
    ]
    first, second = round_to_grid(np.array(given_), step)
    moved = int(second - first)
    whole = math.ceil(sensitivity / step)
    assert -whole - 1 <= moved <= whole + 1
    if share >= 0:
        assert moved >= -1
    _, rate = step_and_rate(sensitivity, Fraction(1), monotone=True, grid=step)
    assert rate == Fraction(1, whole + 2)
    _, rate = step_and_rate(sensitivity, Fraction(1), monotone=False, grid=step)
    assert rate == Fraction(1, 2 * whole + 2)


def test_rounding_keeps_order_and_shifts():
    rng = np.random.default_rng(0)
    scores = np.sort(np.concatenate([rng.normal(size=1000) * 100, np.arange(-50, 50) / 2]))
    rounded = round_to_grid(scores, Fraction(1, 4))
    assert (np.diff(rounded) >= 0).all()
    assert (np.abs(rounded / 4 - scores) <= 1 / 8).all()
    halves = np.arange(-9, 9) + 0.5
    assert (round_to_grid(halves, Fraction(1)) == np.arange(-8, 10)).all()


# --- Draws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("scores", "epsilon"), [([0.0, 1.0, 2.5, 2.5, -4.0], "1"), ([5.0, 0.0], "1/10"), ([0.0, 3.0, 4.0], "2")]
)
def test_frequencies_are_the_exact_probabilities(law: Law, scores: list[float], epsilon: str):
    # n = 2000 selections, χ², FPR 1e-7 for each of the six.
    values, cost = np.array(scores), Fraction(epsilon)
    stream = Stream.for_testing(f"{law} {epsilon}")
    drawn = [select(stream, values, Fraction(1), cost, monotone=False, law=law) for _ in range(2_000)]
    p = np.array([float(x) for x in selection_probabilities(values, Fraction(1), cost, monotone=False, law=law)])
    assert stats.chisquare(np.bincount(drawn, minlength=p.size), p * len(drawn)).pvalue > 1e-7


@pytest.mark.parametrize("law", LAWS)
def test_many_candidates(law: Law):
    # 1e5 candidates of which ten stand out: they win, in equal shares (n = 50, χ², FPR 1e-7).
    scores = np.zeros(100_000)
    scores[::10_000] = 500.0
    stream = Stream.for_testing(law)
    drawn = [select(stream, scores, Fraction(1), Fraction(1, 10), monotone=True, law=law) for _ in range(50)]
    assert stats.chisquare(np.bincount(np.array(drawn) // 10_000, minlength=10)).pvalue > 1e-7
    assert all(d % 10_000 == 0 for d in drawn)


@pytest.mark.parametrize("law", LAWS)
def test_hopeless_budgets_choose_uniformly(law: Law):
    # ε = 1e-9: n = 1000 over 5 candidates, χ², FPR 1e-7.
    stream = Stream.for_testing(law)
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    drawn = [select(stream, scores, Fraction(1), Fraction(1, 10**9), monotone=True, law=law) for _ in range(1000)]
    assert stats.chisquare(np.bincount(drawn, minlength=5)).pvalue > 1e-7


@pytest.mark.parametrize("law", LAWS)
def test_scores_that_are_not_finite(law: Law):
    def chosen(scores: list[float]) -> int:
        return select(Stream(), np.array(scores), Fraction(1), Fraction(1), monotone=True, law=law)

    assert chosen([math.nan, 0.0]) == 1
    assert chosen([-math.inf, 0.0]) == 1
    assert chosen([math.inf, 0.0]) == 0
    assert chosen([1e300, math.nan, -1e300]) == 0
    assert chosen([math.nan, math.nan]) in (0, 1)
    assert chosen([3.0]) == 0


def test_arguments_that_are_refused():
    scores = np.array([1.0, 2.0])
    one = Fraction(1)
    for bad in (np.array([]), np.array([[1.0]])):
        with pytest.raises(UsageError, match="at least one"):
            select(Stream(), bad, one, one, monotone=True, law="exponential")
    for sensitivity, epsilon in ((Fraction(0), one), (one, Fraction(0)), (-one, one)):
        with pytest.raises(UsageError, match="positive"):
            select(Stream(), scores, sensitivity, epsilon, monotone=True, law="exponential")
    for grid in (Fraction(1, 3), Fraction(0), Fraction(-1, 2), Fraction(2)):
        with pytest.raises(UsageError, match="power of two"):
            select(Stream(), scores, one, one, monotone=True, law="exponential", grid=grid)
    with pytest.raises(UsageError, match="unknown law"):
        select(Stream(), scores, one, one, monotone=True, law="gumbel")


@pytest.mark.slow
@settings(deadline=None)
@given(st.fractions("1/1000000", 10**6, max_denominator=10**6), st.booleans())
def test_the_default_grid_costs_little(sensitivity: Fraction, monotone: bool):
    step, rate = step_and_rate(sensitivity, Fraction(1), monotone=monotone)
    ideal = step / (sensitivity * (1 if monotone else 2))
    assert ideal * Fraction(997, 1000) <= rate < ideal
