"""Impossible combinations, declared in public: structural zeros.

A rule says that a conjunction of conditions never happens (``never: {age: {below: 20}, occupation:
"06"}``). Rows that break a rule are counted nowhere; no method ever produces one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rule:
    """A conjunction that never happens: for each attribute named, the set of codes it concerns.

    Attributes
    ----------
    never
        Pairs (attribute name, sorted codes). A row breaks the rule when every attribute named has
        one of its codes.
    text
        The rule as the steward wrote it, for messages and cards.
    """

    never: tuple[tuple[str, tuple[int, ...]], ...]
    text: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the rule names."""
        return tuple(name for name, _ in self.never)

    def broken_by(self, columns: Mapping[str, NDArray[np.integer]], sizes: Mapping[str, int]) -> NDArray[np.bool_]:
        """Which rows break the rule; columns not given make the rule inapplicable (no row breaks it)."""
        rows = len(next(iter(columns.values()))) if columns else 0
        broken = np.ones(rows, dtype=bool)
        for name, codes in self.never:
            if name not in columns:
                return np.zeros(rows, dtype=bool)
            hit = np.zeros(sizes[name], dtype=bool)
            hit[list(codes)] = True
            broken &= hit[columns[name]]
        return broken


def impossible(rules: Sequence[Rule], attributes: Sequence[str], shape: Sequence[int]) -> NDArray[np.bool_]:
    """The cells of the cross-table of `attributes` that a rule over a subset of them forbids."""
    forbidden = np.zeros(tuple(shape), dtype=bool)
    axis = {name: i for i, name in enumerate(attributes)}
    for rule in rules:
        if not set(rule.attributes) <= set(attributes):
            continue
        cell: NDArray[np.bool_] = np.ones((1,) * len(axis), dtype=bool)
        for name, codes in rule.never:
            hit = np.zeros(shape[axis[name]], dtype=bool)
            hit[list(codes)] = True
            spread = [1] * len(axis)
            spread[axis[name]] = -1
            cell = cell & hit.reshape(spread)
        forbidden |= cell
    return forbidden
