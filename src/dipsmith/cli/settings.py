"""`--set NAME=VALUE`: parameters of a method, checked against their types before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dipsmith.errors import SchemaError, UsageError

if TYPE_CHECKING:
    from dipsmith.methods.method import Method
    from dipsmith.privacy.budget import Budget
    from dipsmith.schema import Schema

LARGEST_SETTING = 1_000_000_000
"""Whole numbers given with --set are below it; no parameter needs more, and larger ones overflow or never end."""


def method_of(name: str, settings: Sequence[str] | None, schema: Schema) -> Method:
    """The method that --method and --set describe; targets default to the private columns."""
    from dataclasses import fields

    from dipsmith.methods.catalogue import find_method, make_method

    made = find_method(name)
    parameters = sorted(f.name for f in fields(made))  # type: ignore[arg-type]
    chosen: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or key not in parameters:
            raise UsageError(f"--set {setting}: expected NAME=VALUE with NAME one of: {', '.join(parameters)}")
        chosen[key] = _setting(made, key, value)
    return make_method(name, chosen, schema)


def public_of(
    method: Method,
    schema: Schema,
    budget: Budget,
    public: str | None,
    public_map: Sequence[str] | None,
    public_epsilon: str | None,
    factors: str | None = None,
) -> Method:
    """The method with the public table of --public or --prior, where there is one."""
    from dipsmith.cli.options import cost_of
    from dipsmith.methods.catalogue import use_public
    from dipsmith.synthesis.column_map import read_map
    from dipsmith.synthesis.public import public_table

    if public is None:
        if public_map or public_epsilon:
            raise UsageError("--public-map and --public-epsilon describe the file of --public; give it")
        return method
    cost = None if public_epsilon is None else cost_of(public_epsilon, budget)
    columns = read_map(public_map or (), "--public-map", schema)
    used = factors if columns else None
    return use_public(method, public_table(public, schema, columns=columns, factors=used, cost=cost))


def _setting(method: type, key: str, text: str) -> Any:
    """The value of one --set, of the type that the parameter has: a method would find out only after the charge."""
    from typing import get_args, get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError

    from dipsmith.schema.markup import parse

    try:
        value = parse(text, typed=True)
    except SchemaError:
        raise UsageError(f"--set {key}: the value is not readable; write it as in YAML, e.g. {key}=[a, b]") from None
    wanted = get_type_hints(method)[key]
    rule = ConfigDict(coerce_numbers_to_str=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    adapter: TypeAdapter[Any] = TypeAdapter(wanted, config=rule)
    tried = [value]
    if isinstance(value, str):
        names = Sequence[str] in (wanted, *get_args(wanted))
        tried.append([part.strip() for part in value.split(",")] if names else [value])
    for each in tried:
        try:
            found = adapter.validate_python(each)
        except ValidationError:
            continue
        if not (isinstance(found, int) and abs(found) >= LARGEST_SETTING):
            return found
    given = text if len(text) <= 60 else f"{text[:60]}…"
    raise UsageError(f"--set {key}={given}: expected {_describe_type(wanted)}")


def _describe_type(wanted: Any) -> str:
    """A parameter's type in words.

    >>> _describe_type(Sequence[str] | None)
    'a list of names, as in [a, b], or null'
    """
    from types import NoneType
    from typing import Literal, get_args, get_origin

    words = {
        int: f"a whole number below {LARGEST_SETTING:,}",
        float: "a number",
        bool: "true or false",
        str: "a name",
        NoneType: "null",
    }
    parts, origin = get_args(wanted), get_origin(wanted)
    if wanted in words:
        return words[wanted]
    if origin is Literal:
        return ", ".join(str(p) for p in parts)
    if origin is Mapping:
        return "names with numbers, as in {a: 2, b: 1}"
    if origin is Sequence and parts[-1] is str:
        return "a list of names, as in [a, b]"
    if origin is Sequence:
        lists = "str" in str(parts[-1])
        return "a list of lists of names, as in [[a, b], [c]]" if lists else "a list of numbers"
    return ", or ".join(_describe_type(p) for p in parts) or "what only Python can give; leave it out"
