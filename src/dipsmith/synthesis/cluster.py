"""The sets of a release that the workers of a cluster make: no row of theirs is collected on this machine.

They are made when the release is saved, in the same hidden folder as everything else of the release, which
becomes the release only when it is whole: a cluster that gives up leaves nothing behind, and the release can be
saved again. Each set is a folder of Parquet files that the workers write through the exit. This machine reads the bytes of
the files (for their digests), their footers, the counts that the workers make for the report, and a few synthetic rows.

Under `label` rows are first moved to a place that their own public values decide under a key, sorted there, and only
then labelled: which row lay in which partition of the private table, and where, is lost before anything is drawn.

The folder must be on storage that the workers and this machine share, and the workers' account must be able to
write there: `Cluster.require_output` tries both before anything is spent.
"""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.dataset as parquet_dataset
import pyarrow.parquet as pq

from dipsmith.codec.decode import released_type
from dipsmith.codec.encode import Encoder
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import OutputError, SourceError, UnsupportedError, UsageError
from dipsmith.privacy.randomness import place_key
from dipsmith.schema import Attribute, Marginal, Schema, Unit
from dipsmith.sources.spark import BLOCK, SparkTable, failures, on_workers, quote
from dipsmith.synthesis import workers
from dipsmith.synthesis.canonical import PublicRows
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.fitted import FittedModel, drawn_table, labelled_table, predictors
from dipsmith.synthesis.report import MOST_ROWS, Glance
from dipsmith.synthesis.sets import Recipe, Sets
from dipsmith.synthesis.workers import DrawPartition, LabelPartition, PlaceRows, WritePartition

_FILE = 1 << 19
"""Rows of a file, about, where the number of files is free."""
_TRIED = 8
"""Tasks by which a folder is tried."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """The workers of a cluster, which make rows in place of a table of theirs."""

    on: SparkTable

    def require_output(self, folder: Path, format: str) -> None:  # noqa: A002
        """Refuse another format than Parquet, and a folder that the workers cannot write to."""
        _require_parquet(format)
        if _rows_seen(self.on, folder) != _TRIED:
            raise OutputError(
                f"'{folder}': what the workers of the cluster write there is not seen here; choose an --out on storage that "
                "they and this machine share and that their account can write to"
            )

    def require_room(self, schema: Schema, sets: int, rows: int | None) -> None:
        """A cluster has room; but rows that belong together would have to come together first."""
        if schema.linked is not None:
            raise UnsupportedError(
                f"rows of one {schema.linked} are made together, which needs them in this machine's memory, not on a cluster; "
                "give the table as a file, or leave members, link: public, order and fixed: true out of the schema"
            )

    def draw(self, recipe: Recipe, rows: int) -> ClusterSets:
        """Whole rows, drawn by the workers."""
        return ClusterSets(recipe.models_and_seeds, self.on, recipe.schema.names, rows)

    def label(self, recipe: Recipe) -> ClusterSets:
        """The rows of the table, labelled by the workers; another, public table's keep their order."""
        key = recipe.stream.words64(4).tobytes() if self.on is recipe.private else None
        return ClusterSets(recipe.models_and_seeds, self.on, recipe.labelled_columns, self.on.count(), key)

    def label_rows(self, model: FittedModel, seed: int | None, out: str | None) -> str:
        """Have the workers label the rows, in their order, and write a folder that does not exist yet."""
        if out is None:
            raise UsageError("the workers of a cluster write what they label: say out=, a folder all see")
        labeller = model.labeller()
        self.require_room(labeller.schema, 1, None)
        self.on.check(predictors(labeller))
        with failures(self.on.describe()):
            given = self.on.select([n for n in self.on.columns if n not in labeller.targets])
            made = _fields(given) + [(name, _spark_type(labeller.schema[name])) for name in labeller.targets]
            label = LabelPartition(workers.broadcast(model, given), workers.drawing_secret(seed))
            _write(on_workers(given, label, _ddl(made)), out)
        return out

    def draw_rows(self, model: FittedModel, rows: int | None, seed: int | None, out: str) -> str:
        """Have the workers draw rows and write a folder; with a seed the same, on a cluster of any size."""
        if rows is None:
            raise UsageError("on a cluster say how many rows to draw: n=…")
        if model.schema.neighbours == "label":
            raise UsageError(
                f"a model of {model.method} under neighbours 'label' draws labels for given public rows, not whole rows; "
                "use label(rows, out=…) instead"
            )
        with failures(self.on.describe()):
            made = _ddl([(a.name, _spark_type(a)) for a in model.schema])
            work = DrawPartition(workers.broadcast(model, self.on.frame), workers.drawing_secret(seed), rows)
            _write(on_workers(_blocks(self.on, rows), work, made), out)
        return out


