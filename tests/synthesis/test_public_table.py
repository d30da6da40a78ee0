"""Public tables for growth: other names, other scales, their cost charged."""

from shutil import copyfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import dipsmith as ds
from dipsmith.errors import SchemaError, SourceError, UsageError

SCHEMA = ds.Schema.from_dict(
    {
        "name": "staff",
        "unit": "row",
        "neighbours": "label",
        "fields": [
            {
                "name": "pay",
                "type": "integer",
                "minimum": 0,
                "maximum": 99,
                "bins": {"width": 10},
                "role": "public",
            },
            {"name": "code", "type": "string", "enum": ["a", "b"], "other": "a", "role": "public"},
            {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
        ],
    }
)


def staff(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "pay": rng.integers(0, 100, n),
            "code": np.array(["a", "b"])[rng.integers(0, 2, n)],
            "sex": ["F", "M"] * (n // 2),
        }
    )


def test_columns_may_be_named_and_scaled_differently():
    other = pa.table({"basic_pay": ["4", "9", "x"], "code": ["a", "b", "zz"]})
    public = ds.public_table(other, SCHEMA, columns={"pay": "basic_pay"}, scale={"pay": 10})
    assert public.codes["pay"].tolist() == [4, 9, 0]
    assert public.codes["code"].tolist() == [0, 1, 0]
    with pytest.raises(SourceError, match="'basic'"):
        ds.public_table(other, SCHEMA, columns={"pay": "basic"})
    with pytest.raises(SchemaError, match="'salary'"):
        ds.public_table(other, SCHEMA, columns={"salary": "basic_pay"})
    with pytest.raises(SourceError, match="no column of schema"):
        ds.public_table(pa.table({"x": [1]}), SCHEMA)


def test_a_forest_grows_on_it_and_its_cost_is_charged(tmp_path):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("staff", ds.PureDP(2))
    public = ds.public_table(staff(seed=1), SCHEMA, cost=ds.PureDP("0.25"))
    release = ds.synthesize(
        staff(), SCHEMA, ds.Forest(targets=["sex"], public=public, n_b=50), budget=ds.PureDP(1), ledger=ledger
    )
    assert release.card.spending[0]["cost"] == 0.25
    assert sum(line["cost"] for line in release.card.spending) == pytest.approx(1)
    assert release.tables[0].num_rows == 1000


@pytest.mark.parametrize("file", [True, False])
def test_a_forest_never_grows_on_the_confidential_table(file, tmp_path):
    """Taken for public, its exact counts would decide where branches end; refused before anything is charged."""
    ledger, rows = ds.Ledger(tmp_path / "b.db"), staff()
    ledger.grant("staff", ds.PureDP(2))
    private, public = (tmp_path / "one.csv", tmp_path / "two.csv") if file else (rows, rows)
    if file:
        pa_csv.write_csv(rows, private)
        copyfile(private, public)
    plain = SCHEMA.to_dict()
    fields = [f | {"role": "private"} for f in plain["fields"]]
    schema = ds.Schema.from_dict(plain | {"neighbours": "replace", "fields": fields})
    forest = ds.Forest(public=ds.public_table(public, schema))
    with pytest.raises(UsageError, match="is the confidential one itself"):
        ds.synthesize(private, schema, forest, budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("staff").spent_units == 0
