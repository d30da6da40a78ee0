"""Direct estimates: with exact sums those of statsmodels; with noise, intervals that cover."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf

from dipsmith.analyses import prior, sums
from dipsmith.analyses.design import design_of
from dipsmith.analyses.direct import DirectEstimate, estimate
from dipsmith.analyses.measure import Agenda
from dipsmith.analyses.noisy_sums import NoisySums
from dipsmith.analyses.results import results_text
from dipsmith.analyses.sum_table import SumTable
from dipsmith.analyses.sums import Layout
from dipsmith.errors import UsageError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.bins import by_count, singles

SEXES, RACES, AGENCIES = ("F", "M"), ("A", "B", "C"), ("ag", "dd", "va", "tr")


def schema() -> Schema:
    def of(name: str, labels: tuple[str, ...], role: str) -> Attribute:
        return Attribute(name, "string", Categories.of(labels, other=labels[0]), role)

    return Schema(
        "staff",
        (
            of("agency", AGENCIES, "public"),
            Attribute("year", "integer", singles("integer", 2001, 2003, missing=False), "public"),
            Attribute("age", "integer", singles("integer", 20, 60, missing=False), "public"),
            Attribute("pay", "number", by_count("number", 0, 400_000, 20, missing=False), "public"),
            of("sex", SEXES, "private"),
            of("race", RACES, "private"),
        ),
        Unit(),
        "label",
    )


def people(n: int, seed: int) -> pd.DataFrame:
    """Pay depends on everything; sex and race depend on agency and on one another."""
    rng = np.random.default_rng(seed)
    agency = rng.integers(0, 4, n)
    race = np.where(rng.random(n) < 0.25 + 0.05 * agency, 1 + (rng.random(n) < 0.4), 0)
    sex = (rng.random(n) < 0.35 + 0.08 * agency + 0.1 * (race == 2)).astype(int)
    age, year = rng.integers(20, 61, n), rng.integers(2001, 2004, n)
    effects = 0.1 * sex + np.array([0.0, -0.05, 0.08])[race] + 0.01 * age + 0.05 * agency + 0.03 * (year - 2001)
    pay = np.exp(10 + effects + 0.02 * sex * (agency == 1) + 0.3 * rng.standard_normal(n))
    names = {"agency": np.array(AGENCIES)[agency], "year": year, "age": age, "pay": pay}
    return pd.DataFrame({**names, "sex": np.array(SEXES)[sex], "race": np.array(RACES)[race]})


def codes_of(s: Schema, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    return {n: pd.Categorical(frame[n], categories=s[n].labels).codes.astype(np.int64) for n in s.private}


def exact_sums(layout: Layout, s: Schema, frame: pd.DataFrame) -> dict[str, NoisySums]:
    """Every table of sums without noise, by the definition."""
    codes = codes_of(s, frame)

    def sums_of(table: SumTable) -> NoisySums:
        label = np.zeros(len(frame), np.int64)
        for name in table.labels:
            label = label * s[name].size + codes[name]
        found = np.zeros((table.size, table.label_cells))
        np.add.at(found, (table.groups, label), 1.0 if table.weight is None else table.weight)
        return NoisySums(table, found, 1e-12, np.ones(table.size), True, table.is_single)

    return {t.key: sums_of(t) for t in layout.tables}


def from_exact_sums(text: str, frame: pd.DataFrame, **wanted: object) -> DirectEstimate:
    s = schema()
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    analysis = PlannedAnalysis.of({"formula": text, **wanted})
    layout = Layout.of(design_of(analysis, s, table, np.ones(len(frame), np.int64)))
    return estimate(layout, exact_sums(layout, s, frame), draws=20)


FORMULAS = [
    (
        "log(pay) ~ sex + race + age + I(age**2) | agency + year",
        "np.log(pay) ~ sex + race + age + I(age**2) + agency + C(year)",
    ),
    ("log(pay) ~ sex + race", "np.log(pay) ~ sex + race"),
    ("log(pay) ~ sex*race + age", "np.log(pay) ~ sex*race + age"),
    ("log(pay) ~ sex*agency + age", "np.log(pay) ~ sex*agency + age"),
    ("log(pay) ~ sex + sex:age + age + race | year", "np.log(pay) ~ sex + sex:age + age + race + C(year)"),
    ("I(sex == 'F') ~ age + race | agency", "female ~ age + race + agency"),
    ("I(pay > 30000) ~ sex + age", "rich ~ sex + age"),
]


@pytest.mark.parametrize(("ours", "theirs"), FORMULAS)
def test_exact_sums_give_what_statsmodels_gives(ours: str, theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "LEAST_BIAS", 0.0)
    monkeypatch.setattr(prior, "SD", 1e8)
    frame = people(900, 1)
    frame["female"], frame["rich"] = (frame.sex == "F").astype(int), (frame.pay > 30000).astype(int)
    found = from_exact_sums(ours, frame, model="ols")
    wanted = smf.ols(theirs, frame).fit()
    for name, value, variance in zip(found.names, found.values, np.diag(found.covariance), strict=True):
        assert value == pytest.approx(wanted.params[name], rel=1e-8, abs=1e-9), name
        assert variance**0.5 == pytest.approx(wanted.bse[name], rel=1e-6), name


def test_odds_of_a_private_label_are_those_of_statsmodels() -> None:
    frame = people(900, 2)
    frame["female"] = (frame.sex == "F").astype(int)
    found = from_exact_sums("I(sex == 'F') ~ age + agency", frame)
    wanted = smf.logit("female ~ age + agency", frame).fit(disp=0)
    assert found.values == pytest.approx(wanted.params[list(found.names)].to_numpy(), rel=1e-6)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(wanted.bse[list(found.names)].to_numpy(), rel=1e-5)


def test_a_reference_turns_the_comparison_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "LEAST_BIAS", 0.0)
    monkeypatch.setattr(prior, "SD", 1e8)
    frame = people(900, 3)
    plain = from_exact_sums("log(pay) ~ sex + race", frame)
    turned = from_exact_sums("log(pay) ~ sex + race", frame, reference={"sex": "M", "race": "C"})
    assert turned.names == ("Intercept", "sex[T.F]", "race[T.A]", "race[T.B]")
    assert turned.values[1] == pytest.approx(-plain.values[plain.names.index("sex[T.M]")])
    assert turned.values[2] == pytest.approx(-plain.values[plain.names.index("race[T.C]")])


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("log(pay) ~ age", "names no private column"),
        ("log(pay) ~ I(age * (sex == 'F'))", "mixes private and public"),
        ("race ~ age", "compare it with one of them"),
        ("log(pay) ~ sex + nothing", "no column"),
    ],
)
def test_what_cannot_be_planned_is_said(formula: str, message: str) -> None:
    frame = people(50, 1)
    with pytest.raises(UsageError, match=message):
        from_exact_sums(formula, frame)


def noisy(text: str, frame: pd.DataFrame, epsilon: str, seed: int) -> dict[str, tuple[float, float, float]]:
    s = schema()
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    rows = np.arange(len(frame))
    columns = {n: np.zeros(len(frame), np.int64) for n in s.public} | codes_of(s, frame)
    budget = PureDP(epsilon)
    curator = Curator.rehearse(Codes.of(s, columns, len(frame)), budget, seed=seed)
    agenda = Agenda.of([PlannedAnalysis(text)], s, table, np.ones(len(frame), np.int64))
    results = agenda.results(agenda.by_part(agenda.measure(curator, budget, rows)))
    return {c.name: (c.estimate or np.nan, c.low or np.nan, c.high or np.nan) for r in results for c in r.coefficients}


@pytest.mark.slow
def test_intervals_cover() -> None:
    """24 tables of 3,000 rows at ε = 1: with coverage .95, 15 or fewer of 24 have probability 1e-8."""
    covered = {"sex[T.M]": 0, "race[T.B]": 0, "race[T.C]": 0}
    truth = {"sex[T.M]": 0.1, "race[T.B]": -0.05, "race[T.C]": 0.08}
    for seed in range(24):
        frame = people(3000, 100 + seed)
        # The effect of sex in one agency is 0.02 larger: about 0.005 in the mean.
        found = noisy("log(pay) ~ sex + race + age | agency + year", frame, "1", seed)
        for name, value in truth.items():
            _, low, high = found[name]
            covered[name] += bool(low - 0.006 <= value <= high + 0.006)
    assert min(covered.values()) > 15, covered


def test_parts_are_fitted_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "LEAST_BIAS", 0.0)
    s, frame = schema(), people(600, 5)
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([PlannedAnalysis("log(pay) ~ sex + age | by year")], s, table, np.ones(len(frame), np.int64))
    assert [part.value for part in agenda.all_parts] == ["year 2001", "year 2002", "year 2003"]
    # Three years cost what one would: each table is bought once for all of them.
    assert len(agenda.purchases) == len(agenda.all_parts[0].layout.tables)
    results = agenda.results(
        agenda.by_part({k: v for p in agenda.all_parts for k, v in _exact_part(p.layout, s, frame).items()})
    )
    for result, (_, part) in zip(results, frame.groupby("year"), strict=True):
        wanted = smf.ols("np.log(pay) ~ sex + age", part).fit()
        assert result["sex[T.M]"].estimate == pytest.approx(wanted.params["sex[T.M]"], rel=0.02)


def _exact_part(layout: Layout, s: Schema, frame: pd.DataFrame) -> dict[str, NoisySums]:
    inside = layout.design.often > 0
    codes = codes_of(s, frame)
    found = {}
    for t in layout.tables:
        label = np.zeros(len(frame), np.int64)
        for name in t.labels:
            label = label * s[name].size + codes[name]
        values = np.zeros((t.size, t.label_cells))
        weight = np.ones(len(frame)) if t.weight is None else t.weight
        np.add.at(values, (t.groups[inside], label[inside]), weight[inside])
        found[t.key] = NoisySums(t, values, 1e-9, np.ones(t.size), True, t.is_single)
    return found


def clustered(n: int, seed: int) -> pd.DataFrame:
    """People whose sex the agency tells but for one in thirty: V is an eighth of what it would be otherwise."""
    random, frame = np.random.default_rng(seed), people(n, seed)
    agencies = sorted(set(frame["agency"]))
    often = np.array([0.03 if agencies.index(a) % 2 else 0.97 for a in frame["agency"]])
    frame["sex"] = np.where(random.random(n) < often, "F", "M")
    frame["pay"] = np.exp(10 + 0.3 * (frame["sex"] == "M") + random.normal(0, 1, n))
    return frame


@pytest.mark.slow
def test_intervals_cover_where_public_columns_tell_most_of_a_label() -> None:
    """80 tables: with coverage .95, more than 16 misses have probability 1e-6; intervals half as wide miss more."""
    held = told = 0
    for seed in range(80):
        found = noisy("log(pay) ~ sex | agency", clustered(3000, 7000 + seed), "1.2", seed)
        if "sex[T.M]" in found and np.isfinite(found["sex[T.M]"][1]):
            told += 1
            _, low, high = found["sex[T.M]"]
            held += low <= 0.3 <= high
    assert told >= 60
    assert held >= told - 16


@pytest.mark.slow
def test_noise_is_told_as_it_is_drawn() -> None:
    """Noise that all comes through V, by 41 small groups: what was measured of them has noise of its own.

    The standard deviation of 300 draws is known to 5 %, what is told to 2 %: a quarter is beyond 1e-6. What is told with that
    noise taken for the groups' own is larger by more than a half.
    """
    s, frame = schema(), people(4000, 94)
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    design = design_of(PlannedAnalysis("log(pay) ~ sex | age"), s, table, np.ones(len(frame), np.int64))
    layout = Layout.of(design)
    exact = exact_sums(layout, s, frame)
    by_age = next(t.key for t in layout.tables if t.size > 2)
    random, found, told = np.random.default_rng(5), [], []
    for seed in range(300):
        noisy_ones = replace(exact[by_age], sd=12.0, laplace=False)
        noisy_ones = replace(noisy_ones, values=noisy_ones.values + noisy_ones.draw(random, 1)[0])
        one = estimate(layout, exact | {by_age: noisy_ones}, draws=100, seed=seed)
        found.append(one.values[-1])
        told.append(one.noise[-1, -1])
    assert np.sqrt(np.mean(told)) == pytest.approx(np.std(found), rel=0.25)


def test_a_product_with_a_group_that_no_row_has_is_not_told() -> None:
    """It was told as 0, with an interval from 0 to 0 and a share of noise that no JSON can hold."""
    s, frame = schema(), people(1500, 93)
    absent = sorted(set(frame["agency"]))[1]
    frame.loc[frame["agency"] == absent, "pay"] = 0.0  # which has no logarithm
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([PlannedAnalysis("log(pay) ~ sex*agency")], s, table, np.ones(len(frame), np.int64))
    columns = {n: np.zeros(len(frame), np.int64) for n in s.public} | codes_of(s, frame)
    budget = PureDP(200)
    curator = Curator.rehearse(Codes.of(s, columns, len(frame)), budget, seed=1)
    (found,) = agenda.results(agenda.by_part(agenda.measure(curator, budget, np.arange(len(frame)))))
    told = {c.name: c.estimate for c in found.coefficients}
    assert told[f"sex[T.M]:agency[T.{absent}]"] is None
    assert told["sex[T.M]"] is not None
    assert sum(value is None for value in told.values()) <= 2  # the agency itself
    assert "NaN" not in results_text([found])


def test_a_product_that_noise_hides_leaves_the_others_told() -> None:
    """Of an agency with a dozen rows; nothing was told of public columns then, and `fit` refused the whole."""
    s, frame = schema(), people(6000, 97)
    frame = frame[(frame["agency"] != "tr") | (np.cumsum(frame["agency"] == "tr") <= 12)]
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([PlannedAnalysis("log(pay) ~ sex*agency + age")], s, table, np.ones(len(frame), np.int64))
    columns = {n: np.zeros(len(frame), np.int64) for n in s.public} | codes_of(s, frame)
    told = widths_told(agenda, Codes.of(s, columns, len(frame)), PureDP(2), 3)
    assert np.isinf(told["sex[T.M]:agency[T.tr]"])
    assert max(told[name] for name in ("Intercept", "sex[T.M]", "agency[T.dd]", "sex[T.M]:agency[T.dd]")) < 0.5
    # The hidden product may move the age a little, and the agency's own coefficient by as much as a residual is large.
    assert told["age"] < 0.01
    assert told["agency[T.tr]"] > 1.5 * told["agency[T.dd]"]


def test_a_forecast_compares_labels_with_a_frequent_reference() -> None:
    """Which level is the reference changes names, not widths; what is assumed of the others is said."""
    s, frame = schema(), people(2000, 92)
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    found = {}
    for level in s["race"].labels:
        planned = PlannedAnalysis("log(pay) ~ sex + race | agency", reference=(("race", level),))
        agenda = Agenda.of([planned], s, table, np.ones(len(frame), np.int64))
        (note,) = agenda.assumptions
        assert f"{level}, with which others are compared" in note
        widths = [e.width for e in agenda.expectations(PureDP(3)) if e.name.startswith("race")]
        # Labels that are taken to be alike have the same forecast.
        assert widths == pytest.approx(widths[:1] * len(widths), rel=0.05)
        found[level] = widths[0]
    assert max(found.values()) < 1.3 * min(found.values())


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_a_forecast_is_what_will_be_told(epsilon: str) -> None:
    """Of a label that half of the rows have: by a factor of 1.6 at most, in the middle of nine releases."""
    s, frame = schema(), people(6000, 90)
    analysis = PlannedAnalysis("log(pay) ~ sex + age | agency")
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([analysis], s, table, np.ones(len(frame), np.int64))
    (expected,) = agenda.expectations(PureDP(epsilon))
    columns = {n: np.zeros(len(frame), np.int64) for n in s.public} | codes_of(s, frame)
    codes = Codes.of(s, columns, len(frame))
    widths = []
    for seed in range(9):
        sums = agenda.measure(
            Curator.rehearse(codes, PureDP(epsilon), seed=seed), PureDP(epsilon), np.arange(len(frame))
        )
        told = agenda.results(agenda.by_part(sums))[0]["sex[T.M]"]
        assert told.low is not None
        assert told.high is not None
        widths.append(told.high - told.low)
    assert not expected.hopeless
    assert 1 / 1.6 < np.median(widths) / expected.width < 1.6


def widths_told(agenda: Agenda, codes: Codes, budget: PureDP, releases: int) -> dict[str, float]:
    """The middle width of every coefficient's interval over some releases; infinite where it is not told."""
    found: dict[str, list[float]] = {}
    for seed in range(releases):
        sums = agenda.measure(Curator.rehearse(codes, budget, seed=seed), budget, np.arange(len(codes)))
        for c in agenda.results(agenda.by_part(sums))[0].coefficients:
            found.setdefault(c.name, []).append(np.inf if c.low is None or c.high is None else c.high - c.low)
    return {name: float(np.median(widths)) for name, widths in found.items()}


