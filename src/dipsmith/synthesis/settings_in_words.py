"""The settings of a method as people say them: what was left open is left out, no null and no brackets."""

from __future__ import annotations

import json
from collections.abc import Mapping

WORDS = {
    "choice": "share for choosing tables",
    "count_share": "share for the number of rows",
    "growth_share": "share for growing trees",
    "layer_weights": "weights of layers",
    "marginal_share": "share for label marginals",
    "max_cells": "cells of a table at most",
    "max_depth": "deepest branch",
    "max_effects": "effects at most",
    "must_include": "on every path",
    "n_b": "rows from which a branch is split",
    "n_leaf": "rows of a leaf at least",
    "one_way": "share for single columns",
    "order_share": "share for the order of columns",
    "place_share": "share for places",
    "planned_share": "share for planned tables",
    "same_order": "one order for all",
}
"""Settings whose names only a programmer would use; a name that is not here is an English word."""


def chosen_settings(parameters: Mapping[str, object]) -> dict[str, str]:
    """The settings that have a value, name and value in words.

    >>> chosen_settings({"n_b": 3000, "targets": ["sex", "race"], "shrink": True, "weights": None, "planned": []})
    {'rows from which a branch is split': '3,000', 'shrink': 'yes', 'targets': 'sex + race'}
    """
    chosen = [(name, value) for name, value in sorted(parameters.items()) if value not in (None, [], (), {})]
    return {WORDS.get(name, name.replace("_", " ")): _in_words(value) for name, value in chosen}


def settings_in_words(parameters: Mapping[str, object]) -> str:
    """The same in one line.

    >>> settings_in_words({"trees": 3, "targets": ["sex", "race"], "shrink": True, "weights": None})
    'shrink yes, targets sex + race, trees 3'
    """
    return ", ".join(f"{name} {words}" for name, words in chosen_settings(parameters).items())


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        nested = any(isinstance(v, list | tuple) for v in value)
        return (" and " if nested else " + ").join(_in_words(v) for v in value)
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
