"""What is attacked: a registered method with its default settings."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import Method


def supported_relations(name: str) -> tuple[str, ...]:
    """The neighbouring relations under which a registered method can be attacked."""
    if name not in METHODS:
        raise UsageError(f"method '{name}' is unknown; choose one of: {', '.join(METHODS)}")
    return tuple(getattr(METHODS[name], "relations", ()))


def make_method(name: str, relation: str, targets: Sequence[str]) -> Method:
    """A registered method with its default settings; it is told the `targets` if it needs them under this relation."""
    supported = supported_relations(name)
    if relation not in supported:
        raise UsageError(
            f"{name} does not support neighbours '{relation}'; choose one of: {', '.join(supported)}"
        )
    made: Any = METHODS[name]
    setting = signature(made).parameters.get("targets")
    needed = setting is not None and (relation == "label" or setting.default is setting.empty)
    method: Method = made(targets=tuple(targets)) if needed else made()
    return method
