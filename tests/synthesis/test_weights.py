"""Survey weights from the schema to the analyst: totals bought, weights calibrated, nothing weighted in silence."""

import numpy as np
import pyarrow as pa
import pytest
import statsmodels.api as sm

import dipsmith as ds
from dipsmith.estimation.weights import NoisyTotals, rake, weighted_tables
from dipsmith.planning.plan import plan
from dipsmith.schema import Codes, WeightTotals
from dipsmith.schema.analysis import PlannedAnalysis

ROWS = 4000


def schema(relation="replace", **more):
    return ds.Schema.from_dict(
        {
            "name": "survey",
            "unit": "row",
            "neighbours": relation,
            "fields": [
                {"name": "region", "type": "string", "enum": ["n", "e", "s"], "other": "n"},
                {"name": "employed", "type": "string", "enum": ["no", "yes"], "other": "no"},
                {"name": "pay", "type": "integer", "minimum": 0, "maximum": 4},
                {"name": "w", "type": "number", "minimum": 1, "maximum": 40, "role": "weight"},
            ],
        }
        | more
    )


def survey(rows=ROWS, seed=0):
    """People of the east weigh three times as much, and work less."""
    random = np.random.default_rng(seed)
    region = random.choice(["n", "e", "s"], rows, p=[0.5, 0.2, 0.3])
    east = region == "e"
    weight = np.round(np.exp(random.normal(1.2, 0.4, rows)) * np.where(east, 3, 1), 2).clip(1, 40)
    works = random.random(rows) < np.where(east, 0.4, 0.7)
    pay = (30 + 30 * works + random.normal(0, 10, rows)).clip(0, 99) // 20
    return pa.table({"region": region, "employed": np.where(works, "yes", "no"), "pay": pay, "w": weight})


def released(table=None, seed=4, budget=20, relation="replace", method=None, **more):
    made = {"budget": ds.PureDP(budget), "seed": 1, "testing": True, "noise_seed": seed}
    return ds.synthesize(survey() if table is None else table, schema(relation), method or ds.AIM(), **(made | more))


