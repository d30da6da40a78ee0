"""A planned analysis: a formula that a researcher will ask for, agreed upon before anything is spent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal, cast, get_args

from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import Column, nodes
from dipsmith.schema.formula.words import abridge

Model = Literal["auto", "ols", "logistic"]

BY = re.compile(r"\|\s*by\s+(\w+)\s*$")
"""The end of a formula that is fitted to every year, or group, by itself."""


WIDTH = re.compile(r";\s*width\s*[:=]?\s*([^\s`]+)\s*$")
"""The end of a line that says how wide intervals may be."""


def split_by(formula: str) -> tuple[str, str | None]:
    """A formula without its "| by …", and the column that this names.

    >>> split_by("log(pay) ~ sex | agency | by year")
    ('log(pay) ~ sex | agency', 'year')
    """
    found = BY.search(formula)
    return (formula, None) if found is None else (BY.sub("", formula).strip(), found.group(1))


@dataclass(frozen=True)
class PlannedAnalysis:
    """A formula, how precisely it is wanted, and by which column it is repeated.

    `width` is that of the 95 % interval of every coefficient of a private column; `model` is "ols" for least squares,
    "logistic" for the odds of a private label, "auto" for whichever the response asks for; `reference` names the level of a
    category that others are compared with. A formula may end in "| by year": then it is fitted to each year by itself.

    >>> PlannedAnalysis("log(pay) ~ sex + age | agency | by year").by
    'year'
    """

    text: str
    width: float | None = None
    model: Model = "auto"
    reference: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise SchemaError(
                f"analysis '{abridge(self.text)}': model is '{self.model}', expected ols, logistic or auto"
            )
        if self.width is not None and not 0 < self.width < inf:
            raise SchemaError(f"analysis '{abridge(self.text)}': width is {self.width}, expected a number above 0")
        try:
            parse(self.formula)
        except UsageError as error:
            raise SchemaError(str(error)) from None

    @classmethod
    def of(cls, given: PlannedAnalysis | str | Mapping[str, Any]) -> PlannedAnalysis:
        """A formula by itself, or with what is wanted of it: as a mapping, or on one line.

        >>> PlannedAnalysis.of("log(pay) ~ sex | agency; width 0.05").width
        0.05
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            wanted = WIDTH.search(given)
            return (
                cls(given) if wanted is None else cls(given[: wanted.start()].strip(), _number(given, wanted.group(1)))
            )
        asked = dict(cast("Mapping[str, Any]", given))
        if "formula" not in asked or not set(asked) <= {"formula", "width", "model", "reference"}:
            raise SchemaError("an analysis is a formula, or a mapping of formula, width, model and reference")
        reference = tuple((str(k), str(v)) for k, v in (asked.pop("reference", None) or {}).items())
        return cls(str(asked.pop("formula")), reference=reference, **asked)

    def to_dict(self) -> dict[str, Any] | str:
        """As a schema file has it."""
        wanted: dict[str, Any] = {} if self.width is None else {"width": self.width}
        wanted |= {} if self.model == "auto" else {"model": self.model}
        wanted |= {"reference": dict(self.reference)} if self.reference else {}
        return {"formula": self.text, **wanted} if wanted else self.text

    @cached_property
    def formula(self) -> str:
        """What is fitted, once or by each value of `by`."""
        return split_by(self.text)[0]

    @cached_property
    def by(self) -> str | None:
        """The column by whose values it is repeated."""
        return split_by(self.text)[1]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns that it names."""
        parsed = parse(self.formula)
        parts = [n for part in (parsed.response, *parsed.sections) for n in nodes(part)]
        named = [n.name for n in parts if isinstance(n, Column)]
        return tuple(dict.fromkeys([*named, *([self.by] if self.by else [])]))

    def __str__(self) -> str:
        return self.text


def _number(text: str, width: str) -> float:
    try:
        return float(width)
    except ValueError:
        raise SchemaError(f"analysis '{abridge(text)}': width is '{width}', expected a number above 0") from None
