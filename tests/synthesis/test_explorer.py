"""explore.html: what it says of columns is what the noisy tables say, it stays small, and labels cannot break it."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.errors import DamageError
from dipsmith.synthesis.explorer import LAPLACE_95, MOST_BYTES, NORMAL_95, explorer, explorer_content
from dipsmith.synthesis.report import Glance

HOSTILE = "</script><script>document.title='broken'</script>"
YEARS = {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2002, "role": "public"}


def table(rows=400):
    at = np.arange(rows)
    return pa.table(
        {
            "year": 2001 + at % 2,
            "age": 20 + at % 40,
            "job": np.array(["clerk", HOSTILE, "nurse"])[(at // 3) % 3],
            "sex": np.array(["F", "M"])[(at // 5) % 2],
        }
    )


def schema(neighbours="add-remove", **more):
    job = {"name": "job", "type": "string", "enum": ["clerk", HOSTILE, "nurse"], "other": "clerk", "role": "public"}
    age = {"name": "age", "type": "integer", "minimum": 20, "maximum": 59, "bins": {"width": 10}, "role": "public"}
    sex = {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"}
    made = {"name": "people", "unit": "row", "neighbours": neighbours, "fields": [YEARS, age, job, sex]}
    return ds.Schema.from_dict(made | more)


def release(method, neighbours="add-remove", budget=None, **more):
    wanted = budget or ds.PureDP(1)
    return ds.synthesize(table(), schema(neighbours), method, budget=wanted, testing=True, noise_seed=3, seed=1, **more)


def content(made):
    return explorer_content(made, Glance.of(made.tables[0], made.schema), "parquet")


def brute(made, told, columns):
    """The same sums from the rows of the file, by pandas."""
    noisy = ds.measurements(made).to_pandas()
    noisy = noisy[noisy["table"].isin(told["t"])]
    by = [f"by_{n}" for n in columns]
    found = noisy.groupby(by)[["value", "variance"]].sum()
    m = told["m"]
    return {at: (row["value"] / m, row["variance"] / m**2) for at, row in found.iterrows()}


def check(made):
    """Every table of the page against the file."""
    told = content(made)
    names = [c["name"] for c in told["columns"]]
    for one in told["tables"]:
        columns = [names[i] for i in one["c"]]
        expected = brute(made, one, columns)
        variance = one["e"] if isinstance(one["e"], list) else [one["e"]] * len(one["v"])
        labels = [told["columns"][i]["labels"] for i in one["c"]]
        for place, at in enumerate(np.ndindex(*map(len, labels))):
            key = tuple(words[k] for words, k in zip(labels, at, strict=True))
            value, noise = expected.get(key if len(key) > 1 else key[0], (0, 0))
            assert one["v"][place] == pytest.approx(value, abs=0.01)
            assert variance[place] == pytest.approx(noise, rel=1e-4)
    return told


CASES = {
    "marginals": (ds.Marginals(cliques=2), "add-remove", {}),
    "replace": (ds.MST(), "replace", {"budget": ds.ZCDP("0.3")}),
    "split": (ds.Marginals(cliques=2), "add-remove", {"sets": 3, "each": "split"}),
    "aim": (ds.AIM(rounds=4), "add-remove", {}),
    "loglinear": (ds.LogLinear(targets=["sex"]), "label", {}),
    "forest": (ds.Forest(targets=["sex"], trees=3), "label", {}),
    "whole forest": (ds.Forest(targets=["sex"], trees=2), "add-remove", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_tables_of_the_page_are_those_of_the_file_added_up(case):
    method, neighbours, more = CASES[case]
    told = check(release(method, neighbours, **more))
    assert told["tables"]
    quantile = NORMAL_95 if case == "replace" else LAPLACE_95
    assert {t["z"] for t in told["tables"]} == {quantile}


def test_parts_of_the_rows_are_put_side_by_side():
    fields = schema("label").to_dict()
    unit = {"unit": {"column": "who", "max_rows": 1, "per": "year"}}
    rows = table().append_column("who", pa.array([f"p{i // 2}" for i in range(400)]))
    declared = ds.Schema.from_dict(fields | unit)
    made = ds.synthesize(
        rows,
        declared,
        ds.LogLinear(targets=["sex"], strata="year"),
        budget=ds.PureDP(1),
        testing=True,
        noise_seed=1,
        seed=1,
    )
    assert any(t.within for t in made.measurements)
    told = check(made)
    year = next(i for i, c in enumerate(told["columns"]) if c["name"] == "year")
    assert any(year in t["c"] for t in told["tables"])
    assert told["people"] is None  # a unit may have had more rows than are counted


def test_what_is_public_carried_or_not_is_what_supports_says():
    made = release(ds.MST(), "replace")
    told = content(made)
    names = [c["name"] for c in told["columns"]]
    pairs = iter(told["pairs"])
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            assert int(next(pairs)) == ["measured", "carried", "not carried"].index(made.supports(one, other).level)
    labelled = content(release(ds.LogLinear(targets=["sex"]), "label"))
    assert [c["level"] for c in labelled["columns"]][:3] == [3, 3, 3]
    assert "3" in labelled["pairs"]


def test_rows_tell_pairs_that_no_table_holds_and_nothing_else():
    made = release(ds.LogLinear(targets=["sex"]), "label")
    told = content(made)
    names = [c["name"] for c in told["columns"]]
    shown = {tuple(names[i] for i in t["c"]): t["v"] for t in told["row_tables"]}
    assert sum(shown["sex",]) == 400
    assert {k for k in shown if len(k) == 2} >= {("year", "job")}
    assert sum(shown["year", "job"]) == 400
    not_carried = content(release(ds.Marginals(cliques=1)))
    assert all(len(t["c"]) == 1 for t in not_carried["row_tables"])


def test_the_page_is_in_the_release_on_its_card_and_verified(tmp_path):
    made = release(ds.Marginals(cliques=2))
    made.save(tmp_path / "release")
    page = (tmp_path / "release" / "explore.html").read_text("utf-8")
    assert "explore.html" in json.loads((tmp_path / "release" / "card.json").read_text("utf-8"))["files"]
    assert 'href="explore.html"' in (tmp_path / "release" / "report.html").read_text("utf-8")
    assert 'href="explore.html"' in (tmp_path / "release" / "card.html").read_text("utf-8")
    ds.verify(tmp_path / "release")
    inside = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert inside == json.loads(json.dumps(content(made)))
    assert HOSTILE in inside["columns"][2]["labels"]
    assert page.count("<script") == 2  # the data and the script: no label opened another
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", page)
    (tmp_path / "release" / "explore.html").write_text(page + " ", "utf-8")
    with pytest.raises(DamageError, match=r"explore\.html"):
        ds.verify(tmp_path / "release")


def test_a_release_without_the_page_still_verifies(tmp_path):
    """As versions before wrote it."""
    made = release(ds.Marginals(cliques=2))
    made.save(tmp_path / "release")
    (tmp_path / "release" / "explore.html").unlink()
    card = json.loads((tmp_path / "release" / "card.json").read_text("utf-8"))
    del card["files"]["explore.html"]
    (tmp_path / "release" / "card.json").write_text(json.dumps(card), "utf-8")
    ds.verify(tmp_path / "release")


@pytest.mark.slow
def test_long_columns_are_joined_or_left_out_and_it_is_said():
    codes = [f"code number {i} of a long list" for i in range(900)]
    fields = [
        {"name": "pay", "type": "integer", "minimum": 0, "maximum": 99_999},
        {"name": "code", "type": "string", "enum": codes, "other": codes[0]},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    declared = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "add-remove", "fields": fields})
    rows = pa.table({"pay": np.arange(300) * 300, "code": codes[:300], "sex": ["F", "M"] * 150})
    made = ds.synthesize(
        rows,
        declared,
        ds.Marginals(cliques=[["pay", "sex"], ["code"]]),
        budget=ds.PureDP(1),
        testing=True,
        noise_seed=1,
        seed=1,
    )
    told = content(made)
    pay, _ = told["columns"]
    assert (pay["name"], pay["joined"], len(pay["labels"])) == ("pay", 500, 200)
    assert told["left"]["columns"] == ["code"]
    both = next(t for t in told["tables"] if len(t["c"]) == 2)
    noisy = next(t for t in made.measurements if len(t.attributes) == 2)
    assert both["v"] == noisy.array.reshape(200, 500, 2).sum(axis=1).ravel().tolist()
    assert both["e"] == pytest.approx(500 * noisy.variance, rel=1e-4)


@pytest.mark.slow
def test_the_page_stays_small_whatever_the_schema():
    """A hundred columns of 5,000 levels with long names; of 300 numbers each; one table of very many cells."""
    rng = np.random.default_rng(1)
    words = [f"{'long ' * 8}{i}" for i in range(150)]
    fields = [{"name": f"n{i}", "type": "integer", "minimum": 0, "maximum": 4999} for i in range(50)]
    fields += [{"name": f"w{i}", "type": "string", "enum": words, "other": words[0]} for i in range(50)]
    declared = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "add-remove", "fields": fields})
    columns = {
        f["name"]: rng.integers(0, 5000, 60) if f["type"] == "integer" else rng.choice(words, 60) for f in fields
    }
    pairs = [[f"w{i}", f"w{i + 1}"] for i in range(0, 50, 2)] + [[f"n{i}"] for i in range(50)]
    made = ds.synthesize(
        pa.table(columns),
        declared,
        ds.Marginals(cliques=pairs),
        budget=ds.PureDP(5),
        testing=True,
        noise_seed=1,
        seed=1,
    )
    page = explorer(made, Glance.of(made.tables[0], made.schema), "parquet")
    assert len(page.encode()) <= MOST_BYTES
    told = content(made)
    assert told["left"]["columns"] or told["left"]["tables"]


def _law(cells, epsilon=None, sigma=None):
    """The exact law of a sum of so many noises, on whole numbers around 0."""
    reach = int(60 / (epsilon or 1)) + 60
    at = np.arange(-reach, reach + 1)
    one = np.exp(-epsilon * np.abs(at)) if sigma is None else np.exp(-(at**2) / (2 * sigma**2))
    one /= one.sum()
    variance = float((one * at**2).sum())
    whole = one
    for _ in range(cells - 1):
        whole = np.convolve(whole, one)
    return whole, variance * cells


@pytest.mark.parametrize("cells", [1, 2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 2.0, 4.0, 8.0])
def test_intervals_of_sums_hold_their_noise(cells, epsilon):
    """Exactly: the chance that a sum of discrete Laplace noises lies within the page's interval is at least 95 %."""
    whole, variance = _law(cells, epsilon=epsilon)
    half = int(np.ceil(LAPLACE_95 * np.sqrt(variance) - 1e-9))
    middle = len(whole) // 2
    assert whole[middle - half : middle + half + 1].sum() >= 0.95


@pytest.mark.parametrize("cells", [1, 4])
@pytest.mark.parametrize("sigma", [0.3, 0.6, 1.0, 2.5, 11.0])
def test_intervals_of_gaussian_sums_hold_their_noise(cells, sigma):
    whole, variance = _law(cells, sigma=sigma)
    half = int(np.ceil(NORMAL_95 * np.sqrt(variance) - 1e-9))
    middle = len(whole) // 2
    assert whole[middle - half : middle + half + 1].sum() >= 0.95


def test_the_code_for_python_gives_the_numbers_of_the_page(tmp_path):
    """As `code` of explorer.js writes it; tests/report/test_explorer_browser.py runs what the page itself writes."""
    made = release(ds.Marginals(cliques=2))
    made.save(tmp_path / "release")
    told = content(made)
    one = next(t for t in told["tables"] if t["c"] == [1, 3])
    noisy = pq.read_table(tmp_path / "release" / "measurements.parquet").to_pandas()
    found = noisy[noisy["table"].isin(one["t"])].groupby(["by_age", "by_sex"], sort=False)["value"].sum()
    assert found.tolist() == one["v"]
