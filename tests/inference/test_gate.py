"""`fit` is honest or refuses: planned results, direct estimates, what is carried, and what is not."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import NotCarried, UncheckedSupport, UnsupportedError, UsageError
from dipsmith.inference.tests import independence

FIELDS = [
    {"name": "a", "type": "string", "enum": ["p", "q", "r"], "other": "p", "role": "public"},
    {"name": "x", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 1}, "role": "public"},
    {"name": "y", "type": "integer", "minimum": 0, "maximum": 19, "bins": {"width": 1}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["M", "F"], "other": "M", "role": "private"},
]
MAIN, PRODUCT, ODDS = "y ~ s + x + a", "y ~ s*x", "s ~ x + y"


def schema(neighbours, **more):
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": FIELDS, **more})


def rows(n=2000, seed=0, **more):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    x = np.clip(a + rng.integers(0, 8, n), 0, 9)
    s = rng.random(n) < 0.25 + 0.05 * x
    y = np.clip(np.round(5 + 0.6 * x + a - 2.0 * s + rng.normal(0, 2, n)), 0, 19).astype(int)
    return pa.table({"a": np.array(list("pqr"))[a], "x": x, "y": y, "s": np.where(s, "F", "M"), **more})


def made(method, neighbours="replace", budget=1, table=None, layout=None, seed=1, **more):
    return ds.synthesize(
        rows() if table is None else table,
        schema(neighbours) if layout is None else layout,
        method,
        budget=ds.PureDP(budget),
        testing=True,
        noise_seed=seed,
        **more,
    )


@pytest.fixture(scope="module")
def tree():
    return made(ds.MST())


@pytest.fixture(scope="module")
def labels():
    return made(ds.LogLinear(targets=["s"]), "label", budget=3, table=rows(1000))


def test_odds_of_products_with_a_private_column_are_refused(labels):
    """Running again covers .81 to .89 of such products where cells have 15 to 60 rows."""
    with pytest.raises(NotCarried, match="combinations of 'a' × 's' are shrunk farther"):
        ds.fit(labels, "I(x < 4) ~ a * s", replicates=4, seed=1)
    assert labels.supports("I(x < 4) ~ a * s").level == "not carried"


def test_odds_of_public_columns_by_labels_are_refused(labels):
    """Where one label is rare, running again covered .70 of the odds of a public column; differences of shares are told."""
    with pytest.raises(NotCarried, match="odds of a public column are lost by shrunk labels"):
        ds.fit(labels, "I(x < 4) ~ a + s", replicates=4, seed=1)
    assert labels.supports("I(x < 4) ~ a + s").level == "not carried"
    assert "s[T.F]" in str(ds.fit(labels, "I(x < 4) ~ a + s", family="ols", replicates=10, seed=1))


def test_what_no_table_holds_is_refused_in_one_line(tree):
    for formula in (MAIN, PRODUCT, ODDS):
        with pytest.raises(NotCarried, match=r"this release cannot tell .* noisy table .* ask the steward") as refused:
            ds.fit(tree, formula)
        assert "\n" not in str(refused.value)
        assert formula in str(refused.value)
    assert issubclass(NotCarried, UnsupportedError)
    assert NotCarried.exit_code == 2


def test_an_estimate_can_be_had_without_an_interval(tree):
    found = ds.fit(tree, MAIN, allow_unsupported=True)
    plain = ds.fit(tree.tables[0], MAIN, reference={"s": "M"})
    assert found["s[T.F]"].value == pytest.approx(plain["s[T.F]"].value)
    assert np.isnan(found.combined.interval).all()
    assert np.isnan(found.combined.p_value).all()
    assert "without intervals" in str(found)
    assert "cannot tell" in str(found)
    with pytest.raises(NotCarried, match="no interval here"):
        found.joint("s")


def test_ordinary_intervals_are_still_to_be_had(tree):
    assert "too short" in str(ds.fit(tree, MAIN, rule="sampling"))


def test_tables_that_hold_all_give_direct_estimates():
    release = made(ds.Flat(), budget=8)
    for formula, family in ((MAIN, "auto"), (PRODUCT, "auto"), ("y ~ 1", "ols"), ("I(s == 'F') ~ 1", "ols")):
        found = ds.fit(release, formula, family=family)
        assert found.direct
        assert "Direct estimates from the noisy tables" in str(found)
        truth = ds.fit(rows(), formula, family=family, **({"reference": {"s": "M"}} if " s" in formula else {}))
        # ε = 8 on 2000 rows: every estimate within five of its own standard errors of the authentic one (6e-7 each)
        assert (np.abs(found.combined.estimate - truth.combined.estimate) < 5 * found.combined.std_error).all()
        assert (found.combined.std_error >= 0.9 * truth.combined.std_error).all()


def test_another_reference_is_a_difference_of_coefficients():
    release = made(ds.Flat(), budget=8)
    by_m, by_f = (ds.fit(release, "y ~ s + a", reference={"s": level}) for level in "MF")
    assert by_f["s[T.M]"].value == pytest.approx(-by_m["s[T.F]"].value)
    assert by_f["s[T.M]"].std_error == pytest.approx(by_m["s[T.F]"].std_error)
    assert by_f["Intercept"].value == pytest.approx(by_m["Intercept"].value + by_m["s[T.F]"].value)
    by_q = ds.fit(release, "y ~ s + a", reference={"a": "q"})
    assert by_q["a[T.r]"].value == pytest.approx(by_m["a[T.r]"].value - by_m["a[T.q]"].value)
    assert by_q["s[T.F]"] == by_m["s[T.F]"]
    with pytest.raises(UsageError, match="leave reference out"):
        ds.fit(release, PRODUCT, reference={"s": "F"})


def test_odds_of_a_table_are_those_of_its_rows():
    """With next to no noise, direct odds are maximum likelihood's."""
    release = made(ds.Flat(), budget=500)
    found, plain = ds.fit(release, ODDS), ds.fit(rows(), ODDS, reference={"s": "M"})
    assert found.direct
    assert found.analysis.family == "logistic"
    assert found.combined.estimate == pytest.approx(plain.combined.estimate, abs=0.02)
    assert found.combined.std_error == pytest.approx(plain.combined.std_error, rel=0.05)


