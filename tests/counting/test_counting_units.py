"""Which rows of a unit count: by keyed hash, never by position, at most max_rows."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dipsmith as ds
from dipsmith.counting import BatchRows
from dipsmith.counting.units import beyond_max_rows, hashed_text, unit_text
from dipsmith.schema import Attribute, Categories, Marginal, Rule, Schema, Unit
from dipsmith.schema.schema import Neighbours
from dipsmith.sources import source

KEY = bytes(range(32))
Row = tuple[str | None, str, int, int]


def schema_of(neighbours: Neighbours, unit: Unit, rules: tuple[Rule, ...] = ()) -> Schema:
    return Schema(
        "t",
        (
            Attribute("job", "string", Categories.of(["j0", "j1", "j2"], other="j0"), role="public"),
            Attribute("sex", "string", Categories.of(["F", "M"], other="M"), role="private"),
        ),
        unit,
        neighbours,
        rules,
    )


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([r[0] for r in rows], pa.string()),
            "year": pa.array([r[1] for r in rows], pa.string()),
            "job": pa.array([f"j{r[2]}" for r in rows], pa.string()),
            "sex": pa.array(["FM"[r[3]] for r in rows], pa.string()),
        }
    )


def reference(rows: Sequence[Row], schema: Schema) -> Counter[tuple[int, int]]:
    """The definition, one unit at a time."""
    label = schema.neighbours == "label"
    unit = schema.unit
    owned = defaultdict(list)
    for who, year, job, sex in rows:
        if who is not None:
            owned[who, year if unit.per else None].append((job, sex))
    kept: Counter[tuple[int, int]] = Counter()
    for (who, per), mine in owned.items():
        seen: Counter[tuple[int, ...]] = Counter()
        ranked = []
        for job, sex in sorted(mine):
            codes = (job,) if label else (job, sex)
            text = hashed_text(KEY, who, per, codes, seen[codes])
            seen[codes] += 1
            ranked.append((hashlib.sha256(text.encode()).digest(), (job, sex)))
        kept.update(cell for _, cell in sorted(ranked)[: unit.max_rows])
    return kept


def counted(rows: Sequence[Row], schema: Schema) -> Counter[tuple[int, int]]:
    table = BatchRows(source(table_of(rows)), schema, key=KEY).count([Marginal.of(schema, ["job", "sex"])])[0]
    return Counter({(i // 2, i % 2): int(n) for i, n in enumerate(table) if n})


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "E1", "E2", "E 3|"]),
        st.sampled_from(["1", "2"]),
        st.integers(0, 2),
        st.integers(0, 1),
    ),
    max_size=40,
)
UNITS = st.builds(Unit, st.just("id"), st.integers(1, 4), st.sampled_from([None, "year"]))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(ROWS, UNITS, st.sampled_from(["add-remove", "replace", "label"]), st.randoms(use_true_random=False))
def test_truncation_is_the_definition_in_any_order(
    rows: list[Row], unit: Unit, neighbours: Neighbours, shuffle
) -> None:  # type: ignore[no-untyped-def]
    schema = schema_of(neighbours, unit)
    expected = reference(rows, schema)
    assert counted(rows, schema) == expected
    again = list(rows)
    shuffle.shuffle(again)
    assert counted(again, schema) == expected
    assert counted(sorted(rows, key=str), schema) == expected


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(ROWS, UNITS, st.data())
def test_under_label_public_sizes_do_not_depend_on_private_columns(
    rows: list[Row], unit: Unit, data: st.DataObject
) -> None:
    schema = schema_of("label", unit, (Rule((("job", (1,)), ("sex", (0,)))),))
    other = [(who, year, job, data.draw(st.integers(0, 1))) for who, year, job, _ in rows]
    by_job = [Marginal.of(schema, ["job"])]
    one, two = (BatchRows(source(table_of(r)), schema, key=KEY) for r in (rows, other))
    np.testing.assert_array_equal(one.count_public(by_job)[0], two.count_public(by_job)[0])
    assert one.total() == two.total()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS, UNITS, st.sampled_from(["add-remove", "replace"]))
def test_one_unit_changes_at_most_its_own_max_rows(
    rows: list[Row], own: list[Row], unit: Unit, neighbours: Neighbours
) -> None:
    schema = schema_of(neighbours, unit)
    mine = [("new", "1", job, sex) for _, _, job, sex in own]
    before, after = counted(rows, schema), counted([*mine, *rows], schema)
    assert not before - after
    assert (after - before).total() == min(len(mine), unit.max_rows)


def read(table: pa.Table, cut: int = 1000):  # type: ignore[no-untyped-def]
    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(columns)).to_batches(cut)

    return batches


@pytest.mark.slow
def test_spilling_and_crowded_buckets_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    rows = [
        (None if u == 0 else f"E{u}", str(y), int(j), int(s))
        for u, y, j, s in zip(
            rng.integers(0, 3000, n),
            rng.integers(0, 3, n),
            rng.integers(0, 3, n),
            rng.integers(0, 2, n),
            strict=True,
        )
    ]
    schema = schema_of("add-remove", Unit("id", 3))
    table = table_of(rows)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    seen: list[tuple[int, list[str]]] = []
    plain = beyond_max_rows(read(table), schema, KEY)
    assert plain is not None

    def watched(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in read(table)(columns):
            yield batch
            for folder in tmp_path.iterdir():
                seen.append((folder.stat().st_mode & 0o777, [p.name for p in folder.iterdir()]))

    spilled = beyond_max_rows(watched, schema, KEY, memory=10_000, buckets=16)
    assert spilled is not None
    np.testing.assert_array_equal(plain.bits, spilled.bits)
    assert plain.rows == spilled.rows == n
    # while spilling there is a folder that only its owner may enter, and its files have no names
    assert seen
    assert {mode for mode, _ in seen} == {0o700}
    assert all(names == [] for _, names in seen)
    assert list(tmp_path.iterdir()) == []
    # and the number kept is right
    kept = plain.kept_mask(0, n)
    assert kept.sum() == sum(min(c, 3) for c in Counter(r[0] for r in rows if r[0] is not None).values())
    np.testing.assert_array_equal(np.concatenate([plain.kept_mask(i, 37) for i in range(0, n, 37)])[:n], kept)


def test_spilled_files_are_deleted_when_reading_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = table_of([("E1", "1", 0, 0)] * 5000)
    passes = []

    def failing(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        passes.append(columns)
        yield from read(table)(columns)
        if len(passes) == 2:
            assert list(tmp_path.iterdir())
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        beyond_max_rows(failing, schema_of("add-remove", Unit("id", 1)), KEY, memory=1000)
    assert len(passes) == 2
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_collected_when_no_unit_has_too_many() -> None:
    table = table_of([(f"E{i}", "1", 0, 0) for i in range(100)])
    passes: list[Sequence[str]] = []

    def counting(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        passes.append(tuple(columns))
        yield from read(table)(columns)

    assert beyond_max_rows(counting, schema_of("add-remove", Unit("id", 1)), KEY) is None
    assert passes == [("id",)]


def test_one_unit_however_its_value_is_typed() -> None:
    arrays = [
        pa.array(["17", "5", None]),
        pa.array([17, 5, None]),
        pa.array([17.0, 5.0, float("nan")]),
        pa.array([" 17 ", "5", ""]),
        pa.array(["17", "5", None]).dictionary_encode(),
        pa.array(["17", "5", None], pa.large_string()),
        pa.array([17, 5, None]).cast(pa.decimal128(20, 0)),
    ]
    for array in arrays:
        assert unit_text(array).to_pylist() == ["17", "5", ""]
    dates = pa.array([0, None], pa.date32())
    assert unit_text(dates).to_pylist() == ["1970-01-01", ""]


@pytest.mark.slow
def test_another_key_keeps_other_rows() -> None:
    schema = schema_of("add-remove", Unit("id", 1))
    rows: list[Row] = [(f"E{i % 40}", "1", i // 40 % 3, i // 120) for i in range(240)]
    cells = [Marginal.of(schema, ["job", "sex"])]
    found = {tuple(BatchRows(source(table_of(rows)), schema, key=bytes([k]) * 32).count(cells)[0]) for k in range(5)}
    assert len(found) > 1
    assert {sum(counts) for counts in found} == {40}
    drawn = {tuple(BatchRows(source(table_of(rows)), schema).count(cells)[0]) for _ in range(5)}
    assert len(drawn) > 1, "the key is drawn anew for every run"


def test_every_row_of_a_unit_is_equally_likely_to_count() -> None:
    # 3000 units with the same six distinct rows, one kept: each row is kept by 500 units on average.
    # Chi-square with 5 degrees of freedom exceeds 37.4 with probability 5e-7; fixed key.
    schema = schema_of("add-remove", Unit("id", 1))
    rows: list[Row] = [(f"E{i}", "1", job, sex) for i in range(3000) for job in range(3) for sex in range(2)]
    kept = BatchRows(source(table_of(rows)), schema, key=KEY).count([Marginal.of(schema, ["job", "sex"])])[0]
    assert kept.sum() == 3000
    assert float(((kept - 500) ** 2 / 500).sum()) < 37.4


def test_the_hashed_text_never_changes() -> None:
    # the text is a contract with the engines that compute it in SQL
    assert hashed_text(b"\x00\x01", "E1", None, (2, 0), 1) == "0001|E1|2,0|1"
    assert hashed_text(b"\x00\x01", "E1", "2011", (), 0) == "0001|E1|2011||0"


def test_totals_are_of_held_rows() -> None:
    rows: list[Row] = [("E1", "1", i % 3, 0) for i in range(9)]
    for unit, held in ((Unit("id", 2), 2), (Unit("id", 1, "job"), 3), (Unit("id", 9), 9)):
        assert BatchRows(source(table_of(rows)), schema_of("add-remove", unit), key=KEY).total() == held


# Rows without a unit -------------------------------------------------------------------------------------

ORPHANS = st.lists(st.tuples(st.none(), st.sampled_from("12"), st.integers(0, 2), st.integers(0, 1)), max_size=6)
RULE = Rule((("job", (1,)), ("sex", (0,))))


def everything(table: pa.Table, schema: Schema) -> list[object]:
    """All that can be counted."""
    rows = BatchRows(source(table), schema, key=KEY)
    cells = [Marginal.of(schema, names) for names in (["job"], ["sex"], ["job", "sex"], [])]
    block = rows.within("job", 1)
    found = [
        rows.count(cells),
        rows.count_public(cells[:1]),
        rows.count_sparse(cells[2]),
        block.count(cells[1:2]),
    ]
    distinct = [*rows.distinct_public(["job", "sex"]), *rows.distinct_public(["job"])]
    return [
        [array.tolist() for group in found for array in group],
        [d.tolist() if isinstance(d, np.ndarray) else {n: d[n].tolist() for n in d.names} for d in distinct],
        rows.total(),
        block.total(),
    ]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    ROWS,
    ORPHANS,
    UNITS,
    st.sampled_from(["add-remove", "replace", "label"]),
    st.randoms(use_true_random=False),
)
def test_a_row_without_a_unit_is_counted_nowhere(
    rows: list[Row],
    orphans: list[Row],
    unit: Unit,
    neighbours: Neighbours,
    shuffle,  # type: ignore[no-untyped-def]
) -> None:
    """Nobody owns it, so nobody's rows may move what is counted: neither a cell, nor a size, nor a number of units."""
    schema = schema_of(neighbours, unit, (RULE,))
    owned = [row for row in rows if row[0] is not None]
    mixed = [*rows, *orphans]
    shuffle.shuffle(mixed)
    assert everything(table_of(mixed), schema) == everything(table_of(owned), schema)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("most", [1, 2])
