"""The secret number of runs: its law, its price, and that nothing tells it."""

from collections import Counter
from fractions import Fraction
from itertools import islice
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.privacy.accountant import Accountant, cost
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Repeated, event_from, event_record
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.repetition import Repetitions
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit

ETAS = [Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5, 2)]


def direct(eta, gamma, k):
    """The law as printed by Papernot and Steinke, term by term."""
    eta, gamma = float(eta), float(gamma)
    if eta == 0:
        return (1 - gamma) ** k / (k * log(1 / gamma))
    product = 1.0
    for length in range(k):
        product *= (length + eta) / (length + 1)
    return (1 - gamma) ** k / (gamma**-eta - 1) * product


@pytest.mark.parametrize("eta", ETAS)
def test_the_law_is_the_printed_one(eta):
    law = Repetitions(eta, Fraction(1, 7))
    p = np.array(list(islice(law.probabilities(), 2000)))
    np.testing.assert_allclose(p[:40], [direct(eta, law.gamma, k) for k in range(1, 41)], rtol=1e-10)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p @ np.arange(1, 2001) == pytest.approx(law.mean, rel=1e-9)
    assert p[: law.quantile(0.9)].sum() >= 0.9 > p[: law.quantile(0.9) - 1].sum()


@pytest.mark.parametrize("eta", ETAS)
def test_draws_follow_the_law(eta):
    law, stream, n = Repetitions(eta, Fraction(1, 4)), Stream.for_testing(f"runs {eta}"), 5_000
    seen = Counter(law.sample(stream) for _ in range(n))
    reached = exact = 0.0
    for k, p in zip(range(1, 60), law.probabilities(), strict=False):
        reached += seen[k] / n
        exact += p
        # Dvoretzky–Kiefer–Wolfowitz: beyond 0.0386 with probability 2·exp(−2·5000·0.0386²) = 7e-7.
        assert abs(reached - exact) < 0.0386, k
    assert min(seen) == 1


@given(mean=st.floats(1.2, 200), eta=st.sampled_from(ETAS))
@settings(max_examples=40, deadline=None)
def test_a_law_with_a_given_mean(mean, eta):
    assert Repetitions.with_mean(mean, eta).mean == pytest.approx(mean, rel=0.02)


def generating(eta, gamma, x):
    """E[x^K]."""
    if eta == 0:
        return log(1 - (1 - gamma) * x) / log(gamma)
    return ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def best_of_law(eta, gamma, q):
    """P(outcome i is kept), outcomes in rising order of score, exactly."""
    reached = np.minimum(np.concatenate([[0.0], np.cumsum(q)]), 1.0)
    f = np.array([generating(eta, gamma, x) for x in reached])
    return np.diff(f)


def worst_loss(eta, epsilon, pairs, gammas):
    worst = 0.0
    for one, other in pairs:
        assert np.abs(np.log(one / other)).max() <= epsilon * (1 + 1e-9)  # ε₀-DP
        for gamma in gammas:
            a, b = best_of_law(eta, gamma, one), best_of_law(eta, gamma, other)
            worst = max(worst, float(np.abs(np.log(a / b)).max()))
    return worst / epsilon


def neighbours(epsilon):
    """Finite ε₀-DP mechanisms with three outcomes: common, rare, rarer and better."""
    up, down = exp(epsilon), exp(-epsilon)
    for better in (3e-1, 1e-1, 3e-2, 1e-2, 1e-3, 1e-4):
        for rare in (1e-1, 1e-3, 1e-6, 1e-9):
            for f, g in ((down, up), (up, down), (up, up), (1.0, up), (up, 1.0)):
                one = np.array([0.0, rare, better])
                other = np.array([0.0, rare * f, better * g])
                one[0], other[0] = 1 - one.sum(), 1 - other.sum()
                if other[0] > 0 and abs(log(one[0] / other[0])) <= epsilon:
                    yield one, other


