"""What a comparison found out about one release, by key."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dipsmith.synthesis.card import Card


@dataclass(frozen=True, eq=False)
class Findings:
    """One release beside the authentic rows: `found["specks"]` is what its chapter found.

    Scores of several sets are means over the sets; everything that is listed level by level is of the first set.

    Attributes
    ----------
    name, card
        What the release is called here, and its card.
    rows
        Authentic and synthetic rows.
    given, changed
        The public columns, the same in both tables, and the synthesised ones.
    results
        What was found, by the keys of comparison.json.
    """

    name: str
    card: Card
    rows: tuple[int, int]
    given: tuple[str, ...]
    changed: tuple[str, ...]
    results: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.results[key]

    if not TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any:
            if key not in self.__dict__.get("results", ()):
                raise AttributeError(key)
            message = f"findings.{key} is now findings['{key}']"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return self.results[key]
