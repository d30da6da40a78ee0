"""Households beside authentic ones: against a slow count, zero for the same table, and as a chapter of `compare`."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.counting.households import arrange
from dipsmith.errors import UsageError
from dipsmith.examples import households as example
from dipsmith.studio import distributions
from dipsmith.utility.households import HEAD, HOME, KINDS, NEXT, OWN, compare_households


def roster(count, seed):
    homes, persons, _ = example.simulate(count, seed)
    schema = example.schema()
    codes, theirs = Encoder(schema).encode(homes)[0], Encoder(schema.members.schema).encode(persons)[0]
    return arrange(codes, theirs, persons["hid"].to_numpy() - 100_001, schema)


def slow_tables(found):
    """Every pair of people who belong together, one by one."""
    counts = {}
    for home in range(len(found.sizes)):
        people = [i for i in range(len(found.members)) if found.owners[i] == home]
        for kind, pairs in (
            (HEAD, [(people[0], other) for other in people[1:]]),
            (NEXT, list(pairwise(people[1:]))),
            (OWN, [(one, one) for one in people]),
        ):
            for a in found.members.names:
                for b in found.members.names:
                    for i, j in pairs:
                        counts.setdefault((kind, a, b), Counter())[found.members[a][i], found.members[b][j]] += 1
        for one in people:
            for a in found.households.names:
                for b in found.members.names:
                    counts.setdefault((HOME, a, b), Counter())[found.households[a][home], found.members[b][one]] += 1
    return counts


def test_distances_are_those_of_a_slow_count():
    first, second = roster(30, 1), roster(20, 2)
    found = compare_households(first, second)
    mine, theirs = slow_tables(first), slow_tables(second)
    for table in found.tables:
        one, other = mine[table.kind, *table.names], theirs[table.kind, *table.names]
        cells = {*one, *other}
        expected = sum(abs(one[c] / one.total() - other[c] / other.total()) for c in cells) / 2
        assert table.tvd == pytest.approx(expected)
        product = Counter()
        for (i, _), x in one.items():
            for (_, j), y in one.items():
                product[i, j] += x * y / one.total() ** 2
        assert table.independent == pytest.approx(sum(abs(one[c] / one.total() - p) for c, p in product.items()) / 2)
    assert {t.kind for t in found.tables} == set(KINDS)
    sizes = [np.bincount(a.sizes, minlength=9) / len(a.sizes) for a in (first, second)]
    assert found.size_tvd == pytest.approx(np.abs(sizes[0] - sizes[1]).sum() / 2)


def test_the_same_households_are_no_distance_apart():
    found = compare_households(roster(80, 3), roster(80, 3))
    assert max(t.tvd for t in found.tables) == found.size_tvd == 0
    assert min(found.means(HEAD)[1:]) > 0


@pytest.fixture(scope="module")
def weighed():
    """Households with members who have a weight: women stand for three times as many people as men."""
    homes, persons, _ = example.simulate(300, 6)
    weight = np.where(np.array(persons["sex"].to_pylist()) == "F", 9.0, 3.0)
    persons = persons.append_column("pw", pa.array(weight))
    described = example.schema().to_dict()
    described["members"]["fields"].append(
        {"name": "pw", "type": "number", "minimum": 0, "maximum": 12, "role": "weight"}
    )
    run = {"budget": ds.PureDP(50), "members": persons, "testing": True, "noise_seed": 1, "seed": 2}
    release = ds.synthesize(homes, ds.Schema.from_dict(described), ds.AIM(rounds=2), **run)
    return homes, persons, release


@pytest.mark.slow
def test_members_with_a_weight_have_weighted_shares(weighed, tmp_path):
    homes, persons, release = weighed
    asked = {"ledger": ds.Ledger(tmp_path / "b.db"), "classifiers": ["logistic"], "draws": 2, "rows": 60}
    found = ds.compare(homes, release, members=persons, **asked)
    told = found.to_dict()["releases"][0]
    assert all("pw" not in t["names"] and "counts" not in t for t in told["households"]["tables"])
    assert told["weighted"] is None
    shares = {c["name"]: c for c in told["weighted members"]["columns"]}
    sex, w = np.array(persons["sex"].to_pylist()), persons["pw"].to_numpy()
    # weights count as the mean of their bins, which are a few hundredths wide on the log scale
    assert shares["sex"]["authentic"][0] == pytest.approx(w[sex == "F"].sum() / w.sum(), abs=0.03)
    assert shares["sex"]["tvd"] < 0.1
    found.save(tmp_path / "comparison")
    page = (tmp_path / "comparison" / "comparison.html").read_text()
    assert "Weighted shares of members" in page
    assert "mean TVD of weighted shares of members" in str(found)


@pytest.mark.slow
def test_columns_of_members_can_be_looked_up_in_the_studio(weighed, tmp_path):
    homes, persons, release = weighed
    asked = {"ledger": ds.Ledger(tmp_path / "b.db"), "classifiers": ["logistic"], "draws": 2, "rows": 60}
    distributions.keep(ds.compare(homes, release, members=persons, **asked), tmp_path)
    made = release.tables["persons"][0]
    sides = [np.array(t["sex"].to_pylist()) for t in (persons, made)]
    for label, *shares in distributions.look_up(tmp_path, "sex").numbers.rows:
        assert shares == pytest.approx([(side == label).mean() for side in sides], abs=0.01)
    within = distributions.look_up(tmp_path, "sex", "relation").numbers.rows
    relation = np.array(persons["relation"].to_pylist())
    share = {(group, label): authentic for group, label, authentic, _ in within}
    assert share["head", "F"] == pytest.approx((sides[0][relation == "head"] == "F").mean(), abs=0.01)
    assert distributions.look_up(tmp_path, "tenure", "education").title.startswith("V ")


@pytest.mark.slow
def test_a_comparison_has_a_chapter_and_a_report_a_section(tmp_path):
    homes, persons, _ = example.simulate(80, 6)
    run = {"budget": ds.PureDP(2), "members": persons, "testing": True, "noise_seed": 1, "seed": 2}
    release = ds.synthesize(homes, example.schema(), "aim", **run)
    release.save(tmp_path / "release")
    report = (tmp_path / "release" / "report.html").read_text()
    assert "How many members the synthetic households have" in report
    assert "if they were strangers" in report
    book = ds.Ledger(tmp_path / "b.db")
    asked = {"ledger": book, "classifiers": ["logistic"], "draws": 2, "rows": 60}
    found = ds.compare(homes, release, members=persons, **asked)
    told = found.to_dict()["releases"][0]["households"]
    assert len(told["tables"]) == 25 + 25 + 10 + 15
    assert sum(told["sizes"][0]) == pytest.approx(1)
    found.save(tmp_path / "comparison")
    page = (tmp_path / "comparison" / "comparison.html").read_text()
    assert "How many members households have" in page
    assert (tmp_path / "comparison" / "figures" / "household-sizes.csv").is_file()
    assert "head and member" in str(found)


def test_members_are_refused_where_there_are_no_households(tmp_path):
    table = example.simulate(40, 1)[1].drop_columns(["hid"])
    plain = example.schema().to_dict()["members"]
    release = ds.synthesize(
        table, {**plain, "unit": "row", "neighbours": "replace"}, "flat", budget=ds.PureDP(9), testing=True
    )
    with pytest.raises(UsageError, match="no households"):
        ds.compare(table, release, members=table, ledger=tmp_path / "b.db")
