"""One column of the table as the public sees it: name, type, role and domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dipsmith.schema.domain import Domain

Type = Literal["string", "integer", "number", "boolean", "date", "datetime"]
Role = Literal["public", "private"]


@dataclass(frozen=True)
class Attribute:
    """A named column with its public domain.

    `role` says whether the column's values are public under the `label` relation; under `add-remove`
    and `replace` every column is private and the role is ignored.
    """

    name: str
    type: Type
    domain: Domain
    role: Role = "private"
    title: str = ""

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.domain.size

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of every code, missing included."""
        return self.domain.names

    def with_role(self, role: Role) -> Attribute:
        """The same column in another role."""
        return replace(self, role=role)
