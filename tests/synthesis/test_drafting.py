"""Drafts from rows that may be read: a public file, or the private one, which the draft says."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.errors import UsageError
from dipsmith.planning.smears import bin_warnings
from dipsmith.sources import source
from dipsmith.utility.authentic import conformity

ROWS = {
    "id": [f"p{i}" for i in range(2000)],
    "age": [20 + i % 50 for i in range(2000)],
    "pay": [1000.5 + 13 * i for i in range(2000)],
    "gain": [0 if i % 10 else 500 + 40 * i for i in range(2000)],
    "sex": ["F", "M", None, "M "] * 500,
    "flag": ["true", "false"] * 1000,
    "day": ["2020-01-05", "2021-11-30"] * 1000,
    "at": ["2001-01-05T10:00:00", "2021-11-30T12:30:00"] * 1000,
    "nothing": [None] * 2000,
}


def filled(text):
    return ds.Schema.from_dict({**yaml.safe_load(text), "unit": "row", "neighbours": "replace"})


def as_csv():
    """Everything as text that states no type."""
    return pd.DataFrame(
        {n: pd.Series([None if v is None else str(v) for v in values], dtype=object) for n, values in ROWS.items()}
    )


def test_a_card_says_that_nothing_protects_what_was_read_from_the_rows():
    schema = filled(ds.draft_schema(as_csv(), name="people", private_rows=True))
    made = ds.synthesize(as_csv(), schema, ds.MST(), budget=ds.PureDP(1), testing=True, noise_seed=1)
    assert any("were read from the rows" in said and "nothing protects them" in said for said in made.card.steward_says)
    assert not any("public" in said for said in made.card.steward_says)


def test_a_peek_reads_types_levels_and_bounds_and_says_so():
    text = ds.draft_schema(as_csv(), name="people", private_rows=True)
    schema = filled(text)
    assert schema.provenance == "data-derived"
    types = {a.name: a.type for a in schema}
    assert types == {
        "age": "integer", "pay": "number", "gain": "integer", "sex": "string", "flag": "boolean", "day": "date", "at": "datetime",
    }  # fmt: skip
    assert schema["sex"].labels == ("F", "M", "(missing)")
    assert (schema["age"].domain.minimum, schema["age"].domain.maximum) == (20, 69)
    assert [a.name for a in schema if a.domain.missing] == ["sex"]
    assert schema["gain"].domain.edges[:2] == (0.0, 1.0)
    assert schema["pay"].domain.step == 0.1
    assert schema["at"].domain.step == 60e6
    assert "p17" not in text
    assert "# id: text of more than 1,000" in text


def test_types_are_taken_from_arrow():
    table = pa.table({"zip": ["1067", "4103"] * 50, "n": pa.array([1, 2] * 50, pa.int16()), "f": [1.0, 2.0] * 50})
    schema = filled(ds.draft_schema(table, private_rows=True))
    assert [a.type for a in schema] == ["string", "integer", "integer"]


def test_a_wide_range_is_cut_finer_where_its_rows_are_and_others_count_as_the_most_frequent():
    """Steps of 1, 2, 5 alone would put nearly all losses into two bins, and draw their mean a quarter too high."""
    draw = np.random.default_rng(7)
    losses = np.where(draw.random(4000) < 0.9, 0, draw.normal(1900, 350, 4000).round().astype(int).clip(155, 4608))
    table = pa.table({"loss": losses, "code": draw.choice(["08", "09", "10"], 4000, p=[0.2, 0.6, 0.2])})
    text = ds.draft_schema(table, private_rows=True)
    edges = filled(text)["loss"].domain.edges
    assert {0.0, 1.0, 1000.0, 2000.0, 5000.0} < set(edges)
    shares = np.histogram(losses[losses > 0], edges)[0] / (losses > 0).sum()
    assert shares.max() < 0.25
    assert len(edges) < 20
    assert "other: '09'" in text, "the most frequent value, and quoted: other readers take 09 for a number"
    assert "- '08'" in text or "['08'" in text


def test_numbers_with_one_word_are_numbers_and_codes_stay_codes():
    """'N' beside incomes is no value; beside codes of industries it is a code. Codes are listed by their size."""
    columns = {
        "income": [str(37.0 * i) for i in range(2000)],
        "ratio": ["501" if i % 9 == 1 else str(i % 480) for i in range(2000)],
        "industry": [str(170 + 90 * (i % 100)) for i in range(2000)],
        "size": [str(2 + i % 11) for i in range(2000)],
        "place": [f"0{1000 + i % 60}" for i in range(2000)],
    }
    table = pd.DataFrame(columns, dtype=object)
    table.iloc[::9] = "N"
    text = ds.draft_schema(table, private_rows=True)
    schema = filled(text)
    assert {a.name: a.type for a in schema} == {
        "income": "integer", "ratio": "integer", "industry": "string", "size": "string", "place": "string",
    }  # fmt: skip
    assert [a.name for a in schema if a.domain.missing] == ["income", "ratio"]
    assert text.count("'N' counts as missing") == 2
    assert schema["ratio"].domain.maximum == 501, "a top code is the end"
    assert schema["ratio"].domain.edges[-2] == 501, "and has a bin of its own"
    assert schema["size"].domain.values == (*map(str, range(2, 13)), "N")


@pytest.mark.parametrize("largest", [10**15, 10**17, 2**63 - 1, -(10**17)])
def test_whole_numbers_without_end_are_drafted_as_the_reader_takes_them(largest):
    schema = filled(ds.draft_schema(pa.table({"n": [1, 2, 3, 700, largest] * 40}), private_rows=True))
    domain = schema["n"].domain
    assert max(abs(domain.minimum), abs(domain.maximum)) <= 2**53
    assert domain.edges[0] == domain.minimum


@pytest.mark.parametrize("days", [["2020-01-05", "2021-03-02T10:00"], ["2021-03-02T10:00", "2020-01-05"]])
def test_dates_among_datetimes_are_datetimes(days):
    schema = filled(ds.draft_schema(pd.DataFrame({"day": pd.Series(days, dtype=object)}), private_rows=True))
    assert schema["day"].type == "datetime"


@pytest.mark.slow
def test_a_public_file_is_named_and_spikes_do_not_drown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_csv().to_csv("last-year.csv", index=False)
    (tmp_path / "people.csv").write_text("sex,gain,new\nF,1,PRIVATE\n")
    done = CliRunner().invoke(app, ["schema", "init", "people.csv", "--public-file", "last-year.csv"])
    assert done.exit_code == 0, done.output
    schema = filled(done.stdout)
    assert schema.provenance == "from the public file last-year.csv"
    assert schema.names == ("sex", "gain")
    assert "PRIVATE" not in done.stdout
    release = ds.synthesize(
        as_csv()[["sex", "gain"]], schema, ds.Marginals(), budget=ds.PureDP(20), testing=True, noise_seed=1
    )
    made = release.tables[0].to_pandas()["gain"]
    assert (made == 0).mean() == pytest.approx(0.9, abs=0.01)
    assert made.mean() == pytest.approx(np.mean(ROWS["gain"]), rel=0.15)
    refused = CliRunner().invoke(app, ["schema", "init", "people.csv", "--peek", "--from", "last-year.csv"])
    assert isinstance(refused.exception, UsageError)
    described = tmp_path / "d.csv"
    described.write_text("name,values\nsex,F; M\n")
    done = CliRunner().invoke(app, ["schema", "init", "--from", "d.csv", "--out", "d.yaml"])
    assert done.exit_code == 0, done.output
    assert "provenance: from d.csv" in (tmp_path / "d.yaml").read_text("utf-8")


def odd_cells(n=1500):
    rng = np.random.default_rng(9)
    pay = np.exp(rng.normal(10, 0.5, n)).round(2)
    day = (np.datetime64("1960-01-01") + rng.integers(0, 18_000, n)).astype(object)
    return {
        "pay": [f"${v:,.2f}" if i % 40 else "" for i, v in enumerate(pay)],
        "lohn": [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in pay],
        "rate": [f"{v} %" for v in rng.integers(0, 100, n)],
        "us": [d.strftime("%m/%d/%Y") for d in day],
        "eu": [d.strftime("%d.%m.%Y") for d in day],
        "mixed": [d.strftime("%d.%m.%Y" if i % 2 else "%Y-%m-%d") for i, d in enumerate(day)],
    }


@pytest.mark.parametrize("whose", ["private_rows", "public_rows"])
def test_cells_that_are_not_written_plainly_are_drafted_so_that_all_are_read(whose, tmp_path):
    rows = odd_cells()
    pd.DataFrame(rows).to_csv(tmp_path / "odd.csv", index=False)
    text = ds.draft_schema(tmp_path / "odd.csv", **{whose: True})
    schema = filled(text)
    assert {a.name: a.type for a in schema} == {
        "pay": "number", "lohn": "number", "rate": "integer", "us": "date", "eu": "date",
    }  # fmt: skip
    assert "# mixed: text of more than 1,000" in text, "two ways of writing dates are left to the steward"
    assert "written such as 1,234.5, with a word or sign" in text
    assert schema["pay"].domain.step == 0.01
    misfits = {k: n for k, n in conformity(source(tmp_path / "odd.csv"), schema).items() if "unreadable" in k and n}
    assert misfits == {}
    release = ds.synthesize(
        tmp_path / "odd.csv", schema, ds.Marginals(), budget=ds.PureDP(50), testing=True, noise_seed=1
    )
    made = release.to_pandas()
    true = [float(v[1:].replace(",", "")) for v in rows["pay"] if v]
    # ε = 50 is next to no noise; the mean of 1,500 values has a standard error of 1.4 %, and 10 % are seven of these
    assert made["pay"].mean() == pytest.approx(np.mean(true), rel=0.1)
    assert made["lohn"].mean() == pytest.approx(np.mean(true), rel=0.1)


def test_decimals_that_many_rows_share_are_not_smeared():
    """Densities of 20 places, rates with a usual one: a release keeps means, quantiles and the values themselves.

    6,000 rows, ε = 50: noise moves a share by less than 0.1 %, so that 2 % of it are beyond 1e-6.
    """
    rng = np.random.default_rng(12)
    places = np.round(np.exp(rng.uniform(3, 11, 20)), 1)
    share = rng.dirichlet(np.full(20, 3.0))
    density = rng.choice(places, 6000, p=share)
    wage = np.where(rng.random(6000) < 0.3, 7.25, np.round(rng.uniform(5, 60, 6000), 2))
    third = rng.choice([0.125, 0.3125, 0.875], 6000)
    table = pa.table({"density": density, "wage": wage, "third": third})
    text = ds.draft_schema(table, private_rows=True)
    schema = filled(text)
    assert "# density: 20 different values, one bin each" in text
    assert "7.25 apart, a value of many rows" in text
    assert schema["third"].domain.step == 0.0001
    made = ds.synthesize(table, schema, ds.Marginals(), budget=ds.PureDP(50), testing=True, noise_seed=1).to_pandas()
    assert made["density"].isin(places).mean() > 0.98
    assert made["third"].isin([0.125, 0.3125, 0.875]).mean() > 0.98
    assert (made["wage"] == 7.25).mean() == pytest.approx((wage == 7.25).mean(), abs=0.02)
    assert made["density"].mean() == pytest.approx(density.mean(), rel=0.05)
    assert made["wage"].mean() == pytest.approx(wage.mean(), rel=0.05)
    for q in (0.1, 0.5, 0.9):
        assert made["wage"].quantile(q) == pytest.approx(np.quantile(wage, q), rel=0.05)


def test_a_plan_names_the_learned_columns_whose_repeated_decimals_are_smeared():
    field = {
        "name": "density",
        "type": "number",
        "minimum": 10,
        "maximum": 1000,
        "bins": {"count": 5},
        "precision": 0.1,
    }
    told = {"name": "t", "unit": "row", "neighbours": "replace", "fields": [field]}
    (said,) = [w for w in bin_warnings(ds.Schema.from_dict({**told, "provenance": "learned, ε = 1"})) if "learned" in w]
    assert said.startswith("the bins of density were learned without their single values")
    assert not any("learned" in w for w in bin_warnings(ds.Schema.from_dict(told)))