def test_direct_odds_cover():
    """A noisy table of 2 × 2 × 3 cells, 1,500 rows, Laplace noise of scale 8."""
    from dipsmith.analyses.agreed_tables import NoisyMarginal
    from dipsmith.analyses.odds import odds_from_tables
    from dipsmith.regression.formula import RegressionFormula

    layout = schema("replace").project(["a", "s"])
    layout = replace(layout, attributes=(*layout.attributes, replace(layout["s"], name="t")))
    formula = RegressionFormula.parse("s ~ a + t", layout.names)
    rng = np.random.default_rng(3)
    odds = -0.4 + np.array([0, 0.5, -0.3])[:, None] + np.array([0, 0.8])[None, :]
    p = 1 / (1 + np.exp(-odds))
    cells = np.stack([1 - p, p], axis=1) / 6  # a × s × t
    hits = 0
    for i in range(200):
        counts = rng.multinomial(1500, cells.ravel()).reshape(3, 2, 2) + rng.laplace(0, 8, (3, 2, 2))
        noisy = NoisyMarginal(("a", "s", "t"), counts, np.full((3, 2, 2), 128.0), True)
        found = odds_from_tables(formula, layout, [noisy], rows=1500, draws=300, seed=i)
        low, high = found["t[T.F]"].low, found["t[T.F]"].high
        hits += low <= 0.8 <= high
    # 200 repeats: .95 ± 5 · .0154 (6e-7)
    assert abs(hits / 200 - 0.95) < 0.077