def test_no_change_to_a_row_without_a_unit_moves_a_count(neighbours: Neighbours, most: int) -> None:
    """Brute force: each such row removed, doubled, and given every other value."""
    schema = schema_of(neighbours, Unit("id", most), (RULE,))
    rows: list[Row] = [
        ("E1", "1", 0, 0),
        (None, "1", 1, 1),
        ("E2", "1", 2, 1),
        (None, "1", 1, 1),
        ("E1", "1", 2, 0),
    ]
    expected = everything(table_of(rows), schema)
    for i in (1, 3):
        before, after = rows[:i], rows[i + 1 :]
        others: list[Row] = [(None, "2", job, sex) for job in range(3) for sex in range(2)]
        for instead in ([], [rows[i]] * 2, *([other] for other in others)):
            assert everything(table_of([*before, *instead, *after]), schema) == expected


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["17", None, "", "  ", "5"]),
        pa.array([17, None, None, None, 5]),
        pa.array([17.0, None, float("nan"), float("nan"), 5.0]),
        pa.array(["17", None, "", " ", "5"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["17", "", None, "5"])),
        pa.array([b"17", None, b"", b" ", b"5"]),
        pa.array(["17", None, "", " ", "5"], pa.string_view()),
        pa.nulls(5),
    ],
    ids=lambda ids: str(ids.type),
)
def test_what_a_missing_unit_is(ids: pa.Array) -> None:
    schema = schema_of("replace", Unit("id", 1))
    table = pa.table({"id": ids, "job": ["j1"] * 5, "sex": ["F"] * 5})
    rows = BatchRows(source(table), schema, key=KEY)
    assert rows.total() == (0 if pa.types.is_null(ids.type) else 2)


