"""Labels that do not change in time: one for each unit, tables of every year kept, and nothing told but the link."""

import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from assurance.bytes import Run, differences
from assurance.cases import Case
from assurance.pairs import Pair
from assurance.rerun import check_pair
from dipsmith.errors import SchemaError, SourceError, UnlinkedRows
from dipsmith.inference.mechanism import Mechanism
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Schema
from dipsmith.synthesis.careers import Careers

YEARS = (2001, 2002, 2003, 2004)
MODEL = "log(pay) ~ sex + age"


def career_schema(unit=None, **changes):
    fields = [
        {"name": "year", "type": "integer", "enum": list(YEARS), "other": 2001, "role": "public"},
        {"name": "age", "type": "integer", "minimum": 20, "maximum": 60, "bins": {"width": 20}, "role": "public"},
        {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 25}, "role": "public"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
        {"name": "race", "type": "string", "enum": ["A", "B", "C"], "other": "C", "fixed": True},
    ]
    plain = {
        "name": "careers",
        "unit": unit or {"column": "id", "max_rows": 4, "link": "public"},
        "neighbours": "label",
        "fields": [{**f, **changes.get(f["name"], {})} for f in fields],
    }
    return Schema.from_dict(plain | changes.get("top", {}))


def career_table(people=150, seed=0):
    """Some years of each person; those who are paid more are men more often."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(people):
        sex, race, age = random.random() < 0.5, random.choice(["A", "B", "C"]), int(random.integers(20, 55))
        first, years = int(random.integers(0, 3)), int(random.integers(1, 5))
        for k, year in enumerate(YEARS[first : first + years]):
            rows.append((f"p{i}", year, age + k, 30 + 25 * sex + random.random() * 30, "FM"[int(sex)], race))
    names = ("id", "year", "age", "pay", "sex", "race")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


TABLE = career_table()


def release_of(schema=None, method=None, data=TABLE, epsilon=20, **options):
    schema, method = schema or career_schema(), method or METHODS["forest"]
    return ds.synthesize(data, schema, method, budget=PureDP(epsilon), testing=True, noise_seed=1, **options)


def labels_of(table, unit="id", names=("sex", "race")):
    """The labels that the rows of each unit have."""
    found = {}
    for row in table.to_pylist():
        found.setdefault(row[unit], set()).add(tuple(row[n] for n in names))
    return found


def is_consistent(table, names=("sex", "race")):
    return all(len(labels) == 1 for labels in labels_of(table, names=names).values())


METHODS = {
    "loglinear": ds.LogLinear(targets=("sex", "race")),
    "forest": ds.Forest(targets=("sex", "race"), n_b=10),
    "sequential": ds.Forest(targets=("sex", "race"), leaves="sequential", n_b=10),
    "strata": ds.Forest(targets=("sex", "race"), strata="year", n_b=10),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_unit_keeps_its_labels_in_every_set(method):
    release = release_of(method=method, sets=2, each="split", seed=3)
    sizes = Counter(Counter(TABLE["id"].to_pylist()).values())
    for table in release.tables:
        assert is_consistent(table)
        assert Counter(Counter(table["id"].to_pylist()).values()) == sizes
        assert sorted(set(table["id"].to_pylist())) == list(range(1, 151))
    one, other = (t["id"].to_pylist() for t in release.tables)
    assert one != other


def test_without_fixed_labels_rows_have_their_own():
    """What the law of units is for: drawn row by row, most people would change their sex."""
    free = career_schema(sex={"fixed": False}, race={"fixed": False})
    shared = [len(labels) == 1 for labels in labels_of(release_of(free).tables[0], names=("sex",)).values()]
    assert np.mean(shared) < 0.8


def test_fixed_and_changing_labels_go_together():
    release = release_of(career_schema(race={"fixed": False}), seed=1)
    assert is_consistent(release.tables[0], names=("sex",))
    assert not is_consistent(release.tables[0], names=("race",))


def test_a_unit_beyond_max_rows_and_rows_without_one_are_labelled_too():
    ids = pa.array([None if i < 20 else v for i, v in enumerate(TABLE["id"].to_pylist())])
    data = TABLE.set_column(0, "id", ids)
    table = release_of(career_schema({"column": "id", "max_rows": 2, "link": "public"}), data=data).tables[0]
    assert table.num_rows == data.num_rows
    assert is_consistent(table)
    assert table["id"].null_count == 0
    assert len(set(table["id"].to_pylist())) == len(set(ids.drop_null().to_pylist())) + 20


def test_per_year_people_are_linked_over_the_years_and_the_card_says_what_that_means():
    release = release_of(career_schema({"column": "id", "max_rows": 1, "per": "year", "link": "public"}))
    assert is_consistent(release.tables[0])
    assert any("k times as weak" in note for note in release.card.notes)
    assert "which rows belong to one id" in release.card.disclosed


def test_saved_releases_verify_and_label_further_files(tmp_path):
    release_of(seed=2).save(tmp_path / "release", format="csv")
    ds.verify(tmp_path / "release")
    loaded = ds.Release.load(tmp_path / "release")
    assert loaded.schema.linked == "id"
    other = career_table(40, seed=9).drop_columns(["sex", "race"])
    labelled = loaded.label(other, seed=4)
    assert labelled.column_names == ["id", "year", "age", "pay", "sex", "race"]
    assert labelled.select(["id", "year", "age", "pay"]).equals(other)
    assert is_consistent(labelled)
    mapped = loaded.label(other.rename_columns(["person", "year", "age", "pay"]), {"id": "person"}, seed=4)
    assert mapped.equals(labelled)
    with pytest.warns(UnlinkedRows, match="no column 'id'"):
        assert "id" not in loaded.label(other.drop_columns(["id"])).column_names


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_files_for_stata_and_spss_have_the_numbers_too(ending, tmp_path):
    pytest.importorskip("pyreadstat")
    release = release_of(seed=2)
    release.save(tmp_path / "release", format=ending)
    ds.verify(tmp_path / "release")
    assert ds.Release.load(tmp_path / "release").tables[0]["id"].equals(release.tables[0]["id"])


def test_another_file_is_labelled_by_its_units_in_its_order():
    other = career_table(30, seed=5).drop_columns(["sex", "race"])
    table = release_of(onto=other).tables[0]
    assert is_consistent(table)
    assert table["pay"].to_pylist() == other["pay"].to_pylist()
    pairs = set(zip(table["id"].to_pylist(), other["id"].to_pylist(), strict=True))
    assert len(pairs) == 30
    with pytest.raises(SourceError, match="id"):
        release_of(onto=other.drop_columns(["id"]))


def test_values_within_bins_are_shared_too():
    born = {"name": "born", "type": "integer", "minimum": 1940, "maximum": 1990, "bins": {"width": 25}, "fixed": True}
    plain = career_schema().to_dict()
    schema = Schema.from_dict({**plain, "fields": [*plain["fields"], born]})
    years = [1940 + int(name[1:]) % 50 for name in TABLE["id"].to_pylist()]
    method = ds.LogLinear(targets=("sex", "born"))
    table = release_of(schema, method, TABLE.append_column("born", pa.array(years))).tables[0]
    assert is_consistent(table, names=("sex", "born"))


def test_a_label_that_a_rule_forbids_in_one_year_is_not_drawn():
    schema = career_schema(top={"rules": [{"never": {"year": "2004", "sex": "F"}}]})
    table = release_of(schema).tables[0]
    found = labels_of(table, names=("sex",))
    last = {row["id"] for row in table.to_pylist() if row["year"] == 2004}
    assert last
    assert all(found[unit] == {("M",)} for unit in last)
    assert {("F",)} in found.values()


# --- planned analyses ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned():
    data = career_table(500, seed=8)
    return release_of(data=data, epsilon=2000, analyses=[MODEL], seed=1, method=ds.Forest(targets=("sex", "race")))


@pytest.mark.slow
def test_labels_of_units_carry_planned_results(planned):
    """The regression of the synthetic rows says what was planned, to a tenth of its standard error."""
    table = planned.tables[0]
    assert is_consistent(table)
    wanted = {c.name: c.estimate for c in planned.results[0].coefficients}["sex[T.M]"]
    found = ds.fit(table, MODEL, reference={"sex": "F"})["sex[T.M]"]
    assert abs(wanted) > 0.3
    assert abs(found.value - wanted) < 0.1 * found.std_error


def test_changing_labels_beside_fixed_ones_carry_results_too():
    data = career_table(300, seed=8)
    schema = career_schema(sex={"fixed": False})
    release = release_of(schema, ds.Forest(targets=("sex", "race")), data, 2000, analyses=[MODEL], seed=1)
    table = release.tables[0]
    assert is_consistent(table, names=("race",))
    wanted = {c.name: c.estimate for c in release.results[0].coefficients}["sex[T.M]"]
    found = ds.fit(table, MODEL, reference={"sex": "F"})["sex[T.M]"]
    assert abs(found.value - wanted) < 0.1 * found.std_error


def test_the_mechanism_run_again_labels_units():
    release = release_of(seed=1)
    mechanism, table = Mechanism.of(release), release.tables[0]
    again = mechanism.again(mechanism.codes(table), table, 1, generator(1))[0]
    assert is_consistent(again)
    assert again["id"].to_pylist() == table["id"].to_pylist()


# --- what must not be told -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("analyses", [(), (MODEL,)], ids=["plain", "planned"])
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_bytes_know_neither_the_order_of_the_file_nor_what_units_are_called(analyses, tmp_path):
    method = ds.Forest(targets=("sex", "race"), n_b=10)
    run = Run(career_schema(), method, ("parquet", "csv"), analyses=analyses, budget=PureDP(50))
    first = run.release(TABLE, tmp_path, "first")
    random = np.random.default_rng(4)
    shuffled = TABLE.take(pa.array(random.permutation(TABLE.num_rows)))
    assert differences(first, run.release(shuffled, tmp_path, "shuffled")) == []
    by_sex = TABLE.sort_by([("sex", "ascending"), ("race", "descending")])
    names = {v: int(random.integers(1 << 40)) for v in sorted(set(TABLE["id"].to_pylist()))}
    renamed = by_sex.set_column(0, "id", pa.array([names[v] for v in by_sex["id"].to_pylist()]))
    assert differences(first, run.release(renamed, tmp_path, "renamed")) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_a_neighbour_leaves_the_same_bytes_given_the_same_answers(tmp_path):
    """One person's labels changed in all years, the first run's answers given again: nothing that is seen differs."""
    changed = TABLE.to_pylist()
    for row in changed:
        if row["id"] == "p3":
            row["sex"], row["race"] = {"F": "M", "M": "F"}[row["sex"]], "A" if row["race"] != "A" else "B"
    pair = Pair("labels", career_schema(), TABLE, pa.Table.from_pylist(changed))
    case = Case("forest", "label", METHODS["forest"], analyses=(MODEL,))
    random = np.random.default_rng(6)
    found = check_pair(
        pair,
        case,
        PureDP(5),
        seed=2,
        folder=tmp_path,
        figures=False,
        reshape=lambda table: table.take(pa.array(random.permutation(table.num_rows))),
    )
    assert found.findings == ()


def test_units_are_ordered_by_what_their_rows_say():
    """All 24 orders of four rows, two of which are the same row of two people."""
    units, kinds = np.array(["a", "a", "b", "b"]), np.array([1, 0, 1, 2])
    seen = set()
    for order in np.array(np.meshgrid(*[range(4)] * 4)).T.reshape(-1, 4):
        if len(set(order)) == 4:
            made = Careers.of([pa.array(units[order])], kinds[order])
            seen.add((tuple(kinds[order][made.order]), tuple(made.starts)))
    assert seen == {((0, 1, 1, 2), (0, 2))}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (lambda: career_schema({"column": "id", "max_rows": 4}), "link: public"),
        (lambda: career_schema(age={"fixed": True}), "private column"),
        (lambda: career_schema(top={"neighbours": "replace"}), "link: public goes with neighbours 'label'"),
        (lambda: career_schema("row"), "link: public"),
    ],
)
def test_schemas_that_would_tell_more_than_they_say_are_refused(schema, says):
    with pytest.raises(SchemaError, match=says):
        schema()


def test_schemas_are_written_and_read_back():
    schema = career_schema()
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.digest != career_schema(race={"fixed": False}).digest
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert career_schema({"column": "id", "max_rows": 4, "link": "public"}).linked == "id"