@dataclass(frozen=True, eq=False)
class ClusterSets(Sets):
    """Sets that workers make in place of a table of theirs.

    `models_and_seeds` has for every set its model, and a seed if it is to be made again; `on` is the table whose rows are labelled, or in
    whose place rows are drawn. `columns` are released in this order; `rows` is a public or a noisy number. `order` is the key
    of the order that labelled rows are put in; None keeps their order.
    """

    models_and_seeds: tuple[tuple[FittedModel, int | None], ...]
    on: SparkTable
    columns: tuple[str, ...]
    rows: int
    order: bytes | None = None
    in_memory: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.models_and_seeds)

    def __getitem__(self, i: object) -> NoReturn:
        raise UsageError(
            "the workers make these rows when the release is saved: save it, and read them with Release.load(folder)"
        )

    def __iter__(self) -> Iterator[pa.Table]:
        return self[0]

    def save(self, out: Exit, schema: Schema, format: str, *, escape: bool) -> Glance:  # noqa: A002
        """Have the workers write every set, and check that it is whole and visible here.

        Privacy
        -------
        Post-processing of noisy models; labelling reads public columns only.
        """
        _require_parquet(format)
        folder = out.folder
        _open_to_group(folder)
        for i, (model, seed) in enumerate(self.models_and_seeds, start=1):
            place = folder / f"synthetic-{i}.parquet"
            _open_to_group(place)
            with failures(self.on.describe()):
                if model.schema.neighbours == "label":
                    written = self._label(model, place, seed, i)
                else:
                    draw = DrawPartition(
                        workers.broadcast(model, self.on.frame), workers.drawing_secret(seed), self.rows
                    )
                    write = WritePartition(draw, place.absolute(), self.columns, model.schema)
                    written = on_workers(_blocks(self.on, self.rows), write, "rows bigint")
                written.collect()
            found = _tidy(place)
            if not any(place.iterdir()):
                Exit(place).table("00000.parquet", self._no_rows(model))
            if found != self.rows:
                raise OutputError(
                    f"'{place.name}': the workers wrote {found:,} rows that can be seen here, expected {self.rows:,}; "
                    "save to storage that they and this machine share, and check that the table did not change"
                )
        return self._glance(folder, schema)

    def _label(self, model: FittedModel, place: Path, seed: int | None, number: int) -> Any:
        labeller = model.labeller()
        names = [n for n in self.on.columns if n in self.columns and n not in labeller.targets]
        rows = self.on.select(names)
        if self.order is not None:
            key = place_key(self.order, number).to_bytes(33, "big")[-32:]
            placed = on_workers(rows, PlaceRows(model.schema, key), _ddl([*_fields(rows), (workers.ORDER, "bigint")]))
            placed = placed.repartition(-(-self.rows // _FILE) or 1, workers.ORDER)
            # Rows that tie in every column are the same row.
            placed = placed.sortWithinPartitions(workers.ORDER, *[placed[quote(name)] for name in names])
            rows = placed.select(*[placed[quote(name)] for name in names])
        label = LabelPartition(workers.broadcast(model, self.on.frame), workers.drawing_secret(seed))
        return on_workers(rows, WritePartition(label, place.absolute(), self.columns, model.schema), "rows bigint")

    def _no_rows(self, model: FittedModel) -> pa.Table:
        """A set without rows, which no partition wrote."""
        if model.schema.neighbours != "label":
            return drawn_table(model.inner.sample(0, 0), 0)
        names = [n for n in model.schema.public if n in self.columns]
        public = PublicRows.of([], model.schema, names)
        table: pa.Table = labelled_table(model.labeller(), public.table(np.arange(0)), 0)
        return table.select(self.columns)

    def _glance(self, folder: Path, schema: Schema) -> Glance:
        """What the report tells of the first set: counted by the workers, a few rows read here."""
        place = folder / "synthetic-1.parquet"
        # Every row counts here: also one whose public columns break a rule.
        whole = replace(schema, rules=(), unit=Unit())
        with failures(self.on.describe()):
            # Spark would take these characters of a path for a pattern
            address = re.sub(r"([\\{}\[\]*?])", r"\\\1", f"file://{place.absolute()}")
            written = SparkTable(self.on.frame.sparkSession.read.parquet(address), "written set")
        cells = [Marginal.of(whole, (name,)) for name in schema.names]
        counts = rows_of(written, whole).count(cells)
        files = sorted(map(str, place.glob("*.parquet")))
        some = Encoder(schema).encode(parquet_dataset.dataset(files).head(MOST_ROWS))[0]
        return Glance(self.rows, dict(zip(schema.names, counts, strict=True)), some, several_files=True)


def _require_parquet(format: str) -> None:  # noqa: A002
    if format != "parquet":
        raise UsageError("the workers of a cluster write Parquet; leave the format out")


def _rows_seen(on: SparkTable, target: Path) -> int:
    """Rows that are seen here of those that the workers write beside a folder, as a trial."""
    parent = target.absolute().parent
    tried = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tried", dir=parent))
    try:
        _open_to_group(tried)
        place = tried / "rows"
        _open_to_group(place)
        some = on.frame.sparkSession.range(0, _TRIED, 1, _TRIED)
        with failures(on.describe()):
            on_workers(some, WritePartition(iter, place.absolute(), ("id",)), "rows bigint").collect()
        return _tidy(place)
    except (SourceError, OSError, pa.ArrowException):
        return 0
    finally:
        shutil.rmtree(tried, ignore_errors=True)


def _open_to_group(folder: Path) -> None:
    """Make a folder, if it is not there; workers may have an account of their own, so let its group in where the one around does."""
    folder.mkdir(exist_ok=True)
    around = stat.S_IMODE(folder.parent.stat().st_mode)
    folder.chmod(0o700 | (around & 0o2070))


def _tidy(place: Path) -> int:
    """Keep whole files alone, numbered without gaps in their order; return the number of rows in them."""
    rows = 0
    for file in place.glob(".*.partial"):  # of a worker that died
        file.unlink()
    for i, file in enumerate(sorted(place.glob("*.parquet"))):
        rows += pq.read_metadata(file).num_rows
        file.rename(place / f"{i:05d}.parquet")
    return rows


def _blocks(on: SparkTable, rows: int) -> Any:
    """A frame of the numbers of the blocks that hold so many rows, in partitions of `_FILE` rows."""
    return on.frame.sparkSession.range(0, -(-rows // BLOCK), 1, -(-rows // _FILE) or 1)


def _write(frame: Any, out: str) -> None:
    """Have the workers write a folder that does not exist."""
    from pyspark.errors import AnalysisException

    try:
        frame.write.mode("errorifexists").parquet(out)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise OutputError(f"'{out}' exists already; choose another out= or move it away") from None


def _spark_type(attribute: Attribute) -> str:
    """The type of a decoded column."""
    kind = released_type(attribute)
    return {"integer": "bigint", "number": "double", "datetime": "timestamp_ntz"}.get(kind, kind)


def _fields(frame: Any) -> list[tuple[str, str]]:
    """The columns of a frame with their types, as Spark spells them."""
    return [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]


def _ddl(fields: Sequence[tuple[str, str]]) -> str:
    """Columns with their types as a declaration."""
    return ", ".join(f"{quote(name)} {kind}" for name, kind in fields)
