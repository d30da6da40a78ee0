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

from dipsmith.schema import Categories, Schema
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
UNKNOWN: Final = "(:unav)"
"""DataCite's word for what is not known here: who publishes a release writes the name in."""


@dataclass(frozen=True)
class PassportFacts:
    """A card, the schema of what was released, and the SHA-256 of every file so far."""

    card: Card
    schema: Schema
    digests: Mapping[str, str]

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
        """The files of the synthetic tables, whose columns are described; members of households stand in the codebook."""
        members = "" if self.schema.members is None else f"-{self.schema.members.schema.name}."
        return [n for n in self.digests if n.startswith("synthetic-") and not (members and members in n)]

    def labels(self, name: str) -> tuple[str, ...]:
        """The labels of a column that has a list of them, if it is not too long."""
        domain = self.schema[name].domain
        return domain.labels if isinstance(domain, Categories) and len(domain.labels) <= LISTED else ()


def media_type(name: str) -> str:
    """The media type of a file, by the ending of its name."""
    return MEDIA.get(name.rpartition(".")[2], "application/octet-stream")


def to_text(document: Mapping[str, Any]) -> str:
    """A document as JSON text, in the order in which it was made."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
