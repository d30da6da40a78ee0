"""A fitted model as users hold it: it encodes any frame or source before asking the method's model."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.decode import decode
from dipsmith.codec.encode import Encoder
from dipsmith.consistency.answers import Answer
from dipsmith.errors import DamageError, SchemaError, UsageError
from dipsmith.methods.catalogue import MODELS
from dipsmith.methods.method import Labeller, Model
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Schema
from dipsmith.sources import source

FORMAT = 1


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A method's model together with the schema that rows are encoded by."""

    method: str
    inner: Model

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.inner.schema

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows as codes."""
        return self.inner.sample(n, seed)

    def label(self, rows: Any, seed: int | None = None) -> pa.Table:
        """Add the synthetic private columns to any frame or source that has the public ones, in its order."""
        labeller = self._labeller()
        return pa.concat_tables(
            [
                labelled(labeller, batch, seed=None if seed is None else seed + i)
                for i, batch in enumerate(self._batches(rows))
            ]
        )

    def probabilities(self, rows: Any) -> NDArray[np.float64]:
        """The probability of every label for every row: rows × labels, in the schema's order."""
        labeller = self._labeller()
        if isinstance(rows, Codes):
            return labeller.probabilities(rows)
        parts = [labeller.probabilities(public_codes(labeller, batch)) for batch in self._batches(rows)]
        return np.concatenate(parts) if parts else np.zeros((0, 0))

    def range_query(self, attribute: str, low: float, high: float, rows: int | None = None) -> Answer:
        """How many rows have low ≤ value < high, with its standard error."""
        answer: Answer = self._asked("range_query")(attribute, low, high, rows)
        return answer

    def count(self, where: Mapping[str, str], rows: int | None = None) -> Answer:
        """How many rows have the given labels, with its standard error."""
        answer: Answer = self._asked("count")(where, rows)
        return answer

    def mean(self, attribute: str) -> Answer:
        """The mean of a numeric attribute, with its standard error."""
        answer: Answer = self._asked("mean")(attribute)
        return answer

    def effects(self) -> Any:
        """Estimated effects with noise-aware standard errors (log-linear models)."""
        return self._asked("effects")()

    def save(self, stem: Path) -> None:
        """Write STEM.json and STEM.npz."""
        facts, arrays = self.inner.state()
        described = {"format": FORMAT, "method": self.method, "schema": self.schema.to_dict(), "facts": facts}
        stem.with_suffix(".json").write_text(
            json.dumps(described, ensure_ascii=False, indent=1) + "\n", "utf-8"
        )
        held = io.BytesIO()
        np.savez_compressed(held, allow_pickle=False, **dict(arrays))
        stem.with_suffix(".npz").write_bytes(held.getvalue())

    @classmethod
    def load(cls, stem: Path) -> FittedModel:
        """Read STEM.json and STEM.npz; nothing in them is executed."""
        try:
            described = json.loads(stem.with_suffix(".json").read_text("utf-8"))
            schema = Schema.from_dict(described["schema"])
            with np.load(stem.with_suffix(".npz"), allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
            model = MODELS[described["method"]]
            return cls(described["method"], model.from_state(schema, described["facts"], arrays))
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            EOFError,
            BadZipFile,
            SchemaError,
            zlib.error,
        ):
            raise DamageError(
                f"'{stem.name}' is not a model that this version can read; get the release again"
            ) from None

    def _labeller(self) -> Labeller:
        if not isinstance(self.inner, Labeller):
            raise UsageError(
                f"a {self.method} model draws whole rows and cannot label given ones; use forest or loglinear"
            )
        return self.inner

    def _batches(self, rows: Any) -> Any:
        return source(rows).batches(predictors(self._labeller()))

    def _asked(self, verb: str) -> Any:
        asked = getattr(self.inner, verb, None)
        if asked is None:
            raise UsageError(
                f"a {self.method} model does not answer {verb}; analyse its synthetic rows instead"
            )
        return asked


def predictors(labeller: Labeller) -> tuple[str, ...]:
    """The public columns that a labeller's rows must have."""
    return tuple(n for n in labeller.schema.public if n not in labeller.targets)


def public_codes(labeller: Labeller, batch: pa.RecordBatch) -> Codes:
    """The public columns of a batch as codes."""
    codes, _ = Encoder(labeller.schema, predictors(labeller)).encode(batch)
    return codes


def labelled(labeller: Labeller, batch: pa.RecordBatch, seed: int | None) -> pa.Table:
    """The batch's columns as they stand, and beside them freshly drawn labels."""
    drawn = labeller.label(public_codes(labeller, batch), seed).project(labeller.targets)
    labels = decode(drawn, generator(seed))
    table = pa.Table.from_batches([batch])
    for name in labeller.targets:
        table = table.append_column(name, labels.column(name))
    return table
