"""A release of a panel: careers with new numbers, the same bytes whatever the file's order, and what it says of itself."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import ContradictedRows

PERIODS = 3


def schema(relation="add-remove"):
    return ds.Schema.from_dict(
        {
            "name": "careers",
            "unit": {"column": "person", "max_rows": PERIODS, "order": "year"},
            "neighbours": relation,
            "fields": [
                {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2000 + PERIODS},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
                {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 10}},
            ],
        }
    )


def people(count=400, seed=0):
    random = np.random.default_rng(seed)
    rows = []
    for person in range(count):
        sex, pay, entry = "FM"[person % 2], 30 + 40 * random.random(), int(random.integers(0, PERIODS))
        for year in range(entry, PERIODS):
            rows.append((f"secret-{person}", 2001 + year, sex, pay + 3 * (year - entry)))
    names = ("person", "year", "sex", "pay")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})


def released(table, method=None, seed=4, relation="add-remove", **more):
    made = {"budget": ds.PureDP(5), "seed": 1, "testing": True, "noise_seed": seed}
    return ds.synthesize(table, schema(relation), method or ds.AIM(), **(made | more))


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_careers_are_released_under_new_numbers(relation, tmp_path):
    release = released(people(), relation=relation)
    release.save(tmp_path / "release", format="csv")
    ds.verify(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    table = again.tables[0]
    assert table.column_names == ["person", "year", "sex", "pay"]
    person, year, sex = (table.column(n).to_pylist() for n in ("person", "year", "sex"))
    assert set(person) == set(range(1, max(person) + 1))
    assert len(set(zip(person, year, strict=True))) == table.num_rows
    assert len(set(zip(person, sex, strict=True))) == max(person)  # one sex for life
    files = [p for p in (tmp_path / "release").rglob("*") if p.is_file()]
    assert "secret-" not in "".join(p.read_text("utf-8", "ignore") for p in files)
    assert again.schema.linked == "person"
    assert any("longer memory is not kept" in note for note in again.card.notes)
    more = again.sample(50, seed=3)
    assert more.num_rows == 50
    assert more.column_names == table.column_names


@pytest.mark.slow
def test_bytes_know_neither_the_order_of_the_file_nor_what_people_are_called(tmp_path):
    table, random = people(), np.random.default_rng(1)
    other = table.take(pa.array(random.permutation(table.num_rows)))
    names = [f"other-{name[::-1]}" for name in other.column("person").to_pylist()]
    other = other.set_column(0, "person", pa.array(names))
    for i, rows in enumerate((table, other)):
        released(rows).save(tmp_path / str(i), format="csv")
    first, second = ((tmp_path / str(i) / "synthetic-1.csv").read_bytes() for i in range(2))
    assert first == second


def test_whoever_stays_in_a_bin_keeps_the_value():
    table = released(people()).tables[0].to_pandas()
    bins = (table["pay"] // 10).astype(int)
    assert (table.groupby(["person", bins])["pay"].nunique() == 1).all()


def test_other_methods_do_not_link_rows_and_say_so(tmp_path):
    release = released(people(), ds.MST())
    release.save(tmp_path / "release")
    ds.verify(tmp_path / "release")
    assert release.tables[0].column_names == ["year", "sex", "pay"]
    assert any("are not linked" in note for note in release.card.notes)


def test_a_regression_of_careers_is_refused_an_interval():
    """A person's years are alike: an interval that took them for independent rows would be too short."""
    release = released(people(), analyses=["pay ~ sex"], budget=ds.PureDP(50))
    assert release.results == ()
    assert release.supports("pay ~ sex").level == "not carried"
    with pytest.raises(ds.errors.NotCarried, match="follow one another"):
        ds.fit(release, "pay ~ sex")


@pytest.mark.slow
def test_units_that_enter_contradict_no_number_of_rows(recwarn):
    """Entries are counted by unit: they add up to fewer than rows."""
    table = people()
    release = released(table, ds.AIM(rounds=2), budget=ds.PureDP(20), known_rows=table.num_rows)
    assert not [w for w in recwarn if issubclass(w.category, ContradictedRows)]
    wrong = 2 * table.num_rows
    with pytest.warns(ContradictedRows, match=f"stated as {wrong:,}"):
        released(table, ds.AIM(rounds=2), budget=ds.PureDP(20), known_rows=wrong)
    assert release.card.rows == table.num_rows


def test_a_column_beside_what_it_was_before_is_not_the_column_by_itself():
    """The noise that is told of a column is that of a table of it, or of a sum over what was before."""
    release = released(people(), ds.AIM(rounds=2))
    own = [t for t in release.measurements if t.attributes == ("pay",)]
    assert len({t.shape for t in own}) > 1
    alone = sum(1 / t.variance for t in own if len(t.shape) == 1)
    precisions = {t.shape: sum(1 / o.variance for o in own if o.shape == t.shape) for t in own}
    summed = [t.noisy.sum() / t.shape[0] / precisions[t.shape] for t in own if len(t.shape) > 1]
    assert release.supports("pay").standard_error == pytest.approx(min(1 / alone, *summed) ** 0.5)


def test_where_units_are_is_no_count_of_the_rows_of_a_period():
    release = released(people(), ds.AIM(rounds=2))
    assert any("(presence)" in t.name for t in release.measurements)
    own = [t for t in release.measurements if t.attributes == ("year",)]
    assert {t.shape for t in own} == {(release.schema["year"].size,)}