@pytest.mark.parametrize(("formula", "epsilon"), [("log(pay) ~ sex*agency + race", 4), ("log(pay) ~ sex*age", 8)])
def test_a_forecast_of_products_is_what_will_be_told(formula: str, epsilon: int) -> None:
    """By a factor of two at most: widths were said to be 20 and 100 times as large, and to grow with the budget."""
    s, frame = schema(), people(6000, 96)
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([PlannedAnalysis(formula)], s, table, np.ones(len(frame), np.int64))
    columns = {n: np.zeros(len(frame), np.int64) for n in s.public} | codes_of(s, frame)
    told = widths_told(agenda, Codes.of(s, columns, len(frame)), PureDP(epsilon), 5)
    expected = agenda.expectations(PureDP(epsilon))
    assert not any(e.hopeless for e in expected)
    assert all(1 / 2 < told[e.name] / e.width < 2 for e in expected if e.name.startswith("sex"))
    for less, more in pairwise(agenda.expectations(PureDP(epsilon * k)) for k in (1, 2, 4, 8)):
        assert all(b.noise < 1.1 * a.noise for a, b in zip(less, more, strict=True))


def test_a_forecast_says_where_noise_hides_everything() -> None:
    s, frame = schema(), people(600, 91)
    table = pa.Table.from_pandas(frame[list(s.public)], preserve_index=False)
    agenda = Agenda.of([PlannedAnalysis("log(pay) ~ sex + race | agency")], s, table, np.ones(len(frame), np.int64))
    assert all(e.hopeless for e in agenda.expectations(PureDP("0.02")))
    assert not any(e.hopeless for e in agenda.expectations(PureDP("200")))
