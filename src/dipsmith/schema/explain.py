"""What is wrong with the data of a file: the first problem that pydantic finds, its place and its remedy.

Schema files and study files word the place differently (a column's name, a line); what is wrong and what to do about it is
decided here for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dipsmith.schema.markup import Place

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong: an unknown or missing key (the place's last), or a value that cannot be used."""

    place: Place
    kind: Literal["unknown", "missing", "value"]
    got: str
    remedy: str


def check(
    model: type[Model], data: Mapping[str, Any], needed: Mapping[str, str], advice: Mapping[str, str]
) -> Model | Problem:
    """Check the keys and types of a file.

    `needed` says what to write for a key that is missing, `advice` what to write instead of an unknown one.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # An unknown key explains most, often also what is missing; a rule of ours explains more than a type.
        kinds = ("extra_forbidden", "value_error")
        first = min(
            error.errors(include_url=False), key=lambda e: kinds.index(e["type"]) if e["type"] in kinds else len(kinds)
        )
    place, kind, got = _place(first, data), first["type"], abbreviate(first["input"])
    key = str(place[-1]) if place else ""
    if kind == "extra_forbidden":
        return Problem(place, "unknown", got, advice.get(key) or _known_keys(model, place))
    if kind == "missing":
        return Problem(place, "missing", got, needed.get(key, "add it"))
    if kind == "value_error":
        return Problem(place, "value", got, first["msg"].removeprefix("Value error, "))
    wanted = first["msg"].removeprefix("Input should be ").removeprefix("a valid ").split(", unable")[0]
    if kind in ("model_type", "dict_type"):
        wanted = "a mapping of keys to values"
    return Problem(place, "value", got, f"must be {wanted}, got {got}")


def _place(error: Any, data: Any) -> Place:
    """The place as the file has it: pydantic also names branches of unions, which nobody wrote."""
    place: list[str | int] = []
    for part in error["loc"]:
        if part in data if isinstance(data, Mapping) else isinstance(data, list) and isinstance(part, int):
            place.append(part)
            data = data[part]
    return (*place, error["loc"][-1]) if error["type"] == "missing" else tuple(place)


def _known_keys(model: type[BaseModel], place: Place) -> str:
    """What to write instead of the unknown key at the end of a place."""
    for part in place[:-1]:
        field = next((f for n, f in model.model_fields.items() if part == (f.alias or n)), None)
        model = (None if field is None else _model_in(field.annotation)) or model
    known = [f.alias or name for name, f in model.model_fields.items()]
    close = get_close_matches(str(place[-1]), known, 1, 0.6)
    return f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a)) is not None), None)


def abbreviate(value: object) -> str:
    """A value as messages quote it, in at most 60 characters."""
    if value is None or isinstance(value, (Mapping, list)):
        return "nothing" if value is None else "a mapping" if isinstance(value, Mapping) else "a list"
    text = " ".join(str(value).split())
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
