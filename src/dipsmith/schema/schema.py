"""The schema: everything that is public about a table before a single row is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Literal

from dipsmith.errors import SchemaError
from dipsmith.schema import show, writing
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.attribute import Attribute, Role, is_whole
from dipsmith.schema.domain import DATA_DERIVED, Categories
from dipsmith.schema.households import Members, check_members
from dipsmith.schema.markup import NamedFile
from dipsmith.schema.merging import merge_rare
from dipsmith.schema.naming import check_name
from dipsmith.schema.places import LARGEST_TOTAL, PlaceTree, check_places
from dipsmith.schema.rules import Rule
from dipsmith.schema.steps import check_order
from dipsmith.schema.weights import check_weight

Neighbours = Literal["add-remove", "replace", "label"]
PROVENANCES = ("declared", DATA_DERIVED, "learned, ", "from ")
"""How the domains were found: stated, read from the private rows, learned privately (for a price), from a public file."""


@dataclass(frozen=True)
class Unit:
    """Whose presence is protected: a row, or all rows of one value of a column, at most `max_rows` of them.

    With `per` the unit is the pair (column, per): a person-year instead of a person. A row without a value of the
    column belongs to nobody and is counted nowhere. `link` is "public" where everybody may know which rows have the same
    value of the column (not the value itself); under `label` a release then says so, by new numbers. With `order` the rows
    of a unit are one after the other, at most one in each period: a panel. What is protected is then the whole career.
    With `members` the unit is a household with so many members at most: its row and all of theirs; or, where `protects` says
    so, a person in one: a member's row, and whatever that person changes in the row of its household.
    """

    column: str | None = None
    max_rows: int = 1
    per: str | None = None
    link: Literal["public"] | None = None
    order: str | None = None
    members: int | None = None
    protects: Literal["person"] | None = None

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise SchemaError(f"unit.max_rows must be at least 1, got {self.max_rows}")
        if self.column is None and (self.max_rows != 1 or self.per is not None or self.link is not None):
            raise SchemaError("a unit that is a row has neither max_rows nor per nor link; name its column")
        if self.order is not None and (self.column is None or self.per is not None):
            raise SchemaError("unit.order puts the rows of one unit in order: name its column, and leave per out")

    def __str__(self) -> str:
        if self.column is None:
            return "row"
        if self.members is not None:
            what = f"household ({self.column}) with at most {self.members} members"
            return f"{self.protects} in a {what}" if self.protects else what
        what = f"{self.column} per {self.per}" if self.per else self.column
        what += f" over every {self.order}" if self.order else ""
        return f"{what}, at most {self.max_rows} row{'s' if self.max_rows > 1 else ''}"


@dataclass(frozen=True)
class Schema:
    """Attributes, unit of protection, neighbouring relation and rules of one table.

    Unit and neighbours have no defaults: they say what the ε means.
    """

    name: str
    attributes: tuple[Attribute, ...]
    unit: Unit
    neighbours: Neighbours
    rules: tuple[Rule, ...] = ()
    provenance: str = "declared"
    notes: tuple[str, ...] = field(default=())
    analyses: tuple[PlannedAnalysis, ...] = ()
    known_rows: int | None = None  # how many rows the table has, where everybody knows that
    members: Members | None = None  # those of households, where rows are households
    # Which files were read for it, so that none is the confidential table; no part of what the schema says.
    named_files: tuple[NamedFile, ...] = field(default=(), compare=False, repr=False)

    to_dict = writing.to_dict
    write = writing.write
    digest = cached_property(writing.digest)
    collapse = merge_rare
    __str__ = show.as_text
    _repr_html_ = show.as_html

    def __post_init__(self) -> None:
        check_name(self.name)
        known = any(self.provenance.startswith(p) if p.endswith(" ") else self.provenance == p for p in PROVENANCES)
        if not known or not self.provenance.isprintable():
            raise SchemaError(
                f"provenance is '{self.provenance[:60]}'; expected declared, data-derived, 'learned, ε = …' or 'from FILE'"
            )
        twice = next((n for n in self.names if self.names.count(n) > 1), None)
        if twice is not None:
            raise SchemaError(f"column '{twice}' is listed twice; names must differ")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema file (YAML); code lists are looked for beside it."""
        from dipsmith.schema import files

        return files.read(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], base: Path | None = None) -> Schema:
        """Make a schema from plain data, as a parsed YAML or JSON file gives it."""
        from dipsmith.schema import files

        return files.from_dict(data, base)

    def formula_like(self) -> list[tuple[str, str]]:
        """List the (column, label) pairs that a spreadsheet would take for a formula, unless the writer escapes them."""
        risky = ("=", "+", "-", "@", "\t", "\r")
        return [
            (a.name, label)
            for a in self.attributes
            if isinstance(a.domain, Categories) and not (a.type == "integer" and all(map(is_whole, a.domain.labels)))
            for label in a.domain.labels
            if label.startswith(risky)
        ]

    def check(self) -> None:
        """Refuse what would make a release fail, or leak, because of a private value.

        Unit and columns may not contradict each other, and where rows cannot be dropped every value needs a code.
        """
        unit, relation = self.unit, self.neighbours
        if unit.column is not None and unit.column in self:
            raise SchemaError(
                f"column '{unit.column}' is the unit and never released; remove it from fields or name another unit"
            )
        if unit.per is not None:
            if unit.per not in self:
                raise SchemaError(f"unit.per '{unit.per}' must be one of the columns in fields; add it")
            if relation == "label" and self[unit.per].role != "public":
                raise SchemaError(f"column '{unit.per}' is unit.per and must have role: public under label")
        if unit.order is not None:
            check_order(self)
        if self.members is not None:
            check_members(self)
        check_places(self)
        self.check_known_rows(self.known_rows)
        self._check_links()
        check_weight(self)
        if relation == "label" and not self.private:
            raise SchemaError("neighbours is label but no column has role: private, so nothing would be protected")
        if relation != "add-remove":
            for attribute in self.attributes:
                if not attribute.domain.total:
                    raise SchemaError(
                        f"column '{attribute.name}': say where a value outside enum goes, with other: LABEL or "
                        f"missing: true; under {relation} its row cannot be dropped"
                    )

    def _check_links(self) -> None:
        """Refuse labels that rows of a unit share unless it is public which rows these are."""
        if self.unit.link is not None and self.neighbours != "label":
            raise SchemaError(
                f"unit.link: public goes with neighbours 'label', where rows are released; under {self.neighbours} no "
                "row of the table is: remove it"
            )
        for attribute in self.attributes:
            if not attribute.fixed or self.unit.order is not None:
                continue
            if self.neighbours != "label" or attribute.role != "private":
                raise SchemaError(
                    f"column '{attribute.name}': fixed: true is for a private column under neighbours 'label', whose label "
                    "is drawn once for each unit, or for a panel (unit.order); remove it"
                )
            if self.unit.link is None:
                raise SchemaError(
                    f"column '{attribute.name}': fixed: true tells by equal labels which rows belong together; if that is "
                    "public, say so: unit: {column: …, max_rows: …, link: public}"
                )

    @property
    def linked(self) -> str | None:
        """The unit's column, where a release may say which rows belong together: their link is public, or they are drawn."""
        unit = self.unit
        return None if unit.link is None and unit.order is None and unit.members is None else unit.column

    def without_link(self) -> Schema:
        """The same schema for rows of which nobody says which belong together."""
        attributes = tuple(replace(a, fixed=False) for a in self.attributes)
        return replace(self, attributes=attributes, unit=replace(self.unit, link=None, order=None))

    @property
    def tables(self) -> tuple[Schema, ...]:
        """The schema of each table: one, or that of households and that of their members."""
        return (self,) if self.members is None else (self, self.members.schema)

    @property
    def priced_as(self) -> Neighbours:
        """The relation whose sensitivities hold.

        That of `neighbours`, but where persons in households are protected: whether one joins, leaves or changes, another
        line of its household takes the place of the one that was there, as under replace (``docs/proofs/household.md``).
        """
        return "replace" if self.unit.protects == "person" else self.neighbours

    @property
    def priced_rows(self) -> int:
        """How many rows one unit moves, by the relation of `priced_as`: `max_rows`; one where the unit is a person."""
        return 1 if self.unit.protects == "person" else self.unit.max_rows

    @property
    def counts_are_public(self) -> bool:
        """Whether the relation itself makes the number of rows public."""
        return self.neighbours == "label" or (self.neighbours == "replace" and self.unit.max_rows == 1)

    def check_known_rows(self, known_rows: int | None) -> None:
        """Refuse a stated number of rows where none is needed, or that is no number of rows."""
        if known_rows is None:
            return
        if self.counts_are_public:
            raise SchemaError(
                f"a known number of rows is stated, but under neighbours '{self.neighbours}' it is public and read from the "
                "table; leave it out"
            )
        if not 0 <= known_rows <= LARGEST_TOTAL:
            # Scores are sums of floats near this number: far beyond it they err by more than one unit moves them.
            raise SchemaError(f"the known number of rows is {known_rows:,}, expected 0 to {LARGEST_TOTAL:,}")

    @cached_property
    def places(self) -> PlaceTree | None:
        """The tree of the column of places, None where there is no such column."""
        return next((PlaceTree(a) for a in self.attributes if a.levels), None)

    @cached_property
    def _by_name(self) -> Mapping[str, Attribute]:
        return {a.name: a for a in self.attributes}

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(self.names)
            raise SchemaError(f"column '{name}' is not in schema '{self.name}'; it has: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(a.name for a in self.attributes)

    @property
    def public(self) -> tuple[str, ...]:
        """The names of the public attributes (meaningful under `label` only)."""
        return tuple(a.name for a in self.attributes if a.role == "public")

    @property
    def private(self) -> tuple[str, ...]:
        """The names of the private attributes."""
        return tuple(a.name for a in self.attributes if a.role == "private")

    @property
    def weight(self) -> str | None:
        """The name of the survey weight, if there is one."""
        return next((a.name for a in self.attributes if a.role == "weight"), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read from a source: the attributes and the unit's column."""
        extra = [c for c in (self.unit.column, self.unit.per) if c is not None and c not in self]
        return (*self.names, *extra)

    def size(self, names: Sequence[str] | None = None) -> int:
        """Number of cells of the cross-table of `names` (of all attributes when omitted)."""
        return prod(self[n].size for n in (self.names if names is None else names))

    def project(self, names: Sequence[str]) -> Schema:
        """The schema of some of the attributes; rules that name another attribute are dropped."""
        for name in names:
            self[name]
        attributes = tuple(a for a in self.attributes if a.name in set(names))
        rules = tuple(r for r in self.rules if set(r.attributes) <= set(names))
        analyses = tuple(a for a in self.analyses if set(a.columns) <= set(names))
        return replace(self, attributes=attributes, rules=rules, analyses=analyses)

    def with_role(self, names: str | Sequence[str], role: Role) -> Schema:
        """The same schema with the named attributes in another role."""
        changed = {names} if isinstance(names, str) else set(names)
        for name in changed:
            self[name]
        roles = (a.with_role(role) if a.name in changed else a for a in self.attributes)
        return replace(self, attributes=tuple(roles))
