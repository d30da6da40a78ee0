"""The bytes that leave: nothing of the private file but its values, and those only where they are public or paid for."""

import json
import shutil
import time
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.errors import DamageError, UsageError
from dipsmith.synthesis.canonical import PublicColumn, PublicRows, as_type, canonical_type
from dipsmith.synthesis.exit import GROUP_ROWS, Exit, pack, write_rows
from dipsmith.synthesis.verify import find_trace
from dipsmith.synthesis.writing import digest

# Nobody lists the people of a register: their names are outside the list, and are released as they stand.
pytestmark = pytest.mark.filterwarnings("ignore::dipsmith.errors.UnlistedValues")

SCHEMA = {
    "name": "clinic",
    "unit": "row",
    "neighbours": "label",
    "fields": [
        {"name": "town", "type": "string", "enum": ["A", "B", "C"], "other": "A", "role": "public"},
        {"name": "person", "type": "string", "enum": ["x"], "other": "x", "role": "public"},
        {"name": "born", "type": "datetime", "minimum": "1900-01-01", "maximum": "2030-01-01", "bins": {"width": "year"}, "role": "public"},
        {"name": "insured", "type": "boolean", "role": "public"},
        {"name": "hiv", "type": "string", "enum": ["no", "yes"], "other": "no"},
    ],
}  # fmt: skip
METHOD = ds.LogLinear(targets=["hiv"], interactions=0)


def schema():
    return ds.Schema.from_dict(SCHEMA)


def clinic(n=600, seed=0):
    """A register that somebody sorted by diagnosis."""
    rng = np.random.default_rng(seed)
    hiv = np.sort(np.where(rng.random(n) < 0.3, "yes", "no"))
    return pa.table(
        {
            "town": np.array(["A", "B", "C"])[rng.integers(0, 3, n)],
            "person": [f"person {i:04d}" for i in rng.permutation(n)],
            "born": [f"19{y:02d}-05-0{1 + y % 9} 10:00:00" for y in rng.integers(30, 99, n)],
            "insured": np.array(["false", "true"])[rng.integers(0, 2, n)],
            "hiv": hiv,
        }
    )


def frozen(data, **more):
    return ds.synthesize(data, schema(), METHOD, budget=ds.PureDP(0.01), testing=True, noise_seed=7, seed=1, **more)


def tables_of(folder):
    return {p.name: p.read_bytes() for p in folder.glob("synthetic-*")}


def forms(table, folder):
    """The same rows as files and frames of every kind."""
    pa_csv.write_csv(table, folder / "rows.csv")
    yield folder / "rows.csv"
    pq.write_table(table, folder / "rows.parquet")
    yield folder / "rows.parquet"
    coded = pa.table({n: table[n].dictionary_encode() for n in table.column_names})
    pq.write_table(coded, folder / "coded.parquet", row_group_size=100)
    yield folder / "coded.parquet"
    yield coded
    typed = table.set_column(2, "born", table["born"].cast(pa.timestamp("ms")))
    typed = typed.set_column(3, "insured", pa.array([v == "true" for v in table["insured"].to_pylist()]))
    yield typed.replace_schema_metadata({"source": "canary"})
    yield typed.to_pandas()
    yield typed.to_pandas().astype({"town": "category", "person": "category"})


@pytest.mark.slow
def test_the_order_and_form_of_the_private_file_are_in_no_byte(tmp_path):
    """Leak 1 (dictionaries in file order), leak 2 (labels drawn in file order), leak 7 (metadata)."""
    rng = np.random.default_rng(3)
    rows = clinic()
    orders = [rows, rows.take(rng.permutation(len(rows))), rows.slice(300).take(np.arange(300)[::-1])]
    orders[2] = pa.concat_tables([orders[2], rows.slice(0, 300)])
    written = []
    for i, table in enumerate(orders):
        (tmp_path / f"in-{i}").mkdir()
        for j, data in enumerate(forms(table, tmp_path / f"in-{i}")):
            release = frozen(data, sets=3, each="draw").save(tmp_path / f"out-{i}-{j}")
            written.append(tables_of(release))
    assert len(written) == 21
    assert all(w == written[0] for w in written)
    assert len(set(written[0].values())) == 3, "sets differ from each other"
    assert not any(b"canary" in data for w in written for data in w.values())
    file = tmp_path / "out-0-0" / "synthetic-1.parquet"
    assert pq.read_metadata(file).metadata is None
    assert find_trace(file, schema()) is None


