"""Noise-aware intervals: what running the mechanism again finds, for every method, and how often it covers."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dipsmith as ds
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.inference.mechanism import Mechanism
from dipsmith.inference.noise_aware import Runs, noise_aware, with_noise
from dipsmith.methods.catalogue import METHODS
from dipsmith.privacy.neighbours import l1
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.regression.estimates import Estimates

FIELDS = [
    {"name": "a", "type": "string", "enum": ["p", "q", "r"], "other": "p", "role": "public"},
    {"name": "x", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 2}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
]


def schema(neighbours="replace", names="axs"):
    fields = [f for f in FIELDS if f["name"] in names]
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": fields})


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    x = np.clip(a * 2 + rng.integers(0, 5, n), 0, 9)
    s = rng.random(n) < 0.2 + 0.06 * x
    return pa.table({"a": np.array(list("pqr"))[a], "x": x, "s": np.where(s, "F", "M")})


def women(n=1000, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({"s": np.where(rng.random(n) < share, "F", "M")})


def share_of_women(table):
    q = float(is_woman(table).mean())
    return q, q * (1 - q) / table.num_rows


def is_woman(table):
    return pc.equal(table["s"].cast(pa.string()), "F").to_numpy()


def made(table, layout, method, budget, seed=1, **more):
    return ds.synthesize(table, layout, method, budget=budget, testing=True, noise_seed=seed, **more)


@pytest.mark.slow
def test_the_variance_of_noise_is_the_known_one():
    # Two cells with Gaussian noise of variance v, moved to the public total: the share has variance v/2n². The
    # relative standard error of a variance from 1500 normal runs is √(2/1499) = .0365; ± .18 is five (6e-7). With
    # rows drawn systematically, drawing adds less than 1/n² ≪ v/2n².
    release = made(women(), schema(names="s"), ds.Flat(), ds.ZCDP("0.005"))
    found = noise_aware(release, share_of_women, columns=["s"], replicates=1500, seed=3, correct=False)
    variance = release.model.inner.noisy.variance
    assert variance == pytest.approx(200, rel=0.01)
    assert found.noise[0] == pytest.approx(variance / 2 / 1000**2, rel=0.18)
    assert found.variance[0] == found.within[0] + found.noise[0]
    assert found.bias is None
    assert found.estimate[0] == share_of_women(release.tables[0])[0]


@pytest.mark.filterwarnings("ignore:x is a number known in bins")
@pytest.mark.parametrize(
    ("name", "relation"),
    [(name, relation) for name, method in METHODS.items() for relation in method.relations],
)
def test_every_method_can_be_run_again_from_its_folder(tmp_path, name, relation):
    labels = relation == "label"
    method = METHODS[name](targets=["s"]) if labels else METHODS[name]()
    release = made(rows(), schema(relation), method, ds.PureDP(2))
    release.save(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    assert Mechanism.of(again).method == Mechanism.of(release).method

    def mean(table):
        x = table["x"].to_numpy()
        women = is_woman(table)
        return [x.mean(), women.mean()], [x.var() / len(x), women.var() / len(x)]

    found = noise_aware(again, mean, columns=["x"], replicates=10, seed=5)
    assert (found.noise[1:] > 0).all()
    if labels:  # The public column is released as it stands: no noise, nothing to correct.
        assert found.noise[0] == 0
        assert found.bias[0] == 0
    assert np.isfinite(found.interval).all()
    repeated = noise_aware(again, mean, columns=["x"], replicates=10, seed=5)
    assert repeated.variance.tolist() == found.variance.tolist()


def test_synthetic_rows_encode_to_what_was_drawn():
    for relation, method in (("replace", ds.Flat()), ("label", ds.Forest(targets=["s"]))):
        release = made(rows(), schema(relation), method, ds.PureDP(2))
        codes = Mechanism.of(release).codes(release.tables[0])
        labels = np.array(release.schema["s"].labels)[codes["s"]]
        assert labels.tolist() == release.tables[0]["s"].to_pylist()
        assert (codes["x"] == release.tables[0]["x"].to_numpy() // 2).all()


def test_a_given_row_count_is_given_again():
    given = made(rows(), schema("add-remove"), ds.Flat(), ds.PureDP(1), known_rows=590, rows=500)
    assert (Mechanism.of(given).given_rows, Mechanism.of(given).rows) == (590, 500)
    noisy = Mechanism.of(made(rows(), schema("add-remove"), ds.Flat(), ds.PureDP(1)))
    assert (noisy.given_rows, noisy.rows) == (None, None)
    public = Mechanism.of(made(rows(), schema("replace"), ds.Flat(), ds.PureDP(1)))
    assert (public.given_rows, public.rows) == (None, 600)


def test_sets_that_were_split_are_run_with_their_share():
    release = made(women(), schema(names="s"), ds.Flat(), ds.PureDP(1), sets=4, each="split")
    assert Mechanism.of(release).budget == ds.PureDP("0.25")
    found = noise_aware(release, share_of_women, columns=["s"], replicates=400, seed=1, correct=False)
    # Each set: Laplace of scale Δ/ε = 8 on two cells, halved by the public total; a mean of four: a quarter. 400
    # runs of a law with kurtosis 4.5: relative standard error √(3.5/400) = .094; ± .47 is five (6e-7).
    known = DiscreteLaplace(l1("replace", 1, False) / ds.PureDP("0.25").exact).variance / 2 / 1000**2 / 4
    assert found.noise[0] == pytest.approx(known, rel=0.47)
    assert found.between[0] == 0


def test_draws_of_one_model_share_the_noise_and_divide_the_drawing():
    rng = np.random.default_rng(0)

    def drawn(table):
        # An estimator with a sampling error of its own stands for drawing: its variance is 4e-4.
        q, u = share_of_women(table)
        return q + rng.normal(0, 0.02), u

    release = made(women(), schema(names="s"), ds.Flat(), ds.PureDP("0.1"), sets=4, each="draw")
    found = noise_aware(release, drawn, columns=["s"], replicates=400, seed=1, correct=False)
    known = DiscreteLaplace(l1("replace", 1, False) / ds.PureDP("0.1").exact).variance / 2 / 1000**2
    # Noise .0004, drawing .0004 seen in 400 pairs. Relative standard errors: drawing √(2/400) = .07; noise, as the
    # difference (noise + drawing/2) − drawing/2, below .15. Five of each.
    assert found.between[0] == pytest.approx(4e-4, rel=0.35)
    assert found.noise[0] == pytest.approx(known, rel=0.75)
    assert found.variance[0] == pytest.approx(found.within[0] + found.between[0] / 4 + found.noise[0])


def test_bias_is_seen_and_taken_off():
    """A method that halves every difference from one half: what comes out at .4 was .3."""
    release = made(women(5000), schema(names="s"), ds.Flat(), ds.PureDP(5))
    twice = noise_aware(release, share_of_women, columns=["s"], replicates=20, seed=2, method=Halving())
    raw = share_of_women(release.tables[0])[0]
    # Run on rows with a share of `raw`, halving moves it to (raw + .5)/2.
    bias = (0.5 - raw) / 2
    assert twice.bias[0] == pytest.approx(bias, abs=0.005)
    assert twice.estimate[0] == pytest.approx(raw - bias, abs=0.005)
    assert twice.raw[0] == pytest.approx(raw)
    assert "taken off" in str(twice)
    as_it_is = noise_aware(
        release, share_of_women, columns=["s"], replicates=20, seed=2, method=Halving(), correct=False
    )
    assert as_it_is.estimate[0] == raw


def test_attenuation_is_divided_out():
    """Effects of ten standard errors that the mechanism shrinks to .7 of their size, and to .7 again when run again."""
    # 20,000 repeats: five standard errors of a share near .95 are .0077 (6e-7). Subtracting the bias that is seen
    # (.21 of the effect, of .3) covers .905.
    rng = np.random.default_rng(12)
    truth, kept, block, hits = 10.0, 0.7, 200, 0
    for _ in range(100):
        q = kept * (truth + rng.normal(0, 0.5, block)) + rng.normal(0, 1, block)
        moved = kept * q + rng.normal(0, 1, (50, block)) - q
        each = Estimates(tuple(map(str, range(block))), q, np.eye(block) / 4, 1000)
        low, high = with_noise((each,), Runs(moved, np.zeros(block), 1), method="shrinking").interval
        hits += ((low <= truth) & (high >= truth)).sum()
    assert hits / 20_000 == pytest.approx(0.95, abs=0.0077)


def shrinking(kept, truth, block, repeats, seed, runs=50):
    """Estimates that a mechanism shrinks, with unit noise; every one with what with_noise makes of it."""
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        q = kept * (truth + rng.normal(0, 0.5, block)) + rng.normal(0, 1, block)
        moved = kept * q + rng.normal(0, 1, (runs, block)) - q
        each = Estimates(tuple(map(str, range(block))), q, np.eye(block) / 4, 1000)
        yield q, with_noise((each,), Runs(moved, np.zeros(block), 1), method="shrinking")


def test_what_loses_more_than_half_has_no_interval():
    """Effects of thirty standard errors that come out at .3 of their size: doubling them would not reach them."""
    for q, found in shrinking(0.3, 30.0, 200, 1, seed=3):
        assert np.isnan(found.variance).all()
        assert np.isnan(found.p_value).all()
        assert found.estimate.tolist() == q.tolist()
        assert "No interval for 0, 1, 2, 3, 4 and 195 more" in " ".join(found.notes)
        assert "larger budget" in str(found)


def test_no_estimate_is_more_than_doubled():
    # a = .98 shrinkage used to triple, a reversal of sign to multiply by seven
    for shrunk in (0.3, 0.5, 0.98, 3.0):
        q = np.array([1.0])
        moved = -shrunk * q + np.resize([-0.01, 0.01], (20, 1))
        for u in (1e-6, 1e6):  # a bias that matters, and one that is nothing beside the standard error
            each = Estimates(("x",), q, np.array([[u]]), 1000)
            found = with_noise((each,), Runs(moved, np.zeros(1), 1), method="shrinking")
            told = np.isfinite(found.variance[0])
            assert told == (shrunk <= 0.5 or u > 1)
            assert found.estimate[0] == pytest.approx(1 / (1 - shrunk) if shrunk <= 0.5 else 1 + shrunk if told else 1)


def test_the_simulation_of_a_strong_correction_is_paid_for():
    """Ten runs and a = .55: Var(q*)/R counts by 1/a⁴ = 11, not by 1/a² = 3."""
    # 20,000 repeats of effects of 60 standard errors, none beyond one step: five standard errors of a share near .95 are
    # .0077 (6e-7). With 1/a² it covers .93.
    hits = told = 0
    for _, found in shrinking(0.7, 60.0, 200, 100, seed=4, runs=10):
        low, high = found.interval
        hits += ((low <= 60) & (high >= 60)).sum()
        told += np.isfinite(low).sum()
    assert told == 20_000
    assert hits / told == pytest.approx(0.95, abs=0.0077)


def test_public_coefficients_follow_what_private_ones_lose():
    """A private effect θ comes out at aθ, and a public one takes d(1 − a)θ over; both again in every run."""
    # 20,000 repeats: five standard errors of a share near .95 are .0077 (6e-7); another .01 for what is approximate.
    # Subtracting the bias that is seen, a·d(1 − a)θ, covers .80.
    rng = np.random.default_rng(6)
    theta, kept, d, block, hits = 20.0, 0.6, 0.5, 200, 0
    for _ in range(100):
        sampled = rng.normal(0, 0.5, (2, block))
        q = kept * (theta + sampled[0]) + rng.normal(0, 1, block)
        z = sampled[1] + d * (theta + sampled[0] - q)
        again = kept * q + rng.normal(0, 1, (50, block))
        moved_z = d * (q - again)
        for i in range(0, block, 10):
            each = Estimates(("s", "z"), np.array([q[i], z[i]]), np.diag([0.25, 0.25 + d**2 / 4]), 1000)
            moved = np.stack([again[:, i] - q[i], moved_z[:, i]], axis=1)
            found = with_noise((each,), Runs(moved, np.zeros(2), 1), method="m", follows=np.array([False, True]))
            hits += found.interval[0][1] <= 0 <= found.interval[1][1]
    assert hits / 2000 > 0.95 - 5 * (0.95 * 0.05 / 2000) ** 0.5 - 0.01


class Halving:
    """Flat, then every share drawn half way towards equal shares."""

    name = "halving"
    relations = ("replace",)

    def fit(self, curator):
        return HalvedModel(ds.Flat().fit(curator))


class HalvedModel:
    def __init__(self, inner):
        self.inner = inner
        self.schema = inner.schema

    def sample(self, n=None, seed=None):
        codes = self.inner.sample(n, seed)
        rng = np.random.default_rng(seed)
        again = np.where(rng.random(n) < 0.5, codes["s"], rng.integers(0, 2, n))
        return type(codes).of(self.schema, {"s": again}, n)


def test_estimates_that_some_tables_lack():
    release = made(women(), schema(names="s"), ds.Flat(), ds.PureDP(1))
    calls = []

    def sometimes(table):
        calls.append(1)
        lost = np.nan if len(calls) % 5 == 0 else 0.0
        never = np.nan if len(calls) > 1 else 0.0
        q, u = share_of_women(table)
        return [q + lost, q + never], [u, u]

    found = noise_aware(release, sometimes, columns=["s"], replicates=40, seed=1)
    assert np.isfinite(found.variance[0])
    assert np.isnan(found.variance[1])
    assert "1 estimates could not be found in most runs" in " ".join(found.notes)


def test_what_cannot_be_run_again_is_refused():
    release = made(women(), schema(names="s"), ds.Flat(), ds.PureDP(1))
    from dataclasses import replace

    unknown = replace(release, card=replace(release.card, method="oracle"))
    with pytest.raises(UnsupportedError, match=r"'oracle' is not one of the methods .* method="):
        noise_aware(unknown, share_of_women, columns=["s"])
    untold = replace(release, card=replace(release.card, parameters={"post": "project"}))
    with pytest.raises(UnsupportedError, match="does not tell flat's parameter 'count_share'"):
        noise_aware(untold, share_of_women, columns=["s"])
    odd = replace(release, card=replace(release.card, parameters={"post": "pray", "count_share": 0.05}))
    with pytest.raises(UnsupportedError, match="do not make a flat"):
        noise_aware(odd, share_of_women, columns=["s"])
    bare = replace(release, models=())
    with pytest.raises(UnsupportedError, match="no model"):
        noise_aware(bare, share_of_women, columns=["s"])
    with pytest.raises(UsageError, match="replicates is 5"):
        noise_aware(release, share_of_women, columns=["s"], replicates=5)
    with pytest.raises(UsageError, match="an estimator returned a float"):
        noise_aware(release, lambda table: 0.5, columns=["s"])
    with pytest.raises(UsageError, match="one variance per value"):
        noise_aware(release, lambda table: ([0.5, 0.6], [0.1]), columns=["s"])


def test_progress_and_estimates_of_ones_own():
    release = made(women(), schema(names="s"), ds.Flat(), ds.PureDP(1))
    seen = []

    def named(table):
        q, u = share_of_women(table)
        return Estimates(("women",), np.array([q]), np.array([[u]]), table.num_rows, df=12.0, notes=("mine",))

    found = noise_aware(release, named, columns=["s"], replicates=10, progress=lambda stage, share: seen.append(share))
    assert found["women"].value == found.estimate[0]
    assert found.notes[0] == "mine"
    assert seen[-1] == 1.0
    assert len(seen) == 11


# --- coverage ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_sanitised_set_covers_with_the_whole_path():
    """A share of .3 in 1000 rows, ε = 0.14 under replace: noise of variance 200 on the count."""
    # 200 repeats: a right 95 % interval covers 190 ± 3.1; five standard errors below: 174. Ordinary intervals
    # cover about 84 %: 168 ± 5.2, five above: 194.
    covered = ordinary = width = 0
    for seed in range(200):
        release = made(women(seed=seed), schema(names="s"), ds.Flat(), ds.PureDP("0.14142"), seed=seed)
        found = noise_aware(release, share_of_women, columns=["s"], replicates=20, seed=seed)
        covered += found.interval[0][0] <= 0.3 <= found.interval[1][0]
        q, u = share_of_women(release.tables[0])
        ordinary += abs(q - 0.3) <= 1.96 * u**0.5
        width += (found.interval[1][0] - found.interval[0][0]) / 200
    assert covered >= 174
    assert ordinary <= 194
    assert width < 0.162 * 0.6


@pytest.mark.slow
def test_shrunk_effects_are_covered_after_correction():
    """Labels by a forest that shrinks: the gap in x between women and men, 1500 rows, ε = 0.5."""
    # 30 repeats. Of right intervals 20 or more cover but with a probability of 1e-7. Ordinary ones: about a third.
    truth = gap(rows(400_000, seed=99))[0]
    covered = ordinary = 0
    for seed in range(30):
        release = made(rows(1500, seed), schema("label"), ds.Forest(targets=["s"]), ds.PureDP("0.5"), seed=seed)
        found = noise_aware(release, gap, columns=["s"], replicates=15, seed=seed)
        covered += found.interval[0][0] <= truth <= found.interval[1][0]
        q, u = gap(release.tables[0])
        ordinary += abs(q - truth) <= 1.96 * u**0.5
    assert covered >= 20
    assert ordinary <= 19


def gap(table):
    x, women = table["x"].to_numpy(), is_woman(table)
    one, other = x[women], x[~women]
    return one.mean() - other.mean(), one.var() / len(one) + other.var() / len(other)
