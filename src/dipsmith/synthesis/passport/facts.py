"""What every form of the passport tells: the card, the schema, and the files with their digests.

All of it is public and on the card already; the forms only say it in other words. The same card, schema and files give
the same bytes: no clock, no machine, no name of a private file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dipsmith.schema import Attribute, Categories, Schema
from dipsmith.synthesis.card import Card

FOLDER: Final = "metadata"
LISTED: Final = 1000
"""Columns with more labels than this are listed in the codebook alone."""
MEDIA: Final = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "dta": "application/x-stata-dta",
    "sav": "application/x-spss-sav",
    "json": "application/json",
    "html": "text/html",
    "yaml": "application/yaml",
    "md": "text/markdown",
    "npz": "application/zip",
    "xml": "application/xml",
}
KEY: Final = "Rows with the same number belong together; the numbers are new."
UNKNOWN: Final = "(:unav)"
"""DataCite's word for what is not known here: who publishes a release writes the name in."""


@dataclass(frozen=True)
class PassportFacts:
    """A card, the schema of what was released, the SHA-256 of every file so far, and how many members each set has."""

    card: Card
    schema: Schema
    digests: Mapping[str, str]
    members: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What the release is called."""
        return f"Synthetic data in place of {self.card.dataset}"

    @cached_property
    def description(self) -> str:
        """What it is, in three sentences."""
        stamp = "NOT PRIVATE: made with a fixed noise seed, for tests only. " if self.card.testing else ""
        made = f"made by {self.card.method} under differential privacy ({self.card.guarantee})"
        told = f" Disclosed as they are: {', '.join(self.card.disclosed)}." if self.card.disclosed else ""
        return f"{stamp}{self.title}, {made}. {self.card.meaning}{told}"

    @property
    def day(self) -> str:
        """The day on the card."""
        return self.card.created[:10]

    @property
    def tables(self) -> list[str]:
        """The files of the synthetic tables."""
        return [n for n in self.digests if n.startswith("synthetic-")]

    @property
    def schemas(self) -> list[Schema]:
        """What the tables of a set are described by: one schema, or that of households and that of their members."""
        return list(self.schema.tables)

    def schema_of(self, file: str) -> Schema:
        """The schema of one of the files."""
        return self.schemas[-1] if self.owner(file) is not None else self.schema

    def owner(self, file: str) -> str | None:
        """The file of the households whose members this file lists, which the key leads to; None of other files."""
        members = self.schema.members
        mark = "" if members is None else f"-{members.schema.name}."
        return file.replace(mark, ".") if mark and mark in file else None

    def rows_of(self, file: str) -> int:
        """How many rows one of the files of the synthetic tables has."""
        return self.card.rows if self.owner(file) is None else self.members[int(file.split("-")[1]) - 1]

    @property
    def key(self) -> str | None:
        """The column of every table that says which rows belong together."""
        return self.schema.linked

    @property
    def width(self) -> int:
        """How many columns are described, the key once."""
        return sum(len(one.names) for one in self.schemas) + (self.key is not None)

    def labels(self, attribute: Attribute) -> tuple[str, ...]:
        """The labels of a column that has a list of them, if it is not too long."""
        domain = attribute.domain
        return domain.labels if isinstance(domain, Categories) and len(domain.labels) <= LISTED else ()


def media_type(name: str) -> str:
    """The media type of a file, by the ending of its name."""
    return MEDIA.get(name.rpartition(".")[2], "application/octet-stream")


def to_text(document: Mapping[str, Any]) -> str:
    """A document as JSON text, in the order in which it was made."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
