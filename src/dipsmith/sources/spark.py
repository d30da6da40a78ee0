"""Tables of a Spark cluster: rows are worked on where they lie, by functions that are sent to the workers.

`SparkTable` fulfils the contract of a source. `mapped` sends a function to the workers, batch of Arrow
rows by batch: counting sends the encoder and the tally, labelling sends a fitted model. The workers need
Python with dipsmith; nothing is pickled but the small frozen values that the functions are.

A task that Spark runs again (a worker died) reads the same rows and does the same to them, because
whatever a function draws follows from the run's secret and the number of the partition: noise lives in
the model alone, which was made before.

``spark://host:port`` is the address of a standalone master; a `pyspark` frame from any cluster may be given
instead. How one logs in to a cluster is Spark's affair (``spark-defaults.conf``, tickets): no address that
is given here holds a password, and no message of Spark is repeated, as it might quote a value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from dipsmith.errors import MissingExtraError, SourceError, UsageError
from dipsmith.sources import kinds
from dipsmith.sources.fingerprint import of_address
from dipsmith.sources.header import check_header, refuse_columns
from dipsmith.sources.layout import make_plain
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BLOCK = 1 << 16
"""Rows that a function is given at once."""

_FRAME = "Spark frame"
"""What a frame is called that was not opened by an address."""
_REFUSED = ("array", "map", "struct", "interval", "variant", "geometry", "geography")
_HINT = "hr.personnel, or the path of a Parquet folder; write a name with a dot in backticks"


@dataclass(frozen=True, eq=False)
class SparkTable:
    """A frame of a Spark session as a source."""

    frame: Any = field(repr=False)
    name: str = _FRAME
    counter: ClassVar = "dipsmith.counting.spark:SparkGrouping"
    maker: ClassVar = "dipsmith.synthesis.cluster:Cluster"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.frame.columns)

    def check(self, required: Sequence[str]) -> None:
        """Header and column types; what Spark can read has no other syntax."""
        check_header(self.name, self.columns, required)
        types = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        odd = [name for name in required if types[name].startswith(_REFUSED) or "interval" in types[name]]
        refuse_columns(self.name, odd, "lists, structures or durations", "give a frame")

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns, one partition at a time: for tables that fit one machine's patience."""
        self.check(columns)
        with failures(self.name):
            packed = self.map_partitions(columns, _pack, "rows binary")
            for row in packed.toLocalIterator():
                with pa.ipc.open_stream(row[0]) as reader:
                    for batch in reader:
                        yield make_plain(batch)
        if progress is not None:
            progress(1.0)

    def count(self) -> int:
        """How many rows there are, counted by the cluster.

        Privacy
        -------
        Exact: only where the number of rows is public.
        """
        with failures(self.name):
            return int(self.frame.count())

    def select(self, columns: Sequence[str]) -> Any:
        """The frame of some columns."""
        return self.frame.select(*[self.frame[quote(name)] for name in columns])

    def map_partitions(self, columns: Sequence[str], function: Function, made: str) -> Any:
        """What a function makes of some columns of each partition, on the workers; see `on_workers`."""
        return on_workers(self.select(columns), function, made)

    def describe(self) -> str:
        """What this is."""
        return self.name

    def fingerprint(self) -> str | None:
        """What tells this table from others; nothing does for a frame that was given as such."""
        return None if self.name == _FRAME else of_address(self.name)


def on_workers(frame: Any, function: Function, made: str) -> Any:
    """What a function makes of each partition of a frame, on the workers; computed when it is written or asked for.

    The function takes the rows of a partition in blocks of `BLOCK` rows (the last has fewer) and gives batches, of
    columns that `made` declares as Spark spells them: ``"tag int, n bigint"``.
    """
    with _no_word_of_pandas():
        # pyspark takes a dot or a backtick in a column's name for syntax, so columns travel by number
        numbered = frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])
        return numbered.mapInArrow(_NameColumns(tuple(frame.columns), function), made)


@contextmanager
def _no_word_of_pandas() -> Iterator[None]:
    """Arrow batches never become pandas frames, but pyspark looks at the version of pandas all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


@dataclass(frozen=True)
class _NameColumns:
    """Sent to the workers: gives the columns their names back, and the rows block by block."""

    names: tuple[str, ...]
    function: Function

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(pa.RecordBatch.from_arrays(block.columns, names=self.names) for block in _blocks(batches))


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, `BLOCK` at a time, however Spark cuts its batches."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        while rows + batch.num_rows >= BLOCK:
            fits = BLOCK - rows
            yield pa.concat_batches([*held, batch.slice(0, fits)])
            held, rows, batch = [], 0, batch.slice(fits)
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
    if rows:
        yield pa.concat_batches(held)


def spark_table(url: str, table: str) -> SparkTable:
    """A table of a standalone cluster's catalogue, or a folder of Parquet files that its workers see."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        retell(MissingExtraError.of("Reading Spark tables", "spark"))
    if "@" in url:
        raise UsageError("a spark:// address holds no user and no password; leave them out")
    called = f"{url}, table {table}"
    with failures(called), _no_word_of_pandas():
        ours = SparkSession.getActiveSession() is None
        builder = SparkSession.builder.master(url).appName("dipsmith")
        builder = builder.config("spark.executorEnv.PYTHONSAFEPATH", "1")  # workers import from no data folder
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        if ours and session.conf.get("spark.log.level", None) is None:
            session.sparkContext.setLogLevel("ERROR")  # a table that is not there is told in a line of ours
        if "/" in table:
            return SparkTable(session.read.parquet(table), called)
        return SparkTable(session.table(_table_name(table)), called)


@contextmanager
def failures(called: str) -> Iterator[None]:
    """Tell Spark's failures in our words; its own quote code and perhaps values."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except AnalysisException:
        retell(SourceError(f"{called}: Spark finds no such table or folder; check table="))
    except (Py4JError, PySparkException, ConnectionError) as error:
        remedy = "see its log, check that the workers have dipsmith and reach the data, and run again"
        retell(SourceError(f"{called}: Spark could not do the work ({type(error).__name__}); {remedy}"))


def _table_name(given: str) -> str:
    return ".".join(map(quote, kinds.parts_of(given, "`", _HINT)))


def quote(name: str) -> str:
    """A name that is nothing but a name, as Spark quotes it."""
    return kinds.quote(name, "`")


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one binary value, so that Spark hands it over untouched."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})
