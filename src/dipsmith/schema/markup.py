"""YAML text ↔ plain data, in the strict subset that schema files use.

Every scalar is read as the text that is written: ``0000`` stays ``0000``, ``no`` stays ``no``, and
``2011-12-31`` is interpreted by the column that it belongs to, not by YAML. Refused: a key given
twice, anchors and aliases, tags, several documents, nesting deeper than any schema needs. The reader
works on the parser's events with its own stack, so that hostile nesting cannot exhaust the
interpreter's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dipsmith.errors import SchemaError

MAX_CHARACTERS = 64_000_000
MAX_DEPTH = 12


class Line(dict[str, object]):
    """A mapping that is written on one line."""


def parse(text: str) -> object:
    """Read one YAML document; scalars are text, empty ones (and ``~``, ``null``) None.

    >>> parse("{name: a, enum: [no, 0000], title: }")
    {'name': 'a', 'enum': ['no', '0000'], 'title': None}
    """
    if len(text) > MAX_CHARACTERS:
        raise SchemaError(
            "the file is larger than any schema; move long lists of values into a code-list csv file"
        )
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _build(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        raise SchemaError(_where(error)) from None


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable text"
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{place}not valid YAML ({' '.join(str(problem).split())}); check indentation, colons and quotes"


def _build(events: Any) -> object:
    """Assemble the document with a stack of open collections; a mapping's pending key is its last entry."""
    root: list[object] = []
    stack: list[tuple[Any, list[str] | None]] = [(root, None)]
    documents = 0

    def put(value: object, line: int, *, scalar: bool) -> None:
        target, pending = stack[-1]
        if pending is None:
            target.append(value)
        elif pending:
            target[pending.pop()] = value
        elif not scalar or value is None:
            raise SchemaError(f"line {line}: a key must be plain text; quote it")
        elif value in target:
            raise SchemaError(f"line {line}: '{value}' is given twice; keep one of them")
        else:
            pending.append(str(value))

    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise SchemaError(f"line {line}: a second document begins; a schema file holds one")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SchemaError(
                f"line {line}: anchors and aliases (& and *) are not supported; write the value out or quote it"
            )
        elif getattr(event, "tag", None):
            raise SchemaError(
                f"line {line}: tags ({event.tag}) are not supported; remove it or quote the text"
            )
        elif isinstance(event, yaml.ScalarEvent):
            empty = event.implicit[0] and event.value in ("", "~", "null")
            put(None if empty else event.value, line, scalar=True)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(stack) > MAX_DEPTH:
                raise SchemaError(f"line {line}: nested more than {MAX_DEPTH} deep; no schema needs that")
            made: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            put(made, line, scalar=False)
            stack.append((made, None if isinstance(made, list) else []))
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return root[0] if root else None


_BASE_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE_DUMPER):  # type: ignore[misc]
    """Writes `Line` mappings in flow style and everything else as blocks."""


_Dumper.add_representer(
    Line, lambda dumper, line: dumper.represent_mapping("tag:yaml.org,2002:map", dict(line), flow_style=True)
)


def render(document: Mapping[str, object]) -> str:
    """Write plain data as YAML, keys in the given order."""
    text = yaml.dump(
        dict(document),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=False,
    )
    return str(text)
