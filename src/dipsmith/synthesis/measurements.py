"""The noisy measurements of a release, for analysts: all numbers that were bought, as a frame or table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dipsmith.errors import UsageError
from dipsmith.synthesis.measurement_file import FILE, arrow_table, read_measurements
from dipsmith.synthesis.release import Release, read_card, read_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dipsmith.estimation.measured_table import MeasuredTable


@dataclass(frozen=True, eq=False)
class Measurements:
    """Every noisy answer of a release, in the order in which it was bought."""

    tables: tuple[MeasuredTable, ...]

    def to_arrow(self) -> pa.Table:
        """One row per noisy number, as in ``measurements.parquet``."""
        return arrow_table(self.tables)

    def to_pandas(self) -> Any:
        """The same as a frame."""
        return self.to_arrow().to_pandas()

    def over(self, *columns: str) -> tuple[MeasuredTable, ...]:
        """The tables that read all of the named columns."""
        return tuple(t for t in self.tables if set(columns) <= set(t.attributes))

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[MeasuredTable]:
        return iter(self.tables)

    @overload
    def __getitem__(self, place: int) -> MeasuredTable: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[MeasuredTable, ...]: ...
    def __getitem__(self, place: int | slice) -> MeasuredTable | tuple[MeasuredTable, ...]:
        return self.tables[place]

    def __str__(self) -> str:
        numbers = sum(len(t.values) for t in self.tables)
        head = f"{len(self.tables)} noisy tables, {numbers:,} numbers"
        return "\n".join([head, *(f"  {i}. {table}" for i, table in enumerate(self.tables, start=1))])

    __repr__ = __str__


def measurements(release: Release | str | Path) -> Measurements:
    """All noisy answers behind a release, or behind the release in a folder.

    They are differentially private already: whatever is made of them costs nothing. Values are as they were drawn, not
    clipped and not made to agree, and their noise is known exactly, so that estimates from them have honest standard errors.

    Parameters
    ----------
    release
        A release, or its folder.
    """
    if isinstance(release, str | Path):
        folder = Path(release)
        read_card(folder)
        found, where = read_measurements(folder, read_schema(folder)), f"'{folder}'"
    else:
        found, where = release.measurements, "this release"
    if not found:
        raise UsageError(
            f"{where} has no {FILE}: it was made by an earlier version, or by a method that measures nothing; make it anew"
        )
    return Measurements(found)