def totals_of(table, column):
    w = table["w"].to_numpy()
    labels = np.array(table[column].to_pylist())
    return {label: float(w[labels == label].sum()) for label in sorted(set(labels))}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_weighted_totals_of_rows_are_those_of_the_confidential_table(relation, tmp_path):
    release = released(relation=relation)
    release.save(tmp_path / "release", format="csv")
    ds.verify(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    drawn = again.tables[0]
    assert drawn["w"].to_numpy().min() >= 1
    assert drawn["w"].to_numpy().max() <= 40
    true, made, told = totals_of(survey(), "region"), totals_of(drawn, "region"), ds.weighted_totals(again, "region")
    for label in "nes":
        error = told[f"region = {label}"].std_error
        assert abs(made[label] - true[label]) < 4 * error
        assert abs(told[f"region = {label}"].value - true[label]) < 5 * error
    assert any("nothing is weighted unless it says so" in note for note in again.card.notes)
    assert sum(m.kind == "weighted totals" for m in again.measurements) == 3
    assert "survey weight" in (tmp_path / "release" / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_bytes_do_not_know_the_order_of_the_file(tmp_path):
    table = survey(600)
    other = table.take(pa.array(np.random.default_rng(1).permutation(600)))
    for i, rows in enumerate((table, other)):
        released(rows).save(tmp_path / str(i), format="csv")
    first, second = ((tmp_path / str(i) / "synthetic-1.csv").read_bytes() for i in range(2))
    assert first == second


def test_a_fifth_of_the_budget_pays_for_totals_and_the_plan_says_so():
    release = released(budget=1, relation="add-remove")
    paid = sum(m.budget.epsilon for m in release.measurements if m.kind == "weighted totals")
    assert paid == pytest.approx(0.2)
    assert sum(m.budget.epsilon for m in release.measurements) <= 1 + 1e-9
    made = plan(schema("add-remove"), ds.AIM(), ds.PureDP(1))
    stage = next(s for s in made.stages if s.name == "weighted totals")
    assert stage.share == pytest.approx(0.2)
    errors = [m.standard_error * 1e-4 for m in release.measurements if m.kind == "weighted totals"]
    assert stage.sd == pytest.approx((min(errors), max(errors)), rel=1e-6)


def test_planned_tables_decide_which_totals_are_measured():
    s = schema()
    assert [t.columns for t in weighted_tables(s)] == [("region",), ("employed",), ("pay",)]
    small, large = PlannedAnalysis("employed ~ region"), PlannedAnalysis("pay ~ region + employed + I(pay**2)")
    assert [t.columns for t in weighted_tables(s, [small])] == [("region", "employed")]
    assert [t.columns for t in weighted_tables(s, [large])] == [("region", "employed", "pay")]
    assert weighted_tables(ds.Schema.from_dict(s.to_dict()).with_role("w", "private")) == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [({"rows": 100}, "leave rows out"), ({"sets": 2, "each": "split"}, "each='draw'")],
)
def test_what_could_not_be_calibrated_is_refused(more, words):
    with pytest.raises(ds.errors.UsageError, match=words):
        released(survey(50), **more)


def test_sets_drawn_from_one_model_all_have_the_totals():
    release = released(sets=2, each="draw", budget=200)
    true = totals_of(survey(), "employed")
    for table in release.tables:
        assert totals_of(table, "employed") == pytest.approx(true, rel=0.02)


def test_raking_meets_precise_totals_within_bounds_and_leaves_noise_alone():
    s, random = schema(), np.random.default_rng(2)
    codes = Codes.of(s, {"region": random.integers(0, 3, 900), "employed": random.integers(0, 2, 900)}, 900)
    weights = random.uniform(2, 20, 900)
    cells = WeightTotals(s, ("region",))
    now = np.bincount(codes["region"], weights=weights, minlength=3)
    wanted = now * [1.3, 0.8, 1.1]
    raked = rake(codes, weights, [NoisyTotals(cells, wanted, 1.0)])
    assert np.bincount(codes["region"], weights=raked, minlength=3) == pytest.approx(wanted, rel=1e-3)
    far = rake(codes, weights, [NoisyTotals(cells, now * [50, 1, 1], 1.0)])
    assert far.max() == 40
    assert far.min() >= 1
    noisy = rake(codes, weights, [NoisyTotals(cells, now + np.array([900, -800, 500]), 1e6)])
    assert np.abs(noisy - weights).max() < 1e-3  # noise explains the difference: nothing is moved but rounding


# --- regressions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["pay ~ region + employed", "pay ~ employed | region"])
def test_weighted_least_squares_are_those_of_statsmodels(formula):
    table = survey(800)
    found = ds.fit(table, formula, weights="w")
    frame = table.to_pandas()
    X = np.column_stack([np.ones(800), frame.region == "n", frame.region == "s", frame.employed == "yes"]).astype(float)
    expected = sm.WLS(frame.pay, X, weights=frame.w).fit(cov_type="HC1")
    value = found["employed[T.yes]"]
    assert value.value == pytest.approx(expected.params.iloc[3], rel=1e-9)
    assert value.std_error == pytest.approx(expected.bse.iloc[3], rel=1e-9)


def test_a_weighted_regression_of_a_release_runs_the_whole_mechanism_again():
    release = released(budget=60, analyses=["pay ~ employed"])
    found = ds.fit(release, "pay ~ employed", weights="w", replicates=10, seed=1)
    true = ds.fit(survey(), "pay ~ employed", weights="w", reference={"employed": "no"})
    assert abs(found["employed[T.yes]"].value - true["employed[T.yes]"].value) < 5 * found["employed[T.yes]"].std_error
    assert "weighted by w" in str(found)
    assert np.all(found.combined.noise > 0)
    plain = ds.fit(release, "pay ~ employed")
    assert "Not weighted" in str(plain)


def test_a_weighted_regression_without_one_of_its_terms_is_refused():
    """What was left, without a term that noise hides, is another regression."""
    planned = "pay ~ employed + region"
    with pytest.raises(ds.errors.NotCarried, match="weighted by w': the noise of the tables"):
        ds.fit(released(seed=0, budget="0.3", analyses=[planned]), planned, weights="w")


@pytest.mark.slow
def test_what_the_release_does_not_carry_with_the_weight_is_refused():
    release = released(budget=20, method=ds.Marginals([["pay", "employed"], ["w", "region"]]))
    assert np.isfinite(ds.fit(release, "pay ~ employed")["employed[T.yes]"].std_error)
    with pytest.raises(ds.errors.NotCarried, match="weighted by w"):
        ds.fit(release, "pay ~ employed", weights="w")
    with pytest.raises(ds.errors.NotCarried, match="plan an analysis"):
        ds.weighted_totals(release, "region", "employed")
    with pytest.raises(ds.errors.UsageError, match="family='ols'"):
        ds.fit(release, "employed ~ region", weights="w", family="logistic")
    with pytest.raises(ds.errors.UsageError, match="no column that totals"):
        ds.weighted_totals(release, "w")


def test_a_release_without_a_weight_has_no_totals():
    table = survey(200)
    release = ds.synthesize(
        table, schema().with_role("w", "private"), ds.MST(), budget=ds.PureDP(5), testing=True, noise_seed=1
    )
    with pytest.raises(ds.errors.UsageError, match="no survey weight"):
        ds.weighted_totals(release, "region")
