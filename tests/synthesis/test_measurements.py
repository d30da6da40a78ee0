"""The file of noisy measurements: what it holds, that it comes back, and that it says nothing else."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from assurance.cases import registered_cases
from assurance.forms import form_schema, form_table
from assurance.pairs import PRIVATE
from dipsmith.codec.encode import Encoder
from dipsmith.errors import DamageError, UsageError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import NoisyAnswer
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Bins, Categories, Codes, Marginal, Schema, Unit
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.measurement_file import arrow_table, read_measurements, write_measurements
from dipsmith.synthesis.verify import verify
from dipsmith.tuning.private_selection import Selected
from dipsmith.tuning.scores import LogLoss

CASES = registered_cases(PRIVATE)
BUDGET = ds.PureDP(2)


def named(case):
    return f"{case.name}/{case.relation}"


def make(case, seed=3, rows=60, **options):
    return ds.synthesize(
        form_table(generator(seed), rows + 1), form_schema(case.relation), case.method, budget=BUDGET, testing=True,
        noise_seed=seed, seed=1, **options,
    )  # fmt: skip


def same(one: MeasuredTable, other: MeasuredTable) -> bool:
    facts = ("name", "attributes", "kind", "shape", "block", "variance", "law", "budget", "in_group", "single",
             "threshold", "weight", "within")  # fmt: skip
    arrays = ("cells", "values", "noisy", "derived")
    totals = [t.totals if t.totals is not None else np.array([-1]) for t in (one, other)]
    texts = [{n: c.texts() for n, c in t.conditions.items()} for t in (one, other)]
    return (
        all(getattr(one, f) == getattr(other, f) for f in facts)
        and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)
        and np.array_equal(*totals)
        and texts[0] == texts[1]
    )


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_answer_of_a_run_is_in_its_release_and_comes_back(case, tmp_path, monkeypatch):
    asked = []
    true = Curator._remember
    monkeypatch.setattr(Curator, "_remember", lambda c, *a: asked.append(true(c, *a)) or asked[-1])
    release = make(case)
    assert [len(t.values) for t in release.measurements]
    assert sum(int(t.values.sum()) for t in release.measurements) == sum(int(m.values.sum()) for m in asked)
    assert [t.variance for t in release.measurements] == [m.variance for m in asked]
    write_measurements(Exit(tmp_path), release.measurements)
    back = read_measurements(tmp_path, release.schema)
    assert len(back) == len(release.measurements) > 0
    assert all(same(a, b) for a, b in zip(release.measurements, back, strict=True))


@pytest.mark.slow
def test_a_saved_release_holds_them(tmp_path):
    release = make(next(c for c in CASES if c.name == "forest" and c.relation == "label"))
    folder = release.save(tmp_path / "r")
    verify(folder)
    back = ds.Release.load(folder)
    assert all(same(a, b) for a, b in zip(release.measurements, back.measurements, strict=True))
    held = pq.read_table(folder / "measurements.parquet")
    for told in (ds.measurements(folder), ds.measurements(back), ds.measurements(release)):
        assert told.to_arrow().equals(held)
    assert len(told.to_pandas()) == held.num_rows
    assert [t.name for t in told.over("sex", "race")] == [t.name for t in release.measurements]
    assert f"{len(told)} noisy tables" in str(told)


def counted(one: MeasuredTable, codes: Codes) -> list[int]:
    """How many rows meet the labels of every told cell."""
    found = []
    words = {n: c.texts() for n, c in one.conditions.items()}
    for i in range(len(one.cells)):
        inside = np.ones(len(codes), dtype=bool)
        for n in words:
            word, labels = words[n][i], codes.schema[n].labels
            if word is not None:
                first, _, last = word.partition(" … ")
                low, high = labels.index(first), labels.index(last or first)
                inside &= (codes[n] >= low) & (codes[n] <= high)
        found.append(int(inside.sum()))
    return found


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in ("aim", "loglinear")], ids=named)
def test_labels_name_the_rows_that_a_cell_counts(case):
    """With next to no noise, the labels of a cell pick the rows that it counted."""
    schema, table = form_schema(case.relation), form_table(generator(4), 61)
    budget = ds.PureDP(1_000_000)
    release = ds.synthesize(table, schema, case.method, budget=budget, testing=True, noise_seed=4, seed=1)
    codes, _ = Encoder(schema, schema.names).encode(table.select(list(schema.names)).combine_chunks().to_batches()[0])
    for one in release.measurements:
        assert one.variance < 1e-20
        assert counted(one, codes) == one.values.tolist()


def test_blocks_and_ranges_are_named_by_their_labels():
    """Strata, nodes of a tree that ask different columns, intervals of values."""
    numbers = Attribute("n", "integer", Bins(tuple(range(301)), "integer", tuple(map(str, range(300))), 0, 299))
    schema = Schema("ranges", (numbers,), Unit(), "add-remove")
    rows = {"n": generator(1).integers(0, 300, 400)}
    table = pa.table(rows)
    release = ds.synthesize(table, schema, ds.Universal(), budget=ds.PureDP(1_000_000), testing=True, noise_seed=1)
    assert any(t.kind == "regions" for t in release.measurements)
    for one in release.measurements:
        assert counted(one, Codes.of(schema, rows)) == one.values.tolist()
    schema, table = form_schema("label"), form_table(generator(4), 61)
    method = ds.Forest(targets=["sex"], strata="grade")
    release = ds.synthesize(table, schema, method, budget=ds.PureDP(1_000_000), testing=True, noise_seed=4)
    codes, _ = Encoder(schema, schema.names).encode(table.select(list(schema.names)).combine_chunks().to_batches()[0])
    assert {dict(t.within)["grade"] for t in release.measurements} == set(schema["grade"].labels)
    for one in release.measurements:
        assert counted(one, codes) == one.values.tolist()


@pytest.mark.slow
def test_a_reader_without_dipsmith_finds_the_counts(tmp_path):
    """As the page says: pandas alone gives the table with its labels, and derived numbers add up to public totals."""
    method = ds.Forest(targets=["sex"], n_b=10)
    table, schema = form_table(generator(3), 61), form_schema("label")
    release = ds.synthesize(table, schema, method, budget=BUDGET, testing=True, noise_seed=3, seed=1)
    folder = release.save(tmp_path / "r")
    m = pd.read_parquet(folder / "measurements.parquet")
    two = m[m["single"]]
    assert len(two) > 0
    sums = two.groupby(["table", "group"]).agg(value=("value", "sum"), total=("group_total", "first"))
    assert (sums["value"] == sums["total"]).all()
    assert two["derived"].sum() * 2 == (two["variance"] > 0).sum()
    first = m[m["table"] == 1].dropna(axis="columns", how="all")
    names = json.loads(first["attributes"].iloc[0])
    assert set(first.filter(like="by_").columns) == {f"by_{n}" for n in names}
    page = (folder / "measurements.md").read_text("utf-8")
    for column in m.columns:
        assert column.startswith("by_") or f"`{column}`" in page
    code = page.split("```python\n")[1].split("```")[0]
    exec(code.replace('"measurements.parquet"', repr(str(folder / "measurements.parquet"))), {})


@pytest.mark.slow
def test_a_release_without_the_file_loads_and_verifies(tmp_path):
    """As those of earlier versions are."""
    folder = make(CASES[0]).save(tmp_path / "r")
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    card = json.loads((old / "card.json").read_text("utf-8"))
    for name in ("measurements.parquet", "measurements.md"):
        (old / name).unlink()
        del card["files"][name]
    (old / "card.json").write_text(json.dumps(card), "utf-8")
    verify(old)
    assert ds.Release.load(old).measurements == ()
    with pytest.raises(UsageError, match="earlier version"):
        ds.measurements(old)


@pytest.mark.slow
def test_a_changed_file_is_found(tmp_path):
    folder = make(CASES[0]).save(tmp_path / "r")
    file = folder / "measurements.parquet"
    held = pq.read_table(file)
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DamageError, match=r"measurements\.parquet"):
        ds.Release.load(folder)
    pq.write_table(held.drop_columns(["value"]), file)
    with pytest.raises(DamageError, match=r"measurements\.parquet"):
        ds.Release.load(folder)
    with pytest.raises(DamageError, match="SHA-256"):
        verify(folder)


def test_of_several_runs_only_the_winner_s_answers_are_told():
    """Private selection: every other run would have to be paid for."""
    case = next(c for c in CASES if c.name == "loglinear")
    chosen = Selected([case.method], LogLoss(), runs=6.0)
    release = ds.synthesize(
        form_table(generator(3), 61), form_schema("label"), chosen, budget=BUDGET, testing=True, noise_seed=3, seed=1
    )
    alone = make(case)
    score = [t for t in release.measurements if t.name.startswith("log loss")]
    assert len(score) == 1
    assert len(release.measurements) == len(alone.measurements) + 1
    assert sum(t.budget.units for t in release.measurements) <= BUDGET.units // 3


def test_each_set_that_is_sanitised_by_itself_has_its_block(tmp_path):
    case = next(c for c in CASES if c.name == "mst" and c.relation == "replace")
    release = make(case, sets=2, each="split")
    assert {t.block.split("/")[0] for t in release.measurements} == {"set 1", "set 2"}


def wide_schema(n=2000):
    a = Attribute("a", "string", Categories.of([f"a{i}" for i in range(n)]))
    b = Attribute("b", "integer", Bins(tuple(range(n + 1)), "integer", tuple(map(str, range(n))), 0, n - 1))
    return Schema("wide", (a, b), Unit(), "add-remove")


def test_of_a_large_table_the_kept_cells_are_told(tmp_path):
    schema = wide_schema()
    codes = Codes.of(schema, {"a": np.full(500, 7), "b": np.full(500, 11)})
    curator = Curator.rehearse(codes, ds.PureDP(1), seed=1)
    (m,) = curator.measure([Marginal.of(schema, ["a", "b"])], [ds.PureDP(1)], keep_above=30)
    one = MeasuredTable.of(NoisyAnswer(m), schema)
    assert one.threshold == 30
    assert {n: c.texts() for n, c in one.conditions.items()} == {"a": ["a7"], "b": ["11"]}
    with pytest.raises(UsageError, match="kept"):
        one.array  # noqa: B018
    (nothing,) = Curator.rehearse(codes, ds.PureDP(1), seed=1).measure(
        [Marginal.of(schema, ["a", "b"])], [ds.PureDP(1)], keep_above=3000
    )
    empty = MeasuredTable.of(NoisyAnswer(nothing), schema)
    write_measurements(Exit(tmp_path), [empty, one])
    back = read_measurements(tmp_path, schema)
    assert [len(t.values) for t in back] == [0, 1]
    assert all(same(a, b) for a, b in zip([empty, one], back, strict=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_sums_of_planned_analyses_tell_no_order_of_rows():
    """Groups of derived columns are numbered by what the public rows say, not by where they stand."""
    table, schema = form_table(generator(6), 121), form_schema("label")
    told = []
    for order in (np.arange(121), np.arange(121)[::-1], generator(7).permutation(121)):
        release = ds.synthesize(
            table.take(order), schema, ds.Forest(targets=["sex"]), budget=BUDGET, testing=True, noise_seed=3, seed=1,
            analyses=["age ~ sex | grade + town"],
        )  # fmt: skip
        told.append(arrow_table(release.measurements))
    assert "weighted sums" in told[0]["kind"].to_pylist()
    assert told[0].equals(told[1])
    assert told[0].equals(told[2])