@pytest.mark.slow
def test_dictionaries_of_a_release_stand_in_the_order_of_its_own_rows(tmp_path):
    """What an attacker reads: the dictionary of `person`, in which a sorted register shows where 'yes' begins."""
    rows = clinic()
    pa_csv.write_csv(rows, tmp_path / "clinic.csv")
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("clinic", ds.PureDP(1))
    release = ds.synthesize(tmp_path / "clinic.csv", schema(), METHOD, budget=ds.PureDP("0.01"), ledger=ledger)
    release.save(tmp_path / "out")
    with pq.ParquetFile(tmp_path / "out" / "synthetic-1.parquet", read_dictionary=["person"]) as file:
        entries = file.read(["person"]).column(0).chunk(0).dictionary.to_pylist()
    assert entries == pq.read_table(tmp_path / "out" / "synthetic-1.parquet")["person"].to_pylist()
    place = {name: i for i, name in enumerate(rows["person"].to_pylist())}
    order = np.array([place[name] for name in entries])
    # Spearman's ρ of 600 rows in random order has sd .041; 5 sd: a false alarm in 6e-7 of runs.
    assert abs(np.corrcoef(order, np.arange(600))[0, 1]) < 0.205


@pytest.mark.slow
def test_tables_in_memory_hold_no_more_than_those_on_disk(tmp_path):
    release = frozen(clinic())
    loaded = ds.Release.load(release.save(tmp_path / "out"))
    assert loaded.tables[0].equals(release.tables[0])
    assert not any(pa.types.is_dictionary(t) for t in release.tables[0].schema.types)
    assert release.tables[0].schema.metadata is None
    types = dict(zip(release.tables[0].column_names, release.tables[0].schema.types, strict=True))
    assert types["born"] == pa.timestamp("us")
    assert types["insured"] == pa.bool_()


