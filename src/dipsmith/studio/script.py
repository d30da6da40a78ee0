"""What was chosen in the studio as a Python script: fixed lines, and values that are literals.

A script is text that someone will run, made of values that others wrote: column names, codes, file names, formulas. So
every value is put in by `literal`, which writes plain values as Python does and refuses others. Nothing else of the script depends on a value, except the names of the method
and its settings, which are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pprint import pformat
from types import NoneType
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS, public_setting
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import PureDP, decimal_text
from dipsmith.schema import Schema
from dipsmith.studio.public_files import PublicFiles

WIDTH = 100


def script(
    schema: Schema,
    data: str,
    method: tuple[str, Mapping[str, Any]],
    budget: tuple[str, Sequence[str]],
    ledger: str,
    more: Mapping[str, Any],
    saved: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    files: tuple[PublicFiles, str] | None = None,
) -> str:
    """A script that declares, synthesizes and saves.

    `method` is the name of a method's class and its settings by name, `budget` the name of a budget's constructor and its
    amounts as they were typed; `more` and `saved` are further arguments of `synthesize` and those of `Release.save`.
    `files` are public files beside the confidential one, and the currency of the budget.
    `comparison` is what the last comparison was asked: its `analyses` and `classifiers` are repeated.
    """
    title = f"Synthetic data in place of {schema.name}: what was chosen in the studio, as a script."
    before, grown, onto = ([], "", []) if files is None else _file_lines(*files, method[0])
    lines = [
        literal(title),
        "",
        "import dipsmith as ds",
        "",
        f"SCHEMA = {literal(_plain(schema.to_dict()))}",
        "",
        "schema = ds.Schema.from_dict(SCHEMA)",
        "# The ledger must hold a grant for the schema's name.",
        f"ledger = ds.Ledger({literal(ledger)})",
        *before,
        "release = ds.synthesize(",
        f"    {literal(data)},",
        "    schema,",
        f"    ds.{_word(method[0])}({', '.join(filter(None, [_spell_arguments(method[1]), grown]))}),",
        f"    budget=ds.{'.'.join(map(_word, budget[0].split('.')))}({', '.join(map(literal, budget[1]))}),",
        "    ledger=ledger,",
        *(f"    {_word(name)}={literal(value)}," for name, value in more.items()),
        *onto,
        ")",
        f"release.save({_spell_arguments(saved)})",
        "print(release)",
    ]
    if comparison is not None:
        lines += [
            "",
            "# CONFIDENTIAL: reads the authentic rows; the ledger logs the look.",
            "found = ds.compare(",
            f"    {literal(data)},",
            "    release,",
            "    ledger=ledger,",
            f"    classifiers={literal(_plain(comparison['classifiers']) or None)},",
            f"    analyses={literal(_plain(comparison['analyses']))},",
            *([f"    members={literal(more['members'])},"] if "members" in more else []),
            ")",
            "found.save('comparison')",
        ]
    return "\n".join(lines) + "\n"


def _file_lines(files: PublicFiles, currency: str, method: str) -> tuple[list[str], str, list[str]]:
    """Lines that read public files, the argument of the method that uses one, and that of `synthesize` to label one."""
    before, grown, onto = [], "", []
    factors = f", factors={literal(files.factors)}" if files.factors and files.grow_map else ""
    if files.grow:
        cost = ""
        if files.grow_epsilon:
            kind, pure = ("PureDP", "ZCDP")[currency != "epsilon"], PureDP(files.grow_epsilon)
            units = convert(pure, "epsilon" if currency == "epsilon" else "rho")
            cost = f", cost=ds.{kind}({literal(decimal_text(units))})"
        columns = literal(_column_map(files.grow_map))
        before = [f"public = ds.public_table({literal(files.grow)}, schema, columns={columns}{factors}{cost})"]
        setting = next(filter(None, (public_setting(m) for m in METHODS.values() if m.__name__ == method)), "public")
        grown = f"{setting}=public"
    if files.onto:
        beside = f", {literal(files.factors)}" if files.factors and files.onto_map else ""
        onto = [f"    onto=ds.map_columns({literal(files.onto)}, {literal(_column_map(files.onto_map))}{beside}),"]
    return before, grown, onto


def _column_map(lines: Sequence[str]) -> dict[str, str]:
    parts = [line.partition("=") for line in lines]
    return {name.strip(): meaning.strip() for name, _, meaning in parts}


def literal(value: object) -> str:
    r"""A plain value as Python writes it.

    >>> print(literal('people\n"; import os'))
    'people\n"; import os'
    """
    try:
        if _is_literal(value):
            return repr(value) if isinstance(value, str) else pformat(value, width=WIDTH, sort_dicts=False)
    except (ValueError, RecursionError):  # a number too long to be written, lists too deep to be read
        pass
    raise UsageError("a setting cannot be written into a script; use the command instead")


def _is_literal(value: object) -> bool:
    """Whether a value is of built-in types alone whose `repr` is a literal; a subclass may write what it likes."""
    if type(value) is dict:
        return all(_is_literal(k) and _is_literal(v) for k, v in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_literal, value))  # type: ignore[call-overload]
    return type(value) in (str, int, bool, NoneType) or (type(value) is float and isfinite(value))


def _spell_arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_word(name)}={literal(_plain(value))}" for name, value in values.items())


def _word(name: str) -> str:
    if not name.isidentifier():
        raise UsageError("a setting's name is not a word; reload the page")
    return name


def _plain(value: Any) -> Any:
    """The same value of built-in types alone."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