@pytest.mark.slow
def test_odds_of_cells_that_noise_may_have_made_are_seldom_told_and_seldom_wrong():
    """A cell of 20 rows with noise of 40; 400 tables. One step of Newton's told .66 of them, .12 of all wrongly."""
    from dipsmith.analyses.agreed_tables import NoisyMarginal
    from dipsmith.analyses.odds import odds_from_tables
    from dipsmith.regression.formula import RegressionFormula

    layout = schema("replace").project(["s"])
    layout = replace(layout, attributes=(*layout.attributes, replace(layout["s"], name="t")))
    formula = RegressionFormula.parse("s ~ t", layout.names)
    rng = np.random.default_rng(3)
    cells = np.array([[20_000.0, 3_000.0], [1_500.0, 20.0]])
    truth = np.log(cells[1, 1] / cells[0, 1]) - np.log(cells[1, 0] / cells[0, 0])
    answers = wrong = 0
    for i in range(400):
        people = rng.poisson(cells)
        noisy = NoisyMarginal(
            ("s", "t"), people + np.rint(40 * rng.normal(size=(2, 2))), np.full((2, 2), 1600.0), False
        )
        found = odds_from_tables(formula, layout, [noisy], rows=int(people.sum()), draws=200, seed=i)
        term = None if found is None else found["t[T.F]"]
        if term is not None and term.estimate is not None:
            answers += 1
            wrong += not term.low <= truth <= term.high
    # 400 repeats: .10 and .05 at most, and 5 standard deviations (3e-7 each)
    assert answers / 400 < 0.175
    assert wrong / 400 < 0.105


def test_noise_that_swamps_the_tables_is_said():
    with pytest.raises(NotCarried, match=r"as large as what they count; ask the steward for a larger budget"):
        ds.fit(made(ds.Flat(), budget="0.02"), MAIN)


def test_odds_of_whole_rows_need_one_table():
    """All pairs are measured: least squares is told from them; the model's own odds covered .17 to .38 of the time."""
    release = made(ds.Marginals(cliques=2), budget=3)
    assert ds.fit(release, MAIN).direct
    with pytest.raises(NotCarried, match="no noisy table holds s, x and y together"):
        ds.fit(release, ODDS)
    assert ds.fit(release, "s ~ x").direct


def test_labels_that_carry_it_are_run_again(labels):
    found = ds.fit(labels, MAIN, robust=True, replicates=10, seed=1)
    assert not found.direct
    assert "by 10 runs of loglinear" in str(found)
    with pytest.raises(NotCarried, match="no noisy table holds y, s"):
        ds.fit(labels, "y ~ s*x*a")


def test_a_control_that_the_schema_collapses_is_not_carried():
    fields = [
        {**f, "collapse": {"prefix": 1}, "enum": ["p1", "p2", "q1", "q2"], "other": "p1"} if f["name"] == "a" else f
        for f in FIELDS
    ]
    layout = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": fields})
    rng = np.random.default_rng(1)
    table = rows().set_column(0, "a", pa.array(np.array(["p1", "p2", "q1", "q2"])[rng.integers(0, 4, 2000)]))
    release = made(ds.LogLinear(targets=["s"]), "label", 3, table, layout)
    with pytest.raises(NotCarried, match="collapses its 4 values to 2 labels"):
        ds.fit(release, "y ~ s + x | a")
    assert ds.fit(release, "y ~ s + x").direct


def test_planned_results_come_first(labels):
    release = made(ds.LogLinear(targets=["s"]), "label", budget=3, analyses=[MAIN])
    found = ds.fit(release, " y ~  s + x + a ")
    (result,) = release.results
    assert found.direct
    assert "planned" in str(found)
    for c in result.coefficients:
        assert found[c.name].value == c.estimate
        assert found[c.name].low == pytest.approx(c.low)
    wide, narrow = (f.combined.interval[1] - f.combined.interval[0] for f in (found, found.at(0.5)))
    assert (wide > narrow).all()
    assert found.joint("s").p_value < 1e-6
    # what was not planned is run again with the budget that the labels had
    from dipsmith.inference.mechanism import Mechanism

    assert Mechanism.of(labels).budget == ds.PureDP(3)
    planned = sum(t.budget.units for t in release.measurements if t.kind == "weighted sums")
    assert planned > 0
    assert Mechanism.of(release).budget.units == ds.PureDP(3).units - planned


def test_a_planned_difference_of_shares_does_not_answer_for_odds():
    release = made(ds.MST(), budget=3, analyses=[{"formula": "s ~ a", "model": "ols"}])
    shares, odds = (ds.fit(release, "s ~ a", family=family) for family in ("ols", "logistic"))
    assert "planned" in shares.combined.rule
    assert "planned" not in odds.combined.rule
    assert abs(odds["a[T.r]"].value - shares["a[T.r]"].value) > 0.1


