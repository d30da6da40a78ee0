"""A release of households: two tables that belong together, checked by `verify`, the same bytes whatever the files' order."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.errors import BudgetError, DamageError, NotCarried, SchemaError, UnsupportedError, UsageError
from dipsmith.examples import households as example
from dipsmith.schema import Schema
from dipsmith.schema.csvw_eo import from_csvw_eo
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.release import read_schema

pytestmark = pytest.mark.slow


def small(relation="add-remove"):
    plain = example.schema(relation).to_dict()
    plain["members"]["fields"] = [f for f in plain["members"]["fields"] if f["name"] in ("relation", "age", "sex")]
    plain["fields"] = [f for f in plain["fields"] if f["name"] != "weight"]
    return Schema.from_dict(plain)


HOMES, PERSONS, _ = example.simulate(300, 1)


def released(homes=HOMES, persons=PERSONS, relation="add-remove", **more):
    made = {"budget": ds.PureDP(3), "seed": 1, "testing": True, "noise_seed": 4, "members": persons}
    return ds.synthesize(homes, small(relation), ds.AIM(), **(made | more))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("households")
    released().save(folder / "release", format="csv")
    return folder / "release"


@pytest.mark.parametrize(("relation", "format"), [("add-remove", "csv"), ("replace", "parquet"), ("replace", "dta")])
def test_both_tables_are_released_under_new_keys(relation, format, tmp_path):  # noqa: A002
    release = released(relation=relation, sets=2, each="draw")
    release.save(tmp_path / "release", format=format)
    ds.verify(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    for i in range(2):
        homes, persons = again.tables["households"][i], again.tables["persons"][i]
        assert homes.column_names == ["hid", "region", "tenure"]
        assert persons.column_names == ["hid", "relation", "age", "sex"]
        assert homes.equals(again.tables[i])
        assert homes["hid"].to_pylist() == list(range(1, homes.num_rows + 1))
        assert set(persons["hid"].to_pylist()) <= set(homes["hid"].to_pylist())
    assert again.tables[0].num_rows == (300 if relation == "replace" else again.card.rows)
    assert again.schema.members.schema.names == ("relation", "age", "sex")
    assert list(again.to_pandas(2, "persons")["relation"].cat.categories) == list(example.RELATIONS)
    with pytest.raises(UsageError, match="no table 'people'; there are: households, persons"):
        again.tables["people"]


def test_more_are_drawn_from_the_saved_model(saved):
    drawn = ds.Release.load(saved).sample(40, seed=3)
    assert drawn["households"].num_rows == 40
    assert max(drawn["persons"]["hid"].to_pylist()) <= 40


def test_members_lie_at_places_of_their_own_within_bins(saved):
    """A panel keeps a person's place in its bins; two members of a household are two people."""
    persons = ds.Release.load(saved).to_pandas(name="persons")
    pairs = persons.groupby("hid")["age"].apply(lambda a: len(set(a % 10)))[persons.groupby("hid").size() > 2]
    assert (pairs > 1).any()


def test_nothing_of_the_files_is_left(saved):
    keys = set(HOMES["hid"].to_pylist())
    for name in ("synthetic-1.csv", "synthetic-1-persons.csv"):
        assert not keys & set(pa_csv.read_csv(saved / name)["hid"].to_pylist())
    book = (saved / "codebook.csv").read_text()
    assert "relation" in book
    assert "tenure" in book
    card = json.loads((saved / "card.json").read_text())
    assert card["unit"]["text"] == "household (hid) with at most 8 members"
    assert "synthetic-1-persons.csv" in card["files"]


