"""Labelling and sampling on the workers of a real cluster, and a worker that dies in the middle of a job."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.counting import BatchRows
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SourceError, UsageError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import singles
from dipsmith.sources.spark import SparkTable, _table_name, on_workers
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.workers import derived, label_on_workers

ROWS = 4000

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


def test_a_cluster_labels_and_samples(spark: Any, folder: Path, tmp_path: Path) -> None:
    """What a steward does on a cluster: fit by its counts, label where the rows are, draw rows there."""
    table = source = ds.source(spark.url, table=str(folder))
    schema = schema_of("label")
    # the fit asks the cluster; only the rows given with onto are labelled here
    release = ds.synthesize(
        source,
        schema,
        ds.LogLinear(targets=["sex"]),
        budget=ds.PureDP(8),
        onto=people().slice(0, 10).select(["age", "job"]),
        testing=True,
        noise_seed=1,
    )
    local = ds.synthesize(
        people(),
        schema,
        ds.LogLinear(targets=["sex"]),
        budget=ds.PureDP(8),
        testing=True,
        noise_seed=1,
        seed=1,
    )
    for one, other in zip(
        release.model.inner.state()[1].values(), local.model.inner.state()[1].values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)

    out = release.model.label(table, seed=5, out=str(tmp_path / "labelled"))
    made = pq.read_table(out)
    assert made.column_names == ["id", "age", "job", "sex"]
    assert len(list(Path(out).glob("*.parquet"))) > 1, "each task writes its own file"
    rows, given = made.sort_by("id"), people()
    for name in ("id", "age", "job"):
        assert rows[name].to_pylist() == given[name].to_pylist(), "public columns are as they stand"
    # labels keep the association: shares of F among jobs are 0.2, 0.5, 0.8; five standard errors of 1300 rows are 0.07
    shares = [np.mean([s == "F" for s, j in zip(rows["sex"].to_pylist(), rows["job"].to_pylist(), strict=True) if j == job]) for job in "abc"]  # fmt: skip
    assert np.allclose(shares, [0.2, 0.5, 0.8], atol=0.12)
    # the same secret gives the same labels, as when a task is run again; another one gives others
    again = pq.read_table(release.model.label(table, seed=5, out=str(tmp_path / "again")))
    other = pq.read_table(
        label_on_workers(release.model, table, str(tmp_path / "other"), shuffle=True)  # type: ignore[arg-type]
    )
    assert again.sort_by("id").equals(rows)
    assert other.sort_by("id")["sex"].to_pylist() != rows["sex"].to_pylist()
    assert other["id"].to_pylist() != sorted(other["id"].to_pylist())
    with pytest.raises(SourceError, match="Spark"):
        release.model.label(table, out=out)
    with pytest.raises(UsageError, match="say out="):
        release.model.label(table)

    whole = ds.synthesize(
        source, schema_of("replace"), ds.MST(), budget=ds.ZCDP("0.5"), testing=True, noise_seed=2
    )
    drawn = pq.read_table(whole.model.sample(3001, seed=1, on=table, out=str(tmp_path / "drawn")))
    assert drawn.num_rows == 3001
    assert set(drawn["sex"].to_pylist()) == {"F", "M"}
    assert drawn.schema.field("age").type == pa.int64()
    columns = np.array([drawn["age"].to_numpy(), [ord(j) for j in drawn["job"].to_pylist()]])
    assert len(np.unique(columns.reshape(2, -1)[:, :1000], axis=1).T) > 50, (
        "partitions do not repeat one another"
    )
    with pytest.raises(UsageError, match="on= a Spark"):
        whole.model.sample(10, on=people(), out="x")


def test_a_worker_that_dies_changes_nothing(spark: Any, folder: Path, tmp_path: Path) -> None:
    """Kill a worker with its executor while tasks run: the same release, charged once."""

    def slowly(batches: Any) -> Any:  # inside, so that it is sent along: the workers do not have this file
        import time

        for batch in batches:
            time.sleep(1.5)
            yield batch

    schema = schema_of("replace")
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    slow = SparkTable(
        on_workers(
            spark.session.read.parquet(str(folder)), slowly, "id bigint, age bigint, job string, sex string"
        )
    )
    victim = spark.workers[0]

    killed: list[float] = []

    def kill() -> None:
        time.sleep(1.5)
        os.killpg(victim.pid, signal.SIGKILL)
        killed.append(time.monotonic())

    reaper = threading.Thread(target=kill)
    reaper.start()
    settings = {"budget": ds.PureDP(1), "testing": True, "noise_seed": 3, "seed": 3}
    release = ds.synthesize(slow, schema, ds.MST(), ledger=ledger, **settings)
    assert killed, "the worker died while the cluster counted"
    reaper.join()
    assert victim.wait(10) != 0
    release.save(tmp_path / "release")
    assert len(ledger.show("people").runs) == 1
    local = ds.synthesize(people(), schema, ds.MST(), **settings)
    assert release.tables[0].equals(local.tables[0]), "the same release as without a cluster"
    cells = [Marginal.of(schema, ["age", "sex"]), Marginal.of(schema, ["job"])]
    counted, expected = (
        rows_of(ds.source(spark.url, table=str(folder)), schema),
        BatchRows(ds.source(people()), schema),
    )
    for one, other in zip(counted.count(cells), expected.count(cells), strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_of_tables_are_quoted_part_by_part() -> None:
    assert _table_name("hr.personnel; DROP TABLE x") == "`hr`.`personnel; DROP TABLE x`"
    assert _table_name("`a.b`.`c``d`") == "`a.b`.`c``d`"
    for bad in ("", "a..b", "a`b", "."):
        with pytest.raises(UsageError, match="table="):
            _table_name(bad)


def test_seeds_of_partitions_differ() -> None:
    seeds = {derived(b"s", p, b) for p in range(50) for b in range(50)}
    assert len(seeds) == 2500
    assert max(seeds) >= 1 << 120


def test_a_packed_model_is_the_model() -> None:
    schema = schema_of("label")
    codes, _ = Encoder(schema).encode(people())
    model = FittedModel(
        "loglinear", ds.LogLinear(targets=["sex"]).fit(Curator.rehearse(codes, PureDP(5), seed=1))
    )
    back = FittedModel.unpacked(model.packed())
    assert back.label(people(), seed=3).equals(model.label(people(), seed=3))