def test_an_empty_field_of_a_csv_file_is_a_missing_unit(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,job,sex\n1,j1,F\n,j1,F\n"",j1,F\n" ",j1,F\n2,j1,F\n')
    rows = BatchRows(source(tmp_path / "t.csv"), schema_of("replace", Unit("id", 1)), key=KEY)
    assert rows.total() == 2


def test_a_missing_period_is_a_period_of_its_own() -> None:
    """The person is known; only the year is not."""
    table = pa.table(
        {"id": ["1", "1", "1", None], "year": ["a", None, None, None], "job": ["j1"] * 4, "sex": ["F"] * 4}
    )
    rows = BatchRows(source(table), schema_of("add-remove", Unit("id", 1, "year")), key=KEY)
    assert rows.total() == 2


@pytest.mark.slow
def test_many_rows_without_a_unit_in_many_batches() -> None:
    rng = np.random.default_rng(5)
    n = 20_003
    rows: list[Row] = [
        (None if u % 3 == 0 else f"E{u}", "1", int(j), int(s))
        for u, j, s in zip(rng.integers(0, 900, n), rng.integers(0, 3, n), rng.integers(0, 2, n), strict=True)
    ]
    table = table_of(rows)
    for most in (2, n):
        dropped = beyond_max_rows(read(table, 37), schema_of("add-remove", Unit("id", most)), KEY)
        assert dropped is not None
        kept = dropped.kept_mask(0, n)
        assert dropped.rows == n
        assert not kept[[row[0] is None for row in rows]].any()
        assert kept.sum() == sum(min(c, most) for c in Counter(r[0] for r in rows if r[0] is not None).values())


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 100])
def test_rows_without_a_unit_are_labelled_but_not_counted(most: int) -> None:
    """Every row of the file is released with a label; whatever such a row says, the model is the same."""
    schema = schema_of("label", Unit("id", most))
    owned: list[Row] = [(f"E{i}", "1", i % 3, i % 2) for i in range(200)]
    models = []
    for sex in (0, 1):
        table = table_of([*owned, *[(None, "1", 2, sex)] * 100])
        assert BatchRows(source(table), schema, key=KEY).total() == 200
        release = ds.synthesize(
            table, schema, ds.LogLinear(targets=["sex"]), budget=ds.PureDP(1), testing=True, noise_seed=7
        )
        assert release.tables[0].num_rows == 300
        assert release.tables[0]["sex"].null_count == 0
        assert Counter(release.tables[0]["job"].to_pylist()) == {"j0": 67, "j1": 67, "j2": 166}
        models.append(release.model.probabilities(table.select(["job"])))
    np.testing.assert_array_equal(*models)