@pytest.mark.parametrize("neighbours", ["label", "replace"])
def test_a_planned_reference_is_the_one_that_is_told(neighbours):
    method = ds.LogLinear(targets=["s"]) if neighbours == "label" else ds.MST()
    release = made(method, neighbours, budget=3, analyses=[{"formula": "y ~ a + s", "reference": {"s": "F"}}])
    found, other = ds.fit(release, "y ~ a + s"), ds.fit(release, "y ~ a + s", reference={"s": "M"})
    assert "s = F" in str(found)
    assert "s = M" in str(other)
    assert found["s[T.M]"].value == pytest.approx(-other["s[T.F]"].value)
    assert found["s[T.M]"].value > 1  # women have less


def test_odds_that_were_planned_for_whole_rows_are_told():
    release = made(ds.MST(), budget=3, analyses=["s ~ a + x"])
    assert ("a", "x", "s") in {t.attributes for t in release.measurements}
    found = ds.fit(release, "s ~ a + x")
    assert "planned" in found.combined.rule
    authentic = ds.fit(rows(), "s ~ a + x", reference={"s": "M"})
    # the slope is .22 ± .02 in the authentic rows; noise makes ± .03 of it
    assert found["x"].value == pytest.approx(authentic["x"].value, abs=0.15)
    with pytest.raises(UsageError, match="model: ols needs pairs alone"):
        made(ds.MST(max_cells=100), analyses=["s ~ a + x + y"])


@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_a_planned_result_that_noise_hides_is_refused():
    release = made(ds.LogLinear(targets=["s"]), "label", budget="0.01", table=rows(300), analyses=[PRODUCT])
    assert release.results[0]["s[T.F]"].estimate is None
    with pytest.raises(NotCarried, match=r"noise .* ask the steward for a larger budget"):
        ds.fit(release, PRODUCT)


def test_independence_demands_the_pair(tree):
    measured = next(t.attributes for t in tree.measurements if len(t.attributes) == 2)
    assert independence(tree, *measured, replicates=10, seed=1).p_value < 0.05
    pairs = [{"a", "s"}, {"y", "s"}, {"x", "s"}, {"x", "y"}]
    missing = next(p for p in pairs if not any(p <= set(t.attributes) for t in tree.measurements))
    with pytest.raises(NotCarried, match="together"):
        independence(tree, *sorted(missing))
    found = independence(tree, *sorted(missing), allow_unsupported=True)
    assert np.isnan(found.p_value)
    assert "no p-value" in str(found)


def test_functions_of_ones_own_are_checked_by_their_columns(tree):
    def mean(table):
        y = table["y"].to_numpy()
        return y.mean(), y.var() / len(y)

    with pytest.warns(UncheckedSupport, match="was not checked"):
        unchecked = ds.noise_aware(tree, mean, replicates=10, seed=1)
    assert "was not checked" in str(unchecked)
    checked = ds.noise_aware(tree, mean, columns=["y"], replicates=10, seed=1)
    assert checked.variance.tolist() == unchecked.variance.tolist()
    assert "was not checked" not in str(checked)
    with pytest.raises(NotCarried, match="a × s × y"):
        ds.noise_aware(tree, mean, columns=["a", "s", "y"])


