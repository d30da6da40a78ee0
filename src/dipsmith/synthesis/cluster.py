"""The sets of a release that the workers of a cluster make: no row of theirs is collected on this machine.

They are made when the release is saved, in the same hidden folder as everything else of the release, which
becomes the release only when it is whole: a cluster that gives up leaves nothing behind, and the release can be
saved again. Each set is a folder of Parquet files. This machine reads the bytes of the files (for their digests),
their footers, the counts that the workers make for the report, and a few synthetic rows.

The folder must be on storage that the workers and this machine share, and the workers' account must be able to
write there: `require_shared` tries both before anything is spent.
"""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.codec.encode import Encoder
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import OutputError, SourceError, UsageError
from dipsmith.schema import Marginal, Schema, Unit
from dipsmith.sources.spark import SparkTable, failures
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.report import MOST_ROWS, Glance
from dipsmith.synthesis.workers import label_on_workers, sample_on_workers

_TRIED = 8
"""Tasks by which a folder is tried."""


@dataclass(frozen=True, eq=False)
class ClusterSets(Sequence[pa.Table]):
    """Sets that workers make in place of a table of theirs.

    Attributes
    ----------
    made
        For every set its model, and a seed if it is to be made again.
    on
        The table whose rows are labelled, or in whose place rows are drawn.
    columns
        What is released, in this order.
    rows
        How many rows each set has; a public or a noisy number.
    shuffled
        Whether labelled rows are put in an order that tells nothing.
    """

    made: tuple[tuple[FittedModel, int | None], ...]
    on: SparkTable
    columns: tuple[str, ...]
    rows: int
    shuffled: bool

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, i: object) -> NoReturn:
        raise UsageError(
            "the workers make these rows when the release is saved: save it, and read them with Release.load(folder)"
        )

    def __iter__(self) -> Iterator[pa.Table]:
        return self[0]

    def write(self, folder: Path) -> None:
        """Have the workers write every set, and check that it is whole and visible here.

        Privacy
        -------
        Post-processing of noisy models; labelling reads public columns only.
        """
        _open_to_group(folder)
        for i, (model, seed) in enumerate(self.made, start=1):
            place = folder / f"synthetic-{i}.parquet"
            if model.schema.neighbours == "label":
                label_on_workers(
                    model,
                    self.on,
                    _address(place),
                    seed,
                    shuffle=self.shuffled,
                    columns=self.columns,
                    expected=self.rows,
                )
            else:
                sample_on_workers(model, self.on, self.rows, _address(place), seed)
            found = _tidied(place)
            if found != self.rows:
                raise OutputError(
                    f"'{place.name}': the workers wrote {found:,} rows that can be seen here, expected {self.rows:,}; "
                    "save to storage that they and this machine share, and check that the table did not change"
                )

    def glance(self, folder: Path, schema: Schema) -> Glance:
        """What the report tells of the first set: counted by the workers, a few rows read here."""
        place = folder / "synthetic-1.parquet"
        # Every row counts here: also one whose public columns break a rule.
        whole = replace(schema, rules=(), unit=Unit())
        with failures(self.on.describe()):
            written = SparkTable(
                self.on.frame.sparkSession.read.parquet(_unglobbed(_address(place))), "written set"
            )
        cells = [Marginal.of(whole, (name,)) for name in schema.names]
        counts = rows_of(written, whole).count(cells)
        some = Encoder(schema).encode(_first(place, MOST_ROWS))[0]
        return Glance(self.rows, dict(zip(schema.names, counts, strict=True)), some, several_files=True)


def require_shared(on: SparkTable, target: Path) -> None:
    """Refuse a folder that the workers cannot write to or that this machine does not see, while nothing is spent."""
    parent = target.absolute().parent
    tried = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tried", dir=parent))
    try:
        _open_to_group(tried)
        place = tried / "rows"
        session = on.frame.sparkSession
        with failures(on.describe()):
            session.range(0, _TRIED, 1, _TRIED).write.parquet(_address(place))
        seen = _tidied(place)
    except (SourceError, OSError, pa.ArrowException):
        seen = 0
    finally:
        shutil.rmtree(tried, ignore_errors=True)
    if seen != _TRIED:
        raise OutputError(
            f"'{target}': what the workers of the cluster write there is not seen here; choose an --out on storage that "
            "they and this machine share and that their account can write to"
        )


def _address(place: Path) -> str:
    return f"file://{place.absolute()}"


def _unglobbed(address: str) -> str:
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", address)


def _open_to_group(folder: Path) -> None:
    """Workers may have an account of their own: let its group in where the folder around does."""
    around = stat.S_IMODE(folder.parent.stat().st_mode)
    folder.chmod(0o700 | (around & 0o2070))


def _tidied(place: Path) -> int:
    """Keep the Parquet files alone, by short names in their order; return the number of rows in them."""
    rows = 0
    files = sorted(place.glob("part-*.parquet"))
    for file in set(place.iterdir()) - set(files):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    for i, file in enumerate(files):
        rows += pq.read_metadata(file).num_rows
        file.rename(place / f"{i:05d}.parquet")
    return rows


def _first(place: Path, rows: int) -> pa.Table:
    parts: list[pa.Table] = []
    for file in sorted(place.glob("*.parquet")):
        with pq.ParquetFile(file) as held:
            parts.append(held.schema_arrow.empty_table())
            for batch in held.iter_batches(min(rows, 1 << 16)):
                parts.append(pa.Table.from_batches([batch.slice(0, rows)]))
                rows -= batch.num_rows
                if rows <= 0:
                    return pa.concat_tables(parts)
    return pa.concat_tables(parts)
