"""Releases under `label`: public columns as they stand, labels drawn, an order that tells nothing."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dipsmith as ds
from dipsmith.errors import SourceError, UsageError

FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 69, "bins": {"width": 10}, "role": "public"},
    {"name": "code", "type": "string", "enum": ["01", "02", "03"], "other": "01", "role": "public"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


def schema(**more):
    return ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": "label", "fields": FIELDS, **more})


def staff(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    code = np.array(["01", "02", "03"])[rng.integers(0, 3, n)]
    sex = np.where(rng.random(n) < np.where(code == "02", 0.8, 0.3), "F", "M")
    return pa.table({"age": rng.integers(20, 70, n), "code": code, "sex": sex, "id": np.arange(n)})


def method():
    return ds.LogLinear(targets=["sex"], interactions=0)


def synthesize(table, declared=None, **more):
    return ds.synthesize(table, declared or schema(), method(), budget=ds.PureDP(1), testing=True, **more)


def test_public_columns_are_released_as_they_stand():
    table = staff()
    release = synthesize(table)
    released = release.tables[0]
    assert released.column_names == ["age", "code", "sex"]  # never a column that the schema does not name
    assert sorted(zip(*released.select(["age", "code"]).to_pydict().values(), strict=True)) == sorted(
        zip(*table.select(["age", "code"]).to_pydict().values(), strict=True)
    )
    assert release.card.disclosed == ("age", "code", "the number of rows")
    assert release.card.rows_known == "public"


@pytest.mark.slow
def test_values_outside_the_schema_are_routed_and_released_verbatim(tmp_path):
    table = pa.table({"age": [19, 33, 300], "code": ["01", "99", "03"], "sex": ["F", "M", "other"]})
    release = synthesize(table)
    assert set(release.tables[0]["age"].to_pylist()) == {19, 33, 300}
    assert "99" in release.tables[0]["code"].to_pylist()
    assert set(release.tables[0]["sex"].to_pylist()) <= {"F", "M"}
    release.save(tmp_path / "r")
    assert ds.verify(tmp_path / "r").rows == 3


def test_private_columns_that_are_no_target_are_neither_released_nor_described(tmp_path):
    more = [*FIELDS, {"name": "race", "type": "string", "enum": ["A", "B"], "other": "B"}]
    declared = schema(fields=more, rules=[{"never": {"race": "A", "code": "03"}}])
    table = staff(50).append_column("race", pa.array(["A", "B"] * 25))
    release = synthesize(table, declared)
    assert release.tables[0].column_names == ["age", "code", "sex"]
    release.save(tmp_path / "r")
    assert ds.Schema.read(tmp_path / "r" / "schema.yaml").names == ("age", "code", "sex")
    assert "race" not in (tmp_path / "r" / "codebook.csv").read_text()
    assert ds.verify(tmp_path / "r").rows == 50


def test_leading_zeros_survive_a_csv(tmp_path):
    path = tmp_path / "staff.csv"
    path.write_text("age,code,sex\n33,01,F\n44,02,M\n")
    released = synthesize(path).tables[0]
    assert sorted(released["code"].to_pylist()) == ["01", "02"]
    assert released.schema.field("age").type == pa.int64()
    path.write_text("age,code,sex\n033,01,F\n44,02,M\n")  # not canonical: released as text, nothing lost
    assert sorted(synthesize(path).tables[0]["age"].to_pylist()) == ["033", "44"]


def test_the_order_of_rows_tells_nothing():
    # A file sorted by sex: were the order kept, the first half of the public rows would be the women's.
    # Public columns identify a row here (age × code × running number in `pay`).
    n = 4000
    rng = np.random.default_rng(1)
    sex = np.sort(np.where(rng.random(n) < 0.5, "F", "M"))
    declared = schema(
        fields=[
            *FIELDS,
            {
                "name": "pay",
                "type": "integer",
                "minimum": 0,
                "maximum": 9999,
                "bins": {"width": 1000},
                "role": "public",
            },
        ]
    )
    table = pa.table({"age": rng.integers(20, 70, n), "code": ["01"] * n, "sex": sex, "pay": np.arange(n)})
    shuffled = table.take(rng.permutation(n))
    for source in (table, shuffled):
        order = synthesize(source, declared).tables[0]["pay"].to_numpy()
        # Spearman's rho of n = 4000 rows under a random order has sd 1/√(n−1) = .0158; 5 sd: P < 6e-7.
        assert abs(stats.spearmanr(order, np.arange(n)).statistic) < 0.079
        first_women = np.isin(order[: n // 2], np.flatnonzero(sex == "F")).mean()
        assert abs(first_women - (sex == "F").mean()) < 0.06  # hypergeometric sd .008, more than 5 sd


def test_labels_keep_the_association():
    table = staff(20_000)
    released = synthesize(table).tables[0].to_pydict()
    women = [
        np.mean([s == "F" for s, c in zip(released["sex"], released["code"], strict=True) if c == k])
        for k in ("01", "02")
    ]
    assert women[1] - women[0] > 0.4


def test_another_file_is_labelled_in_its_own_order():
    other = pa.table({"code": ["02", "01", "02"], "age": [30, 40, 50], "note": ["a", "b", "c"]})
    release = synthesize(staff(), onto=other)
    assert release.tables[0]["age"].to_pylist() == [30, 40, 50]
    assert release.tables[0].column_names == ["age", "code", "sex"]
    with pytest.raises(SourceError, match="'code'"):
        synthesize(staff(), onto=other.drop_columns("code"))


def test_the_model_labels_any_frame():
    release = synthesize(staff())
    frame = pa.table({"age": [30, 40], "code": ["02", "01"]})
    assert release.model.label(frame)["code"].to_pylist() == ["02", "01"]
    probabilities = release.model.probabilities(frame)
    assert probabilities.shape == (2, 2)
    assert probabilities[0, 0] > probabilities[1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("method", [ds.LogLinear(targets=["sex"]), ds.Forest(targets=["sex"])], ids=lambda m: m.name)
def test_no_rows_are_labelled_as_well_as_many(method, tmp_path):
    """After the charge nothing may fail for want of rows, be it the private file or another that is labelled."""
    none = tmp_path / "none.csv"
    none.write_text("age,code,sex,pay\n")
    for data, onto in [(str(none), None), (staff().slice(0, 0), None), (staff(), str(none))]:
        release = ds.synthesize(data, schema(), method, budget=ds.PureDP(1), onto=onto, testing=True)
        folder = release.save(tmp_path / f"release-{len(list(tmp_path.iterdir()))}")
        assert ds.verify(folder).rows == 0
        assert ds.Release.load(folder).tables[0].column_names == ["age", "code", "sex"]
    assert release.model.label(none).num_rows == 0
    assert release.model.probabilities(staff().slice(0, 0)).shape == (0, 2)
    with pytest.raises(UsageError, match="n is -1, expected 0 or more"):
        release.model.sample(-1)


def test_what_one_types_at_the_prompt_is_short():
    release = synthesize(staff())
    assert repr(release) == str(release)
    assert repr(release.model) == "model of loglinear over age, code, sex"
    assert repr(release.model.effects()) == str(release.model.effects())


def test_rows_cannot_be_asked_for_under_label():
    with pytest.raises(UsageError, match="every row of the file is labelled"):
        synthesize(staff(), rows=10)


def test_rows_beyond_max_rows_are_labelled_but_not_counted():
    table = staff().append_column("person", pa.array(np.arange(2000) // 4))
    declared = schema(unit={"column": "person", "max_rows": 1})
    release = synthesize(table, declared)
    assert release.tables[0].num_rows == 2000
    assert "person" not in release.tables[0].column_names


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (
            {"column": "id", "max_rows": 1, "per": "code"},
            ["ε = 1 is for one id in one code", "all 3 (code)", "ε = 3 in all"],
        ),
        ({"column": "id", "max_rows": 3}, []),
        ("row", []),
    ],
)
def test_the_card_tells_what_a_person_in_every_stratum_pays(unit, said):
    by_code = ds.Forest(targets=["sex"], strata="code")
    release = ds.synthesize(staff(), schema(unit=unit), by_code, budget=ds.PureDP(1), testing=True)
    assert release.card.units == ds.PureDP(1).units
    assert sum("pays" in note for note in release.card.notes) == bool(said)
    assert (release.card.person_total is not None) == bool(said)
    assert ("Total per person" in release.card.to_html()) == bool(said)
    for part in said:
        assert part in release.card.notes[0]
