"""A fitted model as users hold it: it encodes any frame or source before asking the method's model."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.decode import decode
from dipsmith.codec.encode import Encoder
from dipsmith.errors import RegistryError, SchemaError, UsageError
from dipsmith.estimation.answers import Answer
from dipsmith.methods.catalogue import model_of_kind, models_of_method, package_of_kind
from dipsmith.methods.method import Labeller, Model
from dipsmith.privacy.randomness import generator, named_seed, place_key
from dipsmith.registry import is_plain_name
from dipsmith.schema import Codes, Schema
from dipsmith.sources import source
from dipsmith.synthesis.canonical import blocks
from dipsmith.synthesis.exit import RATIO, Exit, pack, plain_schema
from dipsmith.synthesis.writing import damage

FORMAT = 1

ROOM = 64 << 20
"""Arrays may unpack to so many bytes, and to `RATIO` times their packed size: noisy numbers hardly compress."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A method's model together with the schema that rows are encoded by."""

    method: str
    inner: Model

    def __repr__(self) -> str:
        return f"model of {self.method} over {', '.join(self.schema.names)}"

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.inner.schema

    @property
    def missing(self) -> str:
        """Which package the model needs that is not installed; empty when it is there."""
        return self.inner.reason if isinstance(self.inner, AbsentModel) else ""

    @property
    def rows(self) -> int:
        """The model's own, noisy, number of rows; refused for models that only label."""
        if self.inner.rows is None:
            raise UsageError(f"a model of {self.method} labels given rows and has no number of its own")
        return self.inner.rows

    def sample(self, n: int | None = None, seed: int | None = None, *, on: Any = None, out: str | None = None) -> Any:
        """Draw n rows as codes, the model's own number when omitted; a seed draws them again.

        With `on`, a Spark frame or source whose rows are not read, its cluster draws and writes the Parquet folder `out`,
        whose name is returned; n must be said.
        """
        if n is not None and n < 0:
            raise UsageError(f"n is {n}, expected 0 or more")
        if on is None and out is None:
            return self.inner.sample(n, seed)
        if on is None or out is None:
            raise UsageError("drawing on a cluster needs both on= a Spark frame or source and out= a folder")
        from dipsmith.synthesis.sets import maker_of

        return maker_of(source(on)).draw_rows(self, n, seed, out)

    def label(self, rows: Any, seed: int | None = None, *, out: str | None = None) -> Any:
        """Add the synthetic private columns to any frame or source that has the public ones, in its order.

        Rows of a Spark frame or source are labelled by its workers, which write the folder `out`
        (Parquet); its name is returned instead of a table, and nothing is collected here.
        """
        from dipsmith.synthesis.sets import maker_of

        self.labeller()
        return maker_of(source(rows)).label_rows(self, seed, out)

    def probabilities(self, rows: Any) -> NDArray[np.float64]:
        """The probability of every label for every row: rows × labels, in the schema's order."""
        labeller = self.labeller()
        if isinstance(rows, Codes):
            return labeller.probabilities(rows)
        columns = predictors(labeller)
        empty = pa.record_batch({name: pa.array([], pa.string()) for name in columns})
        batches = list(source(rows).batches(columns)) or [empty]
        return np.concatenate([labeller.probabilities(public_codes(labeller, batch)) for batch in batches])

    def range_query(self, attribute: str, low: float, high: float, rows: int | None = None) -> Answer:
        """How many rows have low ≤ value < high, with its standard error."""
        return self._find_verb("range_query")(attribute, low, high, rows)

    def count(self, where: Mapping[str, str], rows: int | None = None) -> Answer:
        """How many rows have the given labels, with its standard error."""
        return self._find_verb("count")(where, rows)

    def mean(self, attribute: str) -> Answer:
        """The mean of a numeric attribute, with its standard error."""
        return self._find_verb("mean")(attribute)

    def effects(self) -> Any:
        """Estimated effects with noise-aware standard errors (log-linear models)."""
        return self._find_verb("effects")()

    def save(self, stem: Path) -> None:
        """Write STEM.json and STEM.npz."""
        described, arrays = self.to_files()
        place = Exit(stem.parent)
        place.text(stem.with_suffix(".json").name, described)
        place.data(stem.with_suffix(".npz").name, arrays)

    @classmethod
    def load(cls, stem: Path) -> FittedModel:
        """Read STEM.json and STEM.npz; nothing in them is executed."""
        with _readable(stem.name):
            described = stem.with_suffix(".json").read_text("utf-8")
            return cls._read(described, stem.with_suffix(".npz").read_bytes())

    def to_bytes(self) -> bytes:
        """The model as bytes, to be sent to workers: what `to_files` gives, one after the other."""
        described, arrays = self.to_files()
        head = described.encode()
        return len(head).to_bytes(8, "big") + head + arrays

    @classmethod
    def from_bytes(cls, packed: bytes) -> FittedModel:
        """The model back from its bytes; nothing in them is executed."""
        with _readable("packed model"):
            end = 8 + int.from_bytes(packed[:8], "big")
            return cls._read(packed[8:end].decode(), packed[end:])

    def to_files(self) -> tuple[str, bytes]:
        """What the files STEM.json and STEM.npz hold."""
        facts, arrays = self.inner.state()
        described = {
            "format": FORMAT,
            "method": self.method,
            "kind": self.inner.kind,
            "package": package_of_kind(self.inner.kind),
            "schema": self.schema.to_dict(),
            "facts": facts,
        }
        return json.dumps(described, ensure_ascii=False, indent=1) + "\n", pack(arrays)

    @classmethod
    def _read(cls, text: str, packed: bytes) -> FittedModel:
        described = json.loads(text)
        schema = Schema.from_dict(described["schema"])
        _refuse_bombs(packed)
        with np.load(io.BytesIO(packed), allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        method = described["method"]
        # Models of versions before 0.2 name their method only, which had one kind of model.
        kind: Any = described["kind"] if "kind" in described else models_of_method(method)[0].kind
        package = described.get("package", "dipsmith")
        if not (is_plain_name(kind) and is_plain_name(package)):
            raise ValueError  # a message repeats them, and says to install the package: only plain names
        try:
            model = model_of_kind(kind, package)
        except RegistryError as error:
            absent: Any = AbsentModel(schema, kind, str(error))
            return cls(method, absent)
        return cls(method, model.from_state(schema, described["facts"], arrays))

    def labeller(self) -> Labeller:
        """The model as one that labels; refused for others."""
        if not isinstance(self.inner, Labeller):
            raise UsageError(f"a model of {self.method} draws whole rows and cannot label given ones")
        return self.inner

    def _find_verb(self, verb: str) -> Callable[..., Answer]:
        asked: Callable[..., Answer] | None = getattr(self.inner, verb, None)
        if asked is None:
            raise UsageError(f"a model of {self.method} does not answer {verb}; analyse its rows instead")
        return asked


@dataclass(frozen=True)
class AbsentModel:
    """Stands for a model of a kind that no installed package knows; `reason` says which package to install.

    The tables of its release can be used all the same.
    """

    schema: Schema
    kind: str
    reason: str

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("__"):
            raise AttributeError(verb)
        raise RegistryError(self.reason)


def _refuse_bombs(packed: bytes) -> None:
    """Refuse arrays that would unpack to far more than they are, or promise more than there is."""
    with ZipFile(io.BytesIO(packed)) as files:
        members = files.infolist()
        if sum(m.file_size for m in members) > ROOM + RATIO * len(packed):
            raise ValueError
        for member in members:
            with files.open(member) as held:
                header = np.lib.format
                oldest = header.read_magic(held) == (1, 0)
                read = header.read_array_header_1_0 if oldest else header.read_array_header_2_0
                shape, _, dtype = read(held)
                if prod(shape) * dtype.itemsize > member.file_size:
                    raise ValueError


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Whatever readers of JSON, schemas, archives and arrays raise at damaged bytes, as one error."""
    of_python = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError)
    try:
        yield
    except (*of_python, BadZipFile, SchemaError, zlib.error):
        raise damage(f"'{name}' is not a model that this version can read") from None


def predictors(labeller: Labeller) -> tuple[str, ...]:
    """The public columns that a labeller's rows must have."""
    return tuple(n for n in labeller.schema.public if n not in labeller.targets)


def public_codes(labeller: Labeller, batch: pa.RecordBatch) -> Codes:
    """The public columns of a batch as codes."""
    codes, _ = Encoder(labeller.schema, predictors(labeller)).encode(batch)
    return codes


def label_batch(labeller: Labeller, batch: pa.RecordBatch, seed: int | None) -> pa.Table:
    """The batch's columns as they stand, and beside them freshly drawn labels."""
    drawn = labeller.label(public_codes(labeller, batch), seed).project(labeller.targets)
    labels = drawn_table(drawn, seed)
    table = pa.Table.from_batches([batch])
    for name in labeller.targets:
        table = table.append_column(name, labels.column(name))
    return table


def labelled_table(labeller: Labeller, table: pa.Table, seed: int | None) -> pa.Table:
    """The rows of a table with freshly drawn labels, which with a seed depend on the rows' order and nothing else."""
    made = []
    for i, batch in enumerate(blocks(table)):
        made.append(label_batch(labeller, batch, None if seed is None else place_key(secret_of(seed), i)))
    return pa.concat_tables(made)


def drawn_table(codes: Codes, seed: int | None) -> pa.Table:
    """Drawn codes as values, after the numbers of their units; those within bins are drawn by randomness of their own."""
    table = decode(codes, generator(None if seed is None else named_seed(seed, ("values within bins",))))
    if codes.units is not None:
        table = table.add_column(0, str(codes.schema.unit.column), pa.array(codes.units))
    return table.cast(plain_schema(table.schema))


def secret_of(seed: int) -> bytes:
    """The secret that a seed stands for."""
    return hashlib.sha256(f"seed {seed}".encode()).digest()
