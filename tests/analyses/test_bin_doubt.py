"""What bins and open ends may do to a coefficient: intervals that hold the raw value's, or a sentence."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses import direct
from dipsmith.analyses.bin_doubt import BinnedNumber, ColumnDoubt, binned_numbers, cut_bin
from dipsmith.analyses.odds import estimate_planned
from dipsmith.analyses.pairs import estimate_from_tables
from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried, UncheckedSupport, UsageError
from dipsmith.planning.smears import bin_warnings
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.measurement import Measurement
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.tables import tables_needed
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

N = 4000


def people(seed=1, n=N):
    random = np.random.default_rng(seed)
    g = random.random(n) < 0.4
    x = np.clip(np.round(random.normal(45 + 3 * g, 12)), 0, 99).astype(int)
    y = np.round(np.exp(2.5 + 0.3 * g + 0.01 * x + random.normal(0, 0.7, n))).astype(int)
    return pa.table({"y": y, "x": x, "g": np.where(g, "a", "b")})


def schema(y, x, relation="replace"):
    fields = [{"name": "y", "type": "integer", **y}, {"name": "x", "type": "integer", **x}]
    fields.append({"name": "g", "type": "string", "enum": ["b", "a"], "other": "b"})
    return Schema.from_dict({"name": "t", "unit": "row", "neighbours": relation, "fields": fields})


def exact_tables(table, layout, formula):
    codes, _ = Encoder(layout).encode(table.to_batches()[0])
    for names in tables_needed([PlannedAnalysis(formula)], layout):
        cells = Marginal.of(layout, names)
        yield Measurement(
            cells, np.bincount(cells.index(codes), minlength=cells.size), 0.0, PureDP(1), "discrete Laplace"
        )


def told(layout, formula="y ~ g + x", table=None):
    table = people() if table is None else table
    (found,) = estimate_from_tables(formula, layout, exact_tables(table, layout, formula), rows=table.num_rows, draws=2)
    return found


SINGLE = {"minimum": 0, "maximum": 500}
AGES = {"minimum": 0, "maximum": 99}


def test_bins_of_one_value_have_no_doubt():
    assert BinnedNumber.of(schema(SINGLE, AGES)["x"]) is None
    found = told(schema(SINGLE, AGES))
    own = ds.fit(people(), "y ~ g + x", reference={"g": "b"})
    for name in ("g[T.a]", "x"):
        assert found[name].estimate == pytest.approx(own[name].value)
        assert found[name].se == pytest.approx(own[name].std_error)
        assert found[name].doubt == 0
    assert not found.notes


def test_wide_bins_are_refused_and_say_which_column():
    found = told(schema({**SINGLE, "bins": {"edges": [0, 10, 20, 40, 500]}}, AGES))
    assert found.refusal.reason.startswith("y is known in bins, each taken for its middle, so that ")
    assert found.refusal.ask == "Ask the steward for finer bins of y"
    assert {c.estimate for c in found.coefficients} == {None}
    assert f"Not told: {found.refusal.reason}. {found.refusal.ask}." in found.notes
    found = told(schema(SINGLE, {**AGES, "bins": {"width": 25}}))
    assert found.refusal.ask == "Ask the steward for finer bins of x"


@pytest.mark.slow
def test_narrow_bins_widen_intervals_by_no_less_than_they_move_estimates():
    """Eight tables, two coefficients: bins of 2 and of 4 move the estimate by less than the doubt that is added.

    Of values that differ by chance within bins a tenth of a standard error remains, which the standard error knows.
    """
    layout = schema({**SINGLE, "bins": {"width": 2}}, {**AGES, "bins": {"width": 4}})
    widened = 0
    for seed in range(8):
        table = people(seed, 1000)
        found, own = told(layout, table=table), ds.fit(table, "y ~ g + x", reference={"g": "b"})
        for name in ("g[T.a]", "x"):
            c = found[name]
            assert abs(c.estimate - own[name].value) < 1.96 * c.doubt + 0.1 * c.se
            assert c.se > own[name].std_error
            widened += 1
    assert widened == 16
    assert "wider for what bins and open ends of y and x may do to values" in found.notes[-1]


def test_no_response_within_its_bins_gets_beyond_the_plain_bound(monkeypatch):
    """Random responses in wide bins, and the worst of all: least squares of none is off by more than the largest doubt."""
    layout, table = schema({**SINGLE, "bins": {"width": 40}}, AGES), people(3, 600)
    seen = {}

    def spy(names, errors, doubts):
        seen.update(dict(zip(names, doubts[0].width, strict=True)))
        return np.ones(len(names)), (), None

    monkeypatch.setattr(direct, "widening", spy)
    monkeypatch.setattr(ColumnDoubt, "cap", lambda d, by: replace(d, width=d.reach * by))
    found = told(layout, table=table)
    g, x, y = (table[n].to_numpy(zero_copy_only=False) for n in ("g", "x", "y"))
    B = np.column_stack([np.ones(len(y)), g == "a", x]).astype(float)
    middle = y // 40 * 40 + 19.5
    at_middles = np.linalg.lstsq(B, middle, rcond=None)[0]
    assert [c.estimate for c in found.coefficients] == pytest.approx(at_middles)
    W = np.linalg.pinv(B)
    random, most = np.random.default_rng(0), np.array([seen[c.name] for c in found.coefficients])
    for position in (*(W > 0), *(random.random(len(y)) ** random.uniform(0.2, 5) for _ in range(200))):
        off = np.abs(W @ (y // 40 * 40 + 39 * position) - at_middles)
        assert (off <= most * (1 + 1e-9)).all()
    assert (most < 1.4 * np.abs(W) @ np.full(len(y), 19.5)).all()


def test_harmless_bins_of_a_response_are_not_refused():
    """An effect of a hundred standard errors: the share of variance within bins of 4 does not multiply it."""
    random = np.random.default_rng(5)
    x = random.integers(0, 99, N)
    table = pa.table(
        {"y": np.round(50 + 3 * x + random.normal(0, 15, N)).astype(int), "x": x, "g": ["a", "b"] * (N // 2)}
    )
    layout = schema({"minimum": 0, "maximum": 499, "bins": {"width": 4}}, AGES)
    found, own = told(layout, table=table), ds.fit(table, "y ~ g + x", reference={"g": "b"})
    assert found.refusal is None
    assert own["x"].value / own["x"].std_error > 100
    assert abs(found["x"].estimate - own["x"].value) < 0.3 * own["x"].std_error
    assert found["x"].doubt < 0.5 * own["x"].std_error


def test_rows_in_an_open_end_bin_refuse_and_an_empty_one_does_not():
    cut = {"minimum": 0, "maximum": 60, "open": "high"}
    found = told(schema(cut, AGES))
    assert "values of y may lie beyond its bounds, which are open" in found.refusal.reason
    assert "state the bounds of y" in found.refusal.ask
    assert told(schema({**cut, "open": "low"}, AGES)).refusal is None
    largest = int(pa.compute.max(people()["y"]).as_py())
    assert told(schema({"minimum": 0, "maximum": largest + 1, "open": "high"}, AGES)).refusal is None


def test_what_is_a_category_or_a_fixed_effect_has_no_doubt():
    layout = schema({**SINGLE, "bins": {"width": 50}}, {**AGES, "bins": {"width": 10}, "open": "both"})

    def numbers(text):
        return [b.name for b in binned_numbers(RegressionFormula.parse(text, layout.names), layout)]

    assert numbers("y ~ g + x") == ["y", "x"]
    assert numbers("g ~ C(x)") == []
    assert numbers("y ~ g | x") == ["y"]
    roles = layout.to_dict()
    for field in roles["fields"]:
        field["role"] = "private" if field["name"] == "y" else "public"
    label = Schema.from_dict({**roles, "neighbours": "label"})
    assert [b.name for b in binned_numbers(RegressionFormula.parse("y ~ x", label.names), label)] == ["y"]


def release(layout, method, **options):
    return ds.synthesize(people(), layout, method, budget=ds.PureDP(4), testing=True, noise_seed=1, **options)


@pytest.mark.slow
@pytest.mark.parametrize("planned", [True, False])
def test_fit_and_supports_decide_alike(planned):
    layout = schema({"minimum": 0, "maximum": 60, "open": "high"}, AGES)
    analyses = ["y ~ g + x"] if planned else []
    made = release(layout, ds.Marginals([["y", "g"], ["y", "x"], ["x", "g"]]), analyses=analyses)
    with pytest.raises(
        NotCarried, match=r"values of y may lie beyond its bounds.*ask the steward to state the bounds of y"
    ):
        ds.fit(made, "y ~ g + x")
    assert made.supports("y ~ g + x").level == "not carried"
    assert "state the bounds of y" in made.supports("y ~ g + x").ask
    assert np.isfinite(ds.fit(made, "y ~ g + x", allow_unsupported=True)["x"].value)


@pytest.mark.slow
def test_fit_and_supports_agree_where_the_doubt_is_about_a_standard_error():
    """Bins of 2 to 25: some are answered and some refused, by both."""
    answered = []
    for width in (2, 4, 5, 10, 20, 25):
        made = release(schema(SINGLE, {**AGES, "bins": {"width": width}}), ds.Marginals([["x", "g"]]))
        answered.append(made.supports("x ~ g").level != "not carried")
        if answered[-1]:
            assert np.isfinite(ds.fit(made, "x ~ g")["g[T.a]"].std_error)
        else:
            with pytest.raises(NotCarried, match="known in bins"):
                ds.fit(made, "x ~ g")
    assert True in answered
    assert False in answered


def test_an_estimate_of_ones_own_says_which_columns_are_in_bins():
    made = release(schema({**SINGLE, "bins": {"width": 5}}, AGES), ds.Marginals([["x", "g"], ["y", "g"]]))

    def mean(table):
        y = table["y"].to_numpy()
        return y.mean(), y.var() / len(y)

    with pytest.warns(UncheckedSupport, match="^y is a number known in bins, and the interval does not allow"):
        found = ds.noise_aware(made, mean, columns=["y", "g"], replicates=10, seed=1)
    assert found.notes[-1].startswith("y is a number known in bins")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.noise_aware(made, lambda t: (float(np.mean(t["x"].to_numpy())), 0.01), columns=["x"], replicates=10, seed=1)


@pytest.mark.parametrize("formula", ["y ~ log(g)", "log(g) ~ x", "y ~ x + I(g*2)"])
def test_a_function_of_a_category_is_a_wrong_formula_whatever_is_carried(formula):
    made = release(schema(SINGLE, {**AGES, "bins": {"width": 50}}), ds.Marginals([["x", "g"]]))
    for ask in (made.supports, lambda f: ds.fit(made, f), lambda f: ds.fit(people(), f)):
        with pytest.raises(UsageError, match="'g' cannot be evaluated here") as refused:
            ask(formula)
        assert not isinstance(refused.value, NotCarried)


def test_the_mechanism_run_again_allows_for_bins_too():
    """`robust` takes the rows: wide bins are refused there, narrow ones widen."""
    fine = schema({**SINGLE, "bins": {"width": 2}}, {**AGES, "bins": {"width": 5}})
    pairs = ds.Marginals([["x", "g"]])
    wide = release(schema(SINGLE, {**AGES, "bins": {"width": 50}}), pairs)
    with pytest.raises(NotCarried, match="x is known in bins"):
        ds.fit(wide, "x ~ g", robust=True, replicates=10, seed=1)
    found = ds.fit(release(fine, pairs), "x ~ g", robust=True, replicates=10, seed=1)
    assert any("wider for what bins" in note for note in found.combined.notes)


def test_private_numbers_under_label_are_judged_alike():
    fields = [
        {"name": "y", "type": "integer", **SINGLE, "role": "public"},
        {"name": "x", "type": "integer", **AGES, "bins": {"width": 50}, "role": "private"},
        {"name": "g", "type": "string", "enum": ["b", "a"], "other": "b", "role": "public"},
    ]
    layout = Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": fields})
    made = release(layout, ds.Forest(), analyses=["y ~ x + g"])
    with pytest.raises(NotCarried, match=r"x is known in bins.*finer bins of x"):
        ds.fit(made, "y ~ x + g")


def test_many_rows_in_an_open_end_bin_refuse_whatever_they_would_move():
    """A tail of 30 % that goes with no group in number, but in how far it reaches."""
    random = np.random.default_rng(1)
    x = random.integers(0, 99, N)
    y = np.where(random.random(N) < 0.7, 0, np.exp(6 + 0.01 * x + random.normal(0, 0.3, N))).astype(int)
    table = pa.table({"y": y, "x": x, "g": np.where(np.arange(N) % 2, "a", "b")})
    found = told(schema({"minimum": 0, "maximum": 100, "open": "high"}, AGES), table=table)
    assert "values of y may lie beyond its bounds" in found.refusal.reason
    assert "by any amount" in found.refusal.reason


def test_a_plan_names_the_columns_whose_bounds_are_open_once():
    (note,) = bin_warnings(schema({"minimum": 0, "maximum": 60, "open": "high"}, {**AGES, "open": "both"}))
    assert note.startswith("the bounds of y, x are open: regressions of their raw numbers are answered only where")
    assert not bin_warnings(schema(SINGLE, AGES))


WIDE = {"minimum": 0, "maximum": 51, "bins": {"width": 4}}


@pytest.mark.parametrize(
    ("formula", "is_cut"),
    [
        ("I(y == 0) ~ g", True),
        ("I(y == 2) ~ g", True),
        ("I(y > 4) ~ g", True),
        ("g ~ I(y <= 4)", True),
        ("I(y % 2) ~ g", True),
        ("I(y > x) ~ g", True),
        ("g ~ I(4 * y < 18)", True),
        ("I(y >= 4) ~ g", False),
        ("I(y > 3) ~ g", False),
        ("g ~ I(x == 2) + y", False),
        ('I(g == "a") ~ I(y < 8)', False),
    ],
)
def test_a_comparison_that_is_true_of_a_part_of_a_bin_is_found(formula, is_cut):
    layout = schema(WIDE, AGES)
    assert (cut_bin(RegressionFormula.parse(formula, layout.names), layout) is not None) is is_cut


@pytest.mark.parametrize(
    ("formula", "ends"),
    [
        ("I(y > 51) ~ g", {"high", "both"}),
        ("I(y <= 51) ~ g", {"high", "both"}),
        ("I(y >= 5000) ~ g", {"high", "both"}),
        ("g ~ I(y == 120)", {"high", "both"}),
        ("I(y > -1) ~ g", {"low", "both"}),
        ("I(y < -77) ~ g", {"low", "both"}),
        ("I(y >= 48) ~ g", set()),
    ],
)
@pytest.mark.parametrize("missing", [False, True])
def test_a_comparison_beyond_an_open_end_is_not_told_as_0(formula, ends, missing):
    """Bounds that were learned cut tails: of 20,000 rows 100 lay beyond, and `I(y > 99) ~ g` was told as 0 [0, 0]."""
    for end in (None, "low", "high", "both"):
        layout = schema({**WIDE, "missing": missing} | ({"open": end} if end else {}), AGES)
        cut = cut_bin(RegressionFormula.parse(formula, layout.names), layout)
        assert (cut is not None) is (end in ends), end


def test_a_comparison_is_held_to_the_edges_of_bins_of_numbers_with_fractions():
    amount = {"name": "y", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 10}, "precision": 0.01}
    layout = Schema.from_dict({**schema(WIDE, AGES).to_dict(), "fields": [amount]})
    said = {text: cut_bin(RegressionFormula.parse(text, ["y"]), layout) for text in ("I(y >= 20) ~ 1", "I(y > 20) ~ 1")}
    assert [cut is None for cut in said.values()] == [True, False]


@pytest.mark.parametrize("family", ["ols", "logistic"])
def test_zeros_within_a_wider_bin_are_not_told(family):
    # Half of the rows are 0: spread over 0 to 3, `I(y == 0)` was told as 0 or an eighth, with a narrow interval.
    table = people()
    y = np.where(np.arange(N) % 2, 0, np.minimum(table["y"].to_numpy(), 51))
    table, layout = table.set_column(0, "y", pa.array(y)), schema(WIDE, AGES)
    method = ds.Marginals(cliques=[["y", "g"]])
    release = ds.synthesize(table, layout, method, budget=PureDP(5), testing=True, noise_seed=1)
    with pytest.raises(NotCarried, match=r"y is known in bins, and y == 0 is true of a part of a bin; ask the steward"):
        ds.fit(release, "I(y == 0) ~ g", family=family)
    assert release.supports("I(y == 0) ~ g").level == "not carried"
    found, true = (
        ds.fit(release, "I(y >= 4) ~ g", family=family),
        ds.fit(table, "I(y >= 4) ~ g", reference={"g": "b"}, family=family),
    )
    assert found["g[T.a]"].low < float(true["g[T.a]"]) < found["g[T.a]"].high


def test_a_planned_comparison_within_a_bin_is_not_estimated():
    layout, formula = schema(WIDE, AGES), "I(y == 0) ~ g"
    tables = list(exact_tables(people(), layout, formula))
    with pytest.raises(UsageError, match="y == 0 is true of a part of a bin"):
        estimate_planned(PlannedAnalysis(formula, model="ols"), layout, tables, rows=N)


def test_rows_that_all_lie_in_one_bin_warn_of_nothing():
    """Bins without any spread between them, and a coefficient that is not told: infinity times 0."""
    number = BinnedNumber("pay", np.array([25e3, 1e5, 175e3]), np.array([25e3, 5e4, 25e3]), 2e5, 2e5, "none")
    middles = np.array([-0.2, np.nan])
    found = number.doubt(lambda *placements: middles, middles, np.array([0.0, 0.0, 55.0]), 1.0)
    assert isinstance(found, ColumnDoubt)


def test_a_number_in_bins_is_no_category_and_one_of_single_values_is():
    """Values within a bin are drawn, so that an effect of each of them would be made up; bins of one value are labels."""
    wide = schema(SINGLE, {**AGES, "bins": {"width": 10}})
    for formula in ("y ~ C(x)", "y ~ g | x"):
        refused = cut_bin(RegressionFormula.parse(formula, wide.names), wide)
        assert refused is not None
        assert "as a category" in refused.reason
    fine = schema(SINGLE, {"minimum": 0, "maximum": 3})
    table = people().set_column(1, "x", pa.array(people()["x"].to_numpy() // 20 % 4))
    assert cut_bin(RegressionFormula.parse("y ~ C(x)", fine.names), fine) is None
    found, own = told(fine, "y ~ g + C(x)", table), ds.fit(table, "y ~ g + C(x)", reference={"g": "b"})
    assert found["C(x)[T.2]"].estimate == pytest.approx(own["C(x)[T.2]"].value)
