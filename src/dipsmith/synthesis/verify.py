"""Checking a release against its own card, and the card against the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import DamageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Attribute, Bins, Categories, Schema
from dipsmith.synthesis.release import files_of, read_card, read_models, read_schema, set_file, set_parts
from dipsmith.synthesis.traces import find_trace
from dipsmith.synthesis.writing import digest


@dataclass(frozen=True)
class Verified:
    """What was checked; `missing` says which package a model needs that is not installed here."""

    folder: Path
    files: int
    sets: int
    rows: int
    ledger: bool
    guarantee: str
    missing: str = ""

    def __str__(self) -> str:
        against = "and the ledger " if self.ledger else ""
        unread = f"; but its model was not read: {self.missing}" if self.missing else ""
        sets = "1 set" if self.sets == 1 else f"{self.sets} sets"
        return f"'{self.folder}' is whole: {self.files} files, {sets} of {self.rows:,} rows agree with the card {against}({self.guarantee}){unread}"


def verify(folder: str | Path, ledger: Ledger | str | Path | None = None) -> Verified:
    """Check every file's digest, every value against the released schema, and the ledger's chain.

    A Parquet file that carries traces of the file that was read fails too, even where all digests agree.

    Raises `DamageError` that names what does not agree.
    """
    path = Path(folder)
    card = read_card(path)
    present = set(files_of(path)) - {"card.json"}
    listed = set(card.files)
    if present != listed:
        wrong = sorted(present ^ listed)[0]
        state = "is missing" if wrong in listed else "is not on the card"
        raise DamageError(f"'{wrong}' {state}; get the release again")
    for name, expected in sorted(card.files.items()):
        if not (path / name).is_file():  # a pipe, whose reader would wait forever
            raise DamageError(f"'{name}' is not a file; get the release again")
        if digest(path / name) != expected:
            raise DamageError(
                f"'{name}' was changed after the release: its SHA-256 is not the card's; get the release again"
            )
    models = read_models(path)
    schema = read_schema(path)
    for i in range(1, card.sets + 1):
        _check_traces(set_file(path, i), schema)
        rows = 0
        for table in set_parts(set_file(path, i), schema):
            rows += table.num_rows
            _check_names(table.column_names, schema.names)
            for attribute in schema:
                if card.neighbours != "label" or attribute.role != "public":
                    _check_column(table.column(attribute.name), attribute)
        if rows != card.rows:
            raise DamageError(f"set {i} has {rows:,} rows, the card says {card.rows:,}")
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.verify(cards=[] if card.ledger_head is None else [card.ledger_head])
        if digest(path / "card.json") not in book.issued(card.request):
            raise DamageError(
                f"the ledger has no release '{card.request}' with this card; get the release again"
            )
    missing = next((model.missing for model in models if model.missing), "")
    return Verified(
        path, len(card.files) + 1, card.sets, card.rows, book is not None, card.guarantee, missing
    )


def _check_traces(place: Path, schema: Schema) -> None:
    """Refuse a set that tells more than its rows do."""
    if place.suffix != ".parquet":
        return
    for file in sorted(place.glob("*.parquet")) if place.is_dir() else [place]:
        try:
            found = find_trace(file, schema)
        except (OSError, pa.ArrowException):
            raise DamageError(f"'{file.name}' cannot be read; get the release again") from None
        if found is not None:
            raise DamageError(found)


def _check_names(found: Sequence[str], expected: Sequence[str]) -> None:
    """Every column of the schema once, and no other: what is not described must not be released."""
    for name in (*expected, *found):
        if name not in found:
            raise DamageError(f"column '{name}' is missing; get the release again")
        if name not in expected or list(found).count(name) > 1:
            raise DamageError(f"column '{name}' is not described by the schema, or there twice")


def _check_column(column: pa.ChunkedArray, attribute: Attribute) -> None:
    if column.null_count and not attribute.domain.missing:
        raise DamageError(f"column '{attribute.name}' has missing values, which its schema does not allow")
    domain = attribute.domain
    try:
        if isinstance(domain, Categories):
            text = pc.drop_null(column.cast(pa.string()))
            if attribute.type == "boolean":
                text = pc.utf8_lower(text)
            lawful, outside = pc.all(pc.is_in(text, pa.array(domain.labels, pa.string()))).as_py(), "list"
        else:
            low, high = _bounds(column, domain)
            lawful, outside = low is None or high is None or _within(low, high, domain), "bounds"
    except (pa.ArrowException, TypeError, ValueError):
        raise DamageError(
            f"column '{attribute.name}' is of another type than its schema's; get the release again"
        ) from None
    if lawful is False:
        raise DamageError(
            f"column '{attribute.name}' has a value outside its {outside}; get the release again"
        )


def _within(low: float, high: float, domain: Bins) -> bool:
    return bool(domain.minimum <= low and high <= domain.maximum)


def _bounds(column: pa.ChunkedArray, domain: Bins) -> tuple[float | None, float | None]:
    if domain.scale == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    elif domain.scale == "datetime":
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        # The least and largest of the others would hide it.
        return nan, nan
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return (None, None) if low is None or high is None else (float(low), float(high))
