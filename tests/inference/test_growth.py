"""How fast a number changes within one unit of a panel: direct estimates from noisy sums, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried, UsageError
from dipsmith.examples import personnel
from dipsmith.inference.combine import Combined
from dipsmith.schema import Schema
from dipsmith.schema.growth import GrowthSums

YEARS = range(2008, 2012)


@pytest.fixture(scope="module")
def release():
    table, _ = personnel.simulate_careers(1_000, YEARS, seed=5)
    schema = personnel.panel_schema(YEARS)
    return ds.synthesize(table, schema, ds.AIM(rounds=2), budget=ds.PureDP(50), testing=True, noise_seed=2, seed=2)


@pytest.mark.slow
def test_growth_has_an_interval_that_holds_the_truth(release):
    found = ds.growth(release, "pay")
    assert isinstance(found, Combined)
    assert found.names == ("log(pay)",)
    assert found["log(pay)"].low < 0.0507 < found["log(pay)"].high
    own = ds.growth(release, "pay", sampling=False)
    assert own.variance[0] < found.variance[0]
    assert own.variance[0] == own.noise[0]
    assert ds.growth(release).names == ("age", "log(pay)")


@pytest.mark.slow
def test_what_was_not_measured_is_refused_in_one_sentence(release, tmp_path):
    with pytest.raises(UsageError, match="'agency' is no number that may change"):
        ds.growth(release, "agency")
    with pytest.raises(NotCarried, match=r"ds\.growth"):
        ds.fit(release, "log(pay) ~ sex + year")
    release.save(tmp_path / "saved")
    assert np.allclose(ds.growth(tmp_path / "saved").estimate, ds.growth(release).estimate)


@pytest.mark.slow
def test_units_differ_as_measured_and_synthetic_careers_differ_more(release, monkeypatch):
    """Of the confidential people: the sum over them, each clustered; synthetic careers, without memory, vary more."""
    table, _ = personnel.simulate_careers(1_000, YEARS, seed=5)
    codes, _ = Encoder(release.schema).encode(table)
    _, unit = np.unique(table["employee_id"].to_numpy(), return_inverse=True)
    squares, products = GrowthSums(release.schema, "pay").unit_sums(unit, codes)
    away = products - products.sum() / squares.sum() * squares
    true = float((away**2).sum() / squares.sum() ** 2)
    assert 0.6 * true < ds.growth(release, "pay").within[0] < 1.6 * true
    monkeypatch.setattr("dipsmith.inference.growth.GrowthSpread.key", "of releases that have none")
    assert ds.growth(release, "pay").within[0] > 1.8 * true


def lives(slopes, start):
    """A release of people whose number changes by as much every year of eight, and what it was made of."""
    people, years = len(slopes), np.arange(8)
    fields = [{"name": "year", "type": "integer", "minimum": 0, "maximum": 7}]
    fields += [{"name": "x", "type": "number", "bins": {"edges": list(range(0, 101, 4))}}]
    unit = {"column": "person", "max_rows": 8, "order": "year"}
    schema = Schema.from_dict({"name": "lives", "unit": unit, "neighbours": "add-remove", "fields": fields})
    x = start[:, None] + np.asarray(slopes)[:, None] * years
    table = pa.table({"person": np.repeat(np.arange(people), 8), "year": np.tile(years, people), "x": x.ravel()})
    method, budget = ds.AIM(rounds=1), ds.PureDP(50)
    return ds.synthesize(table, schema, method, budget=budget, testing=True, noise_seed=2, seed=2), table


@pytest.mark.slow
def test_people_who_rise_or_fall_for_life_have_no_narrower_interval():
    """Synthetic careers forget who rises and who falls, and vary far less than such people do: they must not bound it."""
    random = np.random.default_rng(3)
    slopes = random.choice([-2, 2], 500)
    made, table = lives(slopes, random.uniform(35, 65, 500) - 3.5 * slopes)
    squares, products = GrowthSums(made.schema, "x").unit_sums(
        table["person"].to_numpy(), Encoder(made.schema).encode(table)[0]
    )
    true = float(((products - products.sum() / squares.sum() * squares) ** 2).sum() / squares.sum() ** 2)
    assert 0.9 * true < ds.growth(made, "x").within[0] < 1.2 * true


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_lives_that_go_through_more_levels_than_count_are_refused(share):
    """All rise by 10 a year, or half of them: the sums are cut, and tell 6.8 and 3.4 as if these were sure."""
    made, _ = lives(np.where(np.arange(300) < share * 300, 10, 0), np.random.default_rng(3).uniform(0, 30, 300))
    with pytest.raises(NotCarried, match="more levels of x than count"):
        ds.growth(made)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_almost_too_large_have_an_interval_of_their_own_law():
    """Variances of 1e196: their squares overflow, and what overflows must not make an interval of normal noise."""
    fields = [{"name": "year", "type": "integer", "minimum": 0, "maximum": 3}]
    fields += [{"name": "x", "type": "number", "missing": True, "bins": {"edges": [-9e99, -1e50, 0, 1e50, 9e99]}}]
    unit = {"column": "person", "max_rows": 4, "order": "year"}
    schema = Schema.from_dict({"name": "vast", "unit": unit, "neighbours": "add-remove", "fields": fields})
    x = np.random.default_rng(3).choice([-9e99, -1.0, 1.0, 8e99], 240, p=[0.1, 0.4, 0.4, 0.1])
    table = pa.table({"person": np.repeat(np.arange(60), 4), "year": np.tile(np.arange(4), 60), "x": x})
    made = ds.synthesize(table, schema, ds.AIM(rounds=1), budget=ds.PureDP(30), testing=True, noise_seed=2, seed=2)
    found = ds.growth(made, "x")
    assert 1 < found.df[0] < 1e6
