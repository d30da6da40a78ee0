"""Checking a release against its own card, and the card against the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dipsmith.codec.parse import is_text
from dipsmith.errors import DamageError
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.schema import Attribute, Bins, Categories, Schema
from dipsmith.schema.households import members_of
from dipsmith.synthesis.households import check_households
from dipsmith.synthesis.measurement_file import FILE, read_measurements
from dipsmith.synthesis.passport.passport import check_passport
from dipsmith.synthesis.release import (
    Release,
    files_of,
    read_card,
    read_models,
    read_schema,
    read_set,
    set_file,
    set_parts,
)
from dipsmith.synthesis.writing import damage, digest

ADVICE = "it may tell private values: withdraw it, see SECURITY.md, and make it anew with this version"

_ARROW = b"ARROW:schema"
_SPARK = b"org.apache.spark."
_SPARKS_WRITER = "parquet-mr"
_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"


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
        raise damage(f"'{wrong}' {state}")
    for name, expected in sorted(card.files.items()):
        if not (path / name).is_file():  # a pipe, whose reader would wait forever
            raise damage(f"'{name}' is not a file")
        if digest(path / name) != expected:
            raise damage(f"'{name}' was changed after the release: its SHA-256 is not the card's")
    models = read_models(path)
    schema = read_schema(path)
    if read_measurements(path, schema):
        _check_traces(path / FILE, schema)
    for i in range(1, card.sets + 1):
        _check_traces(set_file(path, i), schema)
        rows = 0
        for table in set_parts(set_file(path, i), schema):
            rows += table.num_rows
            _check_names(table.column_names, schema.columns)
            for attribute in schema:
                if card.neighbours != "label" or attribute.role != "public":
                    _check_column(table.column(attribute.name), attribute)
        if schema.members is not None:
            _check_members(path, i, schema)
        if rows != card.rows:
            raise DamageError(f"set {i} has {rows:,} rows, the card says {card.rows:,}")
    check_passport(path, card, schema)
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.verify(cards=[] if card.ledger_head is None else [card.ledger_head])
        if digest(path / "card.json") not in book.issued(card.request):
            raise damage(f"the ledger has no release '{card.request}' with this card")
    missing = next((model.missing for model in models if model.missing), "")
    files = len(card.files) + 1
    return Verified(path, files, card.sets, card.rows, book is not None, card.guarantee, missing)


def reopen_release(earlier: AlreadyReleased) -> Release:
    """The release that a request bought, found where the ledger says; a request id draws once.

    What lies in a folder may have been replaced since: DamageError unless it is that release byte by byte. Where nothing lies
    there the exception itself is raised, whose message says where it was.
    """
    folder = Path(earlier.path)
    if not folder.is_dir():
        raise earlier
    card = folder / "card.json"
    if not card.is_file() or digest(card) != earlier.digest:
        raise DamageError(
            f"request '{earlier.request_id}' was released to '{folder}', but what lies there is not that release (its "
            "card is not the ledger's); put it back, or use a new request id, which is a new charge"
        )
    verify(folder)
    return Release.load(folder)


def _check_traces(place: Path, schema: Schema) -> None:
    """Refuse a file that tells more than its rows do."""
    if place.suffix != ".parquet":
        return
    for file in sorted(place.glob("*.parquet")) if place.is_dir() else [place]:
        try:
            if trace := find_trace(file, schema):
                raise DamageError(trace)
        except (OSError, pa.ArrowException):
            raise damage(f"'{file.name}' cannot be read") from None


def _check_members(folder: Path, i: int, schema: Schema) -> None:
    """The members of households as the schema describes them, and both tables as they belong together."""
    people = members_of(schema).schema
    _check_traces(set_file(folder, i, people.name), people)
    tables = read_set(folder, i, schema)
    _check_names(tables[people.name].column_names, people.columns)
    for attribute in people:
        _check_column(tables[people.name].column(attribute.name), attribute)
    check_households(tables[schema.name], tables[people.name], schema)


def _check_names(found: Sequence[str], expected: Sequence[str]) -> None:
    """Every column of the schema once, and no other: what is not described must not be released."""
    for name in (*expected, *found):
        if name not in found:
            raise damage(f"column '{name}' is missing")
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
            lawful, outside = _is_within(column, domain), "bounds"
    except (pa.ArrowException, TypeError, ValueError):
        raise damage(f"column '{attribute.name}' is of another type than its schema's") from None
    if lawful is False:
        raise damage(f"column '{attribute.name}' has a value outside its {outside}")


def _is_within(column: pa.ChunkedArray, domain: Bins) -> bool:
    if domain.scale == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    elif domain.scale == "datetime":
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return False  # the least and largest of the others would hide it
    low, high = pc.min_max(column).as_py().values()
    return low is None or bool(domain.minimum <= float(low) and float(high) <= domain.maximum)


def find_trace(file: Path, schema: Schema) -> str | None:
    """What a Parquet file of a release tells about the file that was read, as versions before 0.1.1 could; None if nothing.

    Two kinds of traces: metadata that was copied from the table that was read, and dictionaries of text or bytes in the order in
    which the private file first used their entries. A dictionary that a Parquet writer built from the released rows stands in the
    order of their first appearance in those rows, and one that comes from the schema in the schema's; any other order comes
    from somewhere else. What the exit writes has neither trace.
    """
    with pq.ParquetFile(file) as opened:
        found = _foreign_metadata(opened)
        kinds = {f.name: f.type for f in opened.schema_arrow}
    texts = [n for n, k in kinds.items() if is_text(k.value_type if pa.types.is_dictionary(k) else k)]
    if found is not None:
        return f"'{file.name}' carries metadata ({found}) of the table that it was made from; {ADVICE}"
    for name in texts:
        if not _has_lawful_dictionary(file, name, schema):
            return (
                f"column '{name}' of '{file.name}' has its distinct values in an order that is neither the schema's nor that of "
                f"the released rows: the order of the confidential file; {ADVICE}"
            )
    return None


def _foreign_metadata(file: pq.ParquetFile) -> str | None:
    """The first key that its writer, Arrow or Spark, does not need to describe columns."""
    stored = file.metadata.metadata or {}
    own = _SPARK if file.metadata.created_by.startswith(_SPARKS_WRITER) else _ARROW
    foreign = [key for key in stored if key != _ARROW and not key.startswith(own)]
    foreign += [key for key in file.schema_arrow.metadata or {} if key not in stored]
    foreign += [key for field in file.schema_arrow for key in field.metadata or {}]
    if _ROW_METADATA in stored:
        foreign += [_ROW_METADATA] if _has_comments(stored[_ROW_METADATA]) else []
    return foreign[0].decode("utf-8", "replace")[:60] if foreign else None


def _has_comments(described: bytes) -> bool:
    """Whether Spark's description of the columns says more than names and types."""
    try:
        fields = json.loads(described)["fields"]
        return any(field.get("metadata") for field in fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True


def _has_lawful_dictionary(path: Path, name: str, schema: Schema) -> bool:
    domain = schema[name].domain if name in schema.names else None
    labels = [] if domain is None or isinstance(domain, Bins) else list(domain.labels)
    with pq.ParquetFile(path, read_dictionary=[name]) as file:
        for group in range(file.num_row_groups):
            for chunk in file.read_row_group(group, [name]).column(0).chunks:
                if pa.types.is_dictionary(chunk.type) and not (
                    _is_by_first_use(chunk) or chunk.dictionary.to_pylist() == labels
                ):
                    return False
    return True


def _is_by_first_use(chunk: pa.DictionaryArray) -> bool:
    """Whether the entries stand in the order in which the rows use them, and all of them are used."""
    used = chunk.indices.drop_null().to_numpy()
    found, first = np.unique(used, return_index=True)
    return len(found) == len(chunk.dictionary) and bool(np.all(np.diff(first) > 0))