def test_the_private_file_is_not_labelled_in_its_own_order(tmp_path):
    rows = clinic(50)
    pa_csv.write_csv(rows, tmp_path / "clinic.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "clinic.csv")
    for data, onto in [
        (rows, rows),
        (tmp_path / "clinic.csv", tmp_path / "clinic.csv"),
        (tmp_path / "clinic.csv", str(tmp_path / "link.csv")),
    ]:
        with pytest.raises(UsageError, match="leave onto out"):
            frozen(data, onto=onto)
    assert frozen(rows, onto=rows.take(np.arange(10)))


def test_a_release_does_not_label_the_private_file_in_its_own_order(tmp_path):
    """Whoever has the file and a release of it: the labels are free, and the file's order may tell a private column."""
    rows = clinic(50)
    release = ds.Release.load(frozen(rows, sets=2, each="draw").save(tmp_path / "out"))
    pa_csv.write_csv(rows, tmp_path / "clinic.csv")
    for own in (rows, tmp_path / "clinic.csv", rows.drop_columns(["hiv"]).take(np.arange(50)[::-1])):
        with pytest.raises(UsageError, match="order is not public"):
            release.label(own, seed=1)
    for public in release.tables:
        assert release.label(public, seed=1)["person"].equals(public["person"]), "the order of a set is public"
    assert release.label(rows.slice(1), seed=1)["person"].to_pylist() == rows["person"].to_pylist()[1:]


@pytest.mark.slow
def test_the_private_rows_in_another_form_leave_their_order_too(tmp_path):
    rows = clinic(200)
    pa_csv.write_csv(rows, tmp_path / "clinic.csv")
    public = rows.drop_columns(["hiv"])
    released = [
        tables_of(frozen(rows, onto=onto).save(tmp_path / f"out-{i}"))
        for i, onto in enumerate(
            (public, tmp_path / "clinic.csv", public.to_pandas(), public.take(np.arange(200)[::-1]))
        )
    ]
    assert all(r == released[0] for r in released)
    made = ds.Release.load(tmp_path / "out-0")
    assert made.tables[0]["person"].to_pylist() != rows["person"].to_pylist()
    assert any("the order of its rows" in said for said in made.card.steward_says)
    fewer = frozen(rows, onto=public.slice(1)).tables[0]
    assert fewer["person"].to_pylist() == rows["person"].to_pylist()[1:], "another table keeps its order"


@pytest.mark.slow
def test_no_file_tells_how_long_the_run_took(tmp_path, monkeypatch):
    """The card and every file carry the time before the first row was read."""
    before = time.time()
    slow = pa.RecordBatchReader.from_batches(clinic().schema, clinic().to_batches())
    release = frozen(slow)
    time.sleep(1.1)
    release.save(tmp_path / "out")
    times = {p.stat().st_mtime for p in (tmp_path / "out").iterdir()} | {(tmp_path / "out").stat().st_mtime}
    assert len(times) == 1
    assert int(before) <= times.pop() <= before + 1


def test_statements_of_the_steward_are_marked_on_the_card(tmp_path):
    fields = [{**f, "role": "private"} for f in SCHEMA["fields"] if f["name"] in ("town", "hiv")]
    declared = ds.Schema.from_dict({**SCHEMA, "neighbours": "add-remove", "fields": fields})
    release = ds.synthesize(
        clinic().select(["town", "hiv"]), declared, ds.Flat(), budget=ds.PureDP(1), known_rows=600, testing=True
    )
    said = " ".join(release.card.steward_says)
    assert "publicly known: 600" in said
    assert "'clinic'" in said
    assert "Stated by the steward" in release.card.to_html()
    card = json.loads((release.save(tmp_path / "out") / "card.json").read_text())
    assert card.pop("steward_says") == list(release.card.steward_says)
    assert ds.synthesis.card.Card.from_json(json.dumps(card)).steward_says == (), "cards of before have none"


def release_of_before(folder, table):
    """A release whose table was written as the version before wrote it, with a card that agrees."""
    pq.write_table(table, folder / "synthetic-1.parquet")
    shutil.rmtree(folder / "metadata")
    card = ds.Release.load(folder).card
    kept = {name: listed for name, listed in card.files.items() if not name.startswith("metadata/")}
    card = replace(card, files={**kept, "synthetic-1.parquet": digest(folder / "synthetic-1.parquet")})
    (folder / "card.json").write_text(card.to_json(), "utf-8")
    return folder


@pytest.mark.slow
def test_releases_of_before_that_tell_too_much_do_not_verify(tmp_path):
    whole = frozen(clinic()).tables[0]
    rng = np.random.default_rng(1)

    def made(name, table):
        return release_of_before(frozen(clinic()).save(tmp_path / name), table)

    person = whole.column_names.index("person")
    by_file = pa.DictionaryArray.from_arrays(
        pa.array(rng.permutation(600), pa.int32()), pa.array(clinic()["person"].to_pylist())
    )
    with pytest.raises(DamageError, match=r"'person'.*order of the confidential file.*SECURITY"):
        ds.verify(made("ordered", whole.set_column(person, "person", by_file)))
    in_bytes = pa.DictionaryArray.from_arrays(by_file.indices, by_file.dictionary.cast(pa.binary()))
    with pytest.raises(DamageError, match=r"'person'.*order of the confidential file"):
        ds.verify(made("bytes", whole.set_column(person, "person", in_bytes)))
    with pytest.raises(DamageError, match=r"metadata \(pandas\)"):
        ds.verify(made("pandas", whole.replace_schema_metadata({"pandas": "{}"})))
    described = whole.schema.set(0, whole.schema.field(0).with_metadata({"comment": "from payroll"}))
    with pytest.raises(DamageError, match=r"metadata \(comment\)"):
        ds.verify(made("field", whole.cast(described)))
    for key in ("org.apache.spark.sql.parquet.row.metadata", "org.apache.spark.version"):
        with pytest.raises(DamageError, match=f"metadata \\({key}\\)"):
            ds.verify(made(key, whole.replace_schema_metadata({key: '{"fields": [{"name": "unreleased"}]}'})))
    numbered = whole.schema.set(0, whole.schema.field(0).with_metadata({"PARQUET:field_id": "777"}))
    with pytest.raises(DamageError, match=r"metadata \(PARQUET:field_id\)"):
        ds.verify(made("numbered", whole.cast(numbered)))
    assert ds.verify(made("harmless", whole)).rows == 600, "what told nothing still verifies"
    hiv = whole.column_names.index("hiv")
    declared = pa.DictionaryArray.from_arrays(
        pa.array([["no", "yes"].index(v) for v in whole["hiv"].to_pylist()], pa.int32()),
        pa.array(["no", "yes"]),
    )
    assert ds.verify(made("schema", whole.set_column(hiv, "hiv", declared))).rows == 600


def test_the_exit_cuts_rows_by_their_number_alone(tmp_path):
    n = 2 * GROUP_ROWS + 5
    table = pa.table({"a": np.arange(n), "b": pa.array([f"v{i % 7}" for i in range(n)])})
    pieces = [table.slice(0, 10), table.slice(10, GROUP_ROWS * 2), table.slice(10 + GROUP_ROWS * 2)]
    for i, cut in enumerate(([table], pieces, [pa.concat_tables(pieces).unify_dictionaries()])):
        with (tmp_path / f"{i}.parquet").open("wb") as file:
            assert write_rows(file, cut, table.schema) == n
    files = [(tmp_path / f"{i}.parquet").read_bytes() for i in range(3)]
    assert files[0] == files[1] == files[2]
    found = pq.ParquetFile(tmp_path / "0.parquet").metadata
    assert [found.row_group(i).num_rows for i in range(3)] == [GROUP_ROWS, GROUP_ROWS, 5]
    with pytest.raises(UsageError, match="'a' is of type int32"):
        Exit(tmp_path).table("bad.parquet", pa.table({"a": pa.array([1], pa.int32())}))


@pytest.mark.slow
def test_archives_have_no_clock(tmp_path):
    arrays = {"b": np.arange(12.0).reshape(3, 4), "a": np.asfortranarray(np.ones((2, 3)))}
    first = pack(arrays)
    time.sleep(2.1)  # the resolution of times in an archive is two seconds
    assert pack(dict(reversed(arrays.items()))) == first
    (tmp_path / "a.npz").write_bytes(first)
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {e.date_time for e in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with np.load(tmp_path / "a.npz", allow_pickle=False) as read:
        assert {k: read[k].tolist() for k in read.files} == {k: v.tolist() for k, v in arrays.items()}


KINDS = {
    "integer": (pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.large_string()),
    "number": (pa.int16(), pa.float32(), pa.float64(), pa.decimal128(30, 2), pa.string()),
    "boolean": (pa.bool_(), pa.int8(), pa.string()),
    "date": (pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"), pa.string()),
    "datetime": (pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.string()),
    "string": (pa.string(), pa.large_string(), pa.binary()),
}
DOMAINS = {
    "integer": {"minimum": -50, "maximum": 50, "bins": {"width": 7}},
    "number": {"minimum": -50, "maximum": 50, "bins": {"width": 7}},
    "boolean": {},
    "date": {"minimum": "1960-01-01", "maximum": "1990-12-31", "bins": {"width": "year"}},
    "datetime": {"minimum": "1960-01-01", "maximum": "1990-12-31", "bins": {"width": "year"}},
    "string": {"enum": ["0", "1", "2"], "other": "0"},
}


@pytest.mark.slow
@given(
    kind=st.sampled_from(sorted(KINDS)),
    numbers=st.lists(st.one_of(st.none(), st.integers(-100, 100)), max_size=30),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_canonical_values_are_the_same_from_every_type_and_order(kind, numbers, data):
    if kind == "boolean":
        numbers = [None if n is None else n % 2 for n in numbers]
    days = kind in ("date", "datetime")
    plain = pa.array(numbers, pa.int64())
    if days:
        plain = pa.array([None if n is None else n * 86_400 for n in numbers]).cast(pa.timestamp("s"))
    permuted = data.draw(st.permutations(range(len(numbers))))
    cut = data.draw(st.integers(0, len(numbers)))
    attribute = ds.Schema.from_dict(
        {**SCHEMA, "neighbours": "add-remove", "fields": [{"name": "v", "type": kind, **DOMAINS[kind]}]}
    )
    found = []
    for stored in KINDS[kind]:
        values = _stored(plain, stored, kind)
        for arrays in (
            [values],
            [values.slice(0, cut), values.slice(cut)],
            [values.take(pa.array(permuted, pa.int64()))],
            [values.dictionary_encode()],
        ):
            column = PublicColumn.of(arrays, attribute["v"].type)
            found.append((column.values.type, column.values.to_pylist(), sorted(column.ranks.tolist())))
        released = column.take(np.arange(len(values)))
        before, kept = Encoder(attribute).encode(pa.record_batch({"v": values}))
        after, again = Encoder(attribute).encode(pa.table({"v": released}))
        assert before["v"].tolist() == after["v"].tolist(), "what is released is routed like what was read"
        assert kept.tolist() == again.tolist()
        simple = as_type(values, canonical_type(values.type, attribute["v"]))
        routed, _ = Encoder(attribute).encode(pa.record_batch({"v": simple}))
        assert routed["v"].tolist() == before["v"].tolist()
    assert all(f == found[0] for f in found)


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_zero_is_one_value_whatever_its_sign(first):
    """Else which rows are of one kind, and the order of kinds, would tell what came first in the file."""
    column = PublicColumn.of([pa.array([first, -first, 1.0, first])], "number")
    assert column.values.to_pylist() == [0.0, 1.0]
    assert column.ranks.tolist() == [0, 0, 1, 0]


def _stored(plain, stored, kind):
    if pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_binary(stored):
        text = plain.cast(pa.date32()).cast(pa.string()) if kind == "date" else plain.cast(pa.string())
        return text.cast(stored)
    if pa.types.is_boolean(stored):
        return plain.cast(pa.int8()).cast(stored)
    return plain.cast(pa.date32()).cast(stored) if pa.types.is_date(stored) else plain.cast(stored)


@pytest.mark.slow
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "b", None, ""]), st.integers(0, 3), st.floats(allow_nan=True)),
        max_size=25,
    ),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_sorted_rows_depend_on_the_multiset_alone(rows, data):
    declared = ds.Schema.from_dict(
        {
            **SCHEMA,
            "fields": [
                {"name": "t", "type": "string", "enum": ["a"], "other": "a", "role": "public"},
                {
                    "name": "i",
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 3,
                    "bins": {"width": 2},
                    "role": "public",
                },
                {
                    "name": "f",
                    "type": "number",
                    "minimum": 0,
                    "maximum": 3,
                    "bins": {"width": 2},
                    "role": "public",
                },
                *SCHEMA["fields"][-1:],
            ],
        }
    )
    names = ("t", "i", "f")
    sorted_rows = []
    for order in (range(len(rows)), data.draw(st.permutations(range(len(rows))))):
        some = [rows[i] for i in order]
        columns = list(zip(*some, strict=True)) if some else [(), (), ()]
        types = (pa.string(), pa.int64(), pa.float64())
        batch = pa.record_batch([pa.array(c, t) for c, t in zip(columns, types, strict=True)], list(names))
        public = PublicRows.of([batch.slice(0, 3), batch.slice(3)] if rows else [batch], declared, names)
        made = public.table(public.order())
        sorted_rows.append((made.schema, made.to_pylist()))
    assert sorted_rows[0] == sorted_rows[1]
