"""The settings of a method as people say them: what was left open is left out, no null and no brackets."""

from __future__ import annotations

import json
from collections.abc import Mapping


def chosen_settings(parameters: Mapping[str, object]) -> dict[str, str]:
    """The settings that have a value, by name, each in words.

    >>> chosen_settings({"trees": 3, "targets": ["sex", "race"], "shrink": True, "weights": None, "planned": []})
    {'shrink': 'yes', 'targets': 'sex + race', 'trees': '3'}
    """
    return {name: _in_words(value) for name, value in sorted(parameters.items()) if value not in (None, [], (), {})}


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
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
