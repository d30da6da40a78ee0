"""One column of the table as the public sees it: name, type, role and domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dipsmith.errors import SchemaError
from dipsmith.schema.domain import Bins, Categories, Domain
from dipsmith.schema.places import Level, check_levels

Type = Literal["string", "integer", "number", "boolean", "date", "datetime"]
Role = Literal["public", "private", "weight"]

BOOLEANS = ("false", "true")


@dataclass(frozen=True)
class Attribute:
    """A named column with its public domain.

    `role` says whether the column's values are public under the `label` relation; under `add-remove`
    and `replace` every column is private and the role is ignored, but for "weight": a survey weight, how many people of the
    population a row stands for. `fixed` says that a column does not change in time: all rows of one unit share its value.
    `levels` are those of a column of places, the largest places first (`places`).
    """

    name: str
    type: Type
    domain: Domain
    role: Role = "private"
    title: str = ""
    fixed: bool = False
    levels: tuple[Level, ...] = ()

    def __post_init__(self) -> None:
        domain = self.domain
        if isinstance(domain, Bins):
            fits = domain.scale == self.type
        elif self.type == "boolean":
            fits = domain.values == BOOLEANS and domain.labels == BOOLEANS
        else:
            fits = self.type == "string" or (self.type == "integer" and all(map(is_whole, domain.values)))
        if not fits:
            raise SchemaError(f"column '{self.name}': type {self.type} does not go with its domain")
        if self.levels:
            if not isinstance(domain, Categories):
                raise SchemaError(f"column '{self.name}': hierarchy goes with enum, the public list of places")
            check_levels(self.levels, domain)

    @classmethod
    def boolean(
        cls, name: str, *, missing: bool = False, role: Role = "private", title: str = "", fixed: bool = False
    ) -> Attribute:
        """A yes/no column: code 0 is false, which is also where unreadable values go unless missing is a level."""
        domain = Categories.of(BOOLEANS, other=None if missing else BOOLEANS[0], missing=missing)
        return cls(name, "boolean", domain, role, title, fixed)

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


def is_whole(text: str) -> bool:
    """Whether a text is a whole number in its shortest spelling, small enough to be exact.

    >>> is_whole("-3"), is_whole("03"), is_whole("3.0")
    (True, False, False)
    """
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits[0] != "0" or text == "0")
    return plain and len(digits) <= 15
