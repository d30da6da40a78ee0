"""Checking a release against its own card, and the card against the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import DamageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Attribute, Bins, Categories, Schema
from dipsmith.synthesis.release import files_of, read_card, read_models, set_file, set_parts
from dipsmith.synthesis.writing import digest


@dataclass(frozen=True)
class Verified:
    """What was checked."""

    folder: Path
    files: int
    sets: int
    rows: int
    ledger: bool
    guarantee: str

    def __str__(self) -> str:
        against = "and the ledger " if self.ledger else ""
        sets = "1 set" if self.sets == 1 else f"{self.sets} sets"
        return f"'{self.folder}' is whole: {self.files} files, {sets} of {self.rows:,} rows agree with the card {against}({self.guarantee})"


def verify(folder: str | Path, ledger: Ledger | str | Path | None = None) -> Verified:
    """Check every file's digest, every value against the released schema, and the ledger's chain.

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
        if digest(path / name) != expected:
            raise DamageError(
                f"'{name}' was changed after the release: its SHA-256 is not the card's; get the release again"
            )
    read_models(path)
    schema = Schema.read(path / "schema.yaml")
    for i in range(1, card.sets + 1):
        rows = 0
        for table in set_parts(set_file(path, i), schema):
            rows += table.num_rows
            for attribute in schema:
                _check_column(
                    table, attribute, verbatim=card.neighbours == "label" and attribute.role == "public"
                )
        if rows != card.rows:
            raise DamageError(f"set {i} has {rows:,} rows, the card says {card.rows:,}")
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.verify(cards=[] if card.ledger_head is None else [card.ledger_head])
        if digest(path / "card.json") not in book.issued(card.request):
            raise DamageError(
                f"the ledger has no release '{card.request}' with this card; get the release again"
            )
    return Verified(path, len(card.files) + 1, card.sets, card.rows, book is not None, card.guarantee)


def _check_column(table: pa.Table, attribute: Attribute, *, verbatim: bool) -> None:
    if attribute.name not in table.column_names:
        raise DamageError(f"column '{attribute.name}' is missing; get the release again")
    if verbatim:
        return
    column = table.column(attribute.name)
    if column.null_count and not attribute.domain.missing:
        raise DamageError(f"column '{attribute.name}' has missing values, which its schema does not allow")
    domain = attribute.domain
    if isinstance(domain, Categories):
        text = pc.drop_null(column.cast(pa.string()))
        if attribute.type == "boolean":
            text = pc.utf8_lower(text)
        if not pc.all(pc.is_in(text, pa.array(domain.labels, pa.string()))).as_py() and len(text):
            raise DamageError(
                f"column '{attribute.name}' has a value outside its list; get the release again"
            )
        return
    low, high = _bounds(column, domain)
    if low is not None and high is not None and (low < domain.minimum or high > domain.maximum):
        raise DamageError(f"column '{attribute.name}' has a value outside its bounds; get the release again")


def _bounds(column: pa.ChunkedArray, domain: Bins) -> tuple[float | None, float | None]:
    if domain.scale == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    elif domain.scale == "datetime":
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return (None, None) if low is None or high is None else (float(low), float(high))
