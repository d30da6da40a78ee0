"""What people write first, understood where it has one meaning, and otherwise answered with a sentence.

A path or plain data for a schema, a method's name or its class without parentheses are taken. A bare number is no budget: it
does not say in which currency.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS, make_method
from dipsmith.methods.method import Method
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

SchemaLike = Schema | str | Path | Mapping[str, object]
MethodLike = Method | str | type[Method]


def understand_schema(given: SchemaLike) -> Schema:
    """A schema as it is, from its file, or from plain data."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, str | Path):
        return Schema.read(given)
    if isinstance(given, Mapping):
        return Schema.from_dict(given)
    raise UsageError(f"schema= is a Schema, a path to its file or plain data, got a {type(given).__name__}")


def understand_method(given: MethodLike, schema: Schema) -> Method:
    """A method as it is, or by its name or class with default settings.

    >>> from dipsmith.examples import voters
    >>> understand_method("MST", voters.schema()).name
    'mst'
    """
    if isinstance(given, str):
        return make_method(given.strip().lower().replace("-", ""), {}, schema)
    if isinstance(given, type):
        name = str(getattr(given, "name", ""))
        if name in METHODS:
            return make_method(name, {}, schema)
        raise UsageError(f"method= is a method with its settings, such as ds.MST(), got the class {given.__name__}")
    if not any(hasattr(given, verb) for verb in ("fit", "plan", "relations")):
        known = ", ".join(METHODS)
        raise UsageError(
            f"method= is a method, such as ds.MST(), or one of the names {known}; got a {type(given).__name__}"
        )
    return given


def understand_budget(given: Budget) -> Budget:
    """A budget; of a bare number it is asked what it means."""
    if isinstance(given, Budget):
        return given
    if isinstance(given, int | float | str):
        raise UsageError(
            f"budget={given!r} does not say in which currency: ds.PureDP({given}) is pure ε, ds.ZCDP({given}) is ρ, "
            f"ds.ZCDP.from_approx({given}, 1e-9) is (ε, δ)"
        )
    raise UsageError(f"budget= is ds.PureDP(ε) or ds.ZCDP(ρ), got a {type(given).__name__}")