@pytest.mark.parametrize(
    ("eta", "bound", "reached"), [(-0.5, 1.5, 1.47), (0.0, 2.0, 1.99), (1.0, 3.0, 2.93), (2.0, 4.0, 3.91)]
)
def test_price_holds_on_finite_mechanisms_and_is_nearly_reached(eta, bound, reached):
    gammas = [10.0**-k for k in (1, 2, 3, 4, 5, 6, 8)]
    worst = max(worst_loss(eta, e, list(neighbours(e)), gammas) for e in (0.1, 0.5, 1.0))
    assert worst <= bound + 1e-6
    assert worst >= reached
    law = Repetitions(Fraction(eta), Fraction(1, 9))
    assert law.price(PureDP(1)).epsilon == bound


@given(
    q=st.lists(st.floats(0.01, 1), min_size=2, max_size=5),
    tilt=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    eta=st.sampled_from([-0.5, 0.0, 0.5, 1.0, 2.0]),
    gamma=st.floats(1e-4, 0.9),
    epsilon=st.floats(0.05, 2),
)
@settings(max_examples=200, deadline=None)
def test_price_holds_on_random_mechanisms(q, tilt, eta, gamma, epsilon):
    one = np.array(q) / sum(q)
    other = one * np.exp(epsilon / 2 * np.array(tilt[: len(q)]))
    other /= other.sum()
    paid = float(np.abs(np.log(one / other)).max())
    lost = float(np.abs(np.log(best_of_law(eta, gamma, one) / best_of_law(eta, gamma, other))).max())
    assert lost <= (2 + eta) * paid + 1e-7


def test_each_run_and_price_round_to_the_safe_side():
    law = Repetitions(Fraction(1, 3), Fraction(1, 5))
    for units in (1_000_000_000_000, 7, 999_999_999_999, 123_456_789):
        whole = PureDP.of_units(units)
        each = law.each(whole)
        assert law.price(each).units <= units
        assert law.price(PureDP.of_units(each.units + 1)).units > units


# --- the event and the accountant -----------------------------------------------------------------


def event(**changed):
    fields = {
        "candidates": 6,
        "score": "log loss",
        "eta": Fraction(1),
        "gamma": Fraction(1, 12),
        "budget": PureDP(3),
    }
    return Repeated(**{**fields, **changed})


def test_event_round_trips_and_has_a_price():
    assert event_from(event_record(event())) == event()
    assert cost(event(), "epsilon") == PureDP(3).units
    assert cost(event(), "rho") == 7_068_584_070_797  # π ε²/4, with 355/113 for π, rounded up
    accountant = Accountant(PureDP(3), "label")
    accountant.record(event())
    assert accountant.remaining is None
    with pytest.raises(BudgetError, match="log loss"):
        accountant.record(event(budget=PureDP(1)))


@pytest.mark.parametrize(
    "wrong", [{"budget": ZCDP(1)}, {"eta": Fraction(-1)}, {"gamma": Fraction(1)}, {"candidates": 0}]
)
def test_events_without_a_proof_are_refused(wrong):
    with pytest.raises(BudgetError):
        event(**wrong)


# --- the curator ----------------------------------------------------------------------------------


def rows():
    schema = Schema("t", (Attribute("a", "string", Categories.of("xyz", other="x")),), Unit(), "replace")
    return Codes.of(schema, {"a": np.repeat([0, 1, 2], [50, 30, 20])})


def asking(curator):
    """A mechanism that spends all it is given."""
    measured = curator.measure([Marginal.of(curator.schema, ["a"])], [curator.budget])[0]
    return measured.values, float(measured.values[0])