@pytest.mark.parametrize("neighbours", ["add-remove", "label"])
def test_what_codes_do_not_tell_apart_is_not_chosen_by_the_order_of_the_file(neighbours: Neighbours) -> None:
    """Values as they stand: all rows of a unit have one code. Under label the public ones do not depend on private ones."""
    roles = {"age": "public", "note": "private"} if neighbours == "label" else {"age": "private", "note": "private"}
    anything = Categories.of(["anything"], other="anything")
    columns = tuple(Attribute(name, "string", anything, role) for name, role in roles.items())  # type: ignore[arg-type]
    schema = Schema("t", columns, Unit("id", 2), neighbours)
    table = pa.table({"id": np.repeat(np.arange(30), 4), "age": np.tile([10, 90, 10, 35], 30), "note": range(120)})

    def held(table: pa.Table, *names: str) -> list[tuple[object, ...]]:
        batches = BatchRows(source(table), schema, b"k" * 32).raw(names)
        return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    found = held(table, "id", "age", "note")
    assert len(found) == 60
    for seed in range(5):
        assert held(table.take(np.random.default_rng(seed).permutation(120)), "id", "age", "note") == found
    texts = pa.table({name: table[name].cast(pa.string()).dictionary_encode() for name in table.column_names})
    assert held(texts, "id", "age", "note") == sorted(tuple(map(str, row)) for row in found)
    other = table.set_column(2, "note", [np.random.default_rng(9).permutation(120)])
    same = held(other, "id", "age") == held(table, "id", "age")
    assert same == (neighbours == "label")
