"""Whole releases on the workers of a real cluster: names that are code, secrets in logs, workers that die."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_tables import run_page_commands

import dipsmith as ds
from dipsmith.cli.main import main
from dipsmith.codec.decode import released_schema
from dipsmith.codec.encode import Encoder
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import OutputError, SourceError, UsageError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import place_key
from dipsmith.schema import Attribute, Categories, Schema, Unit
from dipsmith.schema.bins import singles
from dipsmith.sources.spark import SparkTable, _table_name, on_workers, quote
from dipsmith.synthesis.cluster import Cluster, ClusterSets
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.verify import verify
from dipsmith.synthesis.workers import WritePartition

ROWS = 4000
EVIL = "x.y`\"'; DROP TABLE people; --%s$p0{v}"

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]


def schema_of(relation: str) -> Schema:
    return Schema(
        "people",
        (
            Attribute("age", "integer", singles("integer", 17, 40), "public"),
            Attribute("job", "string", Categories.of(["a", "b", "c"], other="c"), "public"),
            Attribute("sex", "string", Categories.of(["F", "M"], other="M")),
        ),
        Unit(),
        relation,  # type: ignore[arg-type]
    )


def people() -> pa.Table:
    rng = np.random.default_rng(8)
    job = rng.integers(0, 3, ROWS)
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "age": pa.array(rng.integers(17, 41, ROWS)),
            "job": pa.array([["a", "b", "c"][j] for j in job]),
            "sex": pa.array(np.where(rng.random(ROWS) < 0.2 + 0.3 * job, "F", "M").tolist()),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as four files, so that there are several tasks."""
    made = tmp_path_factory.mktemp("people") / "rows"
    made.mkdir()
    table = people()
    for i in range(4):
        pq.write_table(table.slice(i * ROWS // 4, ROWS // 4), made / f"{i}.parquet")
    return made


def test_files_that_spark_wrote_are_read(spark: Any, folder: Path, tmp_path: Path) -> None:
    """Checksums in the page headers, and a footer by another hand than Arrow's."""
    spark.session.read.parquet(str(folder)).coalesce(1).write.parquet(str(tmp_path / "rows"))
    (path,) = (tmp_path / "rows").glob("*.parquet")
    expected = pq.read_table(path)
    assert expected.num_rows == ROWS
    names = ["sex", "age", "job", "id"]
    found = [row for batch in ds.source(path).batches(names) for row in batch.to_pylist()]
    assert found == expected.select(names).to_pylist()


def test_the_commands_of_the_page_make_a_release(
    spark: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_of("replace").write(tmp_path / "people.yaml")
    monkeypatch.chdir(tmp_path)
    run_page_commands("spark", {"spark://cluster:7077": spark.url, "registry.people": str(folder)})
    (made,) = ds.Release.load(tmp_path / "release").tables
    assert made.num_rows == people().num_rows
    assert (tmp_path / "release" / "synthetic-1.parquet").is_dir(), "the workers wrote it"


@pytest.mark.figures
def test_a_cluster_makes_a_whole_release(
    spark: Any,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the command line: the workers count, label and write; the folder verifies and loads like any other."""
    schema_of("label").write(tmp_path / "people.yaml")
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(20))
    command = ["synthesize", spark.url, "--table", str(folder), "--schema", str(tmp_path / "people.yaml")]
    command += ["--method", "loglinear", "--set", "targets=sex", "--epsilon", "8"]
    command += ["--ledger", str(tmp_path / "budget.db"), "--out", str(tmp_path / "release")]
    monkeypatch.setattr(SparkTable, "batches", _collected)

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["dipsmith", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = "".join(capsys.readouterr())
        assert not stopped.value.code, said
        return said

    run(*command, "--sets", "2", "--each", "draw")
    assert not list(tmp_path.glob(".release*")), "nothing is left of what was tried and written on the way"
    assert "4,000 rows" in run("verify", str(tmp_path / "release"), "--ledger", str(tmp_path / "budget.db"))
    assert [run.charge for run in ledger.show("people").runs] == [8 * 10**12]
    release, given = ds.Release.load(tmp_path / "release"), people()
    assert len(list((tmp_path / "release" / "synthetic-2.parquet").iterdir())) == 1
    first, second = release.tables
    assert first.column_names == second.column_names == ["age", "job", "sex"], "no column that is not declared"
    sets = [Counter(zip(*(t[n].to_pylist() for n in ("age", "job")), strict=True)) for t in (first, second, given)]  # fmt: skip
    assert sets[0] == sets[1] == sets[2], "public columns are as they stand"
    assert first["age"].to_pylist() != given["age"].to_pylist(), "in an order that tells nothing"
    assert first["sex"].to_pylist() != second["sex"].to_pylist()
    # labels keep the association: shares of F among jobs are 0.2, 0.5, 0.8; five standard errors of 1300 rows are 0.07
    shares = [np.mean([s == "F" for s, j in zip(first["sex"].to_pylist(), first["job"].to_pylist(), strict=True) if j == job]) for job in "abc"]  # fmt: skip
    assert np.allclose(shares, [0.2, 0.5, 0.8], atol=0.12)
    report = (tmp_path / "release" / "report.html").read_text()
    assert "n = 4,000 synthetic rows" in report
    assert "open_dataset" in report
    # what cannot be is refused while nothing is spent
    elsewhere = Path("/proc/none")
    monkeypatch.setattr(
        "dipsmith.synthesis.cluster.WritePartition",
        lambda make, place, *others: WritePartition(make, elsewhere / place.name, *others),
    )
    monkeypatch.setattr(sys, "argv", ["dipsmith", *command[:-1], str(tmp_path / "elsewhere")])
    with pytest.raises(SystemExit):
        main()
    assert "storage that they and this machine share" in capsys.readouterr().err
    assert len(ledger.show("people").runs) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "budget.db",
        "budget.db.key",
        "people.yaml",
        "release",
    ]


def _collected(*_: object) -> NoReturn:
    raise AssertionError("rows are collected on the driver")


def test_a_cluster_labels_and_samples(spark: Any, folder: Path, tmp_path: Path) -> None:
    """A fitted model labels tables of any cluster and draws rows there."""
    table = ds.source(spark.url, table=str(folder))
    settings = {"budget": ds.PureDP(8), "testing": True, "noise_seed": 1}
    labeller = ds.synthesize(people(), schema_of("label"), ds.LogLinear(targets=["sex"]), seed=1, **settings).model
    out = labeller.label(table, seed=5, out=str(tmp_path / "labelled"))
    made = pq.read_table(out)
    assert made.column_names == ["id", "age", "job", "sex"]
    assert len(list(Path(out).glob("*.parquet"))) > 1, "each task writes its own file"
    rows, given = made.sort_by("id"), people()
    for name in ("id", "age", "job"):
        assert rows[name].to_pylist() == given[name].to_pylist(), "public columns are as they stand"
    with pytest.raises(OutputError, match="labelled' exists already"):
        labeller.label(table, out=out)
    with pytest.raises(UsageError, match=r"not whole rows; use label\(rows, out="):
        labeller.sample(10, on=table, out=str(tmp_path / "rows"))
    with pytest.raises(UsageError, match="say out="):
        labeller.label(table)
    whole = ds.synthesize(table, schema_of("replace"), ds.MST(), seed=4, **settings)
    local = ds.synthesize(people(), schema_of("replace"), ds.MST(), seed=4, **settings)
    for one, other in zip(whole.model.inner.state()[1].values(), local.model.inner.state()[1].values(), strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)
    with pytest.raises(UsageError, match="save it"):
        _ = whole.tables[0]
    assert "4,000" in whole._repr_html_(), "the card, as there are no rows yet"
    with pytest.raises(UsageError, match="write Parquet"):
        whole.save(tmp_path / "drawn", format="csv")
    drawn = ds.Release.load(whole.save(tmp_path / "drawn")).tables[0]
    verify(tmp_path / "drawn")
    assert drawn.num_rows == ROWS
    assert set(drawn["sex"].to_pylist()) == {"F", "M"}
    assert drawn.schema.field("age").type == pa.int64()
    again = pq.read_table(whole.model.sample(ROWS, seed=4, on=table, out=str(tmp_path / "again")))
    assert again.equals(drawn), "the same seed draws the same rows"
    with pytest.raises(UsageError, match="on= a Spark"):
        whole.model.sample(10, on=people(), out="x")


def test_names_and_values_that_are_code_are_inert_on_a_cluster(spark: Any, tmp_path: Path) -> None:
    """Column names, enum values and table names that are SQL, through a whole release on the workers."""
    spark.session.createDataFrame([(1,)], "a int").createOrReplaceTempView("people")
    schema = Schema(
        "evil",
        (
            Attribute(EVIL, "string", Categories.of([EVIL, "'; SELECT 1; --"], other="'; SELECT 1; --"), "public"),
            Attribute(f"{EVIL} sex", "string", Categories.of([f"F{EVIL}", "M`"], other="M`")),
        ),
        Unit(),
        "label",
    )  # fmt: skip
    rows = pa.table({EVIL: [EVIL, "b", EVIL] * 40, f"{EVIL} sex": [f"F{EVIL}", "M`", "M`"] * 40})
    (tmp_path / "evil").mkdir()
    pq.write_table(rows, tmp_path / "evil" / "0.parquet")
    spark.session.read.parquet(str(tmp_path / "evil")).createOrReplaceTempView("evil_rows")
    spark.session.sql(f"CREATE TEMPORARY VIEW {quote(EVIL)} AS SELECT * FROM evil_rows")
    found = ds.source(spark.url, table=quote(EVIL))
    release = ds.synthesize(
        found, schema, ds.LogLinear(targets=[f"{EVIL} sex"]), budget=ds.PureDP(50), testing=True, noise_seed=1
    )
    made = ds.Release.load(release.save(tmp_path / "release")).tables[0]
    assert made.column_names == rows.column_names
    assert Counter(made[EVIL].to_pylist()) == Counter(rows[EVIL].to_pylist())
    assert set(made[f"{EVIL} sex"].to_pylist()) <= {f"F{EVIL}", "M`"}
    verify(tmp_path / "release")
    for table in ("people; DROP TABLE people", "people`; DROP VIEW people; --"):
        with pytest.raises((SourceError, UsageError)):
            ds.source(spark.url, table=table)
    assert spark.session.table("people").count() == 1


def test_the_files_of_a_release_do_not_know_how_the_table_lay(spark: Any, folder: Path, tmp_path: Path) -> None:
    """Rows in another order, other partitions, other widths of numbers: the same bytes."""
    table = people()
    sorted_by_sex = table.sort_by("sex")
    narrow = sorted_by_sex.set_column(1, "age", sorted_by_sex["age"].cast(pa.int16()))
    (tmp_path / "other").mkdir()
    for i, start in enumerate(range(0, ROWS, 1500)):
        pq.write_table(narrow.slice(start, 1500), tmp_path / "other" / f"{i}.parquet")
    for neighbours, method in (("label", ds.LogLinear(targets=["sex"])), ("replace", ds.MST())):
        written = []
        for at in (folder, tmp_path / "other"):
            release = ds.synthesize(
                ds.source(spark.url, table=str(at)),
                schema_of(neighbours),
                method,
                budget=ds.PureDP(8),
                testing=True,
                noise_seed=1,
                seed=1,
            )
            place = release.save(tmp_path / f"{neighbours}-{at.name}")
            written.append({p.name: p.read_bytes() for p in (place / "synthetic-1.parquet").iterdir()})
            verify(place)
        assert written[0] == written[1]
        assert all(pq.read_metadata(io.BytesIO(data)).metadata is None for data in written[0].values())


def test_secrets_are_in_no_log_of_spark(spark: Any, folder: Path, tmp_path: Path) -> None:
    """The key by which rows of crowded units are chosen, and that by which labels are drawn."""
    key, seed = bytes(range(100, 132)), 6021023
    schema = replace(schema_of("label"), unit=Unit("id", 1))
    counted = rows_of(ds.source(spark.url, table=str(folder)), schema, key=key)
    assert counted.total() == ROWS
    codes, _ = Encoder(schema).encode(people())
    model = FittedModel("loglinear", ds.LogLinear(targets=["sex"]).fit(Curator.rehearse(codes, PureDP(5), seed=1)))
    Cluster(counted.grouping.source).label_rows(model, seed, str(tmp_path / "labelled"))  # type: ignore[attr-defined]
    sets = ClusterSets(((model, seed),), counted.grouping.source, ("age", "job", "sex"), ROWS, order=key)  # type: ignore[attr-defined]
    (tmp_path / "sets").mkdir()
    sets.save(Exit(tmp_path / "sets"), released_schema(schema), "parquet", escape=False)
    logged = b"".join(p.read_bytes() for p in spark.folder.rglob("*") if p.suffix not in (".parquet", ".jar") and p.is_file())  # fmt: skip
    assert b"MapInArrow" in logged, "plans are logged"
    placing = place_key(key, 1).to_bytes(33, "big")[-32:]
    for secret in (key, placing, hashlib.sha256(f"seed {seed}".encode()).digest()):
        for spelled in (secret, secret.hex().encode(), base64.b64encode(secret)[:40]):
            assert spelled not in logged


def test_a_worker_that_dies_changes_nothing(spark: Any, folder: Path, tmp_path: Path) -> None:
    """Kill a worker with its executor while tasks count, another while they write: the same release, charged once."""

    def slowly(batches: Any) -> Any:  # inside, so that it is sent along: the workers do not have this file
        import time

        for batch in batches:
            time.sleep(1.5)
            yield batch

    schema = schema_of("label")
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    slow = SparkTable(
        on_workers(spark.session.read.parquet(str(folder)), slowly, "id bigint, age bigint, job string, sex string")
    )
    settings = {"budget": ds.PureDP(1), "testing": True, "noise_seed": 3, "seed": 3}
    with dying(spark.workers[0]):
        release = ds.synthesize(slow, schema, ds.LogLinear(targets=["sex"]), ledger=ledger, **settings)
    local = ds.synthesize(people(), schema, ds.LogLinear(targets=["sex"]), **settings)
    for one, other in zip(release.model.inner.state()[1].values(), local.model.inner.state()[1].values(), strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other, "the same model as without a cluster")
    spark.add_worker()
    with dying(spark.workers[1]):
        release.save(tmp_path / "release")
    release.tables.save(Exit(tmp_path), release.schema, "parquet", escape=False)
    disturbed, undisturbed = (pq.read_table(at / "synthetic-1.parquet") for at in (tmp_path / "release", tmp_path))
    assert disturbed.equals(undisturbed), "the same rows, in the same order"
    verify(tmp_path / "release", ledger)
    assert len(ledger.show("people").runs) == 1


@contextmanager
def dying(victim: Any) -> Iterator[None]:
    """A worker that dies while something runs."""
    killed: list[float] = []

    def kill() -> None:
        time.sleep(2.0)
        os.killpg(victim.pid, signal.SIGKILL)
        killed.append(time.monotonic())

    reaper = threading.Thread(target=kill)
    reaper.start()
    yield
    assert killed, "the worker died while the cluster worked"
    reaper.join()
    assert victim.wait(10) != 0


def test_names_of_tables_are_quoted_part_by_part() -> None:
    assert _table_name("hr.personnel; DROP TABLE x") == "`hr`.`personnel; DROP TABLE x`"
    assert _table_name("`a.b`.`c``d`") == "`a.b`.`c``d`"
    for bad in ("", "a..b", "a`b", "."):
        with pytest.raises(UsageError, match="table="):
            _table_name(bad)


def test_a_packed_model_is_the_model() -> None:
    schema = schema_of("label")
    codes, _ = Encoder(schema).encode(people())
    model = FittedModel("loglinear", ds.LogLinear(targets=["sex"]).fit(Curator.rehearse(codes, PureDP(5), seed=1)))
    back = FittedModel.from_bytes(model.to_bytes())
    assert back.label(people(), seed=3).equals(model.label(people(), seed=3))