@pytest.mark.filterwarnings("ignore")
def test_the_passport_describes_members_and_their_key(saved):
    """By the validators of Croissant, CSVW and DataCite: both files, their columns, and the key that leads to households."""
    import mlcroissant
    from csvw import TableGroup
    from datacite import schema45

    files = ["synthetic-1.csv", "synthetic-1-persons.csv"]
    columns = {files[0]: ["hid", "region", "tenure"], files[1]: ["hid", "relation", "age", "sex"]}
    told = mlcroissant.Dataset(jsonld=str(saved / "metadata" / "croissant.json")).metadata
    assert not told.ctx.issues.errors
    assert sorted(f.id for f in told.distribution) == sorted(files)
    sets = {f"{r.id}.csv": r for r in told.record_sets}
    assert {name: [f.name for f in r.fields] for name, r in sets.items()} == columns
    assert sets[files[1]].fields[0].references.field == "synthetic-1/hid"

    group = TableGroup.from_file(saved / "metadata" / "csvw.json")
    tables = {str(t.url).removeprefix("../"): t for t in group.tables}
    assert {n: [c.name for c in tables[n].tableSchema.columns] for n in files} == columns
    (key,) = tables[files[1]].tableSchema.foreignKeys
    assert str(key.reference.resource) == f"../{files[0]}"
    assert group.check_referential_integrity(strict=True)
    assert len(list(tables[files[1]])) == pa_csv.read_csv(saved / files[1]).num_rows

    public = json.loads((saved / "metadata" / "csvw-eo.json").read_text())
    assert from_csvw_eo(public) == read_schema(saved)
    assert [[c["name"] for c in t["tableSchema"]["columns"]] for t in public["tables"]] == [columns[f] for f in files]
    assert [t["maxContributions"] for t in public["tables"]] == [1, read_schema(saved).unit.members]
    lengths = {name: pa_csv.read_csv(saved / name).num_rows for name in files}
    cited = json.loads((saved / "metadata" / "datacite.json").read_text())
    schema45.validator.validate(cited)
    assert cited["sizes"] == [f"1 sets of {lengths[files[0]]} rows", f"{lengths[files[1]]} rows in '{files[1]}'"]
    space = {"d": "ddi:codebook:2_5"}
    book = ET.parse(saved / "metadata" / "ddi.xml").getroot()
    named = {f.get("ID"): f.find("d:fileTxt/d:fileName", space).text for f in book.findall("d:fileDscr", space)}
    cases = book.findall("d:fileDscr/d:fileTxt/d:dimensns/d:caseQnty", space)
    assert [int(c.text) for c in cases] == [lengths[name] for name in named.values()]
    variables = book.findall("d:dataDscr/d:var", space)
    for place, name in named.items():
        assert [v.get("name") for v in variables if place in v.get("files").split()] == columns[name]
    crate = json.loads((saved / "ro-crate-metadata.json").read_text())["@graph"]
    (made,) = [e for e in crate if e["@id"] == "#made"]
    assert sorted(r["@id"] for r in made["result"]) == sorted(files)
    assert "6 columns;" in (saved / "metadata" / "deployment.yaml").read_text()


def forms(homes, persons, random, folder):
    """The same two tables in other orders, types and files."""
    mixed = [t.take(pa.array(random.permutation(t.num_rows))) for t in (homes, persons)]
    yield mixed
    as_text = [t.set_column(0, "hid", t["hid"].cast(pa.string())) for t in mixed]
    coded = [
        pa.table({n: t[n].dictionary_encode() if pa.types.is_string(t[n].type) else t[n] for n in t.column_names})
        for t in as_text
    ]
    yield coded
    for i, table in enumerate(mixed):
        pa_csv.write_csv(table, folder / f"{i}.csv")
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=50)
    yield [folder / "0.csv", folder / "1.parquet"]
    yield [folder / "0.parquet", folder / "1.csv"]


def test_bytes_know_neither_order_nor_form_of_either_file(tmp_path):
    """Households with too many members, twice listed ones, orphans and members who break rules among them."""
    random = np.random.default_rng(3)
    crowd = pa.table({"hid": [100_005] * 12, "relation": ["child"] * 12, "age": list(range(12)), "sex": ["F"] * 12})
    odd = pa.table({"hid": [7, 100_009], "relation": ["head", "head"], "age": [40, 3], "sex": ["M", "M"]})
    persons = pa.concat_tables([PERSONS.select(crowd.column_names), crowd, odd])
    homes = pa.concat_tables([HOMES, HOMES.slice(3, 4).set_column(2, "tenure", pa.array(["social"] * 4))])
    names = ("synthetic-1.csv", "synthetic-1-persons.csv", "measurements.parquet", "model-1.json", "model-1.npz")

    def saved_bytes(first, second, name):
        released(first, second, request="r").save(tmp_path / name, format="csv")
        return [sha256((tmp_path / name / n).read_bytes()).hexdigest() for n in (*names, "report.html")]

    expected = saved_bytes(homes, persons, "as it is")
    for i, (first, second) in enumerate(forms(homes, persons, random, tmp_path)):
        assert saved_bytes(first, second, str(i)) == expected


def rewritten(folder, place, change):
    """A copy of a release whose members' table was changed, with a card that fits."""
    import shutil

    shutil.copytree(folder, place)
    file = place / "synthetic-1-persons.csv"
    pa_csv.write_csv(change(pa_csv.read_csv(file)), file)
    card = json.loads((place / "card.json").read_text())
    card["files"]["synthetic-1-persons.csv"] = sha256(file.read_bytes()).hexdigest()
    (place / "card.json").write_text(json.dumps(card))
    return place


