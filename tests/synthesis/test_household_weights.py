"""Survey weights of households and of their members: totals of both tables, and weights that agree with them."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import NotCarried, UsageError
from dipsmith.examples import households as example
from dipsmith.schema import Schema

HOMES, PERSONS, _ = example.simulate(400, 3)
OWN = HOMES["weight"].to_numpy()[PERSONS["hid"].to_numpy() - 100_001]
PERSONS = PERSONS.append_column("own", pa.array(np.round(OWN / 10, 1)))


def weighted(unit="household", tables=("households", "persons")):
    plain = {**example.schema(weighted="households" in tables).to_dict(), "unit": unit, "max_members": 3}
    members = plain["members"]
    members["fields"] = [f for f in members["fields"] if f["name"] in ("relation", "sex")]
    members.pop("rules")
    if "persons" in tables:
        members["fields"].append({"name": "own", "type": "number", "minimum": 0, "maximum": 40, "role": "weight"})
    return Schema.from_dict(plain)


def made(schema, budget=400, **more):
    settings = {"budget": ds.PureDP(budget), "members": PERSONS, "testing": True, "noise_seed": 2, "seed": 2} | more
    return ds.synthesize(HOMES, schema, ds.AIM(rounds=1), **settings)


def held():
    """The authentic persons that count: at most three of each household are not more than there are."""
    sizes = np.bincount(PERSONS["hid"].to_numpy() - 100_001, minlength=400)
    return sizes[PERSONS["hid"].to_numpy() - 100_001] <= 3


@pytest.mark.parametrize("unit", ["household", "person"])
def test_totals_of_both_tables_are_measured_and_met(unit, tmp_path):
    made(weighted(unit)).save(tmp_path / "release")
    ds.verify(tmp_path / "release")
    release = ds.Release.load(tmp_path / "release")
    true = {r: float(HOMES["weight"].to_numpy()[np.asarray(HOMES["region"]) == r].sum()) for r in example.REGIONS}
    found = ds.weighted_totals(release, "region", sampling=False)
    assert found["region = east"].estimate == pytest.approx(true["east"], rel=0.01)
    kept = release.tables["households"][0]
    got = float(kept["weight"].to_numpy()[np.asarray(kept["region"]) == "east"].sum())
    assert got == pytest.approx(true["east"], rel=0.02)
    persons, rows = ds.weighted_totals(release, "sex", sampling=False), release.tables["persons"][0]
    least = float(PERSONS["own"].to_numpy()[held() & (np.asarray(PERSONS["sex"]) == "F")].sum())
    most = float(PERSONS["own"].to_numpy()[np.asarray(PERSONS["sex"]) == "F"].sum())
    women = persons["sex = F"].estimate
    assert least < women < most  # some of the crowded count
    assert float(rows["own"].to_numpy()[np.asarray(rows["sex"]) == "F"].sum()) == pytest.approx(women, rel=0.02)


def test_what_is_asked_for_is_found_by_its_table(tmp_path):
    release = made(weighted(), 40)
    whole = ds.weighted_totals(release)["all"].estimate
    assert whole == pytest.approx(float(HOMES["weight"].to_numpy().sum()), rel=0.3)
    assert ds.weighted_totals(release, table="persons")["all"].estimate < whole
    with pytest.raises(UsageError, match="there is no table 'people'; there are: households, persons"):
        ds.weighted_totals(release, table="people")
    with pytest.raises(UsageError, match="'sex' is no column that totals of 'weight' can be by"):
        ds.weighted_totals(release, "sex", "region")
    with pytest.raises(NotCarried, match="not measured"):
        ds.weighted_totals(release, "sex", "relation")
    alone = made(weighted(tables=("households",)), 40)
    with pytest.raises(UsageError, match="'persons' has no survey weight"):
        ds.weighted_totals(alone, table="persons")
    assert any("own is a survey weight" in note for note in release.card.notes)
    assert not any("own" in note for note in alone.card.notes)


def test_a_household_counts_as_one_where_people_are_sampled():
    """Members are drawn with their household: where all have one weight the variance is that of sums by household."""
    release = made(weighted())
    rows = release.tables["persons"][0]
    own, owners = rows["own"].to_numpy(), rows["hid"].to_numpy()
    sums, n = np.bincount(owners, weights=own), int(owners.max())
    expected = n / (n - 1) * (np.sum(sums**2) - sums.sum() ** 2 / n)
    found = ds.weighted_totals(release, table="persons")
    assert found.within[0] == pytest.approx(expected)
    alone = len(own) / (len(own) - 1) * (np.sum(own**2) - own.sum() ** 2 / len(own))
    assert found.within[0] > 2 * alone  # more than if everybody had been drawn alone


@pytest.mark.parametrize(("tables", "name"), [(("households",), "weight"), (("persons",), "own")])
def test_what_would_spoil_totals_is_refused_before_a_row_is_read(tables, name):
    for more, message in (({"rows": 10}, "leave rows out"), ({"sets": 2, "each": "split"}, "use each='draw'")):
        with pytest.raises(UsageError, match=message) as caught:
            made(weighted(tables=tables), 1, **more)
        assert f"'{name}'" in str(caught.value)


@pytest.mark.parametrize(("unit", "noise"), [("household", (400, 120)), ("person", (800, 80))])
def test_the_plan_says_what_a_total_costs(unit, noise):
    """ε = 7, a fifth for totals, of which there are 4: the scale of the noise is Δ₁ over .35."""
    planned = ds.plan(weighted(unit), "aim", ds.PureDP(7), rows=400)
    found = [step.sd for step in planned.steps if step.stage == "weighted totals"]
    expected = [np.sqrt(2) * moved / 0.35 for moved in noise for _ in range(2)]
    assert found == pytest.approx(expected, rel=0.001)