def test_rows_of_one_unit_are_said_to_be_taken_as_independent():
    layout = schema("label", unit={"column": "id", "max_rows": 2})
    release = made(ds.LogLinear(targets=["s"]), "label", 3, rows(id=np.arange(2000) // 2), layout)
    share = "I(s == 'F') ~ 1"
    found = ds.fit(release, share, family="ols", replicates=10, seed=1)
    assert "Rows of one id are taken as independent" in str(found)
    by = ds.fit(release, share, family="ols", replicates=10, seed=1, cluster="a")
    assert "taken as independent" not in str(by)


def test_errors_by_clusters_ask_for_two_terms_by_cluster(labels):
    """Where an effect differs by cluster, pairs alone gave intervals that held .42 of the time."""
    with pytest.raises(NotCarried, match=r"how alike rows of one x are is not carried.*Or leave cluster out"):
        ds.fit(labels, "y ~ s + a", replicates=10, seed=1, cluster="x")
    told = ds.fit(labels, "y ~ s + x", replicates=10, seed=1, cluster="a")
    assert "errors clustered by a" in str(told)


@pytest.mark.parametrize("asked", ["I(s == 'm') ~ 1", "y ~ I(s == 'm')", "y ~ s + I(a != 'P')"])
def test_a_label_that_a_column_does_not_have_is_no_share_of_nothing(labels, tree, asked):
    """Shares of it were told as 0, from 0 to 0."""
    for release in (labels, tree):
        for refused in (
            lambda made=release: ds.fit(made, asked, family="ols"),
            lambda made=release: made.supports(asked),
        ):
            with pytest.raises(UsageError, match=r"has no level '[mP]' to be compared with \(capitals count\)"):
                refused()


def test_formulas_that_no_row_can_answer_are_refused_before_the_charge(tmp_path):
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("t", ds.PureDP(1))
    for neighbours, method in (("replace", ds.MST()), ("label", ds.LogLinear(targets=["s"]))):
        for asked in ("y ~ I(s == 'm')", "y ~ log(s)"):
            with pytest.raises(UsageError, match=r"no level 'm'|cannot be evaluated"):
                ds.synthesize(rows(), schema(neighbours), method, budget=ds.PureDP(1), ledger=ledger, analyses=[asked])
    assert ledger.show("t").spent_units == 0


def test_a_release_that_kept_no_measurements_is_refused(labels):
    with pytest.raises(NotCarried, match="made by an earlier version"):
        ds.fit(replace(labels, measurements=()), MAIN)


def test_of_a_table_that_was_asked_for_again_the_last_answer_counts():
    from dipsmith.synthesis.answers import noisy_tables

    release = made(ds.Marginals(cliques=2), budget=3)
    first = next(t for t in release.measurements if len(t.attributes) == 2)
    again = replace(first, values=first.values + 1)
    tables = {t.attributes: t for t in noisy_tables(replace(release, measurements=(*release.measurements, again)))}
    assert len(tables) == len({t.attributes for t in release.measurements})
    assert (tables[first.attributes].values == again.array).all()
    separate = [replace(t, block=f"set {i}") for i in (1, 2) for t in release.measurements]
    assert len(noisy_tables(replace(release, measurements=tuple(separate)))) == len(separate)


def asked(rng):
    """A formula by chance: response, one to three terms, perhaps a product, a fixed effect, parts of the rows."""
    response, *others = rng.permutation(["a", "x", "y", "s"]).tolist()
    response = f"I({response} == 'p')" if response == "a" else response
    terms = others[: rng.integers(1, 4)]
    right = " * ".join(terms[:2]) if len(terms) > 1 and rng.random() < 0.3 else " + ".join(terms)
    rest = [n for n in others if n not in terms and n in "as"]
    ends = [f" | {rest[0]}", f" | by {rest[0]}"] if rest else []
    return f"{response} ~ {right}" + (str(rng.choice(ends)) if ends and rng.random() < 0.5 else "")


@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
@pytest.mark.parametrize(
    ("method", "neighbours", "budget", "planned"),
    [
        (ds.MST(), "replace", 3, []),
        (ds.Marginals(cliques=2), "replace", "0.2", []),
        (ds.Flat(), "add-remove", "0.3", []),
        (ds.LogLinear(targets=["s"]), "label", 1, []),
        (ds.LogLinear(targets=["s"]), "label", "0.1", ["y ~ s"]),
        (ds.Forest(targets=["s"]), "label", 3, []),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_is_said_to_be_carried_is_what_is_answered(method, neighbours, budget, planned):
    """`supports` and `fit` decide the same of formulas made by chance: both refuse, or neither does."""
    release, rng = made(method, neighbours, budget, rows(400), analyses=planned), np.random.default_rng(5)
    for formula in {*planned, *(asked(rng) for _ in range(8))}:
        said, refused = release.supports(formula), ""
        try:
            answered = ds.fit(release, formula, replicates=4, seed=1)
        except NotCarried as error:
            refused = str(error)
        except UsageError:
            continue  # no number, or parts without rows
        assert (said.level == "not carried") == bool(refused), formula
        assert said.reason[1:-1] in refused or not refused
        assert refused or said.level == "measured" or not answered.direct