def put(table, column, row, value):
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: put(t, "hid", 0, 10**6), "whose household"),
        (lambda t: put(t, "hid", 0, 0), "whose household"),
        (lambda t: pa.concat_tables([t, *[t.filter(pa.array([r == "child" for r in t["relation"].to_pylist()])).slice(0, 1)] * 9]), "more than 8"),
        (lambda t: pa.concat_tables([t, t.filter(pa.array([r == "head" for r in t["relation"].to_pylist()])).slice(0, 1)]), "two heads"),
        (lambda t: put(t, "sex", 0, "X"), "outside its list"),
        (lambda t: t.drop_columns(["sex"]), "column 'sex' is missing"),
        (lambda t: t.set_column(0, "hid", pa.array(["x"] * t.num_rows)), "whole number"),
    ],
    ids=["orphan", "no household", "cap", "two heads", "value", "column", "key"],
)  # fmt: skip
def test_verify_finds_tables_that_do_not_belong_together(saved, change, message, tmp_path):
    with pytest.raises(DamageError, match=message):
        ds.verify(rewritten(saved, tmp_path / "changed", change))


def test_a_changed_file_of_members_is_found_by_its_digest(saved, tmp_path):
    import shutil

    place = shutil.copytree(saved, tmp_path / "changed")
    file = place / "synthetic-1-persons.csv"
    file.write_text(file.read_text().replace("F", "M", 1))
    with pytest.raises(DamageError, match="synthetic-1-persons"):
        ds.verify(place)
    file.unlink()
    with pytest.raises(DamageError, match="synthetic-1-persons"):
        ds.verify(place)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"members": None}, UsageError, "give their table"),
        ({"members": PERSONS.drop_columns(["age"])}, ds.errors.SourceError, "age"),
        ({"members": PERSONS.drop_columns(["hid"])}, ds.errors.SourceError, "hid"),
        ({"analyses": ["age ~ tenure"]}, SchemaError, "only columns of households are planned"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_charged(more, error, message, tmp_path):
    book = ds.Ledger(tmp_path / "budget.db")
    book.grant("households", ds.PureDP(3))
    with pytest.raises(error, match=message):
        released(testing=False, noise_seed=None, ledger=book, **more)
    assert book.show("households").spent_units == 0


@pytest.mark.parametrize("method", ["mst", "privbayes", "marginals", "flat"])
def test_methods_that_make_one_table_are_refused(method):
    with pytest.raises(UnsupportedError, match="use aim"):
        ds.synthesize(HOMES, small(), method, budget=ds.PureDP(1), members=PERSONS, testing=True)
    with pytest.raises(UnsupportedError, match="use aim"):
        ds.plan(small(), method, ds.PureDP(1), rows=300)


def test_members_without_a_schema_of_them_are_refused():
    plain = {k: v for k, v in small().to_dict().items() if k not in ("members", "key", "max_members", "order")}
    with pytest.raises(UsageError, match="the schema has none"):
        ds.synthesize(HOMES, {**plain, "unit": "row"}, "aim", budget=ds.PureDP(1), members=PERSONS, testing=True)


def test_intervals_of_members_are_refused(saved):
    release = ds.Release.load(saved)
    for formula in ("age ~ sex", "age ~ tenure", 'I(region == "north") ~ sex'):
        assert release.supports(formula).level == "not carried"
        with pytest.raises(NotCarried, match="is a column of 'persons', and members of one household are alike"):
            ds.fit(release, formula)
        with pytest.raises(NotCarried, match="members of one household are alike"):
            ds.fit(release, formula, allow_unsupported=True)


def test_what_was_not_measured_of_households_is_refused(saved, monkeypatch):
    release = ds.Release.load(saved)
    monkeypatch.setattr("dipsmith.synthesis.answers.noisy_tables", lambda _: [])
    assert release.supports('I(region == "north") ~ tenure').level == "not carried"
    with pytest.raises(NotCarried, match="no noisy tables of households hold every two of its columns"):
        ds.fit(release, 'I(region == "north") ~ tenure')
    assert ds.fit(release, 'I(region == "north") ~ tenure', allow_unsupported=True)


@pytest.mark.parametrize("unit", ["household", "person"])
def test_planned_regressions_of_households_are_direct(unit):
    """With hardly any noise the estimates are those of the authentic households."""
    formula = "rent ~ region + tenure"
    rent = 500 + 200 * (np.asarray(HOMES["tenure"]) == "owned") + 50 * (np.asarray(HOMES["region"]) == "east")
    rent = rent + np.random.default_rng(2).integers(-99, 100, len(rent))
    homes = HOMES.append_column("rent", pa.array(rent))
    plain = {**small().to_dict(), "unit": unit}
    plain["fields"].append({"name": "rent", "type": "integer", "minimum": 0, "maximum": 999, "bins": {"width": 10}})
    made = {"budget": ds.PureDP(2000), "members": PERSONS, "testing": True, "noise_seed": 1, "analyses": [formula]}
    release = ds.synthesize(homes, plain, ds.AIM(rounds=1), **made)
    assert release.supports(formula).level == "measured"
    found = ds.fit(release, formula)
    true = ds.fit(homes, formula, reference={"region": "north", "tenure": "owned"})
    for name in ("tenure[T.rented]", "region[T.east]"):
        assert found[name].estimate == pytest.approx(true[name].estimate, abs=5)  # bins are ten wide


def test_tables_of_a_database_are_brought_together_here(tmp_path):
    """The same bytes as from frames; rows of an engine are read once, since it promises no order."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "town.duckdb")) as link:
        for name, table in (("homes", HOMES), ("persons", PERSONS)):
            link.register("given", table)
            link.execute(f"CREATE TABLE {name} AS SELECT * FROM given ORDER BY random()")
            link.unregister("given")
    address = f"duckdb://{tmp_path / 'town.duckdb'}"
    from dipsmith.sources import source

    released(source(address, table="homes"), source(address, table="persons")).save(tmp_path / "0", format="csv")
    released().save(tmp_path / "1", format="csv")
    for name in ("synthetic-1.csv", "synthetic-1-persons.csv"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()


def test_rows_of_an_engine_are_read_once():
    """An engine that gives its rows in another order each time: codes and keys still belong to the same rows."""
    from dipsmith.counting.households import HouseholdRows
    from dipsmith.sources import source

    class Restless:
        def __init__(self, table, seed):
            self.table, self.random, self.columns = table, np.random.default_rng(seed), tuple(table.column_names)
            self.counter = lambda *_: None

        def check(self, required):
            assert set(required) <= set(self.columns)

        def batches(self, columns, progress=None):
            mixed = self.table.take(pa.array(self.random.permutation(self.table.num_rows)))
            yield from mixed.select(list(columns)).combine_chunks().to_batches()

        def describe(self):
            return "restless"

    def lines(first, second):
        held = HouseholdRows(first, second, small(), bytes(32)).steps().codes
        return sorted(zip(*(held[n].tolist() for n in held.names), strict=True))

    assert lines(Restless(HOMES, 1), Restless(PERSONS, 2)) == lines(source(HOMES), source(PERSONS))


# --- two tables, one grant ------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    ledger = ds.Ledger(tmp_path / "budget.db")
    for name in ("homes", "others"):
        ledger.grant(name, ds.PureDP(4))
    return tmp_path / "budget.db"


def charged(book, name="homes", request="r1", homes=HOMES, persons=PERSONS, **more):
    schema = replace(small(), name=name)
    paid = {"budget": ds.PureDP(1), "ledger": book, "request": request, "members": persons}
    return ds.synthesize(homes, schema, ds.AIM(rounds=1), **paid, **more)


@pytest.mark.parametrize("other", ["homes", "persons"])
def test_either_table_under_another_name_must_be_confirmed(other, book):
    charged(book)
    tables = {"homes": HOMES.slice(1), "persons": PERSONS.slice(1)}
    tables[other] = {"homes": HOMES, "persons": PERSONS}[other]
    with pytest.raises(BudgetError, match="'others' has the same source as 'homes'"):
        charged(book, "others", "r2", **tables)
    assert ds.Ledger(book).show("others").spent == 0
    charged(book, "others", "r2", **tables, another_grant=True)


def test_a_request_id_does_not_buy_other_members(book):
    charged(book)
    with pytest.raises(BudgetError, match="reserved for other rows"):
        charged(book, persons=PERSONS.slice(1))


def test_the_ledger_tells_no_digest_of_either_table(book):
    charged(book)
    held = book.read_bytes()
    assert b'"also"' in held
    for table in (HOMES, PERSONS):
        assert fingerprint(source(table)).encode() not in held


def test_households_without_a_single_member_are_whole(tmp_path):
    """A CSV without rows does not say what its columns would be."""
    from dipsmith.synthesis.households import check_households

    homes = pa.table({"hid": [1, 2], "region": ["north", "east"], "tenure": ["owned", "owned"]})
    nobody = {name: pa.nulls(0) for name in ("hid", "relation", "age", "sex")}
    check_households(homes, pa.table(nobody), small())


def test_the_page_for_officials_says_who_is_protected(saved):
    page = (saved / "officials.html").read_text()
    assert "whether any one household with all of its members is in the table at all" in page
