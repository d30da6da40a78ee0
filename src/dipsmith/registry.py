"""The registry: methods, metrics and sources by name, found through entry points.

A package adds one by an entry point of the group `dipsmith.methods`, `dipsmith.metrics` or `dipsmith.sources`;
dipsmith registers its own in the same way (`pyproject.toml`). Nothing is imported before it is asked for.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dipsmith.errors import RegistryError

OURS = "dipsmith"

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


def is_plain_name(text: object) -> bool:
    """Whether text is a plain name, such as those of packages: nothing that a shell or a terminal would obey.

    >>> is_plain_name("dipsmith-columns"), is_plain_name("x --index-url http://elsewhere"), is_plain_name(None)
    (True, False, False)
    """
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


@cache
def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, dipsmith's own first."""
    found: dict[str, EntryPoint] = {}
    points = sorted(entry_points(group=f"{OURS}.{group}"), key=lambda point: package_of(point) != OURS)
    for point in points:
        earlier = found.setdefault(point.name, point)
        if earlier.value != point.value:
            raise RegistryError(
                f"{package_of(earlier)} and {package_of(point)} both register '{point.name}' in {OURS}.{group}; "
                "uninstall one of them"
            )
    if not found:
        raise RegistryError(f"no entry points of {OURS}.{group} are installed; run: pip install {OURS}")
    return found


def package_of(point: EntryPoint) -> str:
    """The name of the distribution that registers an entry point."""
    return point.dist.name if point.dist is not None else "unknown"


@cache
def load(group: str, name: str) -> Any:
    """Import what is registered under a name; say which package is broken if that fails."""
    point = entry_points_of(group)[name]
    try:
        return point.load()
    except Exception as error:
        raise RegistryError(
            f"'{name}' of package {package_of(point)} cannot be imported ({type(error).__name__}); reinstall that package"
        ) from error