def test_the_best_run_is_kept_within_its_budget():
    curator, law = Curator.rehearse(rows(), PureDP(3), seed=1), Repetitions.with_mean(8, 1)
    seen = []

    def run(trial):
        outcome, score = asking(trial)
        assert trial.budget == PureDP(1)
        assert trial.remaining is None
        with pytest.raises(BudgetError):
            trial.measure([Marginal.of(trial.schema, ["a"])], [PureDP("0.1")])
        seen.append(score)
        return outcome, score

    kept = curator.best_of(run, law, PureDP(3), candidates=1, score="first count")
    assert kept[0] == max(seen)
    assert len(seen) > 1
    assert curator.remaining is None


def test_one_event_whatever_the_number_of_runs():
    """Nothing that is recorded or reported depends on how many runs there were."""
    traces = set()
    counts = set()
    for seed in range(12):
        curator, runs, told = Curator.rehearse(rows(), PureDP(3), seed=seed), [], []
        curator._progress = lambda stage, share, told=told: told.append((stage, share))

        def run(trial, runs=runs):
            runs.append(1)
            trial.report("measuring", 0.5)
            return asking(trial)

        curator.best_of(run, Repetitions.with_mean(8, 1), PureDP(3), candidates=1, score="first count")
        counts.add(len(runs))
        traces.add((tuple(str(event_record(e)) for e in curator._journal.events), tuple(told)))
    assert len(counts) > 4  # the number of runs did differ
    ((events, told),) = traces
    assert len(events) == 1
    assert told == (("selecting", 0.0), ("selecting", 1.0))


def test_runs_use_fresh_coins():
    drawn = []

    def run(trial):
        drawn.append(int(trial.coins("candidate").integers(1 << 40)))
        return asking(trial)

    curator = Curator.rehearse(rows(), PureDP(3), seed=1)
    curator.best_of(run, Repetitions.with_mean(30, 1), PureDP(3), candidates=1, score="s")
    assert len(set(drawn)) == len(drawn) > 1


def test_a_score_that_is_not_a_number_never_wins():
    scores = iter([float("nan"), 1.0, float("nan"), 2.0] + [0.0] * 10_000)
    kept = Repetitions.with_mean(200, 1).best(Stream.for_testing(2), lambda: ("x", next(scores)))
    assert kept == "x"
    values = iter([("a", float("nan")), ("b", -5.0)] + [("c", float("nan"))] * 10_000)
    assert Repetitions.with_mean(200, 1).best(Stream.for_testing(2), lambda: next(values)) == "b"


def test_duration_does_not_tell_the_number_of_runs(monkeypatch):
    """One run or many up to the quantile: the clock shows the same."""
    law = Repetitions.with_mean(5, 1)
    for runs in (1, 3, law.quantile(0.95)):
        clock = [0.0]
        monkeypatch.setattr("dipsmith.privacy.repetition.monotonic", lambda clock=clock: clock[0])
        monkeypatch.setattr(
            "dipsmith.privacy.repetition.sleep", lambda s, clock=clock: clock.__setitem__(0, clock[0] + s)
        )
        monkeypatch.setattr(Repetitions, "sample", lambda self, stream, runs=runs: runs)

        def run(clock=clock):
            clock[0] += 2.0
            return "x", 0.0

        law.best(Stream(), run, conceal=0.95)
        assert clock[0] == pytest.approx(2.0 * law.quantile(0.95))


def test_rho_is_refused_before_anything_is_asked():
    curator = Curator.rehearse(rows(), ZCDP(1), seed=1)
    with pytest.raises(UnsupportedError, match="pure"):
        curator.best_of(asking, Repetitions.with_mean(3, 1), PureDP(1), candidates=1, score="s")
    assert curator._journal.events == []


@pytest.mark.parametrize(
    "wrong",
    [{"eta": Fraction(-1)}, {"gamma": Fraction(0)}, {"gamma": Fraction(1)}, {"eta": 0.5}, {"gamma": 0.1}],
)
def test_laws_that_do_not_exist_are_refused(wrong):
    with pytest.raises(UsageError):
        Repetitions(**{"eta": Fraction(1), "gamma": Fraction(1, 2), **wrong})
