"""The simulated young voters: margins, impossible cells, sparsity."""

import numpy as np
import pyarrow.parquet
import pytest

from dipsmith.codec.encode import Encoder
from dipsmith.examples import voters
from dipsmith.schema import Codes, Marginal, Schema


@pytest.fixture(scope="module")
def people():
    return Codes.of(voters.schema(), voters.codes())


def test_shape(people):
    schema = voters.schema()
    assert len(people) == 44_821
    assert len(schema.names) == 15
    assert schema.size() == 1_720_320
    assert int(Marginal.of(schema, schema.names).possible().sum()) == 1_290_240


def test_margins_are_the_published_ones(people):
    # A share p of 44,821 independent people has sd √(p(1−p)/44821) ≤ 0.0024; six are 0.0142.
    for name, share in voters.YES.items():
        assert people[name].mean() == pytest.approx(share, abs=6 * (share * (1 - share) / 44_821) ** 0.5)
    for name, shares in (
        ("age", voters.AGES),
        ("length_of_residence", voters.RESIDENCE),
        ("family_income", voters.INCOME),
    ):
        assert sum(shares.values()) == pytest.approx(1)
        found = np.bincount(people[name], minlength=len(shares)) / 44_821
        assert np.abs(found - list(shares.values())).max() < 0.0142
    income = sorted(voters.INCOME.values())
    assert income[0] == 0.031
    assert (income[6] + income[7]) / 2 == pytest.approx(0.059)
    assert income[-1] == 0.265


def test_nobody_votes_or_registers_by_car_without_being_registered(people):
    unregistered = people["registered"] == 0
    assert not people["voted"][unregistered].any()
    assert not people["dmv_registration"][unregistered].any()
    assert people.lawful().all()


def test_as_sparse_as_the_original(people):
    """Cells with one, two, … people: within a tenth of the published numbers; 21,329 occupied within 5 %."""
    table = Marginal.of(people.schema, people.schema.names)
    sizes = np.unique(table.index(people), return_counts=True)[1]
    found = [int((sizes == k).sum()) for k in range(1, 6)] + [int((sizes > 5).sum())]
    for made, published in zip(found, voters.PUBLISHED_CELLS.values(), strict=True):
        assert made == pytest.approx(published, rel=0.1)
    assert sum(voters.PUBLISHED_CELLS.values()) == 21_329
    assert len(sizes) == pytest.approx(21_329, rel=0.05)


def test_columns_depend_on_each_other(people):
    registered = people["registered"] == 1
    table = np.histogram2d(people["family_income"][registered], people["married"][registered], bins=(14, 2))[0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    # χ² with 13 degrees of freedom: above 60 has probability below 1e-7
    assert ((table - expected) ** 2 / expected).sum() > 60


def test_another_seed_draws_other_people_from_the_same_population():
    first, second = (voters.codes(3000, seed) for seed in (1, 2))
    assert not np.array_equal(first["voted"], second["voted"])
    # difference of two shares of 3,000: sd at most 0.0129, six are 0.078
    assert abs(first["female"].mean() - second["female"].mean()) < 0.078


def test_the_table_encodes_to_its_codes(tmp_path):
    voters.write(tmp_path, 500)
    schema = Schema.read(tmp_path / "voters.yaml")
    assert schema == voters.schema()
    table = pyarrow.parquet.read_table(tmp_path / "voters.parquet")
    codes, kept = Encoder(schema, schema.names).encode(table.combine_chunks().to_batches()[0])
    assert kept.all()
    for name, column in voters.codes(500).items():
        assert np.array_equal(codes[name], column)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_relations(relation):
    voters.schema(relation).check()
