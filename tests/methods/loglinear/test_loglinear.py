"""The log-linear labeller: what it reads, what it estimates, what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from dipsmith.counting.count import MemoryRows
from dipsmith.errors import SchemaError, UnsupportedError, UsageError
from dipsmith.methods.loglinear.clique import Clique
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.loglinear.model import LogLinearModel, centre_effects
from dipsmith.methods.loglinear.noisy_tables import LabelMisfit, allowance
from dipsmith.methods.method import PublicFacts
from dipsmith.planning.plan import plan
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.schema import Attribute, Categories, Codes, Rule, Schema, Unit


def attribute(name, size, role="public", **more):
    labels = [f"{name}{i}" for i in range(size)]
    return Attribute(name, "string", Categories.of(labels, other=labels[0], **more), role)


def schema_of(sizes, targets, *, unit=None, rules=(), relation="label", ordered=()):
    public = [attribute(n, s, ordered=n in ordered) for n, s in sizes.items()]
    private = [attribute(n, s, "private") for n, s in targets.items()]
    return Schema("t", (*public, *private), unit or Unit(), relation, tuple(rules))


def simulated(schema, target, n, seed, scale=0.6):
    """Rows whose label follows main effects of all public columns; other private columns are coins."""
    rng = np.random.default_rng(seed)
    columns = {a.name: rng.integers(0, a.size, n) for a in schema}
    size = schema[target].size
    effects = {p: rng.normal(0, scale, (schema[p].size, size)) for p in schema.public}
    eta = sum(e[columns[p]] for p, e in effects.items()) + rng.gumbel(size=(n, size))
    columns[target] = eta.argmax(axis=1)
    return Codes.of(schema, columns, n), effects


def log_loss(p, y):
    return float(-np.log(p[np.arange(len(y)), y]).mean())


# --- estimation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "budget"), [(2, PureDP(10**6)), (4, PureDP(10**6)), (3, ZCDP(10**6))])
def test_noise_to_zero_gives_logistic_regression(labels, budget):
    api = pytest.importorskip("statsmodels.api")
    schema = schema_of({"a": 3, "b": 4}, {"y": labels})
    codes, _ = simulated(schema, "y", 3000, seed=1)
    model = LogLinear(targets=["y"], interactions=0, shrink=False).fit(Curator.rehearse(codes, budget, seed=1))
    dummies = [codes[n][:, None] == np.arange(1, schema[n].size) for n in ("a", "b")]
    design = api.add_constant(np.hstack(dummies).astype(float))
    theirs = api.MNLogit(codes["y"].astype(int), design).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose(model.probabilities(codes), theirs.predict(design), atol=1e-4)
    odds = [t[:, 1:] - t[:, :1] for t in model.blocks[0].tables]
    np.testing.assert_allclose(odds[1][1:] - odds[1][:1], np.asarray(theirs.params)[1:3], atol=1e-4)


def test_shrinkage_vanishes_with_rows_at_large_budgets():
    schema = schema_of({"a": 3, "b": 4}, {"y": 2}, ordered=("b",))
    codes, effects = simulated(schema, "y", 60_000, seed=2)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(100), seed=1))
    block = model.blocks[0]
    for clique, table, errors, sizes in zip(block.cliques, block.tables, block.errors, block.sizes, strict=True):
        if len(clique.predictors) == 1:
            truth = centre_effects(effects[clique.predictors[0]], sizes)
            assert (np.abs(centre_effects(table, sizes) - truth) < 5 * errors).all()


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("epsilon", [0.005, 0.05])
def test_small_budgets_never_lose_to_the_private_marginal(labels, epsilon):
    """Mean over 4 seeds, weak effects; the marginal is bought with the whole ε."""
    schema = schema_of({"a": 7, "b": 16, "c": 15}, {"y": labels}, ordered=("b",))
    excess = []
    for seed in range(4):
        codes, _ = simulated(schema, "y", 20_000, seed=seed, scale=0.15)
        test, _ = simulated(schema, "y", 20_000, seed=seed, scale=0.15)
        model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(epsilon), seed=seed))
        alone = LogLinear(targets=["y"], predictors=[]).fit(Curator.rehearse(codes, PureDP(epsilon), seed=seed))
        loss, marginal = (log_loss(m.probabilities(test), test["y"]) for m in (model, alone))
        excess.append(loss - marginal)
    assert np.mean(excess) < 0.01


@pytest.mark.slow
def test_stated_standard_errors_cover_the_truth():
    """200 repeats × 54 effects at 95 %.

    Mean coverage has standard error ≤ √(.95·.05/200) = .0154 even if all effects of a repeat hit or miss
    together; that it falls 5.2 of these below 95 % has probability < 1e-6 (the bound .93 allows for
    the linearisation). One effect of 54 below .85: binomial(200, .95) ≤ 169 has probability 6e-8.
    """
    schema = schema_of({"a": 6, "b": 4, "c": 8}, {"y": 4}, ordered=("c",))
    rng = np.random.default_rng(1)
    n = 4000
    columns = {p: rng.integers(0, schema[p].size, n) for p in "abc"}
    effects = {p: rng.normal(0, 0.5, (schema[p].size, 4)) for p in "abc"}
    eta = sum(e[columns[p]] for p, e in effects.items())
    reached = np.cumsum(np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True), axis=1)[:, :-1]
    hits = {p: np.zeros((schema[p].size, 3)) for p in "abc"}
    for repeat in range(200):
        y = (rng.random((n, 1)) > reached).sum(axis=1)
        codes = Codes.of(schema, {**columns, "y": y}, n)
        model = LogLinear(targets=["y"], interactions=0).fit(Curator.rehearse(codes, PureDP(1), seed=repeat))
        block = model.blocks[0]
        for i, p in enumerate("abc", start=1):
            truth = centre_effects(effects[p], block.sizes[i])
            found = centre_effects(block.unshrunk[i], block.sizes[i])
            hits[p] += np.abs(found - truth) < 1.96 * block.errors[i]
    rates = np.concatenate([h.ravel() for h in hits.values()]) / 200
    assert 0.93 < rates.mean() < 0.98
    assert rates.min() > 0.85


def test_effects_are_a_table_with_names():
    schema = schema_of({"a": 3, "b": 2}, {"sex": 2, "race": 3})
    codes, _ = simulated(schema, "race", 2000, seed=3)
    model = LogLinear(targets=["sex", "race"], interactions=0).fit(Curator.rehearse(codes, PureDP(5), seed=1))
    effects = model.effects()
    assert len(effects) == (3 + 2) * 5
    first = next(iter(effects))
    assert (first.attributes, first.level, first.targets) == ("a", "a0", "sex × race")
    assert (first.label, first.reference) == ("sex0 × race1", "sex0 × race0")
    table = effects.to_arrow()
    assert table.column_names[-4:] == ["effect", "std_error", "shrunk", "rows"]
    assert len(effects.of("b")) == 10
    weights = np.array([e.rows for e in effects.of("a") if e.label == "sex1 × race2"])
    values = np.array([e.effect for e in effects.of("a") if e.label == "sex1 × race2"])
    assert weights @ values == pytest.approx(0, abs=1e-8)
    assert "<table>" in effects._repr_html_()
    assert "±" in str(effects)


@pytest.mark.slow
def test_interactions_that_matter_are_found_and_help():
    """An XOR of two predictors: main effects know nothing, one chosen pair knows all."""
    schema = schema_of({"a": 4, "b": 4, "c": 5, "d": 6}, {"y": 2})
    rng = np.random.default_rng(4)
    n = 30_000
    columns = {p: rng.integers(0, schema[p].size, n) for p in "abcd"}
    odds = np.where((columns["a"] + columns["b"]) % 2 == 0, 1.5, -1.5) + 0.3 * (columns["c"] - 2)
    columns["y"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    codes = Codes.of(schema, columns, n)
    plain = LogLinear(targets=["y"], interactions=0).fit(Curator.rehearse(codes, PureDP(3), seed=1))
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(3), seed=1))
    assert ("a", "b") in [c.predictors for c in model.blocks[0].cliques]
    best = log_loss(np.stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], axis=1), codes["y"])
    gaps = [log_loss(m.probabilities(codes), codes["y"]) - best for m in (plain, model)]
    assert gaps[1] < 0.1 * gaps[0]


@pytest.mark.slow
def test_three_way_effects_grow_from_chosen_pairs():
    schema = schema_of({"a": 2, "b": 2, "c": 2, "d": 3}, {"y": 2})
    rng = np.random.default_rng(5)
    n = 40_000
    columns = {p: rng.integers(0, schema[p].size, n) for p in "abcd"}
    parity = (columns["a"] + columns["b"] + columns["c"]) % 2
    odds = np.where(parity == 0, 1.2, -1.2) + 0.6 * (columns["a"] == columns["b"])
    columns["y"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    codes = Codes.of(schema, columns, n)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(3), seed=2))
    assert {"a", "b", "c"} in [set(c.predictors) for c in model.blocks[0].cliques]


def test_smoothness_helps_along_an_ordered_attribute():
    schema = schema_of({"age": 40, "b": 3}, {"y": 2}, ordered=("age",))
    rng = np.random.default_rng(6)
    n = 20_000
    columns = {"age": rng.integers(0, 40, n), "b": rng.integers(0, 3, n)}
    odds = 1.5 * np.sin(columns["age"] / 8)
    columns["y"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    codes = Codes.of(schema, columns, n)
    losses = []
    for smooth in (None, ()):
        made = [
            LogLinear(targets=["y"], interactions=0, smooth=smooth).fit(Curator.rehearse(codes, PureDP(0.05), seed=s))
            for s in range(5)
        ]
        losses.append(np.mean([log_loss(m.probabilities(codes), codes["y"]) for m in made]))
    assert losses[0] < losses[1] - 0.005


def test_joint_association_of_two_targets_is_kept():
    schema = schema_of({"a": 5}, {"sex": 2, "race": 3})
    rng = np.random.default_rng(7)
    n = 20_000
    a, sex = rng.integers(0, 5, n), rng.integers(0, 2, n)
    race = (rng.random((n, 1)) > np.array([[0.6, 0.9], [0.2, 0.5]])[sex]).sum(axis=1)
    codes = Codes.of(schema, {"a": a, "sex": sex, "race": race}, n)
    model = LogLinear(targets=["race", "sex"]).fit(Curator.rehearse(codes, PureDP(2), seed=1))
    assert model.targets == ("sex", "race")
    made = model.label(codes.project(["a"]), seed=1)
    assert _log_odds(made) == pytest.approx(_log_odds(codes), abs=0.1)


def test_many_joint_labels_are_modelled_target_by_target_with_their_association():
    schema = schema_of({"a": 5, "b": 3}, {"sex": 2, "race": 30})
    rng = np.random.default_rng(8)
    n = 40_000
    a, b, sex = rng.integers(0, 5, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    race = np.minimum(rng.geometric(np.where(sex == 1, 0.15, 0.3) + 0.03 * a), 30) - 1
    codes = Codes.of(schema, {"a": a, "b": b, "sex": sex, "race": race}, n)
    model = LogLinear(targets=["sex", "race"], interactions=0).fit(Curator.rehearse(codes, PureDP(5), seed=1))
    kinds = {(c.predictors, c.targets) for c in model.blocks[0].cliques}
    assert {((), ("sex", "race")), (("a",), ("sex",)), (("a",), ("race",))} <= kinds
    assert (("a",), ("sex", "race")) not in kinds
    assert model.probabilities(codes.take(slice(0, 9))).shape == (9, 60)
    made = model.label(codes, seed=1)
    for low in (0, 3):
        true, drawn = ((c["race"] <= low).astype(int) * 2 + (c["sex"] == 1) for c in (codes, made))
        true, drawn = (np.bincount(x, minlength=4) for x in (true, drawn))
        assert np.abs(true - drawn).sum() / n < 0.02


def _log_odds(codes):
    t = np.zeros((2, 3))
    np.add.at(t, (codes["sex"], codes["race"]), 1)
    return np.log(t[0, 0] * t[1, 1] / (t[0, 1] * t[1, 0]))


# --- privacy ------------------------------------------------------------------------------------


class Replay:
    """A curator that gives recorded answers and has no rows at all."""

    def __init__(self, curator):
        self.schema, self.relation, self.budget = curator.schema, curator.relation, curator.budget
        self.remaining = None
        self.answers = []

    def public_rows(self, attributes):
        return self.answers.pop(0)

    def measure(self, cells, budgets):
        return self.answers.pop(0)

    def choose(self, candidates, score, budget):
        chosen = self.answers.pop(0)
        assert chosen in candidates
        return chosen

    def report(self, stage, share):
        pass


class Recorder:
    """Passes everything on and remembers the answers."""

    def __init__(self, curator):
        self.curator = curator
        self.replay = Replay(curator)

    def __getattr__(self, name):
        found = getattr(self.curator, name)
        if name not in ("public_rows", "measure", "choose"):
            return found

        def asked(*given):
            answer = found(*given)
            self.replay.answers.append(answer)
            return answer

        return asked


@pytest.mark.parametrize("budget", [PureDP(5), ZCDP(2)])
def test_the_model_is_a_function_of_public_rows_and_noisy_answers(budget):
    schema = schema_of({"a": 4, "b": 5, "c": 3}, {"y": 3}, ordered=("b",))
    codes, _ = simulated(schema, "y", 20_000, seed=9)
    recorder = Recorder(Curator.rehearse(codes, budget, seed=1))
    model = LogLinear(targets=["y"]).fit(recorder)
    again = LogLinear(targets=["y"]).fit(recorder.replay)
    assert recorder.replay.answers == []
    assert len(model.blocks[0].cliques) > 4  # choices were recorded too
    for one, other in zip(model.state()[1].values(), again.state()[1].values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("labels", "single"), [(2, True), (3, False)])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_one_label_moves_every_table_by_exactly_the_declared_sensitivity(labels, single, rows_per_unit):
    unit = Unit() if rows_per_unit == 1 else Unit("person", rows_per_unit)
    schema = schema_of({"a": 4, "b": 5}, {"y": labels}, unit=unit)
    codes, _ = simulated(schema, "y", 300, seed=10)
    y = codes["y"].astype(int)
    y[:rows_per_unit] = 0
    codes = Codes.of(schema, {**codes.columns, "y": y})
    y[:rows_per_unit] = 1
    neighbour = Codes.of(schema, {**codes.columns, "y": y})
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    model = LogLinear(targets=["y"], interactions=[("a", "b")]).fit(curator)
    events = [e for e in curator._journal.events if isinstance(e, Measured)]
    assert len(events) == len(model.blocks[0].cliques) == 4
    for event, clique in zip(events, model.blocks[0].cliques, strict=True):
        cells = [clique.marginal(schema)]
        one, other = (MemoryRows(c).count(cells)[0].reshape(-1, labels) for c in (codes, neighbour))
        read = (one - other)[:, 1:] if single else one - other
        assert np.abs(read).sum() == event.sensitivity == rows_per_unit * (1 if single else 2)


def test_misfit_moves_by_at_most_its_sensitivity():
    schema = schema_of({"a": 4, "b": 5}, {"y": 3})
    codes, _ = simulated(schema, "y", 500, seed=11)
    clique = Clique(("a", "b"), ("y",))
    rng = np.random.default_rng(0)
    expected = rng.uniform(0, 20, (20, 3))
    score = LabelMisfit({clique: expected}, {clique: 3.0}, schema)
    before = score.value(clique, MemoryRows(codes).count(score.tables(clique)))
    moved = []
    for row in range(200):
        y = codes["y"].astype(int)
        y[row] = (y[row] + 1 + row % 2) % 3
        neighbour = Codes.of(schema, {**codes.columns, "y": y})
        moved.append(abs(score.value(clique, MemoryRows(neighbour).count(score.tables(clique))) - before))
    assert max(moved) <= 1 + 1e-9
    assert max(moved) > 0.99  # the bound is attained
    assert score.sensitivity("label", 4) == Fraction(4)
    with pytest.raises(UnsupportedError, match="label"):
        score.sensitivity("replace", 1)


def test_allowance_is_what_sampling_and_noise_make_of_a_right_model():
    rng = np.random.default_rng(0)
    expected = rng.uniform(20, 60, (30, 3))
    totals = expected.sum(axis=1)
    found = []
    for _ in range(300):
        counts = np.stack([rng.multinomial(round(t), e / t) for t, e in zip(totals, expected, strict=True)])
        noisy = counts + rng.normal(0, 8, counts.shape)
        found.append(0.5 * np.abs(noisy - expected).sum())
    # Standard error of the mean of 300 is below 0.3 %.
    assert allowance(expected, 8.0) == pytest.approx(np.mean(found), rel=0.03)


@pytest.mark.parametrize("budget", [PureDP("0.75"), ZCDP("0.05")])
def test_plan_is_what_is_spent(budget):
    schema = schema_of({"a": 4, "b": 5, "c": 3}, {"y": 2, "z": 2})
    codes, _ = simulated(schema, "y", 50_000, seed=12)
    method = LogLinear(targets=["y", "z"])
    curator = Curator.rehearse(codes, budget, seed=1)
    public = curator.public_rows(["a", "b", "c"])
    lines = method.plan(schema, budget, PublicFacts(None, public))
    method.fit(curator)
    events = [e for e in curator._journal.events if isinstance(e, Measured | Chosen)]
    assert [line.budget for line in lines] == [e.budget for e in events]
    assert sum(line.budget.units for line in lines) == budget.units
    assert [line.stage for line in lines[:3]] == ["label marginal", "effect", "effect"]
    assert "±" in lines[1].what
    for line, event in zip(lines, events, strict=True):
        if line.cells is not None:
            assert line.cells == event.size
    assert any(isinstance(e, Chosen) for e in events)


def test_plan_says_when_noise_will_hide_effects():
    schema = schema_of({"a": 40}, {"y": 5})
    lines = LogLinear(targets=["y"]).plan(schema, PureDP("0.01"), PublicFacts(5000))
    assert "hides" in lines[1].note
    assert LogLinear(targets=["y"]).plan(schema, PureDP(5), PublicFacts(500_000))[1].note == ""


def test_the_marginal_gets_more_when_the_budget_is_tiny():
    schema = schema_of({"a": 10, "b": 10}, {"y": 5})
    shares = []
    for epsilon in (1.0, 0.03, 0.001):
        lines = LogLinear(targets=["y"]).plan(schema, PureDP(epsilon), PublicFacts(20_000))
        shares.append(float(lines[0].budget.exact) / epsilon)
    assert shares[0] == pytest.approx(0.1, abs=1e-6)
    assert shares[0] < shares[1] <= shares[2] + 1e-6
    assert shares[2] == pytest.approx(0.95, abs=1e-6)


def test_strata_are_parallel_for_units_within_them_and_add_up_otherwise():
    for unit, stage in (
        (Unit("id", 2, "year"), "in each year: label marginal"),
        (Unit("id", 2), "year year0: label marginal"),
    ):
        schema = schema_of({"year": 2, "a": 3}, {"y": 2}, unit=unit)
        codes, _ = simulated(schema, "y", 8000, seed=13, scale=0.0)
        year, a = codes["year"].astype(int), codes["a"].astype(int)
        y = (np.random.default_rng(0).random(8000) < np.where((a == 0) ^ (year == 1), 0.8, 0.2)).astype(int)
        codes = Codes.of(schema, {**codes.columns, "y": y})
        curator = Curator.rehearse(codes, PureDP(1), seed=1)
        method = LogLinear(targets=["y"], strata="year")
        model = method.fit(curator)
        assert len(model.blocks) == 2
        p = model.probabilities(codes)[:, 1]
        for k in range(2):
            assert p[(year == k) & (a == 0)].mean() == pytest.approx(0.2 if k else 0.8, abs=0.05)
        facts = PublicFacts(None, curator.public_rows(["year", "a"]))
        lines = method.plan(schema, PureDP(1), facts)
        assert sum(line.budget.units for line in lines) == 10**12
        assert lines[0].stage == stage
        said = plan(schema, method, PureDP(1), public=facts).person_total
        assert (None if said is None else said.total) == (PureDP(2) if unit.per == "year" else None)
        assert {e.stratum for e in model.effects()} == {"year0", "year1"}
        made = LogLinearModel.from_state(schema, *model.state()).label(codes, seed=3)
        assert made["y"].tolist() == model.label(codes, seed=3)["y"].tolist()


# --- labelling ----------------------------------------------------------------------------------


def test_labels_follow_the_probabilities_and_blocks_do_not_matter(monkeypatch):
    schema = schema_of({"a": 3}, {"y": 3})
    codes, _ = simulated(schema, "y", 60_000, seed=14)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(3), seed=1))
    p = model.probabilities(codes.project(["a"]))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    made = model.label(codes.project(["a"]), seed=5)
    assert made.names == ("a", "y")
    for a in range(3):
        here = codes["a"] == a
        share = np.bincount(made["y"][here], minlength=3) / here.sum()
        # n ≥ 19,000: 6 standard errors of a share are .022 (false positives < 1e-8 over 9 shares).
        np.testing.assert_allclose(share, p[here][0], atol=0.022)
    monkeypatch.setattr("dipsmith.methods.loglinear.model.BLOCK", 3000)
    np.testing.assert_array_equal(model.probabilities(codes.project(["a"])), p)
    assert model.label(codes.project(["a"]), seed=5)["y"].tolist() == made["y"].tolist()
    assert model.label(codes, seed=6)["y"].tolist() != made["y"].tolist()


def test_rules_about_labels_are_kept():
    rules = (
        Rule((("a", (0,)), ("y", (2,))), "never y2 in a0"),
        Rule((("b", (1,)), ("y", (0, 1, 2))), "b1 has no lawful label"),
    )
    schema = schema_of({"a": 3, "b": 2}, {"y": 3}, rules=rules)
    codes, _ = simulated(schema, "y", 4000, seed=15)
    fine = (codes["b"] == 0) & ~((codes["a"] == 0) & (codes["y"] == 2))
    curator = Curator.rehearse(codes.take(fine), PureDP(1), seed=1)
    model = LogLinear(targets=["y"], predictors=["a"]).fit(curator)
    assert model.predictors == ("a", "b")  # the second rule must be looked up
    p = model.probabilities(codes)
    assert (p[(codes["a"] == 0) & (codes["b"] == 0), 2] == 0).all()
    assert (p[(codes["a"] == 1) & (codes["b"] == 0), 2] > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)  # rows without a lawful label get one all the same


def test_labelling_another_file_uses_cells_never_seen():
    schema = schema_of({"a": 6, "b": 3}, {"y": 2}, ordered=("a",))
    codes, _ = simulated(schema, "y", 5000, seed=16)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes.take(codes["a"] < 4), PureDP(3), seed=1))
    p = model.probabilities(codes.project(["a", "b"]))
    assert np.isfinite(p).all()
    unseen = [e for e in model.effects().of("a") if e.level == "a5"]
    assert unseen[0].rows == 0
    assert np.isinf(unseen[0].std_error)
    with pytest.raises(UsageError, match="'b'"):
        model.label(codes.project(["a"]))
    with pytest.raises(UsageError, match="label"):
        model.sample(10)


# --- odd data -----------------------------------------------------------------------------------


def test_separated_data_give_sure_labels():
    schema = schema_of({"a": 2}, {"y": 2})
    a = np.repeat([0, 1], 5000)
    codes = Codes.of(schema, {"a": a, "y": a})
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    p = model.probabilities(codes)
    assert p[a == 0, 1].max() < 0.02
    assert p[a == 1, 1].min() > 0.98


def test_a_predictor_with_one_level_costs_nothing():
    schema = schema_of({"a": 3, "one": 1, "same": 4}, {"y": 2})
    codes, _ = simulated(schema, "y", 2000, seed=17)
    codes = Codes.of(schema, {**codes.columns, "same": np.full(2000, 2)})
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert [c.predictors for c in model.blocks[0].cliques] == [(), ("a",)]
    assert np.isfinite(model.probabilities(codes)).all()


def test_a_target_with_one_label_is_known():
    schema = schema_of({"a": 3}, {"y": 1})
    codes = Codes.of(schema, {"a": np.arange(9) % 3, "y": np.zeros(9, dtype=int)})
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert model.probabilities(codes).tolist() == [[1.0]] * 9


def test_no_rows_give_a_model_that_knows_nothing():
    schema = schema_of({"a": 3}, {"y": 4})
    codes = Codes.of(schema, {"a": np.zeros(0, dtype=int), "y": np.zeros(0, dtype=int)}, 0)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    some = Codes.of(schema, {"a": np.array([0, 2])})
    np.testing.assert_allclose(model.probabilities(some), 0.25)


@pytest.mark.slow
def test_ten_thousand_labels_in_a_predictor():
    schema = schema_of({"place": 10_000, "b": 3}, {"y": 3})
    codes, effects = simulated(schema, "y", 60_000, seed=18, scale=1.0)
    model = LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(20), seed=1))
    plain = LogLinear(targets=["y"], predictors=["b"]).fit(Curator.rehearse(codes, PureDP(20), seed=1))
    eta = sum(e[codes[p]] for p, e in effects.items())
    fresh = (eta + np.random.default_rng(0).gumbel(size=eta.shape)).argmax(axis=1)
    losses = [log_loss(m.probabilities(codes), fresh) for m in (model, plain)]
    assert losses[0] < losses[1] - 0.03


# --- refusals and parameters ----------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_other_relations_are_refused_with_a_way_out(relation):
    schema = schema_of({"a": 3}, {"y": 2}, relation=relation)
    codes, _ = simulated(schema, "y", 50, seed=19)
    with pytest.raises(UnsupportedError, match=r"loglinear.*forest, mst or aim"):
        LogLinear(targets=["y"]).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    with pytest.raises(UnsupportedError, match=relation):
        LogLinear(targets=["y"]).plan(schema, PureDP(1), PublicFacts(50))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"targets": []}, UsageError, "targets is empty"),
        ({"targets": ["y"], "interactions": "all"}, UsageError, "interactions is 'all'"),
        ({"targets": ["y"], "interactions": [("a",)]}, UsageError, "two different"),
        ({"targets": ["y"], "max_effects": 0}, UsageError, "max_effects"),
        ({"targets": ["a"]}, UsageError, "'a' is public"),
        ({"targets": ["y"], "predictors": ["z"]}, UsageError, "'z' is private"),
        ({"targets": ["y"], "predictors": ["nope"]}, SchemaError, "'nope'"),
        ({"targets": ["y"], "analyses": ["a ~ z"]}, UsageError, "private column 'z'"),
        ({"targets": ["y"], "analyses": ["a ~ nope"]}, SchemaError, "'nope'"),
        ({"targets": ["y"], "strata": "z"}, UsageError, "'z' is private"),
        ({"targets": ["y", "z", "w"]}, UnsupportedError, "2,700 joint labels"),
    ],
)
def test_contradictions_are_named(given, error, says):
    schema = schema_of({"a": 3, "b": 3}, {"y": 3, "z": 30, "w": 30})
    with pytest.raises(error, match=says):
        LogLinear(**given).plan(schema, PureDP(1), PublicFacts(1000))


def test_analyses_decide_the_terms():
    schema = schema_of({"pay": 9, "age": 5, "agency": 4, "other": 3}, {"sex": 2})
    method = LogLinear(targets="sex", predictors=[], analyses=["log(pay) ~ sex*agency + I(age**2)", ("other",)])
    lines = method.plan(schema, PureDP(1), PublicFacts(10_000))
    found = [line.what.split(":")[0] for line in lines]
    assert found == [
        "sex",
        "pay × sex",
        "age × sex",
        "agency × sex",
        "other × sex",
        "agency × pay × sex",
    ]
    assert LogLinear(targets=["sex"], analyses="log(pay) ~ sex").analyses == ("log(pay) ~ sex",)


@pytest.mark.parametrize(("budget", "power"), [(PureDP(1), 1 / 3), (ZCDP("0.1"), 1 / 2)])
def test_planned_analyses_are_given_what_noise_means_for_their_coefficients(budget, power):
    schema = schema_of({"pay": 10, "grade": 5, "noise": 5, "year": 2}, {"sex": 2}, ordered=("pay", "grade"))
    rng = np.random.default_rng(1)
    grade = rng.integers(0, 5, 20_000)
    columns = {"pay": 2 * grade + rng.integers(0, 2, 20_000), "grade": grade}
    columns |= {"noise": rng.integers(0, 5, 20_000), "year": rng.integers(0, 2, 20_000)}
    codes = Codes.of(schema, {**columns, "sex": rng.integers(0, 2, 20_000)})
    facts = PublicFacts(None, Curator.rehearse(codes, budget, seed=1).public_rows(schema.public))
    explained = 8 / 8.25  # the variance of pay between grades, as a share: 4·2 of 4·2 + ¼

    def shares(**more):
        lines = LogLinear(["sex"], interactions=0, **more).plan(schema, budget, facts)
        assert sum(line.budget.units for line in lines) == budget.units
        costs = {line.what.split(" ×")[0]: float(line.budget.exact) for line in lines[1:]}
        return {name: cost / costs["noise"] for name, cost in costs.items()}

    plain = shares()
    assert plain["grade"] == pytest.approx(1)
    assert plain["pay"] == pytest.approx(2**power)
    planned = shares(analyses=["log(pay) ~ sex + grade"])
    assert planned["grade"] == pytest.approx((10 * explained + 1) ** power, rel=0.02)
    assert planned["pay"] == pytest.approx(22**power, rel=0.02)
    # A private response is nothing that public rows explain.
    assert shares(analyses=["sex ~ pay + grade"]) == pytest.approx(plain)
